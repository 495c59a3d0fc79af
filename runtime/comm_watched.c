/* comm_watched.c: a table of collectives around another one. Tickets pass through; the number of a reduction's record is
 * kept beside its ticket until it is waited for. */
#include "runtime/comm_watched.h"

#include <string.h>

#include "base/arena.h"

enum { UNDER_WAY = 64 };

typedef struct watched {
    dg_comm      pub;
    dg_comm     *inner;
    dg_recorder *recorder;
    struct {
        int64_t  ticket;
        uint64_t number;
    } begun[UNDER_WAY];
    int next;
} watched;

static watched *self_of(dg_comm *c)
{
    return (watched *)(void *)c; /* pub comes first */
}

/* What the inner one says of itself is said by the outer. */
static int tell(watched *w, int rc)
{
    memcpy(w->pub.why, w->inner->why, sizeof w->pub.why);
    w->pub.cost = w->inner->cost;
    return rc;
}

static uint64_t enter(watched *w, const char *op, const char *type, int64_t elements)
{
    uint64_t number = dg_recorder_begin(w->recorder, op, type, elements);

    dg_recorder_enter(w->recorder);
    return number;
}

static int leave(watched *w, uint64_t number, int rc)
{
    dg_recorder_leave(w->recorder);
    if (rc == 0)
        dg_recorder_end(w->recorder, number);
    return tell(w, rc);
}

static int start(dg_comm *c, dg_tensor x, dg_reduce op, int64_t *ticket)
{
    static const char *const names[] = { "sum", "max", "min", "mean" };
    watched *w = self_of(c);
    uint64_t number = enter(w, names[op & 3], dg_dtype_name(x.dtype), dg_shape_elements(x.shape));
    int      rc = w->inner->start(w->inner, x, op, ticket);

    dg_recorder_leave(w->recorder);
    w->begun[w->next % UNDER_WAY].ticket = *ticket;
    w->begun[w->next++ % UNDER_WAY].number = number;
    return tell(w, rc);
}

static int wait_for(dg_comm *c, int64_t ticket)
{
    watched *w = self_of(c);
    uint64_t number = 0;
    int      rc;

    for (int i = 0; i < UNDER_WAY; i++)
        if (w->begun[i].ticket == ticket)
            number = w->begun[i].number;
    dg_recorder_enter(w->recorder);
    rc = w->inner->wait(w->inner, ticket);
    return leave(w, number, rc);
}

static int broadcast(dg_comm *c, void *p, size_t bytes, int root)
{
    watched *w = self_of(c);
    uint64_t number = enter(w, "broadcast", "bytes", (int64_t)bytes);

    return leave(w, number, w->inner->broadcast(w->inner, p, bytes, root));
}

static int gather(dg_comm *c, const void *mine, size_t bytes, void *all)
{
    watched *w = self_of(c);
    uint64_t number = enter(w, "gather", "bytes", (int64_t)bytes);

    return leave(w, number, w->inner->gather(w->inner, mine, bytes, all));
}

static int gather_ragged(dg_comm *c, const void *mine, const size_t bytes[], void *all)
{
    watched *w = self_of(c);
    uint64_t number = enter(w, "gather_ragged", "bytes", (int64_t)bytes[c->rank]);

    return leave(w, number, w->inner->gather_ragged(w->inner, mine, bytes, all));
}

static int barrier(dg_comm *c)
{
    watched *w = self_of(c);
    uint64_t number = enter(w, "barrier", "", 0);

    return leave(w, number, w->inner->barrier(w->inner));
}

static void *memory(dg_comm *c, size_t bytes)
{
    watched *w = self_of(c);
    void    *p = w->inner->memory(w->inner, bytes);

    (void)tell(w, 0);
    return p;
}

static void stop(dg_comm *c) /* from any thread: it touches nothing but the inner one */
{
    watched *w = self_of(c);

    w->inner->abort(w->inner);
}

static void close_watched(dg_comm **c)
{
    watched *w = *c ? self_of(*c) : NULL;

    if (w)
        w->inner->close(&w->inner);
    dg_free(w);
    *c = NULL;
}

dg_comm *dg_comm_watched(dg_comm *comm, dg_recorder *r)
{
    watched *w = dg_try_alloc(sizeof *w);

    if (!w)
        dg_oom(sizeof *w);
    w->inner = comm;
    w->recorder = r;
    w->pub = (dg_comm){ .name = comm->name, .rank = comm->rank, .ranks = comm->ranks, .device = comm->device, .start = start,
                        .wait = wait_for, .broadcast = broadcast, .gather = gather, .gather_ragged = gather_ragged,
                        .barrier = barrier, .memory = comm->memory ? memory : NULL, .abort = stop, .close = close_watched };
    for (int i = 0; i < UNDER_WAY; i++)
        w->begun[i].ticket = -1;
    return &w->pub;
}
