/* ops.c: the table of ops: rows of ops.def joined with attribute fields, rules, kernels and
 * costs. */
#include "tensor/ops.h"

#include <stddef.h>
#include <string.h>

#include <detrgraph/heads.h>

#include "tensor/rules.h"

/* ---- fields of the attribute structs --------------------------------------------------------- */

#define INT(type, field) { #field, DG_FIELD_INT, offsetof(type, field), 1 }
#define REAL(type, field) { #field, DG_FIELD_REAL, offsetof(type, field), 1 }
#define INTS(type, field, count) { #field, DG_FIELD_INTS, offsetof(type, field), count }
#define END { NULL, DG_FIELD_INT, 0, 0 }

static const dg_field fields_no_attr[] = { END };
static const dg_field fields_conv_attr[] = {
    INT(conv_attr, stride), INT(conv_attr, pad),   INT(conv_attr, h),
    INT(conv_attr, w),      INT(conv_attr, exact), END,
};
static const dg_field fields_depthwise_attr[] = { INT(depthwise_attr, flip),
                                                  INT(depthwise_attr, size), END };
static const dg_field fields_matmul_attr[] = { INT(matmul_attr, trans_a), INT(matmul_attr, trans_b),
                                               END };
static const dg_field fields_matmul_act_attr[] = { INT(matmul_act_attr, of.trans_a),
                                                   INT(matmul_act_attr, of.trans_b),
                                                   INT(matmul_act_attr, act), END };
static const dg_field fields_norm_attr[] = {
    REAL(norm_attr, eps), INT(norm_attr, act), INT(norm_attr, fixed), INT(norm_attr, plain), END,
};
static const dg_field fields_conv_act_attr[] = {
    INT(conv_act_attr, conv.stride),
    INT(conv_act_attr, conv.pad),
    INT(conv_act_attr, act),
    END,
};
static const dg_field fields_sync_attr[] = {
    REAL(sync_attr, norm.eps),
    INT(sync_attr, norm.act),
    INT(sync_attr, norm.fixed),
    INT(sync_attr, norm.plain),
    INT(sync_attr, axis),
    INT(sync_attr, ranks),
    END,
};
static const dg_field fields_stat_attr[] = { REAL(stat_attr, momentum), INT(stat_attr, count),
                                             END };
static const dg_field fields_attention_attr[] = {
    INT(attention_attr, heads),
    INT(attention_attr, capacity),
    END,
};
static const dg_field fields_affine_attr[] = { REAL(affine_attr, a), REAL(affine_attr, c), END };
static const dg_field fields_truth_attr[] = { INT(truth_attr, negate), END };
static const dg_field fields_axes_attr[] = { INT(axes_attr, axes), INT(axes_attr, keep), END };
static const dg_field fields_axis_attr[] = {
    INT(axis_attr, axis),
    INT(axis_attr, begin),
    INT(axis_attr, end),
    END,
};
static const dg_field fields_shape_attr[] = {
    { "d", DG_FIELD_SHAPE, offsetof(shape_attr, rank), 1 },
    END,
};
static const dg_field fields_fill_attr[] = {
    REAL(fill_attr, a),
    { "d", DG_FIELD_SHAPE, offsetof(fill_attr, rank), 1 },
    END,
};
static const dg_field fields_pool_attr[] = {
    INT(pool_attr, size), INT(pool_attr, stride), INT(pool_attr, pad),
    INT(pool_attr, h),    INT(pool_attr, w),      END,
};
static const dg_field fields_index_attr[] = { INT(index_attr, n), INT(index_attr, padding), END };
static const dg_field fields_sine_attr[] = { INT(sine_attr, n), REAL(sine_attr, temperature), END };
static const dg_field fields_deform_attr[] = {
    INT(deform_attr, heads),
    INT(deform_attr, discrete),
    INT(deform_attr, n_levels),
    INTS(deform_attr, h, DG_MAX_LEVELS),
    INTS(deform_attr, w, DG_MAX_LEVELS),
    INTS(deform_attr, points, DG_MAX_LEVELS),
    END,
};
static const dg_field fields_uniform_attr[] = {
    INT(uniform_attr, key),
    { "d", DG_FIELD_SHAPE, offsetof(uniform_attr, rank), 1 },
    END,
};
static const dg_field fields_ramp_attr[] = {
    INT(ramp_attr, steps),
    REAL(ramp_attr, before),
    REAL(ramp_attr, last),
    REAL(ramp_attr, after),
    END,
};
static const dg_field fields_reduce_attr[] = {
    INT(reduce_attr, op),
    INT(reduce_attr, axis),
    INT(reduce_attr, root),
    INT(reduce_attr, ranks),
    END,
};
static const dg_field fields_bucket_attr[] = {
    INT(bucket_attr, op),    INT(bucket_attr, axis), INT(bucket_attr, bucket),
    INT(bucket_attr, begin), INT(bucket_attr, end),  END,
};
static const dg_field fields_cast_attr[] = { { "to", DG_FIELD_DTYPE, offsetof(cast_attr, to), 1 },
                                             END };
