/* records.c: reads lists of like objects from JSON events. The depth tells what an event is:
 *
 *    { "images": [ { "id": 7, "bbox": [ 1, 2, 3, 4 ] } ] }
 *    1           2 3                  4                       a list without a key begins at 2 */
#include "media/records.h"

#include <math.h>
#include <stdalign.h>
#include <string.h>

#include "base/str.h"

enum { TOP = 1, LIST = 2, RECORD = 3, BOX = 4 };

typedef struct reading {
    const dg_section *sections, *section; /* section: of the list being read */
    int n_sections;
    uint32_t seen; /* bit set of sections */
    int depth;
    const dg_json_field *field; /* the field of the next value */
    uint32_t has;
    size_t start; /* offset of the record */
    int n_box;
    dg_arena *arena;
    void *ctx;
    alignas(16) uint8_t record[DG_RECORD_MAX];
} reading;

static const char *expected(const dg_json_field *f)
{
    static const char *const text[] = {
        "a whole number", "a whole number or text", "a number", "a string", "0 or 1",
        "4 numbers",      "a list or an object",
    };

    return text[f->kind];
}

/* For files that have nothing of COCO's. */
#define OTHER_JSON "; if VIA or Label Studio wrote it, let them export COCO"

static int wrong_kind(const reading *t, const dg_json_reader *r, const char *found)
{
    if (t->depth == RECORD || t->depth == BOX)
        return dg_json_fail(r, "record-kind", "\"%s\" of this %s is %s%s, expected %s",
                            t->field->name, t->section->noun, t->depth == BOX ? "a list with " : "",
                            found, expected(t->field));
    if (t->depth == LIST)
        return dg_json_fail(r, "record-kind", "%s in the list of %ss, expected an object", found,
                            t->section->noun);
    if (t->depth == TOP)
        return dg_json_fail(r, "record-kind", "\"%s\" is %s, expected a list of objects",
                            t->section->key, found);
    return dg_json_fail(r, "record-kind", "the file holds %s, expected %s", found,
                        t->sections->key ? "an object" OTHER_JSON : "a list of objects");
}

static bool take_id(const dg_json_scalar *v, int64_t *out)
{
    char number[24];

    if (v->kind != DG_JSON_STRING)
        return dg_json_int(v, out);
    if (v->n == 0)
        return false;
    if (v->n < sizeof number) {
        memcpy(number, v->text, v->n);
        number[v->n] = '\0';
        if (strlen(number) == v->n && dg_parse_i64(number, out))
            return true;
    }
    *out = (int64_t)(1ull << 52 | (dg_fnv1a(v->text, v->n) & ((1ull << 52) - 1)));
    return true;
}

static int take_box(reading *t, dg_json_reader *r, const dg_json_scalar *v)
{
    double *box = (double *)(void *)(t->record + t->field->offset), x;

    if (!dg_json_real(v, &x))
        return wrong_kind(t, r, dg_json_kind_name(v->kind));
    if (t->n_box == 4)
        return dg_json_fail(r, "record-value", "\"%s\" of this %s has more than 4 numbers",
                            t->field->name, t->section->noun);
    if (!isfinite(x))
        return dg_json_fail(r, "record-value",
                            "\"%s\" of this %s has %.*s for its %s, which must be finite",
                            t->field->name, t->section->noun, (int)v->n, v->text,
                            (const char *const[]){ "left", "top", "width", "height" }[t->n_box]);
    box[t->n_box++] = x;
    return 0;
}

static int on_value(void *ctx, dg_json_reader *r, const dg_json_scalar *v)
{
    reading *t = ctx;
    uint8_t *place;
    bool fits = false;
    int64_t i;

    if (t->depth == BOX)
        return take_box(t, r, v);
    if (t->depth != RECORD)
        return wrong_kind(t, r, dg_json_kind_name(v->kind));
    place = t->record + t->field->offset;
    if (t->field->kind == DG_JSON_PLACE) {
        *(size_t *)(void *)place = dg_json_offset(r);
        return 0;
    }
    if (v->kind == DG_JSON_NULL && !t->field->needed)
        return 0;
    switch (t->field->kind) {
    case DG_JSON_INT:
        fits = dg_json_int(v, (int64_t *)(void *)place);
        break;
    case DG_JSON_ID:
        fits = take_id(v, (int64_t *)(void *)place);
        break;
    case DG_JSON_REAL:
        fits = dg_json_real(v, (double *)(void *)place);
        if (fits && !isfinite(*(double *)(void *)place))
            return dg_json_fail(r, "record-value", "\"%s\" of this %s is %.*s, which is not finite",
                                t->field->name, t->section->noun, (int)v->n, v->text);
        break;
    case DG_JSON_TEXT:
        fits = v->kind == DG_JSON_STRING;
        if (fits)
            *(const char **)(void *)place = dg_strndup(t->arena, v->text, v->n);
        break;
    case DG_JSON_FLAG:
        fits = v->kind == DG_JSON_BOOL || (dg_json_int(v, &i) && (i == 0 || i == 1));
        if (fits)
            *(bool *)place = v->kind == DG_JSON_BOOL ? v->truth : i == 1;
        break;
    case DG_JSON_BOX:
    case DG_JSON_PLACE:
        break;
    }
    if (!fits)
        return wrong_kind(t, r,
                          v->kind == DG_JSON_NUMBER ? "a number that does not fit"
                                                    : dg_json_kind_name(v->kind));
    t->has |= 1u << (t->field - t->section->fields);
    return 0;
}

