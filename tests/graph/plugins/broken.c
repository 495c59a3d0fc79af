/* broken.c: nodes that break their contracts, one way each: what `detrgraph check-node` has to
 * find. */
#include <detrgraph/plugin.h>

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LOWER(name) \
    static void name##_lower(dg_build *b, const void *self, const dg_val in[], dg_val out[])
#define NODE(id, text, ...)                                                           \
    static const dg_node_class id = {                                                 \
        DG_NODE_CLASS,       .name = "broken." text, .brief = "Breaks its contract.", \
        .ports = id##_ports, .lower = id##_lower,    __VA_ARGS__                      \
    }
#define SAME(id)                                                              \
    static const dg_port id##_ports[] = { DG_IN("x", "f[B,N,D]", "numbers"),  \
                                          DG_OUT("y", "f[B,N,D]", "numbers"), \
                                          { 0 } }

/* ---- lower ----------------------------------------------------------------------------------- */

SAME(shape);
LOWER(shape)
{
    (void)self;
    out[0] = dg_permute(b, in[0], 3, (const int[]){ 0, 2, 1 });
}
NODE(shape, "shape", .doc = NULL);

SAME(dims);
LOWER(dims) /* D has to be a multiple of 4, and the port does not say so */
{
    (void)self;
    out[0] =
        dg_reshape(b,
                   dg_reshape(b, in[0], DG_SHAPE(dg_dim(b, in[0], 0), dg_dim(b, in[0], 1), -1, 4)),
                   dg_shape_of(b, in[0]));
}
NODE(dims, "dims", .doc = NULL);

static const dg_port missing_ports[] = { DG_IN("x", "f[B,N,D]", "numbers"),
                                         DG_OUT_MAIN("y", "f[B,N,D]", "numbers"),
                                         DG_OUT("z", "f[]", "a number"),
                                         { 0 } };
LOWER(missing)
{
    (void)b, (void)self;
    out[0] = in[0];
}
NODE(missing, "missing", .doc = NULL);

SAME(mode);
LOWER(mode)
{
    (void)self;
    out[0] =
        dg_training(b) ? dg_mul(b, in[0], dg_param(b, "gain", DG_SCALAR, dg_init_const(1))) : in[0];
}
NODE(mode, "mode", .doc = NULL);

SAME(unused);
LOWER(unused)
{
    (void)self;
    (void)dg_param(b, "idle", DG_SHAPE(3), dg_init_zero());
    out[0] = dg_relu(b, in[0]);
}
NODE(unused, "unused", .doc = NULL);

SAME(empty);
LOWER(empty)
{
    (void)self;
    out[0] = dg_div(b, in[0], dg_sum(b, in[0], DG_ALL_AXES, false));
}
NODE(empty, "empty", .doc = NULL);

typedef struct range_conf {
    int64_t parts;
} range_conf;
SAME(range);
static const dg_attr range_attrs[] = {
    DG_INT(range_conf, parts, 1, 1, 64, "rows that are looked at: more than there may be"), { 0 }
};
LOWER(range)
{
    const range_conf *c = self;

    (void)dg_slice(b, in[0], 1, 0, c->parts);
    out[0] = in[0];
}
NODE(range, "range", .attrs = range_attrs, .conf_size = sizeof(range_conf));

/* ---- ranks ----------------------------------------------------------------------------------- */

static const dg_port invariant_ports[] = { DG_IN("x", "f[B,N,D]", "numbers"),
                                           DG_OUT_FLAGS("y", "f[]", DG_PORT_INVARIANT,
                                                        "their mean"),
                                           { 0 } };
LOWER(invariant)
{
    (void)self;
    out[0] = dg_mean(b, in[0], DG_ALL_AXES, false);
}
NODE(invariant, "invariant", .doc = NULL);

static const dg_port collective_ports[] = { DG_IN("x", "f[B,N,D]", "numbers"),
                                            DG_OUT("y", "f[]", "their sum over ranks"),
                                            { 0 } };
LOWER(collective)
{
    (void)self;
    out[0] = dg_all_reduce(b, dg_sum(b, in[0], DG_ALL_AXES, false), DG_SUM, "dp");
}
NODE(collective, "collective", .doc = NULL);

/* ---- kernels: y = 2 x, each with a fault ----------------------------------------------------- */

static int same_shape(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}

static _Atomic int calls; /* what a kernel must not have */

#define TWICE(name, T, bits, skipped, fault)          \
    static int name##_run_##bits(const dg_args *k)    \
    {                                                 \
        int64_t n = dg_shape_elements(k->t[0].shape); \
        const T *x = k->t[0].data;                    \
        T *y = k->t[1].data;                          \
                                                      \
        for (int64_t i = 0; i < n - skipped; i++)     \
            y[i] = 2 * x[i];                          \
        fault;                                        \
        return 0;                                     \
    }                                                 \
    static const dg_kernel name##_kernel_##bits = { .run = name##_run_##bits };
