/* rpn.c: <head.rpn>: a region proposal network (Ren et al. 2015), trained beside a decoder: the
 * collaborative training of Co-DETR (Zong et al. 2023).
 *
 *  head       h = relu(conv3x3(map)); 9 logits and 9 deltas of each cell by 1x1 convolutions
 *  assign     IoU >= 0.7 positive, < 0.3 negative, and the best boxes of every object
 *  sample     128 positives at most and 256 in all, at random
 *  loss       w_class sum bce / K                 over the sample
 *            w_box sum |d - encoded object| / K   over its positives
 *  K          (sum over all ranks' images of max(1, positives) + max(1, negatives) + 2^-23) / ranks
 *  proposals  of each level the 4000 best, moved by their deltas, clipped to the image; NMS 0.7
 *            within a level; the 1000 best. Constants for gradients
 *
 * Boxes stand at the corners of cells. Padding has logits too; its boxes are void in assignment,
 * and proposals of them vanish when they are clipped.
 *
 * Differs from the reference on purpose: there each rank divides by its own count, so that images
 * weigh differently on several ranks than on one. */
#include "nodes/builtin.h"
#include "nodes/head/head.h"
#include "nodes/loss/terms.h"

#include <math.h>
#include <stdlib.h>

typedef struct conf {
    int64_t stride, samples, pre_nms, proposals;
    double class_weight, box_weight, nms, positive, negative;
    const char *axis;
} conf;

enum { MEMORY, TARGETS, SIZES };
enum { PROPOSALS, TOTAL, TERMS };
enum { RATIOS = 3, OCTAVES = 3, SHAPES = RATIOS * OCTAVES };

static const double BASE = 4, TIE = 1e-6;

static const dg_port ports[] = {
    DG_IN("memory", "{p*:any}", "feature maps, finest first, each half as fine as the one before"),
    DG_IN_OPTIONAL("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}",
                   "objects of each image, in training"),
    DG_IN_OPTIONAL("sizes", "i[B,2]", "height and width of each image in its canvas, in training"),
    DG_OUT_MAIN("proposals", "{boxes:f[B,P,4],ids:i[B,P],assigned:i[B,A]}",
                "boxes (cx, cy, w, h) in pixels, best first, zeros where there are no more; their "
                "numbers among all boxes; the object of each of these, or -1 (none), -2 (void)"),
    DG_OUT("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_rpn_cls:f[],loss_rpn_bbox:f[]}", "weighted terms"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, stride, 4, 1, 1024, "pixels between cells of the finest map"),
    DG_INT(conf, samples, 256, 2, 100000, "boxes of an image to train on, half of them positive"),
    DG_NUM(conf, positive, 0.7, 0, 1, "IoU from which on a box is positive"),
    DG_NUM(conf, negative, 0.3, 0, 1,
           "IoU below which a box is negative, and which the best box of an object needs"),
    DG_INT(conf, pre_nms, 4000, 1, 1000000, "boxes of a level that suppression begins with"),
    DG_INT(conf, proposals, 1000, 1, 100000, "proposals of an image"),
    DG_NUM(conf, nms, 0.7, 0, 1, "a proposal goes if it overlaps a better one of its level more"),
    DG_NUM(conf, class_weight, 12, 0, 1e6, "weight of the class term"),
    DG_NUM(conf, box_weight, 12, 0, 1e6, "weight of the L1 distance of deltas"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to count sampled boxes over; if omitted, each rank counts its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "targets", .axis = "axis", .when = "axis",
      .why = "counts the sampled boxes of all ranks", .flags = DG_RULE_TRAIN },
    { DG_RULE_NORMALISER, .to = "total", .from = "targets", .axis = "axis",
      .why = "divides by the number of sampled boxes", .flags = DG_RULE_TRAIN },
    { 0 },
};

static void check_rpn(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->negative > c->positive)
        dg_check_fail(k, "negative", "head-thresholds", "must not be above positive (%g), found %g",
                      c->positive, c->negative);
}

typedef struct rpn {
    dg_head h;
    const conf *c;
    dg_val logits, deltas; /* [B,A], [B,A,4] */
    dg_anchor_boxes anchors;
    int64_t n[DG_MAX_LEVELS]; /* boxes of each level */
} rpn;

static dg_val conv(dg_build *b, const char *name, dg_val x, int64_t out, int size)
{
    dg_param_path_of at = dg_param_path(b, "%s", name);
    dg_val w = dg_param_at(&at, "weight", DG_SHAPE(out, dg_dim(b, x, -1), size, size),
                           dg_init_normal(0.01));

    return dg_conv2d(b, x, w, dg_param_at(&at, "bias", DG_SHAPE(out), dg_init_zero()), 1, size / 2);
}

