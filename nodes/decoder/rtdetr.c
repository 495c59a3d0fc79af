/* rtdetr.c: <decoder.rtdetr>: query selection, then a deformable transformer decoder that refines
 * boxes layer by layer. Zhao et al. 2024 (RT-DETR), Lv et al. 2024 (v2); refinement: Zhu et al.
 * 2021; looking forward twice and denoising: Zhang et al. 2022 (DINO).
 *
 *  memory    [BN(conv1(level)) of every level, as tokens]: [B,S,D]
 *  select    om = LN(W (valid * memory)); the Q tokens with the best class logit;
 *            box = head(om) + anchor
 *  refine    b_i = sigmoid(head_i(o_i) + logit(r_i)),  r_{i+1} = detach(b_i)
 *            the loss uses sigmoid(head_i(o_i) + logit(b_{i-1})): the same number, but its
 *            gradient also reaches the previous layer
 *
 * Queries are in one row: first the denoising ones (up to their capacity), then the selected
 * ones. */
#include "nodes/builtin.h"
#include "nodes/decoder/anchors.h"
#include "nodes/decoder/layer.h"
#include "nodes/decoder/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct conf {
    int64_t classes, queries, layers, eval_idx, width, ffn, heads, method, version, select, norm;
    dg_ints points;
    dg_sizes eval_size;
    bool learn_query_content;
    const char *axis;
} conf;

enum { MEMORY, DENOISING };
enum { METHOD_DEFAULT, METHOD_DISCRETE };
enum { SELECT_CLASS, SELECT_AGNOSTIC, SELECT_ONE2MANY };
enum { N_LEVELS = 3, MOST_LAYERS = 32 };

static const double LOGIT_EPS = 1e-5;

static const dg_port ports[] = {
    DG_IN("memory", "{s8:f[B,H8,W8,E],s16:f[B,H16,W16,E],s32:f[B,H32,W32,E]}",
          "feature maps, finest first"),
    DG_IN_OPTIONAL("denoising", "{labels:i[B,N],boxes:f[B,N,4],meta:i[4],query:i[B,P],gt:i[B,P]}",
                   "denoising queries, in training"),
    DG_OUT("out", "{logits:f[B,Q,C],boxes:f[B,Q,4],aux?:any,enc?:any,dn?:any,denoising?:any}",
           "class logits and boxes (cx, cy, w, h); in training also those of earlier layers (aux), "
           "of the query selection (enc) and of the denoising queries (dn)"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, classes, 1, 1000000, "object classes"),
    DG_INT(conf, queries, 300, 1, 100000, "boxes predicted per image"),
    DG_INT(conf, layers, 6, 1, MOST_LAYERS, "decoder layers"),
    DG_INT(conf, eval_idx, -1, -MOST_LAYERS, MOST_LAYERS - 1,
           "the layer whose output is evaluated; negative: counted from the end"),
    DG_INT(conf, width, 256, 8, 8192, "width of tokens"),
    DG_INT(conf, ffn, 1024, 1, 65536, "inner width of the feed-forward networks"),
    DG_INT(conf, heads, 8, 1, 256, "attention heads"),
    DG_INTS(conf, points, "4", "sampling points per head: one number, or one for each level"),
    DG_ENUM(
        conf, method, METHOD_DEFAULT, "default|discrete",
        "sample bilinearly, or take the nearest pixel with frozen offsets (square images only)"),
    DG_ENUM(conf, select, SELECT_CLASS, "class|agnostic|one2many",
            "rank tokens by their best class, by one logit for all classes, or by each class (a "
            "token may then start several queries)"),
    DG_BOOL(conf, learn_query_content, false,
            "start queries from learned vectors instead of the selected tokens"),
    DG_SIZES(conf, eval_size, "640",
             "image size of the anchors that version 2 stores in checkpoints"),
    DG_ENUM(conf, version, 1, "1|2",
            "RT-DETR or RT-DETRv2: parameter names, initial values, position of the selection's "
            "output"),
    DG_NORM_ATTRS(conf),
    { 0 },
};

static const dg_rule rules[] = {
    DG_NORM_RULES("memory", ""),
    { 0 },
};

