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

#include "kernels/peers.h"
#include "tensor/ops.h"
#include "tensor/plan.h"

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

/* What a communicator does with x, for y: operands, or pinned copies of them. */
typedef int run_fn(const dg_exchange *e, dg_tensor x, dg_tensor y);
/* The same between devices, put on the lane COMM. */
typedef int peers_fn(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y);

struct dg_exchange {
    dg_comm *comm;
    dg_comm_place place;
    const dg_instr *in;
    run_fn *run;
    peers_fn *run_peers;
    int64_t *ticket; /* of a bucket */
    dg_tensor x, y;  /* on a late device: its pinned copies */
};

/* ---- one function per kind ------------------------------------------------------------------- */

static void copy(dg_tensor to, dg_tensor from)
{
    if (to.data != from.data)
        memmove(to.data, from.data, bytes_of(&from));
}

static int reduce(const dg_exchange *e, dg_tensor x)
{
    const reduce_attr *attr = e->in->attr;
    int64_t ticket = 0;
    int rc = e->comm->start(e->comm, x, (dg_reduce)attr->op, &ticket);

    return rc < 0 ? rc : e->comm->wait(e->comm, ticket);
}

static int all_reduce(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    copy(y, x);
    return reduce(e, y);
}

/* Every rank takes part; only the root gets the result, the others keep x. */
static int reduce_to(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    const reduce_attr *attr = e->in->attr;
    dg_tensor own = x;
    int rc;

    if (e->comm->rank == attr->root)
        return all_reduce(e, x, y);
    own.data = dg_try_alloc(bytes_of(&x));
    if (!own.data)
        return -DG_EMEMORY;
    copy(own, x);
    rc = reduce(e, own);
    dg_free(own.data);
    copy(y, x);
    return rc;
}

static int broadcast(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    const reduce_attr *attr = e->in->attr;

    copy(y, x);
    return e->comm->broadcast(e->comm, y.data, bytes_of(&y), (int)attr->root);
}

static int all_gather(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    return e->comm->gather(e->comm, x.data, bytes_of(&x), y.data);
}

static int reduce_begin(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    const bucket_attr *attr = e->in->attr;

    (void)y;
    return e->comm->start(e->comm, x, (dg_reduce)attr->op, e->ticket);
}

static int reduce_end(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    (void)x, (void)y;
    return e->comm->wait(e->comm, *e->ticket);
}

/* ---- between devices ------------------------------------------------------------------------- */

static int copy_on_lane(const dg_collective_call *c, dg_tensor to, dg_tensor from)
{
    return to.data == from.data
               ? 0
               : c->backend->copy(c->backend, DG_LANE_COMM, to.data, from.data, bytes_of(&from));
}

static int peers_all_reduce(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y)
{
    const reduce_attr *attr = c->in->attr;

    return p->reduce(p, x, y.data, (dg_reduce)attr->op, c->mark);
}

static int peers_reduce_to(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y)
{
    const reduce_attr *attr = c->in->attr;
    int rc;

    if (c->comm->rank == attr->root)
        return peers_all_reduce(c, p, x, y);
    rc = copy_on_lane(c, y, x);
    return rc < 0 ? rc : p->reduce(p, x, NULL, (dg_reduce)attr->op, c->mark);
}

static int peers_broadcast(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y)
{
    const reduce_attr *attr = c->in->attr;
    int rc = copy_on_lane(c, y, x);

    return rc < 0 ? rc : p->broadcast(p, y.data, bytes_of(&y), (int)attr->root, c->mark);
}

static int peers_gather(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y)
{
    return p->gather(p, x.data, bytes_of(&x), y.data, c->mark);
}

static int peers_begin(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y)
{
    const bucket_attr *attr = c->in->attr;

    return p->reduce(p, x, y.data, (dg_reduce)attr->op, c->mark);
}

static int peers_end(const dg_collective_call *c, dg_peers *p, dg_tensor x, dg_tensor y)
{
    (void)c, (void)p, (void)x, (void)y; /* the lane's order is enough */
    return 0;
}

