/* detect.c: <detect>: turns predictions into detections: the best (query, class) pairs of an image
 * by sigmoid(logit). Boxes remain cx, cy, w, h as fractions of the image's sides.
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
    DG_IN("in", "{logits:f[B,Q,C],boxes:f[B,Q,4],aux?:any,enc?:any,dn?:any,denoising?:any}",
          "predictions of a decoder"),
    DG_OUT("out", "{labels:i[B,K],scores:f[B,K],boxes:f[B,K,4]}", "detections, best first"),
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

static void lower_detect(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val logits = dg_record_get(b, in[0], "logits"), boxes = dg_record_get(b, in[0], "boxes");
    int64_t pairs = dg_dim(b, logits, 1) * dg_dim(b, logits, 2);
    dg_detections found = c->soft_nms > 0
                              ? suppressed(b, c, logits, boxes)
                              : dg_detect(b, logits, boxes, c->most < pairs ? c->most : pairs);

    out[0] = dg_record(b);
    dg_record_set(b, out[0], "labels", dg_name(b, found.labels, "detections.labels"));
    dg_record_set(b, out[0], "scores", dg_name(b, found.scores, "detections.scores"));
    dg_record_set(b, out[0], "boxes", dg_name(b, found.boxes, "detections.boxes"));
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
