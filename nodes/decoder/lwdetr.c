/* lwdetr.c: <decoder.lwdetr>: the decoder of LW-DETR (Chen et al. 2024) and RF-DETR (Robinson et
 * al. 2025): query selection and a deformable transformer decoder whose layers share reference
 * boxes, heads and the last norm. In training, groups of queries learn side by side (Chen et al.
 * 2023, Group DETR); evaluation has one group.
 *
 *  select     group g: o_g = LN_g(W_g memory) over the cells of valid proposals; the k tokens with
 *             the best class logit, k = min(queries, tokens); e = decode(head_g(o_g), proposal)
 *  content    learned vectors
 *  reference  r = decode(learned rho, detach(e)); r = rho in rows for which no token is left
 *  position   p = W2 relu(W1 sine(r))
 *  layers     x_i = layer_i(x_{i-1}, p, r); h_i = LN(x_i)
 *  output     logits of h_i; boxes decode(head(h_i), r)
 *
 * decode is dg_box_decode, sine dg_sine_embed. r has a gradient: through both and through the
 * sampling positions. */
#include "nodes/builtin.h"
#include "nodes/decoder/anchors.h"
#include "nodes/decoder/layer.h"
#include "nodes/decoder/output.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct conf {
    int64_t classes, queries, groups, layers, ffn, heads, self_heads, points;
} conf;

enum { N_MAPS = 3, MOST_LAYERS = 32, MOST_GROUPS = 30 };

