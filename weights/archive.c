/* archive.c: finds the weights in a folder, recognises the formats, and converts stored elements to
 * double. */
#include "weights/archive.h"

#include <math.h>
#include <string.h>

#include "base/element.h"
#include "base/str.h"

static const struct {
    const char *name;
    size_t size;
} types[DG_N_STORED] = {
    [DG_ST_F64] = { "F64", 8 },   [DG_ST_F32] = { "F32", 4 }, [DG_ST_F16] = { "F16", 2 },
    [DG_ST_BF16] = { "BF16", 2 }, [DG_ST_I64] = { "I64", 8 }, [DG_ST_I32] = { "I32", 4 },
    [DG_ST_I16] = { "I16", 2 },   [DG_ST_I8] = { "I8", 1 },   [DG_ST_U8] = { "U8", 1 },
    [DG_ST_BOOL] = { "BOOL", 1 },
};

size_t dg_stored_size(dg_stored t)
{
    return types[t].size;
}

const char *dg_stored_name(dg_stored t)
{
    return types[t].name;
}

bool dg_stored_find(dg_stored *t, const char *name)
{
    for (int i = 0; i < DG_N_STORED; i++)
        if (strcmp(types[i].name, name) == 0) {
            *t = (dg_stored)i;
            return true;
        }
    return false;
}

/* An archive without entries, for the parsers. */
static dg_archive *new_archive(const char *file)
{
    dg_arena *arena = dg_arena_open();
    dg_archive *a = DG_NEW(arena, dg_archive);

    a->arena = arena;
    a->file = dg_strdup(arena, file);
    a->by_name = dg_map_new(arena);
    return a;
}

void *dg_archive_hold(dg_archive *a, size_t bytes)
{
    void *p = dg_try_alloc(bytes);

    if (!p)
        return NULL;
    if (a->n_heap == a->heap_cap)
        a->heap = dg_grow(a->arena, a->heap, &a->heap_cap, sizeof *a->heap);
    return a->heap[a->n_heap++] = p;
}

/* Weight files in a folder, by priority. */
static const char *const places[] = {
    "ema.safetensors",
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
};
enum { N_PLACES = sizeof places / sizeof *places };

const char *dg_archive_place(dg_arena *a, const char *place, bool trained)
{
    for (int i = trained; i < N_PLACES && dg_is_folder(place); i++)
        if (dg_exists(dg_path_join(a, place, places[i])))
            return dg_path_join(a, place, places[i]);
    return place;
}

/* True for .pth: a zip file begins with "PK", a pickle with opcode 0x80 (PROTO). As the length of a
 * safetensors header both would mean a terabyte, except 0x80 bytes, which '{' after it tells
 * apart. */
static bool is_pth(const dg_mapping *m)
{
    const uint8_t *p = m->p;
    size_t n = m->n;

    return (n >= 4 && memcmp(p, "PK\3\4", 4) == 0) ||
           (n >= 2 && p[0] == 0x80 && p[1] >= 2 && p[1] <= 5 && !(n > 8 && p[8] == '{'));
}

/* True for an index: JSON contains no zero bytes, a header's length does. */
static bool is_index(const dg_mapping *m)
{
    return m->n > 8 && m->p[0] == '{' && !memchr(m->p, 0, 8);
}

static int open_as(dg_archive **out, const char *file, bool with_index, dg_diag *d)
{
    dg_archive *a = new_archive(file);
    int rc;

    *out = NULL;
    DG_TRY(dg_file_map(&a->mapping, a->file, d));
    if (is_pth(&a->mapping))
        DG_TRY(dg_pth_parse(a, d));
    else if (with_index && is_index(&a->mapping))
        DG_TRY(dg_shards_parse(a, d));
    else
        DG_TRY(dg_safetensors_parse(a, a->mapping.p, a->mapping.n, d));
    *out = a;
    return 0;
out:
    dg_archive_close(&a);
    return rc;
}

int dg_archive_open_file(dg_archive **a, const char *file, dg_diag *d)
{
    return open_as(a, file, false, d);
}

