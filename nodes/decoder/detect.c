/* detect.c: <detect>: turns predictions into detections: the best (query, class) pairs of an image
 * by sigmoid(logit). Boxes remain cx, cy, w, h as fractions of the image's sides. Masks, if there
 * are any, become logits of the maps' size.
 *
 * With soft_nms, as many pairs as there are queries are taken, cut at the image's border, and
 * suppressed softly within their class (Bodla et al. 2017, linear): a score is multiplied by
 * 1 - IoU for each better box that overlaps it by soft_nms or more. */
#include <detrgraph/heads.h>

#include "nodes/builtin.h"

typedef struct conf {
    int64_t most;
    double soft_nms;
} conf;

static const double LEAST = 1e-3; /* a score below it goes, as in the reference */

static const dg_port ports[] = {
    DG_IN("in",
          "{logits:f[B,Q,C],boxes:f[B,Q,4],masks?:{map:f[B,H,W,D],queries:f[B,Q,D],bias:f[1]},aux?:"
          "any,enc?:any,dn?:any,denoising?:any}",
          "predictions of a decoder"),
    DG_OUT("out", "{labels:i[B,K],scores:f[B,K],boxes:f[B,K,4],masks?:f[B,K,H,W]}",
           "detections, best first; masks as logits, if the predictions have masks"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, most, 300, 1, 100000, "detections per image"),
    DG_NUM(conf, soft_nms, 0, 0, 1,
           "overlap from which on better boxes of a class lower a score; 0: none do"),
    { 0 },
};

/* Boxes [B,K,4] without what lies outside the image. */
static dg_val clipped(dg_build *b, dg_val boxes)
{
    dg_val centre = dg_slice(b, boxes, 2, 0, 2),
           half = dg_scale(b, dg_slice(b, boxes, 2, 2, 4), 0.5, 0),
           low = dg_clamp(b, dg_sub(b, centre, half), 0, 1),
           high = dg_clamp(b, dg_add(b, centre, half), 0, 1), part[2];

    part[0] = dg_scale(b, dg_add(b, low, high), 0.5, 0);
    part[1] = dg_sub(b, high, low);
    return dg_concat(b, 2, 2, part);
}

static dg_detections suppressed(dg_build *b, const conf *c, dg_val logits, dg_val boxes)
{
    int64_t queries = dg_dim(b, logits, 1), pairs = queries * dg_dim(b, logits, 2);
    dg_detections all = dg_detect(b, logits, boxes, queries < pairs ? queries : pairs);
    dg_nms_attr attr = { .n = c->most < queries ? c->most : queries,
                         .iou = c->soft_nms,
                         .least = LEAST };
    dg_val cut = clipped(b, all.boxes);
    dg_soft_rows kept = dg_soft_nms(b, cut, all.scores, all.labels, &attr);

    return (dg_detections){ .labels = dg_pick_i32(b, all.labels, kept.row, -1),
                            .scores = kept.score,
                            .boxes = dg_gather(b, cut, kept.row) };
}

/* Logits of the masks of the best k pairs, whose queries are found by the same order. */
static dg_val masks_of(dg_build *b, dg_val masks, dg_val logits, int64_t k)
{
    dg_val map = dg_record_get(b, masks, "map"),
           q = dg_gather(b, dg_record_get(b, masks, "queries"), dg_topk(b, logits, k));
    int64_t batch = dg_dim(b, map, 0), h = dg_dim(b, map, 1), w = dg_dim(b, map, 2);
    dg_val pixels = dg_reshape(b, map, DG_SHAPE(batch, h * w, dg_dim(b, map, 3)));
    dg_val x = dg_matmul(b, q, dg_permute(b, pixels, 3, (int[]){ 0, 2, 1 }));

    return dg_reshape(b, dg_add(b, x, dg_record_get(b, masks, "bias")), DG_SHAPE(batch, k, h, w));
}

static void lower_detect(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val logits = dg_record_get(b, in[0], "logits"), boxes = dg_record_get(b, in[0], "boxes");
    int64_t pairs = dg_dim(b, logits, 1) * dg_dim(b, logits, 2);
    int64_t k = c->most < pairs ? c->most : pairs;
    dg_detections found;

    if (c->soft_nms > 0 && dg_record_has(b, in[0], "masks")) {
        out[0] = dg_error(b, "detect-masks",
                          "soft_nms suppresses boxes, and these predictions have masks, which it "
                          "would not bring into its order: leave soft_nms out");
        return;
    }
    found = c->soft_nms > 0 ? suppressed(b, c, logits, boxes) : dg_detect(b, logits, boxes, k);
    out[0] = dg_record(b);
    dg_record_set(b, out[0], "labels", dg_name(b, found.labels, "detections.labels"));
    dg_record_set(b, out[0], "scores", dg_name(b, found.scores, "detections.scores"));
    dg_record_set(b, out[0], "boxes", dg_name(b, found.boxes, "detections.boxes"));
    if (dg_record_has(b, in[0], "masks"))
        dg_record_set(b, out[0], "masks",
                      dg_name(b, masks_of(b, dg_record_get(b, in[0], "masks"), logits, k),
                              "detections.masks"));
}

const dg_node_class dg_node_detect = {
    DG_NODE_CLASS,
    .name = "detect",
    .role = DG_ROLE_DECODER,
    .brief = "Picks the best (query, class) pairs of a decoder's predictions.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .lower = lower_detect,
};