static bool same_name(const char *name, const char *text, size_t n)
{
    return strlen(name) == n && memcmp(name, text, n) == 0;
}

static int on_key(void *ctx, dg_json_reader *r, const char *text, size_t n)
{
    reading *t = ctx;

    if (t->depth == TOP) {
        for (int i = 0; i < t->n_sections; i++) {
            if (!same_name(t->sections[i].key, text, n))
                continue;
            t->section = &t->sections[i];
            if (t->seen & 1u << i)
                return dg_json_fail(r, "record-section", "\"%s\" stands twice in this file",
                                    t->section->key);
            t->seen |= 1u << i;
            return 0;
        }
    } else {
        for (t->field = t->section->fields; t->field->name; t->field++)
            if (same_name(t->field->name, text, n))
                return t->has & 1u << (t->field - t->section->fields)
                           ? dg_json_fail(r, "record-key", "\"%s\" stands twice in this %s",
                                          t->field->name, t->section->noun)
                           : 0;
    }
    dg_json_skip(r);
    return 0;
}

static int on_begin(void *ctx, dg_json_reader *r, dg_json_kind kind)
{
    reading *t = ctx;
    const bool box = t->depth == RECORD && t->field->kind == DG_JSON_BOX;
    const bool list = t->depth == TOP || (t->depth == 0 && !t->sections->key) || box;
    const dg_json_kind want = list ? DG_JSON_ARRAY : DG_JSON_OBJECT;

    if (kind != want || t->depth == BOX || (t->depth == RECORD && !box))
        return wrong_kind(t, r, dg_json_kind_name(kind));
    if (t->depth == 0 && !t->sections->key) {
        t->section = t->sections;
        t->depth = TOP;
    }
    t->depth++;
    if (t->depth == BOX)
        t->n_box = 0;
    if (t->depth == RECORD) {
        memset(t->record, 0, sizeof t->record);
        t->has = 0;
        t->start = dg_json_offset(r);
    }
    return 0;
}

static int end_record(reading *t, dg_json_reader *r)
{
    const dg_json_field *f = t->section->fields;

    for (int i = 0; f[i].name; i++)
        if (f[i].needed && !(t->has & 1u << i))
            return dg_json_fail_at(r, t->start, "record-key", "this %s has no \"%s\"",
                                   t->section->noun, f[i].name);
    return t->section->take(t->ctx, r, t->record, t->has, t->start);
}

static int on_end(void *ctx, dg_json_reader *r, dg_json_kind kind)
{
    reading *t = ctx;
    int depth = t->depth--;

    (void)kind;
    if (depth == RECORD)
        return end_record(t, r);
    if (depth == BOX && t->n_box < 4)
        return dg_json_fail(r, "record-value", "\"%s\" of this %s has %d numbers, expected 4",
                            t->field->name, t->section->noun, t->n_box);
    if (depth == BOX)
        t->has |= 1u << (t->field - t->section->fields);
    if (depth == TOP)
        for (int i = 0; i < t->n_sections; i++)
            if (!(t->seen & 1u << i))
                return dg_json_fail_at(r, 0, "record-section", "the file has no list \"%s\"%s",
                                       t->sections[i].key, t->seen ? "" : OTHER_JSON);
    return 0;
}

static void on_passed(void *ctx, size_t offset)
{
    const reading *t = ctx;

    t->sections->passed(t->ctx, offset);
}

int dg_records_read(const char *text, size_t n, const char *file, const dg_section *sections,
                    int n_sections, dg_arena *a, void *ctx, dg_diag *d)
{
    const dg_json_events events = {
        .value = on_value,
        .key = on_key,
        .begin = on_begin,
        .end = on_end,
        .drop = sections->drop,
        .passed = sections->passed ? on_passed : NULL,
    };
    reading t = { .sections = sections, .n_sections = n_sections, .arena = a, .ctx = ctx };

    return dg_json_events_read(text, n, file, &events, &t, d);
}
