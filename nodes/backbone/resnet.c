/* resnet.c: <backbone.resnet>: the residual network as torchvision has it, with norms that are
 * fixed maps. He et al. 2016; the stride of a bottleneck is in its 3x3 convolution (Goyal et al.
 * 2017).
 *
 *  stem    relu(BN(conv7x7(x))), 64 channels, stride 2; max-pool 3x3, stride 2
 *  stage   s = 0..3: blocks of 64 * 2^s channels, the first with stride 2 except in stage 0
 *  basic   relu(BN(conv3(relu(BN(conv3(x))))) + short(x))                        18, 34
 *  bottle  relu(BN(conv1(relu(BN(conv3(relu(BN(conv1(x)))))))) + short(x))       50, 101;
 *          with 4 times the output channels
 *  short   x, or BN(conv1(x)) where size or channels change
 *
 * Maps have ceil(side / stride) rows and columns: images may have any size. Images are normalised
 * here; pixels outside an image's own size are 0 afterwards, as where padding comes last. */
#include "nodes/backbone/pixels.h"
#include "nodes/backbone/residual.h"
#include "nodes/backbone/stages.h"
#include "nodes/builtin.h"
#include "nodes/layers.h"

typedef struct conf {
    int64_t depth, frozen_stages, norm;
    bool freeze_norm, normalize;
    const char *axis;
} conf;

static const dg_attr attrs[] = {
    DG_ENUM(conf, depth, 2, "18|34|50|101", "number of layers"),
    DG_INT(conf, frozen_stages, 1, -1, DG_RESNET_STAGES,
           "freeze the stem and this many stages; -1: nothing"),
    DG_BOOL(conf, freeze_norm, true,
            "keep batch norms fixed at their pretrained statistics, scales and shifts"),
    DG_BOOL(conf, normalize, true,
            "subtract ImageNet's mean from the images and divide by its deviation"),
    DG_NORM_ATTRS(conf),
    { 0 },
};

static const dg_rule rules[] = {
    DG_NORM_RULES("in", ",!freeze_norm"),
    { 0 },
};

static void check_resnet(dg_check *k, const void *self)
{
    const conf *c = self;

    dg_resnet_check_norm(k, c->freeze_norm, c->norm, c->axis);
}

static dg_val conv_norm(const dg_param_path_of *at, const char *conv, const char *norm, dg_val x,
                        dg_conv_norm shape, const conf *c, bool frozen)
{
    shape.conv = conv;
    shape.norm = norm;
    shape.frozen = frozen;
    shape.affine = c->freeze_norm;
    shape.axis = dg_norm_axis(c->norm, c->axis);
    return dg_layer_conv_norm(at, x, &shape);
}

static dg_val block(const dg_param_path_of *at, dg_val x, int64_t width, int stride, bool project,
                    const conf *c, bool frozen)
{
    dg_build *b = at->b;
    bool bottleneck = dg_resnet_depths[c->depth].bottleneck;
    int64_t out = bottleneck ? 4 * width : width;
    dg_conv_norm narrow = { .out = width, .size = 1, .stride = 1, .act = DG_LAYER_RELU },
                 wide = { .out = width, .size = 3, .stride = stride, .act = DG_LAYER_RELU },
                 last = { .out = out, .size = bottleneck ? 1 : 3, .stride = 1 },
                 same = { .out = out, .size = 1, .stride = stride };
    dg_val y = x;

    if (bottleneck) {
        y = conv_norm(at, "conv1", "bn1", y, narrow, c, frozen);
        y = conv_norm(at, "conv2", "bn2", y, wide, c, frozen);
        y = conv_norm(at, "conv3", "bn3", y, last, c, frozen);
    } else {
        y = conv_norm(at, "conv1", "bn1", y, wide, c, frozen);
        y = conv_norm(at, "conv2", "bn2", y, last, c, frozen);
    }
    if (project) {
        dg_param_path_of short_at = dg_param_path_in(at, "downsample");

        x = conv_norm(&short_at, "0", "1", x, same, c, frozen);
    }
    return dg_relu(b, dg_add(b, y, x));
}

static void lower_resnet(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    const dg_conv_norm stem = { .out = 64, .size = 7, .stride = 2, .act = DG_LAYER_RELU };
    dg_param_path_of root = dg_param_path(b, "%s", "");
    int64_t before = 64;
    dg_val x = c->normalize ? dg_pixels_normalised(b, in[DG_STAGES_IMAGES], in[DG_STAGES_SIZES])
                            : in[DG_STAGES_IMAGES];

    x = conv_norm(&root, "conv1", "bn1", x, stem, c, c->frozen_stages >= 0);
    x = dg_name(b, dg_max_pool(b, x, 3, 2, 1), "backbone.maxpool");
    out[0] = dg_record(b);
    for (int s = 0; s < DG_RESNET_STAGES; s++) {
        int64_t width = 64 << s, wide = dg_resnet_depths[c->depth].bottleneck ? 4 * width : width;

        for (int i = 0; i < dg_resnet_depths[c->depth].blocks[s]; i++) {
            dg_param_path_of at = dg_param_path(b, "layer%d.%d", s + 1, i);
            int stride = s && !i ? 2 : 1;

            x = block(&at, x, width, stride, !i && (stride > 1 || before != wide), c,
                      s < c->frozen_stages);
            dg_name(b, x, "backbone.%s", at.path);
        }
        before = wide;
        dg_record_set(b, out[0], dg_stages_keys[s],
                      dg_name(b, x, "backbone.%s", dg_stages_keys[s]));
    }
}

const dg_node_class dg_node_backbone_resnet = {
    DG_NODE_CLASS,
    .name = "backbone.resnet",
    .role = DG_ROLE_BACKBONE,
    .brief = "ResNet: features at strides 4, 8, 16 and 32.",
    .doc = "Depths 18 and 34 use basic blocks (64 to 512 output channels), 50 and 101 bottlenecks "
           "(256 to 2048). Parameters have torchvision's names.",
    .ports = dg_stages_ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .reference = "backbone",
    .check = check_resnet,
    .lower = lower_resnet,
};
