/* deform.c: multi-scale deformable attention and its gradient; formulas as in kernels/ref/deform.c.
 *
 * One task is one head of one image. Its slice of the value map is packed into its own rows [S][d]:
 * in place, the rows of a head are a power of two apart and would share few cache sets. The slice
 * of dvalue is packed likewise and belongs to one task, so no sums cross threads. The locations of
 * a query's points are computed as vectors over the points; a neighbour outside the map gets weight
 * 0 and an arbitrary row inside, so that the loop over neighbours has no branch. Contributions of
 * the heads to a reference box are summed in head order at the end. */
#include "kernels/host/simd/vmath.h"

enum {
    TAPS = 4, /* neighbours: left top, right top, left bottom, right bottom */
    PAIR = 2 * W,
};

typedef struct task {
    const dg_args *a;
    /* dp, padded: d and points rounded up to PAIR and W */
    int64_t heads, d, dp, width, s, n, points, padded;
    const dg_tensor *value, *ref, *off, *weight;
    bool low; /* value (and y, dy) are bf16 */
    /* [padded], by point: size and first row of its level's map; half: 0.5 / points of the level */
    float *map_w, *map_h, *first, *half;
    float *dref;    /* [B*heads][N][4], for the gradient */
    int64_t floats; /* workspace per thread */
    float *own;     /* workspace, [threads][floats] */
} task;

/* Where the points of one query read; arrays over the points. */
typedef struct places {
    int32_t *row;          /* [TAPS][padded], rows of value */
    float *share;          /* [TAPS][padded], weight times bilinear weight */
    float *dot;            /* [TAPS][padded], dy . value of each neighbour */
    float *dy;             /* [dp] */
    float *value, *dvalue; /* [S][dp] */
} places;

/* ---- sizes ----------------------------------------------------------------------------------- */

static task sizes(const dg_tensor *value, const deform_attr *f, bool grad)
{
    task t = { .heads = f->heads,
               .s = value[0].shape.d[1],
               .width = value[0].shape.d[2],
               .n = value[1].shape.d[1] };

    t.value = value;
    t.ref = value + 1;
    t.off = value + 2;
    t.weight = value + 3;
    t.d = t.width / t.heads;
    for (int64_t l = 0; l < f->n_levels; l++)
        t.points += f->points[l];
    t.padded = (t.points + W - 1) / W * W;
    t.dp = (t.d + PAIR - 1) / PAIR * PAIR;
    t.floats = 3 * TAPS * t.padded + t.dp + (grad ? 2 : 1) * t.s * t.dp;
    return t;
}

static int prepare_with(dg_prepare *p, int first, bool grad)
{
    task t = sizes(p->t + first, p->attr, grad);
    int64_t dref = grad ? p->t[first].shape.d[0] * t.heads * t.n * 4 : 0;

    p->workspace_bytes =
        (size_t)(4 * t.padded + dref + t.floats * max64(p->threads, 1)) * sizeof(float);
    return 0;
}

static int prepare(dg_prepare *p)
{
    return prepare_with(p, 0, false);
}

static int prepare_grad(dg_prepare *p)
{
    return prepare_with(p, 1, true);
}

static task task_of(const dg_args *a, int first, bool grad)
{
    const deform_attr *f = a->attr;
    task t = sizes(a->t + first, f, grad);
    int64_t point = 0, row = 0;

    t.a = a;
    t.low = is_low(a, first);
    t.map_w = a->workspace;
    t.map_h = t.map_w + t.padded;
    t.first = t.map_h + t.padded;
    t.half = t.first + t.padded;
    t.dref = t.half + t.padded;
    t.own = t.dref + (grad ? a->t[first].shape.d[0] * t.heads * t.n * 4 : 0);
    memset(t.map_w, 0, (size_t)(4 * t.padded) * sizeof(float));
    for (int64_t l = 0; l < f->n_levels; l++) {
        for (int64_t i = 0; i < f->points[l]; i++, point++) {
            t.map_w[point] = (float)f->w[l];
            t.map_h[point] = (float)f->h[l];
            t.first[point] = (float)row;
            t.half[point] = 0.5f / (float)f->points[l];
        }
        row += f->h[l] * f->w[l];
    }
    return t;
}

