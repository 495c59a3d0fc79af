/* samples.h: at least one set of operands for every op: odd and non-square sizes, batches above
 * one, empty and masked inputs. Ops that autodiff emits (*_grad, *_dx, *_dw) get theirs from the
 * gradients of these. */
#ifndef DG_TESTS_OPS_SAMPLES_H
#define DG_TESTS_OPS_SAMPLES_H

#include "base/arena.h"
#include "tensor/ops.h"

enum { SAMPLE_MOST = 9 /* operands of a sample */ };

typedef enum operand_kind {
    OPERAND_ABSENT,
    OPERAND_LIVE,  /* real, takes part in the gradient check */
    OPERAND_FIXED, /* real, constant for gradients */
    OPERAND_I32,
} operand_kind;

typedef struct operand {
    operand_kind kind;
    dg_shape shape;
    const double *values;
} operand;

typedef struct sample {
    const dg_op *op;
    const char *what; /* "3x3, stride 2" */
    const void *attr;
    dg_control control;
    int n_in;
    operand in[SAMPLE_MOST];
    uint32_t loss; /* bit i: output i is in the loss of the gradient check; 0: no check */
    bool edges;    /* no derivative exists there: kernels are compared, gradients only run */
} sample;

typedef struct samples {
    dg_arena *arena;
    DG_VEC(sample *) list;
} samples;

void samples_of_layers(samples *s);    /* convolution, products, norms, attention */
void samples_of_elements(samples *s);  /* elementwise, shape, pooling, selection */
void samples_of_detection(samples *s); /* denoising, matching, losses, updates */
void samples_of_heads(samples *s);     /* anchors, regions, lists of rows */
void samples_of_ranks(samples *s);     /* of the values of several ranks */
void samples_of_all(samples *s);

/* What sample files are written with: a new sample, then its operands in order. */
sample *sample_add(samples *s, const dg_op *op, const char *what, const void *attr,
                   size_t attr_bytes);
void sample_real(samples *s, double lo, double hi, dg_shape shape); /* live, uniform */
void sample_fixed(samples *s, double lo, double hi, dg_shape shape);
void sample_real_list(samples *s, dg_shape shape, const double *values);
void sample_i32_list(samples *s, dg_shape shape, const int *values);
void sample_none(samples *s);

#define ADD(s, name, what, type, ...) \
    sample_add(s, DG_OP(name), what, &(type){ __VA_ARGS__ }, sizeof(type))
#define INTS(...) ((const int[]){ __VA_ARGS__ })
#define REALS(...) ((const double[]){ __VA_ARGS__ })

#endif
