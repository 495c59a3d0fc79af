/* collective.c: see collective.h.
 *
 *  all_reduce       y <- reduction of x over all ranks           (these also as NAME_i32)
 *  reduce_to        the same on rank `root`; the others keep x
 *  broadcast        y <- x of rank `root`
 *  all_gather       y <- x of every rank, in rank order
 *  all_reduce_space a whole space, in place
 *  reduce_begin, reduce_end     one bucket of it: begun during backward, awaited before the
 * update */
#include "exec/collective.h"

#include <stdio.h>
#include <string.h>

#include "tensor/ops.h"
#include "tensor/plan.h"

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static const dg_tensor *output(const dg_collective_call *c)
{
    return &c->args->t[c->in->n_out ? c->in->n_in : 0];
}

/* ---- staging operands for the communicator
 * ---------------------------------------------------- */

static size_t bucket_bytes(const dg_instr *in, dg_dtype type)
{
    const bucket_attr *attr = in->attr;

    return (size_t)(attr->end - attr->begin) * dg_dtype_size(type);
}

/* Twice the largest operand: a gather reads one half and writes the other. */
static size_t operand_bytes(const dg_program *p)
{
    size_t most = 0;

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        if (in->op->effect != DG_COLLECTIVE || in->op == DG_OP(reduce_begin) ||
            in->op == DG_OP(reduce_end))
            continue;
        for (int k = 0; k < in->n_in + in->n_out; k++) {
            size_t n = in->v[k] ? dg_plan_value_bytes(p, in->v[k]) : 0;

            most = n > most ? n : most;
        }
    }
    return 2 * most;
}

/* Which collective of the program this is, by what does not depend on the rank: ids of ranks with
 * other image sizes are equal, too. */
static const dg_comm_place *place_of(dg_arena *a, const dg_program *p, const dg_instr *in,
                                     int number)
{
    dg_comm_place *place = DG_NEW(a, dg_comm_place);
    const dg_value *x = &p->values.items[in->v[0]];
    const dg_where *at = &in->origin.where;
    const char *file = at->file ? at->file : "", *slash = strrchr(file, '/');

    place->id =
        1 | dg_fnv1a_text(dg_printf(a, "%d %s %d %d %s %lld %llx", in->origin.node, in->op->name,
                                    number, (int)in->segment, dg_dtype_name(x->dtype),
                                    (long long)dg_shape_elements(x->shape),
                                    (unsigned long long)dg_fnv1a(in->attr, in->op->attr_bytes)));
    snprintf(place->text, sizeof place->text, "of %.50s (%.40s:%d:%d)",
             at->node ? at->node : "no node", slash ? slash + 1 : file, at->line, at->column);
    return place;
}

static void name_places(dg_staging *s, dg_arena *a, const dg_program *p)
{
    int number = 0;

    s->places = DG_NEW_N(a, p->instrs.n + 1, const dg_comm_place *);
    for (int i = 0; i < p->instrs.n; i++)
        if (p->instrs.items[i].op->effect == DG_COLLECTIVE)
            s->places[i] = place_of(a, p, &p->instrs.items[i], number++);
}

int dg_staging_open(dg_staging *s, dg_arena *a, const dg_program *p, dg_backend *backend,
                    const dg_comm *comm, dg_diag *d)
{
    bool staged = comm && !backend->immediate && !comm->device;
    size_t n = staged ? operand_bytes(p) + 64 : 0;

    s->n_buckets = dg_gradient_buckets(p);
    s->tickets = DG_NEW_N(a, s->n_buckets + 1, int64_t);
    s->buckets = DG_NEW_N(a, s->n_buckets + 1, void *);
    name_places(s, a, p);
    if (!n)
        return 0;
    s->operand = backend->alloc_pinned(backend, n);
    s->brought = backend->event_open(backend);
    for (int i = 0; i < p->instrs.n && s->operand; i++) {
        const dg_instr *in = &p->instrs.items[i];
        int k = in->op == DG_OP(reduce_begin) ? (int)((const bucket_attr *)in->attr)->bucket : -1;

        if (k < 0)
            continue;
        s->buckets[k] =
            backend->alloc_pinned(backend, bucket_bytes(in, p->values.items[in->v[0]].dtype));
        if (!s->buckets[k])
            s->n_buckets = k;
    }
    return s->operand && s->brought && s->n_buckets == dg_gradient_buckets(p)
               ? 0
               : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan",
                         "no memory for operands of collectives");
}