static int no_weights(const char *folder, dg_diag *d)
{
    dg_str names = { 0 };

    for (int i = 0; i < N_PLACES; i++)
        dg_str_fmt(&names, "%s%s", i == 0 ? "" : i + 1 < N_PLACES ? ", " : " or ", places[i]);
    dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "weights-folder",
            "no weights in this folder, which would be %s", names.s);
    dg_str_free(&names);
    return -DG_EINPUT;
}

int dg_archive_open(dg_archive **out, const char *place, dg_diag *d)
{
    dg_arena *arena = dg_arena_open();
    const char *file = dg_archive_place(arena, place, false);
    int rc;

    *out = NULL;
    rc = dg_is_folder(file) ? no_weights(file, d) : open_as(out, file, true, d);

    dg_arena_close(&arena);
    return rc;
}

void dg_archive_close(dg_archive **a)
{
    if (!*a)
        return;
    dg_arena *arena = (*a)->arena;

    for (int i = 0; (*a)->shards && i < dg_map_n((*a)->shards); i++) {
        dg_archive *shard = dg_map_value((*a)->shards, i);

        dg_archive_close(&shard);
    }
    for (int i = 0; i < (*a)->n_heap; i++)
        dg_free((*a)->heap[i]);
    dg_file_unmap(&(*a)->mapping);
    dg_arena_close(&arena);
    *a = NULL;
}

const dg_entry *dg_archive_find(const dg_archive *a, const char *name)
{
    return dg_map_get(a->by_name, name);
}

int dg_archive_no_memory(const dg_archive *a, const char *entry, dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, (dg_where){ .file = a->file }, "weights-memory",
                   "no memory for its %s", entry);
}

/* IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static double half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 0    ? ldexp(fraction, -24)
               : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                : ldexp(fraction + 1024, exponent - 25);

    return h & 0x8000 ? -v : v;
}

static double element(dg_stored type, const uint8_t *p)
{
    union {
        double f64;
        float f32;
        int64_t i64;
        int32_t i32;
        int16_t i16;
        uint16_t u16;
    } u;

    memcpy(&u, p, types[type].size);
    switch (type) {
    case DG_ST_F64:
        return u.f64;
    case DG_ST_F32:
        return (double)u.f32;
    case DG_ST_F16:
        return half(u.u16);
    case DG_ST_BF16:
        return (double)dg_f32_of_bf16(u.u16);
    case DG_ST_I64:
        return (double)u.i64;
    case DG_ST_I32:
        return u.i32;
    case DG_ST_I16:
        return u.i16;
    case DG_ST_I8:
        return (int8_t)p[0];
    case DG_ST_U8:
        return p[0];
    case DG_ST_BOOL:
        return p[0] != 0;
    case DG_N_STORED:
        break;
    }
    return 0;
}

/* Visits the elements in row-major order. */
typedef struct walk {
    const dg_entry *e;
    int64_t at[DG_MAX_DIMS];
} walk;

static const uint8_t *next(walk *w)
{
    const dg_entry *e = w->e;
    int64_t where = 0;

    for (int k = 0; k < e->shape.rank; k++)
        where += w->at[k] * e->strides[k];
    for (int k = e->shape.rank - 1; k >= 0 && ++w->at[k] == e->shape.d[k]; k--)
        w->at[k] = 0;
    return (const uint8_t *)e->data + (size_t)where * types[e->type].size;
}

void dg_entry_read(const dg_entry *e, double *out)
{
    const uint8_t *p = e->data;
    size_t size = types[e->type].size;
    walk w = { .e = e };

    for (int64_t i = 0; i < e->n; i++)
        out[i] = element(e->type, e->strides ? next(&w) : p + (size_t)i * size);
}

void dg_entry_copy(const dg_entry *e, void *out)
{
    size_t size = types[e->type].size;
    walk w = { .e = e };

    if (!e->strides && e->n)
        memcpy(out, e->data, (size_t)e->n * size);
    for (int64_t i = 0; e->strides && i < e->n; i++)
        memcpy((uint8_t *)out + (size_t)i * size, next(&w), size);
}
