/* dino.c: <loss.dino>: set prediction loss of DINO (Zhang et al. 2022) as Co-DETR (Zong et al.
 * 2023) has it. Matching: Carion et al. 2020; class term: quality focal loss (Li et al. 2020),
 * whose target is the pair's IoU.
 *
 *  N          (max(1, pairs of the set over all ranks of `axis`) + 2^-23) / ranks
 *  loss_cls   w_class sum over queries and classes / N
 *  loss_bbox  w_l1    sum |d(cx, cy, w, h)| / N        over pairs
 *  loss_iou   w_giou  sum (1 - GIoU) / N
 *
 * Sets: the last layer, d0, d1, ... the layers before it, enc the query selection, dn and dn_d0,
 * ... the denoising queries, aux0, aux0_d0, ... the further sets of queries, whose pairs are given.
 * Without objects all terms exist; those of boxes are 0. All counts are exchanged at once.
 *
 * Differs from the reference on purpose: it divides by the ranks before the maximum, so that fewer
 * pairs than ranks would weigh less than on one rank. */
#include "nodes/builtin.h"
#include "nodes/loss/terms.h"

#include <stdio.h>

typedef struct conf {
    double class_weight, l1_weight, giou_weight, gamma;
    double match_class, match_l1, match_giou, match_alpha, match_gamma;
    const char *axis;
} conf;

enum { PREDICTIONS, TARGETS };
enum { TOTAL, TERMS };
enum { MATCHED, NOISY, FIRST_SET, MOST_COUNTS = 10 };

static const dg_port ports[] = {
    DG_IN("predictions",
          "{logits:f[B,Q,C],boxes:f[B,Q,4],aux?:any,enc?:any,dn?:any,denoising?:any,sets?:any}",
          "output of decoder.dino"),
    DG_IN("targets", "{labels:i[B,M],boxes:f[B,M,4],count:i[B]}", "objects of each image"),
    DG_OUT_MAIN("total", "f[]", "sum of the terms"),
    DG_OUT("terms", "{loss_*:f[]}",
           "weighted terms: loss_cls, loss_bbox_d0, loss_iou_enc, loss_cls_dn, loss_cls_aux0, ..."),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_NUM(conf, class_weight, 1, 0, 1e6, "weight of the class term"),
    DG_NUM(conf, l1_weight, 5, 0, 1e6, "weight of the L1 distance of boxes"),
    DG_NUM(conf, giou_weight, 2, 0, 1e6, "weight of 1 - GIoU"),
    DG_NUM(conf, gamma, 2, 0, 10, "logits weigh |target - p|^gamma"),
    DG_NUM(conf, match_class, 2, 0, 1e6, "class cost in matching"),
    DG_NUM(conf, match_l1, 5, 0, 1e6, "L1 cost in matching"),
    DG_NUM(conf, match_giou, 2, 0, 1e6, "GIoU cost in matching"),
    DG_NUM(conf, match_alpha, 0.25, 0, 1, "alpha of the class cost"),
    DG_NUM(conf, match_gamma, 2, 0, 10, "gamma of the class cost"),
    DG_AXES(conf, axis, NULL,
            "mesh axis to count pairs over; if omitted, each rank counts its own"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_ALLREDUCE, .from = "predictions", .axis = "axis", .when = "axis",
      .why = "counts the pairs of all ranks" },
    { DG_RULE_NORMALISER, .to = "total", .from = "targets", .axis = "axis",
      .why = "divides by the number of objects", .flags = DG_RULE_TRAIN },
    { 0 },
};

typedef struct sums {
    dg_build *b;
    const conf *c;
    dg_val labels, boxes, count; /* targets */
    dg_val n[MOST_COUNTS];       /* divisors: matched sets, denoising, further sets */
    dg_loss_terms terms;
} sums;

/* Pairs of queries and targets; live rows (dn, or DG_NONE: all). */
typedef struct pairs {
    dg_val query, gt, dn, labels, boxes, normaliser;
} pairs;

