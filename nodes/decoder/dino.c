/* dino.c: <decoder.dino>: the decoder of DINO (Zhang et al. 2022) as Co-DETR (Zong et al. 2023)
 * trains it: query selection, denoising queries, boxes refined layer by layer with a look forward
 * twice, and, in training, further passes with the same weights whose queries come from the
 * positive samples of other heads.
 *
 *  select     om = LN(W (usable * memory)); the Q tokens with the best class logit; their boxes are
 *             the first references, their content is learned
 *  position   p = W2 relu(W1 sine(r * ratios of level 0))
 *  layer      o <- LN(o + selfattn(o + p, o + p, o)); LN(o + deform(o + p, r)); LN(o + FFN(o))
 *  refine     n_i = sigmoid(head_i(o_i) + logit(r_i)),  r_{i+1} = detach(n_i)
 *  predict    h_i = LN(o_i): class_i(h_i), sigmoid(head_i(h_i) + logit(n_{i-1})), for layer 0 of
 * r_0
 *
 * A head is used on o_i and on h_i. Queries are in one row: denoising ones first, then the selected
 * ones; passes for other heads have only their own. */
#include "nodes/builtin.h"
#include "nodes/decoder/anchors.h"
#include "nodes/decoder/output.h"
#include "nodes/decoder/padded.h"

#include <math.h>
#include <stdio.h>

typedef struct conf {
    int64_t classes, queries, layers, ffn, heads, points, sets;
} conf;

enum { MEMORY, PADDING, DENOISING, POSITIVES };
enum { MOST_LAYERS = 32, MOST_PASSES = 8 };

static const double LOGIT_EPS = 1e-3, CONTENT_EPS = 1e-5;

static const dg_port ports[] = {
    DG_IN("memory", "{p*:any}", "feature maps of an encoder, finest first"),
    DG_IN_OPTIONAL("padding", "any", "which tokens are padding, from the encoder"),
    DG_IN_OPTIONAL("denoising", "{labels:i[B,N],boxes:f[B,N,4],meta:i[4],query:i[B,P],gt:i[B,P]}",
                   "denoising queries, in training"),
    DG_IN_OPTIONAL("positives", "any",
                   "in training, a record of further sets of queries, each {boxes:f[B,N,4],meta:"
                   "i[4]} with its targets; meta: the number of live rows is its third and fourth"),
    DG_OUT("out",
           "{logits:f[B,Q,C],boxes:f[B,Q,4],aux?:any,enc?:any,dn?:any,denoising?:any,sets?:any}",
           "class logits and boxes (cx, cy, w, h); in training also those of earlier layers (aux), "
           "of the query selection (enc), of the denoising queries (dn) and of the further sets"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, classes, 1, 1000000, "object classes"),
    DG_INT(conf, queries, 900, 1, 100000, "boxes predicted per image"),
    DG_INT(conf, layers, 6, 1, MOST_LAYERS, "decoder layers"),
    DG_INT(conf, ffn, 2048, 1, 65536, "inner width of the feed-forward networks"),
    DG_INT(conf, heads, 8, 1, 256, "attention heads"),
    DG_INT(conf, points, 4, 1, 64, "sampling points per head and level"),
    DG_INT(conf, sets, 0, 0, MOST_PASSES, "further sets of queries in training"),
    { 0 },
};

typedef struct decoder {
    dg_build *b;
    const conf *c;
    dg_padded p;
    int64_t width;
    dg_val memory;              /* [B,S,D] */
    dg_val values[MOST_LAYERS]; /* of every layer's attention to memory, shared by all passes */
} decoder;

/* Queries of a pass: content [B,N,D], references [B,N,4] in (0,1), dg_attention's mask. */
typedef struct queries {
    dg_val content, ref, dn;
    int64_t capacity;
} queries;

/* ---- heads ----------------------------------------------------------------------------------- */

/* Branch `layer`; the selection's is number `layers`, comes first, and all begin as copies of it.
 */
static dg_param_path_of branch(const decoder *d, const char *kind, int layer)
{
    dg_param_path_of at = dg_param_path(d->b, "%s.%d", kind, layer);

    if (layer < d->c->layers)
        snprintf(at.like, sizeof at.like, "%s.%d", kind, (int)d->c->layers);
    return at;
}

static dg_val scores(const decoder *d, int layer, dg_val x)
{
    static const double prior = 0.01; /* Lin et al. 2017: few foreground predictions at the start */
    dg_param_path_of at = branch(d, "cls_branches", layer);

    return dg_layer_linear_bias(&at, x, d->c->classes, dg_init_fan_in(d->width),
                                dg_init_const(-log((1 - prior) / prior)));
}

