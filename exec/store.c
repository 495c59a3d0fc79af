/* store.c: parameter spaces on a device, which the host reads and writes through a staging
 * buffer. */
#include "exec/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"

static int64_t elements(const dg_params *params, dg_space space)
{
    return space == DG_WEIGHTS || space == DG_EMA ? dg_params_elements(params)
                                                  : dg_params_trainable(params);
}

static size_t space_bytes(const dg_store *s, dg_space space)
{
    return (size_t)elements(s->params, space) * dg_dtype_size(s->base);
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

/* Before anything is allocated on a device, whose memory is what it has. */
static int check_room(dg_backend *backend, int64_t need, dg_diag *d)
{
    int64_t have, total;
    char needed[32], free_now[32];

    if (backend->immediate || backend->memory(backend, &have, &total) < 0 || need <= have)
        return 0;
    dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-parameters",
            "parameters and what an optimizer keeps of them need %s on the device, and %s are free",
            dg_human_bytes((double)need, needed, sizeof needed),
            dg_human_bytes((double)have, free_now, sizeof free_now));
    dg_help(d, "--device cpu has the memory of this machine; on GPUs, `nvidia-smi` lists what else "
               "fills them, and --device cuda:N takes another one");
    return -DG_EMEMORY;
}

int dg_store_open(dg_store **out, dg_backend *backend, const dg_params *params, dg_dtype base,
                  bool training, bool ema, dg_comm *comm, dg_diag *d)
{
    dg_store *s = calloc(1, sizeof *s);
    char bytes[32];
    int rc = check_room(backend, dg_store_bytes(params, base, training, ema), d);

    *out = NULL;
    if (!s)
        dg_oom(sizeof *s);
    if (rc < 0) {
        free(s);
        return rc;
    }
    *s = (dg_store){ .backend = backend, .params = params, .base = base };
    for (int k = 0; k < DG_N_SPACES; k++) {
        if (!wanted((dg_space)k, training, ema))
            continue;
        size_t n = space_bytes(s, (dg_space)k);

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
    for (int k = 0; k < DG_N_SPACES; k++) {
        if (!(*s)->space[k] || (k == DG_GRADIENTS && (*s)->shared))
            continue;
        if ((*s)->pinned)
            (*s)->pinned->free_pinned((*s)->pinned, (*s)->space[k]);
        else
            (*s)->backend->free((*s)->backend, (*s)->space[k]);
    }
    free(*s);
    *s = NULL;
}

/* ---- copies ---------------------------------------------------------------------------------- */

dg_store *dg_store_open_copy(const dg_store *s, dg_backend *host)
{
    dg_store *copy = calloc(1, sizeof *copy);
    bool complete = copy != NULL;

    if (copy)
        *copy = (dg_store){
            .backend = host, .params = s->params, .base = s->base, .pinned = s->backend
        };
    for (int k = 0; k < DG_N_SPACES && complete; k++) {
        size_t n = space_bytes(s, (dg_space)k);

        if (!s->space[k] || k == DG_GRADIENTS)
            continue;
        copy->space[k] = s->backend->alloc_pinned(s->backend, n ? n : 64);
        complete = copy->space[k] != NULL;
    }
    if (!complete)
        dg_store_close(&copy);
    return copy;
}

int dg_store_copy_out(const dg_store *s, dg_store *copy, dg_event *now, dg_event *copied,
                      dg_diag *d)
{
    dg_backend *b = s->backend;
    int rc = b->event_record(b, now, DG_LANE_COMPUTE);

    rc = rc < 0 ? rc : b->lane_wait(b, DG_LANE_COPY, now);
    for (int k = 0; k < DG_N_SPACES && rc == 0; k++)
        if (copy->space[k])
            rc = b->download(b, DG_LANE_COPY, copy->space[k], s->space[k],
                             space_bytes(s, (dg_space)k));
    rc = rc < 0 ? rc : b->event_record(b, copied, DG_LANE_COPY);
    rc = rc < 0 ? rc : b->lane_wait(b, DG_LANE_COMPUTE, copied);
    copy->counter = s->counter;
    return rc < 0 ? dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-copy",
                            "the device refused to copy parameters")
                  : 0;
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

/* The store's type for n values. */
static void to_base(dg_dtype base, void *to, const double *in, int64_t n)
{
    assert(in);
    if (base == DG_F64)
        memcpy(to, in, (size_t)n * sizeof *in);
    for (int64_t i = 0; base == DG_F32 && i < n; i++)
        ((float *)to)[i] = (float)in[i];
}

int dg_store_set(dg_store *s, dg_space space, int param, const double *in, dg_diag *d)
{
    void *stage;
    size_t n;
    int rc = staged(s, param, &stage, &n, d);

    if (rc < 0)
        return rc;
    to_base(s->base, stage, in, dg_shape_elements(dg_params_at(s->params, param)->shape));
    rc = device_failed(d,
                       s->backend->upload(s->backend, DG_LANE_COMPUTE, address(s, space, param),
                                          stage, n),
                       dg_params_at(s->params, param));
    dg_free(stage);
    return rc;
}

int dg_store_copy(dg_store *s, dg_space to, dg_space from, dg_diag *d)
{
    int rc = s->backend->copy(s->backend, DG_LANE_COMPUTE, s->space[to], s->space[from],
                              space_bytes(s, DG_WEIGHTS));

    return rc < 0 ? dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-copy",
                            "the device refused to copy parameters")
                  : 0;
}

