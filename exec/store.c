/* store.c: parameter spaces on a device, which the host reads and writes through a staging
 * buffer. */
#include "exec/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int64_t elements(const dg_params *params, dg_space space)
{
    return space == DG_WEIGHTS || space == DG_EMA ? dg_params_elements(params)
                                                  : dg_params_trainable(params);
}

static bool wanted(dg_space space, bool training, bool ema)
{
    return space == DG_WEIGHTS || (ema && space == DG_EMA) ||
           (training && (space == DG_GRADIENTS || space == DG_MOMENT1 || space == DG_MOMENT2));
}

int64_t dg_store_bytes(const dg_params *params, dg_dtype base, bool training, bool ema)
{
    int64_t n = 0;

    for (int s = 0; s < DG_N_SPACES; s++)
        n += wanted((dg_space)s, training, ema) ? elements(params, (dg_space)s) : 0;
    return n * (int64_t)dg_dtype_size(base);
}

int dg_store_open(dg_store **out, dg_backend *backend, const dg_params *params, dg_dtype base,
                  bool training, bool ema, dg_comm *comm, dg_diag *d)
{
    dg_store *s = calloc(1, sizeof *s);
    char bytes[32];

    if (!s)
        dg_oom(sizeof *s);
    *s = (dg_store){ .backend = backend, .params = params, .base = base };
    for (int k = 0; k < DG_N_SPACES; k++) {
        if (!wanted((dg_space)k, training, ema))
            continue;
        size_t n = (size_t)elements(params, (dg_space)k) * dg_dtype_size(base);

        /* an asynchronous device may not be able to compute in the communicator's memory */
        s->shared |= k == DG_GRADIENTS && comm && comm->memory && backend->immediate;
        s->space[k] = k == DG_GRADIENTS && s->shared ? comm->memory(comm, n ? n : 64)
                                                     : backend->alloc(backend, n ? n : 64);
        if (!s->space[k]) {
            dg_store_close(&s);
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-parameters", "no memory for %s of %s",
                           dg_human_bytes((double)n, bytes, sizeof bytes),
                           dg_space_name((dg_space)k));
        }
    }
    *out = s;
    return 0;
}

void dg_store_close(dg_store **s)
{
    if (!*s)
        return;
    for (int k = 0; k < DG_N_SPACES; k++)
        if ((*s)->space[k] && !(k == DG_GRADIENTS && (*s)->shared))
            (*s)->backend->free((*s)->backend, (*s)->space[k]);
    free(*s);
    *s = NULL;
}

bool dg_store_has(const dg_store *s, dg_space space, int param)
{
    const dg_param_info *p = dg_params_at(s->params, param);

    return p->offset >= 0 && s->space[space] &&
           (p->kind == DG_TRAINABLE || space == DG_WEIGHTS || space == DG_EMA);
}

/* Allocates a staging buffer for a parameter, in the store's type. */
static int staged(const dg_store *s, int param, void **stage, size_t *n, dg_diag *d)
{
    *n = (size_t)dg_shape_elements(dg_params_at(s->params, param)->shape) * dg_dtype_size(s->base);
    *stage = dg_try_alloc(*n);
    return *stage ? 0
                  : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-parameters", "no memory to copy %s",
                            dg_params_at(s->params, param)->name);
}

static char *address(const dg_store *s, dg_space space, int param)
{
    return (char *)s->space[space] +
           (size_t)dg_params_at(s->params, param)->offset * dg_dtype_size(s->base);
}

static int device_failed(dg_diag *d, int rc, const dg_param_info *p)
{
    return rc < 0 ? dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-copy",
                            "the device refused to copy %s", p->name)
                  : 0;
}

int dg_store_get(const dg_store *s, dg_space space, int param, double *out, dg_diag *d)
{
    void *stage;
    size_t n;
    int rc = staged(s, param, &stage, &n, d);

    if (rc < 0)
        return rc;
    rc = device_failed(d,
                       s->backend->download(s->backend, DG_LANE_COMPUTE, stage,
                                            address(s, space, param), n),
                       dg_params_at(s->params, param));
    if (rc == 0 && s->base == DG_F64)
        memcpy(out, stage, n);
    for (size_t i = 0; rc == 0 && s->base == DG_F32 && i < n / sizeof(float); i++)
        out[i] = (double)((const float *)stage)[i];
    dg_free(stage);
    return rc;
}

/* stage: a buffer for the parameter in the store's type. */
static int put(dg_store *s, dg_space space, int param, const double *in, void *stage, dg_diag *d)
{
    int64_t n = dg_shape_elements(dg_params_at(s->params, param)->shape);
    size_t bytes = (size_t)n * dg_dtype_size(s->base);

    assert(in);
    if (s->base == DG_F64)
        memcpy(stage, in, bytes);
    for (int64_t i = 0; s->base == DG_F32 && i < n; i++)
        ((float *)stage)[i] = (float)in[i];
    return device_failed(d,
                         s->backend->upload(s->backend, DG_LANE_COMPUTE, address(s, space, param),
                                            stage, bytes),
                         dg_params_at(s->params, param));
}

int dg_store_set(dg_store *s, dg_space space, int param, const double *in, dg_diag *d)
{
    void *stage;
    size_t n;
    int rc = staged(s, param, &stage, &n, d);

    if (rc < 0)
        return rc;
    rc = put(s, space, param, in, stage, d);
    dg_free(stage);
    return rc;
}

int dg_store_copy(dg_store *s, dg_space to, dg_space from, dg_diag *d)
{
    size_t n = (size_t)elements(s->params, DG_WEIGHTS) * dg_dtype_size(s->base);
    int rc = s->backend->copy(s->backend, DG_LANE_COMPUTE, s->space[to], s->space[from], n);

    return rc < 0 ? dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-copy",
                            "the device refused to copy parameters")
                  : 0;
}

static int64_t largest(const dg_params *params)
{
    int64_t n = 1;

    for (int i = 0; i < dg_params_n(params); i++) {
        int64_t k = dg_shape_elements(dg_params_at(params, i)->shape);

        n = dg_params_at(params, i)->offset >= 0 && k > n ? k : n;
    }
    return n;
}

int dg_store_init(dg_store *s, uint64_t seed, dg_diag *d)
{
    size_t n = (size_t)largest(s->params);
    double *v = dg_try_alloc(n * sizeof *v);
    void *stage = dg_try_alloc(n * dg_dtype_size(s->base));
    int rc = v && stage ? 0
                        : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-parameters",
                                  "no memory for initial values");

    for (int i = 0; rc == 0 && i < dg_params_n(s->params); i++) {
        if (dg_params_at(s->params, i)->offset < 0)
            continue;
        dg_params_init(s->params, i, seed, v);
        rc = put(s, DG_WEIGHTS, i, v, stage, d);
    }
    dg_free(stage);
    dg_free(v);
    return rc == 0 && s->space[DG_EMA] ? dg_store_copy(s, DG_EMA, DG_WEIGHTS, d) : rc;
}
