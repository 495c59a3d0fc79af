/* deformable.c: <encoder.deformable>: a transformer encoder in which every token of every level
 * looks at a few places around itself in all levels. Zhu et al. 2021; post-norm: Vaswani et al.
 * 2017.
 *
 *  position  sines of x and y as fractions of the image, plus a learned vector for the level
 *  layer     x <- LN1(x + deform(x + position, centre of the token, x))
 *            x <- LN2(x + W2 relu(W1 x))
 *  out       the tokens as maps again
 *
 * Tokens of padding are computed like others (dense heads see them), but nobody samples them. */
#include "nodes/builtin.h"
#include "nodes/decoder/padded.h"

#include <stdio.h>
#include <string.h>

typedef struct conf {
    int64_t layers, ffn, heads, points, levels, recompute_layers;
    double temperature;
} conf;

enum { MAPS, IMAGES, SIZES };
enum { OUT, PADDING };
enum { MOST_LAYERS = 32, MOST_LEVELS = DG_MAX_LEVELS };

static const dg_port ports[] = {
    DG_IN("in", "{p*:any}", "feature maps with one number of channels, finest first"),
    DG_IN_OPTIONAL("images", "f[B,H,W,3]", "the images, for the size of their canvas"),
    DG_IN_OPTIONAL("sizes", "i[B,2]",
                   "height and width of each image in its canvas, in pixels; if omitted, images "
                   "fill it"),
    DG_OUT_MAIN("out", "{p*:any}", "the maps p0, p1, ..."),
    DG_OUT("padding", "any", "which tokens are padding, for decoders"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, layers, 6, 1, MOST_LAYERS, "layers"),
    DG_INT(conf, levels, 5, 1, MOST_LEVELS, "feature maps"),
    DG_INT(conf, ffn, 2048, 1, 65536, "inner width of the feed-forward networks"),
    DG_INT(conf, heads, 8, 1, 256, "attention heads"),
    DG_INT(conf, points, 4, 1, 64, "sampling points per head and level"),
    DG_INT(
        conf, recompute_layers, 0, 0, MOST_LAYERS,
        "first layers whose activations are computed again in the backward pass, each by itself"),
    DG_NUM(conf, temperature, 20, 1, 1e6, "ratio of the longest to the shortest sine's period"),
    { 0 },
};

static void check_deformable(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->recompute_layers > c->layers)
        dg_check_fail(k, "recompute_layers", "encoder-recompute", "must be at most layers (%lld)",
                      (long long)c->layers);
    if (dg_check_wired(k, "sizes") && !dg_check_wired(k, "images")) {
        dg_check_fail(k, "sizes", "encoder-canvas",
                      "says how much of a canvas images cover, and "
                      "the canvas is not known");
        dg_check_help(k, "images=\"@images\"");
    }
}

static void type_deformable(dg_typing *t, const void *self)
{
    const conf *c = self;
    char text[MOST_LEVELS * 48] = "{";

    for (int i = 0; i < c->levels; i++)
        snprintf(text + strlen(text), 48, "%sp%d:f[B,H%d,W%d,D]", i ? "," : "", i, i, i);
    dg_type(t, "out", "%s}", text);
}

/* Sines and the level's vector, as tokens: [B,S,D]. */
static dg_val positions(dg_build *b, const conf *c, const dg_padded *p, int64_t width)
{
    int levels = p->levels.n;
    dg_val table = dg_param(b, "level_embeds", DG_SHAPE(levels, width), dg_init_normal(1)),
           part[DG_MAX_LEVELS] = { 0 };

    for (int l = 0; l < levels; l++) {
        dg_val sine = dg_padded_positions(p, l, width, c->temperature);

        dg_name(b, sine, "pos.%d", l);
        sine = dg_reshape(b, sine,
                          DG_SHAPE(dg_dim(b, sine, 0), p->levels.h[l] * p->levels.w[l], width));
        part[l] = dg_add(b, sine, dg_slice(b, table, 0, l, l + 1));
    }
    return levels > 1 ? dg_concat(b, 1, levels, part) : part[0];
}

