/* params.c: the parameters of a run in order of declaration, and their offsets in the parameter
 * spaces:
 *     | trainable ... | frozen ... | buffers ... |      each rounded up to DG_PARAM_ALIGN elements
 * Initial values are drawn with Philox keyed by (seed, path), so that other parameters do not
 * change them, and rounded to f32, so that f32 and f64 runs start equal. */
#include "tensor/params.h"

#include <stdatomic.h>
#include <string.h>

#include "base/map.h"
#include "base/rng.h"

typedef struct item {
    dg_param_info info; /* first: pointers to it point to the item */
    int index;
} item;

struct dg_params {
    dg_arena *arena;
    DG_VEC(item *) items;
    dg_map *by_path, *by_name; /* -> item */
    int64_t size[DG_BUFFER + 1];
    bool sealed;
    atomic_int values, instrs; /* of the longest program */
};

dg_params *dg_params_open(void)
{
    dg_arena *a = dg_arena_open();
    dg_params *p = DG_NEW(a, dg_params);

    p->arena = a;
    p->by_path = dg_map_new(a);
    p->by_name = dg_map_new(a);
    return p;
}

void dg_params_close(dg_params **p)
{
    if (!*p)
        return;
    dg_arena *a = (*p)->arena;

    dg_arena_close(&a);
    *p = NULL;
}

static void raise_to(atomic_int *most, int n)
{
    int old = atomic_load(most);

    while (old < n && !atomic_compare_exchange_weak(most, &old, n))
        ;
}

void dg_params_note_length(dg_params *p, int values, int instrs)
{
    raise_to(&p->values, values);
    raise_to(&p->instrs, instrs);
}

void dg_params_length(const dg_params *p, int *values, int *instrs)
{
    *values = atomic_load(&p->values);
    *instrs = atomic_load(&p->instrs);
}

int dg_params_n(const dg_params *p)
{
    return p->items.n;
}

const dg_param_info *dg_params_at(const dg_params *p, int i)
{
    return &p->items.items[i]->info;
}

static int index_of(const dg_param_info *info)
{
    return info ? ((const item *)info)->index : -1;
}

int dg_params_find(const dg_params *p, const char *name)
{
    return index_of(dg_map_get(p->by_name, name));
}

int dg_params_find_path(const dg_params *p, const char *path)
{
    return index_of(dg_map_get(p->by_path, path));
}

enum { MAX_ELEMENTS_LOG2 = 40 }; /* beyond any memory, without overflow */

bool dg_shape_fits(dg_shape s)
{
    double n = 1;

    for (int i = 0; i < s.rank; i++) {
        if (s.d[i] < 1)
            return false;
        n *= (double)s.d[i];
    }
    return s.rank >= 0 && s.rank <= DG_MAX_DIMS && n <= (double)(1LL << MAX_ELEMENTS_LOG2);
}

static int64_t rounded(dg_shape s)
{
    return (dg_shape_elements(s) + DG_PARAM_ALIGN - 1) / DG_PARAM_ALIGN * DG_PARAM_ALIGN;
}

static const char *const kinds[] = {
    [DG_TRAINABLE] = "trainable",      [DG_FROZEN] = "frozen",
    [DG_BUFFER] = "a buffer",          [DG_EXPORT_CONST] = "a constant",
    [DG_EXPORT_COUNTER] = "a counter",
};

static int compare_again(const dg_param_info *old, const dg_param_info *info, dg_diag *d)
{
    char a[64], b[64];

    if (!dg_shape_equal(old->shape, info->shape))
        return dg_fail(d, DG_EINPUT, info->where, "param-shape",
                       "parameter %s has shape %s here and %s elsewhere", info->path,
                       dg_shape_print(info->shape, a, sizeof a),
                       dg_shape_print(old->shape, b, sizeof b));
    if (old->kind != info->kind)
        return dg_fail(d, DG_EINPUT, info->where, "param-kind",
                       "parameter %s is %s here and %s elsewhere", info->path, kinds[info->kind],
                       kinds[old->kind]);
    return 0;
}

static int check_new(const dg_params *p, const dg_param_info *info, dg_diag *d)
{
    char shape[64];
    const dg_param_info *like = info->like ? dg_map_get(p->by_path, info->like) : NULL;

    if (p->sealed)
        return dg_fail(d, DG_EINTERNAL, info->where, "param-sealed",
                       "parameter %s is declared after the parameters were laid out", info->path);
    if (!dg_shape_fits(info->shape))
        return dg_fail(d, DG_EINPUT, info->where, "param-size",
                       "parameter %s is %s: dimensions begin at 1, and 2^40 elements are the limit",
                       info->path, dg_shape_print(info->shape, shape, sizeof shape));
    if (info->like && (!like || !dg_shape_equal(like->shape, info->shape)))
        return dg_fail(d, DG_EINPUT, info->where, "param-like",
                       "parameter %s begins like %s, which %s", info->path, info->like,
                       like ? "has another shape" : "is not declared before it");
    if (info->init.kind == DG_INIT_DATA && info->init.n != dg_shape_elements(info->shape))
        return dg_fail(d, DG_EINPUT, info->where, "param-values",
                       "parameter %s has %lld elements and %d initial values", info->path,
                       (long long)dg_shape_elements(info->shape), (int)info->init.n);
    if (dg_map_has(p->by_name, info->name))
        return dg_fail(d, DG_EINPUT, info->where, "param-name",
                       "parameters %s and %s have one name in files, %s",
                       ((const dg_param_info *)dg_map_get(p->by_name, info->name))->path,
                       info->path, info->name);
    return 0;
}

