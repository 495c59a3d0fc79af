/* dnn.c: convolution, its two gradients, and the matrix product, on oneDNN 2.x or 3.x. The only
 * file that knows its API, with the names of 3.x for 2.x, which makes it long.
 *
 * Activations are channels-last, weights f32 in the checkpoint's layout (O,I,kh,kw). A primitive
 * may choose the layout of its weights ("any"); each run reorders them to it in workspace. bf16
 * operands are multiplied as bf16 where oneDNN can (AVX-512), else widened to f32 in workspace. */
#include "kernels/attrs.h"

#include <stdio.h>

#include "base/pool.h"
#include "kernels/backend.h"
#include "kernels/host/host.h"
#include "kernels/host/taps.h"

#ifndef DG_REF_ONLY /* else no_dnn.c */

#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

/* ---- oneDNN 2.x ------------------------------------------------------------------------------ */

/* The rest of this file is written for 3.x, where a layout is an opaque object and arguments
 * describe an op. In 2.x the caller fills structs for both; these functions give them 3.x's names.
 */
#if DNNL_VERSION_MAJOR == 3

typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t const_layout;

#elif DNNL_VERSION_MAJOR == 2

typedef dnnl_memory_desc_t *layout;
typedef const dnnl_memory_desc_t *const_layout;

static dnnl_status_t dnnl_memory_desc_destroy(layout l)
{
    free(l);
    return dnnl_success;
}

static dnnl_status_t dnnl_memory_desc_create_with_strides(layout *l, int rank,
                                                          const dnnl_dims_t dims,
                                                          dnnl_data_type_t type,
                                                          const dnnl_dims_t strides)
{
    *l = malloc(sizeof **l);
    return *l ? dnnl_memory_desc_init_by_strides(*l, rank, dims, type, strides)
              : dnnl_out_of_memory;
}

static dnnl_status_t dnnl_memory_desc_create_with_tag(layout *l, int rank, const dnnl_dims_t dims,
                                                      dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    *l = malloc(sizeof **l);
    return *l ? dnnl_memory_desc_init_by_tag(*l, rank, dims, type, tag) : dnnl_out_of_memory;
}

