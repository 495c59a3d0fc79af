/* exec.c: walks a plan. Every operand's address is worked out once, when memory is bound; a step is
 * then a loop over kernels. */
#include "runtime/exec.h"

#include <string.h>

#include "base/log.h"
#include "runtime/collective.h"
#include "runtime/recorder.h"
#include "runtime/watched.h"

typedef struct drawn {
    const double *values; /* NULL: nothing */
    int           operand;
} drawn;

struct dg_exec {
    dg_arena         *arena;
    const dg_plan    *plan;
    const dg_program *p;
    const dg_backend *backend;
    dg_comm          *comm;
    dg_spaces         spaces;
    dg_args          *args;  /* of every instruction */
    dg_tensor       **t;     /* its operands, with addresses */
    drawn            *draws; /* of every instruction: what an output of it is instead */
    int64_t          *tickets; /* of the buckets under way */
    dg_exec_hook_fn  *hook;
    void             *hook_ctx;
    dg_recorder      *recorder;
    uint32_t         *places; /* of every instruction, as the recorder numbers them */
    dg_witness       *witness;
    dg_watched       *watched;
};

/* ---- numbers in and out of device memory ----------------------------------------------------- */

static float from_bf16(uint16_t h)
{
    uint32_t u = (uint32_t)h << 16;
    float    f;

    memcpy(&f, &u, sizeof f);
    return f;
}

/* Round to nearest, ties to even; a NaN stays one. */
static uint16_t to_bf16(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof u);
    if ((u & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFFu + (u >> 16 & 1)) >> 16);
}

static double load(const void *p, dg_dtype t, int64_t i)
{
    switch (t) {
    case DG_F32:
        return (double)((const float *)p)[i];
    case DG_F64:
        return ((const double *)p)[i];
    case DG_BF16:
        return (double)from_bf16(((const uint16_t *)p)[i]);
    case DG_I32:
        return ((const int32_t *)p)[i];
    case DG_I64:
        return (double)((const int64_t *)p)[i];
    default:
        return ((const uint8_t *)p)[i];
    }
}

static void store(void *p, dg_dtype t, int64_t i, double v)
{
    switch (t) {
    case DG_F32:
        ((float *)p)[i] = (float)v;
        break;
    case DG_F64:
        ((double *)p)[i] = v;
        break;
    case DG_BF16:
        ((uint16_t *)p)[i] = to_bf16((float)v);
        break;
    case DG_I32:
        ((int32_t *)p)[i] = (int32_t)v;
        break;
    case DG_I64:
        ((int64_t *)p)[i] = (int64_t)v;
        break;
    default:
        ((uint8_t *)p)[i] = (uint8_t)v;
    }
}

static size_t tensor_bytes(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static int no_memory(size_t bytes, dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "exec-memory", "no memory for a copy of %zu bytes",
                   bytes);
}

/* n elements of another type into device memory. */
static int upload_as(const dg_exec *x, dg_tensor to, const void *from, dg_dtype type, dg_diag *d)
{
    int64_t n = dg_shape_elements(to.shape);
    size_t  bytes = (size_t)n * dg_dtype_size(to.dtype);
    void   *copy;
    int     rc;

    if (type == to.dtype)
        return x->backend->upload(x->backend, to.data, from, bytes);
    copy = dg_try_alloc(bytes);
    if (!copy)
        return no_memory(bytes, d);
    for (int64_t i = 0; i < n; i++)
        store(copy, to.dtype, i, load(from, type, i));
    rc = x->backend->upload(x->backend, to.data, copy, bytes);
    dg_free(copy);
    return rc;
}

dg_tensor dg_exec_tensor(const dg_exec *x, int32_t v)
{
    const dg_value *value = &x->p->values.items[v];
    char           *base = x->spaces.at[value->space];

    return (dg_tensor){ value->dtype, value->shape, base ? base + value->offset : NULL };
}

int dg_exec_get(const dg_exec *x, int32_t v, double *out, dg_diag *d)
{
    dg_tensor t = dg_exec_tensor(x, v);
    int64_t   n = dg_shape_elements(t.shape);
    size_t    bytes = (size_t)n * dg_dtype_size(t.dtype);
    void     *copy = dg_try_alloc(bytes);
    int       rc;

    if (!copy)
        return no_memory(bytes, d);
    rc = x->backend->download(x->backend, copy, t.data, bytes);
    for (int64_t i = 0; i < n && rc == 0; i++)
        out[i] = load(copy, t.dtype, i);
    dg_free(copy);
    return rc;
}

int dg_exec_set(dg_exec *x, int32_t v, const double *in, dg_diag *d)
{
    return upload_as(x, dg_exec_tensor(x, v), in, DG_F64, d);
}

int dg_exec_read(const dg_exec *x, const char *result, double *out, dg_diag *d)
{
    int32_t v = dg_program_result(x->p, result);

    if (!v)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "result-unknown",
                       "the program has no result \"%s\"", result);
    return dg_exec_get(x, v, out, d);
}

