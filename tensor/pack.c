/* pack.c: convolutions of a device that wants their kernels packed (kernels/ref/conv.c), after
 * types are chosen:
 *
 *     conv2d, batch_norm_fixed  ->  fold_norm, conv_packed with residual and activation
 *     conv2d, conv2d_dx         ->  pack_kernel, once for all readers of a kernel; conv_packed...
 *     conv2d_dw                 ->  conv_packed_dw, unpack_kernel
 *
 * Packing depends on parameters alone and unpacking is read late, so many of them join (join.c). */
#include <string.h>

#include "tensor/fuse.h"
#include "tensor/ops.h"
#include "tensor/passes.h"
#include "tensor/rules.h"

typedef struct packed {
    int32_t w, k;
} packed;

/* A convolution that a norm is folded into. k 0: none. */
typedef struct folded {
    int conv;
    int32_t k, c;
} folded;

typedef struct packer {
    dg_program *p;
    dg_fusion f;
    folded *folded; /* per instruction, which is the norm */
    DG_VEC(packed) known;
    DG_VEC(dg_instr) out;
} packer;

static const dg_value *value(const packer *s, int32_t v)
{
    return &s->p->values.items[v];
}

static const dg_instr *instr(const packer *s, int i)
{
    return &s->p->instrs.items[i];
}

static int32_t new_value(packer *s, dg_dtype dtype, dg_shape shape)
{
    return dg_program_value(s->p, (dg_value){ .dtype = dtype, .shape = shape, .param = -1 });
}

/* An instruction where `near` is, and in its place. */
static dg_instr make(const packer *s, const dg_instr *near, const dg_op *op, const void *attr,
                     int n_in, int n_out, const int32_t *v)
{
    dg_instr in = *near;

    in.op = op;
    in.attr = dg_memdup(s->p->arena, attr, op->attr_bytes);
    in.n_in = n_in;
    in.n_out = n_out;
    in.v = dg_memdup(s->p->arena, v, (size_t)(n_in + n_out) * sizeof *v);
    return in;
}

