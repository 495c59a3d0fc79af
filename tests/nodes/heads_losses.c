/* heads_losses.c: <head.rpn>, <head.roi> and <head.atss> in a row on small maps, against
 * data/heads_losses.json: proposals, sampled rows, all losses, queries, and the gradients of every
 * parameter and map. A second program, made of PyTorch's and torchvision's functions (RoIAlign,
 * NMS, group norm, autograd) in f64, computed those numbers from the same formula and rules. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/json.h"
#include "nodes/builtin.h"
#include "tests/nodes/unit.h"
#include "tests/ops/formula.h"

enum { CLASSES = 3, SLOTS = 3, BATCH = 2, CHANNELS = 8, LEVELS = 3, STRIDE = 8, PROPOSALS = 25 };
enum { RPN_ROWS = 24, ROI_ROWS = 20, QUERIES = 12, ROI_QUERIES = 9 };

static const int64_t map_sizes[LEVELS][2] = { { 8, 10 }, { 4, 5 }, { 2, 3 } };

typedef struct heads {
    unit u;
    const dg_json *entry;
    dg_val maps, targets, sizes, rpn[3], roi[3], atss[3], total;
    double pixels[LEVELS][BATCH * 8 * 10 * CHANNELS];
    double labels[BATCH * SLOTS], boxes[BATCH * SLOTS * 4], count[BATCH], size[BATCH * 2];
} heads;

static const dg_json *at(const heads *t, const char *key)
{
    const dg_json *x = dg_json_get(t->entry, key);

    if (!x)
        fail_msg("the entry has no %s", key);
    return x;
}

/* ---- the program ----------------------------------------------------------------------------- */

static void read_objects(heads *t)
{
    for (int b = 0; b < BATCH; b++) {
        const dg_json *one = &at(t, "targets")->items[b], *labels = dg_json_get(one, "labels"),
                      *boxes = dg_json_get(one, "boxes_xyxy");

        for (int k = 0; k < 2; k++)
            t->size[2 * b + k] = at(t, "sizes")->items[b].items[k].number;
        t->count[b] = labels->n;
        for (int j = 0; j < labels->n; j++)
            for (int k = 0; k < 2; k++) {
                double low = boxes->items[j].items[k].number,
                       high = boxes->items[j].items[k + 2].number, side = t->size[2 * b + 1 - k];
                double *box = t->boxes + ((int64_t)b * SLOTS + j) * 4;

                t->labels[b * SLOTS + j] = labels->items[j].number;
                box[k] = 0.5 * (low + high) / side;
                box[k + 2] = (high - low) / side;
            }
    }
}

static void declare_inputs(heads *t)
{
    unit *u = &t->u;

    unit_enter(u, "");
    t->maps = dg_record(u->b);
    for (int l = 0; l < LEVELS; l++) {
        dg_shape shape = DG_SHAPE(BATCH, map_sizes[l][0], map_sizes[l][1], CHANNELS);
        const char *name = dg_printf(u->arena, "p%d", l);

        for (int64_t i = 0; i < dg_shape_elements(shape); i++)
            t->pixels[l][i] = formula(name, i, 2, -1);
        dg_record_set(u->b, t->maps, name, unit_input(u, DG_REAL, true, name, shape, t->pixels[l]));
    }
    t->targets = dg_record(u->b);
    dg_record_set(u->b, t->targets, "labels",
                  unit_input(u, DG_I32, false, "labels", DG_SHAPE(BATCH, SLOTS), t->labels));
    dg_record_set(u->b, t->targets, "boxes",
                  unit_input(u, DG_REAL, false, "boxes", DG_SHAPE(BATCH, SLOTS, 4), t->boxes));
    dg_record_set(u->b, t->targets, "count",
                  unit_input(u, DG_I32, false, "count", DG_SHAPE(BATCH), t->count));
    t->sizes = unit_input(u, DG_I32, false, "sizes", DG_SHAPE(BATCH, 2), t->size);
}

