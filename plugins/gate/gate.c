/* gate.c: gate_fuse mixes two token sequences with a learned gate.
 *     g = sigmoid([a, b] W + k)      [B,N,1]
 *     out = b + g (a - b) */
#include <detrgraph/plugin.h>

#include <math.h>

typedef struct {
    double open;
} conf;
enum { A, B };
enum { OUT };

static const dg_port ports[] = {
    DG_IN("a", "f[B,N,D]", "tokens the gate lets in"),
    DG_IN("b", "f[B,N,D]", "tokens used where the gate is shut"),
    DG_OUT("out", "f[B,N,D]", "the mixture"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_NUM(conf, open, 0.5, 0.01, 0.99, "gate value before training"),
    { 0 },
};

static void lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    int64_t d = dg_dim(b, in[A], 2);
    dg_val w = dg_param(b, "weight", DG_SHAPE(2 * d, 1), dg_init_zero());
    dg_val k = dg_param(b, "bias", DG_SHAPE(1), dg_init_const(log(c->open / (1 - c->open))));
    dg_val g = dg_sigmoid(b, dg_add(b, dg_matmul(b, dg_concat(b, 2, 2, in), w), k));

    out[OUT] = dg_add(b, in[B], dg_mul(b, g, dg_sub(b, in[A], in[B])));
}

static const dg_node_class gate_fuse = {
    DG_NODE_CLASS,
    .name = "gate_fuse",
    .role = DG_ROLE_ENCODER,
    .brief = "Mix two token sequences with a learned gate.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .lower = lower,
};

DG_PLUGIN("gate", "1.0", &gate_fuse);
