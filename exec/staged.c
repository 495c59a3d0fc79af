/* staged.c: an op that the device has no kernel for runs on the host: wait, copy operands to the
 * host, compute, copy back. Slow, and enough to bring a backend up op by op.
 *
 * The kernel is the host's own, not the reference: it takes bf16, and the bits stay those of the
 * host. */
#include <stdint.h>

#include "exec/exec_internal.h"
#include "tensor/ops.h"
#include "tensor/slab.h"

static size_t aligned(size_t n)
{
    return (size_t)dg_align((int64_t)n);
}

static size_t bytes_of_operands(const dg_plan_instr *pi, int n)
{
    size_t bytes = aligned(pi->workspace_bytes);

    for (int k = 0; k < n; k++)
        if (pi->t[k].shape.rank >= 0)
            bytes += aligned(dg_exec_tensor_bytes(&pi->t[k]));
    return bytes;
}

int dg_staged_open(dg_exec *x, dg_diag *d)
{
    size_t most = 0;
    int n = 0;

    for (int i = 0; i < x->p->instrs.n; i++) {
        const dg_instr *in = &x->p->instrs.items[i];
        const dg_plan_instr *pi = &x->plan->instrs[i];
        size_t bytes = pi->staged ? bytes_of_operands(pi, in->n_in + in->n_out) : 0;

        most = bytes > most ? bytes : most;
        n = pi->staged && in->n_in + in->n_out > n ? in->n_in + in->n_out : n;
    }
    if (!most)
        return 0;
    x->staged_t = DG_NEW_N(x->arena, n, dg_tensor);
    x->staged_at = x->backend->alloc_pinned(x->backend, most);
    return x->staged_at ? 0
                        : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan",
                                  "no memory for operands of ops that the device lacks");
}

void dg_staged_close(dg_exec *x)
{
    if (x->staged_at)
        x->backend->free_pinned(x->backend, x->staged_at);
}

static int await(dg_exec *x)
{
    dg_backend *b = x->backend;
    int rc = b->event_record(b, x->event, DG_LANE_COMPUTE);

    x->n.waits++;
    return rc < 0 ? rc : b->event_wait(b, x->event);
}

int dg_staged_run(dg_exec *x, int i)
{
    const dg_instr *in = &x->p->instrs.items[i];
    const dg_tensor *device = x->t[i];
    dg_tensor *host = x->staged_t;
    dg_backend *b = x->backend;
    dg_args args = x->args[i];
    char *at = x->staged_at;
    dg_signature sig;
    int rc;

    DG_TRY(dg_signature_parse(&sig, in->op->signature));
    for (int k = 0; k < args.n; k++) {
        size_t bytes = device[k].data ? dg_exec_tensor_bytes(&device[k]) : 0;

        host[k] = device[k];
        if (!device[k].data)
            continue;
        host[k].data = at;
        at += aligned(bytes);
        if (k < in->n_in)
            DG_TRY(b->download(b, DG_LANE_COMPUTE, host[k].data, device[k].data, bytes));
    }
    DG_TRY(await(x)); /* the copies back of the previous op are done too */
    args.t = host;
    args.control = x->control;
    args.workspace = at;
    DG_TRY(x->plan->instrs[i].kernel->run(&args));
    for (int k = 0; k < args.n; k++)
        if (device[k].data && (k >= in->n_in || dg_signature_at(&sig, in->n_in, k)->state))
            DG_TRY(b->upload(b, DG_LANE_COMPUTE, device[k].data, host[k].data,
                             dg_exec_tensor_bytes(&device[k])));
out:
    return rc;
}
