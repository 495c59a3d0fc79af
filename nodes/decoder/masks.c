/* masks.c: <decoder.masks>: the segmentation head of RF-DETR (Robinson et al. 2025): a vector for
 * every query and a map of features for every layer, whose products are the logits of masks.
 *
 *  s_0 = resize(map)                            bilinear, to 1/4 of the images' sides
 *  s_i = s_{i-1} + gelu(W LN(dw3x3(s_{i-1})))   block i, of layer i
 *  q   = V (h + L2 gelu(L1 LN(h)))              of the queries h of every layer
 *  masks of layer i: (C s_i + c) . q + bias     C a 1x1 convolution; those of the selection: s_0 .
 * q
 *
 * The products are made where they are needed: at the points of the loss, or for what is
 * detected. */
#include "nodes/backbone/resample.h"
#include "nodes/builtin.h"
#include "nodes/decoder/output.h"
#include "nodes/layers.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct conf {
    int64_t layers, shrink;
} conf;

enum { IN, MAP, IMAGES };
enum { N_MAPS = 3 };

static const dg_port ports[] = {
    DG_IN("in", "{logits:f[B,Q,C],boxes:f[B,Q,4],queries:f[B,Q,D],aux?:any,enc?:any,groups?:i[G]}",
          "predictions of decoder.lwdetr"),
    DG_IN("map", "{p3?:f[B,H3,W3,D],p4?:f[B,H4,W4,D],p5?:f[B,H5,W5,D]}",
          "feature maps, of which the finest is used"),
    DG_IN("images", "f[B,H,W,3]", "the images, whose size alone is read"),
    DG_OUT("out",
           "{logits:f[B,Q,C],boxes:f[B,Q,4],queries:f[B,Q,D],masks:any,aux?:any,enc?:any,"
           "groups?:i[G]}",
           "the same with masks: {map:f[B,H,W,D], queries:f[B,Q,D], bias:f[1]}, also in aux and "
           "enc"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_INT(conf, layers, 4, 1, 32, "layers of the decoder: there is a block for each"),
    DG_INT(conf, shrink, 4, 1, 64, "masks have 1/shrink of the images' sides"),
    { 0 },
};

/* ---- maps ------------------------------------------------------------------------------------ */

static dg_val resize_matrix(dg_build *b, int64_t from, int64_t to)
{
    double *m = malloc((size_t)(from * to) * sizeof *m);
    dg_val v;

    if (!m)
        return dg_error(b, "out-of-memory", "no memory for a matrix of %lldx%lld", (long long)to,
                        (long long)from);
    dg_resample_bilinear(from, to, m);
    v = dg_const(b, DG_SHAPE(to, from), m);
    free(m);
    return v;
}

/* x [B,H,W,D] -> [B,h,w,D]. Each axis is the last one when it is resized. */
static dg_val resize(dg_build *b, dg_val x, int64_t h, int64_t w)
{
    int64_t from_h = dg_dim(b, x, 1), from_w = dg_dim(b, x, 2);

    if (from_h == h && from_w == w)
        return x;
    x = dg_permute(b, x, 4, (int[]){ 0, 3, 2, 1 });
    x = dg_linear(b, x, resize_matrix(b, from_h, h), DG_NONE);
    x = dg_permute(b, x, 4, (int[]){ 0, 1, 3, 2 });
    x = dg_linear(b, x, resize_matrix(b, from_w, w), DG_NONE);
    return dg_permute(b, x, 4, (int[]){ 0, 2, 3, 1 });
}

static dg_val finest(dg_build *b, dg_val maps)
{
    static const char *const keys[N_MAPS] = { "p3", "p4", "p5" };

    for (int i = 0; i < N_MAPS; i++)
        if (dg_record_has(b, maps, keys[i]))
            return dg_record_get(b, maps, keys[i]);
    return dg_error(b, "decoder-memory", "map has none of the maps p3, p4, p5");
}

static dg_val block(dg_build *b, int64_t i, dg_val x)
{
    dg_param_path_of at = dg_param_path(b, "blocks.%lld", (long long)i),
                     norm = dg_param_path_in(&at, "norm"), point = dg_param_path_in(&at, "pwconv1");
    int64_t d = dg_dim(b, x, -1);
    dg_val w = dg_param_at(&at, "dwconv.weight", DG_SHAPE(d, 1, 3, 3), dg_init_fan_in(9)),
           bias = dg_param_at(&at, "dwconv.bias", DG_SHAPE(d), dg_init_fan_in(9));
    dg_val y = dg_layer_layer_norm_eps(&norm, dg_depthwise_conv(b, x, w, bias), 1e-6);

    y = dg_gelu(b, dg_layer_linear(&point, y, d, dg_init_fan_in(d)));
    return dg_name(b, dg_add(b, x, y), "segmentation_head.blocks.%lld", (long long)i);
}

static dg_val project(dg_build *b, dg_val x)
{
    int64_t d = dg_dim(b, x, -1);
    dg_val w = dg_param(b, "spatial_features_proj.weight", DG_SHAPE(d, d, 1, 1), dg_init_fan_in(d)),
           bias = dg_param(b, "spatial_features_proj.bias", DG_SHAPE(d), dg_init_fan_in(d));

    return dg_conv2d(b, x, w, bias, 1, 0);
}

/* ---- queries --------------------------------------------------------------------------------- */

static dg_val vectors(dg_build *b, dg_val h)
{
    dg_param_path_of at = dg_param_path(b, "query_features_block"),
                     norm = dg_param_path_in(&at, "norm_in"),
                     first = dg_param_path_in(&at, "layers.0"),
                     second = dg_param_path_in(&at, "layers.2"),
                     last = dg_param_path(b, "query_features_proj");
    int64_t d = dg_dim(b, h, -1);
    dg_val x = dg_layer_linear(&first, dg_layer_layer_norm(&norm, h), 4 * d, dg_init_fan_in(d));

    x = dg_layer_linear(&second, dg_gelu(b, x), d, dg_init_fan_in(4 * d));
    return dg_layer_linear(&last, dg_add(b, h, x), d, dg_init_fan_in(d));
}

/* ---- predictions with masks ------------------------------------------------------------------ */

/* Copies what `from` has. */
static dg_val copy(dg_build *b, dg_val from)
{
    dg_val to = dg_record(b);

    for (int i = 0; i < dg_record_n(b, from); i++) {
        const char *key = dg_record_key(b, from, i);

        dg_record_set(b, to, key, dg_record_get(b, from, key));
    }
    return to;
}

/* The predictions `from` with masks of `map`; set: its name in values. */
static dg_val with_masks(dg_build *b, dg_val from, dg_val map, const char *set)
{
    dg_val to = copy(b, from), masks = dg_record(b);

    dg_record_set(b, masks, "map", dg_name(b, map, "seg.%s.spatial", set));
    dg_record_set(b, masks, "queries",
                  dg_name(b, vectors(b, dg_record_get(b, from, "queries")), "seg.%s.query", set));
    dg_record_set(b, masks, "bias", dg_param(b, "bias", DG_SHAPE(1), dg_init_zero()));
    dg_record_set(b, to, "masks", masks);
    return to;
}

static dg_val layer_masks(dg_build *b, dg_val from, dg_val map, int64_t layer)
{
    char set[24];

    snprintf(set, sizeof set, "%lld", (long long)layer);
    return with_masks(b, from, project(b, map), set);
}

/* False: what was given does not fit, which is reported in *out. */
static bool fits(dg_build *b, const conf *c, dg_val in, dg_val images, dg_val *out)
{
    int64_t h = dg_dim(b, images, 1), w = dg_dim(b, images, 2);
    int layers =
        1 + (dg_record_has(b, in, "aux") ? dg_record_n(b, dg_record_get(b, in, "aux")) : 0);

    if (h < c->shrink || w < c->shrink)
        *out = dg_error(b, "masks-size", "images of %lldx%lld are smaller than shrink, %lld",
                        (long long)w, (long long)h, (long long)c->shrink);
    else if (dg_training(b) && layers != c->layers)
        *out = dg_error(b, "masks-layers",
                        "the decoder has %d layers, there are blocks for %lld: set layers", layers,
                        (long long)c->layers);
    else
        return true;
    return false;
}

static void lower_masks(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    dg_val aux, done = dg_record(b), map, first;
    bool has_aux = dg_record_has(b, in[IN], "aux");

    if (!fits(b, c, in[IN], in[IMAGES], out))
        return;
    aux = has_aux ? dg_record_get(b, in[IN], "aux") : dg_record(b);
    first = map = resize(b, finest(b, in[MAP]), dg_dim(b, in[IMAGES], 1) / c->shrink,
                         dg_dim(b, in[IMAGES], 2) / c->shrink);
    for (int64_t i = 0; i < c->layers; i++) {
        map = block(b, i, map);
        if (i < dg_record_n(b, aux)) {
            const char *key = dg_record_key(b, aux, (int)i);

            dg_record_set(b, done, key, layer_masks(b, dg_record_get(b, aux, key), map, i));
        }
    }
    out[0] = layer_masks(b, in[IN], map, c->layers - 1);
    if (has_aux)
        dg_record_set(b, out[0], "aux", done);
    if (dg_record_has(b, in[IN], "enc"))
        dg_record_set(b, out[0], "enc",
                      with_masks(b, dg_record_get(b, in[IN], "enc"), first, "enc"));
}

const dg_node_class dg_node_decoder_masks = {
    DG_NODE_CLASS,
    .name = "decoder.masks",
    .role = DG_ROLE_DECODER,
    .brief = "RF-DETR's segmentation head: adds masks to the predictions of decoder.lwdetr.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .reference = "segmentation_head",
    .lower = lower_masks,
};