static dnnl_status_t dnnl_matmul_primitive_desc_create(dnnl_primitive_desc_t *pd,
                                                       dnnl_engine_t engine, const_layout a,
                                                       const_layout b, const_layout bias,
                                                       const_layout y,
                                                       const_dnnl_primitive_attr_t attr)
{
    dnnl_matmul_desc_t d;
    dnnl_status_t st = dnnl_matmul_desc_init(&d, a, b, bias, y);

    return st != dnnl_success ? st : dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

static dnnl_status_t dnnl_convolution_forward_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_prop_kind_t kind, dnnl_alg_kind_t alg,
    const_layout x, const_layout w, const_layout bias, const_layout y, const dnnl_dims_t stride,
    const dnnl_dims_t dilate, const dnnl_dims_t before, const dnnl_dims_t after,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t st = dnnl_dilated_convolution_forward_desc_init(&d, kind, alg, x, w, bias, y,
                                                                  stride, dilate, before, after);

    return st != dnnl_success ? st : dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

static dnnl_status_t dnnl_convolution_backward_data_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, const_layout dx,
    const_layout w, const_layout dy, const dnnl_dims_t stride, const dnnl_dims_t dilate,
    const dnnl_dims_t before, const dnnl_dims_t after, const_dnnl_primitive_desc_t hint,
    const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t st = dnnl_dilated_convolution_backward_data_desc_init(&d, alg, dx, w, dy, stride,
                                                                        dilate, before, after);

    return st != dnnl_success ? st : dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

static dnnl_status_t dnnl_convolution_backward_weights_primitive_desc_create(
    dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, const_layout x,
    const_layout dw, const_layout dbias, const_layout dy, const dnnl_dims_t stride,
    const dnnl_dims_t dilate, const dnnl_dims_t before, const dnnl_dims_t after,
    const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t st =
        dnnl_dilated_convolution_backward_weights_desc_init(&d, alg, x, dw, dbias, dy, stride,
                                                            dilate, before, after);

    return st != dnnl_success ? st : dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

#else
#error "dnn.c knows oneDNN 2 and 3: ./configure --with-onednn=DIR takes one of them from DIR"
#endif

/* ---- jobs ------------------------------------------------------------------------------------ */

/* An operand on its way to a primitive: (widen) -> (reorder) -> primitive; outputs in reverse. */
typedef struct slot {
    int arg;     /* DNNL_ARG_... */
    int operand; /* index into dg_args.t */
    bool output;
    dg_dtype stored; /* the operand's own type */
    int64_t n;       /* its elements */
    int rank;        /* the plain layout: in the operand's type, or widened to f32 */
    dnnl_dims_t dims, strides;
    dnnl_data_type_t type;
    bool widen;
    dnnl_primitive_t reorder;    /* NULL: the primitive takes the plain layout, or it is packed: */
    int64_t packed;              /* dg_host_pack fills blocks of so many columns */
    size_t widen_at, reorder_at; /* offsets in workspace */
    dnnl_memory_t plain, wanted;
} slot;

enum {
    MAX_SLOTS = 4,
    MAX_WISHES = 2 * MAX_SLOTS, /* a gradient's hint may want its operands in another type */
    ANY_ROWS = 512, /* so many rows make it pay to bring a shared B into another layout */
};

typedef struct job {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_memory_t scratch, reorder_scratch[MAX_SLOTS];
    size_t scratch_at, scratch_bytes; /* one region: primitives run one after the other */
    size_t bytes;
    int n;
    slot s[MAX_SLOTS];
} job;

/* A primitive descriptor under construction: compute is the type that is multiplied. */
typedef struct recipe {
    job *j;
    dnnl_data_type_t compute;
    dnnl_primitive_desc_t pd, hint;
    dnnl_primitive_attr_t attr;
    layout wishes[MAX_WISHES];
    int n;
    int rc; /* the first wish that failed */
} recipe;

#define CALL(call)                  \
    do {                            \
        dnnl_status_t st_ = (call); \
        if (st_ != dnnl_success) {  \
            rc = status(st_);       \
            goto out;               \
        }                           \
    } while (0)

static int status(dnnl_status_t s)
{
    return s == dnnl_success         ? 0
           : s == dnnl_out_of_memory ? -DG_EMEMORY
           : s == dnnl_unimplemented ? -DG_EUNSUPPORTED
                                     : -DG_EINTERNAL;
}

static dnnl_data_type_t type_of(dg_dtype t)
{
    return t == DG_BF16 ? dnnl_bf16 : dnnl_f32;
}

static int make_scratch(job *j, dnnl_primitive_desc_t pd, dnnl_memory_t *m)
{
    const_layout l = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = dnnl_memory_desc_get_size(l);

    if (bytes > j->scratch_bytes)
        j->scratch_bytes = bytes;
    return status(dnnl_memory_create(m, l, j->engine, DNNL_MEMORY_NONE));
}

static size_t reserve(job *j, size_t bytes)
{
    size_t at = j->bytes;

    j->bytes += (bytes + 63) & ~(size_t)63;
    return at;
}

static void job_close(void *handle)
{
    job *j = handle;

    if (!j)
        return;
    for (int i = 0; i < j->n; i++) {
        dnnl_memory_destroy(j->s[i].plain);
        dnnl_memory_destroy(j->s[i].wanted);
        dnnl_memory_destroy(j->reorder_scratch[i]);
        dnnl_primitive_destroy(j->s[i].reorder);
    }
    dnnl_memory_destroy(j->scratch);
    dnnl_primitive_destroy(j->primitive);
    dnnl_stream_destroy(j->stream);
    dnnl_engine_destroy(j->engine);
    free(j);
}

static int job_open(job **out)
{
    job *j = calloc(1, sizeof *j);
    int rc = 0;

    *out = j;
    if (!j)
        return -DG_EMEMORY;
    CALL(dnnl_engine_create(&j->engine, dnnl_cpu, 0));
    CALL(dnnl_stream_create(&j->stream, j->engine, dnnl_stream_default_flags));
out:
    return rc;
}

/* Declares operand `operand` as argument `arg`, with dimensions in oneDNN's order and the
 * strides it has in memory. */
static slot *add_slot(recipe *r, int arg, int operand, const dg_tensor *t, int rank,
                      const int64_t *d, const int64_t *stride)
{
    slot *s = &r->j->s[r->j->n++];

    for (int i = 0; i < rank; i++) {
        s->dims[i] = d[i];
        s->strides[i] = stride[i];
    }
    s->rank = rank;
    s->arg = arg;
    s->operand = operand;
    s->stored = t->dtype;
    s->n = dg_shape_elements(t->shape);
    s->widen = t->dtype == DG_BF16 && r->compute == dnnl_f32;
    s->type = s->widen ? dnnl_f32 : type_of(t->dtype);
    return s;
}

/* The layout to ask for: one with a name, in the type given. It lives as long as the recipe; r->rc
 * tells where that failed. */
static const_layout wish_tag(recipe *r, const slot *s, dnnl_format_tag_t tag, dnnl_data_type_t type)
{
    layout *l = &r->wishes[r->n++];
    dnnl_status_t st =
        tag == dnnl_format_tag_undef
            ? dnnl_memory_desc_create_with_strides(l, s->rank, s->dims, type, s->strides)
            : dnnl_memory_desc_create_with_tag(l, s->rank, s->dims, type, tag);

    if (st != dnnl_success && r->rc == 0)
        r->rc = status(st);
    return *l;
}

/* The operand's own layout, or any that the primitive prefers. */
static const_layout wish_as(recipe *r, const slot *s, bool any, dnnl_data_type_t type)
{
    return wish_tag(r, s, any ? dnnl_format_tag_any : dnnl_format_tag_undef, type);
}

/* In the type of the product, except for results and biases, which may stay f32. */
static const_layout wish(recipe *r, const slot *s, bool any)
{
    return wish_as(r, s, any, s->output || s->arg == DNNL_ARG_BIAS ? s->type : r->compute);
}

/* Columns in a block of a product's weights where dg_host_pack fills the layout: it does so faster
 * than the library. Else 0. */
static int64_t packed_width(const slot *s, const_layout wanted)
{
    const struct {
        dnnl_format_tag_t tag;
        int64_t width;
    } known[] = {
        { dnnl_BA16a64b2a, 64 },
        { dnnl_BA16a48b2a, 48 },
        { dnnl_BA16a32b2a, 32 },
        { dnnl_BA16a16b2a, 16 },
    };
    int64_t width = 0;

    if (s->arg != DNNL_ARG_WEIGHTS || s->output || s->rank != 2 || s->widen)
        return 0;
    for (size_t k = 0; k < sizeof known / sizeof *known && width == 0; k++) {
        layout l = NULL;

        if (dnnl_memory_desc_create_with_tag(&l, s->rank, s->dims, dnnl_bf16, known[k].tag) ==
                dnnl_success &&
            dnnl_memory_desc_equal(l, wanted))
            width = known[k].width;
        dnnl_memory_desc_destroy(l);
    }
    return width;
}

static int finish_slot(recipe *r, int i, const_layout wanted)
{
    job *j = r->j;
    slot *s = &j->s[i];
    layout own = NULL;
    dnnl_primitive_desc_t pd = NULL;
    int rc = 0;

    if (s->widen)
        s->widen_at = reserve(j, (size_t)s->n * sizeof(float));
    CALL(dnnl_memory_desc_create_with_strides(&own, s->rank, s->dims, s->type, s->strides));
    CALL(dnnl_memory_create(&s->plain, own, j->engine, DNNL_MEMORY_NONE));
    CALL(dnnl_memory_create(&s->wanted, wanted, j->engine, DNNL_MEMORY_NONE));
    if (dnnl_memory_desc_equal(own, wanted))
        goto out;
    s->reorder_at = reserve(j, dnnl_memory_desc_get_size(wanted));
    s->packed = packed_width(s, wanted);
    if (s->packed)
        goto out;
    CALL(dnnl_reorder_primitive_desc_create(&pd, s->output ? wanted : own, j->engine,
                                            s->output ? own : wanted, j->engine, r->attr));
    CALL(dnnl_primitive_create(&s->reorder, pd));
    DG_TRY(make_scratch(j, pd, &j->reorder_scratch[i]));
out:
    dnnl_primitive_desc_destroy(pd);
    dnnl_memory_desc_destroy(own);
    return rc;
}

/* Makes the primitive of r->pd and the way of each operand to and from it. */
static int job_finish(recipe *r)
{
    job *j = r->j;
    int rc = 0;

    CALL(dnnl_primitive_create(&j->primitive, r->pd));
    DG_TRY(make_scratch(j, r->pd, &j->scratch));
    for (int i = 0; i < j->n; i++)
        DG_TRY(
            finish_slot(r, i,
                        dnnl_primitive_desc_query_md(r->pd, dnnl_query_exec_arg_md, j->s[i].arg)));
    j->scratch_at = reserve(j, j->scratch_bytes);
out:
    return rc;
}

/* Tries to multiply in bf16 where the operands are bf16, then in f32. make fills r->pd. */
static int prepare(dg_prepare *p, bool bf16, int (*make)(dg_prepare *p, recipe *r))
{
    int before = dg_pool_team(p->threads), rc = -DG_EUNSUPPORTED;

    for (int attempt = bf16 ? 0 : 1; attempt < 2 && rc == -DG_EUNSUPPORTED; attempt++) {
        recipe r = { .compute = attempt == 0 ? dnnl_bf16 : dnnl_f32 };

        rc = job_open(&r.j);
        if (rc == 0)
            rc = status(dnnl_primitive_attr_create(&r.attr));
        if (rc == 0)
            rc = status(dnnl_primitive_attr_set_scratchpad_mode(r.attr, dnnl_scratchpad_mode_user));
        if (rc == 0)
            rc = make(p, &r);
        if (rc == 0)
            rc = job_finish(&r);
        dnnl_primitive_desc_destroy(r.pd);
        dnnl_primitive_desc_destroy(r.hint);
        dnnl_primitive_attr_destroy(r.attr);
        while (r.n > 0)
            dnnl_memory_desc_destroy(r.wishes[--r.n]);
        if (rc < 0) {
            job_close(r.j);
            r.j = NULL;
        }
        p->handle = r.j;
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): job_close freed what failed */
        p->workspace_bytes = r.j ? r.j->bytes : 0;
    }
    dg_pool_team(before);
    return rc;
}

/* ---- running --------------------------------------------------------------------------------- */

static void reorder(job *j, int i, bool output, char *scratch)
{
    slot *s = &j->s[i];
    dnnl_exec_arg_t a[] = {
        { DNNL_ARG_FROM, output ? s->wanted : s->plain },
        { DNNL_ARG_TO, output ? s->plain : s->wanted },
        { DNNL_ARG_SCRATCHPAD, j->reorder_scratch[i] },
    };

    dnnl_memory_set_data_handle(j->reorder_scratch[i], scratch);
    dnnl_primitive_execute(s->reorder, j->stream, 3, a);
}

static void pack(const slot *s, const void *from, void *to, int threads)
{
    dg_host_matrix m = { .data = from,
                         .k = s->dims[0],
                         .n = s->dims[1],
                         .k_step = s->strides[0],
                         .n_step = s->strides[1],
                         .low = s->stored == DG_BF16 };

    dg_host_pack(to, &m, s->packed, threads);
}

static int run(const dg_args *a)
{
    job *j = a->handle;
    char *ws = a->workspace;
    int before = dg_pool_team(a->threads), rc = 0, n = 0;
    dnnl_exec_arg_t args[MAX_SLOTS + 1];

    for (int i = 0; i < j->n; i++) {
        slot *s = &j->s[i];
        void *data = a->t[s->operand].data, *plain = s->widen ? ws + s->widen_at : data;

        if (s->widen && !s->output)
            dg_host_widen(plain, data, s->n, a->threads);
        dnnl_memory_set_data_handle(s->plain, plain);
        dnnl_memory_set_data_handle(s->wanted,
                                    s->reorder || s->packed ? ws + s->reorder_at : plain);
        if (s->packed)
            pack(s, data, ws + s->reorder_at, a->threads);
        if (s->reorder && !s->output)
            reorder(j, i, false, ws + j->scratch_at);
        args[n++] = (dnnl_exec_arg_t){ s->arg, s->wanted };
    }
    dnnl_memory_set_data_handle(j->scratch, ws + j->scratch_at);
    args[n++] = (dnnl_exec_arg_t){ DNNL_ARG_SCRATCHPAD, j->scratch };
    CALL(dnnl_primitive_execute(j->primitive, j->stream, n, args));
    for (int i = 0; i < j->n; i++) {
        slot *s = &j->s[i];

        if (s->output && s->reorder)
            reorder(j, i, true, ws + j->scratch_at);
        if (s->output && s->widen)
            dg_host_narrow(a->t[s->operand].data, ws + s->widen_at, s->n, a->threads);
    }
    CALL(dnnl_stream_wait(j->stream));
out:
    dg_pool_team(before);
    return rc;
}

/* ---- matrix product -------------------------------------------------------------------------- */

/* c may be NULL. */
static int product(recipe *r, const_layout a, const_layout b, const_layout c, const_layout y)
{
    if (r->rc < 0)
        return r->rc;
    return status(dnnl_matmul_primitive_desc_create(&r->pd, r->j->engine, a, b, c, y, r->attr));
}

/* y = A B + c, A [..,M,K] and B [..,K,N], each possibly stored transposed; c [N]. All of A shares a
 * 2-D B. Leading dimensions fold into one batch, or into M if B is shared and A not transposed. */
static int make_matmul(dg_prepare *p, recipe *r)
{
    const matmul_attr *at = p->attr;
    const dg_tensor *t = p->t, *y = &t[p->n - 1];
    int64_t m = y->shape.d[y->shape.rank - 2], n = y->shape.d[y->shape.rank - 1];
    int64_t k = t[0].shape.d[t[0].shape.rank - (at->trans_a ? 2 : 1)];
    int64_t batch = dg_shape_elements(y->shape) / (m * n),
            batch_b = dg_shape_elements(t[1].shape) / (k * n);
    bool any = batch_b == 1 && !at->trans_a && m * batch >= ANY_ROWS;
    int one; /* drop a batch dimension of 1 */
    slot *a, *b, *c = NULL, *dst;

    if (batch_b == 1 && !at->trans_a) {
        m *= batch;
        batch = 1;
    }
    one = batch == 1;
    a = add_slot(r, DNNL_ARG_SRC, 0, &t[0], 3 - one, &(int64_t[]){ batch, m, k }[one],
                 &(int64_t[]){ m * k, at->trans_a ? 1 : k, at->trans_a ? m : 1 }[one]);
    b = add_slot(r, DNNL_ARG_WEIGHTS, 1, &t[1], 3 - one, &(int64_t[]){ batch_b, k, n }[one],
                 &(int64_t[]){ k * n, at->trans_b ? 1 : n, at->trans_b ? k : 1 }[one]);
    if (dg_host_given(&t[2]))
        c = add_slot(r, DNNL_ARG_BIAS, 2, &t[2], 3 - one, &(int64_t[]){ 1, 1, n }[one],
                     &(int64_t[]){ n, n, 1 }[one]);
    dst = add_slot(r, DNNL_ARG_DST, p->n - 1, y, 3 - one, &(int64_t[]){ batch, m, n }[one],
                   &(int64_t[]){ m * n, n, 1 }[one]);
    dst->output = true;
    return product(r, wish(r, a, false), wish(r, b, any), c ? wish(r, c, false) : NULL,
                   wish(r, dst, false));
}

static int prepare_matmul(dg_prepare *p)
{
    return prepare(p, p->t[0].dtype == DG_BF16 || p->t[1].dtype == DG_BF16, make_matmul);
}

int dg_host_product(float *c, bool add, const float *a, bool turned, int64_t stride_a,
                    const float *b, int64_t stride_b, int64_t m, int64_t n, int64_t k)
{
    return status(dnnl_sgemm(turned ? 'T' : 'N', 'N', m, n, k, 1.f, a, stride_a, b, stride_b,
                             add ? 1.f : 0.f, c, n));
}

bool dg_host_library_has_avx2_only(void)
{
    int isa = (int)dnnl_get_effective_cpu_isa();

    return (isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2 &&
           (isa & dnnl_cpu_isa_avx512_core) != dnnl_cpu_isa_avx512_core;
}

/* ---- convolution ----------------------------------------------------------------------------- */

/* oneDNN counts dimensions as B,C,H,W whatever their order in memory. */
static slot *add_map(recipe *r, int arg, int operand, const dg_tensor *t)
{
    int64_t h = t->shape.d[1], w = t->shape.d[2], c = t->shape.d[3];

    return add_slot(r, arg, operand, t, 4, (int64_t[]){ t->shape.d[0], c, h, w },
                    (int64_t[]){ h * w * c, 1, w * c, c });
}

/* parts: as a convolution in groups, each of which sums over an equal part of I. */
static slot *add_weight(recipe *r, int arg, int operand, const dg_tensor *t, int64_t parts)
{
    const int64_t *d = t->shape.d, each = d[1] / parts, size = d[2] * d[3];
    int one = parts == 1; /* no axis of parts */

    return add_slot(r, arg, operand, t, 5 - one, &(int64_t[]){ parts, d[0], each, d[2], d[3] }[one],
                    &(int64_t[]){ each * size, d[1] * size, size, d[3], 1 }[one]);
}

typedef struct steps {
    dnnl_dims_t stride, dilate, pad; /* dilate: oneDNN counts from 0 */
} steps;

static steps steps_of(const conv_attr *at)
{
    return (steps){ { at->stride, at->stride }, { 0, 0 }, { at->pad, at->pad } };
}

/* The forward descriptor: the op itself, or the hint that gradients want. bias may be NULL. */
static int forward(recipe *r, const conv_attr *at, const_layout x, const_layout w,
                   const_layout bias, const_layout y, dnnl_primitive_desc_t *pd)
{
    steps s = steps_of(at);
    dnnl_engine_t engine = r->j->engine;
    int rc = 0;

    DG_TRY(r->rc);
    CALL(dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training,
                                                        dnnl_convolution_direct, x, w, bias, y,
                                                        s.stride, s.dilate, s.pad, s.pad, r->attr));
out:
    return rc;
}

/* Whether the primitive is one of the library's generated kernels, and not its reference. */
static bool is_generated(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";

    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
           strncmp(name, "jit", 3) == 0;
}

/* A convolution with weights in another layout than the one that the library prefers on CPUs with
 * AVX-512 BF16: bringing 512 x 512 x 3 x 3 weights into that takes half as long as the convolution
 * of a small map. Returns false where there is none. */
static bool takes_blocked(recipe *r, const conv_attr *at, const_layout x, const slot *w,
                          const_layout bias, const_layout y)
{
    int rc;

    if (r->compute != dnnl_bf16 || w->rank != 4 || !dg_host_multiplies_bf16())
        return false;
    rc = forward(r, at, x, wish_tag(r, w, dnnl_ABcd8b16a2b, r->compute), bias, y, &r->pd);
    if (rc == 0 && is_generated(r->pd))
        return true;
    if (rc == 0)
        dnnl_primitive_desc_destroy(r->pd);
    r->pd = NULL;
    return false;
}

/* A y with several times w's outputs asks for the sums' parts, side by side. */
static int make_conv(dg_prepare *p, recipe *r)
{
    int64_t parts = p->t[p->n - 1].shape.d[3] / p->t[1].shape.d[0];
    slot *x = add_map(r, DNNL_ARG_SRC, 0, &p->t[0]),
         *w = add_weight(r, DNNL_ARG_WEIGHTS, 1, &p->t[1], parts), *b = NULL, *y;
    const_layout lx, lb, ly;

    if (dg_host_given(&p->t[2]))
        b = add_slot(r, DNNL_ARG_BIAS, 2, &p->t[2], 1, p->t[2].shape.d, (int64_t[]){ 1 });
    y = add_map(r, DNNL_ARG_DST, p->n - 1, &p->t[p->n - 1]);
    y->output = true;
    lx = wish(r, x, false);
    lb = b ? wish(r, b, false) : NULL;
    ly = wish(r, y, false);
    if (takes_blocked(r, p->attr, lx, w, lb, ly))
        return 0;
    return forward(r, p->attr, lx, wish(r, w, true), lb, ly, &r->pd);
}

static int make_conv_dx(dg_prepare *p, recipe *r)
{
    slot *dy = add_map(r, DNNL_ARG_DIFF_DST, 0, &p->t[0]),
         *w = add_weight(r, DNNL_ARG_WEIGHTS, 1, &p->t[1], 1);
    slot *dx = add_map(r, DNNL_ARG_DIFF_SRC, 2, &p->t[2]);
    const_layout lx, lw, ly;
    steps s = steps_of(p->attr);
    int rc = 0;

    dx->output = true;
    lx = wish(r, dx, false);
    lw = wish(r, w, true);
    ly = wish(r, dy, false);
    DG_TRY(forward(r, p->attr, wish_as(r, dx, false, r->compute), lw, NULL, ly, &r->hint));
    CALL(dnnl_convolution_backward_data_primitive_desc_create(&r->pd, r->j->engine,
                                                              dnnl_convolution_direct, lx, lw, ly,
                                                              s.stride, s.dilate, s.pad, s.pad,
                                                              r->hint, r->attr));
out:
    return rc;
}

static int make_conv_dw(dg_prepare *p, recipe *r)
{
    slot *x = add_map(r, DNNL_ARG_SRC, 0, &p->t[0]),
         *dy = add_map(r, DNNL_ARG_DIFF_DST, 1, &p->t[1]);
    slot *dw = add_weight(r, DNNL_ARG_DIFF_WEIGHTS, 2, &p->t[2], 1);
    const_layout lx, lw, ly;
    steps s = steps_of(p->attr);
    int rc = 0;

    dw->output = true;
    lx = wish(r, x, false);
    lw = wish(r, dw, true);
    ly = wish(r, dy, false);
    DG_TRY(forward(r, p->attr, lx, wish_as(r, dw, true, r->compute), NULL, ly, &r->hint));
    CALL(dnnl_convolution_backward_weights_primitive_desc_create(&r->pd, r->j->engine,
                                                                 dnnl_convolution_direct, lx, lw,
                                                                 NULL, ly, s.stride, s.dilate,
                                                                 s.pad, s.pad, r->hint, r->attr));
out:
    return rc;
}

/* The weight gradient of a 1x1 convolution is dY^T X over all pixels. */
static int make_pointwise_dw(dg_prepare *p, recipe *r)
{
    int64_t i = p->t[0].shape.d[3], o = p->t[1].shape.d[3],
            n = dg_shape_elements(p->t[0].shape) / i;
    slot *dy = add_slot(r, DNNL_ARG_SRC, 1, &p->t[1], 2, (int64_t[]){ o, n }, (int64_t[]){ 1, o });
    slot *x =
        add_slot(r, DNNL_ARG_WEIGHTS, 0, &p->t[0], 2, (int64_t[]){ n, i }, (int64_t[]){ i, 1 });
    slot *dw = add_slot(r, DNNL_ARG_DST, 2, &p->t[2], 2, (int64_t[]){ o, i }, (int64_t[]){ i, 1 });

    dw->output = true;
    return product(r, wish(r, dy, false), wish(r, x, false), NULL, wish(r, dw, false));
}

static int prepare_conv(dg_prepare *p)
{
    return prepare(p, p->t[0].dtype == DG_BF16, make_conv);
}

static int prepare_conv_dx(dg_prepare *p)
{
    return prepare(p, p->t[0].dtype == DG_BF16, make_conv_dx);
}

/* As a product in bf16 only: in f32 oneDNN's own 1x1 path is as fast (docs/performance.md). */
static int prepare_conv_dw(dg_prepare *p)
{
    const conv_attr *at = p->attr;
    bool bf16 = p->t[0].dtype == DG_BF16 && p->t[1].dtype == DG_BF16;
    bool pointwise = at->h == 1 && at->w == 1 && at->stride == 1 && at->pad == 0;

    return prepare(p, bf16, pointwise && bf16 ? make_pointwise_dw : make_conv_dw);
}

extern const dg_kernel dg_host_matmul;
const dg_kernel dg_host_dnn_conv2d = { prepare_conv, run, job_close };
const dg_kernel dg_host_dnn_conv2d_dx = { prepare_conv_dx, run, job_close };
const dg_kernel dg_host_dnn_conv2d_dw = { prepare_conv_dw, run, job_close };
const dg_kernel dg_host_matmul = { prepare_matmul, run, job_close };

const char *dg_library_versions(char *buf, size_t n)
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(buf, n, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return buf;
}

void dg_library_forget(void)
{
    int kept = 0;

    if (dnnl_get_primitive_cache_capacity(&kept) != dnnl_success)
        return;
    dnnl_set_primitive_cache_capacity(0);
    dnnl_set_primitive_cache_capacity(kept);
}

#endif
