/* edits.c: see edits.h. */
#include "tests/proof/edits.h"

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------------------- */

void files_add(files *f, const char *name, const char *text)
{
    assert_true(f->n < MOST_FILES);
    f->name[f->n] = strdup(name);
    f->text[f->n++] = strdup(text);
}

void files_close(files *f)
{
    for (int i = 0; i < f->n; i++) {
        free(f->name[i]);
        free(f->text[i]);
    }
    f->n = 0;
}

static int number_of(const files *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->name[i], name) == 0)
            return i;
    return -1;
}

const char *files_text(const files *f, const char *name)
{
    const int i = number_of(f, name);

    return i < 0 ? NULL : f->text[i];
}

void files_write(const files *f)
{
    for (int i = 0; i < f->n; i++) {
        FILE *out = fopen(f->name[i], "w");

        assert_non_null(out);
        assert_true(fputs(f->text[i], out) >= 0);
        assert_int_equal(fclose(out), 0);
    }
}

/* n bytes at `at` of file i give way to `by`. */
static void replace(files *f, int i, size_t at, size_t n, const char *by)
{
    char *old = f->text[i], *out = malloc(strlen(old) + strlen(by) + 1);

    assert_non_null(out);
    memcpy(out, old, at);
    strcpy(out + at, by);
    strcat(out, old + at + n);
    free(old);
    f->text[i] = out;
}

/* ---- one edit -------------------------------------------------------------------------------- */

typedef struct edit {
    enum { WRITE, INSTEAD, TAKE_ATTR, TAKE, UNWRAP, PUT } what;
    char name[64], value[256], insert[512]; /* an attribute; an element, or an old attribute */
    char element[64], id[64], file[256];
    int line;
} edit;

static bool is_name_end(char c)
{
    return strchr(" \t\n/>", c) != NULL;
}

/* "<class id="x"> (line 7)" or "(FILE:7)"; returns what follows, or NULL. */
static const char *read_place(edit *e, const char *s, const char *file)
{
    int n = 0;

    if (sscanf(s, "<%63[^ >]%n", e->element, &n) != 1)
        return NULL;
    s += n;
    if (sscanf(s, " id=\"%63[^\"]\"%n", e->id, &n) == 1)
        s += n;
    if (*s++ != '>')
        return NULL;
    if (strncmp(s, " out (", 6) == 0)
        s += 4;
    snprintf(e->file, sizeof e->file, "%s", file);
    if (sscanf(s, " (line %d)%n", &e->line, &n) == 1 && s[n - 1] == ')')
        return s + n;
    if (sscanf(s, " (%255[^:)]:%d)%n", e->file, &e->line, &n) == 2 && s[n - 1] == ')')
        return s + n;
    return NULL;
}

/* Reads one edit; returns what follows, or NULL. */
static const char *read_edit(edit *e, const char *s, const char *file)
{
    int n = 0;

    *e = (edit){ 0 };
    if (sscanf(s, "write %63[^=]=\"%255[^\"]\" in place of %511[^ ] at %n", e->name, e->value,
               e->insert, &n) == 3 &&
        n) {
        e->what = INSTEAD;
        s += n;
        snprintf(e->file, sizeof e->file, "%s", file);
        if (sscanf(s, "line %d%n", &e->line, &n) == 1 ||
            sscanf(s, "%255[^:]:%d%n", e->file, &e->line, &n) == 2)
            return s + n;
        return NULL;
    }
    if (sscanf(s, "write %63[^=]=\"%255[^\"]\" in %n", e->name, e->value, &n) == 2 && n) {
        e->what = WRITE;
        return read_place(e, s + n, file);
    }
    if (sscanf(s, "take %63[a-z_0-9]=\"%255[^\"]\" out of %n", e->name, e->value, &n) == 2 && n) {
        e->what = TAKE_ATTR;
        return read_place(e, s + n, file);
    }
    if (strncmp(s, "take the tags of <", 18) == 0) {
        e->what = UNWRAP;
        return read_place(e, s + 17, file);
    }
    if (strncmp(s, "take <", 6) == 0) {
        e->what = TAKE;
        return read_place(e, s + 5, file);
    }
    if (sscanf(s, "put %511[^>]> before %n", e->insert, &n) == 1 && n) {
        e->what = PUT;
        strcat(e->insert, ">");
        return read_place(e, s + n, file);
    }
    return NULL;
}

/* The end of a tag: behind its '>'. */
static const char *end_of(const char *tag)
{
    char quote = 0;

    for (; *tag && (quote || *tag != '>'); tag++)
        quote = quote ? (*tag == quote ? 0 : quote) : (*tag == '"' || *tag == '\'' ? *tag : 0);
    return *tag ? tag + 1 : tag;
}

