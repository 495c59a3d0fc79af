/* rfdetr.c: <loss.rfdetr>: set prediction loss of queries in groups: every group of every set is
 * matched with all targets (Chen et al. 2023, Group DETR; matching: Carion et al. 2020), so each
 * target has a pair per group. The class term is aligned with the boxes: Cai et al. 2023, in the
 * form of LW-DETR (Chen et al. 2024).
 *
 *  K          max(1, groups * objects over all ranks of `axis`) / ranks
 *  loss_ce    w_class sum of the aligned class loss / K      over all queries and classes
 *  loss_bbox  w_l1    sum |d(cx, cy, w, h)| / K              over matched pairs
 *  loss_giou  w_giou  sum (1 - GIoU) / K
 *
 * and for predictions with masks, at points (mask_terms.h; Cheng et al. 2022, Mask2Former)
 *
 *  loss_mask_ce    w_mask_ce    sum of mean cross-entropies / K
 *  loss_mask_dice  w_mask_dice  sum (1 - dice) / K
 *
 * which take part in matching, too.
 *
 * Sets: the last layer, 0, 1, ... the layers before it, enc the query selection. Without objects
 * all terms exist; those of boxes are 0.
 *
 * Differs from the reference on purpose: it divides by the ranks before the maximum, so that fewer
 * objects than ranks would weigh less than on one rank. */
#include "nodes/builtin.h"
#include "nodes/loss/mask_terms.h"
#include "nodes/loss/terms.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct conf {
    double class_weight, l1_weight, giou_weight, alpha, gamma;
    double match_class, match_l1, match_giou, match_alpha, match_gamma;
    double mask_ce_weight, mask_dice_weight, match_mask_ce, match_mask_dice;
    const char *axis;
} conf;

enum { PREDICTIONS, TARGETS, OBJECTS };
enum { TOTAL, TERMS };

static const dg_port ports[] = {
    DG_IN("predictions",
          "{logits:f[B,Q,C],boxes:f[B,Q,4],masks?:any,aux?:any,enc?:any,groups?:i[G]}",
          "output of decoder.lwdetr or decoder.masks; one group if it does not number them"),
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B],masks?:i[B,L,H,W]}",
          "objects of each image"),
    DG_IN_OPTIONAL(
        "objects", "i[...]",
        "number of objects of all ranks, as the sum of the elements; if omitted, count them here"),
    DG_OUT_MAIN("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_*:f[]}",
           "weighted terms under the reference's names: loss_ce, loss_bbox_0, loss_giou_enc, ..."),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_NUM(conf, class_weight, 1, 0, 1e6, "weight of the class term"),
    DG_NUM(conf, l1_weight, 5, 0, 1e6, "weight of the L1 distance of boxes"),
    DG_NUM(conf, giou_weight, 2, 0, 1e6, "weight of 1 - GIoU"),
    DG_NUM(conf, alpha, 0.25, 0, 1,
           "a pair's class target is p^alpha IoU^(1-alpha), at least 0.01"),
    DG_NUM(conf, gamma, 2, 0, 10, "other logits weigh p^gamma"),
    DG_NUM(conf, match_class, 2, 0, 1e6, "class cost in matching"),
    DG_NUM(conf, match_l1, 5, 0, 1e6, "L1 cost in matching"),
    DG_NUM(conf, match_giou, 2, 0, 1e6, "GIoU cost in matching"),
    DG_NUM(conf, match_alpha, 0.25, 0, 1, "alpha of the class cost"),
    DG_NUM(conf, match_gamma, 2, 0, 10, "gamma of the class cost"),
    DG_NUM(conf, mask_ce_weight, 5, 0, 1e6, "weight of the masks' cross-entropy"),
    DG_NUM(conf, mask_dice_weight, 5, 0, 1e6, "weight of the masks' dice loss"),
    DG_NUM(conf, match_mask_ce, 5, 0, 1e6, "cross-entropy of masks in matching"),
    DG_NUM(conf, match_mask_dice, 5, 0, 1e6, "dice loss of masks in matching"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to count objects over; if omitted, each rank counts its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "targets", .axis = "axis", .when = "axis,!objects",
      .why = "counts the objects of all ranks" },
    { DG_RULE_NORMALISER, .to = "total", .from = "targets", .axis = "axis", .when = "!objects",
      .why = "divides by the number of objects", .flags = DG_RULE_TRAIN },
    { DG_RULE_NORMALISER, .to = "total", .from = "objects", .when = "objects",
      .why = "divides by the number of objects", .flags = DG_RULE_TRAIN },
    { 0 },
};

typedef struct sums {
    dg_build *b;
    const conf *c;
    int64_t groups;
    dg_val labels, boxes, count; /* targets */
    dg_val masks;                /* of targets; DG_NONE: there are none */
    dg_val counted;              /* objects of all ranks; DG_NONE: not wired */
    dg_val gt;                   /* i32 [B,groups*M]: each target once per group */
    dg_val normaliser;
    dg_loss_terms terms;
} sums;

