#include "tests/tensor/wild.h"

#include <string.h>

#include "tensor/ops.h"

enum { POOL = 24 };

typedef struct wild {
    dg_build *b;
    const uint8_t *p, *end;
    dg_val pool[POOL];
    int n, names;
    bool tame;
    wild_guards kind;
    int guards; /* set now */
} wild;

static int next(wild *w)
{
    return w->p < w->end ? *w->p++ : 0;
}

static dg_val pick(wild *w)
{
    return w->pool[next(w) % (w->n < POOL ? w->n : POOL)];
}

static dg_val zeros_of(wild *w, dg_val v)
{
    return dg_zeros(w->b, dg_shape_of(w->b, v));
}

static bool is_known(const wild *w, dg_val v)
{
    for (int i = 0; i < w->n && i < POOL; i++)
        if (w->pool[i].id == v.id)
            return true;
    return false;
}

static void put(wild *w, dg_val v)
{
    if (w->kind == WILD_ZEROS && w->guards > 0 && v.id > 0 && !dg_is_record(v) && !is_known(w, v))
        v = zeros_of(w, v);
    if (v.id > 0 && !dg_is_record(v))
        w->pool[w->n++ % POOL] = v;
}

static dg_val param(wild *w, dg_shape s)
{
    return dg_param(w->b, dg_printf(dg_build_program(w->b)->arena, "p%d", w->names++), s,
                    dg_init_uniform(1));
}

static dg_val conv(wild *w, dg_val x)
{
    int64_t c = dg_dim(w->b, x, 3);
    int size = 1 + 2 * (next(w) % 2);

    return dg_conv2d(w->b, x, param(w, DG_SHAPE(1 + next(w) % 6, c, size, size)), DG_NONE,
                     1 + next(w) % 2, size / 2);
}

static dg_val norm(wild *w, dg_val x)
{
    int64_t c = dg_dim(w->b, x, -1);
    dg_val s = param(w, DG_SHAPE(c)), b = param(w, DG_SHAPE(c)), mean, var, y;

    y = dg_batch_norm(w->b, x, s, b, 1e-5, &mean, &var);
    if (next(w) % 2 && !(w->kind == WILD_ZEROS && w->guards > 0)) {
        dg_val m = dg_buffer(w->b, dg_printf(dg_build_program(w->b)->arena, "m%d", w->names),
                             DG_SHAPE(c), dg_init_zero());
        dg_val v = dg_buffer(w->b, dg_printf(dg_build_program(w->b)->arena, "v%d", w->names),
                             DG_SHAPE(c), dg_init_zero());

        dg_stat_update(w->b, m, v, mean, var, 9, 0.1);
    }
    return y;
}

/* Operations on maps [B,H,W,C]. */
static void map_op(wild *w, dg_val x)
{
    switch (next(w) % 7) {
    case 0:
    case 1:
        put(w, conv(w, x));
        break;
    case 2:
        put(w, norm(w, x));
        break;
    case 3:
        put(w, dg_max_pool(w->b, x, 3, 2, 1));
        break;
    case 4:
        put(w, dg_avg_pool(w->b, x, 2, 2));
        break;
    case 5:
        if (dg_dim(w->b, x, 1) < 20)
            put(w, dg_upsample(w->b, x, 2));
        break;
    default:
        put(w, dg_reshape(w->b, x, DG_SHAPE(dg_dim(w->b, x, 0), -1, dg_dim(w->b, x, 3))));
    }
}

/* Operations on tokens [B,N,D]. */
static void token_op(wild *w, dg_val x)
{
    int64_t d = dg_dim(w->b, x, 2), n = dg_dim(w->b, x, 1), k = 1 + next(w) % 8;
    dg_val a, b;

    switch (next(w) % 6) {
    case 0:
        a = param(w, DG_SHAPE(k, d));
        b = param(w, DG_SHAPE(k));
        put(w, dg_linear(w->b, x, a, next(w) % 2 ? b : DG_NONE));
        break;
    case 1:
        put(w, dg_attention(w->b, x, x, w->tame ? x : pick(w), 1, DG_NONE, 0));
        break;
    case 2:
        a = param(w, DG_SHAPE(d));
        put(w, dg_layer_norm(w->b, x, a, a, 1e-5));
        break;
    case 3:
        put(w, dg_gather(w->b, x, dg_topk(w->b, dg_reduce_max(w->b, x, 4, false), n < k ? n : k)));
        break;
    case 4:
        put(w, dg_matmul(w->b, x, dg_permute(w->b, x, 3, (int[]){ 0, 2, 1 })));
        break;
    default:
        put(w, dg_detach(w->b, x));
    }
}