/* The attribute in a tag: where its name begins; *n: how long it is, with its value. */
static const char *attribute(const char *tag, const char *name, size_t *n)
{
    const char *end = end_of(tag);
    const size_t len = strlen(name);

    for (const char *s = tag; s < end; s++) {
        const char *q;

        if (!strchr(" \t\n", *s) || strncmp(s + 1, name, len) != 0 || s[1 + len] != '=')
            continue;
        q = strchr(s + 3 + len, s[2 + len]);
        *n = (size_t)(q - s);
        return s + 1;
    }
    return NULL;
}

static bool has_id(const char *tag, const char *id)
{
    const char *last = strrchr(id, '.'), *at;
    size_t n;

    at = attribute(tag, "id", &n);
    last = last ? last + 1 : id;
    return !*id || (at && strlen(last) + 5 == n && strncmp(at + 4, last, strlen(last)) == 0);
}

static const char *line_of(const char *text, int line)
{
    for (int k = 1; k < line && text; k++) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text;
}

/* The start tag of the element, which begins in that line; NULL: there is none. */
static const char *find(const char *text, const edit *e)
{
    const size_t len = strlen(e->element);

    text = line_of(text, e->line);
    for (; text && *text && *text != '\n'; text++)
        if (*text == '<' && strncmp(text + 1, e->element, len) == 0 && is_name_end(text[1 + len]) &&
            has_id(text, e->id))
            return text;
    return NULL;
}

/* The end tag of the element, whose content begins here. */
static const char *end_tag(const char *s, const char *element)
{
    const size_t len = strlen(element);

    for (int depth = 1; (s = strchr(s, '<')); s++) {
        const bool ends = s[1] == '/';

        if (strncmp(s + 1 + ends, element, len) != 0 || !is_name_end(s[1 + ends + len]))
            continue;
        depth += ends ? -1 : end_of(s)[-2] != '/';
        if (depth == 0)
            return s;
    }
    return NULL;
}

/* In that line, once. */
static bool instead(files *f, int i, const edit *e)
{
    const char *line = i < 0 ? NULL : line_of(f->text[i], e->line), *at;
    char by[512];

    at = line ? strstr(line, e->insert) : NULL;
    if (!at || at > line + strcspn(line, "\n"))
        return false;
    snprintf(by, sizeof by, "%s=\"%s\"", e->name, e->value);
    replace(f, i, (size_t)(at - f->text[i]), strlen(e->insert), by);
    return true;
}

static bool make(files *f, const edit *e)
{
    const int i = number_of(f, e->file);
    const char *tag = i < 0 ? NULL : find(f->text[i], e), *old, *end;
    char by[512];
    size_t n = 0, at;

    if (e->what == INSTEAD)
        return instead(f, i, e);
    if (!tag)
        return false;
    old = attribute(tag, e->name, &n);
    at = (size_t)((old ? old : tag + 1 + strlen(e->element)) - f->text[i]);
    switch (e->what) {
    case WRITE:
        snprintf(by, sizeof by, "%s%s=\"%s\"", old ? "" : " ", e->name, e->value);
        replace(f, i, at, old ? n : 0, by);
        return true;
    case TAKE_ATTR:
        if (old)
            replace(f, i, at, n, "");
        return old != NULL;
    case PUT:
        replace(f, i, (size_t)(tag - f->text[i]), 0, e->insert);
        return true;
    case UNWRAP:
        end = end_tag(end_of(tag), e->element);
        if (!end)
            return false;
        at = (size_t)(tag - f->text[i]);
        n = (size_t)(end_of(tag) - tag);
        replace(f, i, (size_t)(end - f->text[i]), strlen(e->element) + 3, "");
        replace(f, i, at, n, "");
        return true;
    default: /* with what is inside */
        end = end_of(tag);
        if (end[-2] != '/')
            end = end_tag(end, e->element);
        if (!end)
            return false;
        end = end_of(end == end_of(tag) ? tag : end);
        n = (size_t)(end - tag);
        replace(f, i, (size_t)(tag - f->text[i]), n, "");
        return true;
    }
}

bool follow(files *f, const char *file, const char *help, char why[256])
{
    static const char *const verbs[] = { "write ", "take ", "put " };
    const char *s = help, *colon;
    edit e;

    for (colon = s; (colon = strstr(colon, ": ")); colon += 2)
        for (int i = 0; i < 3; i++)
            if (strncmp(colon + 2, verbs[i], strlen(verbs[i])) == 0 && s == help)
                s = colon + 2;
    for (;;) {
        const char *next = read_edit(&e, s, file);

        snprintf(why, 256, "%s: \"%.200s\"", next ? "cannot be made" : "is no edit", s);
        if (!next || !make(f, &e))
            return false;
        if (!*next)
            return true;
        if (strncmp(next, ", and ", 6) != 0)
            return false;
        s = next + 6;
    }
}