static void add_set(sums *s, const char *set, dg_val prediction, const pairs *p)
{
    dg_build *b = s->b;
    const conf *c = s->c;
    dg_class_loss_attr attr = { .focal = DG_CLASS_QUALITY, .gamma = c->gamma };
    dg_val logits = dg_record_get(b, prediction, "logits"),
           boxes = dg_record_get(b, prediction, "boxes");
    dg_box_losses box = dg_box_loss(b, boxes, p->boxes, p->query, p->gt);
    dg_val class = dg_class_loss(b, logits, p->labels, p->query, p->gt, box.iou, p->dn, &attr);

    dg_loss_add(&s->terms, "cls", set, class, c->class_weight, p->normaliser);
    dg_loss_add(&s->terms, "bbox", set, box.l1, c->l1_weight, p->normaliser);
    dg_loss_add(&s->terms, "iou", set, box.giou, c->giou_weight, p->normaliser);
}

static void add_matched(sums *s, const char *set, dg_val prediction)
{
    dg_build *b = s->b;
    const conf *c = s->c;
    dg_match_attr attr = { c->match_class, c->match_l1, c->match_giou, c->match_alpha,
                           c->match_gamma };
    dg_val cost = dg_match_cost_exact(b, dg_record_get(b, prediction, "logits"),
                                      dg_record_get(b, prediction, "boxes"), s->labels, s->boxes,
                                      s->count, &attr);
    pairs p = { .query = dg_match(b, cost, s->count),
                .labels = s->labels,
                .boxes = s->boxes,
                .normaliser = s->n[MATCHED] };

    dg_name(b, p.query, "match%s", set);
    add_set(s, set, prediction, &p);
}