int dg_exec_write(dg_exec *x, const char *input, const dg_tensor *from, dg_diag *d)
{
    int32_t   v = dg_program_input(x->p, input);
    dg_tensor to;
    char      a[64], b[64];

    if (!v)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "input-unknown", "the program has no input \"%s\"",
                       input);
    to = dg_exec_tensor(x, v);
    if (!dg_shape_equal(to.shape, from->shape))
        return dg_fail(
            d, DG_EINPUT, DG_NOWHERE, "input-shape", "input \"%s\" is %s, and was given %s", input,
            dg_shape_print(to.shape, a, sizeof a), dg_shape_print(from->shape, b, sizeof b));
    return upload_as(x, to, from->data, from->dtype, d);
}

int dg_exec_draw(dg_exec *x, const char *name, const double *values, dg_diag *d)
{
    for (int i = 0; i < x->p->draws.n; i++) {
        int32_t         v = x->p->draws.items[i].value;
        const dg_value *value = &x->p->values.items[v];
        const dg_instr *in = &x->p->instrs.items[value->producer];
        drawn          *to = &x->draws[value->producer];
        size_t          bytes = (size_t)dg_shape_elements(value->shape) * sizeof *values;

        if (strcmp(x->p->draws.items[i].name, name) != 0)
            continue;
        to->values = values ? dg_memdup(x->arena, values, bytes) : NULL;
        for (to->operand = in->n_in; in->v[to->operand] != v; to->operand++)
            ;
        return 0;
    }
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "draw-unknown",
                   "the program draws nothing named \"%s\"", name);
}

/* ---- binding --------------------------------------------------------------------------------- */