static void predict(rpn *r)
{
    dg_build *b = r->h.b;
    dg_val logits[DG_MAX_LEVELS], deltas[DG_MAX_LEVELS];

    for (int l = 0; l < r->h.n; l++) {
        dg_val x = dg_relu(b, conv(b, "rpn_conv", r->h.map[l], r->h.width, 3));
        dg_val class = dg_name(b, conv(b, "rpn_cls", x, SHAPES, 1), "rpn.cls.%d", l),
               box = dg_name(b, conv(b, "rpn_reg", x, 4 * SHAPES, 1), "rpn.reg.%d", l);

        r->n[l] = r->h.h[l] * r->h.w[l] * SHAPES;
        logits[l] = dg_reshape(b, class, DG_SHAPE(r->h.batch, r->n[l]));
        deltas[l] = dg_reshape(b, box, DG_SHAPE(r->h.batch, r->n[l], 4));
    }
    r->logits = dg_concat(b, 1, r->h.n, logits);
    r->deltas = dg_concat(b, 1, r->h.n, deltas);
}

static dg_anchor_boxes anchors(const rpn *r)
{
    dg_anchor_attr a = { .n_levels = r->h.n,
                         .ratios = RATIOS,
                         .octaves = OCTAVES,
                         .base = BASE,
                         .ratio = { 0.5, 1, 2 } };

    for (int l = 0; l < r->h.n; l++) {
        a.h[l] = r->h.h[l];
        a.w[l] = r->h.w[l];
        a.stride[l] = r->h.stride[l];
    }
    return dg_anchor_grid(r->h.b, r->h.size, &a);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Deltas from boxes to objects where mask says so, else 0. */
static dg_val encode(dg_build *b, dg_val mask, dg_val boxes, dg_val objects)
{
    dg_val one = dg_number(b, 1), from = dg_select(b, mask, boxes, one),
           to = dg_select(b, mask, objects, one);
    dg_val side = dg_slice(b, from, 2, 2, 4), part[2];

    part[0] = dg_div(b, dg_sub(b, dg_slice(b, to, 2, 0, 2), dg_slice(b, from, 2, 0, 2)), side);
    part[1] = dg_log(b, dg_div(b, dg_slice(b, to, 2, 2, 4), side));
    return dg_concat(b, 2, 2, part);
}

static dg_val add_losses(const rpn *r, dg_val gt, dg_loss_terms *terms)
{
    dg_build *b = r->h.b;
    int64_t batch = r->h.batch, n = r->c->samples;
    dg_shape all = DG_SHAPE(batch, dg_dim(b, r->logits, 1));
    dg_row_list rows = dg_sample_rows(b, gt, dg_uniform(b, "pos", all), dg_uniform(b, "neg", all),
                                      &(dg_sample_attr){ .n = n, .most = n / 2 });
    dg_val of = dg_pick_i32(b, gt, rows.row, DG_ASSIGNED_ABSENT), positive = dg_head_known(b, of);
    dg_val mask = dg_truth(b, dg_reshape(b, positive, DG_SHAPE(batch, n, 1)), false);
    dg_val k = dg_max2(b, dg_real(b, rows.count), dg_number(b, 1)), target, d;

    dg_name(b, rows.row, "rpn.rows");
    dg_name(b, rows.count, "rpn.count");
    k = dg_head_normaliser(b, dg_sum(b, k, DG_ALL_AXES, false), r->c->axis);
    k = dg_scale(b, k, 1, DG_HEAD_EPS / dg_head_ranks(b, r->c->axis));
    k = dg_name(b, k, "rpn.normaliser");
    dg_loss_add(terms, "rpn_cls", "",
                dg_logistic_loss(b, dg_head_keys(b, r->logits, rows.row), positive,
                                 dg_head_known(b, rows.row)),
                r->c->class_weight, k);
    target = encode(b, mask, dg_embedding(b, r->anchors.boxes, rows.row, -1),
                    dg_gather(b, r->h.boxes, of));
    d = dg_select(b, mask, dg_gather(b, r->deltas, rows.row), dg_number(b, 0));
    d = dg_sum(b, dg_abs(b, dg_sub(b, d, dg_detach(b, target))), DG_ALL_AXES, false);
    dg_loss_add(terms, "rpn_bbox", "", d, r->c->box_weight, k);
    return gt;
}

/* ---- proposals ------------------------------------------------------------------------------- */

/* Boxes [B,K,4] without what lies outside the image. */
static dg_val clip(const rpn *r, dg_val boxes)
{
    dg_build *b = r->h.b;
    dg_val centre = dg_slice(b, boxes, 2, 0, 2),
           half = dg_scale(b, dg_slice(b, boxes, 2, 2, 4), 0.5, 0),
           most = dg_slice(b, r->h.sides, 2, 0, 2), zero = dg_number(b, 0), corner[2], part[2];

    corner[0] = dg_sub(b, centre, half);
    corner[1] = dg_add(b, centre, half);
    for (int k = 0; k < 2; k++)
        corner[k] = dg_min2(b, dg_max2(b, corner[k], zero), most);
    part[0] = dg_scale(b, dg_add(b, corner[0], corner[1]), 0.5, 0);
    part[1] = dg_sub(b, corner[1], corner[0]);
    return dg_concat(b, 2, 2, part);
}

/* i32 [B,K]: the level of each candidate. */
static dg_val levels_of(const rpn *r, const dg_level_topk_attr *a)
{
    dg_build *b = r->h.b;
    int64_t k = 0, at = 0;
    int32_t *v;
    dg_val out;

    for (int l = 0; l < r->h.n; l++)
        k += a->n[l] < a->k ? a->n[l] : a->k;
    v = malloc(((size_t)(r->h.batch * k) + 1) * sizeof *v);
    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld proposals", (long long)k);
    for (int64_t i = 0; i < r->h.batch; i++)
        for (int l = 0; l < r->h.n; l++)
            for (int64_t j = 0; j < a->n[l] && j < a->k; j++)
                v[at++] = l;
    out = dg_const_i32(b, DG_SHAPE(r->h.batch, k), v);
    free(v);
    return out;
}

static dg_val propose(const rpn *r, dg_val gt)
{
    dg_build *b = r->h.b;
    dg_level_topk_attr top = { .n_levels = r->h.n, .k = r->c->pre_nms };
    dg_nms_attr nms = { .n = r->c->proposals, .iou = r->c->nms };
    dg_delta_attr move = { .centre_std = 1, .side_std = 1, .limit = log(1000.0 / 16) };
    dg_val logits = dg_detach(b, r->logits), index, boxes, out = dg_record(b);
    dg_row_list kept;

    for (int l = 0; l < r->h.n; l++)
        top.n[l] = r->n[l];
    index = dg_level_topk(b, logits, &top);
    boxes = dg_delta_decode(b, dg_gather(b, dg_detach(b, r->deltas), index),
                            dg_embedding(b, r->anchors.boxes, index, -1), &move);
    boxes = dg_detach(b, clip(r, boxes));
    kept = dg_nms(b, boxes, dg_head_keys(b, logits, index), levels_of(r, &top), &nms);
    dg_record_set(b, out, "boxes", dg_name(b, dg_gather(b, boxes, kept.row), "rpn.proposals"));
    dg_record_set(b, out, "ids", dg_name(b, dg_pick_i32(b, index, kept.row, -1), "rpn.ids"));
    dg_record_set(b, out, "assigned", gt);
    dg_name(b, kept.count, "rpn.kept");
    return out;
}

static void lower_rpn(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    rpn r = { .c = self };
    dg_loss_terms terms = { .b = b, .record = dg_record(b) };
    dg_assign_attr assign = { .positive = r.c->positive,
                              .negative = r.c->negative,
                              .low_quality = r.c->negative,
                              .tie = TIE };
    dg_val gt;

    if (!dg_head_open(&r.h, b, in[MEMORY], DG_MAX_LEVELS, r.c->stride, in[TARGETS], in[SIZES],
                      &out[PROPOSALS]))
        return;
    predict(&r);
    if (!dg_training(b)) { /* the parameters belong to the model */
        static const char *const terms_of[] = { "loss_rpn_cls", "loss_rpn_bbox", NULL };

        out[PROPOSALS] = dg_record(b);
        dg_record_set(b, out[PROPOSALS], "boxes", dg_zeros(b, DG_SHAPE(r.h.batch, 1, 4)));
        dg_record_set(b, out[PROPOSALS], "ids", dg_head_nobody(&r.h));
        dg_record_set(b, out[PROPOSALS], "assigned", dg_head_nobody(&r.h));
        out[TOTAL] = dg_number(b, 0);
        out[TERMS] = dg_head_no_terms(b, terms_of);
        return;
    }
    r.anchors = anchors(&r);
    gt = dg_iou_assign(b, r.anchors.boxes, r.anchors.valid, r.h.boxes, r.h.count, &assign);
    gt = dg_name(b, gt, "rpn.assigned");
    add_losses(&r, gt, &terms);
    out[PROPOSALS] = propose(&r, gt);
    out[TOTAL] = terms.total;
    out[TERMS] = terms.record;
}

const dg_node_class dg_node_head_rpn = {
    DG_NODE_CLASS,
    .name = "head.rpn",
    .role = DG_ROLE_LOSS,
    .brief = "A region proposal network that trains with a decoder: its losses and proposals.",
    .doc = "An evaluation computes nothing of it.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "rpn_head",
    .rules = rules,
    .check = check_rpn,
    .lower = lower_rpn,
};
