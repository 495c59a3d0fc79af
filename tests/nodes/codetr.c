/* codetr: what must not matter to Co-DINO with images of four shapes in one canvas: their order in
 * the batch, the images beside them, and what stands outside of an image or behind the last object.
 * The numbers themselves are compared with the reference's by tests/parity. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ops/formula.h"
#include <detrgraph/run.h>

static const char pipeline[] =
    "<pipeline version='1' seed='5'><model id='m'>"
    "<input id='images'/><input id='sizes'/><input id='targets' optional='true'/>"
    "<input id='denoising' optional='true'/>"
    "<backbone.resnet id='backbone' in='@images' sizes='@sizes' depth='18' "
    "frozen_stages='-1' freeze_norm='false'/>"
    "<neck.channels id='neck' in='@backbone' width='16' groups='4'/>"
    "<encoder.deformable id='encoder' in='@neck' images='@images' sizes='@sizes' layers='1' "
    "ffn='16' heads='2'/>"
    "<neck.coarser id='pyramid' in='@encoder' groups='4'/>"
    "<head.rpn id='rpn' memory='@pyramid' targets='@targets' sizes='@sizes' samples='16' "
    "pre_nms='50' proposals='20'/>"
    "<head.roi id='roi' memory='@pyramid' proposals='@rpn' targets='@targets' sizes='@sizes' "
    "classes='3' samples='16' positives='4' finest='14' hidden='16'/>"
    "<head.atss id='atss' memory='@pyramid' targets='@targets' sizes='@sizes' classes='3' "
    "groups='4' queries='20'/>"
    "<record id='positives' rcnn='@roi.positives' atss='@atss.positives'/>"
    "<decoder.dino id='decoder' memory='@encoder.out' padding='@encoder.padding' "
    "denoising='@denoising' positives='@positives' sets='2' classes='3' queries='12' layers='2' "
    "ffn='16' heads='2'/>"
    "<record id='all' predictions='@decoder' rpn='@rpn.total' roi='@roi.total' "
    "atss='@atss.total'/></model>"
    "<train steps='4'><loader.synthetic id='data'/>"
    "<sampler.plain id='pick' in='@data' batch='4' size='64x48'/>"
    "<batch id='b' in='@pick' fit='pad' max_objects='3'/>"
    "<denoising id='dn' targets='@b.targets' classes='3' count='6' empty='none'/>"
    "<use id='out' model='m' images='@b.images' sizes='@b.sizes' targets='@b.targets' "
    "denoising='@dn'/>"
    "<loss.dino id='dino' predictions='@out.predictions' targets='@b.targets'/>"
    "<sum id='loss' dino='@dino.total' rpn='@out.rpn' roi='@out.roi' atss='@out.atss'/>"
    "<backward id='grad' loss='@loss'/><optimizer.adamw id='opt' gradients='@grad' lr='0' "
    "weight_decay='0'/></train>"
    "<evaluate every='4 steps'><loader.synthetic id='data'/>"
    "<sampler.plain id='pick' in='@data' batch='4' size='64x48' shuffle='false' tail='pad'/>"
    "<batch id='b' in='@pick' fit='pad' max_objects='3'/>"
    "<use id='out' model='m' images='@b.images' sizes='@b.sizes'/>"
    "<detect id='found' in='@out.predictions' most='12' soft_nms='0.6'/>"
    "<evaluate.coco id='coco' in='@found'/></evaluate></pipeline>";

enum { WIDTH = 64, HEIGHT = 48, AREA = WIDTH * HEIGHT, SHAPES = 4, ROOM = 3, MOST = 12 };
static const int32_t shapes[SHAPES][2] = { { 48, 64 }, { 48, 21 }, { 17, 64 }, { 31, 33 } },
                     objects[SHAPES] = { 2, 0, 3, 1 };
static const double bound = 2e-5;

/* Which images a batch has; stray: what stands where nothing is. */
typedef struct batch {
    int image[SHAPES];
    double stray;
} batch;

typedef struct opened {
    dg_diag *d;
    dg_run *run;
} opened;

typedef struct found {
    int32_t labels[SHAPES][MOST];
    double scores[SHAPES][MOST], boxes[SHAPES][MOST][4];
} found;

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

static int open_run(void **state)
{
    static opened o;

    o.d = dg_diag_open();
    must(dg_run_open(&o.run,
                     &(dg_run_options){ .size = sizeof(dg_run_options),
                                        .file = "codetr.xml",
                                        .text = pipeline,
                                        .precision = "f32",
                                        .threads = 1,
                                        .device = getenv("DETRGRAPH_DEVICE"),
                                        .feed_draws = true,
                                        .keep_named = true },
                     o.d),
         o.d);
    *state = &o;
    return 0;
}

static int close_run(void **state)
{
    opened *o = *state;

    dg_run_close(&o->run);
    dg_diag_close(&o->d);
    return 0;
}

static void feed_images(dg_run *run, const batch *b, dg_diag *d)
{
    static double v[SHAPES * AREA * 3];
    int32_t sizes[2 * SHAPES];

    for (int i = 0; i < SHAPES; i++) {
        const int32_t *shape = shapes[b->image[i]];

        for (int at = 0; at < AREA * 3; at++)
            v[i * AREA * 3 + at] = at / 3 / WIDTH < shape[0] && at / 3 % WIDTH < shape[1]
                                       ? formula_u("images", b->image[i] * AREA * 3 + at)
                                       : b->stray;
        memcpy(sizes + 2 * i, shape, sizeof shapes[0]);
    }
    must(dg_run_feed(run, "b.images", v, SHAPES * AREA * 3, d), d);
    must(dg_run_feed(run, "b.sizes", sizes, 2 * SHAPES, d), d);
}

