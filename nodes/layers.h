/* layers.h: layers of detectors, with PyTorch's parameter names and initial values. A layer takes
 * its parameters from a path below the node. */
#ifndef DG_NODES_LAYERS_H
#define DG_NODES_LAYERS_H

#include <detrgraph/node.h>

/* For nodes with batch norms: the attributes norm and axis (members of conf), and the rules of each
 * input port that a norm follows. given: further conditions of the running statistics' rule, "" or
 * ",!freeze_norm". */
enum { DG_NORM_BATCH, DG_NORM_SYNC };
#define DG_NORM_ATTRS(conf)                                                                    \
    DG_ENUM(conf, norm, DG_NORM_BATCH, "batch|sync",                                           \
            "batch norms take their statistics from this rank's images, or from those of all " \
            "ranks of the axis"),                                                              \
        DG_AXES(conf, axis, NULL, "mesh axis of norm=\"sync\"; dp if left out")
#define DG_NORM_RULES(port, given)                                                               \
    { DG_RULE_ALLREDUCE,                                                                         \
      .from = port,                                                                              \
      .axis = "axis",                                                                            \
      .when = "norm=sync,axis",                                                                  \
      .why = "joins the batch-norm statistics of all ranks",                                     \
      .flags = DG_RULE_TRAIN },                                                                  \
        { DG_RULE_ALLREDUCE,                                                                     \
          .from = port,                                                                          \
          .axis = "=dp",                                                                         \
          .when = "norm=sync,!axis",                                                             \
          .why = "joins the batch-norm statistics of all ranks",                                 \
          .flags = DG_RULE_TRAIN },                                                              \
        { DG_RULE_STATE,                                                                         \
          .from = port,                                                                          \
          .axis = "axis",                                                                        \
          .when = "norm=sync,axis" given,                                                        \
          .why = "keeps running statistics of the images that its axis sees",                    \
          .flags = DG_RULE_TRAIN },                                                              \
        { DG_RULE_STATE,                                                                         \
          .from = port,                                                                          \
          .axis = "=dp",                                                                         \
          .when = "norm=sync,!axis" given,                                                       \
          .why = "keeps running statistics of the images that dp sees",                          \
          .flags = DG_RULE_TRAIN },                                                              \
    {                                                                                            \
        DG_RULE_STATE, .from = port, .when = "norm=batch" given,                                 \
            .why = "keeps running statistics of the images that it sees", .flags = DG_RULE_TRAIN \
    }
/* Reports an axis that norm="batch" would ignore. */
void dg_norm_check(dg_check *k, int64_t norm, const char *axis);
/* The axis whose ranks share statistics; NULL: none. */
const char *dg_norm_axis(int64_t norm, const char *axis);

/* A path below the node. like: path of a sibling layer whose initial values are copied, all or
 * those of vectors; "": none. */
typedef struct dg_param_path_of {
    dg_build *b;
    char path[96], like[96];
    bool like_vectors;
} dg_param_path_of;

dg_param_path_of dg_param_path(dg_build *b, const char *fmt, ...) DG_PRINTF(2, 3);
dg_param_path_of dg_param_path_in(const dg_param_path_of *outer, const char *fmt, ...)
    DG_PRINTF(2, 3);
/* The parameter `path` below `at`. */
dg_val dg_param_at(const dg_param_path_of *at, const char *path, dg_shape shape, dg_init init);

typedef enum dg_layer_act { DG_LAYER_LINEAR, DG_LAYER_RELU, DG_LAYER_SILU } dg_layer_act;

/* Convolution without bias, padded by (size-1)/2, then batch norm (eps 1e-5, momentum 0.1) and
 * activation. */
typedef struct dg_conv_norm {
    int64_t out;
    int size, stride;
    dg_layer_act act;
    const char *conv, *norm; /* names of the two parts; NULL: "conv", "norm" */
    bool xavier;             /* initial weights: Glorot; false: PyTorch's default */
    bool frozen;             /* parameters are frozen */
    bool fixed;              /* the norm is an affine map: its four vectors are buffers */
    bool affine;             /* the same, with scale and shift as frozen parameters */
    const char *axis;        /* mesh axis whose ranks share statistics; NULL: this rank's only */
} dg_conv_norm;
dg_val dg_layer_conv_norm(const dg_param_path_of *at, dg_val x, const dg_conv_norm *c);

/* Normalises groups of channels of each image of x [B,H,W,C]: scale, shift [C], eps 1e-5. Wu & He
 * 2018. */
dg_val dg_layer_group_norm(const dg_param_path_of *at, dg_val x, int64_t groups);

/* Weight initialised as given, bias U(+-1/sqrt(fan_in)). */
dg_val dg_layer_linear(const dg_param_path_of *at, dg_val x, int64_t out, dg_init weight);
dg_val dg_layer_linear_bias(const dg_param_path_of *at, dg_val x, int64_t out, dg_init weight,
                            dg_init bias);
dg_val dg_layer_layer_norm(const dg_param_path_of *at, dg_val x); /* eps 1e-5 */
dg_val dg_layer_layer_norm_eps(const dg_param_path_of *at, dg_val x, double eps);

/* Three linear layers with ReLU between them, "layers.0" to "layers.2"; the last one starts at
 * zero. */
dg_val dg_layer_box_head(const dg_param_path_of *at, dg_val x);

/* Multi-head self-attention of x, packed as in PyTorch: in_proj_weight [3D,D] in the order q, k, v.
 * pos is added to the input of q and k. dn, capacity: as in dg_attention; out: out_proj's initial
 * weights, PyTorch's default is dg_init_fan_in. */
dg_val dg_layer_attention(const dg_param_path_of *at, dg_val x, dg_val pos, int heads, dg_val dn,
                          int64_t capacity, dg_init out);

/* Stochastic depth: in training the branch of an image is left out (0) with the layer's
 * probability; those that remain are larger in proportion. branch [B n,..,D], image by image. name:
 * of the draw. Huang et al. 2016. */
typedef enum dg_drop_mode {
    DG_DROP_ALWAYS,
    DG_DROP_EARLY,
    DG_DROP_FALLING,
    DG_DROP_LATE
} dg_drop_mode;
typedef struct dg_drop_path {
    int64_t batch, layer, layers; /* layer: from 0 */
    double last;                  /* probability of the last layer; others in proportion to layer */
    dg_drop_mode mode;            /* in the first `until` updates, falling to 0, or after them */
    int64_t until;
} dg_drop_path;
dg_val dg_layer_drop_path(dg_build *b, dg_val branch, const dg_drop_path *p, const char *name);

#endif