static void find(const dg_op *op, dg_exchange *e)
{
    static const struct {
        dg_op_id id;
        run_fn *run;
        peers_fn *run_peers;
    } table[] = {
        { DG_OP_all_reduce, all_reduce, peers_all_reduce },
        { DG_OP_all_reduce_i32, all_reduce, peers_all_reduce },
        { DG_OP_all_reduce_space, all_reduce, peers_all_reduce },
        { DG_OP_reduce_to, reduce_to, peers_reduce_to },
        { DG_OP_reduce_to_i32, reduce_to, peers_reduce_to },
        { DG_OP_reduce_begin, reduce_begin, peers_begin },
        { DG_OP_reduce_end, reduce_end, peers_end },
        { DG_OP_broadcast, broadcast, peers_broadcast },
        { DG_OP_broadcast_i32, broadcast, peers_broadcast },
        { DG_OP_all_gather, all_gather, peers_gather },
        { DG_OP_all_gather_i32, all_gather, peers_gather },
    };

    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (op == &dg_ops[table[i].id]) {
            e->run = table[i].run;
            e->run_peers = table[i].run_peers;
        }
}

static bool is_bucket(const dg_instr *in)
{
    return in->op == DG_OP(reduce_begin) || in->op == DG_OP(reduce_end);
}

static int n_buckets(const dg_program *p)
{
    int n = 0;

    for (int i = 0; i < p->instrs.n; i++)
        n += p->instrs.items[i].op == DG_OP(reduce_begin);
    return n;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Twice the largest operand: operands are in the first half, results in the second. */
static size_t operand_bytes(const dg_program *p)
{
    size_t most = 0;

    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        if (in->op->effect != DG_COLLECTIVE || is_bucket(in))
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
static dg_comm_place place_of(dg_arena *a, const dg_program *p, const dg_instr *in, int number)
{
    const dg_value *x = &p->values.items[in->v[0]];
    const dg_where *at = &in->origin.where;
    const char *file = at->file ? at->file : "", *slash = strrchr(file, '/');
    dg_comm_place place = {
        .id = 1 |
              dg_fnv1a_text(dg_printf(a, "%d %s %d %d %s %lld %llx", in->origin.node, in->op->name,
                                      number, (int)in->segment, dg_dtype_name(x->dtype),
                                      (long long)dg_shape_elements(x->shape),
                                      (unsigned long long)dg_fnv1a(in->attr, in->op->attr_bytes)))
    };

    snprintf(place.text, sizeof place.text, "of %.50s (%.40s:%d:%d)",
             at->node ? at->node : "no node", slash ? slash + 1 : file, at->line, at->column);
    return place;
}

static void list_exchanges(dg_staging *s, dg_arena *a, const dg_program *p, dg_comm *comm)
{
    int number = 0;

    s->exchanges = DG_NEW_N(a, p->instrs.n + 1, dg_exchange *);
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];
        dg_exchange *e;

        if (in->op->effect != DG_COLLECTIVE)
            continue;
        s->exchanges[i] = e = DG_NEW(a, dg_exchange);
        e->comm = comm;
        e->in = in;
        e->place = place_of(a, p, in, number++);
        find(in->op, e);
        if (is_bucket(in))
            e->ticket = &s->tickets[((const bucket_attr *)in->attr)->bucket];
    }
}

/* A bucket's begin and end have the same numbers of the gradient space. */
static dg_tensor bucket_of(dg_tensor space, const bucket_attr *attr)
{
    space.data = (char *)space.data + (size_t)attr->begin * dg_dtype_size(space.dtype);
    space.shape = DG_SHAPE(attr->end - attr->begin);
    return space;
}

static size_t bucket_bytes(const dg_program *p, const dg_instr *in)
{
    const bucket_attr *attr = in->attr;

    return (size_t)(attr->end - attr->begin) * dg_dtype_size(p->values.items[in->v[0]].dtype);
}

