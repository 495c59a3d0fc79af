/* comm.c: measures collectives between CPU ranks: `tests/bench/comm [RANKS] [MB]`. Reduces the
 * gradients of a step in buckets, as a plan does, and one number, as the step's `ok`. Ranks are
 * processes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/log.h"
#include "comm/shm.h"
#include "tensor/passes.h"

enum { ROUNDS = 30, WORDS = 2000, MOST = 64 };

static void work(dg_comm *c, int64_t n)
{
    float *g = c->memory(c, (size_t)n * sizeof *g);
    double best = 1e9, begin = 0, word = 1;
    int64_t tickets[MOST], ticket;

    for (int i = 0; i < ROUNDS && g; i++) {
        int k = 0;

        for (int64_t at = 0; at < n; at++)
            g[at] = (float)c->rank;
        if (c->barrier(c) < 0)
            return;
        begin = dg_monotonic_s();
        for (int64_t at = 0; at < n && k < MOST; at += DG_BUCKET_ELEMENTS) {
            int64_t part = n - at < DG_BUCKET_ELEMENTS ? n - at : DG_BUCKET_ELEMENTS;

            (void)c->start(c, (dg_tensor){ DG_F32, DG_SHAPE(part), g + at }, DG_MEAN,
                           &tickets[k++]);
        }
        for (int b = 0; b < k; b++)
            (void)c->wait(c, tickets[b]);
        if (dg_monotonic_s() - begin < best)
            best = dg_monotonic_s() - begin;
    }
    begin = dg_monotonic_s();
    for (int i = 0; i < WORDS; i++)
        if (c->start(c, (dg_tensor){ DG_F64, DG_SCALAR, &word }, DG_MAX, &ticket) < 0 ||
            c->wait(c, ticket) < 0)
            return;
    if (c->rank == 0)
        printf("%d ranks: %.1f MB of gradients in %.2f ms; one number in %.1f us\n", c->ranks,
               (double)n * 4e-6, 1e3 * best, 1e6 * (dg_monotonic_s() - begin) / WORDS);
}

int main(int argc, char **argv)
{
    int ranks = argc > 1 ? atoi(argv[1]) : 2, fd, status, bad = 0;
    int64_t n = (int64_t)(argc > 2 ? atoi(argv[2]) : 80) * 250000;
    dg_diag *d = dg_diag_open();
    dg_comm *c = NULL;

    if (dg_comm_shm_make(&fd, d) < 0)
        return 1;
    for (int r = 0; r < ranks; r++) {
        if (fork() != 0)
            continue;
        if (dg_comm_shm_open(&c, fd, r, ranks, d) == 0)
            work(c, n);
        if (c)
            c->close(&c);
        exit(0);
    }
    while (wait(&status) > 0)
        bad |= status;
    dg_diag_close(&d);
    return bad != 0;
}