static dg_val objects(const sums *s)
{
    dg_build *b = s->b;
    const char *axis = s->c->axis ? s->c->axis : dg_has(s->counted) ? "dp" : NULL;
    double ranks = axis ? (double)dg_axis_size(b, axis) : 1;
    dg_val n =
        dg_has(s->counted) ? dg_loss_count(b, s->counted, NULL) : dg_loss_count(b, s->count, axis);

    n = dg_max2(b, dg_scale(b, n, (double)s->groups, 0), dg_number(b, 1));
    return dg_name(b, dg_scale(b, n, 1 / ranks, 0), "loss.objects");
}

static dg_val targets_per_group(const sums *s)
{
    dg_build *b = s->b;
    int64_t batch = dg_dim(b, s->labels, 0), m = dg_dim(b, s->labels, 1), n = batch * s->groups * m;
    int32_t *v = malloc((size_t)n * sizeof *v);
    dg_val gt;

    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld pairs", (long long)n);
    for (int64_t i = 0; i < n; i++)
        v[i] = (int32_t)(i % m);
    gt = dg_const_i32(b, DG_SHAPE(batch, s->groups * m), v);
    free(v);
    return gt;
}

static void add_set(sums *s, const char *set, dg_val prediction)
{
    dg_build *b = s->b;
    const conf *c = s->c;
    dg_match_attr matching = { c->match_class, c->match_l1, c->match_giou, c->match_alpha,
                               c->match_gamma };
    dg_class_loss_attr aligned = { DG_CLASS_ALIGNED, c->alpha, c->gamma };
    dg_val logits = dg_record_get(b, prediction, "logits"),
           boxes = dg_record_get(b, prediction, "boxes");
    dg_val cost = dg_match_cost_exact(b, logits, boxes, s->labels, s->boxes, s->count, &matching);
    bool masked = dg_record_has(b, prediction, "masks");
    dg_mask_set masks = { b, set, DG_NONE, s->masks };

    if (masked) {
        masks.masks = dg_record_get(b, prediction, "masks");
        cost = dg_mask_set_cost(&masks, cost, s->count, c->match_mask_ce, c->match_mask_dice);
    }

    dg_val query = dg_name(b, dg_match_groups(b, cost, s->count, s->groups), "match%s", set);
    dg_box_losses box = dg_box_loss(b, boxes, s->boxes, query, s->gt);
    dg_val class = dg_class_loss(b, logits, s->labels, query, s->gt, box.iou, DG_NONE, &aligned);

    dg_loss_add(&s->terms, "ce", set, class, c->class_weight, s->normaliser);
    dg_loss_add(&s->terms, "bbox", set, box.l1, c->l1_weight, s->normaliser);
    dg_loss_add(&s->terms, "giou", set, box.giou, c->giou_weight, s->normaliser);
    if (masked) {
        dg_mask_losses mask = dg_mask_set_loss(&masks, query, s->gt);

        dg_loss_add(&s->terms, "mask_ce", set, mask.ce, c->mask_ce_weight, s->normaliser);
        dg_loss_add(&s->terms, "mask_dice", set, mask.dice, c->mask_dice_weight, s->normaliser);
    }
}

static void lower_loss(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    dg_val predictions = in[PREDICTIONS], aux;
    sums s = { .b = b, .c = self, .groups = 1, .terms = { .b = b, .record = dg_record(b) } };

    out[TOTAL] = out[TERMS] = dg_loss_misfit(b, predictions, "dn sets");
    if (dg_has(out[TOTAL]))
        return;
    s.labels = dg_record_get(b, in[TARGETS], "labels");
    s.boxes = dg_record_get(b, in[TARGETS], "boxes");
    s.count = dg_record_get(b, in[TARGETS], "count");
    if (dg_record_has(b, predictions, "groups"))
        s.groups = dg_dim(b, dg_record_get(b, predictions, "groups"), 0);
    if (dg_record_has(b, predictions, "masks")) {
        if (!dg_record_has(b, in[TARGETS], "masks")) {
            out[TOTAL] = out[TERMS] = dg_error(b, "loss-masks",
                                               "predictions have masks, targets have none: set "
                                               "masks=\"true\" on <batch>, or take "
                                               "<decoder.masks> out of the model");
            return;
        }
        s.masks = dg_record_get(b, in[TARGETS], "masks");
    }
    s.counted = in[OBJECTS];
    s.gt = targets_per_group(&s);
    s.normaliser = objects(&s);
    add_set(&s, "", predictions);
    aux =
        dg_record_has(b, predictions, "aux") ? dg_record_get(b, predictions, "aux") : dg_record(b);
    for (int i = 0; i < dg_record_n(b, aux); i++) {
        char set[32];

        snprintf(set, sizeof set, "_%d", i);
        add_set(&s, set, dg_record_get(b, aux, dg_record_key(b, aux, i)));
    }
    if (dg_record_has(b, predictions, "enc"))
        add_set(&s, "_enc", dg_record_get(b, predictions, "enc"));
    out[TOTAL] = dg_name(b, s.terms.total, "loss.total");
    out[TERMS] = s.terms.record;
}

const dg_node_class dg_node_loss_rfdetr = {
    DG_NODE_CLASS,
    .name = "loss.rfdetr",
    .role = DG_ROLE_LOSS,
    .brief = "RF-DETR's set prediction loss: aligned classes, L1 and GIoU for every layer and the "
             "selection, matched group by group.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_loss,
};
