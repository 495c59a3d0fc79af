/* equal: is a pipeline on several ranks the pipeline on one?
 *
 *     tests/ranks/equal FILE PRECISION STEPS IMAGES LR [NAME=VALUE...]
 *
 * Trains it on 1, 2 and 4 ranks with IMAGES a step over all ranks (its <let batch> is set), one
 * thread each, and compares the losses and, image by image, what was chosen: the tokens that become
 * queries and the queries that are matched. LR 0 leaves the pipeline's. Held to: f64 1e-9 at every
 * step; f32 1e-5 at the first, and 1e-4 as long as all choices are the same. On two ranks it runs
 * twice: every bit must be the same. */
#include <fcntl.h>
#include <math.h>
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

enum { PROGRAM, WORD, RANK, RANKS, FD, RESULT, FILE_, PRECISION, STEPS, IMAGES, LR, SETS };
enum { RUNS = 4, MOST = 4096 };

/* ---- a rank ---------------------------------------------------------------------------------- */

typedef struct self {
    dg_run *run;
    FILE *out;
    int rank, ranks;
    long batch; /* images of this rank */
    double lr;
    long failed;
} self;

static void change_rates(void *ctx, dg_control *c)
{
    const self *s = ctx;

    for (int i = 0; i < c->n_groups && s->lr > 0; i++)
        c->lr[i] = s->lr;
}

static bool is_choice(const dg_run_tensor *t)
{
    return t->dtype == DG_I32 &&
           (strcmp(t->name, "enc.topk") == 0 || strncmp(t->name, "match", 5) == 0);
}

/* One line an image: its number in the run, and a digest of what was chosen in it. */
static void write_choices(self *s, int64_t step)
{
    uint64_t *digest = calloc((size_t)s->batch, sizeof *digest);
    dg_diag *d = dg_diag_open();

    for (int i = 0; digest && i < dg_run_n_values(s->run); i++) {
        dg_run_tensor t = dg_run_value_at(s->run, i);
        int64_t n = dg_shape_elements(t.shape), each = n / s->batch;
        int32_t *v =
            is_choice(&t) && t.shape.d[0] == s->batch ? malloc((size_t)n * sizeof *v) : NULL;

        if (!v)
            continue;
        s->failed |= dg_run_read(s->run, t.name, v, n, d) < 0;
        for (long slot = 0; slot < s->batch; slot++)
            digest[slot] = digest[slot] * 31 + dg_fnv1a(v + slot * each, (size_t)each * sizeof *v);
        free(v);
    }
    for (long slot = 0; digest && slot < s->batch; slot++)
        fprintf(s->out, "%lld %016llx\n",
                (long long)((step - 1) * s->ranks + s->rank) * s->batch + slot,
                (unsigned long long)digest[slot]);
    dg_diag_close(&d);
    free(digest);
}

static void report(void *ctx, const dg_run_report *r)
{
    self *s = ctx;

    if (r->scope)
        return;
    fprintf(s->out, "loss %a\n", r->loss);
    write_choices(s, r->step);
    fflush(s->out);
}

/* What is said at the end about ranks. */
static void log_line(void *ctx, int level, const char *line)
{
    const self *s = ctx;

    (void)level;
    if (s->rank == 0 &&
        (strncmp(line, "a step has", 10) == 0 || strncmp(line, "batches without", 15) == 0))
        printf("  %s\n", line);
    fflush(stdout);
}

static int be_rank(int argc, char **argv)
{
    dg_diag *d = dg_diag_open();
    self s = { .rank = atoi(argv[RANK]), .ranks = atoi(argv[RANKS]), .lr = atof(argv[LR]) };
    dg_world world = {
        .rank = s.rank, .ranks = s.ranks, .nodes = 1, .local_rank = s.rank, .local_ranks = s.ranks
    };
    const char *sets[64] = { NULL };
    char batch[32];
    int rc, n = 0;

    s.batch = atol(argv[IMAGES]) / s.ranks;
    snprintf(batch, sizeof batch, "batch=%ld", s.batch);
    sets[n++] = batch;
    for (int i = SETS; i < argc && n < 64; i++)
        sets[n++] = argv[i];
    s.out = fopen(argv[RESULT], "we");
    DG_TRY(s.out ? 0 : -DG_EIO);
    DG_TRY(dg_comm_shm_open(&world.comm, atoi(argv[FD]), s.rank, s.ranks, d));
    DG_TRY(dg_run_open_rank(&s.run,
                            &(dg_run_options){ .size = sizeof(dg_run_options),
                                               .file = argv[FILE_],
                                               .n_sets = n,
                                               .sets = sets,
                                               .device = getenv("DETRGRAPH_DEVICE"),
                                               .precision = argv[PRECISION],
                                               .threads = 1,
                                               .keep_named = true,
                                               .log = log_line,
                                               .log_ctx = &s,
                                               .control = change_rates,
                                               .control_ctx = &s },
                            &world, d));
    DG_TRY(dg_run_train(s.run,
                        &(dg_run_train_options){ .size = sizeof(dg_run_train_options),
                                                 .steps = atol(argv[STEPS]),
                                                 .report = report,
                                                 .ctx = &s },
                        d));
out:
    if (rc < 0)
        fprintf(stderr, "rank %d: %s\n", s.rank, dg_diag_text(d));
    dg_run_close(&s.run);
    if (world.comm)
        world.comm->close(&world.comm);
    if (s.out)
        fclose(s.out);
    dg_diag_close(&d);
    return rc < 0 || s.failed;
}