static void put(packer *s, dg_instr in)
{
    DG_PUSH(s->p->arena, s->out, in);
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* For all readers of w, which may have other guards than the first. */
static void put_for_readers(packer *s, dg_instr in, int32_t w)
{
    in.guard = dg_program_guard(s->p, w);
    in.otherwise = 0;
    put(s, in);
}

/* w packed, in the type of what it is multiplied with. */
static int32_t pack(packer *s, const dg_instr *near, int32_t w, dg_dtype type)
{
    const no_attr none = { 0 };
    packed one = { .w = w };

    for (int i = 0; i < s->known.n; i++)
        if (s->known.items[i].w == w && value(s, s->known.items[i].k)->dtype == type)
            return s->known.items[i].k;
    one.k = new_value(s, type, dg_packed_shape(value(s, w)->shape));
    put_for_readers(s, make(s, near, DG_OP(pack_kernel), &none, 1, 1, (int32_t[]){ w, one.k }), w);
    DG_PUSH(s->p->arena, s->known, one);
    return one.k;
}

/* A convolution whose result only a frozen norm reads: that norm's place; else -1. Kernels store
 * all operands in one type. */
static int norm_behind(const packer *s, int i)
{
    const int32_t *v = instr(s, i)->v, y = v[3];
    const dg_dtype type = value(s, y)->dtype;
    int j = dg_fusion_reader(&s->f, y, i);
    const dg_instr *norm = j < 0 ? NULL : instr(s, j);

    if (!norm || v[2] || norm->op != DG_OP(batch_norm_fixed) || norm->v[0] != y ||
        value(s, v[0])->dtype != type || value(s, norm->v[6])->dtype != type ||
        (norm->v[5] && value(s, norm->v[5])->dtype != type))
        return -1;
    return j;
}

static void fold(packer *s, int i, int j)
{
    const dg_instr *conv = instr(s, i), *norm = instr(s, j);
    const dg_shape shape = value(s, conv->v[1])->shape;
    const int32_t k = new_value(s, value(s, conv->v[0])->dtype, dg_packed_shape(shape)),
                  c = new_value(s, value(s, norm->v[1])->dtype, DG_SHAPE(shape.d[0]));
    const int32_t v[] = { conv->v[1], norm->v[1], norm->v[2], norm->v[3], norm->v[4], k, c };

    put_for_readers(s, make(s, conv, DG_OP(fold_norm), norm->attr, 5, 2, v), conv->v[1]);
    s->folded[j] = (folded){ i, k, c };
    s->p->values.items[conv->v[3]].producer = -2;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static void put_norm(packer *s, int i)
{
    const folded *of = &s->folded[i];
    const dg_instr *conv = instr(s, of->conv), *norm = instr(s, i);
    const norm_attr *f = norm->attr;
    const conv_act_attr attr = { *(const conv_attr *)conv->attr, f->act };

    put(s, make(s, norm, DG_OP(conv_packed), &attr, 4, 1,
                (int32_t[]){ conv->v[0], of->k, of->c, norm->v[5], norm->v[6] }));
}

static void put_conv(packer *s, int i)
{
    const dg_instr *in = instr(s, i);
    const conv_act_attr attr = { *(const conv_attr *)in->attr, DG_ACT_NONE };
    const int32_t k = pack(s, in, in->v[1], value(s, in->v[0])->dtype);

    put(s, make(s, in, DG_OP(conv_packed), &attr, 4, 1,
                (int32_t[]){ in->v[0], k, in->v[2], 0, in->v[3] }));
}

static void put_dx(packer *s, int i)
{
    const dg_instr *in = instr(s, i);
    const int32_t k = pack(s, in, in->v[1], value(s, in->v[0])->dtype);

    put(s,
        make(s, in, DG_OP(conv_packed_dx), in->attr, 2, 1, (int32_t[]){ in->v[0], k, in->v[2] }));
}

static void put_dw(packer *s, int i)
{
    const no_attr none = { 0 };
    const dg_instr *in = instr(s, i);
    const int32_t k =
        new_value(s, value(s, in->v[0])->dtype, dg_packed_shape(value(s, in->v[2])->shape));

    put(s,
        make(s, in, DG_OP(conv_packed_dw), in->attr, 2, 1, (int32_t[]){ in->v[0], in->v[1], k }));
    put(s, make(s, in, DG_OP(unpack_kernel), &none, 1, 1, (int32_t[]){ k, in->v[2] }));
}

static void convert(packer *s, int i)
{
    const dg_op *op = instr(s, i)->op;
    int j = op == DG_OP(conv2d) ? norm_behind(s, i) : -1;

    if (s->folded[i].k)
        put_norm(s, i);
    else if (j >= 0)
        fold(s, i, j);
    else if (op == DG_OP(conv2d))
        put_conv(s, i);
    else if (op == DG_OP(conv2d_dx))
        put_dx(s, i);
    else if (op == DG_OP(conv2d_dw))
        put_dw(s, i);
    else
        put(s, *instr(s, i));
}

static bool wants_packed(dg_backend *b)
{
    const dg_tensor one = { DG_F32, DG_SHAPE(1, 1, 1, 1), NULL }, t[] = { one, one };
    bool is_ref = false;

    return b && b->select(b, DG_OP(pack_kernel), t, 2, &is_ref) && !is_ref;
}

void dg_pass_pack(dg_program *p, dg_backend *backend)
{
    dg_arena *scratch;
    packer s = { .p = p };

    if (!wants_packed(backend))
        return;
    scratch = dg_arena_open();
    s.f = dg_fusion_open(p, scratch);
    s.folded = DG_NEW_N(scratch, p->instrs.n + 1, folded);
    for (int i = 0; i < p->instrs.n; i++)
        convert(&s, i);
    p->instrs.items = s.out.items;
    p->instrs.n = s.out.n;
    p->instrs.cap = s.out.cap;
    dg_program_renumber(p);
    dg_arena_close(&scratch);
}