/* Between devices nothing is copied: only what is added up needs room. */
static bool open_peers(dg_staging *s, const dg_program *p, dg_backend *b, dg_comm *comm)
{
    size_t most = 0, given = 0;

    s->ready = b->event_open(b);
    s->done = b->event_open(b);
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];
        peers_fn *run = s->exchanges[i] ? s->exchanges[i]->run_peers : NULL;
        size_t n = run == peers_begin ? bucket_bytes(p, in)
                   : run == peers_all_reduce || run == peers_reduce_to
                       ? dg_plan_value_bytes(p, in->v[0])
                       : 0;

        most = n > most ? n : most;
        if (run == peers_reduce_to && ((const reduce_attr *)in->attr)->root != comm->rank)
            given = n > given ? n : given;
    }
    return s->ready && s->done && comm->peers->reserve(comm->peers, most, given) == 0;
}

static bool open_lane(dg_staging *s, dg_arena *a, const dg_program *p, dg_backend *b)
{
    size_t n = operand_bytes(p) + 64;

    s->operand = b->alloc_pinned(b, n);
    s->ready = b->event_open(b);
    s->done = b->event_open(b);
    s->buckets = DG_NEW_N(a, n_buckets(p) + 1, void *);
    for (int i = 0; i < p->instrs.n && s->operand; i++) {
        const dg_instr *in = &p->instrs.items[i];
        const bucket_attr *attr = in->attr;

        if (in->op != DG_OP(reduce_begin))
            continue;
        s->buckets[attr->bucket] = b->alloc_pinned(b, bucket_bytes(p, in));
        if (!s->buckets[attr->bucket])
            return false;
        s->n_buckets = attr->bucket + 1 > s->n_buckets ? (int)attr->bucket + 1 : s->n_buckets;
    }
    for (int i = 0; i < p->instrs.n && s->operand; i++) {
        dg_exchange *e = s->exchanges[i];

        if (e && is_bucket(e->in))
            e->x.data = s->buckets[((const bucket_attr *)e->in->attr)->bucket];
        else if (e)
            e->x.data = s->operand;
        if (e)
            e->y.data = e->in->n_out ? (char *)s->operand + n / 2 : e->x.data;
    }
    return s->operand && s->ready && s->done;
}

int dg_staging_open(dg_staging *s, dg_arena *a, const dg_program *p, dg_backend *backend,
                    dg_comm *comm, dg_diag *d)
{
    s->tickets = DG_NEW_N(a, n_buckets(p) + 1, int64_t);
    list_exchanges(s, a, p, comm);
    return !comm || backend->immediate ||
                   (comm->peers ? open_peers(s, p, backend, comm) : open_lane(s, a, p, backend))
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
    if (s->ready)
        backend->event_close(backend, &s->ready);
    if (s->done)
        backend->event_close(backend, &s->done);
}

/* ---- running --------------------------------------------------------------------------------- */

static void enter_place(const dg_exchange *e)
{
    e->comm->place = e->place;
    e->comm->where = &e->in->origin.where;
}

static int leave_place(const dg_exchange *e, int rc)
{
    e->comm->place = (dg_comm_place){ 0 };
    e->comm->where = NULL;
    return rc;
}

static int exchange(const dg_exchange *e, dg_tensor x, dg_tensor y)
{
    enter_place(e);
    return leave_place(e, e->run ? e->run(e, x, y) : -DG_EUNSUPPORTED);
}

static int exchange_on_lane(void *ctx)
{
    const dg_exchange *e = ctx;

    return exchange(e, e->x, e->y);
}

/* What follows on a lane waits for what the other was given before. */
static int order(dg_backend *b, dg_event *e, dg_lane first, dg_lane then)
{
    int rc = b->event_record(b, e, first);

    return rc < 0 ? rc : b->lane_wait(b, then, e);
}

