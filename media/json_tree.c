/* json_tree.c: a whole JSON text as a read-only tree. Values wait on one stack until their
 * container ends, then move to an exactly sized array. */
#include "media/json.h"

#include <math.h>
#include <string.h>

#include "base/file.h"

typedef struct frame {
    int first;       /* index of its first value on the stack */
    const char *key; /* the container's own key */
    dg_where at;
} frame;

typedef struct tree {
    dg_arena *arena, *scratch;
    DG_VEC(dg_json) waiting;
    frame frames[DG_JSON_MAX_DEPTH];
    int depth, n_values;
    const char *key; /* of the next value */
    const char *text, *file;
    size_t n, seen; /* lines are counted up to byte `seen` */
    dg_where at;
} tree;

/* Position of the current event; events come in order, so each byte is scanned once. */
static dg_where where(tree *t, const dg_json_reader *r)
{
    size_t offset = dg_json_offset(r);
    dg_where more;

    if (offset > t->seen && offset <= t->n) {
        more = dg_json_where(t->text + t->seen, t->n - t->seen, t->file, offset - t->seen);
        t->at.column = more.line == 1 ? t->at.column + more.column - 1 : more.column;
        t->at.line += more.line - 1;
        t->seen = offset;
    }
    return t->at;
}

static int push(tree *t, dg_json_reader *r, dg_json v)
{
    if (++t->n_values > DG_JSON_MAX_VALUES)
        return dg_json_fail(r, "json-size", "more than %d values", DG_JSON_MAX_VALUES);
    v.key = t->key;
    t->key = NULL;
    DG_PUSH(t->scratch, t->waiting, v);
    return 0;
}

static int on_value(void *ctx, dg_json_reader *r, const dg_json_scalar *s)
{
    tree *t = ctx;
    dg_json v = { .kind = s->kind, .truth = s->truth, .at = where(t, r) };

    if (s->kind == DG_JSON_STRING)
        v.text = dg_strndup(t->arena, s->text, s->n);
    (void)dg_json_real(s, &v.number);
    return push(t, r, v);
}

static int on_key(void *ctx, dg_json_reader *r, const char *text, size_t n)
{
    tree *t = ctx;

    (void)r;
    t->key = dg_strndup(t->arena, text, n);
    return 0;
}

static int on_begin(void *ctx, dg_json_reader *r, dg_json_kind kind)
{
    tree *t = ctx;

    (void)kind;
    t->frames[t->depth++] = (frame){ t->waiting.n, t->key, where(t, r) };
    t->key = NULL;
    return 0;
}

static int on_end(void *ctx, dg_json_reader *r, dg_json_kind kind)
{
    tree *t = ctx;
    const frame f = t->frames[--t->depth];
    const int n = t->waiting.n - f.first;
    dg_json v = { .kind = kind, .n = n, .at = f.at };

    if (n)
        v.items = dg_memdup(t->arena, t->waiting.items + f.first, sizeof(dg_json) * (size_t)n);
    t->waiting.n = f.first;
    t->key = f.key;
    return push(t, r, v);
}

static const dg_json_events events = {
    .value = on_value,
    .key = on_key,
    .begin = on_begin,
    .end = on_end,
};

int dg_json_parse(const dg_json **out, dg_arena *a, const char *text, size_t n, const char *file,
                  dg_diag *d)
{
    tree *t;
    int rc;

    if (n > DG_JSON_MAX_BYTES)
        return dg_fail(d, DG_EINPUT, (dg_where){ file, 0, 0, NULL }, "json-size",
                       "%zu bytes of JSON; at most %d are read", n, DG_JSON_MAX_BYTES);
    dg_arena *scratch = dg_arena_open();

    t = DG_NEW(scratch, tree);
    *t = (tree){ .arena = a, .scratch = scratch, .text = text, .n = n, .file = dg_strdup(a, file) };
    t->at = (dg_where){ t->file, 1, 1, NULL };
    DG_TRY(dg_json_events_read(text, n, t->file, &events, t, d));
    *out = dg_memdup(a, t->waiting.items, sizeof(dg_json));
out:
    dg_arena_close(&scratch);
    return rc;
}

int dg_json_read(const dg_json **out, dg_arena *a, const char *path, dg_diag *d)
{
    char *text = NULL;
    size_t n = 0;
    int rc;

    DG_TRY(dg_file_read(&text, &n, path, DG_JSON_MAX_BYTES, d));
    DG_TRY(dg_json_parse(out, a, text, n, path, d));
out:
    dg_free(text);
    return rc;
}

const dg_json *dg_json_get(const dg_json *o, const char *key)
{
    for (int i = o && o->kind == DG_JSON_OBJECT ? o->n : 0; i-- > 0;)
        if (strcmp(o->items[i].key, key) == 0)
            return &o->items[i];
    return NULL;
}

const char *dg_json_text(const dg_json *o, const char *key)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_STRING ? v->text : "";
}

double dg_json_number(const dg_json *o, const char *key)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_NUMBER ? v->number : NAN;
}

int dg_json_need(const dg_json **out, const dg_json *o, const char *key, dg_json_kind kind,
                 dg_diag *d)
{
    const dg_json *v = dg_json_get(o, key);

    if (o->kind != DG_JSON_OBJECT)
        return dg_fail(d, DG_EINPUT, o->at, "json-kind",
                       "%s where an object with \"%s\" is expected", dg_json_kind_name(o->kind),
                       key);
    if (!v)
        return dg_fail(d, DG_EINPUT, o->at, "json-key", "this object has no \"%s\"", key);
    if (v->kind != kind)
        return dg_fail(d, DG_EINPUT, v->at, "json-kind", "\"%s\" is %s, expected %s", key,
                       dg_json_kind_name(v->kind), dg_json_kind_name(kind));
    *out = v;
    return 0;
}
