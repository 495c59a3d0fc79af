/* toy_rank.c: see toy_rank.h. */
#include "tests/ranks/toy_rank.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "comm/shm.h"
#include "comm/world.h"
#include "runtime/run.h"

const char *toy_ranks_text(dg_arena *a, const char *train, const char *loss, const char *end)
{
    return dg_printf(a,
                     "<pipeline version=\"1\" name=\"toy\" seed=\"3\">\n"
                     "  <let batch=\"4\" lr=\"1e-2\"/>\n"
                     "  <mesh dp=\"ranks\"/>\n"
                     "  <model id=\"m\"><input id=\"images\"/><toy.net id=\"net\" "
                     "images=\"@images\" width=\"8\" fixed=\"true\"/></model>\n"
                     "  <train %s>\n"
                     "    <loader.synthetic id=\"data\" images=\"40\" width=\"32\" height=\"32\" "
                     "classes=\"2\" max_objects=\"3\" seed=\"1\"/>\n"
                     "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" "
                     "tail=\"drop\" axis=\"dp\"/>\n"
                     "    <augment id=\"aug\" in=\"@pick\"><flip p=\"0.5\"/></augment>\n"
                     "    <batch id=\"b\" in=\"@aug\" max_objects=\"4\"/>\n"
                     "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
                     "    <toy.loss id=\"loss\" predictions=\"@out\" targets=\"@b.targets\" %s/>\n"
                     "    <backward id=\"grad\" loss=\"@loss.total\"/>\n"
                     "    <allreduce id=\"sync\" in=\"@grad\" axis=\"dp\" op=\"mean\"/>\n"
                     "    <allreduce id=\"terms\" in=\"@loss.terms\" axis=\"dp\" op=\"mean\"/>\n"
                     "    <optimizer.adamw id=\"opt\" gradients=\"@sync\" lr=\"$lr\" clip=\"1\"/>\n"
                     "    <ema id=\"ema\" of=\"@opt\" decay=\"0.9\" warmup=\"5\"/>\n"
                     "    <log in=\"@terms\"/>\n"
                     "  </train>\n"
                     "  <evaluate every=\"6 steps\" weights=\"@ema\">\n"
                     "    <loader.synthetic id=\"data\" images=\"9\" width=\"32\" height=\"32\" "
                     "classes=\"2\" max_objects=\"3\" seed=\"2\"/>\n"
                     "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"32\" "
                     "shuffle=\"false\" tail=\"pad\" axis=\"dp\"/>\n"
                     "    <batch id=\"b\" in=\"@pick\" max_objects=\"4\"/>\n"
                     "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
                     "    <detect id=\"found\" in=\"@out\" most=\"20\"/>\n"
                     "    <evaluate.coco id=\"coco\" in=\"@found\" axis=\"dp\"/>\n"
                     "  </evaluate>\n"
                     "  %s\n"
                     "</pipeline>\n",
                     train ? train : "steps=\"12\"", loss ? loss : "", end ? end : "");
}

/* ---- a rank ---------------------------------------------------------------------------------- */

enum {
    PROGRAM,
    RANK_WORD,
    RANK,
    RANKS,
    FD,
    FOLDER,
    OUT,
    PRECISION,
    BATCH,
    LR,
    STEPS,
    RESUME,
    TRICK,
    TEXT,
    N_ARGS
};

typedef struct self {
    int rank, n;
    const char *trick;
    FILE *losses;
} self;

static int64_t trick_at(const self *s, const char *word)
{
    size_t n = strlen(word);

    return strncmp(s->trick, word, n) == 0 && s->trick[n] == ' ' ? strtoll(s->trick + n, NULL, 10)
                                                                 : -1;
}

static void report(void *ctx, const dg_run_report *r)
{
    self *s = ctx;

    if (r->scope)
        return;
    s->n++;
    fprintf(s->losses, "%a\n", r->loss);
    fflush(s->losses);
    if (s->n == trick_at(s, "kill"))
        raise(SIGKILL);
}

static int stop(void *ctx)
{
    self *s = ctx;

    return trick_at(s, "stop") >= 0 && s->n >= trick_at(s, "stop");
}

/* One weight of this rank is another. */
static int change_weight(dg_run *run, dg_diag *d)
{
    double v[2];
    int rc = dg_run_get(run, DG_RUN_WEIGHTS, "net.score.bias", v, 2, d);

    v[1] += 1;
    return rc < 0 ? rc : dg_run_set(run, DG_RUN_WEIGHTS, "net.score.bias", v, 2, d);
}

