/* heads.c: what <head.rpn>, <head.roi> and <head.atss> choose, against the numbers of Co-DETR's
 * reference in data/codetr_heads.json: assigned and sampled boxes, thresholds, normalisers, and the
 * rows, labels and references of the queries. They follow from objects and draws alone, so maps of
 * two channels do. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/json.h"
#include "nodes/builtin.h"
#include "tests/nodes/unit.h"
#include "tests/ops/formula.h"

enum { CLASSES = 80, SLOTS = 5, BATCH = 2, CHANNELS = 2, PROPOSALS = 300, FIRST_ID = 1000 };

typedef struct batch {
    unit u;
    const dg_json *entry;
    dg_val maps, targets, sizes;
    int64_t cells; /* of all levels */
    double labels[BATCH * SLOTS], boxes[BATCH * SLOTS * 4], count[BATCH], size[BATCH * 2];
} batch;

typedef struct file {
    dg_arena *arena;
    dg_diag *d;
    const dg_json *root;
} file;

static double number(const dg_json *from, const char *key)
{
    const dg_json *x = dg_json_get(from, key);

    if (!x)
        fail_msg("the entry has no %s", key);
    return x->number;
}

static const dg_json *of_image(const batch *t, const char *key, int b)
{
    const dg_json *list = dg_json_get(t->entry, key);

    if (list->kind == DG_JSON_OBJECT)
        list = dg_json_get(list, "per_image");
    return &list->items[b];
}

/* ---- a batch --------------------------------------------------------------------------------- */

static void read_objects(batch *t)
{
    const dg_json *sizes = dg_json_get(t->entry, "sizes");

    for (int b = 0; b < BATCH; b++) {
        const dg_json *objects = of_image(t, "targets", b),
                      *labels = dg_json_get(objects, "labels"),
                      *boxes = dg_json_get(objects, "boxes_xyxy");
        double side[2];

        for (int k = 0; k < 2; k++) {
            t->size[2 * b + k] = sizes->items[b].items[k].number;
            side[1 - k] = t->size[2 * b + k];
        }
        t->count[b] = labels->n;
        for (int j = 0; j < labels->n; j++) {
            const dg_json *x = boxes->items[j].items;

            t->labels[b * SLOTS + j] = labels->items[j].number;
            for (int k = 0; k < 2; k++) {
                t->boxes[(b * SLOTS + j) * 4 + k] = 0.5 * (x[k].number + x[k + 2].number) / side[k];
                t->boxes[(b * SLOTS + j) * 4 + k + 2] = (x[k + 2].number - x[k].number) / side[k];
            }
        }
        for (int j = labels->n; j < SLOTS; j++) /* what is past the count must not matter */
            t->boxes[(b * SLOTS + j) * 4 + 2] = t->boxes[(b * SLOTS + j) * 4 + 3] = 0.5;
    }
}

static dg_val maps_of(batch *t, int most)
{
    const dg_json *levels = dg_json_get(t->entry, "level_shapes");
    dg_val maps = dg_record(t->u.b);

    t->cells = 0;
    for (int l = 0; l < levels->n && l < most; l++) {
        int64_t h = (int64_t)levels->items[l].items[0].number,
                w = (int64_t)levels->items[l].items[1].number, n = BATCH * h * w * CHANNELS;
        double *v = DG_NEW_N(t->u.arena, n, double);
        const char *name = dg_printf(t->u.arena, "p%d", l);

        for (int64_t i = 0; i < n; i++)
            v[i] = formula(name, i, 2, -1);
        dg_record_set(t->u.b, maps, name,
                      unit_input(&t->u, DG_REAL, false, name, DG_SHAPE(BATCH, h, w, CHANNELS), v));
        t->cells += h * w;
    }
    return maps;
}