static void check_decoder(dg_check *k, const void *self)
{
    const conf *c = self;
    int64_t eval = c->eval_idx < 0 ? c->layers + c->eval_idx : c->eval_idx;

    if (c->width % c->heads)
        dg_check_fail(k, "width", "decoder-width", "must be a multiple of heads (%lld), found %lld",
                      (long long)c->heads, (long long)c->width);
    if (eval < 0 || eval >= c->layers)
        dg_check_fail(k, "eval_idx", "decoder-eval-idx", "%lld is not one of %lld layers",
                      (long long)c->eval_idx, (long long)c->layers);
    if (c->points.n != 1 && c->points.n != N_LEVELS)
        dg_check_fail(k, "points", "decoder-points",
                      "must be one number or one for each of %d levels, found %d numbers", N_LEVELS,
                      c->points.n);
    for (int i = 0; i < c->points.n; i++)
        if (c->points.v[i] < 1 || c->points.v[i] > 64)
            dg_check_fail(k, "points", "decoder-points", "must lie in 1 to 64, found %lld",
                          (long long)c->points.v[i]);
    if (c->eval_size.n != 1)
        dg_check_fail(k, "eval_size", "decoder-eval-size", "must be one size, found %d",
                      c->eval_size.n);
    dg_norm_check(k, c->norm, c->axis);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void set_level(dg_levels *levels, int l, int64_t h, int64_t w, const conf *c)
{
    levels->n = l + 1;
    levels->h[l] = h;
    levels->w[l] = w;
    levels->points[l] = c->points.v[c->points.n == 1 ? 0 : l];
}

static dg_val tokens(dg_build *b, const conf *c, dg_val maps, dg_levels *levels)
{
    dg_val part[N_LEVELS];

    for (int l = 0; l < N_LEVELS; l++) {
        dg_param_path_of at = dg_param_path(b, "input_proj.%d", l);
        dg_conv_norm shape = { .out = c->width,
                               .size = 1,
                               .stride = 1,
                               .xavier = c->version > 0,
                               .axis = dg_norm_axis(c->norm, c->axis) };
        dg_val map = dg_record_get(b, maps, dg_record_key(b, maps, l));
        int64_t h = dg_dim(b, map, 1), w = dg_dim(b, map, 2);

        set_level(levels, l, h, w, c);
        map = dg_name(b, dg_layer_conv_norm(&at, map, &shape), "decoder.%s", at.path);
        part[l] = dg_reshape(b, map, DG_SHAPE(dg_dim(b, map, 0), h * w, c->width));
    }
    return dg_name(b, dg_concat(b, 1, N_LEVELS, part), "memory");
}

/* ---- selection ------------------------------------------------------------------------------- */

/* Anchors [1,S,4] and, if some are invalid, valid [1,S,1]. */
static dg_val anchor_constants(dg_build *b, const dg_levels *levels, dg_val *valid)
{
    int64_t n = dg_anchors_n(levels);
    double *v = malloc((size_t)n * 5 * sizeof *v);
    dg_val anchors;

    *valid = DG_NONE;
    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld anchors", (long long)n);
    if (!dg_anchors(levels, v, v + 4 * n))
        *valid =
            dg_const_of_maps(b, dg_const(b, DG_SHAPE(1, n, 1), v + 4 * n), DG_MAPS_INSIDE, levels);
    anchors = dg_const_of_maps(b, dg_const(b, DG_SHAPE(1, n, 4), v), DG_MAPS_ANCHORS, levels);
    free(v);
    return anchors;
}

static void export_anchors(dg_build *b, const conf *c)
{
    dg_levels levels;
    int64_t n;
    double *v;

    for (int l = 0; l < N_LEVELS; l++)
        set_level(&levels, l, c->eval_size.v[0].h >> (3 + l), c->eval_size.v[0].w >> (3 + l), c);
    n = dg_anchors_n(&levels);
    v = malloc((size_t)(n + !n) * 5 * sizeof *v);
    if (!v) {
        dg_error(b, "out-of-memory", "no memory for %lld anchors", (long long)n);
        return;
    }
    dg_anchors(&levels, v, v + 4 * n);
    dg_export_const(b, "anchors", DG_F32, DG_SHAPE(1, n, 4), v);
    dg_export_const(b, "valid_mask", DG_U8, DG_SHAPE(1, n, 1), v + 4 * n);
    free(v);
}

typedef struct selection {
    dg_val content, coords, logits; /* [B,Q,D], [B,Q,4] logits of boxes, [B,Q,C] */
} selection;

static dg_val project(dg_build *b, const conf *c, dg_val x)
{
    dg_param_path_of proj = dg_param_path(b, "enc_output.%s", c->version ? "proj" : "0");
    dg_param_path_of norm = dg_param_path(b, "enc_output.%s", c->version ? "norm" : "1");

    return dg_layer_layer_norm(&norm, dg_layer_linear(&proj, x, c->width,
                                                      dg_init_xavier(c->width, c->width)));
}

static dg_val scores(dg_build *b, const conf *c, const char *path, dg_val x, int64_t n)
{
    static const double prior = 0.01; /* Lin et al. 2017: few foreground predictions at the start */
    dg_param_path_of at = dg_param_path(b, "%s", path);

    return dg_layer_linear_bias(&at, x, n, dg_init_fan_in(c->width),
                                dg_init_const(-log((1 - prior) / prior)));
}

/* Selects the queries. All tokens are scored, but only to rank them: the outputs are recomputed
 * from the chosen rows, so that gradients skip the other tokens. */
static selection select_queries(dg_build *b, const conf *c, dg_val memory, const dg_levels *levels)
{
    int64_t n_scores = c->select == SELECT_AGNOSTIC ? 1 : c->classes;
    dg_param_path_of head = dg_param_path(b, "enc_bbox_head");
    dg_val valid, anchors = anchor_constants(b, levels, &valid), all, index;
    dg_val masked = dg_has(valid) ? dg_mul(b, memory, valid) : memory;
    dg_shape every = DG_SHAPE(dg_dim(b, memory, 0), dg_dim(b, memory, 1), 4);
    selection s;

    all = dg_name(b, scores(b, c, "enc_score_head", project(b, c, masked), n_scores),
                  "enc.logits_all");
    if (c->select != SELECT_ONE2MANY)
        all = dg_reduce_max(b, all, 1u << 2, false);
    index = dg_name(b, dg_topk(b, all, c->queries), "enc.topk");
    s.content = project(b, c, dg_gather(b, masked, index));
    s.logits = dg_name(b, scores(b, c, "enc_score_head", s.content, n_scores), "enc.topk_logits");
    s.coords = dg_add(b, dg_layer_box_head(&head, s.content),
                      dg_gather(b, dg_expand(b, anchors, every), index));
    return s;
}

/* ---- layers and outputs ---------------------------------------------------------------------- */

typedef struct queries {
    dg_val content, ref; /* [B,N,D], [B,N,4] in (0,1) */
} queries;

static queries start_queries(dg_build *b, const conf *c, const selection *s, dg_val dn)
{
    dg_shape shape = DG_SHAPE(dg_dim(b, s->content, 0), c->queries, c->width);
    queries q = { dg_detach(b, s->content), dg_detach(b, s->coords) };

    if (c->learn_query_content) {
        dg_val learned = dg_param(b, "tgt_embed.weight", DG_SHAPE(c->queries, c->width),
                                  dg_init_xavier(c->width, c->queries));

        q.content = dg_expand(b, dg_reshape(b, learned, DG_SHAPE(1, c->queries, c->width)), shape);
    }
    if (dg_has(dn) || !dg_training(b)) {
        dg_val table =
            dg_param(b, "denoising_class_embed.weight", DG_SHAPE(c->classes + 1, c->width),
                     dg_init_zero_row(dg_init_normal(1), c->classes));

        if (dg_has(dn)) {
            dg_val content = dg_embedding(b, table, dg_record_get(b, dn, "labels"), c->classes);
            dg_val ref = dg_inverse_sigmoid(b, dg_record_get(b, dn, "boxes"), LOGIT_EPS);

            q.content = dg_concat(b, 1, 2, (dg_val[]){ content, q.content });
            q.ref = dg_concat(b, 1, 2, (dg_val[]){ ref, q.ref });
        }
    }
    q.ref = dg_sigmoid(b, q.ref);
    return q;
}

static dg_val position(dg_build *b, const conf *c, dg_val ref)
{
    dg_param_path_of first = dg_param_path(b, "query_pos_head.layers.0"),
                     second = dg_param_path(b, "query_pos_head.layers.1");
    int64_t inner = 2 * c->width;
    dg_val x = dg_relu(b, dg_layer_linear(&first, ref, inner, dg_init_xavier(4, inner)));

    return dg_layer_linear(&second, x, c->width, dg_init_xavier(inner, c->width));
}

/* Runs the layers; each gives [B,N,C] and [B,N,4]. Evaluation uses one of them; the layers after it
 * are dead code there, but their parameters belong to the model. */
static void run_layers(dg_build *b, const conf *c, const dg_decoder_stack *s, queries q,
                       dg_val logits[], dg_val boxes[])
{
    dg_val x = q.content, ref = q.ref, before = DG_NONE;

    for (int i = 0; i < c->layers; i++) {
        dg_param_path_of layer = dg_param_path(b, "decoder.layers.%d", i),
                         head = dg_param_path(b, "dec_bbox_head.%d", i);
        dg_param_path_of score = dg_param_path(b, "dec_score_head.%d", i);
        dg_val delta, box;

        if (i) /* layers start as copies of the first */
            snprintf(layer.like, sizeof layer.like, "decoder.layers.0");
        x = dg_name(b, dg_decoder_layer(&layer, s, x, position(b, c, ref), ref), "dec.%d.state", i);
        delta = dg_layer_box_head(&head, x);
        box = dg_sigmoid(b, dg_add(b, delta, dg_inverse_sigmoid(b, ref, LOGIT_EPS)));
        logits[i] = scores(b, c, score.path, x, c->classes);
        boxes[i] = dg_training(b) && i
                       ? dg_sigmoid(b, dg_add(b, delta, dg_inverse_sigmoid(b, before, LOGIT_EPS)))
                       : box;
        before = box;
        ref = dg_detach(b, box);
    }
}

static dg_val training_output(dg_build *b, const conf *c, int64_t capacity, const dg_val logits[],
                              const dg_val boxes[], const selection *s, dg_val dn)
{
    int last = (int)c->layers - 1;
    dg_val out = dg_prediction_rows(b, logits[last], boxes[last], capacity, capacity + c->queries,
                                    "dec", last);
    dg_val aux = dg_record(b), noisy = dg_record(b);
    dg_val enc =
        dg_prediction_of(b, s->logits, dg_name(b, dg_sigmoid(b, s->coords), "enc.topk_boxes"));

    for (int i = 0; i < last; i++)
        dg_predictions_add(b, aux, i,
                           dg_prediction_rows(b, logits[i], boxes[i], capacity,
                                              capacity + c->queries, "dec", i));
    if (!c->version)
        dg_predictions_add(b, aux, last, enc);
    if (dg_record_n(b, aux))
        dg_record_set(b, out, "aux", aux);
    if (c->version)
        dg_record_set(b, out, "enc", enc);
    if (dg_has(dn)) {
        for (int i = 0; i <= last; i++)
            dg_predictions_add(b, noisy, i,
                               dg_prediction_rows(b, logits[i], boxes[i], 0, capacity, "dn", i));
        dg_record_set(b, out, "dn", noisy);
        dg_record_set(b, out, "denoising", dn);
    }
    return out;
}

/* Reports maps that do not fit the decoder; returns poison. */
static dg_val report_misfit(dg_build *b, const conf *c, const dg_levels *levels)
{
    if (dg_anchors_n(levels) < c->queries)
        return dg_error(b, "decoder-queries",
                        "%lld queries from %lld tokens: take larger images or fewer queries",
                        (long long)c->queries, (long long)dg_anchors_n(levels));
    for (int l = 0; l < levels->n && c->method == METHOD_DISCRETE; l++)
        if (levels->h[l] != levels->w[l])
            return dg_error(
                b, "decoder-discrete",
                "method=\"discrete\" is defined for square images, found a map of %lldx%lld",
                (long long)levels->w[l], (long long)levels->h[l]);
    return DG_NONE;
}

static void lower_decoder(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val dn = dg_training(b) ? in[DENOISING] : DG_NONE, logits[MOST_LAYERS] = { 0 },
           boxes[MOST_LAYERS] = { 0 };
    dg_decoder_stack s = { .family = c->version ? DG_DECODER_RTDETR2 : DG_DECODER_RTDETR1,
                           .heads = c->heads,
                           .self_heads = c->heads,
                           .groups = 1,
                           .ffn = c->ffn,
                           .discrete = c->method == METHOD_DISCRETE };
    int eval = (int)(c->eval_idx < 0 ? c->layers + c->eval_idx : c->eval_idx);
    selection chosen;

    s.memory = tokens(b, c, in[MEMORY], &s.levels);
    out[0] = report_misfit(b, c, &s.levels);
    if (dg_has(out[0]))
        return;
    if (dg_has(dn)) {
        s.dn = dg_record_get(b, dn, "meta");
        s.capacity = dg_dim(b, dg_record_get(b, dn, "labels"), 1);
    }
    chosen = select_queries(b, c, s.memory, &s.levels);
    if (c->version)
        export_anchors(b, c);
    run_layers(b, c, &s, start_queries(b, c, &chosen, dn), logits, boxes);
    out[0] = dg_training(b)
                 ? training_output(b, c, s.capacity, logits, boxes, &chosen, dn)
                 : dg_prediction_rows(b, logits[eval], boxes[eval], 0, c->queries, "dec", eval);
}

static int64_t classes(const void *self)
{
    return ((const conf *)self)->classes;
}

const dg_node_class dg_node_decoder_rtdetr = {
    DG_NODE_CLASS,
    .name = "decoder.rtdetr",
    .role = DG_ROLE_DECODER,
    .brief = "RT-DETR's decoder: selects queries among the tokens and refines their boxes.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .reference = "decoder",
    .check = check_decoder,
    .lower = lower_decoder,
    .classes = classes,
};