static const dg_port ports[] = {
    DG_IN("memory", "{p3?:f[B,H3,W3,D],p4?:f[B,H4,W4,D],p5?:f[B,H5,W5,D]}",
          "feature maps, finest first"),
    DG_OUT("out",
           "{logits:f[B,Q,C],boxes:f[B,Q,4],queries:f[B,Q,D],aux?:any,enc?:any,groups?:i[G]}",
           "class logits, boxes (cx, cy, w, h) and the queries that they were made of; in training "
           "of all groups, group by group, with those of earlier layers (aux), of the selection "
           "(enc), and the groups' numbers"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT_REQUIRED(conf, classes, 1, 1000000, "class logits"),
    DG_INT(conf, queries, 300, 1, 100000, "boxes predicted per image, by each group"),
    DG_INT(conf, groups, 13, 1, MOST_GROUPS, "groups of queries in training"),
    DG_INT(conf, layers, 3, 1, MOST_LAYERS, "decoder layers"),
    DG_INT(conf, ffn, 2048, 1, 65536, "inner width of the feed-forward networks"),
    DG_INT(conf, heads, 16, 1, 256, "heads of attention to the feature maps"),
    DG_INT(conf, self_heads, 8, 1, 256, "heads of attention among queries"),
    DG_INT(conf, points, 2, 1, 64, "sampling points per head and feature map"),
    { 0 },
};

typedef struct decoder {
    dg_build *b;
    const conf *c;
    int64_t groups, width; /* groups of this program; of tokens */
    dg_decoder_stack stack;
} decoder;

/* ---- memory and proposals -------------------------------------------------------------------- */

/* The maps that there are, as tokens [B,S,D]. */
static dg_val tokens(decoder *d, dg_val maps)
{
    dg_build *b = d->b;
    static const char *const keys[N_MAPS] = { "p3", "p4", "p5" };
    dg_levels *l = &d->stack.levels;
    dg_val part[N_MAPS];

    for (int i = 0; i < N_MAPS; i++) {
        if (!dg_record_has(b, maps, keys[i]))
            continue;
        dg_val map = dg_record_get(b, maps, keys[i]);
        int64_t h = dg_dim(b, map, 1), w = dg_dim(b, map, 2);

        d->width = dg_dim(b, map, 3);
        l->h[l->n] = h;
        l->w[l->n] = w;
        l->points[l->n] = d->c->points;
        part[l->n++] = dg_reshape(b, map, DG_SHAPE(dg_dim(b, map, 0), h * w, d->width));
    }
    if (l->n < 1)
        return dg_error(b, "decoder-memory", "memory has none of the maps p3, p4, p5");
    return dg_name(b, l->n > 1 ? dg_concat(b, 1, l->n, part) : part[0], "memory");
}

/* Boxes [B,S,4], and the memory of those that are valid: other rows are 0. */
static dg_val propose(const decoder *d, dg_val *masked)
{
    dg_build *b = d->b;
    int64_t n = dg_anchors_n(&d->stack.levels), batch = dg_dim(b, d->stack.memory, 0);
    double *v = malloc((size_t)n * 5 * sizeof *v);
    dg_val boxes;

    if (!v)
        return dg_error(b, "out-of-memory", "no memory for %lld proposals", (long long)n);
    *masked = d->stack.memory;
    if (!dg_proposals(&d->stack.levels, v, v + 4 * n))
        *masked = dg_name(b, dg_mul(b, *masked, dg_const(b, DG_SHAPE(1, n, 1), v + 4 * n)),
                          "masked_memory");
    boxes = dg_expand(b, dg_const(b, DG_SHAPE(1, n, 4), v), DG_SHAPE(batch, n, 4));
    free(v);
    return dg_name(b, boxes, "proposals");
}

/* ---- heads ----------------------------------------------------------------------------------- */

static dg_val scores(const decoder *d, const dg_param_path_of *at, dg_val x)
{
    static const double prior = 0.01; /* Lin et al. 2017: few foreground predictions at the start */

    return dg_layer_linear_bias(at, x, d->c->classes, dg_init_fan_in(d->width),
                                dg_init_const(-log((1 - prior) / prior)));
}

/* All heads begin as copies of the first group's. */
static dg_param_path_of head(const decoder *d, const char *path, const char *first)
{
    dg_param_path_of at = dg_param_path(d->b, "%s", path);

    snprintf(at.like, sizeof at.like, "%s", first);
    return at;
}

static dg_param_path_of group_head(const decoder *d, const char *path, int g)
{
    dg_param_path_of first = dg_param_path(d->b, "%s.0", path),
                     at = dg_param_path(d->b, "%s.%d", path, g);

    return g ? head(d, at.path, first.path) : first;
}

/* ---- selection ------------------------------------------------------------------------------- */

static dg_val project(const decoder *d, dg_val x, int g)
{
    dg_param_path_of linear = dg_param_path(d->b, "transformer.enc_output.%d", g),
                     norm = dg_param_path(d->b, "transformer.enc_output_norm.%d", g);

    return dg_layer_layer_norm(&norm, dg_layer_linear(&linear, x, d->width,
                                                      dg_init_xavier(d->width, d->width)));
}

/* What predictions consist of: logits [B,Q,C], boxes [B,Q,4], queries [B,Q,D]. */
typedef struct parts {
    dg_val logits, boxes, queries;
} parts;

static dg_val record_of(const decoder *d, const parts *p)
{
    dg_val r = dg_prediction_of(d->b, p->logits, p->boxes);

    dg_record_set(d->b, r, "queries", p->queries);
    return r;
}

/* The k best tokens of group g. All tokens are scored, but only to rank them: the outputs are
 * recomputed from the chosen rows, so that gradients skip the others. */
static parts select_group(const decoder *d, int g, dg_val masked, dg_val proposals)
{
    dg_build *b = d->b;
    dg_param_path_of class = group_head(d, "transformer.enc_out_class_embed", g),
                     box = group_head(d, "transformer.enc_out_bbox_embed", g);
    int64_t n = dg_dim(b, masked, 1);
    dg_val all = dg_name(b, scores(d, &class, project(d, masked, g)), "enc.%d.logits_all", g);
    dg_val index =
        dg_topk(b, dg_reduce_max(b, all, 1u << 2, false), d->c->queries < n ? d->c->queries : n);
    dg_val chosen = project(d, dg_gather(b, masked, dg_name(b, index, "enc.%d.topk", g)), g);

    return (parts){
        scores(d, &class, chosen),
        dg_box_decode(b, dg_layer_box_head(&box, chosen), dg_gather(b, proposals, index)),
        chosen,
    };
}

/* Selects for every group, one after another: Q is groups*k. In evaluation groups but the first are
 * dead code, but their parameters belong to the model. */
static parts select_all(const decoder *d)
{
    dg_val masked = DG_NONE, proposals = propose(d, &masked), part[3][MOST_GROUPS];
    dg_build *b = d->b;
    int n = (int)d->groups;

    for (int g = 0; g < d->c->groups; g++) {
        parts p = select_group(d, g, masked, proposals);

        part[0][g] = p.logits;
        part[1][g] = p.boxes;
        part[2][g] = p.queries;
    }
    return (parts){
        dg_name(b, dg_concat(b, 1, n, part[0]), "enc.topk_logits"),
        dg_name(b, dg_concat(b, 1, n, part[1]), "enc.topk_boxes"),
        dg_concat(b, 1, n, part[2]),
    };
}

/* ---- queries --------------------------------------------------------------------------------- */

/* The first rows of a learned table, for every image: [B,groups*queries,width]. */
static dg_val learned(const decoder *d, const char *path, int64_t width, dg_init init)
{
    dg_build *b = d->b;
    int64_t rows = d->groups * d->c->queries, all = d->c->groups * d->c->queries;
    dg_val table = dg_param(b, path, DG_SHAPE(all, width), init);

    if (rows < all)
        table = dg_slice(b, table, 0, 0, rows);
    return dg_expand(b, dg_reshape(b, table, DG_SHAPE(1, rows, width)),
                     DG_SHAPE(dg_dim(b, d->stack.memory, 0), rows, width));
}

static dg_val references(const decoder *d, dg_val boxes)
{
    dg_build *b = d->b;
    dg_val rho = learned(d, "refpoint_embed.weight", 4, dg_init_zero());
    int64_t n = dg_dim(b, rho, 1), found = dg_dim(b, boxes, 1);
    dg_val part[2];

    boxes = dg_detach(b, boxes);
    if (found >= n)
        return dg_name(b, dg_box_decode(b, rho, boxes), "ref");
    part[0] = dg_box_decode(b, dg_slice(b, rho, 1, 0, found), boxes);
    part[1] = dg_slice(b, rho, 1, found, n);
    return dg_name(b, dg_concat(b, 1, 2, part), "ref");
}

static dg_val position(const decoder *d, dg_val ref)
{
    dg_build *b = d->b;
    dg_param_path_of first = dg_param_path(b, "transformer.decoder.ref_point_head.layers.0"),
                     second = dg_param_path(b, "transformer.decoder.ref_point_head.layers.1");
    int64_t w = d->width;
    dg_val x = dg_name(b, dg_sine_embed(b, ref, w / 2), "sine");

    x = dg_relu(b, dg_layer_linear(&first, x, w, dg_init_xavier(2 * w, w)));
    return dg_name(b, dg_layer_linear(&second, x, w, dg_init_xavier(w, w)), "query_pos");
}

/* ---- layers and outputs ---------------------------------------------------------------------- */

static dg_val run_layer(const decoder *d, int i, dg_val x, dg_val pos, dg_val ref)
{
    dg_param_path_of layer = dg_param_path(d->b, "transformer.decoder.layers.%d", i);

    if (i) { /* layers were copies of the first, until their matrices were drawn anew */
        snprintf(layer.like, sizeof layer.like, "transformer.decoder.layers.0");
        layer.like_vectors = true;
    }
    return dg_name(d->b, dg_decoder_layer(&layer, &d->stack, x, pos, ref), "dec.%d.state", i);
}

static dg_val predict(const decoder *d, int i, dg_val x, dg_val ref)
{
    dg_build *b = d->b;
    dg_param_path_of norm = dg_param_path(b, "transformer.decoder.norm"),
                     class = head(d, "class_embed", "transformer.enc_out_class_embed.0"),
                     box = head(d, "bbox_embed", "transformer.enc_out_bbox_embed.0");
    dg_val h = dg_name(b, dg_layer_layer_norm(&norm, x), "dec.%d.hs", i);
    dg_val logits = dg_name(b, scores(d, &class, h), "dec.%d.logits", i);
    dg_val boxes = dg_box_decode(b, dg_layer_box_head(&box, h), ref);
    parts p = { logits, dg_name(b, boxes, "dec.%d.boxes", i), h };

    return record_of(d, &p);
}

static dg_val group_numbers(const decoder *d)
{
    int32_t v[MOST_GROUPS];

    for (int g = 0; g < d->groups; g++)
        v[g] = g;
    return dg_const_i32(d->b, DG_SHAPE(d->groups), v);
}

/* Queries and positions have the maps' width; every head has an equal part of it. */
static bool heads_divide(const decoder *d, dg_val *out)
{
    const struct {
        const char *name;
        int64_t n;
    } all[] = { { "heads", d->c->heads }, { "self_heads", d->c->self_heads } };

    for (int i = 0; i < 2; i++)
        if (d->width % all[i].n) {
            *out =
                dg_error(d->b, "decoder-heads", "%s=\"%lld\" do not divide the maps' width, %lld",
                         all[i].name, (long long)all[i].n, (long long)d->width);
            return false;
        }
    return true;
}

static void lower_decoder(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    bool training = dg_training(b);
    decoder d = { .b = b, .c = c, .groups = training ? c->groups : 1 };
    dg_val x, ref, pos, aux = dg_record(b);
    parts found;

    d.stack = (dg_decoder_stack){ .family = DG_DECODER_LWDETR,
                                  .heads = c->heads,
                                  .self_heads = c->self_heads,
                                  .groups = d.groups,
                                  .ffn = c->ffn };
    d.stack.memory = out[0] = tokens(&d, in[0]);
    if (!d.stack.levels.n || !heads_divide(&d, &out[0]))
        return;
    found = select_all(&d);
    ref = references(&d, found.boxes);
    pos = position(&d, ref);
    x = learned(&d, "query_feat.weight", d.width, dg_init_normal(1));
    for (int i = 0; i < c->layers; i++) {
        x = run_layer(&d, i, x, pos, ref);
        if (i == c->layers - 1)
            out[0] = predict(&d, i, x, ref);
        else if (training)
            dg_predictions_add(b, aux, i, predict(&d, i, x, ref));
    }
    if (training && c->layers > 1)
        dg_record_set(b, out[0], "aux", aux);
    if (!training)
        return;
    dg_record_set(b, out[0], "enc", record_of(&d, &found));
    dg_record_set(b, out[0], "groups", group_numbers(&d));
}

static int64_t classes(const void *self)
{
    return ((const conf *)self)->classes;
}

const dg_node_class dg_node_decoder_lwdetr = {
    DG_NODE_CLASS,
    .name = "decoder.lwdetr",
    .role = DG_ROLE_DECODER,
    .brief = "RF-DETR's decoder: selects and learns queries in groups; layers share references.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "",
    .lower = lower_decoder,
    .classes = classes,
};
