/* stored_detection.c: entries about losses, matching, denoising and the optimizer. */
#include "tests/ops/stored.h"

#include <math.h>
#include <string.h>

#include "tests/ops/formula.h"

/* ---- losses and matching --------------------------------------------------------------------- */

/* The inputs that vfl, loss_bbox, loss_giou and matcher share; they stand in vfl. */
typedef struct scene {
    dg_val logits, boxes, labels, targets, count, query, gt;
} scene;

enum { SLOTS = 2 };

static scene scene_of(model *m)
{
    dg_shape one, logits, boxes;
    double *targets = DG_NEW_N(m->arena, 2 * SLOTS * 4, double),
           *labels = DG_NEW_N(m->arena, 2 * SLOTS, double);
    double *query = DG_NEW_N(m->arena, 2 * SLOTS, double),
           *gt = DG_NEW_N(m->arena, 2 * SLOTS, double);
    double *x = model_numbers(m, "logits", false, &logits),
           *box = model_numbers(m, "boxes", false, &boxes);
    double *count = DG_NEW_N(m->arena, 2, double);

    for (int b = 0; b < 2; b++) {
        const dg_json *pairs = &model_at(m, "pairs_query_gt")->items[b],
                      *label = &model_at(m, "target_labels")->items[b];
        const double *list = model_numbers(m, b ? "targets1" : "targets0", false, &one);

        count[b] = label->n;
        for (int j = 0; j < SLOTS; j++) {
            labels[b * SLOTS + j] = j < label->n ? label->items[j].number : 0;
            query[b * SLOTS + j] = j < pairs->n ? pairs->items[j].items[0].number : -1;
            gt[b * SLOTS + j] = j < pairs->n ? pairs->items[j].items[1].number : -1;
            for (int k = 0; k < 4 && j < label->n; k++)
                targets[(b * SLOTS + j) * 4 + k] = list[j * 4 + k];
        }
    }
    return (scene){
        model_live(m, "logits", logits, x),
        model_live(m, "boxes", boxes, box),
        model_fixed(m, DG_I32, "labels", DG_SHAPE(2, SLOTS), labels),
        model_fixed(m, DG_REAL, "targets", DG_SHAPE(2, SLOTS, 4), targets),
        model_fixed(m, DG_I32, "count", DG_SHAPE(2), count),
        model_fixed(m, DG_I32, "query", DG_SHAPE(2, SLOTS), query),
        model_fixed(m, DG_I32, "gt", DG_SHAPE(2, SLOTS), gt),
    };
}

CASE(vfl)
{
    double each = 1 / model_at(m, "num_boxes")->number;
    scene s = scene_of(m);
    dg_box_losses boxes = dg_box_loss(m->b, s.boxes, s.targets, s.query, s.gt);
    dg_val loss = dg_class_loss(m->b, s.logits, s.labels, s.query, s.gt, boxes.iou, DG_NONE,
                                &(dg_class_loss_attr){ 0, 0.75, 2 });

    loss = dg_scale(m->b, loss, each, 0);
    model_scalar_loss(m, loss);
    model_run(m);
    model_check(m, loss, model_at(m, "out"), false, "out");
    model_check_gradient(m, s.logits, model_at(m, "grad/logits"), false, 1, "grad logits");
}

static void box_term(void **state, const char *name, bool giou)
{
    fixture *f = *state;

    for (int bits = 32; bits <= 64; bits += 32) {
        model m;

        model_open(&m, f->file, "vfl", bits, f->worst);
        double each = 1 / model_at(&m, "num_boxes")->number;
        scene s = scene_of(&m);
        dg_box_losses boxes = dg_box_loss(m.b, s.boxes, s.targets, s.query, s.gt);
        dg_val loss = dg_scale(m.b, giou ? boxes.giou : boxes.l1, each, 0);

        model_scalar_loss(&m, loss);
        m.entry = dg_json_get(f->file, m.name = name);
        model_run(&m);
        model_check(&m, loss, model_at(&m, "out"), false, "out");
        model_check_gradient(&m, s.boxes, model_at(&m, "grad/boxes"), false, 1, "grad boxes");
        model_close(&m);
    }
    f->entries++;
}

void stored_loss_bbox(void **state)
{
    box_term(state, "loss_bbox", false);
}

void stored_loss_giou(void **state)
{
    box_term(state, "loss_giou", true);
}

/* Every a against every b, as 15 images of one pair each. GIoU is symmetric: exchanged, they
 * give b's gradient. */
