/* rtdetr.c: <loss.rtdetr>: set prediction loss: matches each output set to the targets and adds
 * losses of classes and boxes. Matching: Carion et al. 2020; varifocal: Zhang et al. 2021, with the
 * pair's IoU as target; pairs of denoising queries are known.
 *
 *  K           max(1, objects over all ranks of `axis`) / ranks; for denoising sets K * groups;
 *              the input `objects` replaces the count
 *  loss_vfl    w_class sum vfl(logits, IoU of matched pairs) / K
 *  loss_bbox   w_l1    sum |d(cx, cy, w, h)| / K              over matched pairs
 *  loss_giou   w_giou  sum (1 - GIoU) / K
 *
 * Sets: the last layer, aux_i, dn_i, enc_0 (in version 1 the selection is the last aux). total is
 * the sum of all. */
#include "nodes/builtin.h"
#include "nodes/loss/terms.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct conf {
    int64_t classification, terms, empty;
    double class_weight, l1_weight, giou_weight, alpha, gamma;
    double match_class, match_l1, match_giou, match_alpha, match_gamma;
    const char *axis;
} conf;

enum { PREDICTIONS, TARGETS, OBJECTS };
enum { TOTAL, TERMS };
enum { ALL_TERMS, CLASS_TERMS, BOX_TERMS };
enum { EMPTY_ZERO, EMPTY_ABSENT };