/* Puts a collective on the lane COMM: copy in, exchange, copy out. */
static int put_on_lane(const dg_collective_call *c, dg_exchange *e, dg_tensor x, dg_tensor y)
{
    dg_backend *b = c->backend;
    bool begins = c->in->op != DG_OP(reduce_end), ends = c->in->op != DG_OP(reduce_begin);
    int rc;

    e->x.dtype = x.dtype, e->x.shape = x.shape;
    e->y.dtype = y.dtype, e->y.shape = y.shape;
    if (begins) {
        DG_TRY(order(b, c->staging->ready, DG_LANE_COMPUTE, DG_LANE_COMM));
        DG_TRY(b->download(b, DG_LANE_COMM, e->x.data, x.data, bytes_of(&x)));
    }
    DG_TRY(b->call(b, DG_LANE_COMM, exchange_on_lane, e, c->mark));
    if (ends) {
        DG_TRY(b->upload(b, DG_LANE_COMM, y.data, e->y.data, bytes_of(&y)));
        DG_TRY(order(b, c->staging->done, DG_LANE_COMM, DG_LANE_COMPUTE));
    }
out:
    return rc;
}

/* Puts a collective between devices on the lane COMM. The host only meets the other ranks. */
static int put_on_peers(const dg_collective_call *c, dg_exchange *e, dg_tensor x, dg_tensor y)
{
    dg_backend *b = c->backend;
    bool in = c->in->op != DG_OP(reduce_end), out = c->in->op != DG_OP(reduce_begin);
    int rc = in ? order(b, c->staging->ready, DG_LANE_COMPUTE, DG_LANE_COMM) : 0;

    enter_place(e);
    if (rc == 0)
        rc = e->run_peers ? e->run_peers(c, c->comm->peers, x, y) : -DG_EUNSUPPORTED;
    leave_place(e, rc);
    return rc == 0 && out ? order(b, c->staging->done, DG_LANE_COMM, DG_LANE_COMPUTE) : rc;
}

const char *dg_collective_why(const dg_comm *comm)
{
    const dg_peers *p = comm->peers;

    return p && __atomic_load_n(&p->why[0], __ATOMIC_ACQUIRE) ? p->why : comm->why;
}

int dg_collective_failed(const dg_instr *in, const dg_comm *comm, int rc, dg_diag *d)
{
    const char *why = dg_collective_why(comm);

    dg_fail(d, (dg_code)-rc, in->origin.where, "collective-failed", "%s: %s", in->op->name,
            why[0]              ? why
            : rc == -DG_ESTOP   ? "stopped"
            : rc == -DG_EMEMORY ? "out of memory"
                                : "the communicator cannot do it");
    if (rc == -DG_EINTERNAL)
        dg_help(d, "the ranks went different ways: a row of a plugin's class is not true, or its "
                   "nodes compute on one rank what they do not on another");
    return rc;
}

int dg_collective_run(const dg_collective_call *c, dg_diag *d)
{
    dg_exchange *e = c->staging->exchanges[c->in - c->program->instrs.items];
    dg_tensor x = c->args->t[0], y = c->args->t[c->in->n_out ? c->in->n_in : 0];
    int rc;

    if (!c->comm)
        return dg_fail(d, DG_EUNSUPPORTED, c->in->origin.where, "no-communicator",
                       "%s needs other ranks, and this run has one", c->in->op->name);
    if (is_bucket(c->in)) {
        /* batches before an update's last one only add to the gradients */
        if (c->control->accumulated + 1 < c->program->accumulate)
            return 0;
        x = y = bucket_of(x, c->in->attr);
    }
    if (!c->backend->immediate && !c->comm->peers)
        return put_on_lane(c, e, x, y);
    rc = c->comm->peers ? put_on_peers(c, e, x, y) : exchange(e, x, y);
    if (rc == 0 || (c->comm->peers && !c->comm->why[0]))
        return rc; /* what the device says may be of an earlier instruction */
    return dg_collective_failed(c->in, c->comm, rc, d);
}
