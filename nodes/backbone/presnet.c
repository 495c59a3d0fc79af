/* presnet.c: <backbone.presnet>: ResNet "vd": a stem of three 3x3 convolutions, and shortcuts that
 * average-pool before they project. He et al. 2016; He et al. 2019 (Bag of Tricks, ResNet-D).
 *
 *  stem    3 -> w/2 (stride 2) -> w/2 -> w, max-pool 3x3 stride 2; w is 64 unless width says more
 *  stage   s = 0..3: blocks of w * 2^s channels, the first with stride 2 except in stage 0
 *  basic   relu(BN(conv3(relu(BN(conv3(x))))) + short(x))                        18, 34
 *  bottle  relu(BN(conv1(relu(BN(conv3(relu(BN(conv1(x)))))))) + short(x))       50, 101;
 *          with 4 times the output channels */
#include "nodes/backbone/residual.h"
#include "nodes/builtin.h"
#include "nodes/layers.h"

typedef struct conf {
    int64_t depth, width, freeze_at, norm;
    bool freeze_norm;
    const char *axis;
} conf;

static const dg_port ports[] = {
    DG_IN("in", "f[B,H,W,3]", "images, RGB from 0 to 1"),
    DG_OUT("s8", "f[B,H8,W8,C8]", "features at stride 8"),
    DG_OUT("s16", "f[B,H16,W16,C16]", "features at stride 16"),
    DG_OUT("s32", "f[B,H32,W32,C32]", "features at stride 32"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_ENUM(conf, depth, 2, "18|34|50|101", "number of layers"),
    DG_INT(conf, width, 64, 2, 1024,
           "channels of the first stage; each further stage has twice as many"),
    DG_INT(conf, freeze_at, -1, -1, DG_RESNET_STAGES,
           "freeze the stem and this many stages; -1: nothing"),
    DG_BOOL(conf, freeze_norm, false,
            "keep batch norms fixed at their pretrained statistics and affine parameters"),
    DG_NORM_ATTRS(conf),
    { 0 },
};

static const dg_rule rules[] = {
    DG_NORM_RULES("in", ",!freeze_norm"),
    { 0 },
};

static void check_presnet(dg_check *k, const void *self)
{
    const conf *c = self;

    if (c->width % 2)
        dg_check_fail(k, "width", "backbone-width",
                      "must be even, because the stem has half as many channels, found %lld",
                      (long long)c->width);
    dg_resnet_check_norm(k, c->freeze_norm, c->norm, c->axis);
}

static dg_val conv_norm(const dg_param_path_of *at, const char *name, dg_val x, dg_conv_norm shape,
                        const conf *c, bool frozen)
{
    dg_param_path_of p = dg_param_path_in(at, "%s", name);

    shape.frozen = frozen;
    shape.fixed = c->freeze_norm;
    shape.axis = dg_norm_axis(c->norm, c->axis);
    return dg_layer_conv_norm(&p, x, &shape);
}

static dg_val stem(dg_build *b, dg_val x, const conf *c)
{
    const struct {
        const char *name;
        int64_t out;
        int stride;
    } convs[] = { { "conv1_1", c->width / 2, 2 },
                  { "conv1_2", c->width / 2, 1 },
                  { "conv1_3", c->width, 1 } };
    dg_param_path_of at = dg_param_path(b, "conv1");

    for (int i = 0; i < 3; i++) {
        dg_conv_norm shape = {
            .out = convs[i].out, .size = 3, .stride = convs[i].stride, .act = DG_LAYER_RELU
        };

        x = conv_norm(&at, convs[i].name, x, shape, c, c->freeze_at >= 0);
        dg_name(b, x, "backbone.conv1.%s", convs[i].name);
    }
    return dg_max_pool(b, x, 3, 2, 1);
}

/* Identity, 1x1 projection, or 2x2 average and projection; the reference's parameter names tell
 * which. */
static dg_val shortcut(const dg_param_path_of *at, dg_val x, int64_t out, int stride, const conf *c,
                       bool frozen)
{
    dg_conv_norm shape = { .out = out, .size = 1, .stride = 1 };

    if (stride == 1)
        return conv_norm(at, "short", x, shape, c, frozen);
    return conv_norm(at, "short.conv", dg_avg_pool(at->b, x, 2, 2), shape, c, frozen);
}

static dg_val block(const dg_param_path_of *at, dg_val x, int64_t width, int stride, bool first,
                    const conf *c, bool frozen)
{
    dg_build *b = at->b;
    bool bottleneck = dg_resnet_depths[c->depth].bottleneck;
    int64_t out = bottleneck ? 4 * width : width;
    dg_val y = x;
    dg_conv_norm narrow = { .out = width, .size = 1, .stride = 1, .act = DG_LAYER_RELU };
    dg_conv_norm wide = { .out = width, .size = 3, .stride = stride, .act = DG_LAYER_RELU };
    dg_conv_norm last = { .out = out, .size = bottleneck ? 1 : 3, .stride = 1 };

    if (bottleneck) {
        y = conv_norm(at, "branch2a", y, narrow, c, frozen);
        y = conv_norm(at, "branch2b", y, wide, c, frozen);
        y = conv_norm(at, "branch2c", y, last, c, frozen);
    } else {
        y = conv_norm(at, "branch2a", y, wide, c, frozen);
        y = conv_norm(at, "branch2b", y, last, c, frozen);
    }
    return dg_relu(b, dg_add(b, y, first ? shortcut(at, x, out, stride, c, frozen) : x));
}

static void lower_presnet(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int64_t h = dg_dim(b, in[0], 1), w = dg_dim(b, in[0], 2);
    dg_val x;

    if (h % 32 || w % 32) {
        out[0] = out[1] = out[2] = dg_error(
            b, "backbone-size",
            "images of %lldx%lld: both sides must be multiples of 32, because the coarsest "
            "feature map has a 32nd of them; samplers set sizes",
            (long long)w, (long long)h);
        return;
    }
    x = stem(b, in[0], c);
    for (int s = 0; s < DG_RESNET_STAGES; s++) {
        for (int i = 0; i < dg_resnet_depths[c->depth].blocks[s]; i++) {
            dg_param_path_of at = dg_param_path(b, "res_layers.%d.blocks.%d", s, i);

            x = block(&at, x, c->width << s, s && !i ? 2 : 1, !i, c, s < c->freeze_at);
            dg_name(b, x, "backbone.%s", at.path);
        }
        if (s > 0)
            out[s - 1] = dg_name(b, x, "backbone.s%d", 4 << s);
    }
}

const dg_node_class dg_node_backbone_presnet = {
    DG_NODE_CLASS,
    .name = "backbone.presnet",
    .role = DG_ROLE_BACKBONE,
    .brief = "ResNet-vd: features at strides 8, 16 and 32.",
    .doc = "Depths 18 and 34 use basic blocks (128, 256 and 512 output channels), 50 and 101 "
           "bottlenecks (512, 1024 and 2048); width scales all of them.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .reference = "backbone",
    .check = check_presnet,
    .lower = lower_presnet,
};
