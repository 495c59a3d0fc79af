/* replicas.c: state replicated on all ranks: broadcasts rank 0's, compares all ranks'. */
#include "runtime/replicas.h"

#include <assert.h>
#include <string.h>

static const dg_space replicated[] = { DG_WEIGHTS, DG_EMA, DG_MOMENT1, DG_MOMENT2 };
enum { N_REPLICATED = sizeof replicated / sizeof replicated[0], PIECE = 1 << 20 };

static size_t bytes_of(const dg_store *s, dg_space space)
{
    bool all = space == DG_WEIGHTS || space == DG_EMA;

    return (size_t)(all ? dg_params_elements(s->params) : dg_params_trainable(s->params)) *
           dg_dtype_size(s->base);
}

/* Handles a piece of a space, copied to the host; *changed: copy it back. */
typedef int piece_fn(void *ctx, char *piece, size_t n, bool *changed, dg_diag *d);

static int device_copied(int rc, dg_diag *d)
{
    return rc < 0 ? dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-copy",
                            "the device refused to copy parameters")
                  : 0;
}

static int each_piece(const dg_store *s, piece_fn *take, void *ctx, dg_diag *d)
{
    dg_backend *b = s->backend;
    char *piece = dg_try_alloc(PIECE);
    int rc = 0;

    if (!piece)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory to look at parameters");
    for (int k = 0; k < N_REPLICATED; k++) {
        char *at = s->space[replicated[k]];
        size_t bytes = at ? bytes_of(s, replicated[k]) : 0;

        for (size_t i = 0; i < bytes; i += PIECE) {
            size_t n = bytes - i < PIECE ? bytes - i : PIECE;
            bool changed = false;

            DG_TRY(device_copied(b->download(b, DG_LANE_COMPUTE, piece, at + i, n), d));
            DG_TRY(take(ctx, piece, n, &changed, d));
            if (changed)
                DG_TRY(device_copied(b->upload(b, DG_LANE_COMPUTE, at + i, piece, n), d));
        }
    }
out:
    dg_free(piece);
    return rc;
}

static int broadcast_piece(void *ctx, char *piece, size_t n, bool *changed, dg_diag *d)
{
    const dg_world *w = ctx;

    *changed = w->rank > 0;
    return dg_world_broadcast(w, piece, n, "shared a checkpoint", d);
}

int dg_replicas_broadcast(const dg_world *w, dg_store *s, dg_progress *p, dg_diag *d)
{
    dg_world world = *w;
    int rc;

    if (w->ranks == 1)
        return 0;
    DG_TRY(dg_world_broadcast(w, p, sizeof *p, "shared a checkpoint", d));
    s->counter = p->batch;
    DG_TRY(each_piece(s, broadcast_piece, &world, d));
out:
    return rc;
}

static int hash_piece(void *ctx, char *piece, size_t n, bool *changed, dg_diag *d)
{
    uint64_t *h = ctx;

    (void)changed, (void)d;
    *h = dg_hash64(*h, piece, n);
    return 0;
}

int dg_replicas_compare(const dg_world *w, const dg_store *s, const char *when, dg_diag *d)
{
    uint64_t own = 0, *all = NULL;
    int rc;

    if (w->ranks == 1)
        return 0;
    rc = each_piece(s, hash_piece, &own, d);
    all = dg_try_alloc((size_t)w->ranks * sizeof *all);
    if (rc == 0 && !all)
        rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                     "no memory for a digest of each rank");
    DG_TRY(dg_world_agree(w, rc, "looked at their weights", d));
    DG_TRY(dg_world_gather(w, &own, sizeof own, all, "compared their weights", d));
    assert(all);
    for (int r = 1; r < w->ranks && rc == 0; r++)
        if (all[r] != all[0]) {
            rc = dg_fail(
                d, DG_EINTERNAL, DG_NOWHERE, "ranks-differ",
                "%s the weights of rank %d are not those of rank 0 (digests %016llx and %016llx)",
                when, r, (unsigned long long)all[r], (unsigned long long)all[0]);
            dg_help(d, "the same program on CPUs of the same kind with the same number of threads "
                       "gives the same bits on every rank; or a plugin's row or control is not "
                       "true: `detrgraph doctor` on the run's folder names the nodes");
        }
out:
    dg_free(all);
    return rc;
}