/* Adds the numbered entries of list: the last of n layers as `set`, others as `set`_d0, ... */
static void add_layers(sums *s, const char *set, dg_val list, const pairs *p)
{
    dg_build *b = s->b;
    int n = 0;
    char name[32];

    for (;; n++) {
        snprintf(name, sizeof name, "%d", n);
        if (!dg_record_has(b, list, name))
            break;
    }
    for (int i = 0; i < n; i++) {
        char key[16];

        snprintf(key, sizeof key, "%d", i);
        if (i < n - 1)
            snprintf(name, sizeof name, "%s_d%d", set, i);
        else
            snprintf(name, sizeof name, "%s", set);
        add_set(s, name, dg_record_get(b, list, key), p);
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* [1]: the objects that can have a query each. */
static dg_val matched(const sums *s, int64_t queries)
{
    dg_build *b = s->b;
    dg_val n = dg_min2(b, dg_real(b, s->count), dg_number(b, (double)queries));

    return dg_sum(b, n, 1u, true);
}

/* [1]: pairs of a list of queries, in which -1 is none. */
static dg_val listed(dg_build *b, dg_val query)
{
    dg_val is = dg_real(b, dg_at_least(b, dg_real(b, query), dg_number(b, 0)));

    return dg_reshape(b, dg_sum(b, is, DG_ALL_AXES, false), DG_SHAPE(1));
}

static void count_pairs(sums *s, dg_val predictions)
{
    dg_build *b = s->b;
    dg_val n[MOST_COUNTS], all;
    double share = 1;
    int sets = 0;

    n[MATCHED] = matched(s, dg_dim(b, dg_record_get(b, predictions, "logits"), 1));
    n[NOISY] =
        dg_record_has(b, predictions, "denoising")
            ? listed(b, dg_record_get(b, dg_record_get(b, predictions, "denoising"), "query"))
            : dg_zeros(b, DG_SHAPE(1));
    if (dg_record_has(b, predictions, "sets")) {
        dg_val list = dg_record_get(b, predictions, "sets");

        for (; sets < dg_record_n(b, list) && FIRST_SET + sets < MOST_COUNTS; sets++) {
            dg_val set = dg_record_get(b, list, dg_record_key(b, list, sets));

            n[FIRST_SET + sets] =
                listed(b, dg_record_get(b, dg_record_get(b, set, "queries"), "query"));
        }
    }
    all = dg_concat(b, 0, FIRST_SET + sets, n);
    if (s->c->axis) {
        all = dg_all_reduce(b, all, DG_SUM, s->c->axis);
        share = 1 / (double)dg_axis_size(b, s->c->axis);
    }
    all = dg_scale(b, dg_max2(b, all, dg_number(b, 1)), share, share * 0x1p-23);
    dg_name(b, all, "loss.pairs");
    for (int i = 0; i < FIRST_SET + sets; i++)
        s->n[i] = dg_reshape(b, dg_slice(b, all, 0, i, i + 1), DG_SCALAR);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void add_denoising(sums *s, dg_val predictions)
{
    dg_build *b = s->b;
    dg_val dn;
    pairs p = { .labels = s->labels, .boxes = s->boxes, .normaliser = s->n[NOISY] };

    if (!dg_record_has(b, predictions, "denoising"))
        return;
    dn = dg_record_get(b, predictions, "denoising");
    p.query = dg_record_get(b, dn, "query");
    p.gt = dg_record_get(b, dn, "gt");
    p.dn = dg_record_get(b, dn, "meta");
    add_layers(s, "_dn", dg_record_get(b, predictions, "dn"), &p);
}

static void add_further(sums *s, dg_val predictions)
{
    dg_build *b = s->b;
    dg_val list;

    if (!dg_record_has(b, predictions, "sets"))
        return;
    list = dg_record_get(b, predictions, "sets");
    for (int i = 0; i < dg_record_n(b, list); i++) {
        dg_val set = dg_record_get(b, list, dg_record_key(b, list, i)),
               queries = dg_record_get(b, set, "queries");
        pairs p = { .query = dg_record_get(b, queries, "query"),
                    .gt = dg_record_get(b, queries, "gt"),
                    .dn = dg_record_get(b, queries, "meta"),
                    .labels = s->labels,
                    .boxes = s->boxes,
                    .normaliser = s->n[FIRST_SET + i] };
        char name[16];

        snprintf(name, sizeof name, "_aux%d", i);
        add_layers(s, name, set, &p);
    }
}

static void lower_loss(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    sums s = { .b = b, .c = self, .terms = { .b = b, .record = dg_record(b) } };
    dg_val predictions = in[PREDICTIONS];

    out[TOTAL] = out[TERMS] = dg_loss_misfit(b, predictions, "groups");
    if (dg_has(out[TOTAL]))
        return;
    s.labels = dg_record_get(b, in[TARGETS], "labels");
    s.boxes = dg_record_get(b, in[TARGETS], "boxes");
    s.count = dg_record_get(b, in[TARGETS], "count");
    count_pairs(&s, predictions);
    if (dg_record_has(b, predictions, "enc"))
        add_matched(&s, "_enc", dg_record_get(b, predictions, "enc"));
    add_matched(&s, "", predictions);
    for (int i = 0; dg_record_has(b, predictions, "aux"); i++) {
        dg_val aux = dg_record_get(b, predictions, "aux");
        char name[16];

        if (i == dg_record_n(b, aux))
            break;
        snprintf(name, sizeof name, "_d%d", i);
        add_matched(&s, name, dg_record_get(b, aux, dg_record_key(b, aux, i)));
    }
    add_denoising(&s, predictions);
    add_further(&s, predictions);
    out[TOTAL] = dg_name(b, s.terms.total, "loss.total");
    out[TERMS] = s.terms.record;
}

const dg_node_class dg_node_loss_dino = {
    DG_NODE_CLASS,
    .name = "loss.dino",
    .role = DG_ROLE_LOSS,
    .brief = "DINO's set prediction loss: quality focal, L1 and GIoU for every layer, the "
             "selection, the denoising queries and those of other heads.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_loss,
};
