/* roi.c: <head.roi>: the second stage of Faster R-CNN (Ren et al. 2015) on a feature pyramid (Lin
 * et al. 2017), trained beside a decoder: the collaborative training of Co-DETR (Zong et al. 2023).
 *
 *  rows       the objects themselves, then the proposals; an object's row is its own, a proposal
 *            belongs to the object that it overlaps by 0.5 or more
 *  sample     128 positives at most and 512 in all, at random
 *  features   RoIAlign 7x7; two linear layers with ReLU; class logits, deltas of each class
 *  loss       w_class sum cross entropy / N
 *            w_box sum over positives (1 - GIoU) / N, of boxes moved by their class's deltas; not
 *            clipped
 *  N          max(1, rows of all ranks) / ranks, and 2^-23 / ranks
 *  queries    the positives as decoder queries, filled up with negatives
 *
 * Differs from the reference on purpose: there each rank divides by its own rows. */
#include "nodes/builtin.h"
#include "nodes/head/head.h"
#include "nodes/loss/terms.h"

#include <math.h>

typedef struct conf {
    int64_t classes, stride, levels, samples, positives, cells, hidden, queries, least;
    double class_weight, box_weight, finest, overlap;
    const char *axis;
} conf;

enum { MEMORY, PROPOSALS, TARGETS, SIZES };
enum { POSITIVES, TOTAL, TERMS };
enum { FIRST_ID = 1000 /* keys of proposals begin here, those of objects at 0 */ };

static const double CENTRE_STD = 0.1, SIDE_STD = 0.2, GIOU_EPS = 1e-6;

static const dg_port ports[] = {
    DG_IN("memory", "{p*:any}", "feature maps, finest first, each half as fine as the one before"),
    DG_IN_OPTIONAL("proposals", "{boxes:f[B,P,4],ids:i[B,P],assigned:i[B,A]}",
                   "output of head.rpn, in training"),
    DG_IN_OPTIONAL("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}",
                   "objects of each image, in training"),
    DG_IN_OPTIONAL("sizes", "i[B,2]", "height and width of each image in its canvas, in training"),
    DG_OUT_MAIN("positives", DG_HEAD_QUERIES,
                "queries for a decoder: boxes as fractions of the image, dg_attention's meta, and "
                "pairs of queries and objects"),
    DG_OUT("total", "f[]", "sum of the losses"),
    DG_OUT("terms", "{loss_cls0:f[],acc0:f[],loss_bbox0:f[]}",
           "weighted losses, and the share of rows whose class is right, in percent: of all ranks' "
           "rows, if their mean is taken"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, classes, 1, 1000000, "object classes"),
    DG_INT(conf, stride, 4, 1, 1024, "pixels between cells of the finest map"),
    DG_INT(conf, levels, 5, 1, DG_MAX_LEVELS, "maps to take features from, of those given"),
    DG_INT(conf, samples, 512, 1, 100000, "rows of an image to train on"),
    DG_INT(conf, positives, 128, 1, 100000, "positive rows at most"),
    DG_NUM(conf, overlap, 0.5, 0, 1, "IoU from which on a proposal is positive"),
    DG_INT(conf, cells, 7, 1, 64, "cells of a side of a region's features"),
    DG_NUM(conf, finest, 56, 1, 100000,
           "regions of this side are on the border of the finest map and the next"),
    DG_INT(conf, hidden, 1024, 1, 65536, "width of the linear layers"),
    DG_INT(conf, queries, 300, 1, 100000, "queries for the decoder at most"),
    DG_INT(conf, least, 9, 0, 100000, "queries for the decoder at least"),
    DG_NUM(conf, class_weight, 12, 0, 1e6, "weight of the class term"),
    DG_NUM(conf, box_weight, 120, 0, 1e6, "weight of 1 - GIoU"),
    DG_AXES(conf, axis, NULL, "mesh axis to count rows over; if omitted, each rank counts its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "targets", .axis = "axis", .when = "axis",
      .why = "counts the rows of all ranks", .flags = DG_RULE_TRAIN },
    { DG_RULE_NORMALISER, .to = "total", .from = "targets", .axis = "axis",
      .why = "divides by the number of rows", .flags = DG_RULE_TRAIN },
    { 0 },
};