static dg_val deltas(const decoder *d, int layer, dg_val x)
{
    dg_param_path_of at = branch(d, "reg_branches", layer), last = dg_param_path_in(&at, "4");

    for (int i = 0; i < 2; i++) {
        dg_param_path_of linear = dg_param_path_in(&at, "%d", 2 * i);

        x = dg_relu(d->b, dg_layer_linear(&linear, x, d->width, dg_init_fan_in(d->width)));
    }
    return dg_layer_linear_bias(&last, x, 4, dg_init_zero(), dg_init_zero());
}

/* ---- selection ------------------------------------------------------------------------------- */

/* [1,S,2]: sides of the tokens' proposals, and 1 where they lie inside (0.01, 0.99): [1,S,1]. */
static dg_val sides(const decoder *d, dg_val *fits)
{
    dg_build *b = d->b;
    dg_val side[DG_MAX_LEVELS] = { 0 }, fit[DG_MAX_LEVELS] = { 0 };
    const int levels = d->p.levels.n;

    for (int l = 0; l < levels; l++) {
        const int64_t n = d->p.levels.h[l] * d->p.levels.w[l];
        const double v = ldexp(0.05, l);

        side[l] = dg_expand(b, dg_number(b, v), DG_SHAPE(1, n, 2));
        fit[l] = dg_expand(b, dg_number(b, v > 0.01 && v < 0.99), DG_SHAPE(1, n, 1));
    }
    *fits = levels > 1 ? dg_concat(b, 1, levels, fit) : fit[0];
    return levels > 1 ? dg_concat(b, 1, levels, side) : side[0];
}

/* 1 where both coordinates of x [..,2] lie inside (0.01, 0.99): [..,1]. */
static dg_val inside(dg_build *b, dg_val x)
{
    dg_val low = dg_truth(b, dg_at_least(b, dg_number(b, 0.01), x), true),
           high = dg_truth(b, dg_at_least(b, x, dg_number(b, 0.99)), true);
    dg_val both = dg_mul(b, dg_real(b, low), dg_real(b, high));

    return dg_mul(b, dg_slice(b, both, 2, 0, 1), dg_slice(b, both, 2, 1, 2));
}

/* Logits of the tokens' proposals [B,S,4], infinite where they are not usable; usable [B,S,1]. */
static dg_val proposals(const decoder *d, dg_val *usable)
{
    dg_build *b = d->b;
    dg_val fits = DG_NONE, side = sides(d, &fits), centre = dg_padded_centres(&d->p), box[2];
    dg_shape s = dg_shape_of(b, centre);

    *usable = dg_mul(b, inside(b, centre), fits);
    if (dg_has(d->p.keep))
        *usable = dg_mul(b, *usable, d->p.keep);
    box[0] = centre;
    box[1] = dg_expand(b, side, s);
    centre = dg_inverse_sigmoid(b, dg_concat(b, 2, 2, box), 1e-9);
    centre = dg_select(b, dg_truth(b, *usable, false), centre, dg_number(b, (double)INFINITY));
    return dg_expand(b, centre, DG_SHAPE(d->p.batch, d->p.tokens, 4));
}

static dg_val project(const decoder *d, dg_val x)
{
    dg_param_path_of linear = dg_param_path(d->b, "transformer.enc_output"),
                     norm = dg_param_path(d->b, "transformer.enc_output_norm");

    return dg_layer_layer_norm(&norm, dg_layer_linear(&linear, x, d->width,
                                                      dg_init_xavier(d->width, d->width)));
}

/* The Q best tokens: logits [B,Q,C] and boxes before the sigmoid [B,Q,4]. All tokens are scored,
 * but only to rank them: the outputs are recomputed from the chosen rows, so that gradients skip
 * the others. */
static dg_val select_queries(const decoder *d, dg_val *logits)
{
    dg_build *b = d->b;
    int last = (int)d->c->layers;
    dg_val usable = DG_NONE, anchors = proposals(d, &usable), masked = dg_mul(b, d->memory, usable),
           all, index, chosen;

    all = dg_name(b, project(d, masked), "query_head.transformer.enc_output_norm");
    all = dg_name(b, scores(d, last, all), "enc.logits_all");
    index =
        dg_name(b, dg_topk(b, dg_reduce_max(b, all, 1u << 2, false), d->c->queries), "enc.topk");
    chosen = project(d, dg_gather(b, masked, index));
    *logits = dg_name(b, scores(d, last, chosen), "enc.topk_logits");
    return dg_name(b, dg_add(b, deltas(d, last, chosen), dg_gather(b, anchors, index)),
                   "enc.topk_coord_unact");
}

