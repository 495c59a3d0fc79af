/* comm_recorded.c: wraps a communicator. Tickets pass through; the record number of a reduction is
 * kept beside its ticket until wait. */
#include "control/comm_recorded.h"

#include <string.h>

#include "base/arena.h"

enum { UNDER_WAY = 64, KNOWN = 256 };

typedef struct recorded {
    dg_comm pub;
    dg_comm *inner;
    dg_recorder *recorder;
    struct {
        uint64_t id;
        uint32_t number;
    } places[KNOWN]; /* the recorder's numbers, by the id's last digits */
    struct {
        int64_t ticket;
        uint64_t number;
    } begun[UNDER_WAY];
    int next;
} recorded;

static recorded *self_of(dg_comm *c)
{
    return (recorded *)(void *)c; /* pub is the first member */
}

/* Copies the inner communicator's state to the outer one; returns rc. */
static int copy_state(recorded *w, int rc)
{
    memcpy(w->pub.why, w->inner->why, sizeof w->pub.why);
    w->pub.cost = w->inner->cost;
    return rc;
}

/* The recorder's number of the next call's place. */
static uint32_t place_of(recorded *w)
{
    uint64_t id = w->pub.place.id, at = id / 2 % KNOWN; /* the lowest bit is always set */

    if (!w->pub.where)
        return 0;
    if (w->places[at].id != id) {
        w->places[at].id = id;
        w->places[at].number = dg_recorder_find(w->recorder, w->pub.where);
    }
    return w->places[at].number;
}

static uint64_t begin_record(recorded *w, const char *op, const char *type, int64_t elements)
{
    uint64_t number = dg_recorder_begin(w->recorder, place_of(w), op, type, elements);

    w->inner->place = w->pub.place;
    w->inner->where = w->pub.where;
    dg_recorder_enter(w->recorder);
    return number;
}

static int end_record(recorded *w, uint64_t number, int rc)
{
    dg_recorder_leave(w->recorder);
    if (rc == 0)
        dg_recorder_end(w->recorder, number);
    return copy_state(w, rc);
}

static const char *const reductions[] = { "sum", "max", "min", "mean" };

static int recorded_start(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    recorded *w = self_of(c);
    uint64_t number =
        begin_record(w, reductions[op & 3], dg_dtype_name(x.dtype), dg_shape_elements(x.shape));
    int rc = w->inner->start(w->inner, x, op, ticket);

    dg_recorder_leave(w->recorder);
    w->begun[w->next % UNDER_WAY].ticket = *ticket;
    w->begun[w->next++ % UNDER_WAY].number = number;
    return copy_state(w, rc);
}

static int wait_for(dg_comm *c, int64_t ticket)
{
    recorded *w = self_of(c);
    uint64_t number = 0;
    int rc;

    for (int i = 0; i < UNDER_WAY; i++)
        if (w->begun[i].ticket == ticket)
            number = w->begun[i].number;
    dg_recorder_enter(w->recorder);
    rc = w->inner->wait(w->inner, ticket);
    return end_record(w, number, rc);
}

static int recorded_broadcast(dg_comm *c, void *p, size_t bytes, int root)
{
    recorded *w = self_of(c);
    uint64_t number = begin_record(w, "broadcast", "bytes", (int64_t)bytes);

    return end_record(w, number, w->inner->broadcast(w->inner, p, bytes, root));
}

static int recorded_gather(dg_comm *c, const void *mine, size_t bytes, void *all)
{
    recorded *w = self_of(c);
    uint64_t number = begin_record(w, "gather", "bytes", (int64_t)bytes);

    return end_record(w, number, w->inner->gather(w->inner, mine, bytes, all));
}

static int gather_ragged(dg_comm *c, const void *mine, const size_t bytes[], void *all)
{
    recorded *w = self_of(c);
    uint64_t number = begin_record(w, "gather_ragged", "bytes", (int64_t)bytes[c->rank]);

    return end_record(w, number, w->inner->gather_ragged(w->inner, mine, bytes, all));
}

static int recorded_barrier(dg_comm *c)
{
    recorded *w = self_of(c);
    uint64_t number = begin_record(w, "barrier", "", 0);

    return end_record(w, number, w->inner->barrier(w->inner));
}

static int recorded_meet(dg_comm *c, dg_meeting_kind kind, int a, dg_dtype type, size_t n)
{
    recorded *w = self_of(c);
    bool reduces = kind == DG_MEET_REDUCE;
    uint64_t number = begin_record(w,
                                   reduces                     ? reductions[a & 3]
                                   : kind == DG_MEET_BROADCAST ? "broadcast"
                                                               : "gather",
                                   reduces ? dg_dtype_name(type) : "bytes", (int64_t)n);

    return end_record(w, number, w->inner->meet(w->inner, kind, a, type, n));
}

static int recorded_look(dg_comm *c, bool lost, char why[DG_COMM_WHY])
{
    recorded *w = self_of(c);

    return w->inner->look(w->inner, lost, why);
}

static void *recorded_memory(dg_comm *c, size_t bytes)
{
    recorded *w = self_of(c);
    void *p = w->inner->memory(w->inner, bytes);

    (void)copy_state(w, 0);
    return p;
}

static int recorded_duplicate(dg_comm *c, dg_comm **other)
{
    recorded *w = self_of(c);
    uint64_t number = begin_record(w, "duplicate", "", 0);
    int rc = end_record(w, number, w->inner->duplicate(w->inner, other));

    if (rc == 0)
        *other = dg_comm_recorded(*other, w->recorder);
    return rc;
}

static void recorded_stop(dg_comm *c) /* from any thread: touches only the inner communicator */
{
    recorded *w = self_of(c);

    w->inner->abort(w->inner);
}

static void close_watched(dg_comm **c)
{
    recorded *w = *c ? self_of(*c) : NULL;

    if (w)
        w->inner->close(&w->inner);
    dg_free(w);
    *c = NULL;
}

dg_comm *dg_comm_recorded(dg_comm *comm, dg_recorder *r)
{
    recorded *w = dg_try_alloc(sizeof *w);

    if (!w)
        dg_oom(sizeof *w);
    w->inner = comm;
    w->recorder = r;
    w->pub = (dg_comm){ .name = comm->name,
                        .rank = comm->rank,
                        .ranks = comm->ranks,
                        .start = recorded_start,
                        .wait = wait_for,
                        .broadcast = recorded_broadcast,
                        .gather = recorded_gather,
                        .gather_ragged = gather_ragged,
                        .barrier = recorded_barrier,
                        .meet = recorded_meet,
                        .look = recorded_look,
                        .memory = comm->memory ? recorded_memory : NULL,
                        .duplicate = comm->duplicate ? recorded_duplicate : NULL,
                        .abort = recorded_stop,
                        .close = close_watched };
    for (int i = 0; i < UNDER_WAY; i++)
        w->begun[i].ticket = -1;
    return &w->pub;
}