static void check_roi(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->positives > c->samples)
        dg_check_fail(k, "positives", "head-samples", "must be at most samples (%lld), found %lld",
                      (long long)c->samples, (long long)c->positives);
    if (c->least > c->queries)
        dg_check_fail(k, "least", "head-queries", "must be at most queries (%lld), found %lld",
                      (long long)c->queries, (long long)c->least);
}

typedef struct roi {
    dg_head h;
    const conf *c;
    dg_val ids;        /* i32 [B,P]: of proposals, among all boxes */
    int64_t anchors;   /* number of all boxes */
    dg_val row, count; /* sampled rows i32 [B,n]; i32 [B,2] */
    dg_val box, of;    /* [B,n,4] in pixels; i32 [B,n]: their objects */
} roi;

/* Keys of rows: of object j number j of the draw, of the proposal made of box i number 1000 + i; so
 * a choice depends on what is proposed and not on its rank. */
static dg_val keys(const roi *r, const char *name)
{
    dg_build *b = r->h.b;
    int64_t m = dg_dim(b, r->h.boxes, 1), base = m > FIRST_ID ? m : FIRST_ID;
    dg_val u = dg_uniform(b, name, DG_SHAPE(r->h.batch, base + r->anchors)), part[2];

    part[0] = dg_slice(b, u, 1, 0, m);
    part[1] = dg_head_keys(b, dg_slice(b, u, 1, base, base + r->anchors), r->ids);
    return dg_concat(b, 1, 2, part);
}

static void sample(roi *r, dg_val proposals)
{
    dg_build *b = r->h.b;
    dg_assign_attr assign = {
        .positive = r->c->overlap, .negative = r->c->overlap, .low_quality = 2, .own_rows = 1
    };
    dg_val boxes = dg_detach(b, dg_record_get(b, proposals, "boxes")), gt;
    dg_row_list rows;

    r->ids = dg_record_get(b, proposals, "ids");
    r->anchors = dg_dim(b, dg_record_get(b, proposals, "assigned"), 1);
    boxes = dg_concat(b, 1, 2, (dg_val[]){ r->h.boxes, boxes });
    gt = dg_iou_assign(b, boxes, DG_NONE, r->h.boxes, r->h.count, &assign);
    rows = dg_sample_rows(b, dg_name(b, gt, "roi.assigned"), keys(r, "pos"), keys(r, "neg"),
                          &(dg_sample_attr){ .n = r->c->samples, .most = r->c->positives });
    r->row = dg_name(b, rows.row, "roi.rows");
    r->count = dg_name(b, rows.count, "roi.count");
    r->box = dg_name(b, dg_gather(b, boxes, r->row), "roi.boxes");
    r->of = dg_name(b, dg_pick_i32(b, gt, r->row, DG_ASSIGNED_ABSENT), "roi.gt");
}

/* Regions [B,n,4] -> logits [B,n,classes+1] and deltas [B,n,4*classes]. */
static dg_val predict(const roi *r, dg_val box, dg_val *deltas)
{
    dg_build *b = r->h.b;
    dg_roi_attr a = { .size = r->c->cells, .finest = r->c->finest, .n_levels = r->h.n };
    dg_param_path_of class = dg_param_path(b, "fc_cls"), reg = dg_param_path(b, "fc_reg");
    dg_val x;

    for (int l = 0; l < r->h.n; l++)
        a.stride[l] = r->h.stride[l];
    x = dg_name(b, dg_roi_align(b, box, r->h.n, r->h.map, &a), "roi.feats");
    for (int i = 0; i < 2; i++) {
        dg_param_path_of at = dg_param_path(b, "shared_fcs.%d", i);
        int64_t width = dg_dim(b, x, -1);

        x = dg_relu(b, dg_layer_linear_bias(&at, x, r->c->hidden,
                                            dg_init_xavier(width, r->c->hidden), dg_init_zero()));
    }
    *deltas = dg_name(b,
                      dg_layer_linear_bias(&reg, x, 4 * r->c->classes, dg_init_normal(0.001),
                                           dg_init_zero()),
                      "roi.reg");
    return dg_name(b,
                   dg_layer_linear_bias(&class, x, r->c->classes + 1, dg_init_normal(0.01),
                                        dg_init_zero()),
                   "roi.cls");
}

