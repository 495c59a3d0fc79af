/* few: fewer objects than ranks. One object in one rank's images weighs as much as it does when one
 * rank has all images: losses divide by max(1, objects of all ranks) / ranks. */
#include "tests/comm/crew.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <detrgraph/run.h>

#include "comm/world.h"
#include "runtime/run.h"

enum { SIDE = 64, IMAGES = 2 };

typedef struct shared {
    const char *model, *train; /* of the pipeline */
    int objects;               /* in the first image; the second has none */
    double loss[CREW_MOST];
} shared;

static const char pipeline[] =
    "<pipeline version='1' seed='5'><mesh dp='ranks'/><model id='m'><input id='images'/>"
    "<input id='targets' optional='true'/><input id='sizes' optional='true'/>"
    "<backbone.presnet id='backbone' in='@images' depth='18' width='4' norm='sync'/>"
    "%s</model>"
    "<train steps='9' precision='f64'>"
    "<loader.synthetic id='data' images='8' width='64' height='64' classes='3'/>"
    "<sampler.bucket id='pick' in='@data' axis='dp' batch='%d' sizes='64' tail='drop'/>"
    "<batch id='b' in='@pick' max_objects='4' fit='pad'/>%s"
    "<backward id='grad' loss='@loss.total'/><allreduce id='mean' in='@grad' axis='dp'/>"
    "<optimizer.adamw id='opt' gradients='@mean'/></train></pipeline>";

static const char lwdetr[] =
    "<record id='maps' p5='@backbone.s32'/>"
    "<decoder.lwdetr id='decoder' memory='@maps' classes='3' queries='4' groups='%d' layers='2' "
    "heads='2' self_heads='2' ffn='8'/>";
static const char dino[] =
    "<record id='maps' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32'/>"
    "<neck.channels id='neck' in='@maps' width='32' levels='3' groups='4'/>"
    "<decoder.dino id='decoder' memory='@neck' classes='3' queries='8' layers='2' heads='2' "
    "ffn='8'/>";
/* All boxes are samples, so a choice does not depend on draws, which differ between ranks. */
static const char rpn[] =
    "<record id='maps' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32'/>"
    "<neck.channels id='neck' in='@maps' width='32' levels='3' groups='4'/>"
    "<head.rpn id='head' memory='@neck' targets='@targets' sizes='@sizes' stride='8' "
    "samples='4000' proposals='20' axis='dp'/>";
static const char roi[] =
    "<record id='maps' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32'/>"
    "<neck.channels id='neck' in='@maps' width='32' levels='3' groups='4'/>"
    "<head.rpn id='rpn' memory='@neck' targets='@targets' sizes='@sizes' stride='8' proposals='20' "
    "axis='dp' frozen='true'/>"
    "<head.roi id='head' memory='@neck' proposals='@rpn' targets='@targets' sizes='@sizes' "
    "classes='3' stride='8' levels='3' samples='64' positives='32' finest='14' hidden='16' "
    "axis='dp'/>";
static const char atss[] =
    "<record id='maps' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32'/>"
    "<neck.channels id='neck' in='@maps' width='32' levels='3' groups='4'/>"
    "<head.atss id='head' memory='@neck' targets='@targets' sizes='@sizes' classes='3' stride='8' "
    "groups='4' axis='dp'/>";

#define USE "<use id='out' model='m' images='@b.images'/>"
static const char rfdetr_loss[] =
    USE "<loss.rfdetr id='loss' predictions='@out' targets='@b.targets' axis='dp'/>";
static const char dino_loss[] =
    USE "<loss.dino id='loss' predictions='@out' targets='@b.targets' axis='dp'/>";
static const char head_loss[] =
    "<use id='loss' model='m' images='@b.images' targets='@b.targets' sizes='@b.sizes'/>";