void dg_staging_close(dg_staging *s, dg_backend *backend)
{
    for (int i = 0; i < s->n_buckets; i++)
        if (s->buckets[i])
            backend->free_pinned(backend, s->buckets[i]);
    if (s->operand)
        backend->free_pinned(backend, s->operand);
    if (s->brought)
        backend->event_close(backend, &s->brought);
}

static int of_device(const dg_collective_call *c, int rc)
{
    *c->device_failed = *c->device_failed || rc < 0;
    return rc;
}

/* Makes t readable for the communicator: itself, or a pinned copy once the device has written it.
 * The copy lane may go on with the next batch. */
static int bring(const dg_collective_call *c, dg_tensor *t, void *pinned)
{
    dg_backend *b = c->backend;
    int rc;

    if (!pinned)
        return 0;
    ++*c->n_waits;
    rc = b->download(b, DG_LANE_COMPUTE, pinned, t->data, bytes_of(t));
    t->data = pinned;
    if (rc == 0)
        rc = b->event_record(b, c->staging->brought, DG_LANE_COMPUTE);
    return of_device(c, rc < 0 ? rc : b->event_wait(b, c->staging->brought));
}

/* Copies the communicator's result back to device memory. */
static int take_back(const dg_collective_call *c, void *to, const dg_tensor *from)
{
    dg_backend *b = c->backend;

    return to == from->data
               ? 0
               : of_device(c, b->upload(b, DG_LANE_COMPUTE, to, from->data, bytes_of(from)));
}

/* y <- x on the device, unless they share memory. */
static int copy(const dg_collective_call *c, const dg_tensor *to, const dg_tensor *from)
{
    dg_backend *b = c->backend;

    return to->data == from->data
               ? 0
               : of_device(c, b->copy(b, DG_LANE_COMPUTE, to->data, from->data, bytes_of(from)));
}

/* ---- one function per kind ------------------------------------------------------------------- */

static int reduce(const dg_collective_call *c, dg_tensor *x, dg_reduce op)
{
    int64_t ticket = 0;
    int rc = c->comm->start(c->comm, *x, op, &ticket);

    return rc < 0 ? rc : c->comm->wait(c->comm, ticket);
}

static int all_reduce(const dg_collective_call *c)
{
    const reduce_attr *attr = c->in->attr;
    dg_tensor y = *output(c);
    int rc = copy(c, &y, &c->args->t[0]);

    if (rc == 0)
        rc = bring(c, &y, c->staging->operand);
    if (rc == 0)
        rc = reduce(c, &y, (dg_reduce)attr->op);
    return rc < 0 ? rc : take_back(c, output(c)->data, &y);
}

/* Every rank takes part; only the root gets the result, the others keep x. */
static int reduce_to(const dg_collective_call *c)
{
    const reduce_attr *attr = c->in->attr;
    bool root = c->comm->rank == attr->root;
    dg_tensor x = c->args->t[0];
    void *own = NULL;
    int rc;

    if (root)
        return all_reduce(c);
    if (!c->staging->operand) {
        own = dg_try_alloc(bytes_of(&x));
        if (!own)
            return -DG_EMEMORY;
        memcpy(own, x.data, bytes_of(&x));
        x.data = own;
    }
    rc = bring(c, &x, c->staging->operand);
    if (rc == 0)
        rc = reduce(c, &x, (dg_reduce)attr->op);
    dg_free(own);
    return rc < 0 ? rc : copy(c, output(c), &c->args->t[0]);
}

static int broadcast(const dg_collective_call *c)
{
    const reduce_attr *attr = c->in->attr;
    dg_tensor y = *output(c);
    int rc = copy(c, &y, &c->args->t[0]);

    if (rc == 0)
        rc = bring(c, &y, c->staging->operand);
    if (rc == 0)
        rc = c->comm->broadcast(c->comm, y.data, bytes_of(&y), (int)attr->root);
    return rc < 0 ? rc : take_back(c, output(c)->data, &y);
}

