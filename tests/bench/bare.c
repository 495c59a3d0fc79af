/* bare.c: trains a pipeline on several ranks as `detrgraph run` does, but without launcher, control
 * plane and flight recorder. tests/long/overhead compares the two.
 *
 *     tests/bench/bare FILE OUT RANKS STEPS [NAME=VALUE...]
 *
 * One thread per rank, each pinned to its own core if there are enough. */
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <detrgraph/run.h>

#include "base/diag.h"
#include "comm/shm.h"
#include "comm/world.h"
#include "runtime/run.h"

/* Positions in argv; the arguments of a rank process follow SETS. */
enum { PROGRAM, FILE_, OUT, RANKS, STEPS, SETS, MOST = 60 };

static void bind_core(int rank, int ranks)
{
    cpu_set_t all, mine;
    size_t seen = 0;

    if (sched_getaffinity(0, sizeof all, &all) || CPU_COUNT(&all) < ranks)
        return;
    CPU_ZERO(&mine);
    for (size_t c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && seen++ == (size_t)rank)
            CPU_SET(c, &mine);
    sched_setaffinity(0, sizeof mine, &mine);
}

static int be_rank(int n, char **argv, int rank, int fd)
{
    dg_diag *d = dg_diag_open();
    dg_run *run = NULL;
    int ranks = atoi(argv[RANKS]), rc;
    dg_world world = {
        .rank = rank, .ranks = ranks, .nodes = 1, .local_rank = rank, .local_ranks = ranks
    };

    bind_core(rank, ranks);
    DG_TRY(dg_comm_shm_open(&world.comm, fd, rank, ranks, d));
    DG_TRY(dg_run_open_rank(&run,
                            &(dg_run_options){ .size = sizeof(dg_run_options),
                                               .file = argv[FILE_],
                                               .n_sets = n - SETS,
                                               .sets = (const char *const *)argv + SETS,
                                               .threads = 1 },
                            &world, d));
    DG_TRY(dg_run_train(run,
                        &(dg_run_train_options){ .size = sizeof(dg_run_train_options),
                                                 .out = argv[OUT],
                                                 .force = true,
                                                 .steps = atol(argv[STEPS]) },
                        d));
out:
    if (rc < 0)
        fprintf(stderr, "rank %d: %s\n", rank, dg_diag_text(d));
    dg_run_close(&run);
    if (world.comm)
        world.comm->close(&world.comm);
    dg_diag_close(&d);
    return rc < 0;
}

static int start(int argc, char **argv)
{
    extern char **environ;
    dg_diag *d = dg_diag_open();
    char *args[MOST + 4] = { NULL }, rank[12], number[12];
    int fd = -1, status, bad = dg_comm_shm_make(&fd, d) < 0 || fcntl(fd, F_SETFD, 0);

    memcpy(args, argv, (size_t)argc * sizeof *args);
    args[argc] = "rank";
    args[argc + 1] = rank;
    args[argc + 2] = number;
    snprintf(number, sizeof number, "%d", fd);
    for (int r = 0; r < atoi(argv[RANKS]) && !bad; r++) {
        pid_t pid;

        snprintf(rank, sizeof rank, "%d", r);
        bad = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ);
    }
    while (wait(&status) > 0)
        bad |= status;
    close(fd);
    dg_diag_close(&d);
    return bad != 0;
}

int main(int argc, char **argv)
{
    if (argc > SETS + 2 && strcmp(argv[argc - 3], "rank") == 0)
        return be_rank(argc - 3, argv, atoi(argv[argc - 2]), atoi(argv[argc - 1]));
    if (argc < SETS || argc > MOST) {
        fputs("usage: tests/bench/bare FILE OUT RANKS STEPS [NAME=VALUE...]\n", stderr);
        return 2;
    }
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);
    setenv("OMP_DYNAMIC", "false", 1);
    return start(argc, argv);
}
