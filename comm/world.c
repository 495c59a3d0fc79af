/* world.c: collectives on the host, between steps. */
#include "comm/world.h"

#include <stdio.h>
#include <string.h>

static int failed(const dg_world *w, int rc, const char *what, dg_diag *d)
{
    return rc == 0
               ? 0
               : dg_fail(d, (dg_code)-rc, DG_NOWHERE, "collective-failed", "while the ranks %s: %s",
                         what, w->comm->why[0] ? w->comm->why : "the communicator failed");
}

/* The communicator, told what the host does with it, and for whom. */
static dg_comm *comm_for(const dg_world *w, const char *call, const char *what)
{
    const char *const words[] = { call, w->of ? w->of : "", what };
    dg_comm_place *place = &w->comm->place;

    place->id = 1;
    for (int i = 0; i < 3; i++)
        place->id = place->id * UINT64_C(0x100000001b3) + dg_fnv1a_text(words[i]);
    place->id |= 1; /* 0: unknown */
    snprintf(place->text, sizeof place->text, "%s%.48s%swhile the ranks %s", w->of ? "of " : "",
             w->of ? w->of : "", w->of ? ", " : "", what);
    return w->comm;
}

int dg_world_open_device(dg_world *w, bool late, dg_diag *d)
{
    int rc;

    w->device = w->ranks > 1 ? w->comm : NULL;
    if (!w->device || !late)
        return 0;
    rc = comm_for(w, "duplicate", "opened the device")->duplicate(w->comm, &w->device);
    return failed(w, rc, "opened the device", d);
}

void dg_world_close_device(dg_world *w)
{
    if (w->device && w->device != w->comm)
        w->device->close(&w->device);
    w->device = NULL;
}

dg_comm_cost dg_world_cost(const dg_world *w)
{
    dg_comm_cost cost = w->comm ? w->comm->cost : (dg_comm_cost){ 0 };

    if (w->device && w->device != w->comm) {
        cost.n += w->device->cost.n;
        cost.bytes += w->device->cost.bytes;
        cost.wait_s += w->device->cost.wait_s;
        cost.work_s += w->device->cost.work_s;
    }
    return cost;
}

dg_world dg_world_of(const dg_world *w, const char *of)
{
    dg_world own = *w;

    own.of = of;
    return own;
}

int dg_world_broadcast_from(const dg_world *w, int root, void *p, size_t bytes, const char *what,
                            dg_diag *d)
{
    return w->ranks == 1
               ? 0
               : failed(w, comm_for(w, "broadcast", what)->broadcast(w->comm, p, bytes, root), what,
                        d);
}

int dg_world_broadcast(const dg_world *w, void *p, size_t bytes, const char *what, dg_diag *d)
{
    return dg_world_broadcast_from(w, 0, p, bytes, what, d);
}

int dg_world_gather(const dg_world *w, const void *mine, size_t bytes, void *all, const char *what,
                    dg_diag *d)
{
    if (w->ranks > 1)
        return failed(w, comm_for(w, "gather", what)->gather(w->comm, mine, bytes, all), what, d);
    if (bytes)
        memcpy(all, mine, bytes);
    return 0;
}

int dg_world_collect(const dg_world *w, const void *mine, size_t bytes, void **all, size_t *sizes,
                     const char *what, dg_diag *d)
{
    size_t total = 0;
    int rc = dg_world_gather(w, &bytes, sizeof bytes, sizes, what, d), ok;

    *all = NULL;
    if (rc < 0)
        return rc;
    for (int r = 0; r < w->ranks; r++)
        total += sizes[r];
    *all = dg_try_alloc(total);
    ok = *all ? 0
              : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                        "no memory for %zu bytes of all ranks", total);
    rc = dg_world_agree(w, ok, what, d);
    if (rc == 0 && w->ranks == 1 && bytes)
        memcpy(*all, mine, bytes);
    else if (rc == 0)
        rc = failed(w, comm_for(w, "collect", what)->gather_ragged(w->comm, mine, sizes, *all),
                    what, d);
    if (rc < 0) {
        dg_free(*all);
        *all = NULL;
    }
    return rc;
}

static int reduce(const dg_world *w, dg_tensor x, dg_reduce op, const char *call, const char *what,
                  dg_diag *d)
{
    int64_t ticket;
    int rc = w->ranks == 1 ? 0 : comm_for(w, call, what)->start(w->comm, x, op, &ticket);

    if (rc == 0 && w->ranks > 1)
        rc = w->comm->wait(w->comm, ticket);
    return failed(w, rc, what, d);
}

int dg_world_any(const dg_world *w, bool mine, bool *any, const char *what, dg_diag *d)
{
    int32_t x = mine;
    int rc = reduce(w, (dg_tensor){ DG_I32, DG_SCALAR, &x }, DG_MAX, "any", what, d);

    *any = x != 0;
    return rc;
}

int dg_world_least(const dg_world *w, double *x, const char *what, dg_diag *d)
{
    return reduce(w, (dg_tensor){ DG_F64, DG_SCALAR, x }, DG_MIN, "least", what, d);
}

int dg_world_sum(const dg_world *w, double *x, const char *what, dg_diag *d)
{
    return reduce(w, (dg_tensor){ DG_F64, DG_SCALAR, x }, DG_SUM, "sum", what, d);
}

int dg_world_agree(const dg_world *w, int rc, const char *what, dg_diag *d)
{
    int32_t mine = rc, *all;
    int first = -1, own;

    if (w->ranks == 1 || !w->comm)
        return rc;
    all = dg_try_alloc((size_t)w->ranks * sizeof *all);
    if (!all)
        return rc < 0 ? rc
                      : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                                "no memory for a word of each rank");
    own = comm_for(w, "agree", what)->gather(w->comm, &mine, sizeof mine, all);
    for (int r = w->ranks - 1; r >= 0 && own == 0; r--)
        first = all[r] < 0 ? r : first;
    dg_free(all);
    if (rc < 0 || (own == 0 && first < 0))
        return rc;
    return own < 0 ? failed(w, own, what, d)
                   : dg_fail(d, DG_ESTOP, DG_NOWHERE, "rank-failed",
                             "rank %d could not go on while the ranks %s; see what it says", first,
                             what);
}