/* ---- queries --------------------------------------------------------------------------------- */

/* Content and references of the denoising queries. A row without a target has content 0 and the
 * reference (1/2, 1/2, 1/2, 1/2). */
static queries noisy(const decoder *d, dg_val dn)
{
    dg_build *b = d->b;
    int64_t classes = d->c->classes;
    dg_val labels, boxes, given, table[2];
    queries q = { 0 };

    if (!dg_has(dn) && dg_training(b))
        return q;
    table[0] =
        dg_param(b, "label_embedding.weight", DG_SHAPE(classes, d->width), dg_init_normal(1));
    if (!dg_has(dn)) /* the parameter belongs to the model */
        return q;
    table[1] = dg_zeros(b, DG_SHAPE(1, d->width));
    labels = dg_record_get(b, dn, "labels");
    given = dg_at_least(b, dg_number(b, (double)classes - 1), dg_real(b, labels));
    given = dg_reshape(b, dg_real(b, given), DG_SHAPE(d->p.batch, dg_dim(b, labels, 1), 1));
    boxes =
        dg_select(b, dg_truth(b, given, false), dg_record_get(b, dn, "boxes"), dg_number(b, 0.5));
    q.content = dg_embedding(b, dg_concat(b, 0, 2, table), labels, classes);
    q.ref = dg_sigmoid(b, dg_inverse_sigmoid(b, boxes, LOGIT_EPS));
    q.dn = dg_record_get(b, dn, "meta");
    q.capacity = dg_dim(b, labels, 1);
    return q;
}

static queries start(const decoder *d, dg_val coords, dg_val dn)
{
    dg_build *b = d->b;
    int64_t n = d->c->queries;
    dg_val table =
        dg_param(b, "transformer.query_embed.weight", DG_SHAPE(n, d->width), dg_init_normal(1));
    dg_val content = dg_expand(b, dg_reshape(b, table, DG_SHAPE(1, n, d->width)),
                               DG_SHAPE(d->p.batch, n, d->width)),
           ref = dg_sigmoid(b, dg_detach(b, coords));
    queries q = noisy(d, dn);

    q.content = q.capacity ? dg_concat(b, 1, 2, (dg_val[]){ q.content, content }) : content;
    q.ref = q.capacity ? dg_concat(b, 1, 2, (dg_val[]){ q.ref, ref }) : ref;
    return q;
}

/* Queries from boxes (cx, cy, w, h), whose content is made of their sines in that order. */
static queries from_boxes(const decoder *d, int set, dg_val boxes, dg_val meta)
{
    dg_build *b = d->b;
    dg_param_path_of linear = dg_param_path(b, "transformer.aux_pos_trans.%d", set),
                     norm = dg_param_path(b, "transformer.aux_pos_trans_norm.%d", set);
    int64_t w = d->width;
    /* There and back, as the reference does: a clamp at eps would be 1e-10 off at 0 and 1. */
    dg_val clipped = dg_sigmoid(b, dg_inverse_sigmoid(b, boxes, CONTENT_EPS)), part[3], sine;

    for (int i = 0; i < 2; i++) /* dg_sine_embed puts y before x */
        part[i] = dg_slice(b, clipped, 2, 1 - i, 2 - i);
    part[2] = dg_slice(b, clipped, 2, 2, 4);
    sine = dg_sine_embed(b, dg_concat(b, 2, 3, part), w / 2);
    return (queries){
        .content =
            dg_layer_layer_norm(&norm, dg_layer_linear(&linear, sine, w, dg_init_xavier(2 * w, w))),
        .ref = boxes,
        .dn = meta,
        .capacity = dg_dim(b, boxes, 1),
    };
}

/* ---- layers ---------------------------------------------------------------------------------- */

static dg_val position(const decoder *d, dg_val ref)
{
    dg_build *b = d->b;
    dg_param_path_of first = dg_param_path(b, "transformer.decoder.ref_point_head.0"),
                     second = dg_param_path(b, "transformer.decoder.ref_point_head.2");
    int64_t w = d->width;
    dg_val x = ref;

    if (dg_has(d->p.ratio)) {
        dg_val finest = dg_slice(b, d->p.ratio, 1, 0, 1);

        x = dg_mul(b, x, dg_concat(b, 2, 2, (dg_val[]){ finest, finest }));
    }
    x = dg_relu(b,
                dg_layer_linear(&first, dg_sine_embed(b, x, w / 2), w, dg_init_xavier(2 * w, w)));
    return dg_layer_linear(&second, x, w, dg_init_xavier(w, w));
}

