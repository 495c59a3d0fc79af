/* course: steps of several ranks in which some have what others lack: votes that all hear, nodes
 * that all leave out, a value that one sends, a bad loss on one that all skip, a skip behind the
 * update that some take. */
#include "tests/comm/crew.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <detrgraph/run.h>

#include "comm/world.h"
#include "runtime/run.h"

enum { SIDE = 32, BATCH = 2, PIXELS = BATCH * SIDE * SIDE * 3 };

static const char text[] =
    "<pipeline version='1' seed='5'><mesh dp='ranks'/>"
    "<train steps='40'><loader.synthetic id='data' images='24' width='32' height='32' classes='2'/>"
    "<sampler.bucket id='pick' in='@data' axis='dp' batch='2' sizes='32' tail='drop'/>"
    "<augment id='aug' in='@pick'/><batch id='b' in='@aug' max_objects='4'/>"
    "<layer.linear id='x' in='@b.images' width='4'/>"
    "<test id='some' in='@b.targets.count' is='positive'/>"
    "<agree id='any' in='@some' op='any' axis='dp'/><agree id='all' in='@some' op='all' axis='dp'/>"
    "<agree id='most' in='@b.targets.count' op='max' axis='dp'/>"
    "<agree id='least' in='@b.targets.count' op='min' axis='dp'/>"
    "<layer.linear id='e' in='@x' width='4' when='@any'/>"
    "<layer.norm id='n' in='@e' norm='sync'/>"
    "<sum id='y' a='@x' b='@n'/>"
    "<test id='mine' in='@b.targets.count' is='above' than='2' when='@some'/>"
    "<broadcast id='sent' in='@some' axis='dp'/>"
    "<agree id='heard' in='@mine' op='all' axis='dp'/>"
    "<loss.mean id='loss' in='@y'/>"
    "<test id='bad' in='@loss.total' is='nonfinite'/><agree id='stop' in='@bad' op='any' "
    "axis='dp'/>"
    "<skip id='s' when='@stop'/>"
    "<backward id='grad' loss='@loss.total'/><allreduce id='mean' in='@grad' axis='dp'/>"
    "<optimizer.adamw id='opt' gradients='@mean' lr='1e-2'/>"
    "<record id='r' any='@any' all='@all' most='@most' least='@least' sent='@sent' heard='@heard'/>"
    "<log id='l' in='@r'/><test id='none' in='@b.targets.count' is='zero'/>"
    "<skip id='t' when='@none'/><log id='k' in='@b.targets.count'/></train></pipeline>";

typedef struct shared {
    double weights[CREW_MOST][16], statistics[CREW_MOST][4];
} shared;

static bool feed(dg_run *run, dg_diag *d, int rank, int objects, double first)
{
    double images[PIXELS];
    int32_t count[BATCH] = { objects, objects };

    for (int i = 0; i < PIXELS; i++)
        images[i] = 0.5 + 0.4 * sin(0.37 * i + rank);
    images[0] = first;
    return dg_run_feed(run, "b.images", images, PIXELS, d) == 0 &&
           dg_run_feed(run, "b.targets.count", count, BATCH, d) == 0;
}

/* A number of the record that is logged: whole, or real. */
static double logged(dg_run *run, const char *key, dg_diag *d)
{
    char name[32];
    double real = NAN;
    int32_t whole;

    snprintf(name, sizeof name, "l.in.%s", key);
    for (int i = 0; i < dg_run_n_values(run); i++) {
        dg_run_tensor v = dg_run_value_at(run, i);

        if (strcmp(v.name, name) != 0)
            continue;
        if (v.dtype == DG_I32)
            return dg_run_read(run, name, &whole, 1, d) == 0 ? (double)whole : NAN;
        return dg_run_read(run, name, &real, 1, d) == 0 ? real : NAN;
    }
    return NAN;
}