/* Operations on anything. */
static void any_op(wild *w, dg_val x)
{
    dg_build *b = w->b;
    dg_shape s = dg_shape_of(b, x);
    dg_val y = pick(w);

    if (w->tame && !dg_shape_equal(s, dg_shape_of(b, y)))
        y = x;
    switch (next(w) % 18) {
    case 0:
        put(w, dg_add(b, x, y));
        break;
    case 1:
        put(w, dg_mul(b, x, y));
        break;
    case 2:
        put(w, dg_sub(b, y, x));
        break;
    case 3:
        put(w, dg_div(b, x, dg_exp(b, y)));
        break;
    case 4:
        put(w, dg_max2(b, x, y));
        break;
    case 5:
        put(w, dg_relu(b, x));
        break;
    case 6:
        put(w, dg_silu(b, x));
        break;
    case 7:
        put(w, dg_gelu(b, x));
        break;
    case 8:
        put(w, dg_sigmoid(b, x));
        break;
    case 9:
        put(w, dg_scale(b, x, next(w), 1));
        break;
    case 10:
        put(w, dg_clamp(b, x, -1, 1));
        break;
    case 11:
        put(w, dg_softmax(b, x));
        break;
    case 12:
        put(w, dg_name(b, x, "n%d", w->names));
        break;
    case 13:
        put(w, dg_concat(b, s.rank ? next(w) % s.rank : 0, 2, (dg_val[]){ x, y }));
        break;
    case 14:
        put(w, s.rank ? dg_mean(b, x, 1u << next(w) % s.rank, true) : x);
        break;
    case 15:
        put(w, dg_select(b, dg_const_i32(b, DG_SCALAR, (int32_t[]){ next(w) % 2 }), x, y));
        break;
    case 16:
        put(w, s.rank && s.d[0] > 1 ? dg_slice(b, x, 0, 0, 1) : x);
        break;
    default:
        put(w, s.rank ? dg_pad(b, x, 0, 0, 1) : x);
    }
}

/* What follows runs only where a flag is not zero, or no longer so. */
static void begin_guard(wild *w, dg_val x)
{
    dg_val flag = { dg_program_input(dg_build_program(w->b), "flag") };

    w->guards++;
    if (w->kind == WILD_SUMS)
        dg_guard_begin(w->b, dg_sum(w->b, x, DG_ALL_AXES, false));
    else if (w->kind == WILD_FLAG)
        dg_guard_begin(w->b, flag);
}

static dg_val end_guard(wild *w, dg_val x)
{
    w->guards--;
    if (w->kind == WILD_SUMS || w->kind == WILD_FLAG)
        dg_guard_end(w->b, 1, &x);
    return w->kind == WILD_ZEROS ? zeros_of(w, x) : x;
}

static void guard(wild *w)
{
    dg_val x = pick(w);

    if (next(w) % 2 && w->guards > 0)
        put(w, end_guard(w, x));
    else if (w->guards < 3)
        begin_guard(w, x);
}

static bool small_enough(wild *w, dg_val x)
{
    return dg_shape_elements(dg_shape_of(w->b, x)) < 20000;
}

static void update(wild *w, dg_val loss)
{
    const dg_adamw_attr attr = { .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .clip = 1 };
    dg_val g = dg_backward(w->b, loss, 1 + next(w) % 2), p;

    if (dg_is_poison(g))
        return;
    p = dg_adamw(w->b, g, next(w) % 2 ? dg_gradient_norm(w->b, g) : DG_NONE, &attr);
    if (next(w) % 2)
        dg_ema(w->b, p);
}

void wild_program(dg_build *b, const uint8_t *bytes, size_t n, bool tame, wild_guards guards)
{
    wild w = { .b = b, .p = bytes, .end = bytes + n, .tame = tame, .kind = guards };
    dg_arena *a = dg_build_program(b)->arena;
    dg_val loss = dg_number(b, 0);
    int node = 0;

    if (guards == WILD_FLAG)
        dg_input(b, "flag", DG_REAL, DG_SCALAR);
    put(&w, dg_input(b, "images", DG_REAL, DG_SHAPE(2, 7, 6, 3)));
    put(&w, dg_input(b, "tokens", DG_REAL, DG_SHAPE(2, 5, 8)));
    put(&w, param(&w, DG_SHAPE(2, 5, 8)));
    while (w.p < w.end) {
        dg_val x = pick(&w);
        int kind = next(&w), rank = dg_shape_of(b, x).rank;

        if (kind % 16 == 0) {
            dg_origin o = {
                { "wild.xml", node + 1, 1, dg_printf(a, "n%d", node) }, node, kind & 16, 0
            };

            dg_build_enter(b, o, dg_printf(a, "n%d", node), dg_printf(a, "n%d", node));
            node++;
        } else if (kind % 16 == 1) {
            dg_result(b, dg_printf(a, "r%d", w.names++), x);
        } else if (kind % 16 == 2) {
            guard(&w);
        } else if (!small_enough(&w, x)) {
            continue;
        } else if (kind % 3 == 0 && (rank == 4 || !tame)) {
            map_op(&w, x);
        } else if (kind % 3 == 1 && (rank == 3 || !tame)) {
            token_op(&w, x);
        } else {
            any_op(&w, x);
        }
    }
    while (w.guards)
        end_guard(&w, w.pool[0]);
    for (int i = 0; i < w.n && i < POOL; i++)
        loss = dg_add(b, loss, dg_mean(b, w.pool[i], DG_ALL_AXES, false));
    dg_result(b, "loss", loss);
    if (dg_training(b))
        update(&w, loss);
}

/* ---- a device that does nothing -------------------------------------------------------------- */

static int prepare(dg_prepare *p)
{
    p->workspace_bytes = p->n % 3 ? 0 : (size_t)p->n * 100;
    return 0;
}

static int run(const dg_args *a)
{
    (void)a;
    return 0;
}

static const dg_kernel nothing = { .prepare = prepare, .run = run };

static const dg_kernel *choose(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                               bool *is_ref)
{
    (void)self, (void)op, (void)t, (void)n;
    *is_ref = false;
    return &nothing;
}

dg_backend wild_backend = { .name = "wild", .immediate = true, .select = choose };