static places places_of(const task *t, int thread)
{
    int64_t n = TAPS * t->padded;
    float *own = t->own + thread * t->floats, *dy = own + 3 * n, *value = dy + t->dp;

    return (places){ (int32_t *)own, own + n, own + 2 * n, dy, value, value + t->s * t->dp };
}

/* Packs n rows of one head, `width` apart in x from element `at` on, into rows [dp] zero-padded
 * past d; and unpacks. */
static void pack(const task *t, const void *x, int64_t at, int64_t n, bool low, float *to)
{
    for (int64_t r = 0; r < n; r++) {
        ask(x, at + min64(r + AHEAD, n - 1) * t->width, t->d, low);
        for (int64_t k = 0; k < t->dp; k += W)
            vf_store(to + r * t->dp + k,
                     k < t->d ? ld_n(x, at + r * t->width + k, min64(t->d - k, W), low)
                              : (vf){ 0 });
    }
}

static void unpack(const task *t, void *x, int64_t at, int64_t n, bool low, const float *from)
{
    for (int64_t r = 0; r < n; r++)
        for (int64_t k = 0; k < t->d; k += W)
            st_n(x, at + r * t->width + k, vf_load(from + r * t->dp + k), min64(t->d - k, W), low);
}

/* ---- locations: vectors over points k..k+W-1 ------------------------------------------------- */

/* One axis: the two neighbours, clamped into the map; their weights; 1 if inside, else 0. */
typedef struct axis {
    vf at[2], share[2], inside[2];
} axis;

ALWAYS vf clamp_to(vf x, vf most)
{
    return vf_min(vf_max(x, vf_set(0)), most); /* NaN becomes 0 */
}

ALWAYS axis neighbours(vf location, vf size)
{
    vf at = location * size - 0.5f, low = vf_floor(at), most = size - 1.0f, one = vf_set(1),
       zero = vf_set(0);
    vf fraction = at - low;
    axis x;

    for (int i = 0; i < 2; i++) {
        vf cell = low + (float)i;
        vm in = vm_and(vf_le(zero, cell), vf_le(cell, most));

        x.at[i] = clamp_to(cell, most);
        x.inside[i] = vf_pick(in, one, zero);
        x.share[i] = vf_pick(in, i ? fraction : 1.0f - fraction, zero);
    }
    return x;
}

/* The nearest cell, truncated; both axes are clamped to the map's height (the maps are square). */
ALWAYS axis nearest(vf location, vf size, vf height)
{
    vf at = vf_floor(clamp_to(location * size + 0.5f, height - 1.0f)), zero = vf_set(0);

    return (axis){ { at, at }, { vf_set(1), zero }, { zero, zero } };
}

typedef struct sample {
    axis x, y;
    vf off_x, off_y, weight;
} sample;

ALWAYS sample sample_of(const task *t, int64_t query, int64_t head, int64_t k)
{
    int64_t at = (query * t->heads + head) * t->points + k, w = min64(t->points - k, W);
    const float *ref = (const float *)t->ref->data + query * 4,
                *off = (const float *)t->off->data + at * 2;
    float x[W] = { 0 }, y[W] = { 0 };
    vf map_w = vf_load(t->map_w + k), map_h = vf_load(t->map_h + k), half = vf_load(t->half + k), u,
       v;
    sample s;

    for (int64_t i = 0; i < w; i++) {
        x[i] = off[2 * i];
        y[i] = off[2 * i + 1];
    }
    s.off_x = vf_load(x);
    s.off_y = vf_load(y);
    s.weight = vf_load_n((const float *)t->weight->data + at, w);
    u = ref[0] + s.off_x * half * ref[2];
    v = ref[1] + s.off_y * half * ref[3];
    if (((const deform_attr *)t->a->attr)->discrete) {
        s.x = nearest(u, map_w, map_h);
        s.y = nearest(v, map_h, map_h);
    } else {
        s.x = neighbours(u, map_w);
        s.y = neighbours(v, map_h);
    }
    return s;
}

ALWAYS void place(const task *t, const sample *s, int64_t k, const places *p)
{
    for (int i = 0; i < TAPS; i++) {
        vf row =
            vf_fma(s->y.at[i / 2], vf_load(t->map_w + k), vf_load(t->first + k) + s->x.at[i % 2]);
        vi number = __builtin_convertvector(row, vi);

        memcpy(p->row + i * t->padded + k, &number, sizeof number);
        vf_store(p->share + i * t->padded + k, s->weight * s->x.share[i % 2] * s->y.share[i / 2]);
    }
}

