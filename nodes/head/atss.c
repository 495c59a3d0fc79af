/* atss.c: <head.atss>: a one-stage detector with adaptive training samples (Zhang et al. 2020),
 * trained beside a decoder: the collaborative training of Co-DETR (Zong et al. 2023).
 *
 *  head        two towers relu(GN(conv3x3)); from the first class logits, from the second four
 *              deltas, times a learned number of the level, and a logit of centerness (Tian et al.
 *              2019)
 *  assign      atss_assign: one box of 8 strides at each corner of cells
 *  loss        w_class  sum focal loss / N               over boxes of the image
 *              w_box    sum c (1 - GIoU) / (C (1 + 2^-23))  over positives, c: their centerness
 *              w_centre sum bce(centerness, c) / N       over positives
 *  N           (max(1, sum over all ranks' images of max(1, positives)) + 2^-23) / ranks
 *  C           max(1, sum of c over all ranks) / ranks
 *  queries     the positives as decoder queries, filled up with other boxes; a box outside of the
 *              image is (0, 0, 0, 0) there
 *
 * Differs from the reference on purpose: mmdetection divides by the ranks before the maximum, so
 * that a C below 1 on each of N ranks would weigh less than on one. */
#include "nodes/builtin.h"
#include "nodes/head/head.h"
#include "nodes/loss/terms.h"

#include <math.h>

typedef struct conf {
    int64_t classes, stride, groups, nearest, queries, least;
    double class_weight, box_weight, centre_weight, alpha, gamma;
    const char *axis;
} conf;

enum { MEMORY, TARGETS, SIZES };
enum { POSITIVES, TOTAL, TERMS };

static const double CENTRE_STD = 0.1, SIDE_STD = 0.2, GIOU_EPS = 1e-6, BASE = 8, PRIOR = 0.01;

static const dg_port ports[] = {
    DG_IN("memory", "{p*:any}", "feature maps, finest first, each half as fine as the one before"),
    DG_IN_OPTIONAL("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}",
                   "objects of each image, in training"),
    DG_IN_OPTIONAL("sizes", "i[B,2]", "height and width of each image in its canvas, in training"),
    DG_OUT_MAIN("positives", DG_HEAD_QUERIES,
                "queries for a decoder: boxes as fractions of the image, dg_attention's meta, and "
                "pairs of queries and objects"),
    DG_OUT("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_cls1:f[],loss_bbox1:f[],loss_centerness1:f[]}", "weighted terms"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, classes, 1, 1000000, "object classes"),
    DG_INT(conf, stride, 4, 1, 1024, "pixels between cells of the finest map"),
    DG_INT(conf, groups, 32, 1, 8192, "groups of channels that are normalised together"),
    DG_INT(conf, nearest, 9, 1, 32, "candidates of an object in each level"),
    DG_INT(conf, queries, 300, 1, 100000, "queries for the decoder at most"),
    DG_INT(conf, least, 9, 0, 100000, "queries for the decoder at least"),
    DG_NUM(conf, class_weight, 12, 0, 1e6, "weight of the class term"),
    DG_NUM(conf, box_weight, 24, 0, 1e6, "weight of 1 - GIoU"),
    DG_NUM(conf, centre_weight, 12, 0, 1e6, "weight of the centerness term"),
    DG_NUM(conf, alpha, 0.25, 0, 1, "weight of positives in the class term"),
    DG_NUM(conf, gamma, 2, 0, 10, "exponent that reduces the weight of easy boxes"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to count positives over; if omitted, each rank counts its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "targets", .axis = "axis", .when = "axis",
      .why = "counts the positives of all ranks", .flags = DG_RULE_TRAIN },
    { DG_RULE_NORMALISER, .to = "total", .from = "targets", .axis = "axis",
      .why = "divides by the number of positives", .flags = DG_RULE_TRAIN },
    { 0 },
};

static void check_atss(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->least > c->queries)
        dg_check_fail(k, "least", "head-queries", "must be at most queries (%lld), found %lld",
                      (long long)c->queries, (long long)c->least);
}

typedef struct atss {
    dg_head h;
    const conf *c;
    dg_val logits, deltas, centre; /* [B,A,C], [B,A,4], [B,A] */
    dg_anchor_boxes anchors;
    int64_t n[DG_MAX_LEVELS], all; /* boxes of each level, and together */
} atss;

