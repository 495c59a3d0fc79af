/* stored_rfdetr.c: the entries of data/ops_rfdetr.json. */
#include "tests/ops/stored.h"

#include <math.h>
#include <stdio.h>

#include "nodes/builtin.h"
#include "nodes/decoder/anchors.h"
#include "nodes/optimizer/schedule.h"

/* ---- decoder --------------------------------------------------------------------------------- */

RFDETR_CASE(sine_embedding)
{
    dg_val x = model_input(m, "x", false), y = dg_sine_embed(m->b, x, 8);

    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), false, 1, "grad x");
}

static dg_val linear(model *m, dg_val x, const char *name, int64_t out)
{
    dg_shape bias = DG_SHAPE(out), weight = DG_SHAPE(out, dg_dim(m->b, x, -1));
    dg_val w = model_param(m, dg_printf(m->arena, "%s.weight", name), weight);

    return dg_linear(m->b, x, w, model_param(m, dg_printf(m->arena, "%s.bias", name), bias));
}

RFDETR_CASE(msda_module)
{
    enum { HEADS = 4, POINTS = 2, LEVELS = 2, D = 16 };
    const dg_json *sizes = model_at(m, "spatial_shapes_hw");
    dg_levels l = { .n = LEVELS, .points = { POINTS, POINTS } };
    dg_val query = model_input(m, "query", false), ref = model_input(m, "ref", false),
           memory = model_input(m, "memory", false), off, weight, y;
    dg_shape s = dg_shape_of(m->b, query);

    for (int i = 0; i < LEVELS; i++) {
        l.h[i] = (int64_t)sizes->items[i].items[0].number;
        l.w[i] = (int64_t)sizes->items[i].items[1].number;
    }
    off = linear(m, query, "sampling_offsets", HEADS * LEVELS * POINTS * 2);
    weight = dg_reshape(m->b, linear(m, query, "attention_weights", HEADS * LEVELS * POINTS),
                        DG_SHAPE(s.d[0], s.d[1], HEADS, LEVELS * POINTS));
    y = dg_deform_attention(m->b, linear(m, memory, "value_proj", D), ref, off,
                            dg_softmax(m->b, weight), HEADS, &l, false);
    y = linear(m, y, "output_proj", D);
    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, query, model_at(m, "grad/query"), false, 1, "grad query");
    model_check_gradient(m, ref, model_at(m, "grad/ref"), false, 1, "grad ref");
    model_check_gradient(m, memory, model_at(m, "grad/memory"), false, 1, "grad memory");
    model_check_parameters(m);
}

RFDETR_CASE(proposals)
{
    dg_levels l = { .n = 2, .h = { 3, 2 }, .w = { 2, 1 } };
    const dg_json *stored = model_at(m, "out/data");
    double boxes[8 * 4], valid[8];

    assert_int_equal(dg_anchors_n(&l), 8);
    assert_int_equal(stored->n, 8 * 4);
    assert_true(dg_proposals(&l, boxes, valid));
    for (int i = 0; i < stored->n; i++)
        model_check_number(m, boxes[i], stored->items[i].number, 1, "out");
}

/* Invalid boxes are zeros; how many there are, the sum of their numbers, the first and the last. */
static void border(model *m, dg_levels l)
{
    int64_t n = dg_anchors_n(&l), found = 0, count = (int64_t)model_at(m, "count")->number;
    const dg_json *first = model_at(m, "first"), *last = model_at(m, "last");
    double *boxes = DG_NEW_N(m->arena, n * 4, double), *valid = DG_NEW_N(m->arena, n, double);
    double sum = 0;

    assert_true(dg_proposals(&l, boxes, valid) == (count == 0));
    for (int64_t i = 0; i < n; i++) {
        const double *box = boxes + 4 * i;

        assert_true((valid[i] > 0) == (box[0] > 0 && box[1] > 0 && box[2] > 0 && box[3] > 0));
        if (valid[i] > 0)
            continue;
        assert_true(box[0] == 0 && box[1] == 0 && box[2] == 0 && box[3] == 0);
        if (found < first->n)
            assert_true(first->items[found].number == (double)i);
        if (found >= count - last->n)
            assert_true(last->items[found - (count - last->n)].number == (double)i);
        sum += (double)i;
        found++;
    }
    assert_int_equal(found, count);
    assert_true(sum == model_at(m, "index_sum")->number);
}