static const dg_field fields_adamw_attr[] = {
    REAL(adamw_attr, beta1), REAL(adamw_attr, beta2),   REAL(adamw_attr, eps),
    REAL(adamw_attr, clip),  INT(adamw_attr, n_ranges), END,
};
static const dg_field fields_ema_attr[] = { INT(ema_attr, begin), INT(ema_attr, end), END };
static const dg_field fields_dg_denoise_attr[] = {
    INT(dg_denoise_attr, count),
    INT(dg_denoise_attr, capacity),
    INT(dg_denoise_attr, classes),
    REAL(dg_denoise_attr, label_noise),
    REAL(dg_denoise_attr, box_noise),
    INT(dg_denoise_attr, on_empty),
    END,
};
static const dg_field fields_match_attr[] = {
    REAL(match_attr, class_weight),
    REAL(match_attr, l1_weight),
    REAL(match_attr, giou_weight),
    REAL(match_attr, alpha),
    REAL(match_attr, gamma),
    REAL(match_attr, eps),
    END,
};
static const dg_field fields_mask_attr[] = { REAL(mask_attr, ce_weight),
                                             REAL(mask_attr, dice_weight), END };
static const dg_field fields_dg_class_loss_attr[] = {
    INT(dg_class_loss_attr, focal),
    REAL(dg_class_loss_attr, alpha),
    REAL(dg_class_loss_attr, gamma),
    END,
};

static const dg_field fields_dg_anchor_attr[] = {
    INT(dg_anchor_attr, n_levels),
    INTS(dg_anchor_attr, h, DG_MAX_LEVELS),
    INTS(dg_anchor_attr, w, DG_MAX_LEVELS),
    INTS(dg_anchor_attr, stride, DG_MAX_LEVELS),
    INT(dg_anchor_attr, ratios),
    INT(dg_anchor_attr, octaves),
    REAL(dg_anchor_attr, base),
    REAL(dg_anchor_attr, ratio[0]),
    REAL(dg_anchor_attr, ratio[1]),
    REAL(dg_anchor_attr, ratio[2]),
    END,
};
static const dg_field fields_dg_delta_attr[] = {
    REAL(dg_delta_attr, centre_std),
    REAL(dg_delta_attr, side_std),
    REAL(dg_delta_attr, limit),
    END,
};
static const dg_field fields_dg_assign_attr[] = {
    REAL(dg_assign_attr, positive),    REAL(dg_assign_attr, negative),
    REAL(dg_assign_attr, low_quality), REAL(dg_assign_attr, tie),
    INT(dg_assign_attr, own_rows),     END,
};
static const dg_field fields_dg_atss_attr[] = {
    INT(dg_atss_attr, n_levels),
    INTS(dg_atss_attr, n, DG_MAX_LEVELS),
    INT(dg_atss_attr, nearest),
    END,
};
static const dg_field fields_dg_sample_attr[] = { INT(dg_sample_attr, n), INT(dg_sample_attr, most),
                                                  END };
static const dg_field fields_dg_query_attr[] = { INT(dg_query_attr, capacity),
                                                 INT(dg_query_attr, least), END };
static const dg_field fields_dg_level_topk_attr[] = {
    INT(dg_level_topk_attr, n_levels),
    INTS(dg_level_topk_attr, n, DG_MAX_LEVELS),
    INT(dg_level_topk_attr, k),
    END,
};
static const dg_field fields_dg_nms_attr[] = {
    INT(dg_nms_attr, n),
    REAL(dg_nms_attr, iou),
    REAL(dg_nms_attr, least),
    END,
};
static const dg_field fields_dg_roi_attr[] = {
    INT(dg_roi_attr, size),     REAL(dg_roi_attr, finest),
    INT(dg_roi_attr, n_levels), INTS(dg_roi_attr, stride, DG_MAX_LEVELS),
    INT(dg_roi_attr, level),    INT(dg_roi_attr, h),
    INT(dg_roi_attr, w),        END,
};
static const dg_field fields_dg_focal_attr[] = { REAL(dg_focal_attr, alpha),
                                                 REAL(dg_focal_attr, gamma), END };

/* ---- cost: multiplications and additions count separately ------------------------------------ */

static double elements(const dg_tensor *t)
{
    return (double)dg_shape_elements(t->shape);
}

static double last(const dg_tensor *t)
{
    return t->shape.rank ? (double)t->shape.d[t->shape.rank - 1] : 1;
}