static int train(char **argv, self *s, dg_diag *d)
{
    const char *sets[] = { argv[BATCH], argv[LR] };
    dg_world world = { .rank = s->rank,
                       .ranks = atoi(argv[RANKS]),
                       .nodes = 1,
                       .local_rank = s->rank,
                       .local_ranks = atoi(argv[RANKS]) };
    dg_run *run = NULL;
    int rc;

    DG_TRY(dg_comm_shm_open(&world.comm, atoi(argv[FD]), world.rank, world.ranks, d));
    DG_TRY(dg_run_open_rank(&run,
                            &(dg_run_options){ .size = sizeof(dg_run_options),
                                               .file = "toy.xml",
                                               .text = argv[TEXT],
                                               .n_sets = 2,
                                               .sets = sets,
                                               .device = getenv("DETRGRAPH_DEVICE"),
                                               .precision = argv[PRECISION],
                                               .threads = 1,
                                               .classes = toy_classes },
                            &world, d));
    if (strcmp(s->trick, "weights") == 0)
        DG_TRY(change_weight(run, d));
    DG_TRY(dg_run_train(run,
                        &(dg_run_train_options){ .size = sizeof(dg_run_train_options),
                                                 .out = argv[OUT],
                                                 .resume = *argv[RESUME] == '1' ? DG_RUN_RESUME
                                                                                : DG_RUN_FRESH,
                                                 .steps = atoi(argv[STEPS]),
                                                 .stop = stop,
                                                 .report = report,
                                                 .ctx = s },
                        d));
out:
    dg_run_close(&run);
    if (world.comm)
        world.comm->close(&world.comm);
    return rc;
}

static char *file_of(dg_arena *a, const char *folder, const char *what, int rank)
{
    return dg_printf(a, "%s/%s.%d", folder, what, rank);
}

bool toy_rank_main(int argc, char **argv, int *status)
{
    dg_arena *a;
    dg_diag *d;
    self s;
    FILE *said;
    int rc;

    if (argc != N_ARGS || strcmp(argv[RANK_WORD], "rank") != 0)
        return false;
    a = dg_arena_open();
    d = dg_diag_open();
    s = (self){ .rank = atoi(argv[RANK]), .trick = argv[TRICK] };
    s.losses = fopen(file_of(a, argv[FOLDER], "losses", s.rank), "we");
    said = fopen(file_of(a, argv[FOLDER], "said", s.rank), "we");
    rc = s.losses && said ? train(argv, &s, d) : -DG_EIO;
    if (said) {
        fputs(dg_diag_text(d), said);
        fclose(said);
    }
    if (s.losses)
        fclose(s.losses);
    dg_diag_close(&d);
    dg_arena_close(&a);
    *status = -rc;
    return true;
}

extern char **environ;

/* ---- all of them ----------------------------------------------------------------------------- */

/* This process's, for one thread that sleeps while it waits. */
static char **rank_environment(dg_arena *a)
{
    DG_VEC(char *) env = { 0 };

    for (char **e = environ; *e; e++)
        if (strncmp(*e, "OMP_", 4) != 0)
            DG_PUSH(a, env, *e);
    DG_PUSH(a, env, dg_strdup(a, "OMP_NUM_THREADS=1"));
    DG_PUSH(a, env, dg_strdup(a, "OMP_WAIT_POLICY=passive"));
    DG_PUSH(a, env, NULL);
    return env.items;
}

static pid_t spawn(toy *t, const start *s, int rank, int fd)
{
    dg_arena *a = t->arena;
    bool odd = s->trick && rank == s->odd;
    char *argv[N_ARGS + 1] = {
        [PROGRAM] = "ranks",
        [RANK_WORD] = "rank",
        [RANK] = dg_printf(a, "%d", rank),
        [RANKS] = dg_printf(a, "%d", s->ranks),
        [FD] = dg_printf(a, "%d", fd),
        [FOLDER] = t->folder,
        [OUT] = toy_path(t, s->out),
        [PRECISION] = dg_strdup(a, s->precision ? s->precision : "f64"),
        [BATCH] = s->batch ? dg_strdup(a, s->batch)
                           : dg_printf(a, "batch=%d", (int)(s->global ? s->global : 8) / s->ranks),
        [LR] = dg_printf(a, "lr=%s", s->lr ? s->lr : "1e-2"),
        [STEPS] = dg_printf(a, "%d", (int)s->steps),
        [RESUME] = s->resume ? "1" : "0",
        [TRICK] = dg_strdup(a, odd ? s->trick : ""),
        [TEXT] = dg_strdup(a, odd && strcmp(s->trick, "text") == 0 ? "<pipeline"
                              : s->text                            ? s->text
                                        : toy_ranks_text(a, NULL, NULL, NULL)),
    };
    pid_t pid;

    if (odd && strcmp(s->trick, "width") == 0) {
        char *at = strstr(argv[TEXT], "width=\"8\"");

        memcpy(at, "width=\"9\"", 9);
    }
    assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, rank_environment(a)), 0);
    return pid;
}