/* ---- head ------------------------------------------------------------------------------------ */

static dg_val tower(const atss *a, const char *name, dg_val x)
{
    dg_build *b = a->h.b;
    dg_param_path_of at = dg_param_path(b, "%s.0", name), norm = dg_param_path_in(&at, "gn");
    dg_val w = dg_param_at(&at, "conv.weight", DG_SHAPE(a->h.width, a->h.width, 3, 3),
                           dg_init_normal(0.01));

    x = dg_conv2d(b, x, w, DG_NONE, 1, 1);
    return dg_relu(b, dg_layer_group_norm(&norm, x, a->c->groups));
}

static dg_val conv(dg_build *b, const char *name, dg_val x, int64_t out, double bias)
{
    dg_param_path_of at = dg_param_path(b, "%s", name);
    dg_val w =
        dg_param_at(&at, "weight", DG_SHAPE(out, dg_dim(b, x, -1), 3, 3), dg_init_normal(0.01));

    return dg_conv2d(b, x, w, dg_param_at(&at, "bias", DG_SHAPE(out), dg_init_const(bias)), 1, 1);
}

static void predict(atss *a)
{
    dg_build *b = a->h.b;
    dg_val logits[DG_MAX_LEVELS], deltas[DG_MAX_LEVELS], centre[DG_MAX_LEVELS];

    a->all = 0;
    for (int l = 0; l < a->h.n; l++) {
        dg_param_path_of scale = dg_param_path(b, "scales.%d", l);
        dg_val class = tower(a, "cls_convs", a->h.map[l]), box = tower(a, "reg_convs", a->h.map[l]);
        int64_t n = a->n[l] = a->h.h[l] * a->h.w[l];

        a->all += n;
        logits[l] = conv(b, "atss_cls", class, a->c->classes, -log((1 - PRIOR) / PRIOR));
        centre[l] = conv(b, "atss_centerness", box, 1, 0);
        deltas[l] = dg_mul(b, conv(b, "atss_reg", box, 4, 0),
                           dg_param_at(&scale, "scale", DG_SCALAR, dg_init_const(1)));
        dg_name(b, logits[l], "atss.cls.%d", l);
        dg_name(b, deltas[l], "atss.reg.%d", l);
        dg_name(b, centre[l], "atss.ctr.%d", l);
        logits[l] = dg_reshape(b, logits[l], DG_SHAPE(a->h.batch, n, a->c->classes));
        deltas[l] = dg_reshape(b, deltas[l], DG_SHAPE(a->h.batch, n, 4));
        centre[l] = dg_reshape(b, centre[l], DG_SHAPE(a->h.batch, n));
    }
    a->logits = dg_concat(b, 1, a->h.n, logits);
    a->deltas = dg_concat(b, 1, a->h.n, deltas);
    a->centre = dg_concat(b, 1, a->h.n, centre);
}