static double element(const shared *s, const char *name, int image, int64_t j)
{
    static const double box[4] = { 0.52, 0.41, 0.3, 0.2 };

    if (strstr(name, "boxes"))
        return box[j % 4];
    if (strstr(name, "count"))
        return image ? 0 : s->objects;
    if (strstr(name, "sizes"))
        return SIDE;
    if (strstr(name, "labels"))
        return 1;
    return 0.5 + 0.4 * sin(0.37 * (double)j + image);
}

/* Gives this rank its images: both, or one, or (rank 2) the second once more. */
static bool feed(dg_run *run, const shared *s, int rank, int64_t batch, dg_diag *d)
{
    bool well = true;

    for (int i = 0; well && i < dg_run_n_inputs(run); i++) {
        dg_run_tensor t = dg_run_input_at(run, i);
        int64_t n = dg_shape_elements(t.shape), each = n / batch;
        double *v = test_malloc((size_t)n * sizeof *v);
        int32_t *k = (int32_t *)v;

        for (int64_t j = 0; j < n; j++) {
            double x = element(s, t.name, (int)(j / each) + rank, j % each);

            if (t.dtype == DG_I32)
                k[j] = (int32_t)x;
            else
                v[j] = x;
        }
        well = dg_run_feed(run, t.name, v, n, d) == 0;
        test_free(v);
    }
    return well;
}

static const char *rank_of(dg_comm *comm, void *ctx)
{
    shared *s = ctx;
    dg_world world = { .rank = comm->rank,
                       .ranks = comm->ranks,
                       .nodes = 1,
                       .local_ranks = comm->ranks,
                       .local_rank = comm->rank,
                       .comm = comm };
    int batch = IMAGES / comm->ranks;
    dg_run_options o = { .size = sizeof o, .file = "few.xml", .threads = 1, .keep_named = true };
    dg_diag *d = dg_diag_open();
    dg_run *run;
    const char *wrong = NULL;
    char text[4096];

    snprintf(text, sizeof text, pipeline, s->model, batch, s->train);
    o.text = text;
    if (dg_run_open_rank(&run, &o, &world, d) < 0 ||
        dg_run_select(run, "train", SIDE, SIDE, d) < 0 || !feed(run, s, comm->rank, batch, d) ||
        dg_run_step(run, d) < 0 || dg_run_read(run, "loss.total", &s->loss[comm->rank], 1, d) < 0) {
        wrong = "no step";
        fprintf(stderr, "# rank %d: %s\n", comm->rank, dg_diag_text(d));
        comm->abort(comm);
    }
    dg_run_close(&run);
    dg_diag_close(&d);
    return wrong;
}

static void alike(const char *model, const char *train)
{
    for (int objects = 0; objects < 3; objects++) {
        shared one = { model, train, objects, { 0 } }, two = one;
        double mean;

        crew_run(1, rank_of, &one);
        crew_run(2, rank_of, &two);
        mean = (two.loss[0] + two.loss[1]) / 2;
        if (!(fabs(mean - one.loss[0]) <= 1e-9 * fabs(one.loss[0])))
            fail_msg("%d objects: one rank has loss %.17g, two have %.17g", objects, one.loss[0],
                     mean);
    }
}

static void groups_of_queries(void **state)
{
    char model[512];

    (void)state;
    for (int groups = 1; groups <= 3; groups += 2) {
        snprintf(model, sizeof model, lwdetr, groups);
        alike(model, rfdetr_loss);
    }
}

static void pairs(void **state)
{
    (void)state;
    alike(dino, dino_loss);
}

static void positives(void **state)
{
    (void)state;
    alike(atss, head_loss);
}

static void samples(void **state)
{
    (void)state;
    alike(rpn, head_loss);
}

static void rows(void **state)
{
    (void)state;
    alike(roi, head_loss);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_queries), cmocka_unit_test(pairs), cmocka_unit_test(positives),
        cmocka_unit_test(samples),           cmocka_unit_test(rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
