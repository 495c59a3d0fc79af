/* together.c: replicated state: what rank 0 has reaches all, and what all have is compared. */
#include "runtime/session.h"

#include <string.h>

static const dg_space kept[] = { DG_WEIGHTS, DG_EMA, DG_MOMENT1, DG_MOMENT2 };
enum { N_KEPT = sizeof kept / sizeof kept[0], PIECE = 1 << 20 };

static size_t bytes_of(const dg_run *run, dg_space space)
{
    bool whole = space == DG_WEIGHTS || space == DG_EMA;

    return (size_t)(whole ? dg_params_elements(run->params) : dg_params_trainable(run->params)) * dg_dtype_size(run->base);
}

/* Calls take for every piece of every space, copied to the host; what it leaves there is copied back if it says so. */
typedef int piece_fn(dg_run *run, void *ctx, char *piece, size_t n, bool *changed, dg_diag *d);

static int each_piece(dg_run *run, piece_fn *take, void *ctx, dg_diag *d)
{
    const dg_backend *b = run->backend;
    char             *piece = dg_try_alloc(PIECE);
    int               rc = 0;

    if (!piece)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to look at parameters");
    for (int k = 0; k < N_KEPT && rc == 0; k++) {
        char  *at = run->store->space[kept[k]];
        size_t bytes = at ? bytes_of(run, kept[k]) : 0;

        for (size_t i = 0; i < bytes && rc == 0; i += PIECE) {
            size_t n = bytes - i < PIECE ? bytes - i : PIECE;
            bool   changed = false;

            rc = b->download(b, piece, at + i, n);
            if (rc == 0)
                rc = take(run, ctx, piece, n, &changed, d);
            if (rc == 0 && changed)
                rc = b->upload(b, at + i, piece, n);
        }
    }
    dg_free(piece);
    return rc;
}

static int share_piece(dg_run *run, void *ctx, char *piece, size_t n, bool *changed, dg_diag *d)
{
    (void)ctx;
    *changed = run->world.rank > 0;
    return dg_world_broadcast(&run->world, piece, n, "shared a checkpoint", d);
}

int dg_run_share(dg_run *run, dg_diag *d)
{
    int rc;

    if (run->world.ranks == 1)
        return 0;
    DG_TRY(dg_world_broadcast(&run->world, &run->progress, sizeof run->progress, "shared a checkpoint", d));
    run->store->counter = run->progress.batch;
    DG_TRY(each_piece(run, share_piece, NULL, d));
out:
    return rc;
}

static int hash_piece(dg_run *run, void *ctx, char *piece, size_t n, bool *changed, dg_diag *d)
{
    uint64_t *h = ctx;

    (void)run, (void)changed, (void)d;
    *h = dg_hash_more(*h, piece, n);
    return 0;
}

int dg_run_compare(dg_run *run, const char *when, dg_diag *d)
{
    uint64_t own = 0, *all = NULL;
    int      rc;

    if (run->world.ranks == 1)
        return 0;
    rc = each_piece(run, hash_piece, &own, d);
    all = dg_try_alloc((size_t)run->world.ranks * sizeof *all);
    if (rc == 0 && !all)
        rc = dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a digest of each rank");
    DG_TRY(dg_world_agree(&run->world, rc, "looked at their weights", d));
    DG_TRY(dg_world_gather(&run->world, &own, sizeof own, all, "compared their weights", d));
    for (int r = 1; r < run->world.ranks && rc == 0; r++)
        if (all[r] != all[0]) {
            rc = dg_fail(d, DG_EINTERNAL, DG_NOWHERE, "ranks-differ",
                         "%s the weights of rank %d are not those of rank 0 (digests %016llx and %016llx)", when, r,
                         (unsigned long long)all[r], (unsigned long long)all[0]);
            dg_help(d, "the same program on CPUs of the same kind with the same number of threads gives the same bits on every rank");
        }
out:
    dg_free(all);
    return rc;
}