typedef struct setting {
    const char *name;
    double value;
} setting;

static void lower_head(heads *t, const dg_node_class *class, const char *name, const setting *s,
                       const dg_val in[], dg_val out[])
{
    void *conf = unit_conf(&t->u, class);

    unit_set(class, conf, "stride", STRIDE);
    unit_set(class, conf, "classes", CLASSES);
    unit_set(class, conf, "queries", QUERIES);
    for (; s->name; s++)
        unit_set(class, conf, s->name, s->value);
    unit_enter(&t->u, name);
    unit_lower(&t->u, class, conf, in, out);
}

static void open_heads(heads *t, const dg_json *root, const char *entry, int bits)
{
    static const setting rpn[] = { { "samples", RPN_ROWS },
                                   { "pre_nms", 60 },
                                   { "proposals", PROPOSALS },
                                   { 0 } },
                         roi[] = { { "samples", ROI_ROWS }, { "positives", 6 }, { "cells", 3 },
                                   { "finest", 12 },        { "hidden", 10 },   { 0 } },
                         atss[] = { { "groups", 2 }, { 0 } };
    dg_build *b;

    memset(t, 0, sizeof *t);
    t->entry = dg_json_get(root, entry);
    unit_open(&t->u, bits, true);
    b = t->u.b;
    t->u.draw = unit_head_key;
    read_objects(t);
    declare_inputs(t);
    lower_head(t, &dg_node_head_rpn, "rpn", rpn, (dg_val[]){ t->maps, t->targets, t->sizes },
               t->rpn);
    lower_head(t, &dg_node_head_roi, "roi", roi,
               (dg_val[]){ t->maps, t->rpn[0], t->targets, t->sizes }, t->roi);
    lower_head(t, &dg_node_head_atss, "atss", atss, (dg_val[]){ t->maps, t->targets, t->sizes },
               t->atss);
    t->total = dg_add(b, dg_add(b, t->rpn[1], t->roi[1]), t->atss[1]);
    unit_run(&t->u, t->total);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

static void near(const heads *t, double ours, double stored, double scale, const char *what)
{
    double error = fabs(ours - stored) / fmax(scale, 1e-9);

    if (!(error <= (t->u.bits == 64 ? 1e-9 : 2e-4)))
        fail_msg("%s in f%d: %.17g, expected %.17g", what, t->u.bits, ours, stored);
}

/* Lists of each image against ours of `width` places; places past a list hold -1. */
static void same_rows(const heads *t, const char *ours, const char *key, int64_t width,
                      double shift)
{
    for (int b = 0; b < BATCH; b++) {
        const dg_json *list = &at(t, key)->items[b];

        for (int64_t i = 0; i < width; i++) {
            double own = unit_get(&t->u, ours, b * width + i), want = -1;

            if (i < list->n)
                want =
                    list->items[i].number +
                    (shift > 0 && list->items[i].number >= t->count[b] ? shift - t->count[b] : 0);
            if (own != want)
                fail_msg("%s: entry %d of image %d is %g, expected %g", ours, (int)i, b, own, want);
        }
    }
}

static void check_losses(const heads *t)
{
    const dg_json *losses = at(t, "losses");

    assert_int_equal(losses->n, 8);
    for (int i = 0; i < losses->n; i++) {
        const char *name = dg_printf(t->u.arena, "loss.%s", losses->items[i].key);
        double own = unit_get(&t->u, name, 0), want = losses->items[i].number;

        if (want == 0)
            assert_true(own == 0);
        near(t, own, want, fabs(want), name);
    }
    near(t, dg_interpreter_get(t->u.m, (int32_t)t->total.id, 0), at(t, "total")->number,
         at(t, "total")->number, "total");
}

static void check_proposals(const heads *t)
{
    same_rows(t, "rpn.ids", "ids", PROPOSALS, 0);
    for (int b = 0; b < BATCH; b++) {
        const dg_json *boxes = &at(t, "proposals")->items[b];

        assert_true(unit_get(&t->u, "rpn.kept", b) == at(t, "kept")->items[b].number);
        for (int i = 0; i < boxes->n; i += 4)
            for (int k = 0; k < 2; k++) {
                double low = boxes->items[i + k].number, high = boxes->items[i + k + 2].number;
                int64_t place = (int64_t)b * PROPOSALS * 4 + i + k;

                near(t, unit_get(&t->u, "rpn.proposals", place), 0.5 * (low + high), 80,
                     "a proposal");
                near(t, unit_get(&t->u, "rpn.proposals", place + 2), high - low, 80, "a proposal");
            }
    }
}

static void check_gradients(const heads *t)
{
    const dg_json *grads = at(t, "grads");

    for (int i = 0; i < grads->n; i++) {
        const char *name = grads->items[i].key;
        const dg_json *samples = dg_json_get(&grads->items[i], "samples");
        int32_t g = unit_gradient(&t->u, name);
        int64_t n = dg_shape_elements(dg_interpreter_tensor(t->u.m, g).shape);
        double l2 = dg_json_number(&grads->items[i], "l2"), own = 0, rms = l2 / sqrt((double)n);

        for (int64_t k = 0; k < n; k++)
            own += pow(dg_interpreter_get(t->u.m, g, k), 2);
        if (l2 == 0)
            assert_true(own == 0);
        near(t, sqrt(own), l2, l2, name);
        for (int k = 0; k < samples->n; k++)
            near(t, dg_interpreter_get(t->u.m, g, (int64_t)samples->items[k].items[0].number),
                 samples->items[k].items[1].number,
                 fmax(rms, fabs(samples->items[k].items[1].number)), name);
    }
    assert_int_equal(grads->n, dg_params_n(t->u.params));
}

static void check_queries(const heads *t, const char *rows, const char *key, const char *n,
                          int64_t capacity, dg_val set)
{
    int32_t meta = (int32_t)dg_record_get(t->u.b, set, "meta").id;

    same_rows(t, rows, key, capacity, 0);
    assert_true(dg_interpreter_get(t->u.m, meta, 2) == at(t, n)->number);
}

static void run_heads(const dg_json *root, const char *entry, int bits)
{
    static heads t;

    open_heads(&t, root, entry, bits);
    check_proposals(&t);
    same_rows(&t, "rpn.rows", "rpn_rows", RPN_ROWS, 0);
    same_rows(&t, "roi.rows", "roi_rows", ROI_ROWS, SLOTS);
    check_losses(&t);
    check_gradients(&t);
    check_queries(&t, "roi.queries", "aux0", "n_aux0", ROI_QUERIES, t.roi[0]);
    check_queries(&t, "atss.queries", "aux1", "n_aux1", QUERIES, t.atss[0]);
    unit_close(&t.u);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void read_and_run(void **state, const char *entry)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    const char *top = getenv("srcdir");
    const dg_json *root;

    (void)state;
    if (dg_json_read(&root, a,
                     dg_printf(a, "%s/tests/nodes/data/heads_losses.json", top ? top : "."), d))
        fail_msg("%s", dg_diag_text(d));
    run_heads(root, entry, 64);
    run_heads(root, entry, 32);
    dg_diag_close(&d);
    dg_arena_close(&a);
}

static void objects_on_all_images(void **state)
{
    read_and_run(state, "objects");
}

static void an_image_without_objects(void **state)
{
    read_and_run(state, "one_empty");
}

static void no_objects_at_all(void **state)
{
    read_and_run(state, "all_empty");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_on_all_images),
        cmocka_unit_test(an_image_without_objects),
        cmocka_unit_test(no_objects_at_all),
    };

    return cmocka_run_group_tests_name("heads_losses", tests, NULL, NULL);
}