/* y[B,H,W,O], each from kh kw I products; equal for output, data gradient and weight gradient */
static double flops_conv2d(const dg_tensor *t, int n, const void *attr)
{
    (void)attr;
    return 2 * elements(&t[n - 1]) * elements(&t[1]) / (double)t[1].shape.d[0];
}

static double flops_conv2d_dx(const dg_tensor *t, int n, const void *attr)
{
    (void)n, (void)attr;
    return 2 * elements(&t[0]) * elements(&t[1]) / (double)t[1].shape.d[0];
}

static double flops_conv2d_dw(const dg_tensor *t, int n, const void *attr)
{
    (void)attr;
    return 2 * elements(&t[1]) * elements(&t[n - 1]) / (double)t[n - 1].shape.d[0];
}

/* y[B,H,W,C], each from kh kw products */
static double flops_depthwise_conv(const dg_tensor *t, int n, const void *attr)
{
    (void)attr;
    return 2 * elements(&t[n - 1]) * elements(&t[1]) / (double)t[1].shape.d[0];
}

static double flops_depthwise_conv_dw(const dg_tensor *t, int n, const void *attr)
{
    (void)attr;
    return 2 * elements(&t[0]) * elements(&t[n - 1]) / (double)t[n - 1].shape.d[0];
}

static double flops_matmul(const dg_tensor *t, int n, const void *attr)
{
    const matmul_attr *a = attr;
    int r = t[0].shape.rank;

    return 2 * elements(&t[n - 1]) * (double)t[0].shape.d[a->trans_a ? r - 2 : r - 1];
}

/* q k^T and p v: 2 N S D each; backward: five of these products */
static double flops_attention(const dg_tensor *t, int n, const void *attr)
{
    (void)n, (void)attr;
    return 4 * elements(&t[0]) * (double)t[1].shape.d[1];
}

static double flops_attention_grad(const dg_tensor *t, int n, const void *attr)
{
    (void)n, (void)attr;
    return 10 * elements(&t[1]) * (double)t[2].shape.d[1];
}

/* per sampling point: four weighted neighbours for d channels, and the weighted sum */
static double flops_deform_attention(const dg_tensor *t, int n, const void *attr)
{
    const deform_attr *a = attr;

    (void)n;
    return 10 * elements(&t[3]) * last(&t[0]) / (double)a->heads;
}

static double flops_deform_attention_grad(const dg_tensor *t, int n, const void *attr)
{
    const deform_attr *a = attr;

    (void)n;
    return 25 * elements(&t[4]) * last(&t[1]) / (double)a->heads;
}

/* per point: four weighted neighbours of D channels, and their product with the query */
static double flops_mask_sample(const dg_tensor *t, int n, const void *attr)
{
    (void)attr;
    return 10 * elements(&t[n - 1]) * last(&t[0]);
}

static double flops_mask_sample_grad(const dg_tensor *t, int n, const void *attr)
{
    (void)n, (void)attr;
    return 16 * elements(&t[0]) * last(&t[1]);
}

static const struct {
    dg_op_id id;
    double (*flops)(const dg_tensor *t, int n, const void *attr);
} costs[] = {
    { DG_OP_conv2d, flops_conv2d },
    { DG_OP_conv_packed, flops_conv2d },
    { DG_OP_conv2d_dx, flops_conv2d_dx },
    { DG_OP_conv_packed_dx, flops_conv2d_dx },
    { DG_OP_conv2d_dw, flops_conv2d_dw },
    { DG_OP_conv_packed_dw, flops_conv2d_dw },
    { DG_OP_depthwise_conv, flops_depthwise_conv },
    { DG_OP_depthwise_conv_dw, flops_depthwise_conv_dw },
    { DG_OP_matmul, flops_matmul },
    { DG_OP_matmul_act, flops_matmul },
    { DG_OP_mask_sample, flops_mask_sample },
    { DG_OP_mask_sample_grad, flops_mask_sample_grad },
    { DG_OP_attention, flops_attention },
    { DG_OP_attention_grad, flops_attention_grad },
    { DG_OP_deform_attention, flops_deform_attention },
    { DG_OP_deform_attention_grad, flops_deform_attention_grad },
};

double dg_op_flops(const dg_op *op, const dg_tensor *t, int n, const void *attr)
{
    double largest = 0;

    if (op->flops)
        return op->flops(t, n, attr);
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++)
        if (op == &dg_ops[costs[i].id])
            return costs[i].flops(t, n, attr);
    for (int i = 0; i < n; i++)
        if (t[i].shape.rank >= 0 && elements(&t[i]) > largest)
            largest = elements(&t[i]);
    return largest;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Words of ops.def's columns -> symbols. */
