/* collective.c: see collective.h.
 *
 *   all_reduce       y <- reduction of x over all ranks           (these also as NAME_i32)
 *   reduce_to        the same on rank `root`; the others keep x
 *   broadcast        y <- x of rank `root`
 *   all_gather       y <- x of every rank, in their order
 *   all_reduce_space a whole space, where it is
 *   reduce_begin, reduce_end     one bucket of it: begun while backward still runs, awaited before the update */
#include "runtime/collective.h"

#include <string.h>

#include "tensor/ops.h"

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

/* What t holds, on the heap; NULL if that cannot be had. */
static void *keep(const dg_collective_call *c, const dg_tensor *t)
{
    void *stage = dg_try_alloc(bytes_of(t));

    if (stage && c->backend->download(c->backend, stage, t->data, bytes_of(t)) < 0) {
        dg_free(stage);
        stage = NULL;
    }
    return stage;
}

/* y <- x, where they are not the same memory. */
static int copy(const dg_collective_call *c, const dg_tensor *to, const dg_tensor *from)
{
    void *stage;
    int   rc;

    if (to->data == from->data)
        return 0;
    stage = keep(c, from);
    rc = stage ? c->backend->upload(c->backend, to->data, stage, bytes_of(from)) : -DG_EMEMORY;
    dg_free(stage);
    return rc;
}

static const dg_tensor *output(const dg_collective_call *c)
{
    return &c->args->t[c->in->n_out ? c->in->n_in : 0];
}

static int all_reduce(const dg_collective_call *c)
{
    const reduce_attr *attr = c->in->attr;
    int64_t            ticket;
    int                rc = copy(c, output(c), &c->args->t[0]);

    if (rc == 0)
        rc = c->comm->start(c->comm, *output(c), (dg_reduce)attr->op, &ticket);
    return rc < 0 ? rc : c->comm->wait(c->comm, ticket);
}

static int reduce_to(const dg_collective_call *c)
{
    const reduce_attr *attr = c->in->attr;
    bool               root = c->comm->rank == attr->root;
    void              *own = root ? NULL : keep(c, &c->args->t[0]);
    int                rc = root || own ? all_reduce(c) : -DG_EMEMORY;

    if (rc == 0 && !root)
        rc = c->backend->upload(c->backend, output(c)->data, own, bytes_of(output(c)));
    dg_free(own);
    return rc;
}

static int broadcast(const dg_collective_call *c)
{
    const reduce_attr *attr = c->in->attr;
    int                rc = copy(c, output(c), &c->args->t[0]);

    return rc < 0 ? rc : c->comm->broadcast(c->comm, output(c)->data, bytes_of(output(c)), (int)attr->root);
}

static int all_gather(const dg_collective_call *c)
{
    return c->comm->gather(c->comm, c->args->t[0].data, bytes_of(&c->args->t[0]), output(c)->data);
}

/* Batches before the last one of an update only add to the gradients. */
static int reduce_begin(const dg_collective_call *c)
{
    const bucket_attr *attr = c->in->attr;
    dg_tensor          t = c->args->t[0];

    if (c->args->control->accumulated + 1 < c->program->accumulate)
        return 0;
    t.data = (char *)t.data + (size_t)attr->begin * dg_dtype_size(t.dtype);
    t.shape = DG_SHAPE(attr->end - attr->begin);
    return c->comm->start(c->comm, t, (dg_reduce)attr->op, &c->tickets[attr->bucket]);
}

static int reduce_end(const dg_collective_call *c)
{
    return c->comm->wait(c->comm, c->tickets[((const bucket_attr *)c->in->attr)->bucket]);
}

typedef int run_fn(const dg_collective_call *c);

static run_fn *find(const dg_op *op)
{
    static const struct {
        dg_op_id id;
        run_fn  *run;
    } table[] = {
        { DG_OP_all_reduce, all_reduce },     { DG_OP_all_reduce_i32, all_reduce }, { DG_OP_all_reduce_space, all_reduce },
        { DG_OP_reduce_to, reduce_to },       { DG_OP_reduce_to_i32, reduce_to },   { DG_OP_reduce_begin, reduce_begin },
        { DG_OP_broadcast, broadcast },       { DG_OP_broadcast_i32, broadcast },   { DG_OP_reduce_end, reduce_end },
        { DG_OP_all_gather, all_gather },     { DG_OP_all_gather_i32, all_gather },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (op == &dg_ops[table[i].id])
            return table[i].run;
    return NULL;
}

int dg_collective_buckets(const dg_program *p)
{
    int n = 0;

    for (int i = 0; i < p->instrs.n; i++)
        n += p->instrs.items[i].op == DG_OP(reduce_begin);
    return n;
}

int dg_collective_run(const dg_collective_call *c, dg_diag *d)
{
    run_fn *run = find(c->in->op);
    int     rc;

    if (!c->comm)
        return dg_fail(d, DG_EUNSUPPORTED, c->in->origin.where, "no-communicator", "%s needs other ranks, and this run has one",
                       c->in->op->name);
    rc = run ? run(c) : -DG_EUNSUPPORTED;
    if (rc == 0)
        return 0;
    return dg_fail(d, (dg_code)-rc, c->in->origin.where, "collective-failed", "%s: %s", c->in->op->name,
                   c->comm->why[0]    ? c->comm->why
                   : rc == -DG_ESTOP  ? "stopped"
                   : rc == -DG_EMEMORY ? "out of memory"
                                       : "the communicator cannot do it");
}