int dg_params_declare(dg_params *p, const dg_param_info *info, dg_diag *d)
{
    const dg_param_info *old = dg_map_get(p->by_path, info->path);
    int rc = old ? compare_again(old, info, d) : check_new(p, info, d);

    if (rc < 0)
        return rc;
    if (old)
        return index_of(old);

    item *it = DG_NEW(p->arena, item);
    dg_param_info *own = &it->info;
    size_t n = (size_t)dg_shape_elements(info->shape);

    *own = *info;
    it->index = p->items.n;
    own->path = dg_strdup(p->arena, info->path);
    own->name = dg_strdup(p->arena, info->name);
    own->like = info->like ? dg_strdup(p->arena, info->like) : NULL;
    own->where.file = info->where.file ? dg_strdup(p->arena, info->where.file) : NULL;
    own->where.node = info->where.node ? dg_strdup(p->arena, info->where.node) : NULL;
    if (info->init.kind == DG_INIT_DATA)
        own->init.p = dg_memdup(p->arena, info->init.p, n * sizeof(double));
    if (info->values)
        own->values = dg_memdup(p->arena, info->values, n * sizeof(double));
    own->zero_row = info->init.kind & DG_INIT_ZERO_ROW ? info->init.n : -1;
    own->offset = -1;
    if (own->kind <= DG_BUFFER) {
        /* relative to its kind until sealed; final for trainable ones */
        own->offset = p->size[own->kind];
        p->size[own->kind] += rounded(own->shape);
    }
    dg_map_set(p->by_path, own->path, own);
    dg_map_set(p->by_name, own->name, own);
    DG_PUSH(p->arena, p->items, it);
    return it->index;
}

void dg_params_seal(dg_params *p)
{
    int64_t base[DG_BUFFER + 1] = {
        0,
        p->size[DG_TRAINABLE],
        p->size[DG_TRAINABLE] + p->size[DG_FROZEN],
    };

    if (p->sealed)
        return;
    for (int i = 0; i < p->items.n; i++) {
        dg_param_info *info = &p->items.items[i]->info;

        if (info->kind <= DG_BUFFER)
            info->offset += base[info->kind];
    }
    p->sealed = true;
}

int64_t dg_params_elements(const dg_params *p)
{
    return p->size[DG_TRAINABLE] + p->size[DG_FROZEN] + p->size[DG_BUFFER];
}

int64_t dg_params_trainable(const dg_params *p)
{
    return p->size[DG_TRAINABLE];
}

/* Zeros the elements of a row that are among from..from+n-1; out is element `from`. */
static void clear_row(const dg_param_info *info, int64_t from, int64_t n, double *out)
{
    int64_t each = dg_shape_elements(info->shape) / info->shape.d[0];
    int64_t begin = info->zero_row * each, end = begin + each;

    begin = begin > from ? begin : from;
    end = end < from + n ? end : from + n;
    if (begin < end)
        memset(out + begin - from, 0, (size_t)(end - begin) * sizeof *out);
}

void dg_params_init_part(const dg_params *p, int i, uint64_t seed, int64_t from, int64_t n,
                         double *out)
{
    const dg_param_info *info = dg_params_at(p, i);

    while (info->like)
        info = dg_map_get(p->by_path, info->like);
    dg_rng_key key = dg_rng_named(seed, info->path);
    int kind = info->init.kind & ~DG_INIT_ZERO_ROW;
    double a = info->init.a;

    if (info->values) {
        memcpy(out, info->values + from, (size_t)n * sizeof *out);
        return;
    }
    if (kind == DG_INIT_UNIFORM)
        dg_rng_uniforms(key, (uint64_t)from, out, n);
    dg_rng rng = dg_rng_begin(key, 0, 0);

    if (kind == DG_INIT_NORMAL)
        dg_rng_skip(&rng, (uint64_t)from * 4); /* each of two uniforms of two u32 */
    for (int64_t k = 0; k < n; k++) {
        double v = 0;

        if (kind == DG_INIT_CONST)
            v = a;
        else if (kind == DG_INIT_UNIFORM)
            v = dg_rng_scaled(out[k], -a, a);
        else if (kind == DG_INIT_NORMAL)
            v = a * dg_rng_normal(&rng);
        else if (kind == DG_INIT_DATA)
            v = ((const double *)info->init.p)[from + k];
        out[k] = (double)(float)v;
    }
    if (info->zero_row >= 0 && info->shape.rank > 0 && info->zero_row < info->shape.d[0])
        clear_row(info, from, n, out);
}

void dg_params_init(const dg_params *p, int i, uint64_t seed, double *out)
{
    dg_params_init_part(p, i, seed, 0, dg_shape_elements(dg_params_at(p, i)->shape), out);
}