/* ---- forward: value ref off weight -> y ------------------------------------------------------ */

/* y[0..dp-1] = sum over points and neighbours of share * value[row]. */
static void read_value(const task *t, const places *p, float *y)
{
    for (int64_t k = 0; k < t->dp; k += PAIR) {
        vf sum[TAPS][2];

        for (int i = 0; i < TAPS; i++)
            sum[i][0] = sum[i][1] = (vf){ 0 };
        for (int64_t point = 0; point < t->points; point++)
            for (int i = 0; i < TAPS; i++) {
                const float *value = p->value + p->row[i * t->padded + point] * t->dp + k;
                vf share = vf_set(p->share[i * t->padded + point]);

                sum[i][0] = vf_fma(share, vf_load(value), sum[i][0]);
                sum[i][1] = vf_fma(share, vf_load(value + W), sum[i][1]);
            }
        vf_store(y + k, (sum[0][0] + sum[1][0]) + (sum[2][0] + sum[3][0]));
        vf_store(y + k + W, (sum[0][1] + sum[1][1]) + (sum[2][1] + sum[3][1]));
    }
}

static void forward_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const task *t = ctx;
    places p = places_of(t, thread);
    void *y = t->a->t[DG_DEFORM_ATTENTION_Y].data;

    for (int64_t owner = begin; owner < end; owner++) { /* owner = b*heads + head */
        int64_t b = owner / t->heads, head = owner % t->heads;

        pack(t, t->value->data, b * t->s * t->width + head * t->d, t->s, t->low, p.value);
        for (int64_t q = b * t->n; q < (b + 1) * t->n; q++) {
            for (int64_t k = 0; k < t->points; k += W) {
                sample s = sample_of(t, q, head, k);

                place(t, &s, k, &p);
            }
            read_value(t, &p, p.dy);
            unpack(t, y, q * t->width + head * t->d, 1, t->low, p.dy);
        }
    }
}

static int deform_attention(const dg_args *a)
{
    task t = task_of(a, 0, false);

    parallel(a, a->t[DG_DEFORM_ATTENTION_VALUE].shape.d[0] * t.heads, t.n * t.points * t.d,
             forward_body, &t);
    return 0;
}

/* ---- gradient: dy value ref off weight -> dvalue? dref? doff? dweight? ----------------------- */

/* dot = dy . value[row] of every neighbour. */
static void dots(const task *t, const places *p)
{
    for (int64_t point = 0; point < t->points; point++)
        for (int i = 0; i < TAPS; i++) {
            const float *value = p->value + p->row[i * t->padded + point] * t->dp;
            vf sum[2] = { { 0 }, { 0 } };

            for (int64_t k = 0; k < t->dp; k += PAIR) {
                sum[0] = vf_fma(vf_load(p->dy + k), vf_load(value + k), sum[0]);
                sum[1] = vf_fma(vf_load(p->dy + k + W), vf_load(value + k + W), sum[1]);
            }
            p->dot[i * t->padded + point] = vf_sum(sum[0] + sum[1]);
        }
}

/* dvalue[row] += share * dy */
static void write_value(const task *t, const places *p)
{
    for (int64_t k = 0; k < t->dp; k += PAIR) {
        vf left = vf_load(p->dy + k), right = vf_load(p->dy + k + W);

        for (int64_t point = 0; point < t->points; point++)
            for (int i = 0; i < TAPS; i++) {
                float *to = p->dvalue + p->row[i * t->padded + point] * t->dp + k;
                vf share = vf_set(p->share[i * t->padded + point]);

                vf_store(to, vf_fma(share, left, vf_load(to)));
                vf_store(to + W, vf_fma(share, right, vf_load(to + W)));
            }
    }
}