static dg_atss assign(atss *a)
{
    dg_anchor_attr grid = {
        .n_levels = a->h.n, .ratios = 1, .octaves = 1, .base = BASE, .ratio = { 1 }
    };
    dg_atss_attr attr = { .n_levels = a->h.n, .nearest = a->c->nearest };

    for (int l = 0; l < a->h.n; l++) {
        grid.h[l] = a->h.h[l];
        grid.w[l] = a->h.w[l];
        grid.stride[l] = a->h.stride[l];
        attr.n[l] = a->n[l];
    }
    a->anchors = dg_anchor_grid(a->h.b, a->h.size, &grid);
    return dg_atss_assign(a->h.b, a->anchors.boxes, a->anchors.valid, a->h.boxes, a->h.count,
                          &attr);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* [2]: N and C of one rank, without their small numbers, from the positives 1 or 0 [B,A]. */
static dg_val normalisers(const atss *a, dg_val positive, dg_val centerness)
{
    dg_build *b = a->h.b;
    dg_val n = dg_max2(b, dg_sum(b, positive, 1u << 1, false), dg_number(b, 1)), all[2];

    all[0] = dg_reshape(b, dg_sum(b, n, DG_ALL_AXES, false), DG_SHAPE(1));
    all[1] = dg_reshape(b, dg_sum(b, centerness, DG_ALL_AXES, false), DG_SHAPE(1));
    return dg_name(b, dg_head_normaliser(b, dg_concat(b, 0, 2, all), a->c->axis),
                   "atss.normalisers");
}

static dg_val number(dg_build *b, dg_val list, int64_t i, double scale, double shift)
{
    return dg_scale(b, dg_reshape(b, dg_slice(b, list, 0, i, i + 1), DG_SCALAR), scale, shift);
}

static void add_losses(const atss *a, const dg_atss *t, dg_loss_terms *terms)
{
    dg_build *b = a->h.b;
    dg_focal_attr focal = { a->c->alpha, a->c->gamma };
    dg_delta_attr move = { CENTRE_STD, SIDE_STD, log(1000.0 / 16) };
    dg_val label = dg_pick_i32(b, a->h.labels, t->gt, a->c->classes),
           positive = dg_head_known(b, t->gt), all = normalisers(a, positive, t->centerness),
           n = number(b, all, 0, 1, DG_HEAD_EPS / dg_head_ranks(b, a->c->axis)),
           c = number(b, all, 1, 1 + DG_HEAD_EPS, 0);
    dg_val boxes = dg_expand(b, dg_reshape(b, a->anchors.boxes, DG_SHAPE(1, a->all, 4)),
                             DG_SHAPE(a->h.batch, a->all, 4));

    boxes = dg_delta_decode(b, a->deltas, boxes, &move);
    dg_loss_add(terms, "cls", "1", dg_focal_loss(b, a->logits, label, &focal), a->c->class_weight,
                n);
    dg_loss_add(terms, "bbox", "1",
                dg_giou_loss(b, boxes, dg_gather(b, a->h.boxes, t->gt), t->centerness, GIOU_EPS),
                a->c->box_weight, c);
    dg_loss_add(terms, "centerness", "1", dg_logistic_loss(b, a->centre, t->centerness, positive),
                a->c->centre_weight, n);
}

static dg_val queries(const atss *a, const dg_atss *t)
{
    dg_build *b = a->h.b;
    dg_shape all = DG_SHAPE(a->h.batch, a->all);
    dg_query_attr attr = { .capacity = a->c->queries, .least = a->c->least };
    dg_query_rows_of q = dg_query_rows(b, t->gt, dg_uniform(b, "query_pos", all),
                                       dg_uniform(b, "query_neg", all), &attr);
    dg_val own = dg_real(b, dg_pick_i32(b, a->anchors.valid, q.row, 0));

    dg_name(b, q.row, "atss.queries");
    own = dg_reshape(b, own, DG_SHAPE(a->h.batch, a->c->queries, 1));
    return dg_head_queries(&a->h, &q, dg_mul(b, dg_embedding(b, a->anchors.boxes, q.row, -1), own));
}

static void lower_atss(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    atss a = { .c = self };
    dg_loss_terms terms = { .b = b, .record = dg_record(b) };
    dg_atss t;

    if (!dg_head_open(&a.h, b, in[MEMORY], DG_MAX_LEVELS, a.c->stride, in[TARGETS], in[SIZES],
                      &out[POSITIVES]))
        return;
    predict(&a);
    if (!dg_training(b)) { /* the parameters belong to the model */
        static const char *const terms_of[] = { "loss_cls1", "loss_bbox1", "loss_centerness1",
                                                NULL };

        out[POSITIVES] = dg_head_no_queries(&a.h);
        out[TOTAL] = dg_number(b, 0);
        out[TERMS] = dg_head_no_terms(b, terms_of);
        return;
    }
    t = assign(&a);
    dg_name(b, t.gt, "atss.assigned");
    dg_name(b, t.threshold, "atss.thresholds");
    dg_name(b, t.centerness, "atss.centerness");
    add_losses(&a, &t, &terms);
    out[POSITIVES] = queries(&a, &t);
    out[TOTAL] = terms.total;
    out[TERMS] = terms.record;
}

static int64_t classes(const void *self)
{
    return ((const conf *)self)->classes;
}

const dg_node_class dg_node_head_atss = {
    DG_NODE_CLASS,
    .name = "head.atss",
    .role = DG_ROLE_LOSS,
    .brief = "A one-stage detector that trains with a decoder: its losses, and its positives as "
             "queries.",
    .doc = "An evaluation computes nothing of it.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "bbox_head.0",
    .rules = rules,
    .check = check_atss,
    .lower = lower_atss,
    .classes = classes,
};