static void open_batch(batch *t, const file *f, const char *entry, int bits, const char *node)
{
    *t = (batch){ .entry = dg_json_get(f->root, entry) };
    unit_open(&t->u, bits, true);
    t->u.draw = unit_head_key;
    unit_enter(&t->u, node);
    read_objects(t);
    t->maps = maps_of(t, DG_MAX_LEVELS);
    t->targets = dg_record(t->u.b);
    dg_record_set(t->u.b, t->targets, "labels",
                  unit_input(&t->u, DG_I32, false, "labels", DG_SHAPE(BATCH, SLOTS), t->labels));
    dg_record_set(t->u.b, t->targets, "boxes",
                  unit_input(&t->u, DG_REAL, false, "boxes", DG_SHAPE(BATCH, SLOTS, 4), t->boxes));
    dg_record_set(t->u.b, t->targets, "count",
                  unit_input(&t->u, DG_I32, false, "count", DG_SHAPE(BATCH), t->count));
    t->sizes = unit_input(&t->u, DG_I32, false, "sizes", DG_SHAPE(BATCH, 2), t->size);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* A list of the reference and entries from.. of ours. */
static void same_list(const batch *t, const char *ours, int64_t from, const dg_json *list)
{
    for (int i = 0; i < list->n; i++)
        if (unit_get(&t->u, ours, from + i) != list->items[i].number)
            fail_msg("%s: entry %d is %g, the reference has %g", ours, i,
                     unit_get(&t->u, ours, from + i), list->items[i].number);
}

static int64_t width_of(const batch *t, const char *name)
{
    dg_shape s = dg_interpreter_tensor(t->u.m, unit_named(&t->u, name)).shape;

    return s.d[s.rank - 1];
}

static void near(double ours, double stored, double bound, const char *what)
{
    if (!(fabs(ours - stored) <= bound))
        fail_msg("%s: %.17g, expected %.17g", what, ours, stored);
}

/* The queries that `name` lists, and their references out[0].boxes. */
static void check_queries(const batch *t, const char *aux, const char *rows, dg_val out,
                          const dg_json *ids_of[BATCH])
{
    dg_build *b = t->u.b;
    const dg_json *set = dg_json_get(t->entry, aux);
    int64_t n = (int64_t)number(set, "n_aux"), capacity = width_of(t, rows);
    int32_t boxes = (int32_t)dg_record_get(b, out, "boxes").id,
            meta = (int32_t)dg_record_get(b, out, "meta").id,
            query = (int32_t)dg_record_get(b, out, "query").id,
            gt = (int32_t)dg_record_get(b, out, "gt").id;

    assert_true(dg_interpreter_get(t->u.m, meta, 0) == (double)n &&
                dg_interpreter_get(t->u.m, meta, 2) == (double)n);
    for (int i = 0; i < BATCH; i++) {
        const dg_json *image = of_image(t, aux, i), *labels = dg_json_get(image, "labels"),
                      *refs = dg_json_get(image, "refs_first");
        int64_t positives = (int64_t)number(image, "n_pos"), at = i * capacity;

        same_list(t, rows, at, ids_of[i]);
        for (int64_t r = 0; r < capacity; r++) {
            double q = dg_interpreter_get(t->u.m, query, at + r),
                   j = dg_interpreter_get(t->u.m, gt, at + r);

            assert_true(q == (r < positives ? (double)r : -1));
            assert_true(r >= positives ? j == -1
                                       : t->labels[i * SLOTS + (int)j] == labels->items[r].number);
            if (r >= n)
                assert_true(unit_get(&t->u, rows, at + r) == -1);
        }
        for (int r = 0; refs && r < refs->n; r++)
            for (int k = 0; k < 4; k++)
                near(dg_interpreter_get(t->u.m, boxes, (at + r) * 4 + k),
                     refs->items[r].items[k].number, t->u.bits == 64 ? 2e-12 : 1e-6, "reference");
    }
}

/* ---- head.rpn -------------------------------------------------------------------------------- */

static void check_rpn(const batch *t)
{
    int64_t n = t->cells * 9, rows = width_of(t, "rpn.rows");

    for (int b = 0; b < BATCH; b++) {
        const dg_json *r = of_image(t, "rpn", b),
                      *counts = dg_json_get(r, "counts_pos_neg_ignored"),
                      *pos = dg_json_get(r, "assigned_pos"), *gt = dg_json_get(r, "assigned_gt"),
                      *chosen = dg_json_get(r, "sampled_pos"),
                      *others = dg_json_get(r, "sampled_neg");
        int32_t assigned = unit_named(&t->u, "rpn.assigned");
        double kinds[2] = { 0 };

        for (int64_t i = 0; i < n; i++) {
            double k = dg_interpreter_get(t->u.m, assigned, b * n + i);

            kinds[0] += k >= 0;
            kinds[1] += k == -1;
        }
        assert_true(kinds[0] == counts->items[0].number && kinds[1] == counts->items[1].number);
        for (int i = 0; i < pos->n; i++)
            assert_true(
                dg_interpreter_get(t->u.m, assigned, b * n + (int64_t)pos->items[i].number) ==
                gt->items[i].number);
        same_list(t, "rpn.rows", b * rows, chosen);
        same_list(t, "rpn.rows", b * rows + chosen->n, others);
        for (int64_t i = chosen->n + others->n; i < rows; i++)
            assert_true(unit_get(&t->u, "rpn.rows", b * rows + i) == -1);
    }
    near(unit_get(&t->u, "rpn.normaliser", 0), number(t->entry, "rpn_normaliser") + 0x1p-23, 1e-4,
         "normaliser");
}

static void run_rpn(const file *f, const char *entry, int bits)
{
    batch t;
    dg_val out[3] = { 0 };
    void *conf;

    open_batch(&t, f, entry, bits, "rpn");
    conf = unit_conf(&t.u, &dg_node_head_rpn);
    unit_set(&dg_node_head_rpn, conf, "samples", number(t.entry, "rpn_num"));
    unit_set(&dg_node_head_rpn, conf, "pre_nms", 20);
    unit_set(&dg_node_head_rpn, conf, "proposals", 50);
    unit_lower(&t.u, &dg_node_head_rpn, conf, (dg_val[]){ t.maps, t.targets, t.sizes }, out);
    unit_run(&t.u, DG_NONE);
    check_rpn(&t);
    unit_close(&t.u);
}

/* ---- head.atss ------------------------------------------------------------------------------- */

static void check_atss(const batch *t)
{
    double sum = 0, stored = 0, n = 0;
    for (int b = 0; b < BATCH; b++) {
        const dg_json *r = of_image(t, "atss", b), *pos = dg_json_get(r, "pos_anchors"),
                      *gt = dg_json_get(r, "pos_gt"), *thresholds = dg_json_get(r, "thresholds");
        int64_t positives = 0, own = 0;

        for (int64_t i = b * t->cells; i < (b + 1) * t->cells; i++) {
            positives += unit_get(&t->u, "atss.assigned", i) >= 0;
            own += unit_get(&t->u, "atss.assigned", i) > -2;
            sum += unit_get(&t->u, "atss.centerness", i);
        }
        assert_int_equal(positives, pos->n);
        assert_int_equal(own, number(r, "valid_anchors"));
        for (int i = 0; i < pos->n; i++)
            assert_true(
                unit_get(&t->u, "atss.assigned", b * t->cells + (int64_t)pos->items[i].number) ==
                gt->items[i].number);
        for (int i = 0; i < thresholds->n; i++)
            near(unit_get(&t->u, "atss.thresholds", b * SLOTS + i), thresholds->items[i].number,
                 t->u.bits == 64 ? 2e-12 : 1e-6, "threshold");
        stored += number(r, "centerness_sum");
        n += pos->n > 1 ? pos->n : 1;
    }
    near(sum, stored, t->u.bits == 64 ? 1e-9 : 1e-4, "sum of centerness");
    near(unit_get(&t->u, "atss.normalisers", 0), n, 0, "normaliser");
    near(unit_get(&t->u, "atss.normalisers", 1), fmax(stored, 1), 1e-4, "normaliser of boxes");
}

static void run_atss(const file *f, const char *entry, int bits)
{
    batch t;
    dg_val out[3] = { 0 };
    const dg_json *ids[BATCH];
    void *conf;

    open_batch(&t, f, entry, bits, "atss");
    conf = unit_conf(&t.u, &dg_node_head_atss);
    unit_set(&dg_node_head_atss, conf, "classes", CLASSES);
    unit_set(&dg_node_head_atss, conf, "groups", CHANNELS);
    unit_set(&dg_node_head_atss, conf, "queries", number(t.entry, "max_pos"));
    unit_lower(&t.u, &dg_node_head_atss, conf, (dg_val[]){ t.maps, t.targets, t.sizes }, out);
    unit_run(&t.u, DG_NONE);
    check_atss(&t);
    for (int b = 0; b < BATCH; b++)
        ids[b] = dg_json_get(of_image(&t, "aux1", b), "ids");
    check_queries(&t, "aux1", "atss.queries", out[0], ids);
    unit_close(&t.u);
}

/* ---- head.roi -------------------------------------------------------------------------------- */

/* Stand-ins for the reference's proposals: those that it calls positive are their objects, others
 * are small and far from all. So what is sampled depends on the keys of their numbers. */
static dg_val proposals_of(batch *t, double *boxes, double *ids, double *assigned)
{
    dg_build *b = t->u.b;
    dg_val out = dg_record(b);

    for (int i = 0; i < BATCH; i++) {
        const dg_json *all = of_image(t, "proposals", i), *r = of_image(t, "roi", i),
                      *rows = dg_json_get(r, "row_ids"), *gt = dg_json_get(r, "pos_gt");

        for (int k = 0; k < PROPOSALS; k++) {
            double *box = boxes + ((int64_t)i * PROPOSALS + k) * 4;

            ids[i * PROPOSALS + k] = k < all->n ? all->items[k].number : -1;
            for (int c = 0; k < all->n && c < 4; c++)
                box[c] = 1;
            for (int p = 0; k < all->n && p < gt->n; p++)
                for (int c = 0; rows->items[p].number == FIRST_ID + all->items[k].number && c < 4;
                     c++)
                    box[c] = t->boxes[(i * SLOTS + (int)gt->items[p].number) * 4 + c] *
                             t->size[2 * i + 1 - c % 2];
        }
    }
    dg_record_set(b, out, "boxes",
                  unit_input(&t->u, DG_REAL, false, "proposals", DG_SHAPE(BATCH, PROPOSALS, 4),
                             boxes));
    dg_record_set(b, out, "ids",
                  unit_input(&t->u, DG_I32, false, "ids", DG_SHAPE(BATCH, PROPOSALS), ids));
    dg_record_set(b, out, "assigned",
                  unit_input(&t->u, DG_I32, false, "assigned", DG_SHAPE(BATCH, 9 * t->cells),
                             assigned));
    return out;
}

/* The row of an id among objects and proposals. */
static double row_of(const batch *t, int b, double id)
{
    const dg_json *all = of_image(t, "proposals", b);

    for (int k = 0; k < all->n && id >= FIRST_ID; k++)
        if (all->items[k].number == id - FIRST_ID)
            return SLOTS + k;
    return id;
}

static void check_roi(const batch *t)
{
    int64_t n = width_of(t, "roi.rows");
    double total = 0;

    for (int b = 0; b < BATCH; b++) {
        const dg_json *r = of_image(t, "roi", b), *rows = dg_json_get(r, "row_ids"),
                      *gt = dg_json_get(r, "pos_gt");
        for (int i = 0; i < rows->n; i++)
            assert_true(unit_get(&t->u, "roi.rows", b * n + i) ==
                        row_of(t, b, rows->items[i].number));
        same_list(t, "roi.gt", b * n, gt);
        for (int64_t i = gt->n; i < n; i++)
            assert_true(unit_get(&t->u, "roi.gt", b * n + i) == (i < rows->n ? -1 : -3));
        total += rows->n;
    }
    near(total, number(t->entry, "roi_rows_total"), 0, "rows");
    near(unit_get(&t->u, "roi.normaliser", 0), total + 0x1p-23, 1e-4, "normaliser");
}

/* The places of ids among the sampled rows, as JSON numbers. */
static const dg_json *places_of(const batch *t, int b)
{
    const dg_json *ids = dg_json_get(of_image(t, "aux0", b), "ids"),
                  *rows = dg_json_get(of_image(t, "roi", b), "row_ids");
    dg_json *list = DG_NEW(t->u.arena, dg_json), *items = DG_NEW_N(t->u.arena, ids->n, dg_json);

    for (int i = 0; i < ids->n; i++)
        for (int k = 0; k < rows->n; k++)
            if (rows->items[k].number == ids->items[i].number)
                items[i] = (dg_json){ .kind = DG_JSON_NUMBER, .number = k };
    *list = (dg_json){ .kind = DG_JSON_ARRAY, .items = items, .n = ids->n };
    return list;
}

static void run_roi(const file *f, const char *entry, int bits)
{
    batch t;
    dg_val out[3] = { 0 }, proposals;
    const dg_json *ids[BATCH];
    double *boxes, *numbers, *assigned;
    void *conf;

    open_batch(&t, f, entry, bits, "roi");
    boxes = DG_NEW_N(t.u.arena, BATCH * PROPOSALS * 4, double);
    numbers = DG_NEW_N(t.u.arena, BATCH * PROPOSALS, double);
    assigned = DG_NEW_N(t.u.arena, BATCH * 9 * t.cells, double);
    proposals = proposals_of(&t, boxes, numbers, assigned);
    conf = unit_conf(&t.u, &dg_node_head_roi);
    unit_set(&dg_node_head_roi, conf, "classes", CLASSES);
    unit_set(&dg_node_head_roi, conf, "samples", number(t.entry, "roi_num"));
    unit_set(&dg_node_head_roi, conf, "positives", floor(number(t.entry, "roi_num") / 4));
    unit_set(&dg_node_head_roi, conf, "queries", number(t.entry, "max_pos"));
    unit_set(&dg_node_head_roi, conf, "finest", 14);
    unit_set(&dg_node_head_roi, conf, "cells", 1);
    unit_set(&dg_node_head_roi, conf, "hidden", 3);
    unit_lower(&t.u, &dg_node_head_roi, conf, (dg_val[]){ t.maps, proposals, t.targets, t.sizes },
               out);
    unit_run(&t.u, DG_NONE);
    check_roi(&t);
    for (int b = 0; b < BATCH; b++)
        ids[b] = places_of(&t, b);
    check_queries(&t, "aux0", "roi.queries", out[0], ids);
    unit_close(&t.u);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static const char *const entries[] = { "step_r50", "step_r50_empty", "step_r50_all_empty",
                                       "step_r50_limits", "step_r50_recipe" };
enum { WITH_REGIONS = 4 /* the first entries have proposals */ };

static void boxes_of_a_region_proposal_network(void **state)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        run_rpn(*state, entries[i], 64);
    run_rpn(*state, entries[0], 32);
}

static void boxes_and_queries_of_atss(void **state)
{
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        run_atss(*state, entries[i], 64);
    run_atss(*state, entries[0], 32);
}

static void rows_and_queries_of_regions(void **state)
{
    for (int i = 0; i < WITH_REGIONS; i++)
        run_roi(*state, entries[i], 64);
    run_roi(*state, entries[0], 32);
}

/* No object and no proposal: nothing is divided by zero, and 9 empty queries remain. */
static void no_row_at_all(void **state)
{
    batch t;
    dg_val out[3] = { 0 }, proposals;
    double *zero, ids[BATCH * PROPOSALS];
    void *conf;

    open_batch(&t, *state, "step_r50_all_empty", 64, "roi");
    zero = DG_NEW_N(t.u.arena, BATCH * 9 * t.cells, double);
    for (int i = 0; i < BATCH * PROPOSALS; i++)
        ids[i] = -1;
    proposals = dg_record(t.u.b);
    dg_record_set(t.u.b, proposals, "boxes",
                  unit_input(&t.u, DG_REAL, false, "proposals", DG_SHAPE(BATCH, PROPOSALS, 4),
                             zero));
    dg_record_set(t.u.b, proposals, "ids",
                  unit_input(&t.u, DG_I32, false, "ids", DG_SHAPE(BATCH, PROPOSALS), ids));
    dg_record_set(t.u.b, proposals, "assigned",
                  unit_input(&t.u, DG_I32, false, "assigned", DG_SHAPE(BATCH, 9 * t.cells), zero));
    conf = unit_conf(&t.u, &dg_node_head_roi);
    unit_set(&dg_node_head_roi, conf, "classes", CLASSES);
    unit_set(&dg_node_head_roi, conf, "samples", 12);
    unit_set(&dg_node_head_roi, conf, "positives", 3);
    unit_set(&dg_node_head_roi, conf, "cells", 1);
    unit_set(&dg_node_head_roi, conf, "hidden", 3);
    unit_lower(&t.u, &dg_node_head_roi, conf, (dg_val[]){ t.maps, proposals, t.targets, t.sizes },
               out);
    unit_run(&t.u, out[1]);
    assert_true(dg_interpreter_get(t.u.m, (int32_t)out[1].id, 0) == 0);
    assert_true(unit_get(&t.u, "loss.acc0", 0) == 0);
    assert_true(unit_get(&t.u, "roi.normaliser", 0) == 1 + 0x1p-23);
    for (int i = 0; i < BATCH * 9; i++)
        assert_true(unit_get(&t.u, "roi.queries", i) == -1);
    for (int i = 0; i < BATCH * 9 * 4; i++)
        assert_true(
            dg_interpreter_get(t.u.m, (int32_t)dg_record_get(t.u.b, out[0], "boxes").id, i) == 0);
    for (int i = 0; i < 3; i++)
        assert_true(dg_interpreter_get(t.u.m, unit_gradient(&t.u, "roi.fc_cls.weight"), i) == 0);
    unit_close(&t.u);
}

/* An evaluation has no objects; the heads' parameters belong to its model all the same. */
static void evaluations_have_the_same_parameters(void **state)
{
    static const dg_node_class *const classes[] = { &dg_node_head_rpn, &dg_node_head_roi,
                                                    &dg_node_head_atss };
    static const int most[] = { 6, 8, 14 };
    (void)state;
    for (int k = 0; k < 3; k++) {
        unit u;
        dg_val maps, out[3] = { 0 };
        double *zero;
        void *conf;

        unit_open(&u, 32, false);
        unit_enter(&u, "head");
        maps = dg_record(u.b);
        zero = DG_NEW_N(u.arena, 8 * 8 * 4, double);
        for (int l = 0; l < 2; l++) {
            const char *name = dg_printf(u.arena, "p%d", l);

            dg_record_set(u.b, maps, name,
                          unit_input(&u, DG_REAL, false, name, DG_SHAPE(1, 8 >> l, 8 >> l, 4),
                                     zero));
        }
        conf = unit_conf(&u, classes[k]);
        unit_set(classes[k], conf, "classes", 3);
        unit_set(classes[k], conf, "groups", 2);
        unit_lower(&u, classes[k], conf, (dg_val[]){ maps, DG_NONE, DG_NONE, DG_NONE }, out);
        unit_run(&u, DG_NONE);
        assert_int_equal(dg_params_n(u.params), most[k]);
        unit_close(&u);
    }
}

static void refuses(const dg_node_class *class, int maps, int rank, bool objects, const char *id)
{
    unit u;
    dg_val record, targets = DG_NONE, sizes = DG_NONE, out[3] = { 0 };
    void *conf;
    bool roi = class == &dg_node_head_roi;

    unit_open(&u, 32, true);
    unit_enter(&u, "head");
    record = dg_record(u.b);
    for (int l = 0; l < maps; l++)
        dg_record_set(u.b, record, dg_printf(u.arena, "p%d", l),
                      dg_zeros(u.b, (dg_shape){ .rank = rank, .d = { 1, 4, 4, 4 } }));
    if (objects) {
        targets = dg_record(u.b);
        dg_record_set(u.b, targets, "labels", dg_input(u.b, "labels", DG_I32, DG_SHAPE(1, 2)));
        dg_record_set(u.b, targets, "boxes", dg_input(u.b, "boxes", DG_REAL, DG_SHAPE(1, 2, 4)));
        dg_record_set(u.b, targets, "count", dg_input(u.b, "count", DG_I32, DG_SHAPE(1)));
        sizes = dg_input(u.b, "sizes", DG_I32, DG_SHAPE(1, 2));
    }
    conf = unit_conf(&u, class);
    class->lower(u.b, conf,
                 (dg_val[]){ record, roi ? DG_NONE : targets, roi ? targets : sizes, sizes }, out);
    check_only(u.d, id);
    unit_close(&u);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    refuses(&dg_node_head_rpn, 0, 4, true, "head-maps");
    refuses(&dg_node_head_rpn, 2, 3, true, "head-maps");
    refuses(&dg_node_head_atss, DG_MAX_LEVELS + 1, 4, true, "head-maps");
    refuses(&dg_node_head_atss, 2, 4, false, "head-targets");
    refuses(&dg_node_head_roi, 2, 4, true, "head-proposals");
}

static int open_file(void **state)
{
    dg_arena *a = dg_arena_open();
    file *f = DG_NEW(a, file);
    const char *top = getenv("srcdir");

    *f = (file){ .arena = a, .d = dg_diag_open() };
    *state = f;
    if (dg_json_read(&f->root, a,
                     dg_printf(a, "%s/tests/nodes/data/codetr_heads.json", top ? top : "."),
                     f->d) == 0)
        return 0;
    fail_msg("%s", dg_diag_text(f->d));
    return -1;
}

static int close_file(void **state)
{
    file *f = *state;
    dg_arena *a = f->arena;

    dg_diag_close(&f->d);
    dg_arena_close(&a);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_of_a_region_proposal_network),
        cmocka_unit_test(boxes_and_queries_of_atss),
        cmocka_unit_test(rows_and_queries_of_regions),
        cmocka_unit_test(no_row_at_all),
        cmocka_unit_test(evaluations_have_the_same_parameters),
        cmocka_unit_test(what_is_missing_is_said),
    };

    return cmocka_run_group_tests_name("heads", tests, open_file, close_file);
}