static void add_losses(const roi *r, dg_val logits, dg_val deltas, dg_loss_terms *terms)
{
    dg_build *b = r->h.b;
    int64_t rows = r->h.batch * r->c->samples;
    dg_val label = dg_pick_i32(b, r->h.labels, r->of, r->c->classes), moved, n, right;
    dg_entropy class = dg_cross_entropy(b, logits, label);
    dg_delta_attr move = { CENTRE_STD, SIDE_STD, log(1000.0 / 16) };

    n = dg_head_normaliser(b, dg_real(b, dg_sum(b, r->count, DG_ALL_AXES, false)), r->c->axis);
    right = dg_div(b, dg_scale(b, dg_real(b, class.right), 100, 0), n);
    n = dg_scale(b, n, 1, DG_HEAD_EPS / dg_head_ranks(b, r->c->axis));
    n = dg_name(b, n, "roi.normaliser");
    dg_loss_add(terms, "cls", "0", class.loss, r->c->class_weight, n);
    dg_record_set(b, terms->record, "acc0", dg_name(b, right, "loss.acc0"));
    /* of each row the deltas of its class; of background none */
    deltas = dg_gather(b, dg_reshape(b, deltas, DG_SHAPE(rows, r->c->classes, 4)),
                       dg_reshape(b, label, DG_SHAPE(rows, 1)));
    deltas = dg_reshape(b, deltas, DG_SHAPE(r->h.batch, r->c->samples, 4));
    moved = dg_delta_decode(b, deltas, r->box, &move);
    dg_loss_add(terms, "bbox", "0",
                dg_giou_loss(b, moved, dg_gather(b, r->h.boxes, r->of), dg_head_known(b, r->of),
                             GIOU_EPS),
                r->c->box_weight, n);
}

static dg_val queries(const roi *r)
{
    dg_build *b = r->h.b;
    int64_t most = r->c->positives > r->c->least ? r->c->positives : r->c->least;
    dg_query_attr a = { .capacity = r->c->queries < most ? r->c->queries : most,
                        .least = r->c->least };
    dg_query_rows_of q = dg_query_rows(b, r->of, dg_head_keys(b, keys(r, "query_pos"), r->row),
                                       dg_head_keys(b, keys(r, "query_neg"), r->row), &a);

    dg_name(b, q.row, "roi.queries");
    return dg_head_queries(&r->h, &q, dg_gather(b, r->box, q.row));
}

static void lower_roi(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    roi r = { .c = self };
    dg_loss_terms terms = { .b = b, .record = dg_record(b) };
    dg_val logits, deltas = DG_NONE;

    if (!dg_head_open(&r.h, b, in[MEMORY], (int)r.c->levels, r.c->stride, in[TARGETS], in[SIZES],
                      &out[POSITIVES]))
        return;
    if (!dg_training(b)) { /* the parameters belong to the model */
        static const char *const terms_of[] = { "loss_cls0", "acc0", "loss_bbox0", NULL };

        (void)predict(&r, dg_zeros(b, DG_SHAPE(r.h.batch, 1, 4)), &deltas);
        out[POSITIVES] = dg_head_no_queries(&r.h);
        out[TOTAL] = dg_number(b, 0);
        out[TERMS] = dg_head_no_terms(b, terms_of);
        return;
    }
    if (!dg_has(in[PROPOSALS])) {
        out[POSITIVES] =
            dg_error(b, "head-proposals",
                     "needs boxes to sample in training: wire proposals to a <head.rpn>");
        return;
    }
    sample(&r, in[PROPOSALS]);
    logits = predict(&r, r.box, &deltas);
    add_losses(&r, logits, deltas, &terms);
    out[POSITIVES] = queries(&r);
    out[TOTAL] = terms.total;
    out[TERMS] = terms.record;
}

static int64_t classes(const void *self)
{
    return ((const conf *)self)->classes;
}

const dg_node_class dg_node_head_roi = {
    DG_NODE_CLASS,
    .name = "head.roi",
    .role = DG_ROLE_LOSS,
    .brief = "A region classifier that trains with a decoder: its losses, and its positives as "
             "queries.",
    .doc = "An evaluation computes nothing of it.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "roi_head.0.bbox_head",
    .rules = rules,
    .check = check_roi,
    .lower = lower_roi,
    .classes = classes,
};