CASE(giou_pairwise)
{
    enum { A = 5, B = 3 };
    dg_shape shape;
    double *list[2] = { model_numbers(m, "a", false, &shape),
                        model_numbers(m, "b", false, &shape) };
    double *up = model_numbers(m, "grad_out", false, &shape), grad[2][A * 4] = { { 0 } }, most = 0;
    dg_val a = dg_param(m->b, "a", DG_SHAPE(1, 1, 4), dg_init_zero());
    dg_val b = dg_input(m->b, "b", DG_REAL, DG_SHAPE(1, 1, 4));
    dg_val query = dg_const_i32(m->b, DG_SHAPE(1, 1), (int32_t[]){ 0 });
    dg_val giou = dg_scale(m->b, dg_box_loss(m->b, a, b, query, DG_NONE).giou, -1, 1);

    model_scalar_loss(m, giou);
    model_run(m);
    for (int swap = 0; swap < 2; swap++)
        for (int i = 0; i < A * B; i++) {
            int at[2] = { i / B, i % B };

            dg_interpreter_set(m->m, (int32_t)a.id, list[swap] + at[swap] * 4);
            dg_interpreter_set(m->m, (int32_t)b.id, list[!swap] + at[!swap] * 4);
            assert_int_equal(dg_interpreter_run(m->m, false), 0);
            model_check_number(m, dg_interpreter_get(m->m, (int32_t)giou.id, 0),
                               model_at(m, "out/data")->items[i].number, 1, "out");
            for (int k = 0; k < 4; k++)
                grad[swap][at[swap] * 4 + k] +=
                    up[i] *
                    dg_interpreter_get(m->m,
                                       dg_interpreter_gradient(m->p,
                                                               dg_params_find(m->params, "a")),
                                       k);
        }
    for (int swap = 0; swap < 2; swap++) {
        const dg_json *stored = model_at(m, swap ? "grad/b/data" : "grad/a/data");

        for (int i = 0; i < stored->n; i++)
            most = fmax(most, fabs(stored->items[i].number));
        for (int i = 0; i < stored->n; i++)
            model_check_number(m, grad[swap][i], stored->items[i].number, most,
                               swap ? "grad b" : "grad a");
    }
}

void stored_matcher(void **state)
{
    fixture *f = *state;

    for (int bits = 32; bits <= 64; bits += 32) {
        model m;

        model_open(&m, f->file, "vfl", bits, f->worst);
        scene s = scene_of(&m);
        dg_val cost = dg_match_cost(m.b, s.logits, s.boxes, s.labels, s.targets, s.count,
                                    &(dg_match_attr){ 2, 5, 2, 0.25, 2 });
        dg_val query = dg_match(m.b, cost, s.count);

        m.entry = dg_json_get(f->file, m.name = "matcher");
        model_run(&m);
        for (int b = 0; b < 2; b++) {
            const dg_json *stored = dg_json_get(&model_at(&m, "cost")->items[b], "data");
            const dg_json *q = &model_at(&m, "query")->items[b],
                          *gt = &model_at(&m, "gt")->items[b];
            int n = b ? 1 : 2;

            for (int i = 0; i < stored->n; i++) /* [Q,n] there, [M,Q] here */
                model_check_number(&m,
                                   dg_interpreter_get(m.m, (int32_t)cost.id,
                                                      (b * SLOTS + i % n) * 6 + i / n),
                                   stored->items[i].number, 4, "cost");
            for (int j = 0; j < SLOTS; j++)
                if (j >= n)
                    assert_true(dg_interpreter_get(m.m, (int32_t)query.id, b * SLOTS + j) == -1);
            for (int j = 0; j < q->n; j++)
                assert_true(dg_interpreter_get(m.m, (int32_t)query.id,
                                               b * SLOTS + (int)gt->items[j].number) ==
                            q->items[j].number);
        }
        model_close(&m);
    }
    f->entries++;
}

/* ---- denoising ------------------------------------------------------------------------------- */

enum { DN_SLOTS = 2, DN_CAPACITY = 12, DN_QUERIES = 4, DN_CLASSES = 3 };