static int all_gather(const dg_collective_call *c)
{
    dg_tensor x = c->args->t[0], y = *output(c);
    int rc = bring(c, &x, c->staging->operand);

    if (c->staging->operand) /* the gathered data is after this rank's own */
        y.data = (char *)c->staging->operand + bytes_of(&y);
    if (rc == 0)
        rc = c->comm->gather(c->comm, x.data, bytes_of(&x), y.data);
    return rc < 0 ? rc : take_back(c, output(c)->data, &y);
}

/* False for batches before an update's last one: they only add to the gradients. */
static bool is_due(const dg_collective_call *c)
{
    return c->control->accumulated + 1 >= c->program->accumulate;
}

static dg_tensor bucket_of(const dg_collective_call *c, const bucket_attr *attr)
{
    dg_tensor t = c->args->t[0];

    t.data = (char *)t.data + (size_t)attr->begin * dg_dtype_size(t.dtype);
    t.shape = DG_SHAPE(attr->end - attr->begin);
    return t;
}

static int reduce_begin(const dg_collective_call *c)
{
    const bucket_attr *attr = c->in->attr;
    dg_tensor t = bucket_of(c, attr);
    int rc = is_due(c) ? bring(c, &t, c->staging->buckets[attr->bucket]) : 0;

    if (rc < 0 || !is_due(c))
        return rc;
    return c->comm->start(c->comm, t, (dg_reduce)attr->op, &c->staging->tickets[attr->bucket]);
}

static int reduce_end(const dg_collective_call *c)
{
    const bucket_attr *attr = c->in->attr;
    dg_tensor t = bucket_of(c, attr);
    void *home = t.data;
    int rc = c->comm->wait(c->comm, c->staging->tickets[attr->bucket]);

    if (c->staging->buckets[attr->bucket])
        t.data = c->staging->buckets[attr->bucket];
    return rc < 0 ? rc : take_back(c, home, &t);
}

typedef int run_fn(const dg_collective_call *c);

static run_fn *find(const dg_op *op)
{
    static const struct {
        dg_op_id id;
        run_fn *run;
    } table[] = {
        { DG_OP_all_reduce, all_reduce },       { DG_OP_all_reduce_i32, all_reduce },
        { DG_OP_all_reduce_space, all_reduce }, { DG_OP_reduce_to, reduce_to },
        { DG_OP_reduce_to_i32, reduce_to },     { DG_OP_reduce_begin, reduce_begin },
        { DG_OP_broadcast, broadcast },         { DG_OP_broadcast_i32, broadcast },
        { DG_OP_reduce_end, reduce_end },       { DG_OP_all_gather, all_gather },
        { DG_OP_all_gather_i32, all_gather },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (op == &dg_ops[table[i].id])
            return table[i].run;
    return NULL;
}

int dg_gradient_buckets(const dg_program *p)
{
    int n = 0;

    for (int i = 0; i < p->instrs.n; i++)
        n += p->instrs.items[i].op == DG_OP(reduce_begin);
    return n;
}

int dg_collective_run(const dg_collective_call *c, dg_diag *d)
{
    run_fn *run = find(c->in->op);
    int rc;

    if (!c->comm)
        return dg_fail(d, DG_EUNSUPPORTED, c->in->origin.where, "no-communicator",
                       "%s needs other ranks, and this run has one", c->in->op->name);
    c->comm->place = *c->staging->places[c->in - c->program->instrs.items];
    rc = run ? run(c) : -DG_EUNSUPPORTED;
    c->comm->place = (dg_comm_place){ 0 };
    if (rc == 0 || *c->device_failed)
        return rc;
    dg_fail(d, (dg_code)-rc, c->in->origin.where, "collective-failed", "%s: %s", c->in->op->name,
            c->comm->why[0]     ? c->comm->why
            : rc == -DG_ESTOP   ? "stopped"
            : rc == -DG_EMEMORY ? "out of memory"
                                : "the communicator cannot do it");
    if (rc == -DG_EINTERNAL)
        dg_help(d, "the ranks went different ways: a row of a plugin's class is not true, or its "
                   "nodes compute on one rank what they do not on another");
    return rc;
}