static const dg_port ports[] = {
    DG_IN("predictions",
          "{logits:f[B,Q,C],boxes:f[B,Q,4],aux?:any,enc?:any,dn?:any,denoising?:any}",
          "output of decoder.rtdetr"),
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects of each image"),
    DG_IN_OPTIONAL(
        "objects", "i[...]",
        "number of objects of all ranks, as the sum of the elements; if omitted, count them here"),
    DG_OUT_MAIN("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_*:f[]}",
           "weighted terms under the reference's names: loss_vfl, loss_bbox_aux_0, ..."),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_ENUM(conf, classification, DG_CLASS_VARIFOCAL, "vfl|focal",
            "target of a matched pair: its IoU, or 1"),
    DG_NUM(conf, class_weight, 1, 0, 1e6, "weight of the class term"),
    DG_NUM(conf, l1_weight, 5, 0, 1e6, "weight of the L1 distance of boxes"),
    DG_NUM(conf, giou_weight, 2, 0, 1e6, "weight of 1 - GIoU"),
    DG_NUM(conf, alpha, 0.75, 0, 1, "weight of negatives (vfl) or of positives (focal)"),
    DG_NUM(conf, gamma, 2, 0, 10, "exponent that reduces the weight of easy negatives"),
    DG_NUM(conf, match_class, 2, 0, 1e6, "class cost in matching"),
    DG_NUM(conf, match_l1, 5, 0, 1e6, "L1 cost in matching"),
    DG_NUM(conf, match_giou, 2, 0, 1e6, "GIoU cost in matching"),
    DG_NUM(conf, match_alpha, 0.25, 0, 1, "alpha of the class cost"),
    DG_NUM(conf, match_gamma, 2, 0, 10, "gamma of the class cost"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to count objects over; if omitted, each rank counts its own"),
    DG_ENUM(conf, terms, ALL_TERMS, "all|class|box", "the terms to compute"),
    DG_ENUM(
        conf, empty, 0, "zero|absent",
        "if this rank's batch has no object: compute all terms, those of boxes being 0, or none"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "targets", .axis = "axis", .when = "axis,!objects",
      .why = "counts the objects of all ranks" },
    { DG_RULE_NORMALISER, .to = "total", .from = "targets", .axis = "axis", .when = "!objects",
      .why = "divides by the number of objects", .flags = DG_RULE_TRAIN },
    { DG_RULE_NORMALISER, .to = "total", .from = "objects", .when = "objects",
      .why = "divides by the number of objects", .flags = DG_RULE_TRAIN },
    { DG_RULE_PRESENCE, .from = "targets", .when = "empty=absent",
      .why = "is absent when targets.count is 0 (empty=\"absent\")" },
    { 0 },
};

typedef struct sums {
    dg_build *b;
    const conf *c;
    dg_val labels, boxes, count; /* targets */
    dg_val counted;              /* objects of all ranks; DG_NONE: not wired */
    dg_loss_terms terms;
} sums;

/* Pairs of queries and targets, and the divisor of a set's sums. */
typedef struct pairs {
    dg_val query, gt, dn, normaliser;
    /* 1 if the pairs exist in this step, 0 if not (zeros are not pairs); DG_NONE: always */
    dg_val here;
} pairs;

static dg_val objects(const sums *s)
{
    dg_build *b = s->b;
    const char *axis = s->c->axis ? s->c->axis : dg_has(s->counted) ? "dp" : NULL;
    dg_val n =
        dg_has(s->counted) ? dg_loss_count(b, s->counted, NULL) : dg_loss_count(b, s->count, axis);

    n = dg_max2(b, n, dg_number(b, 1));
    return axis ? dg_scale(b, n, 1 / (double)dg_axis_size(b, axis), 0) : n;
}

static dg_val if_here(dg_build *b, const pairs *p, dg_val sum)
{
    return dg_has(p->here) ? dg_select(b, p->here, sum, dg_number(b, 0)) : sum;
}

static void add_set(sums *s, const char *set, dg_val prediction, dg_val labels, const pairs *p)
{
    dg_build *b = s->b;
    const conf *c = s->c;
    dg_class_loss_attr attr = { .focal = c->classification, .alpha = c->alpha, .gamma = c->gamma };
    dg_val logits = dg_record_get(b, prediction, "logits"),
           boxes = dg_record_get(b, prediction, "boxes");
    dg_box_losses box = dg_box_loss(b, boxes, s->boxes, p->query, p->gt);
    dg_val class = dg_class_loss(b, logits, labels, p->query, p->gt, attr.focal ? DG_NONE : box.iou,
                                 p->dn, &attr);

    if (c->terms != BOX_TERMS)
        dg_loss_add(&s->terms, attr.focal ? "focal" : "vfl", set, if_here(b, p, class),
                    c->class_weight, p->normaliser);
    if (c->terms == CLASS_TERMS)
        return;
    dg_loss_add(&s->terms, "bbox", set, if_here(b, p, box.l1), c->l1_weight, p->normaliser);
    dg_loss_add(&s->terms, "giou", set, if_here(b, p, box.giou), c->giou_weight, p->normaliser);
}

/* Labels for a set: a selection that ranks tokens by one logit has one class, 0. */
static dg_val labels_for(const sums *s, dg_val logits)
{
    dg_build *b = s->b;
    dg_shape shape = dg_shape_of(b, s->labels);
    int32_t *zeros;
    dg_val labels;

    if (dg_dim(b, logits, -1) > 1)
        return s->labels;
    zeros = calloc((size_t)dg_shape_elements(shape), sizeof *zeros);
    if (!zeros)
        return dg_error(b, "out-of-memory", "no memory for %lld labels",
                        (long long)dg_shape_elements(shape));
    labels = dg_const_i32(b, shape, zeros);
    free(zeros);
    return labels;
}

static void add_matched(sums *s, const char *set, dg_val prediction, dg_val normaliser)
{
    dg_build *b = s->b;
    const conf *c = s->c;
    dg_match_attr attr = { c->match_class, c->match_l1, c->match_giou, c->match_alpha,
                           c->match_gamma };
    dg_val logits = dg_record_get(b, prediction, "logits"),
           boxes = dg_record_get(b, prediction, "boxes");
    dg_val labels = labels_for(s, logits);
    dg_val cost = dg_match_cost(b, logits, boxes, labels, s->boxes, s->count, &attr);
    pairs p = { .query = dg_match(b, cost, s->count), .normaliser = normaliser };

    dg_name(b, p.query, "match%s", set);
    add_set(s, set, prediction, labels, &p);
}

/* Adds every numbered entry of predictions.part as set "_part_i". */
static void add_list(sums *s, dg_val predictions, const char *part, const pairs *known,
                     dg_val normaliser)
{
    dg_build *b = s->b;
    dg_val list;

    if (!dg_record_has(b, predictions, part))
        return;
    list = dg_record_get(b, predictions, part);
    for (int i = 0; i < dg_record_n(b, list); i++) {
        dg_val prediction = dg_record_get(b, list, dg_record_key(b, list, i));
        char set[32];

        snprintf(set, sizeof set, "_%s_%d", part, i);
        if (known)
            add_set(s, set, prediction, s->labels, known);
        else
            add_matched(s, set, prediction, normaliser);
    }
}

static void add_denoising(sums *s, dg_val predictions, dg_val normaliser)
{
    dg_build *b = s->b;
    dg_val dn, groups;
    pairs p;

    if (!dg_record_has(b, predictions, "denoising"))
        return;
    dn = dg_record_get(b, predictions, "denoising");
    p.query = dg_record_get(b, dn, "query");
    p.gt = dg_record_get(b, dn, "gt");
    p.dn = dg_record_get(b, dn, "meta");
    p.here = dg_present(b, p.query);
    groups = dg_reshape(b, dg_slice(b, dg_real(b, p.dn), 0, 1, 2), DG_SCALAR);
    p.normaliser = dg_mul(b, normaliser, dg_max2(b, groups, dg_number(b, 1)));
    add_list(s, predictions, "dn", &p, DG_NONE);
}

static void lower_loss(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    sums s = { .b = b, .c = self, .terms = { .b = b, .record = dg_record(b) } };
    dg_val predictions = in[PREDICTIONS], normaliser;

    out[TOTAL] = out[TERMS] = dg_loss_misfit(b, predictions, "groups sets");
    if (dg_has(out[TOTAL]))
        return;
    s.labels = dg_record_get(b, in[TARGETS], "labels");
    s.boxes = dg_record_get(b, in[TARGETS], "boxes");
    s.count = dg_record_get(b, in[TARGETS], "count");
    s.counted = in[OBJECTS];
    normaliser = dg_name(b, objects(&s), "loss.objects"); /* all ranks count */
    if (s.c->empty == EMPTY_ABSENT)
        dg_guard_begin(b, dg_sum(b, s.count, DG_ALL_AXES, false));
    add_matched(&s, "", predictions, normaliser);
    add_list(&s, predictions, "aux", NULL, normaliser);
    add_denoising(&s, predictions, normaliser);
    if (dg_record_has(b, predictions, "enc"))
        add_matched(&s, "_enc_0", dg_record_get(b, predictions, "enc"), normaliser);
    out[TOTAL] = dg_name(b, s.terms.total, "loss.total");
    out[TERMS] = s.terms.record;
    if (s.c->empty == EMPTY_ABSENT)
        dg_guard_end(b, 2, out);
}

const dg_node_class dg_node_loss_rtdetr = {
    DG_NODE_CLASS,
    .name = "loss.rtdetr",
    .role = DG_ROLE_LOSS,
    .brief = "RT-DETR's set prediction loss: varifocal, L1 and GIoU for every layer, the selection "
             "and the denoising queries.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_loss,
};