static dg_val run_layer(decoder *d, int i, dg_val x, dg_val ref, const queries *q)
{
    dg_build *b = d->b;
    int64_t w = d->width, ffn = d->c->ffn;
    dg_param_path_of at = dg_param_path(b, "transformer.decoder.layers.%d", i),
                     among = dg_param_path_in(&at, "attentions.0.attn"),
                     to = dg_param_path_in(&at, "attentions.1"),
                     wide = dg_param_path_in(&at, "ffns.0.layers.0.0"),
                     narrow = dg_param_path_in(&at, "ffns.0.layers.1"), norm[3];
    dg_places where = dg_padded_around_boxes(&d->p, ref);
    dg_val pos = position(d, ref), y;

    for (int k = 0; k < 3; k++)
        norm[k] = dg_param_path_in(&at, "norms.%d", k);
    if (!dg_has(d->values[i]))
        d->values[i] = dg_padded_values(&to, &d->p, d->memory);
    y = dg_layer_attention(&among, x, pos, (int)d->c->heads, q->dn, q->capacity,
                           dg_init_xavier(w, w));
    x = dg_layer_layer_norm(&norm[0], dg_add(b, x, y));
    y = dg_padded_attention(&to, &d->p, d->values[i], dg_add(b, x, pos), &where);
    x = dg_layer_layer_norm(&norm[1], dg_add(b, x, y));
    y = dg_relu(b, dg_layer_linear(&wide, x, ffn, dg_init_xavier(w, ffn)));
    y = dg_layer_linear(&narrow, y, w, dg_init_xavier(ffn, w));
    return dg_layer_layer_norm(&norm[2], dg_add(b, x, y));
}

static dg_val refined(const decoder *d, int layer, dg_val x, dg_val ref)
{
    dg_build *b = d->b;

    return dg_sigmoid(b, dg_add(b, deltas(d, layer, x), dg_inverse_sigmoid(b, ref, LOGIT_EPS)));
}

/* Runs all layers on the queries; each gives logits [B,N,C] and boxes [B,N,4]. name: of its values,
 * "dec" or "aux0". */
static void run_pass(decoder *d, const queries *q, const char *name, dg_val logits[],
                     dg_val boxes[])
{
    dg_build *b = d->b;
    dg_param_path_of norm = dg_param_path(b, "transformer.decoder.norm");
    dg_val x = q->content, ref = q->ref, from = q->ref;

    for (int i = 0; i < d->c->layers; i++) {
        dg_val h, next;

        x = run_layer(d, i, x, ref, q);
        h = dg_name(b, dg_layer_layer_norm(&norm, x), "%s.%d.state", name, i);
        logits[i] = scores(d, i, h);
        boxes[i] = refined(d, i, h, from);
        next = refined(d, i, x, ref);
        from = dg_name(b, next, "%s.%d.new_ref", name, i);
        ref = dg_detach(b, next);
    }
}

/* ---- outputs --------------------------------------------------------------------------------- */

/* One of the further passes: {queries, 0, 1, ...}. */
static dg_val further(decoder *d, int set, dg_val given)
{
    dg_build *b = d->b;
    dg_val logits[MOST_LAYERS], boxes[MOST_LAYERS], out = dg_record(b);
    char name[16];
    dg_val refs = dg_detach(b, dg_record_get(b, given, "boxes"));
    queries q = from_boxes(d, set, refs, dg_record_get(b, given, "meta"));

    snprintf(name, sizeof name, "aux%d", set);
    dg_name(b, refs, "%s.refs", name);
    run_pass(d, &q, name, logits, boxes);
    dg_record_set(b, out, "queries", given);
    for (int i = 0; i < d->c->layers; i++)
        dg_predictions_add(b, out, i,
                           dg_prediction_rows(b, logits[i], boxes[i], 0, q.capacity, name, i));
    return out;
}

static dg_val all_further(decoder *d, dg_val positives)
{
    dg_build *b = d->b;
    int n = dg_record_n(b, positives);
    dg_val sets = dg_record(b);

    if (dg_record_has(b, positives, "boxes"))
        return dg_error(b, "decoder-set",
                        "positives is a set of queries, and a record of sets is expected, like "
                        "<record id=\"sets\" rcnn=\"@roi.positives\"/>");
    if (n != d->c->sets)
        return dg_error(b, "decoder-sets", "sets=\"%lld\", and positives has %d: write sets=\"%d\"",
                        (long long)d->c->sets, n, n);
    for (int k = 0; k < n; k++) {
        const char *key = dg_record_key(b, positives, k);
        dg_val given = dg_record_get(b, positives, key);

        if (!dg_record_has(b, given, "boxes") || !dg_record_has(b, given, "meta"))
            return dg_error(b, "decoder-set",
                            "%s of positives has no boxes or no meta: wire it to the output "
                            "positives of a head",
                            key);
        dg_record_set(b, sets, key, further(d, k, given));
    }
    return sets;
}

