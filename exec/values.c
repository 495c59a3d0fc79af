/* values.c: moves numbers between host and device memory, and reads the report of a run. */
#include <string.h>

#include "base/element.h"
#include "base/log.h"
#include "exec/exec_internal.h"

size_t dg_exec_tensor_bytes(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static int no_memory_for_copy(size_t bytes, dg_diag *d)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "exec-memory", "no memory for a copy of %zu bytes",
                   bytes);
}

int dg_exec_upload(dg_exec *x, dg_tensor to, const void *from, dg_dtype type, dg_diag *d)
{
    int64_t n = dg_shape_elements(to.shape);
    size_t bytes = (size_t)n * dg_dtype_size(to.dtype);
    void *copy;
    int rc;

    if (type == to.dtype)
        return x->backend->upload(x->backend, DG_LANE_COMPUTE, to.data, from, bytes);
    copy = dg_try_alloc(bytes);
    if (!copy)
        return no_memory_for_copy(bytes, d);
    dg_elements_convert(copy, to.dtype, from, type, n);
    rc = x->backend->upload(x->backend, DG_LANE_COMPUTE, to.data, copy, bytes);
    dg_free(copy);
    return rc;
}

dg_tensor dg_exec_tensor(const dg_exec *x, int32_t v)
{
    const dg_value *value = &x->p->values.items[v];
    char *base = x->spaces.at[value->space];

    return (dg_tensor){ value->dtype, value->shape, base ? base + value->offset : NULL };
}

int dg_exec_settle(dg_exec *x, dg_diag *d)
{
    dg_backend *b = x->backend;
    double began;
    int rc;

    if (x->settled || b->immediate) {
        x->settled = true;
        return 0;
    }
    x->n.waits++;
    began = dg_monotonic_s();
    if (x->plan->report_bytes)
        DG_TRY(b->download(b, DG_LANE_COMPUTE, x->report_host, x->report,
                           (size_t)x->plan->report_bytes));
    DG_TRY(b->event_record(b, x->event, DG_LANE_COMPUTE));
    DG_TRY(b->event_wait(b, x->event));
    x->n.waited_s += dg_monotonic_s() - began;
    DG_TRY(dg_timing_read_stretches(x));
out:
    x->settled = rc == 0; /* a failure is said to every caller */
    return rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : 0;
}

dg_exec_counts dg_exec_count(const dg_exec *x)
{
    return x->n;
}

/* Reads a value from the report if it has it, else by a separate copy. */
int dg_exec_peek(dg_exec *x, int32_t v, const void **bytes, dg_diag *d)
{
    dg_tensor t = dg_exec_tensor(x, v);
    size_t n = dg_exec_tensor_bytes(&t);
    int rc = dg_landing_take(x);

    rc = rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : dg_exec_settle(x, d);
    if (rc < 0)
        return rc;
    *bytes = x->p->values.items[v].space == DG_REPORT
                 ? (char *)x->report_host + x->p->values.items[v].offset
                 : t.data;
    if (x->backend->immediate || x->p->values.items[v].space == DG_REPORT)
        return 0;
    if (n > x->piece_bytes) {
        dg_free(x->piece);
        x->piece = dg_try_alloc(n);
        x->piece_bytes = x->piece ? n : 0;
    }
    x->n.waits++;
    *bytes = x->piece;
    return x->piece ? x->backend->download(x->backend, DG_LANE_COMPUTE, x->piece, t.data, n)
                    : no_memory_for_copy(n, d);
}

int dg_exec_get(dg_exec *x, int32_t v, double *out, dg_diag *d)
{
    dg_tensor t = dg_exec_tensor(x, v);
    int64_t n = dg_shape_elements(t.shape);
    const void *bytes;
    int rc = dg_exec_peek(x, v, &bytes, d);

    for (int64_t i = 0; i < n && rc == 0; i++)
        out[i] = dg_element(bytes, t.dtype, i);
    return rc;
}

int dg_exec_set(dg_exec *x, int32_t v, const double *in, dg_diag *d)
{
    int rc = dg_landing_take(x);

    x->settled = x->settled && x->p->values.items[v].space != DG_REPORT;
    return rc < 0 ? rc : dg_exec_upload(x, dg_exec_tensor(x, v), in, DG_F64, d);
}

int dg_exec_read(dg_exec *x, const char *result, double *out, dg_diag *d)
{
    int32_t v = dg_program_result(x->p, result);

    if (!v)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "result-unknown",
                       "the program has no result \"%s\"", result);
    return dg_exec_get(x, v, out, d);
}

static int check_input(const dg_exec *x, int32_t input, const dg_tensor *from, dg_diag *d)
{
    dg_tensor to;
    char a[64], b[64];

    if (!input)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "input-unknown", "the program has no such input");
    to = dg_exec_tensor(x, input);
    if (!dg_shape_equal(to.shape, from->shape))
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "input-shape",
                       "input \"%s\" is %s, and was given %s", x->p->values.items[input].name,
                       dg_shape_print(to.shape, a, sizeof a),
                       dg_shape_print(from->shape, b, sizeof b));
    return 0;
}

int dg_exec_write(dg_exec *x, int32_t input, const dg_tensor *from, dg_diag *d)
{
    int rc = check_input(x, input, from, d);

    if (rc < 0)
        return rc;
    if (!x->spaces.landing)
        return dg_exec_upload(x, dg_exec_tensor(x, input), from->data, from->dtype, d);
    rc = dg_landing_put(x, input, from);
    return rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : 0;
}

int dg_exec_write_ahead(dg_exec *x, int64_t batch, int32_t input, const dg_tensor *from, dg_diag *d)
{
    int rc = check_input(x, input, from, d);

    if (rc < 0)
        return rc;
    rc = dg_landing_put_ahead(x, batch, input, from);
    return rc < 0 ? dg_exec_failed(x, DG_NO_MARK, rc, d) : 0;
}

int dg_exec_draw(dg_exec *x, const char *name, const double *values, dg_diag *d)
{
    for (int i = 0; i < x->p->draws.n; i++) {
        int32_t v = x->p->draws.items[i].value;
        const dg_value *value = &x->p->values.items[v];
        const dg_instr *in = &x->p->instrs.items[value->producer];
        dg_drawn *to = &x->draws[value->producer];
        size_t bytes = (size_t)dg_shape_elements(value->shape) * sizeof *values;

        if (strcmp(x->p->draws.items[i].name, name) != 0)
            continue;
        to->values = values ? dg_memdup(x->arena, values, bytes) : NULL;
        for (to->operand = in->n_in; in->v[to->operand] != v; to->operand++)
            ;
        dg_replay_forget(x);
        return 0;
    }
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "draw-unknown",
                   "the program draws nothing named \"%s\"", name);
}
