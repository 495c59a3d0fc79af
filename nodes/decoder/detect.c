/* detect.c: <detect>: turns predictions into detections: the best (query, class) pairs of an image
 * by sigmoid(logit), without suppression. Boxes remain cx, cy, w, h as fractions of the image's
 * sides. */
#include "nodes/builtin.h"

typedef struct conf {
    int64_t most;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "{logits:f[B,Q,C],boxes:f[B,Q,4],aux?:any,enc?:any,dn?:any,denoising?:any}",
          "predictions of a decoder"),
    DG_OUT("out", "{labels:i[B,K],scores:f[B,K],boxes:f[B,K,4]}", "detections, best first"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, most, 300, 1, 100000, "detections per image"),
    { 0 },
};

static void lower_detect(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val logits = dg_record_get(b, in[0], "logits"), boxes = dg_record_get(b, in[0], "boxes");
    int64_t pairs = dg_dim(b, logits, 1) * dg_dim(b, logits, 2);
    dg_detections found = dg_detect(b, logits, boxes, c->most < pairs ? c->most : pairs);

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