#define dg_grad_stop NULL
#define REF_none(name, bits) NULL
#define REF_ref(name, bits) &dg_ref_##name##_f##bits
#define REF_simd REF_ref
#define REF_pairs REF_ref
#define REF_dnn REF_ref
#define HOST_none(name) NULL
#define HOST_ref(name) NULL
#define HOST_simd(name) &dg_host_##name
#define HOST_pairs HOST_simd
#define HOST_dnn HOST_simd

#define OP(name, signature, effect, precision, attr, shape, grad, host, tolerance) \
    extern const dg_kernel dg_ref_##name##_f32, dg_ref_##name##_f64, dg_host_##name;
#include "kernels/ops.def"
#undef OP

const dg_op dg_ops[DG_N_OPS] = {
#define OP(name_, signature_, effect_, precision_, attr_, shape_, grad_, host_, tolerance_) \
    [DG_OP_##name_] = {                                                                     \
        DG_OP_ROW,                                                                          \
        .name = #name_,                                                                     \
        .signature = signature_,                                                            \
        .effect = DG_##effect_,                                                             \
        .precision = DG_##precision_,                                                       \
        .attr_bytes = sizeof(attr_),                                                        \
        .fields = fields_##attr_,                                                           \
        .shape = dg_shape_##shape_,                                                         \
        .grad = dg_grad_##grad_,                                                            \
        .ref32 = REF_##host_(name_, 32),                                                    \
        .ref64 = REF_##host_(name_, 64),                                                    \
        .host = HOST_##host_(name_),                                                        \
        .tolerance = tolerance_,                                                            \
    },
#include "kernels/ops.def"
#undef OP
};

/* ---- signatures ------------------------------------------------------------------------------ */

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Parses one operand with its suffixes; returns the position after it, NULL if malformed. */
static const char *parse_operand(dg_signature *s, const char *p, bool output)
{
    dg_operand o = { .name = p, .dtype = DG_REAL, .alias = -1 };

    while (is_word(*p))
        p++;
    o.len = (int)(p - o.name);
    for (; *p && *p != ' '; p++) {
        if (*p == '?') {
            o.optional = true;
        } else if (*p == '*') {
            o.variadic = true;
        } else if (*p == ':') {
            p++;
            if (*p != 'u' && *p != 'i' && *p != 'b' && *p != 'f')
                return NULL;
            o.state = *p == 'u';
            o.wide = *p == 'f';
            o.dtype = *p == 'i' ? DG_I32 : *p == 'b' ? DG_U8 : o.dtype;
        } else if (*p == '(' && p[1] == '=') {
            const char *name = p + 2, *end = strchr(name, ')');

            for (int i = 0; end && i < s->n_in; i++)
                if (s->operand[i].len == end - name &&
                    !memcmp(s->operand[i].name, name, (size_t)(end - name)))
                    o.alias = i;
            if (o.alias < 0)
                return NULL;
            p = end;
        } else {
            return NULL;
        }
    }
    if (!o.len || s->n_in + s->n_out == DG_MAX_SIGNATURE || (s->variadic && !output) ||
        (output && o.variadic))
        return NULL;
    s->variadic |= o.variadic;
    s->operand[s->n_in + s->n_out] = o;
    if (output)
        s->n_out++;
    else
        s->n_in++;
    return p;
}

int dg_signature_parse(dg_signature *s, const char *text)
{
    bool output = false;

    s->n_in = s->n_out = 0; /* operands are set as they are found: every instruction is parsed */
    s->variadic = false;
    for (const char *p = text;;) {
        while (*p == ' ')
            p++;
        if (!*p)
            return output ? 0 : -DG_EINPUT;
        if (p[0] == '-' && p[1] == '>' && !output) {
            output = true;
            p += 2;
        } else if (!(p = parse_operand(s, p, output))) {
            return -DG_EINPUT;
        }
    }
}

const dg_signature *dg_signatures_get(dg_signatures *s, const dg_op *op)
{
    size_t at = ((uintptr_t)op - (uintptr_t)dg_ops) / sizeof *op;
    dg_signature *sig;

    if (at >= DG_N_OPS)
        return dg_signature_parse(&s->other, op->signature) < 0 ? NULL : &s->other;
    if (s->of[at])
        return s->of[at];
    sig = DG_NEW(s->arena, dg_signature);
    if (dg_signature_parse(sig, op->signature) < 0)
        return NULL;
    return s->of[at] = sig;
}

const dg_operand *dg_signature_at(const dg_signature *s, int n_in, int i)
{
    if (i >= n_in)
        return &s->operand[s->n_in + i - n_in];
    return &s->operand[i < s->n_in ? i : s->n_in - 1];
}

bool dg_signature_takes(const dg_signature *s, int n_in)
{
    return s->variadic ? n_in >= s->n_in : n_in == s->n_in;
}