static void read_losses(toy *t, outcome *o, int rank)
{
    char *text = NULL;
    size_t n;
    int k = 0;

    assert_int_equal(dg_file_read(&text, &n, file_of(t->arena, t->folder, "losses", rank), 0, t->d),
                     0);
    for (char *at = text; *at && k < 64; at++)
        o->loss[rank][k++] = strtod(at, &at);
    o->n = k;
    dg_free(text);
}

/* A test that hangs is a test that fails. */
static void end_all(const pid_t *pids, int n, int sig)
{
    for (int r = 0; r < n; r++)
        if (pids[r] > 0)
            kill(pids[r], sig);
}

outcome toy_ranks_run(toy *t, start s)
{
    enum { PATIENCE_S = 900 };
    outcome o = { .n = 0 };
    pid_t pids[TOY_RANKS];
    double begin;
    int fd, left = s.ranks;
    bool late = false;

    assert_int_equal(dg_comm_shm_make(&fd, t->d), 0);
    assert_int_equal(fcntl(fd, F_SETFD, 0), 0); /* the ranks inherit it */
    begin = dg_monotonic_s();
    for (int r = 0; r < s.ranks; r++)
        pids[r] = spawn(t, &s, r, fd);
    close(fd);
    while (left) {
        int status;

        for (int r = 0; r < s.ranks; r++) {
            if (!pids[r] || waitpid(pids[r], &status, WNOHANG) != pids[r])
                continue;
            o.status[r] = WIFEXITED(status) ? -WEXITSTATUS(status) : 128 + WTERMSIG(status);
            pids[r] = 0;
            left--;
        }
        usleep(2000);
        if (!late && dg_monotonic_s() - begin > PATIENCE_S) {
            late = true;
            end_all(pids, s.ranks, SIGKILL);
        }
    }
    o.seconds = dg_monotonic_s() - begin;
    assert_false(late);
    for (int r = 0; r < s.ranks; r++) {
        char *said = NULL;
        size_t n;

        if (o.status[r] < 128)
            assert_int_equal(dg_file_read(&said, &n, file_of(t->arena, t->folder, "said", r), 0,
                                          t->d),
                             0);
        o.said[r] = dg_strdup(t->arena, said ? said : "");
        dg_free(said);
        read_losses(t, &o, r);
    }
    return o;
}

/* ---- what tests ask of runs ------------------------------------------------------------------ */

outcome toy_ranks_well(toy *t, start s)
{
    outcome o = toy_ranks_run(t, s);

    for (int r = 0; r < s.ranks; r++)
        if (o.status[r] != 0)
            fail_msg("rank %d of %d: status %d: %s", r, s.ranks, o.status[r], o.said[r]);
    for (int r = 1; r < s.ranks; r++)
        assert_memory_equal(o.loss[r], o.loss[0], sizeof o.loss[0]);
    return o;
}

void toy_same_file(toy *t, const char *a, const char *b)
{
    char *x, *y;
    size_t n, m;

    assert_int_equal(dg_file_read(&x, &n, toy_path(t, a), 0, t->d), 0);
    assert_int_equal(dg_file_read(&y, &m, toy_path(t, b), 0, t->d), 0);
    assert_int_equal(n, m);
    assert_memory_equal(x, y, n);
    dg_free(x);
    dg_free(y);
}

void toy_same_run(toy *t, const char *a, const char *b)
{
    static const char *const files[] = { "model.safetensors", "ema.safetensors",
                                         "checkpoints/last/optimizer.safetensors" };

    for (int i = 0; i < 3; i++)
        toy_same_file(t, dg_printf(t->arena, "%s/%s", a, files[i]),
                      dg_printf(t->arena, "%s/%s", b, files[i]));
}

/* The line of the last evaluation in metrics.jsonl, without times. */
char *toy_scores(toy *t, const char *out)
{
    char *text, *at, *found = NULL;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n,
                                  toy_path(t, dg_printf(t->arena, "%s/metrics.jsonl", out)), 0,
                                  t->d),
                     0);
    for (at = text; (at = strstr(at, "\"AP\":")); at++)
        found = at;
    assert_non_null(found);
    found = dg_strndup(t->arena, found, strcspn(found, "\n"));
    at = strstr(found, "\"seconds\":");
    assert_non_null(at);
    *at = '\0';
    dg_free(text);
    return found;
}

void toy_same_losses(const outcome *one, const outcome *many, int n, double tolerance)
{
    assert_int_equal(one->n, many->n);
    for (int i = 0; i < n; i++)
        if (!(fabs(one->loss[0][i] - many->loss[0][i]) <= tolerance * fabs(one->loss[0][i])))
            fail_msg("step %d: %.17g on one rank, %.17g on many", i + 1, one->loss[0][i],
                     many->loss[0][i]);
}