RFDETR_CASE(proposals_border_49)
{
    border(m, (dg_levels){ .n = 1, .h = { 49 }, .w = { 49 } });
}

RFDETR_CASE(proposals_border_50)
{
    border(m, (dg_levels){ .n = 1, .h = { 50 }, .w = { 50 } });
}

RFDETR_CASE(proposals_border_56_14)
{
    border(m, (dg_levels){ .n = 2, .h = { 56, 14 }, .w = { 56, 14 } });
}

/* ---- losses: two groups of four queries ------------------------------------------------------ */

enum { IMAGES = 2, SLOTS = 3, GROUPS = 2, QUERIES = 4 };

typedef struct scene {
    dg_val logits, boxes, labels, targets, count;
} scene;

/* One slot more than there are targets. */
static scene scene_of(model *m)
{
    const dg_json *list = model_at(m, "targets");
    double *labels = DG_NEW_N(m->arena, IMAGES * SLOTS, double),
           *boxes = DG_NEW_N(m->arena, IMAGES * SLOTS * 4, double),
           *count = DG_NEW_N(m->arena, IMAGES, double);

    assert_int_equal(list->n, IMAGES);
    for (int b = 0; b < IMAGES; b++) {
        const dg_json *label = dg_json_get(&list->items[b], "labels"),
                      *box = dg_json_get(&list->items[b], "boxes");

        count[b] = label->n;
        for (int j = 0; j < label->n; j++) {
            labels[b * SLOTS + j] = label->items[j].number;
            for (int k = 0; k < 4; k++)
                boxes[(b * SLOTS + j) * 4 + k] = box->items[j].items[k].number;
        }
    }
    return (scene){
        model_input(m, "logits", false),
        model_input(m, "boxes", false),
        model_fixed(m, DG_I32, "labels", DG_SHAPE(IMAGES, SLOTS), labels),
        model_fixed(m, DG_REAL, "targets", DG_SHAPE(IMAGES, SLOTS, 4), boxes),
        model_fixed(m, DG_I32, "count", DG_SHAPE(IMAGES), count),
    };
}

/* The term of <loss.rfdetr> without its weight. */
static dg_val term_of(model *m, const scene *s, const char *name, double weight)
{
    dg_val in[3] = { dg_record(m->b), dg_record(m->b), DG_NONE }, out[2];

    dg_record_set(m->b, in[0], "logits", s->logits);
    dg_record_set(m->b, in[0], "boxes", s->boxes);
    dg_record_set(m->b, in[0], "groups",
                  dg_const_i32(m->b, DG_SHAPE(GROUPS), (int32_t[GROUPS]){ 0, 1 }));
    dg_record_set(m->b, in[1], "labels", s->labels);
    dg_record_set(m->b, in[1], "boxes", s->targets);
    dg_record_set(m->b, in[1], "count", s->count);
    dg_build_enter(m->b, (dg_origin){ .node = -1 }, "loss", "loss");
    dg_node_loss_rfdetr.lower(m->b, stored_conf(m, &dg_node_loss_rfdetr), in, out);
    return dg_scale(m->b, dg_record_get(m->b, out[1], name), 1 / weight, 0);
}

static void term(model *m, double weight, const char *gradient)
{
    scene s = scene_of(m);
    dg_val loss = term_of(m, &s, m->name, weight), at = gradient[0] == 'l' ? s.logits : s.boxes;

    model_scalar_loss(m, loss);
    model_run(m);
    model_check(m, loss, model_at(m, "out"), false, "out");
    model_check_gradient(m, at, model_at(m, dg_printf(m->arena, "grad/%s", gradient)), false, 1,
                         gradient);
}

RFDETR_CASE(loss_ce)
{
    term(m, 1, "logits");
}

RFDETR_CASE(loss_bbox)
{
    term(m, 5, "boxes");
}

RFDETR_CASE(loss_giou)
{
    term(m, 2, "boxes");
}

