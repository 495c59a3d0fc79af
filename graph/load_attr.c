/* load_attr.c: reads an element's attributes into its conf struct, by the table of its class. */
#include "graph/load.h"

#include <string.h>

#include "graph/attr.h"

/* 1e-400, 1e400: written as a number, but with an exponent that none has here. */
static bool is_beyond_numbers(const char *text, dg_arena *arena)
{
    size_t n = strcspn(text, "eE");
    const char *power = text + n + (text[n] != '\0');
    double v;

    power += *power == '+' || *power == '-';
    return *power && !power[strspn(power, "0123456789")] &&
           dg_parse_f64(dg_strndup(arena, text, n), &v) && !dg_parse_f64(text, &v);
}

bool dg_load_attr(dg_loader *l, const dg_item *item, const dg_item_attr *a, const dg_attr *row,
                  void *conf)
{
    const char *text = a->value;
    dg_str expected = { 0 };

    if (a->bad)
        return false;
    if (text[0] == '@' && text[1] != '@') {
        dg_load_error(&l->report, item->frame, a->value_at, "attr-wire",
                      "%s=\"%s\": this attribute takes no wire", a->name, text);
        dg_load_error_help(&l->report, "@@ is a literal @");
        return false;
    }
    if (dg_attr_read(row, conf, text + (text[0] == '@'), a->folder, l->arena))
        return true;
    if (dg_load_left_out(l, item, a))
        return false;
    dg_attr_expected(&expected, row);
    dg_load_error(&l->report, item->frame, a->value_at, "attr-value", "%s=\"%s\": expected %s",
                  a->name, text, expected.s);
    dg_str_free(&expected);
    if (row->kind == DG_ATTR_ENUM) {
        const char *const *words, *near;
        int n = dg_attr_words(&words, row, l->arena);

        near = dg_nearest(text, words, n);
        if (near)
            dg_load_error_help(&l->report, "did you mean \"%s\"?", near);
    }
    if (row->kind == DG_ATTR_NUM && is_beyond_numbers(text, l->arena))
        dg_load_error_help(&l->report, "numbers here are 0, or from 1e-323 to 1e308");
    if (row->flags & DG_ATTR_BATCH && strcmp(text, "auto") == 0)
        dg_load_error_help(&l->report,
                           "write <let batch=\"auto\"/> at the top, and %s=\"$batch\" here",
                           a->name);
    return false;
}

void dg_load_unknown(dg_loader *l, const dg_item *item, const dg_item_attr *a, const char *called,
                     const char *const names[], int n)
{
    if (dg_load_left_out(l, item, a))
        return;
    dg_load_error(&l->report, item->frame, a->at, "attr-unknown", "%s has no attribute \"%s\"",
                  called, a->name);
    dg_load_error_nearest(&l->report, a->name, names, n, "its attributes");
}

/* True if an unknown attribute with a similar name is reported instead of the missing one. */
static bool misspelt(const dg_item *item, const dg_attr *table, const char *others,
                     const char *name)
{
    for (int i = 0; i < item->n_attrs; i++) {
        const char *have = item->attrs[i].name;

        if (!dg_attr_find(table, have) && !dg_is_among(others, have) && dg_nearest(have, &name, 1))
            return true;
    }
    return false;
}

bool dg_load_attrs(dg_loader *l, const dg_item *item, const char *called, const dg_attr *table,
                   void *conf, const char *others)
{
    const char *names[128];
    int n = 0, before = l->report.n;

    dg_attr_defaults(table, conf, l->arena);
    for (const dg_attr *row = table; row && row->name && n < 100; row++) {
        names[n++] = row->name;
        if (row->required && !dg_item_find(item, row->name) &&
            !misspelt(item, table, others, row->name)) {
            dg_str expected = { 0 };

            dg_attr_expected(&expected, row);
            dg_load_error(&l->report, item->frame, item->at, "attr-missing",
                          "%s needs %s=\"...\": %s (%s)", called, row->name, expected.s, row->doc);
            dg_str_free(&expected);
        }
    }
    for (const char *p = others; p && *p && n < 128; p += strcspn(p, " "), p += *p == ' ')
        names[n++] = dg_strndup(l->arena, p, strcspn(p, " "));
    for (int i = 0; i < item->n_attrs; i++) {
        const dg_item_attr *a = &item->attrs[i];
        const dg_attr *row = dg_attr_find(table, a->name);

        if (row)
            dg_load_attr(l, item, a, row, conf);
        else if (!dg_is_among(others, a->name))
            dg_load_unknown(l, item, a, called, names, n);
    }
    return l->report.n == before && dg_item_whole(item);
}