/* ---- all of them ----------------------------------------------------------------------------- */

typedef struct result {
    int n;             /* steps */
    double loss[MOST]; /* of rank 0 */
    uint64_t choice[MOST];
    long images;
    bool alike; /* every rank said the same losses */
} result;

static bool read_rank(result *r, const char *path, int rank)
{
    FILE *f = fopen(path, "re");
    char line[128];
    int n = 0;

    while (f && fgets(line, sizeof line, f)) {
        char *end;
        unsigned long long digest;

        if (strncmp(line, "loss ", 5) == 0) {
            double loss = strtod(line + 5, NULL);

            if (rank == 0 && n < MOST)
                r->loss[n] = loss;
            r->alike &= n < MOST && r->loss[n] == loss;
            n++;
            continue;
        }
        long image = strtol(line, &end, 10);

        digest = strtoull(end, NULL, 16);
        if (image >= 0 && image < MOST) {
            r->choice[image] = digest;
            r->images = image >= r->images ? image + 1 : r->images;
        }
    }
    if (f)
        fclose(f);
    r->n = rank == 0 ? n : r->n;
    return f && n == r->n;
}

static bool run(result *out, int ranks, int argc, char **argv)
{
    extern char **environ;
    dg_diag *d = dg_diag_open();
    char folder[] = "/tmp/detrgraph-equal-XXXXXX", path[64], rank[12], size[12], number[12];
    char *args[80] = { [PROGRAM] = argv[0], [WORD] = "rank", [RANK] = rank,
                       [RANKS] = size,      [FD] = number,   [RESULT] = path };
    int fd, status, bad = dg_comm_shm_make(&fd, d) < 0 || !mkdtemp(folder) || fcntl(fd, F_SETFD, 0);

    *out = (result){ .alike = true };
    for (int i = 1; i < argc && i < 70; i++)
        args[FILE_ + i - 1] = argv[i];
    snprintf(size, sizeof size, "%d", ranks);
    snprintf(number, sizeof number, "%d", fd);
    for (int r = 0; r < ranks && !bad; r++) {
        pid_t pid;

        snprintf(rank, sizeof rank, "%d", r);
        snprintf(path, sizeof path, "%s/%d", folder, r);
        bad = posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ);
    }
    while (wait(&status) > 0)
        bad |= status;
    close(fd);
    for (int r = 0; r < ranks; r++) {
        snprintf(path, sizeof path, "%s/%d", folder, r);
        bad |= !read_rank(out, path, r);
        unlink(path);
    }
    rmdir(folder);
    dg_diag_close(&d);
    return !bad;
}

static double off(const result *a, const result *b, int step)
{
    return fabs(a->loss[step] - b->loss[step]) / fabs(a->loss[step]);
}

/* The first step in which another choice was made for some image; a->n: none. */
static int first_other(const result *a, const result *b, long images)
{
    for (long i = 0; i < a->images; i++)
        if (a->choice[i] != b->choice[i])
            return (int)(i / images);
    return a->n;
}

static bool judge(const result *one, const result *many, bool wide, long images)
{
    int other = first_other(one, many, images);
    double first = off(one, many, 0), alike = 0, all = 0;

    for (int i = 0; i < one->n; i++) {
        all = fmax(all, off(one, many, i));
        alike = i < other ? fmax(alike, off(one, many, i)) : alike;
    }
    printf("  relative difference of the loss: step 1 %.2g; worst %.2g; while choices are equal "
           "%.2g\n",
           first, all, alike);
    if (other < one->n)
        printf("  first step with another choice: %d\n", other + 1);
    else
        printf("  all %ld images: the same tokens and matches at every step\n", one->images);
    return one->n == many->n && many->alike &&
           (wide ? all <= 1e-9 : first <= 1e-5 && alike <= 1e-4);
}

int main(int argc, char **argv)
{
    static result results[RUNS];
    static const int ranks[RUNS] = { 1, 2, 4, 2 };
    bool good = true, wide;
    long images;

    if (argc > SETS - 1 && strcmp(argv[WORD], "rank") == 0)
        return be_rank(argc, argv);
    if (argc < 6) {
        fputs("usage: tests/ranks/equal FILE PRECISION STEPS IMAGES LR [NAME=VALUE...]\n", stderr);
        return 2;
    }
    wide = strcmp(argv[2], "f64") == 0;
    images = atol(argv[4]);
    setenv("OMP_NUM_THREADS", "1", 1);
    setenv("OMP_WAIT_POLICY", "passive", 1);
    for (int i = 0; i < RUNS; i++) {
        if (!run(&results[i], ranks[i], argc, argv))
            return 1;
        printf("%d rank%s: %d steps, loss %.9g to %.9g\n", ranks[i], ranks[i] == 1 ? "" : "s",
               results[i].n, results[i].loss[0], results[i].loss[results[i].n - 1]);
        if (i < 3 && ranks[i] > 1)
            good &= judge(&results[0], &results[i], wide, images);
        fflush(stdout);
    }
    if (memcmp(results[1].loss, results[3].loss, sizeof results[1].loss) == 0 &&
        memcmp(results[1].choice, results[3].choice, sizeof results[1].choice) == 0) {
        puts("  as the first run on 2 ranks, bit for bit");
    } else {
        puts("  NOT as the first run on 2 ranks");
        good = false;
    }
    puts(good ? "equal" : "NOT EQUAL");
    return !good;
}
