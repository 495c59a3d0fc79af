/* my.node: an activation with kernels of its own, forward and backward.
 *     y = x / (1 + a |x|)        dy/dx = 1 / (1 + a |x|)^2
 * Turian et al. 2009 (softsign). */
#include <detrgraph/plugin.h>

#include <math.h>

/* ---- the op ---------------------------------------------------------------------------------- */

/* Attributes of the op: passed to its kernels and shown in printed programs. */
typedef struct slope_attr {
    double a;
} slope_attr;
static const dg_field fields[] = { { "a", DG_FIELD_REAL, offsetof(slope_attr, a), 1 }, { 0 } };

/* One kernel per type. Operands are in the order of the signature, inputs first. A kernel writes
 * every element of its outputs and nothing else; it neither allocates nor prints. */
#define KERNELS(T, bits)                                                      \
    static int forward_##bits(const dg_args *k) /* x -> y */                  \
    {                                                                         \
        const slope_attr *s = k->attr;                                        \
        const T *x = k->t[0].data;                                            \
        T *y = k->t[1].data;                                                  \
                                                                              \
        for (int64_t i = 0; i < dg_shape_elements(k->t[0].shape); i++)        \
            y[i] = (T)((double)x[i] / (1 + s->a * fabs((double)x[i])));       \
        return 0;                                                             \
    }                                                                         \
    static int backward_##bits(const dg_args *k) /* dy x -> dx */             \
    {                                                                         \
        const slope_attr *s = k->attr;                                        \
        const T *dy = k->t[0].data, *x = k->t[1].data;                        \
        T *dx = k->t[2].data;                                                 \
                                                                              \
        for (int64_t i = 0; i < dg_shape_elements(k->t[1].shape); i++) {      \
            double q = 1 + s->a * fabs((double)x[i]);                         \
                                                                              \
            dx[i] = (T)((double)dy[i] / (q * q));                             \
        }                                                                     \
        return 0;                                                             \
    }                                                                         \
    static const dg_kernel forward_kernel_##bits = { .run = forward_##bits }; \
    static const dg_kernel backward_kernel_##bits = { .run = backward_##bits };
KERNELS(float, 32)
KERNELS(double, 64)

static int shape_of_last(dg_infer *s) /* the shape of x, the last input of both ops */
{
    s->out[0] = s->in[s->n_in - 1];
    return 0;
}

static const dg_op softsign_grad = {
    DG_OP_ROW,
    .name = "softsign_grad",
    .signature = "dy x -> dx",
    .effect = DG_PURE,
    .precision = DG_WIDE, /* f32 in and out; the engine inserts the cast from bf16 */
    .attr_bytes = sizeof(slope_attr),
    .fields = fields,
    .shape = shape_of_last,
    .ref32 = &backward_kernel_32,
    .ref64 = &backward_kernel_64,
};

/* Emits the gradient as instructions: here, one call of the backward op above. */
static void gradient(dg_build *b, dg_grad_call *g)
{
    const dg_val in[] = { g->dout[0], g->in[0] };

    dg_emit(b, &softsign_grad, g->attr, 2, in, g->din);
}

static const dg_op softsign = {
    DG_OP_ROW,
    .name = "softsign",
    .signature = "x -> y",
    .effect = DG_PURE,
    .precision = DG_WIDE,
    .attr_bytes = sizeof(slope_attr),
    .fields = fields,
    .shape = shape_of_last,
    .grad = gradient,
    .ref32 = &forward_kernel_32,
    .ref64 = &forward_kernel_64,
};

/* ---- the node -------------------------------------------------------------------------------- */

typedef struct conf {
    double slope;
} conf;

static const dg_port ports[] = {
    DG_IN("x", "f[B,H,W,C]", "a feature map, channels last"),
    DG_OUT("y", "f[B,H,W,C]", "the same, every number between -1/slope and 1/slope"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_NUM(conf, slope, 1, 0, 100, "how soon it bends: 0 not at all"),
    { 0 },
};

static void lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    const slope_attr attr = { c->slope };

    dg_emit(b, &softsign, &attr, 1, in, out);
}

static const dg_node_class node_class = {
    DG_NODE_CLASS,
    .name = "my.node",
    .role = DG_ROLE_ENCODER,
    .brief = "Softsign: bends large numbers towards a bound.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .lower = lower,
};

DG_PLUGIN("my_node", "1.0", &node_class);