/* Gradients of points k..k+W-1 from their dots. */
static void slopes(const task *t, const sample *s, int64_t q, int64_t head, int64_t k,
                   const places *p, float dref[4])
{
    int64_t at = (q * t->heads + head) * t->points + k, w = min64(t->points - k, W);
    const float *ref = (const float *)t->ref->data + q * 4;
    vf half = vf_load(t->half + k), d[TAPS], lx, ly;
    float *doff = t->a->t[DG_DEFORM_ATTENTION_GRAD_DOFF].data,
          *dweight = t->a->t[DG_DEFORM_ATTENTION_GRAD_DWEIGHT].data, x[W], y[W];

    for (int i = 0; i < TAPS; i++)
        d[i] = vf_keep(vf_load(p->dot + i * t->padded + k), w, vf_set(0));
    lx = s->x.inside[1] * (s->y.share[0] * d[1] + s->y.share[1] * d[3]) -
         s->x.inside[0] * (s->y.share[0] * d[0] + s->y.share[1] * d[2]);
    ly = s->y.inside[1] * (s->x.share[0] * d[2] + s->x.share[1] * d[3]) -
         s->y.inside[0] * (s->x.share[0] * d[0] + s->x.share[1] * d[1]);
    lx = lx * s->weight * vf_load(t->map_w + k);
    ly = ly * s->weight * vf_load(t->map_h + k);
    dref[0] += vf_sum(lx);
    dref[1] += vf_sum(ly);
    dref[2] += vf_sum(lx * s->off_x * half);
    dref[3] += vf_sum(ly * s->off_y * half);
    vf_store(x, lx * half * ref[2]);
    vf_store(y, ly * half * ref[3]);
    for (int64_t i = 0; doff && i < w; i++) {
        doff[(at + i) * 2] = x[i];
        doff[(at + i) * 2 + 1] = y[i];
    }
    if (dweight)
        vf_store_n(dweight + at,
                   s->y.share[0] * (s->x.share[0] * d[0] + s->x.share[1] * d[1]) +
                       s->y.share[1] * (s->x.share[0] * d[2] + s->x.share[1] * d[3]),
                   w);
}

static void grad_query(const task *t, const places *p, int64_t q, int64_t head, float dref[4])
{
    const dg_tensor *out = t->a->t + 5; /* dvalue dref doff dweight */
    sample s;

    pack(t, t->a->t[DG_DEFORM_ATTENTION_GRAD_DY].data, q * t->width + head * t->d, 1, t->low,
         p->dy);
    for (int64_t k = 0; k < t->points; k += W) {
        s = sample_of(t, q, head, k);
        place(t, &s, k, p);
    }
    if (out[1].data || out[2].data || out[3].data) {
        dots(t, p);
        for (int64_t k = 0; k < t->points; k += W) {
            if (t->points > W)
                s = sample_of(t, q, head, k);
            slopes(t, &s, q, head, k, p, dref);
        }
    }
    if (out[0].data)
        write_value(t, p);
}

static void grad_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const task *t = ctx;
    places p = places_of(t, thread);
    void *dvalue = t->a->t[DG_DEFORM_ATTENTION_GRAD_DVALUE].data;

    for (int64_t owner = begin; owner < end; owner++) {
        int64_t b = owner / t->heads, head = owner % t->heads,
                at = b * t->s * t->width + head * t->d;
        float *dref = t->dref + owner * t->n * 4;

        memset(dref, 0, (size_t)(t->n * 4) * sizeof(float));
        memset(p.dvalue, 0, (size_t)(t->s * t->dp) * sizeof(float));
        pack(t, t->value->data, at, t->s, t->low, p.value);
        for (int64_t q = b * t->n; q < (b + 1) * t->n; q++, dref += 4)
            grad_query(t, &p, q, head, dref);
        if (dvalue)
            unpack(t, dvalue, at, t->s, is_low(t->a, DG_DEFORM_ATTENTION_GRAD_DVALUE), p.dvalue);
    }
}

static int deform_attention_grad(const dg_args *a)
{
    task t = task_of(a, 1, true);
    int64_t n = a->t[DG_DEFORM_ATTENTION_GRAD_VALUE].shape.d[0], each = t.n * 4;
    float *dref = a->t[DG_DEFORM_ATTENTION_GRAD_DREF].data;

    parallel(a, n * t.heads, 3 * t.n * t.points * t.d, grad_body, &t);
    for (int64_t b = 0; dref && b < n; b++)
        for (int64_t i = 0; i < each; i++) {
            float sum = 0;

            for (int64_t head = 0; head < t.heads; head++)
                sum += t.dref[(b * t.heads + head) * each + i];
            dref[b * each + i] = sum;
        }
    return 0;
}

DG_SIMD(deform_attention, prepare, deform_attention);
DG_SIMD(deform_attention_grad, prepare_grad, deform_attention_grad);