static void feed_targets(dg_run *run, const batch *b, dg_diag *d)
{
    int32_t labels[SHAPES * ROOM], count[SHAPES];
    double boxes[SHAPES * ROOM * 4];

    for (int i = 0; i < SHAPES * ROOM; i++) {
        const int image = b->image[i / ROOM], j = i % ROOM;
        const bool is = j < objects[image];

        labels[i] = is ? (image + j) % 3 : b->stray > 0;
        for (int k = 0; k < 4; k++)
            boxes[4 * i + k] =
                is ? (k < 2 ? 0.3 : 0.2) + 0.3 * formula_u("boxes", (image * ROOM + j) * 4 + k)
                   : b->stray;
        count[i / ROOM] = objects[image];
    }
    must(dg_run_feed(run, "b.targets.labels", labels, SHAPES * ROOM, d), d);
    must(dg_run_feed(run, "b.targets.boxes", boxes, SHAPES * ROOM * 4, d), d);
    must(dg_run_feed(run, "b.targets.count", count, SHAPES, d), d);
}

static found detect(const opened *o, batch b)
{
    found f = { 0 };

    must(dg_run_select(o->run, "evaluate", WIDTH, HEIGHT, o->d), o->d);
    feed_images(o->run, &b, o->d);
    must(dg_run_forward(o->run, false, o->d), o->d);
    must(dg_run_read(o->run, "detections.labels", f.labels, SHAPES * MOST, o->d), o->d);
    must(dg_run_read(o->run, "detections.scores", f.scores, SHAPES * MOST, o->d), o->d);
    must(dg_run_read(o->run, "detections.boxes", f.boxes, SHAPES * MOST * 4, o->d), o->d);
    return f;
}

/* Image i of a is image k of b. */
static void same_image(const found *a, int i, const found *b, int k)
{
    for (int j = 0; j < MOST; j++) {
        assert_int_equal(a->labels[i][j], b->labels[k][j]);
        assert_true(fabs(a->scores[i][j] - b->scores[k][j]) <= bound);
        for (int c = 0; c < 4; c++)
            assert_true(fabs(a->boxes[i][j][c] - b->boxes[k][j][c]) <= bound);
    }
}

static const batch in_order = { { 0, 1, 2, 3 }, 0 }, strange = { { 0, 1, 2, 3 }, 0.7 };

static void order(void **state)
{
    const batch other = { { 2, 0, 3, 1 }, 0 };
    found a = detect(*state, in_order), b = detect(*state, other);

    for (int i = 0; i < SHAPES; i++)
        same_image(&b, i, &a, other.image[i]);
    for (int i = 0; i < SHAPES; i++) /* and it finds something, not the same everywhere */
        assert_true(a.scores[i][0] > 0 &&
                    fabs(a.scores[i][0] - a.scores[(i + 1) % SHAPES][0]) > bound);
}

static void images_beside(void **state)
{
    found all = detect(*state, in_order), own = detect(*state, (batch){ { 2, 2, 2, 2 }, 0 });

    for (int i = 0; i < SHAPES; i++)
        same_image(&own, i, &all, 2);
}

static void outside(void **state)
{
    found a = detect(*state, in_order), b = detect(*state, strange);

    for (int i = 0; i < SHAPES; i++)
        same_image(&b, i, &a, i);
}

/* The same random numbers for every step. */
static void feed_draws(dg_run *run, dg_diag *d)
{
    static double v[1 << 16];

    for (int i = 0; i < dg_run_n_inputs(run); i++) {
        dg_run_tensor t = dg_run_input_at(run, i);
        int64_t n = dg_shape_elements(t.shape);

        if (strncmp(t.name, "b.", 2) == 0)
            continue;
        assert_true(t.dtype == DG_F64 && n <= 1 << 16);
        for (int64_t k = 0; k < n; k++)
            v[k] = formula_u(t.name, k);
        must(dg_run_feed(run, t.name, v, n, d), d);
    }
}

typedef struct step {
    double loss, norm;
} step;

static step train(const opened *o, batch b)
{
    step s = { 0 };

    must(dg_run_select(o->run, "train", WIDTH, HEIGHT, o->d), o->d);
    feed_images(o->run, &b, o->d);
    feed_targets(o->run, &b, o->d);
    feed_draws(o->run, o->d);
    must(dg_run_step(o->run, o->d), o->d); /* at the rate 0 */
    must(dg_run_read(o->run, "loss.total", &s.loss, 1, o->d), o->d);
    must(dg_run_read(o->run, "grad_norm", &s.norm, 1, o->d), o->d);
    return s;
}

static void outside_in_training(void **state)
{
    step a = train(*state, in_order), b = train(*state, strange),
         c = train(*state, (batch){ { 0, 1, 3, 3 }, 0 });

    assert_true(a.loss > 1 && a.norm > 1e-3);
    assert_true(fabs(a.loss - b.loss) <= bound * a.loss);
    assert_true(fabs(a.norm - b.norm) <= bound * a.norm);
    assert_true(fabs(a.loss - c.loss) > 100 * bound * a.loss); /* other images are noticed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order),
        cmocka_unit_test(images_beside),
        cmocka_unit_test(outside),
        cmocka_unit_test(outside_in_training),
    };

    return cmocka_run_group_tests_name("codetr", tests, open_run, close_run);
}