static dg_val training_output(decoder *d, dg_val logits[], dg_val boxes[], const queries *q,
                              dg_val enc_logits, dg_val coords, const dg_val in[])
{
    dg_build *b = d->b;
    int last = (int)d->c->layers - 1;
    int64_t end = q->capacity + d->c->queries;
    dg_val out = dg_prediction_rows(b, logits[last], boxes[last], q->capacity, end, "dec", last);
    dg_val aux = dg_record(b), dn = dg_record(b);
    dg_val enc =
        dg_prediction_of(b, enc_logits, dg_name(b, dg_sigmoid(b, coords), "enc.topk_boxes"));

    for (int i = 0; i < last; i++)
        dg_predictions_add(b, aux, i,
                           dg_prediction_rows(b, logits[i], boxes[i], q->capacity, end, "dec", i));
    if (last)
        dg_record_set(b, out, "aux", aux);
    dg_record_set(b, out, "enc", enc);
    if (q->capacity) {
        for (int i = 0; i <= last; i++)
            dg_predictions_add(b, dn, i,
                               dg_prediction_rows(b, logits[i], boxes[i], 0, q->capacity, "dn", i));
        dg_record_set(b, out, "dn", dn);
        dg_record_set(b, out, "denoising", in[DENOISING]);
    }
    if (dg_has(in[POSITIVES]))
        dg_record_set(b, out, "sets", all_further(d, in[POSITIVES]));
    else if (d->c->sets)
        return dg_error(b, "decoder-sets",
                        "sets=\"%lld\", and positives gives no queries: wire it to a record of the "
                        "outputs positives of heads, or take sets out",
                        (long long)d->c->sets);
    return out;
}

static bool other_padding(const decoder *d)
{
    return dg_has(d->p.keep) && dg_shape_of(d->b, d->p.keep).rank &&
           dg_dim(d->b, d->p.keep, 1) != d->p.tokens; /* poison has no rank */
}

static void lower_decoder(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int last = (int)c->layers - 1;
    decoder d = { .b = b, .c = c };
    dg_val logits[MOST_LAYERS] = { 0 }, boxes[MOST_LAYERS] = { 0 }, enc_logits = DG_NONE, coords;
    queries q;

    d.memory = dg_padded_open(&d.p, b, in[MEMORY], c->heads, c->points);
    d.width = dg_dim(b, d.memory, -1);
    dg_padded_from(&d.p, in[PADDING]);
    if (other_padding(&d)) {
        out[0] = dg_error(
            b, "decoder-padding",
            "padding is that of %lld tokens, and memory has %lld: wire both to one encoder",
            (long long)dg_dim(b, d.p.keep, 1), (long long)d.p.tokens);
        return;
    }
    if (d.p.tokens < c->queries) {
        out[0] = dg_error(b, "decoder-queries",
                          "%lld queries from %lld tokens: take larger images or fewer queries",
                          (long long)c->queries, (long long)d.p.tokens);
        return;
    }
    coords = select_queries(&d, &enc_logits);
    q = start(&d, coords, dg_training(b) ? in[DENOISING] : DG_NONE);
    run_pass(&d, &q, "dec", logits, boxes);
    for (int k = 0; k < c->sets && !dg_training(b); k++) /* parameters that belong to the model */
        (void)from_boxes(&d, k, dg_zeros(b, DG_SHAPE(d.p.batch, 1, 4)), DG_NONE);
    out[0] = dg_training(b)
                 ? training_output(&d, logits, boxes, &q, enc_logits, coords, in)
                 : dg_prediction_rows(b, logits[last], boxes[last], 0, c->queries, "dec", last);
}

static int64_t classes(const void *self)
{
    return ((const conf *)self)->classes;
}

const dg_node_class dg_node_decoder_dino = {
    DG_NODE_CLASS,
    .name = "decoder.dino",
    .role = DG_ROLE_DECODER,
    .brief = "DINO's decoder, and Co-DETR's further passes with queries from other heads.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "query_head",
    .lower = lower_decoder,
    .classes = classes,
};