static int write_constants(dg_exec *x, dg_diag *d)
{
    for (int32_t v = 1; v < x->p->values.n; v++) {
        const dg_value *value = &x->p->values.items[v];
        int             rc;

        if (value->space != DG_CONSTANTS || !value->constant)
            continue;
        rc = upload_as(x, dg_exec_tensor(x, v), value->constant,
                       value->dtype == DG_I32 ? DG_I32 : DG_F64, d);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int dg_exec_bind(dg_exec *x, const dg_spaces *spaces, dg_diag *d)
{
    bool constants = spaces->at[DG_CONSTANTS] != x->spaces.at[DG_CONSTANTS];

    x->spaces = *spaces;
    for (int i = 0; i < x->p->instrs.n; i++) {
        const dg_instr      *in = &x->p->instrs.items[i];
        const dg_plan_instr *pi = &x->plan->instrs[i];
        dg_tensor           *t = x->t[i];

        for (int k = 0; k < in->n_in + in->n_out; k++) {
            t[k] = in->v[k] ? dg_exec_tensor(x, in->v[k]) : pi->t[k];
            if (in->v[k] && !t[k].data)
                return dg_fail(d, DG_EINTERNAL, in->origin.where, "space-unbound",
                               "%s needs space %s, which has no memory", in->op->name,
                               dg_space_name(x->p->values.items[in->v[k]].space));
        }
        x->args[i].t = t;
        x->args[i].n = in->n_in + in->n_out;
        x->args[i].attr = in->attr;
        x->args[i].handle = pi->handle;
        x->args[i].threads = x->plan->threads;
        x->args[i].workspace =
            pi->workspace_bytes ? (char *)spaces->at[DG_SLAB] + pi->workspace : NULL;
    }
    return constants ? write_constants(x, d) : 0;
}

int dg_exec_open(dg_exec **out, const dg_plan *plan, const dg_backend *backend,
                 const dg_spaces *spaces, dg_comm *comm, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_exec  *x = DG_NEW(a, dg_exec);
    int       rc;

    x->arena = a;
    x->plan = plan;
    x->p = plan->program;
    x->backend = backend;
    x->comm = comm;
    x->args = DG_NEW_N(a, x->p->instrs.n + 1, dg_args);
    x->t = DG_NEW_N(a, x->p->instrs.n + 1, dg_tensor *);
    for (int i = 0; i < x->p->instrs.n; i++)
        x->t[i] = DG_NEW_N(a, x->p->instrs.items[i].n_in + x->p->instrs.items[i].n_out, dg_tensor);
    x->draws = DG_NEW_N(a, x->p->instrs.n + 1, drawn);
    x->tickets = DG_NEW_N(a, dg_collective_buckets(x->p) + 1, int64_t);
    rc = dg_exec_bind(x, spaces, d);
    if (rc < 0)
        dg_exec_close(&x);
    *out = x;
    return rc;
}

void dg_exec_close(dg_exec **x)
{
    dg_arena *a = *x ? (*x)->arena : NULL;

    dg_arena_close(&a);
    *x = NULL;
}

void dg_exec_hook(dg_exec *x, dg_exec_hook_fn *hook, void *ctx)
{
    x->hook = hook;
    x->hook_ctx = ctx;
}

void dg_exec_watch(dg_exec *x, dg_recorder *r)
{
    x->recorder = r;
    if (!x->places)
        x->places = DG_NEW_N(x->arena, x->p->instrs.n + 1, uint32_t);
    for (int i = 0; i < x->p->instrs.n; i++)
        x->places[i] = dg_recorder_place(r, &x->p->instrs.items[i].origin.where);
}

void dg_exec_attend(dg_exec *x, dg_witness *w)
{
    x->witness = w;
    x->watched = dg_watched_find(x->arena, x->p);
}

int dg_exec_see_inputs(dg_exec *x, dg_diag *d)
{
    return x->witness ? dg_watched_see(x->watched, x->witness, x, x->backend, x->p->instrs.n, false, d) : 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static int run_collective(dg_exec *x, int i, dg_diag *d)
{
    const dg_collective_call c = { x->comm, x->backend, x->p, &x->p->instrs.items[i], &x->args[i], x->tickets };

    return dg_collective_run(&c, d);
}

static int run_instr(dg_exec *x, int i, const dg_control *control, dg_diag *d)
{
    const dg_instr      *in = &x->p->instrs.items[i];
    const dg_plan_instr *pi = &x->plan->instrs[i];
    const drawn         *given = &x->draws[i];
    int                  errors = dg_diag_errors(d), rc = 0;

    x->args[i].control = control;
    if (given->values && in->n_out == 1)
        rc = 0; /* there is nothing else to compute */
    else if (pi->kernel)
        rc = pi->kernel->run(&x->args[i]);
    else
        rc = run_collective(x, i, d);
    if (given->values && rc == 0)
        rc = upload_as(x, x->args[i].t[given->operand], given->values, DG_F64, d);
    if (rc < 0 && dg_diag_errors(d) == errors)
        return dg_fail(d, (dg_code)-rc, in->origin.where, "kernel-failed", "%s failed: %s",
                       in->op->name,
                       rc == -DG_ENUMERIC       ? "a number is not finite"
                       : rc == -DG_EMEMORY      ? "out of memory"
                       : rc == -DG_EUNSUPPORTED ? "not possible on this device"
                       : rc == -DG_ESTOP        ? "stopped"
                                                : "an operand is not what it should be");
    return rc;
}

/* Whether instruction i has a guard that is 0. */
static int is_off(dg_exec *x, int i, bool *off)
{
    int32_t guard = x->p->instrs.items[i].guard, flag = 1;
    int     rc = 0;

    if (guard)
        rc = x->backend->download(x->backend, &flag, dg_exec_tensor(x, guard).data, sizeof flag);
    *off = flag == 0;
    return rc;
}

/* What a skipped instruction leaves: one of its inputs, or zeros where anybody looks. */
static int leave(dg_exec *x, int i)
{
    const dg_instr  *in = &x->p->instrs.items[i];
    const dg_tensor *out = x->t[i] + in->n_in, *instead = &x->t[i][in->otherwise - !!in->otherwise];
    uint32_t         zero = x->plan->instrs[i].zero;
    int              rc = 0;

    if (in->otherwise && instead->data != out->data)
        return x->backend->copy(x->backend, out->data, instead->data, tensor_bytes(out));
    for (int k = 0; !in->otherwise && k < in->n_out && rc == 0; k++)
        if (zero >> k & 1)
            rc = x->backend->clear(x->backend, out[k].data, tensor_bytes(&out[k]));
    return rc;
}

int dg_exec_run(dg_exec *x, dg_segment segment, const dg_control *control, dg_diag *d)
{
    uint32_t place = UINT32_MAX;

    for (int i = 0; i < x->p->instrs.n; i++) {
        double begin = x->hook ? dg_monotonic_s() : 0;
        bool   off;
        int    rc;

        if (x->p->instrs.items[i].segment != segment)
            continue;
        if (x->recorder && x->places[i] != place)
            dg_recorder_at(x->recorder, place = x->places[i]);
        if (x->p->instrs.items[i].op->effect == DG_COLLECTIVE) /* it, or the next one, may wait for ever */
            dg_witness_tell(x->witness);
        rc = is_off(x, i, &off);
        if (rc == 0 && off)
            rc = leave(x, i);
        else if (rc == 0 && !x->plan->instrs[i].alias)
            rc = run_instr(x, i, control, d);
        if (rc == 0 && x->witness)
            rc = dg_watched_see(x->watched, x->witness, x, x->backend, i, off, d);
        if (rc < 0)
            return rc;
        if (off || x->plan->instrs[i].alias)
            continue;
        if (x->hook) {
            rc = x->backend->finish(x->backend);
            if (rc < 0)
                return rc;
            x->hook(x->hook_ctx, i, dg_monotonic_s() - begin);
        }
    }
    dg_witness_tell(x->witness);
    return x->backend->finish(x->backend);
}