#define OP(id, factor, skipped, fault)                                                             \
    TWICE(id, float, 32, skipped, fault)                                                           \
    TWICE(id, double, 64, skipped, fault)                                                          \
    static void id##_grad(dg_build *b, dg_grad_call *g)                                            \
    {                                                                                              \
        g->din[0] = dg_scale(b, g->dout[0], factor, 0);                                            \
    }                                                                                              \
    static const dg_op id##_op = {                                                                 \
        DG_OP_ROW,           .name = #id,       .signature = "x -> y",    .precision = DG_WIDE,    \
        .shape = same_shape, .grad = id##_grad, .ref32 = &id##_kernel_32, .ref64 = &id##_kernel_64 \
    };                                                                                             \
    SAME(id);                                                                                      \
    LOWER(id)                                                                                      \
    {                                                                                              \
        (void)self;                                                                                \
        dg_emit(b, &id##_op, NULL, 1, in, out);                                                    \
    }                                                                                              \
    NODE(id, #id, .doc = NULL)

OP(gradient, 3, 0, (void)0);
OP(outside, 2, 0, y[n] = 0);
OP(input, 2, 0, ((void)y, memset(k->t[0].data, 0, 1)));
OP(unwritten, 2, 1, (void)0);
OP(random, 2, 0, y[0] += (float)(atomic_fetch_add(&calls, 1) % 7) * 1e-3f);
OP(threads, 2, 0, y[0] += (float)k->threads * 1e-3f);
OP(rounded, 2, 0, y[0] = sizeof *y == 4 ? (float)(floor((double)y[0] * 64) / 64) : y[0]);

static const dg_op half_op = { DG_OP_ROW,
                              .name = "half",
                              .signature = "x -> y",
                              .precision = DG_WIDE,
                              .shape = same_shape,
                              .ref32 = &threads_kernel_32 };
SAME(half);
LOWER(half)
{
    (void)self;
    dg_emit(b, &half_op, NULL, 1, in, out);
}
NODE(half, "half", .doc = NULL);

static const dg_op flat_op = { DG_OP_ROW,
                              .name = "flat",
                              .signature = "x -> y",
                              .precision = DG_WIDE,
                              .shape = same_shape,
                              .ref32 = &gradient_kernel_32,
                              .ref64 = &gradient_kernel_64 };
SAME(flat);
LOWER(flat)
{
    (void)self;
    dg_emit(b, &flat_op, NULL, 1, in, out);
}
NODE(flat, "flat", .doc = NULL);

/* ---- samples --------------------------------------------------------------------------------- */

static const dg_port item_ports[] = { DG_IN("in", "picks", "samples"),
                                      DG_OUT("out", "samples", "samples"),
                                      { 0 } };
#define ITEM(id, ...)                                                                           \
    static int id##_item(const void *self, dg_sample *sm, dg_draw *draw, const dg_clock *clock, \
                         dg_diag *d)                                                            \
    {                                                                                           \
        (void)self, (void)draw, (void)clock, (void)d;                                           \
        __VA_ARGS__;                                                                            \
        return 0;                                                                               \
    }                                                                                           \
    static const dg_node_class id = { DG_NODE_CLASS,           .name = "broken." #id,           \
                                      .role = DG_ROLE_AUGMENT, .brief = "Breaks its contract.", \
                                      .ports = item_ports,     .item = id##_item }

ITEM(boxes, for (int i = 0; i < sm->n_objects; i++) sm->objects[i].box.x2 += sm->image.w);
ITEM(drops, if (sm->n_objects > 2) return 1);
ITEM(further, dg_sample other; if (dg_sample_further(&other, sm, draw, d) < 0) return -1);
ITEM(shared, sm->image.rgb[0] = (uint8_t)(atomic_fetch_add(&calls, 1) & 255));
ITEM(beyond, sm->image.rgb[3 * sm->image.w * sm->image.h] = 1);
ITEM(renamed, sm->image_id = 1);
ITEM(crash, if (sm->n_objects > 2) raise(SIGKILL));
ITEM(quits, exit(3));
ITEM(leaves, exit(0));
ITEM(fine, dg_sample_flip(sm));

DG_PLUGIN("broken", "1", &shape, &dims, &missing, &mode, &unused, &empty, &range, &invariant,
          &collective, &gradient, &outside, &input, &unwritten, &random, &threads, &rounded, &half,
          &flat, &boxes, &drops, &further, &shared, &beyond, &renamed, &crash, &quits, &leaves,
          &fine);