static dg_val layer(const dg_padded *p, const conf *c, int i, dg_val x, dg_val pos,
                    const dg_places *where)
{
    dg_build *b = p->b;
    dg_param_path_of at = dg_param_path(b, "encoder.layers.%d", i),
                     attention = dg_param_path_in(&at, "attentions.0"),
                     wide = dg_param_path_in(&at, "ffns.0.layers.0.0"),
                     narrow = dg_param_path_in(&at, "ffns.0.layers.1"),
                     norm1 = dg_param_path_in(&at, "norms.0"),
                     norm2 = dg_param_path_in(&at, "norms.1");
    int64_t d = dg_dim(b, x, -1);
    dg_val values = dg_padded_values(&attention, p, x), y;

    y = dg_padded_attention(&attention, p, values, dg_add(b, x, pos), where);
    x = dg_layer_layer_norm(&norm1, dg_add(b, x, y));
    y = dg_relu(b, dg_layer_linear(&wide, x, c->ffn, dg_init_xavier(d, c->ffn)));
    y = dg_layer_linear(&narrow, y, d, dg_init_xavier(c->ffn, d));
    return dg_name(b, dg_layer_layer_norm(&norm2, dg_add(b, x, y)), "enc.%d.state", i);
}

/* The tokens x as maps, named "y0", "y1", ... */
static dg_val as_maps(const dg_padded *p, dg_val x)
{
    dg_build *b = p->b;
    dg_val out = dg_record(b);
    int64_t at = 0;
    char key[16];

    for (int l = 0; l < p->levels.n; l++) {
        int64_t h = p->levels.h[l], w = p->levels.w[l];
        dg_val map = dg_slice(b, x, 1, at, at + h * w);

        map = dg_reshape(b, map, DG_SHAPE(p->batch, h, w, dg_dim(b, x, -1)));
        at += h * w;
        snprintf(key, sizeof key, "p%d", l);
        dg_record_set(b, out, key, dg_name(b, map, "y%d", l));
    }
    return out;
}

/* True if maps do not fit the attributes; *error is poison then. */
static bool misfit(dg_build *b, const conf *c, const dg_padded *p, int64_t width, dg_val *error)
{
    const bool levels = p->levels.n != c->levels, heads = width % c->heads || width % 4;

    if (levels)
        *error = dg_error(b, "encoder-levels",
                          "levels=\"%lld\", and in has %d maps: write levels=\"%d\"",
                          (long long)c->levels, p->levels.n, p->levels.n);
    else if (heads)
        *error = dg_error(b, "encoder-heads",
                          "heads=\"%lld\": heads and 4 must divide the maps' width, %lld",
                          (long long)c->heads, (long long)width);
    return levels || heads;
}

static void lower_deformable(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_padded p;
    dg_val x = dg_padded_open(&p, b, in[MAPS], c->heads, c->points), pos, centres;
    int64_t d = dg_dim(b, x, -1);
    dg_places where;

    out[OUT] = x;
    if (!p.levels.n || misfit(b, c, &p, d, &out[OUT])) /* no levels: the maps were reported */
        return;
    dg_padded_sizes(&p, in[IMAGES], in[SIZES]);
    pos = positions(b, c, &p, d);
    centres = dg_padded_centres(&p);
    where = dg_padded_around_points(&p, centres);
    for (int i = 0; i < c->layers; i++) {
        dg_part(b, i + 1, i < c->recompute_layers);
        x = layer(&p, c, i, x, pos, &where);
    }
    dg_part(b, 0, false);
    out[OUT] = as_maps(&p, dg_name(b, x, "memory"));
    out[PADDING] = dg_padded_record(&p);
}

const dg_node_class dg_node_encoder_deformable = {
    DG_NODE_CLASS,
    .name = "encoder.deformable",
    .role = DG_ROLE_ENCODER,
    .brief = "Deformable DETR's encoder: tokens of all levels sample all levels.",
    .doc = "Images may be smaller than their canvas: what lies outside an image is never sampled.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "query_head.transformer",
    .type = type_deformable,
    .check = check_deformable,
    .lower = lower_deformable,
};
