/* stored_nodes.c: entries about tables and schedules that nodes compute: anchors, positions,
 * learning rate, decay. */
#include "tests/ops/stored.h"

#include <math.h>
#include <string.h>

#include "nodes/builtin.h"
#include "nodes/decoder/anchors.h"
#include "nodes/optimizer/schedule.h"

/* Levels of these heights and widths. */
static dg_levels levels_of(int n, const int64_t *h, const int64_t *w)
{
    dg_levels l = { .n = n };

    memcpy(l.h, h, (size_t)n * sizeof *h);
    memcpy(l.w, w, (size_t)n * sizeof *w);
    return l;
}

CASE(anchors)
{
    dg_levels l = levels_of(2, (const int64_t[]){ 2, 1 }, (const int64_t[]){ 3, 2 });
    const dg_json *stored = model_at(m, "out/data");
    double boxes[8 * 4], valid[8];

    assert_int_equal(dg_anchors_n(&l), 8);
    assert_true(dg_anchors(&l, boxes, valid));
    for (int i = 0; i < stored->n; i++)
        model_check_number(m, boxes[i], stored->items[i].number, 3, "out");
}

CASE(anchors_border)
{
    dg_levels l = levels_of(3, (const int64_t[]){ 60, 30, 15 }, (const int64_t[]){ 40, 20, 10 });
    int64_t n = dg_anchors_n(&l), found = 0;
    const dg_json *invalid = model_at(m, "invalid");
    double *boxes = DG_NEW_N(m->arena, n * 4, double), *valid = DG_NEW_N(m->arena, n, double);

    assert_false(dg_anchors(&l, boxes, valid));
    for (int64_t i = 0; i < n; i++) {
        assert_true((valid[i] == 0) == (isinf(boxes[i * 4]) && boxes[i * 4] > 0));
        if (valid[i] == 0) {
            assert_true(found < invalid->n && invalid->items[found].number == (double)i);
            found++;
        }
    }
    assert_int_equal(found, invalid->n);
}

CASE(warmup_linear)
{
    dg_schedule_conf conf = { .warmup = { DG_STEPS, 2000 }, .first = 1 };
    const dg_json *t = model_at(m, "t"), *factor = model_at(m, "factor");

    for (int i = 0; i < t->n; i++)
        model_check_number(m,
                           dg_schedule_factor(&conf,
                                              &(dg_clock){ .step = (int64_t)t->items[i].number }),
                           factor->items[i].number, 1, "factor");
}

void *stored_conf(model *m, const dg_node_class *class)
{
    char *conf = dg_alloc(m->arena, class->conf_size);

    for (const dg_attr *a = class->attrs; a->name; a++)
        stored_set(class, conf, a->name, a->def);
    return conf;
}

void stored_set(const dg_node_class *class, void *conf, const char *name, double value)
{
    for (const dg_attr *a = class->attrs; a->name; a++) {
        void *at = (char *)conf + a->offset;

        if (strcmp(a->name, name) != 0)
            continue;
        if (a->kind == DG_ATTR_NUM)
            *(double *)at = value;
        else if (a->kind == DG_ATTR_BOOL)
            *(bool *)at = value != 0;
        else if (a->kind == DG_ATTR_INT || a->kind == DG_ATTR_ENUM)
            *(int64_t *)at = (int64_t)value;
    }
}

CASE(ema_decay)
{
    const dg_json *n = model_at(m, "n"), *d = model_at(m, "d");
    void *conf = stored_conf(m, &dg_node_ema);

    for (int i = 0; i < n->n; i++) {
        dg_control c = { 0 };

        dg_node_ema.control(conf, &(dg_clock){ .step = (int64_t)n->items[i].number - 1 }, &c);
        model_check_number(m, c.ema_decay, d->items[i].number, 1, "d");
    }
}

/* The position table is the constant [1,15,width] of an encoder that is lowered for a coarsest
 * map of 3x5. */
static const double *position_table(model *m, int64_t width)
{
    void *conf = stored_conf(m, &dg_node_encoder_hybrid);
    const char *name = dg_printf(m->arena, "width%d", (int)width);
    dg_val in[3], out[1];

    stored_set(&dg_node_encoder_hybrid, conf, "width", (double)width);
    dg_build_enter(m->b, (dg_origin){ .node = -1 }, name, name);
    for (int i = 0; i < 3; i++)
        in[i] = dg_input(m->b, dg_printf(m->arena, "%s.s%d", name, 8 << i), DG_REAL,
                         DG_SHAPE(1, 12 >> i, 20 >> i, 8));
    dg_node_encoder_hybrid.lower(m->b, conf, in, out);
    if (dg_build_failed(m->b))
        fail_msg("the encoder does not build: %s", dg_diag_text(m->d));
    for (int32_t v = 1; v < m->p->values.n; v++) {
        const dg_value *x = &m->p->values.items[v];

        if (x->constant && dg_shape_equal(x->shape, DG_SHAPE(1, 15, width)))
            return x->constant;
    }
    fail_msg("the encoder has no table of [1,15,%d]", (int)width);
    return NULL;
}

CASE(aifi_pos)
{
    const double *narrow = position_table(m, 16), *wide = position_table(m, 256);
    const dg_json *full = model_at(m, "width16/data"), *samples = model_at(m, "width256/samples");
    double l2 = 0;

    for (int i = 0; i < full->n; i++)
        model_check_number(m, narrow[i], full->items[i].number, 1, "width 16");
    for (int i = 0; i < samples->n; i++)
        model_check_number(m, wide[(int)samples->items[i].items[0].number],
                           samples->items[i].items[1].number, 1, "width 256");
    for (int i = 0; i < 15 * 256; i++)
        l2 += wide[i] * wide[i];
    model_check_number(m, sqrt(l2), model_at(m, "width256/l2")->number, 44, "width 256, l2");
}