static dg_val draw(model *m, int which, int64_t batch, int64_t n, int64_t each)
{
    const char *name = model_at(m, "draw_names")->items[which].text;
    dg_shape shape = { each > 1 ? 3 : 2, { batch, DN_CAPACITY, each } };
    double *values = DG_NEW_N(m->arena, batch * DN_CAPACITY * each, double);

    for (int64_t i = 0; i < batch * n * each; i++)
        values[i / (n * each) * DN_CAPACITY * each + i % (n * each)] = formula(name, i, 1, 0);
    return model_fixed(m, DG_REAL, name, shape, values);
}

/* What attention lets a row see: with equal scores and the unit vectors as values, 1/columns
 * where it sees. */
static dg_val seen_by(model *m, dg_val dn, int64_t n)
{
    double *zero = DG_NEW_N(m->arena, n * n, double), *unit = DG_NEW_N(m->arena, n * n, double);

    for (int64_t i = 0; i < n; i++)
        unit[i * n + i] = 1;
    dg_val q = dg_const(m->b, DG_SHAPE(1, n, n), zero), v = dg_const(m->b, DG_SHAPE(1, n, n), unit);

    return dg_attention(m->b, q, q, v, 1, dn, DN_CAPACITY);
}

static void check_denoising(model *m, const dg_denoising *dn, dg_val logit, dg_val seen,
                            int64_t batch)
{
    int n = (int)model_at(m, "split")->items[0].number, groups = (int)model_at(m, "groups")->number;
    const dg_json *boxes = model_at(m, "boxes_before_inverse_sigmoid/data"),
                  *refs = model_at(m, "ref_unact/data");
    const dg_json *labels = model_at(m, "labels"), *mask = model_at(m, "mask"),
                  *positive = model_at(m, "positive_idx");
    int32_t size[4] = { n / 2 / groups, groups, n, n / groups };

    for (int k = 0; k < 4; k++)
        assert_true(dg_interpreter_get(m->m, (int32_t)dn->dn.id, k) == size[k]);
    for (int64_t b = 0; b < batch; b++) {
        for (int q = 0; q < DN_CAPACITY; q++) {
            int64_t at = b * DN_CAPACITY + q, stored = (b * n + q) * 4;

            assert_true(dg_interpreter_get(m->m, (int32_t)dn->labels.id, at) ==
                        (q < n ? labels->items[b].items[q].number : DN_CLASSES));
            for (int k = 0; k < 4; k++) {
                model_check_number(m, dg_interpreter_get(m->m, (int32_t)dn->boxes.id, at * 4 + k),
                                   q < n ? boxes->items[stored + k].number : 0, 1, "boxes");
                if (q < n)
                    model_check_number(m, dg_interpreter_get(m->m, (int32_t)logit.id, at * 4 + k),
                                       refs->items[stored + k].number, 11.5, "ref_unact");
            }
        }
        for (int j = 0; j < DN_CAPACITY / 2; j++) {
            int64_t at = b * (DN_CAPACITY / 2) + j;
            int n_pairs = positive->items[b].n;

            assert_true(dg_interpreter_get(m->m, (int32_t)dn->query.id, at) ==
                        (j < n_pairs ? positive->items[b].items[j].number : -1));
            assert_true(dg_interpreter_get(m->m, (int32_t)dn->gt.id, at) ==
                        (j < n_pairs ? j % (n_pairs / groups) : -1));
        }
    }
    for (int i = 0; i < mask->n; i++)
        for (int k = 0; k < mask->n; k++) { /* rows past the live ones are ours alone */
            int row = i < n ? i : i - n + DN_CAPACITY, column = k < n ? k : k - n + DN_CAPACITY;

            assert_true((dg_interpreter_get(m->m, (int32_t)seen.id,
                                            row * (DN_CAPACITY + DN_QUERIES) + column) > 0) ==
                        (mask->items[i].text[k] == '0'));
        }
}

static void denoise(model *m, int64_t batch, const double *labels, const double *boxes,
                    const double *count, double most)
{
    int64_t n = (int64_t)model_at(m, "split")->items[0].number;
    dg_denoising dn =
        dg_denoise(m->b, model_fixed(m, DG_I32, "labels", DG_SHAPE(batch, DN_SLOTS), labels),
                   model_fixed(m, DG_REAL, "boxes", DG_SHAPE(batch, DN_SLOTS, 4), boxes),
                   model_fixed(m, DG_I32, "count", DG_SHAPE(batch), count),
                   model_fixed(m, DG_I32, "most", DG_SCALAR, &most), draw(m, 0, batch, n, 1),
                   draw(m, 1, batch, n, 1), draw(m, 2, batch, n, 4), draw(m, 3, batch, n, 4),
                   &(dg_denoise_attr){ 6, DN_CAPACITY, DN_CLASSES, 0.5, 1.0, 1 });
    dg_val logit = dg_inverse_sigmoid(m->b, dn.boxes, 1e-5);
    dg_val seen = seen_by(m, dn.dn, DN_CAPACITY + DN_QUERIES);

    model_run(m);
    check_denoising(m, &dn, logit, seen, batch);
}

