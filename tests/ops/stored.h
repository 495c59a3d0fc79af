/* stored.h: one case for each entry of data/ops.json and of data/ops_rfdetr.json. */
#ifndef DG_TESTS_OPS_STORED_H
#define DG_TESTS_OPS_STORED_H

#include "tests/check.h"
#include "tests/ops/stored_model.h"
#include <detrgraph/node.h>

typedef struct fixture {
    dg_arena *arena;
    dg_diag *d;
    const dg_json *file, *rfdetr;
    stored_worst worst[2];
    int entries;
} fixture;

/* In stored_layers.c, stored_detection.c and stored_nodes.c. */
/* clang-format off */
#define STORED_CASES(X) \
    X(msda_core) X(msda_core_discrete) X(msda_module) X(mha) X(batchnorm_train) X(batchnorm_frozen) \
    X(layernorm) X(gelu) X(silu) X(inverse_sigmoid) X(repvgg) X(csp_rep) X(basic_block_d_stride2) \
    X(maxpool_3_2_1) X(vfl) X(loss_bbox) X(loss_giou) X(giou_pairwise) X(matcher) X(dn_group) \
    X(dn_group_empty) X(adamw_clip) X(anchors) X(anchors_border) X(aifi_pos) X(ema_decay) \
    X(warmup_linear)

/* In stored_rfdetr.c; from the positions on in stored_rfdetr_model.c. */
#define RFDETR_CASES(X) \
    X(sine_embedding) X(msda_module) X(proposals) X(proposals_border_49) X(proposals_border_50) \
    X(proposals_border_56_14) X(loss_ce) X(loss_bbox) X(loss_giou) X(matcher) X(lr_factor) \
    X(ema_decay) \
    X(position_resize_24_8) X(position_resize_24_14) X(position_resize_24_34) \
    X(position_resize_37_12) X(position_resize_36_10) X(channel_layernorm) X(c2f) \
    X(batch_resize_24_10) X(batch_resize_16_24) X(batch_resize_18_12) X(multi_scale)
/* clang-format on */
#define DECLARE(name) void stored_##name(void **state);
STORED_CASES(DECLARE)
#undef DECLARE
#define DECLARE(name) void stored_rfdetr_##name(void **state);
RFDETR_CASES(DECLARE)
#undef DECLARE

/* Runs fn in f32 and in f64 on the entry of this name of a file. */
void stored_run(fixture *f, const dg_json *file, const char *name, void (*fn)(model *m));
/* A class's conf with the defaults of its table. */
void *stored_conf(model *m, const dg_node_class *class);
/* Sets a member of it: a real, an integer, a word's number or a flag; others stay 0. */
void stored_set(const dg_node_class *class, void *conf, const char *name, double value);

/* CASE(name) { ... } defines the test of the entry `name`, with `m` open. */
#define CASE(name)                                  \
    static void body_##name(model *m);              \
    void stored_##name(void **state)                \
    {                                               \
        fixture *f = *state;                        \
                                                    \
        stored_run(f, f->file, #name, body_##name); \
    }                                               \
    static void body_##name(model *m)
#define RFDETR_CASE(name)                             \
    static void body_##name(model *m);                \
    void stored_rfdetr_##name(void **state)           \
    {                                                 \
        fixture *f = *state;                          \
                                                      \
        stored_run(f, f->rfdetr, #name, body_##name); \
    }                                                 \
    static void body_##name(model *m)

#endif