/* ---- initial values -------------------------------------------------------------------------- */

enum { PIECE = 4096 }; /* elements: what stays in a core's cache */

typedef struct start {
    dg_store *s;
    uint64_t seed;
    int failed, rc; /* the parameter that the device refused; rc 0: none */
} start;

static int write_piece(const start *c, int i, int64_t from, int64_t n)
{
    static const dg_space both[] = { DG_WEIGHTS, DG_EMA };
    const dg_store *s = c->s;
    size_t each = dg_dtype_size(s->base);
    double v[PIECE], stage[PIECE];
    int rc = 0;

    dg_params_init_part(s->params, i, c->seed, from, n, v);
    to_base(s->base, stage, v, n);
    for (int k = 0; k < 2 && rc == 0; k++)
        if (s->space[both[k]])
            rc = s->backend->upload(s->backend, DG_LANE_COMPUTE,
                                    address(s, both[k], i) + (size_t)from * each, stage,
                                    (size_t)n * each);
    return rc;
}

/* Elements begin..end-1 of the weights space. Each thread has a range of its own, so that it also
 * is the one that touches that memory for the first time. */
static void start_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    start *c = ctx;
    int rc = 0;

    (void)thread;
    for (int i = 0; i < dg_params_n(c->s->params) && rc == 0; i++) {
        const dg_param_info *p = dg_params_at(c->s->params, i);
        int64_t from = begin > p->offset ? begin - p->offset : 0, to = end - p->offset,
                all = dg_shape_elements(p->shape);

        to = to < all ? to : all;
        for (int64_t k = from; p->offset >= 0 && k < to && rc == 0; k += PIECE)
            rc = write_piece(c, i, k, to - k < PIECE ? to - k : PIECE);
        if (rc < 0) {
            __atomic_store_n(&c->failed, i, __ATOMIC_RELAXED);
            __atomic_store_n(&c->rc, rc, __ATOMIC_RELAXED);
        }
    }
}

/* On a device that works late each copy from the host waits: one for each parameter. */
static int init_late(dg_store *s, uint64_t seed, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < dg_params_n(s->params) && rc == 0; i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        double *v;

        if (p->offset < 0)
            continue;
        v = dg_try_alloc((size_t)dg_shape_elements(p->shape) * sizeof *v);
        if (!v)
            return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-parameters",
                           "no memory for initial values");
        dg_params_init(s->params, i, seed, v);
        rc = dg_store_set(s, DG_WEIGHTS, i, v, d);
        dg_free(v);
    }
    return rc == 0 && s->space[DG_EMA] ? dg_store_copy(s, DG_EMA, DG_WEIGHTS, d) : rc;
}

int dg_store_init(dg_store *s, uint64_t seed, int threads, dg_diag *d)
{
    start c = { .s = s, .seed = seed };

    if (!s->backend->immediate)
        return init_late(s, seed, d);
    dg_parallel_for(threads, dg_params_elements(s->params), start_body, &c);
    return c.rc < 0 ? device_failed(d, c.rc, dg_params_at(s->params, c.failed)) : 0;
}