CASE(dn_group)
{
    double labels[3 * DN_SLOTS] = { 0 }, boxes[3 * DN_SLOTS * 4] = { 0 }, count[3];
    dg_shape shape;

    for (int b = 0; b < 3; b++) {
        const dg_json *list = &model_at(m, "target_labels")->items[b];
        const double *from =
            b < 2 ? model_numbers(m, b ? "targets1" : "targets0", false, &shape) : NULL;

        count[b] = list->n;
        for (int j = 0; j < list->n; j++) {
            labels[b * DN_SLOTS + j] = list->items[j].number;
            memcpy(boxes + (b * DN_SLOTS + j) * 4, from + j * 4, 4 * sizeof *from);
        }
    }
    denoise(m, 3, labels, boxes, count, 2);
}

CASE(dn_group_empty)
{
    double labels[2 * DN_SLOTS] = { 0 }, boxes[2 * DN_SLOTS * 4] = { 0 }, count[2] = { 0 };

    denoise(m, 2, labels, boxes, count, 0);
}

/* ---- updates --------------------------------------------------------------------------------- */

/* p at 0..5 and q at 16..21 of one space. */
static void set_space(const dg_tensor *space, const char *p, const char *q, double a_q, double b_q)
{
    for (int i = 0; i < 6; i++) {
        dg_tensor_set(space, i, formula(p, i, 2, -1));
        dg_tensor_set(space, 16 + i, formula(q, i, a_q, b_q));
    }
}

CASE(adamw_clip)
{
    enum { N = 32 };
    const adamw_range ranges[] = { { 0, 6, 0, 0 }, { 16, 22, 1, 0.1 } };
    const adamw_attr attr = { 0.9, 0.999, 1e-8, 0.1, 2, ranges };
    const dg_json *steps = model_at(m, "steps"), *names = model_at(m, "grad_names");
    const dg_dtype type = m->bits == 64 ? DG_F64 : DG_F32;
    int32_t ok = 1;
    double memory[5][N] = { { 0 } };
    dg_tensor t[7] = { [4] = { .shape.rank = -1 }, [6] = { DG_I32, DG_SCALAR, &ok } };
    static const int spaces[] = { 0, 1, 2, 3 };

    for (int i = 0; i < 4; i++)
        t[spaces[i]] = (dg_tensor){ type, DG_SHAPE(N), memory[i] };
    t[5] = (dg_tensor){ type, DG_SCALAR, memory[4] };
    set_space(&t[0], "ops.adam.p", "ops.adam.q", 2, -1);
    for (int k = 0; k < steps->n; k++) {
        const dg_json *stored = &steps->items[k];
        dg_control c = { .bias1 = 1 - pow(0.9, k + 1),
                         .bias2 = 1 - pow(0.999, k + 1),
                         .lr = { 1e-3, 1e-2 } };
        const dg_tensor sized[2] = { t[1], t[5] };
        const dg_op *op[2] = { DG_OP(grad_norm), DG_OP(adamw) };

        set_space(&t[1], names->items[k].items[0].text, names->items[k].items[1].text, 0.02, -0.01);
        assert_int_equal(dg_interpreter_kernel(m->bits == 64 ? op[0]->ref64 : op[0]->ref32, sized,
                                               2, &(no_attr){ 0 }, &c, 1),
                         0);
        assert_int_equal(dg_interpreter_kernel(m->bits == 64 ? op[1]->ref64 : op[1]->ref32, t, 7,
                                               &attr, &c, 1),
                         0);
        model_check_number(m, dg_tensor_get(&t[5], 0), dg_json_get(stored, "grad_norm")->number, 1,
                           "grad_norm");
        for (int i = 0; i < 6; i++) {
            model_check_number(m, dg_tensor_get(&t[0], i),
                               dg_json_get(stored, "p")->items[i].number, 1, "p");
            model_check_number(m, dg_tensor_get(&t[0], 16 + i),
                               dg_json_get(stored, "q")->items[i].number, 1, "q");
        }
    }
}