static const char *weights(dg_run *run, double e[16], double statistics[4], dg_diag *d)
{
    WRONG_UNLESS(dg_run_get(run, DG_RUN_WEIGHTS, "train.e.weight", e, 16, d) == 0);
    WRONG_UNLESS(dg_run_get(run, DG_RUN_WEIGHTS, "train.n.running_mean", statistics, 4, d) == 0);
    return NULL;
}

static const char *steps(dg_run *run, int rank, int ranks, shared *s, dg_diag *d)
{
    double before[16], mean[4];
    const char *wrong;
    int32_t skipped;

    if ((wrong = weights(run, before, mean, d)))
        return wrong;
    /* rank 0 has three objects in each image, the others none */
    WRONG_UNLESS(feed(run, d, rank, rank ? 0 : 3, 0.1) && dg_run_step(run, d) == 0);
    WRONG_UNLESS(logged(run, "any", d) == 1 && logged(run, "all", d) == (ranks == 1));
    WRONG_UNLESS(logged(run, "most", d) == 3 && logged(run, "least", d) == (ranks == 1 ? 3 : 0));
    WRONG_UNLESS(logged(run, "sent", d) == 1 && logged(run, "heard", d) == 1);
    if ((wrong = weights(run, s->weights[rank], s->statistics[rank], d)))
        return wrong;
    WRONG_UNLESS(memcmp(before, s->weights[rank], sizeof before) != 0);
    /* nobody has one: the guarded part is left out everywhere, its statistics stay */
    WRONG_UNLESS(feed(run, d, rank, 0, 0.1) && dg_run_step(run, d) == 0);
    WRONG_UNLESS(logged(run, "any", d) == 0 && logged(run, "sent", d) == 0);
    WRONG_UNLESS(logged(run, "heard", d) == 1); /* of nobody that could say no */
    if ((wrong = weights(run, before, mean, d)))
        return wrong;
    WRONG_UNLESS(memcmp(mean, s->statistics[rank], sizeof mean) == 0);
    /* the last rank's loss is not finite */
    WRONG_UNLESS(feed(run, d, rank, 3, rank == ranks - 1 ? NAN : 0.1) && dg_run_step(run, d) == 0);
    WRONG_UNLESS(dg_run_read(run, "skip/s", &skipped, 1, d) == 0 && skipped == 1);
    if ((wrong = weights(run, s->weights[rank], s->statistics[rank], d)))
        return wrong;
    WRONG_UNLESS(memcmp(before, s->weights[rank], sizeof before) == 0);
    WRONG_UNLESS(memcmp(mean, s->statistics[rank], sizeof mean) == 0);
    WRONG_UNLESS(feed(run, d, rank, rank, 0.1) && dg_run_step(run, d) == 0);
    return weights(run, s->weights[rank], s->statistics[rank], d);
}

static const char *rank_of(dg_comm *comm, void *ctx)
{
    dg_world world = { .rank = comm->rank,
                       .ranks = comm->ranks,
                       .nodes = 1,
                       .local_ranks = comm->ranks,
                       .local_rank = comm->rank,
                       .comm = comm };
    const dg_run_options o = { .size = sizeof o, .file = "course.xml", .text = text, .threads = 1 };
    dg_diag *d = dg_diag_open();
    dg_run *run;
    const char *wrong = NULL;

    if (dg_run_open_rank(&run, &o, &world, d) < 0 || dg_run_select(run, "train", SIDE, SIDE, d) < 0)
        wrong = "cannot open";
    else
        wrong = steps(run, comm->rank, comm->ranks, ctx, d);
    if (wrong) {
        fprintf(stderr, "# rank %d: %s\n", comm->rank, dg_diag_text(d));
        comm->abort(comm);
    }
    dg_run_close(&run);
    dg_diag_close(&d);
    return wrong;
}

static void together(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        shared s = { 0 };

        crew_run(ranks, rank_of, &s);
        for (int r = 1; r < ranks; r++) {
            assert_memory_equal(s.weights[r], s.weights[0], sizeof s.weights[0]);
            assert_memory_equal(s.statistics[r], s.statistics[0], sizeof s.statistics[0]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(together),
    };

    return cmocka_run_group_tests_name("course", tests, NULL, NULL);
}
