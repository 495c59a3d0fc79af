/* monitor.c: measures the cost of a step's digests: `tests/bench/monitor`. On a rank: hashing the
 * monitored tensors and writing the frame. On the coordinator: reading the frames and comparing the
 * ranks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "control/judge.h"

enum { ROUNDS = 2000, MOST = 256 };

/* CPU time, so other processes do not count. */
static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void no_log(void *ctx, dg_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static void hash(size_t bytes)
{
    char *p = calloc(1, bytes);
    uint64_t h = 0;
    size_t rounds = ((size_t)1 << 30) / bytes < 1000000 ? ((size_t)1 << 30) / bytes : 1000000;
    double begin, s;

    if (p)
        memset(p, 1, bytes);
    begin = cpu_s();
    for (size_t i = 0; p && i < rounds; i++)
        h = dg_hash64(h, p, bytes);
    s = (cpu_s() - begin) / (double)rounds;
    printf("hash of %zu bytes: %.3f us, %.2f GB/s%s\n", bytes, 1e6 * s, 1e-9 * (double)bytes / s,
           h ? "" : "!");
    free(p);
}

static dg_message word_of(int rank, int64_t batch, const uint64_t *digests, int n)
{
    dg_message m = { .kind = DG_SAY_WORD, .rank = (uint32_t)rank };

    m.word = (dg_word){
        .step = batch, .batch = batch, .n_in_epoch = 9, .saved = -1, .seen = { n, digests }
    };
    return m;
}

/* Messages of all ranks, with n digests each. */
static void words(int ranks, int n)
{
    const dg_env env = { .log = no_log, .now_s = cpu_s, .threads = 1 };
    dg_judge *r =
        dg_judge_open(&(dg_judge_conf){ .ranks = ranks, .lost_after_s = 1e9, .env = &env }, 0);
    uint64_t digests[MOST], changed;
    dg_row rows[MOST];
    dg_diag *d = dg_diag_open();
    double write_s = 0, take_s = 0;
    dg_str frame = { 0 };

    for (int i = 0; i < n; i++) {
        digests[i] = (uint64_t)i + 1;
        rows[i] = (dg_row){ DG_ROW_MONITOR, "value of node \"train/x\"", "declared the same" };
    }
    for (int k = 0; k < ranks; k++)
        dg_judge_take(r,
                      &(dg_message){
                          .kind = DG_SAY_MEET, .rank = (uint32_t)k, .meet = { 1, { n, rows } } },
                      0);
    for (int64_t batch = 0; batch < ROUNDS; batch++)
        for (int k = 0; k < ranks; k++) {
            dg_message m = word_of(k, batch, digests, n);
            dg_arena *a;
            double begin = cpu_s();

            frame.n = 0;
            dg_message_write(&frame, &m);
            write_s += cpu_s() - begin;
            begin = cpu_s();
            a = dg_arena_open();
            if (dg_message_read(&m, a, frame.s, frame.n, d) == 0)
                dg_judge_take(r, &m, 0);
            dg_arena_close(&a);
            take_s += cpu_s() - begin;
        }
    printf(
        "word with %3d digests, %3d ranks: %.2f us to write, %.2f us to read and compare, each%s\n",
        n, ranks, 1e6 * write_s / ROUNDS / ranks, 1e6 * take_s / ROUNDS / ranks,
        dg_judge_state(r, &changed)->confirmed == ROUNDS - 1 ? "" : " (not confirmed!)");
    dg_str_free(&frame);
    dg_diag_close(&d);
    dg_judge_close(&r);
}

int main(void)
{
    hash(8);
    hash(4096);
    hash((size_t)1 << 24);
    for (int ranks = 2; ranks <= 64; ranks *= 32)
        for (int n = 0; n <= MOST; n = n ? 4 * n : 4)
            words(ranks, n);
    return 0;
}