/* Costs [queries,targets] and pairs (queries of the group, targets), by group and image. */
static void check_matches(model *m, dg_val cost, dg_val query)
{
    for (int i = 0; i < GROUPS * IMAGES; i++) {
        int g = i / IMAGES, b = i % IMAGES;
        const dg_json *stored = dg_json_get(&model_at(m, "cost")->items[i], "data"),
                      *pair = model_at(m, "pairs")->items[i].items;
        int n = stored->n / QUERIES;

        for (int k = 0; k < stored->n; k++)
            model_check_number(m,
                               dg_interpreter_get(m->m, (int32_t)cost.id,
                                                  (b * SLOTS + k % n) * GROUPS * QUERIES +
                                                      g * QUERIES + k / n),
                               stored->items[k].number, 7, "cost");
        for (int k = 0; k < SLOTS; k++) {
            double want = -1;

            for (int j = 0; j < pair[1].n; j++)
                if (pair[1].items[j].number == k)
                    want = g * QUERIES + pair[0].items[j].number;
            assert_true(dg_interpreter_get(m->m, (int32_t)query.id, (b * GROUPS + g) * SLOTS + k) ==
                        want);
        }
    }
}

/* The inputs stand in loss_ce. */
void stored_rfdetr_matcher(void **state)
{
    fixture *f = *state;

    for (int bits = 32; bits <= 64; bits += 32) {
        model m;

        model_open(&m, f->rfdetr, "loss_ce", bits, f->worst);
        scene s = scene_of(&m);
        dg_val cost = dg_match_cost_exact(m.b, s.logits, s.boxes, s.labels, s.targets, s.count,
                                          &(dg_match_attr){ 2, 5, 2, 0.25, 2 });
        dg_val query = dg_match_groups(m.b, cost, s.count, GROUPS);

        m.entry = dg_json_get(f->rfdetr, m.name = "matcher");
        model_run(&m);
        check_matches(&m, cost, query);
        model_close(&m);
    }
    f->entries++;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* How the reference's words are said here. */
static void one_schedule(model *m, const dg_json *stored)
{
    enum { COSINE = 1, MULTISTEP = 2 };
    const double each = dg_json_get(stored, "steps_per_epoch")->number,
                 epochs = dg_json_get(stored, "epochs")->number,
                 warmup = each * dg_json_get(stored, "warmup_epochs")->number;
    bool cosine = dg_json_get(stored, "lr_scheduler")->text[0] == 'c';
    int64_t drop = (int64_t)dg_json_get(stored, "lr_drop")->number;
    dg_schedule_conf conf = { .warmup = { DG_STEPS, warmup },
                              .decay = cosine ? COSINE : MULTISTEP,
                              .gamma = 0.1,
                              .hold = { DG_STEPS, warmup },
                              .to = dg_json_get(stored, "lr_min_factor")->number,
                              .milestones = { 1, &drop } };
    const dg_json *t = dg_json_get(stored, "t"), *factor = dg_json_get(stored, "factor");

    for (int i = 0; i < t->n; i++) {
        int64_t step = (int64_t)t->items[i].number;
        dg_clock clock = { .step = step,
                           .epoch = step / (int64_t)each,
                           .steps_per_epoch = (int64_t)each,
                           .n_steps = (int64_t)(epochs * each) };

        model_check_number(m, dg_schedule_factor(&conf, &clock), factor->items[i].number, 1,
                           "factor");
    }
}

RFDETR_CASE(lr_factor)
{
    const dg_json *list = model_at(m, "cases");

    for (int i = 0; i < list->n; i++)
        one_schedule(m, &list->items[i]);
}

RFDETR_CASE(ema_decay)
{
    const dg_json *n = model_at(m, "n"), *d = model_at(m, "d");
    void *conf = stored_conf(m, &dg_node_ema);

    stored_set(&dg_node_ema, conf, "decay", 0.993);
    stored_set(&dg_node_ema, conf, "warmup", 100);
    for (int i = 0; i < n->n; i++) {
        dg_control c = { 0 };

        dg_node_ema.control(conf, &(dg_clock){ .step = (int64_t)n->items[i].number - 1 }, &c);
        model_check_number(m, c.ema_decay, d->items[i].number, 1, "d");
    }
}
