/* ranks: programs that several ranks run together, each on a thread of its own. A batch norm over
 * ranks is the batch norm of all their rows: values, gradients, statistics, whatever rows each of
 * them has; and what the other collectives give. */
#include "tests/tensor/rig.h"

#include <math.h>
#include <string.h>

#include "tensor/params.h"
#include "tests/comm/crew.h"

enum { ROWS = 3, H = 2, W = 3, C = 5, EACH = H * W * C, MOST = CREW_MOST * ROWS * EACH };

/* A norm of x [rows,H,W,C], all ranks' rows one after the other. */
typedef struct shared {
    dg_dtype base;
    int live[CREW_MOST]; /* rows of each rank that count; -1: it is not asked */
    int act;             /* 0 none, 1 relu, 2 silu */
    bool residual;
    double offset; /* of x: large, and f32 has few digits left for what varies */
    double y[MOST], dx[MOST], dres[MOST], ds[CREW_MOST][C], db[CREW_MOST][C], loss[CREW_MOST];
    double mean[C], var[C];
} shared;

static double number(int64_t i, double a)
{
    return sin(a * (double)(i + 1) + 0.3 * a);
}

static double *slice(double *out, int first, int n, double a, double scale, double offset)
{
    for (int i = 0; i < n * EACH; i++)
        out[i] = offset + scale * number(first * EACH + i, a);
    return out;
}

/* The program of rows first..first+n-1, of which live count. axis NULL: a plain norm. */
static void build(rig *r, const shared *s, int first, int n, bool count, const char *axis)
{
    dg_build *b = r->b;
    double v[MOST];
    dg_shape shape = DG_SHAPE(n, H, W, C), c = DG_SHAPE(C);
    dg_val x, res, scale, shift, m, rv, mean, var, total, y, w;
    dg_val live = count ? dg_input(b, "live", DG_I32, DG_SCALAR) : DG_NONE;

    x = dg_param(b, "x", shape, dg_init_data(b, slice(v, first, n, 0.7, 1.5, s->offset), n * EACH));
    res = dg_param(b, "res", shape, dg_init_data(b, slice(v, first, n, 0.9, 1, 0), n * EACH));
    scale = dg_param(b, "scale", c, dg_init_uniform(1));
    shift = dg_param(b, "shift", c, dg_init_uniform(1));
    m = dg_buffer(b, "mean", c, dg_init_zero());
    rv = dg_buffer(b, "var", c, dg_init_const(1));
    if (axis) {
        y = dg_batch_norm_sync(b, x, scale, shift, live, 1e-5, axis, &mean, &var, &total);
        dg_stat_update_counted(b, m, rv, mean, var, total, 0.1);
    } else {
        y = dg_batch_norm(b, x, scale, shift, 1e-5, &mean, &var);
        dg_stat_update(b, m, rv, mean, var, n * H * W, 0.1);
    }
    if (s->residual)
        y = dg_add(b, y, res);
    y = s->act == 1 ? dg_relu(b, y) : s->act == 2 ? dg_silu(b, y) : y;
    dg_result(b, "y", y);
    w = dg_const(b, shape, slice(v, first, n, 1.3, 1, 0));
    y = dg_sum(b, dg_mul(b, y, w), DG_ALL_AXES, false);
    y = dg_add(b, y, dg_scale(b, dg_sum(b, res, DG_ALL_AXES, false), 0.1, 0));
    dg_result(b, "loss", y);
    dg_backward(b, y, 1);
}

static const char *one_rank(dg_comm *comm, void *ctx)
{
    shared *s = ctx;
    int at = comm->rank, live = s->live[at], first = 0;
    rig r = rig_open(true);
    double y[ROWS * EACH];

    for (int i = 0; i < at; i++)
        first += s->live[i] < 0 ? ROWS : s->live[i];
    dg_build_axis(r.b, "dp", comm->ranks);
    build(&r, s, first, ROWS, live >= 0, "dp");
    rig_compile_rank(&r, s->base, comm);
    if (live >= 0)
        rig_input(&r, "live", &(double){ live });
    rig_batch(&r);
    WRONG_UNLESS(rig_count(&r, DG_OP(all_gather)) == 1 && rig_count(&r, DG_OP(all_reduce)) == 1);
    s->loss[at] = rig_result(&r, "loss");
    WRONG_UNLESS(dg_exec_read(r.x, "y", y, r.d) == 0);
    live = live < 0 ? ROWS : live;
    memcpy(s->y + first * EACH, y, (size_t)(live * EACH) * sizeof *y);
    for (int i = live * EACH; i < ROWS * EACH && !s->residual && s->act == 0; i++)
        WRONG_UNLESS(y[i] == 0);
    rig_get(&r, DG_GRADIENTS, "net.x", y);
    memcpy(s->dx + first * EACH, y, (size_t)(live * EACH) * sizeof *y);
    for (int i = live * EACH; i < ROWS * EACH; i++)
        WRONG_UNLESS(y[i] == 0);
    rig_get(&r, DG_GRADIENTS, "net.res", y);
    memcpy(s->dres + first * EACH, y, (size_t)(live * EACH) * sizeof *y);
    rig_get(&r, DG_GRADIENTS, "net.scale", s->ds[at]);
    rig_get(&r, DG_GRADIENTS, "net.shift", s->db[at]);
    if (at == 0) {
        rig_get(&r, DG_WEIGHTS, "net.mean", s->mean);
        rig_get(&r, DG_WEIGHTS, "net.var", s->var);
    }
    rig_close(&r);
    return NULL;
}

/* Largest difference over the largest number. */
static double distance(const double *a, const double *b, int n)
{
    double worst = 0, most = 1e-12;

    for (int i = 0; i < n; i++) {
        worst = fmax(worst, isfinite(a[i]) ? fabs(a[i] - b[i]) : INFINITY);
        most = fmax(most, fabs(b[i]));
    }
    return worst / most;
}

/* The ranks against one rank with all rows, in f64. */
static double compare(shared *s, int ranks)
{
    static double all[MOST];
    double worst = 0, ds[C] = { 0 }, db[C] = { 0 };
    int rows = 0;
    rig r = rig_open(true);

    crew_run(ranks, one_rank, s);
    for (int i = 0; i < ranks; i++)
        rows += s->live[i] < 0 ? ROWS : s->live[i];
    build(&r, s, 0, rows, false, NULL);
    rig_compile(&r, DG_F64);
    rig_batch(&r);
    assert_int_equal(dg_exec_read(r.x, "y", all, r.d), 0);
    worst = fmax(worst, distance(s->y, all, rows * EACH));
    rig_get(&r, DG_GRADIENTS, "net.x", all);
    worst = fmax(worst, distance(s->dx, all, rows * EACH));
    rig_get(&r, DG_GRADIENTS, "net.res", all);
    worst = fmax(worst, distance(s->dres, all, rows * EACH));
    for (int i = 0; i < ranks; i++)
        for (int k = 0; k < C; k++) {
            ds[k] += s->ds[i][k];
            db[k] += s->db[i][k];
        }
    rig_get(&r, DG_GRADIENTS, "net.scale", all);
    worst = fmax(worst, distance(ds, all, C));
    rig_get(&r, DG_GRADIENTS, "net.shift", all);
    worst = fmax(worst, distance(db, all, C));
    rig_get(&r, DG_WEIGHTS, "net.mean", all);
    worst = fmax(worst, distance(s->mean, all, C));
    rig_get(&r, DG_WEIGHTS, "net.var", all);
    worst = fmax(worst, distance(s->var, all, C));
    rig_close(&r);
    return worst;
}

static shared case_of(dg_dtype base, int act, bool residual, double offset)
{
    shared s = { .base = base, .act = act, .residual = residual, .offset = offset };

    for (int i = 0; i < CREW_MOST; i++)
        s.live[i] = -1;
    return s;
}

static void norms_are_those_of_all_rows(void **state)
{
    double worst[2] = { 0 };

    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        for (int act = 0; act < 6; act++) {
            shared wide = case_of(DG_F64, act % 3, act >= 3, 0.2);
            shared f32 = case_of(DG_F32, act % 3, act >= 3, 0.2);

            worst[0] = fmax(worst[0], compare(&wide, ranks));
            worst[1] = fmax(worst[1], compare(&f32, ranks));
        }
    print_message("# against one rank, over the largest number: f64 %.2g, f32 %.2g\n", worst[0],
                  worst[1]);
    assert_true(worst[0] < 1e-12 && worst[1] < 2e-6);
}

/* Means a thousand times the deviation: sums of squares would have lost it. */
static void means_may_be_large(void **state)
{
    shared s = case_of(DG_F32, 2, true, 1000);
    double worst = compare(&s, 3);

    (void)state;
    print_message("# means of 1000, deviations of 1, f32: %.2g\n", worst);
    assert_true(worst < 2e-4); /* x itself is off by 3e-5 of the deviation */
}

static void some_ranks_are_empty(void **state)
{
    static const int rows[][4] = { { 0, 2, 3, 1 }, { 3, 0, 0, 2 }, { 0, 0, 1, 0 } };

    (void)state;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int act = 0; act < 6; act++) {
            shared s = case_of(DG_F64, act % 3, act >= 3, 0.2);

            memcpy(s.live, rows[k], sizeof rows[k]);
            double worst = compare(&s, 4);

            if (!(worst < 1e-11))
                fail_msg("rows %d, activation %d: off by %g", (int)k, act, worst);
        }
}

/* Nobody has a row: nothing changes, and nothing is NaN. */
static const char *nothing_there(dg_comm *comm, void *ctx)
{
    shared *s = ctx;
    rig r = rig_open(true);
    double v[ROWS * EACH];

    dg_build_axis(r.b, "dp", comm->ranks);
    build(&r, s, 0, ROWS, true, "dp");
    rig_compile_rank(&r, DG_F32, comm);
    rig_input(&r, "live", &(double){ 0 });
    rig_batch(&r);
    WRONG_UNLESS(dg_exec_read(r.x, "y", v, r.d) == 0);
    WRONG_UNLESS(v[0] == 0 && v[ROWS * EACH - 1] == 0);
    rig_get(&r, DG_GRADIENTS, "net.x", v);
    WRONG_UNLESS(v[0] == 0 && v[ROWS * EACH - 1] == 0);
    rig_get(&r, DG_GRADIENTS, "net.scale", v);
    WRONG_UNLESS(v[0] == 0 && v[C - 1] == 0);
    rig_get(&r, DG_WEIGHTS, "net.mean", v);
    WRONG_UNLESS(v[0] == 0 && v[C - 1] == 0);
    rig_get(&r, DG_WEIGHTS, "net.var", v);
    WRONG_UNLESS(v[0] == 1 && v[C - 1] == 1);
    rig_close(&r);
    return NULL;
}

static void all_ranks_are_empty(void **state)
{
    shared s = case_of(DG_F32, 0, false, 0);

    (void)state;
    crew_run(2, nothing_there, &s);
}

/* ---- the other collectives ------------------------------------------------------------------- */

static const char *exchange(dg_comm *comm, void *ctx)
{
    rig r = rig_open(false);
    int me = comm->rank, n = comm->ranks, at = 0;
    double v[64], x[4] = { me, me + 0.5, -me, 7 };
    dg_val a, k, counts;

    (void)ctx;
    dg_build_axis(r.b, "dp", n);
    a = dg_input(r.b, "a", DG_REAL, DG_SHAPE(2, 2));
    k = dg_input(r.b, "k", DG_I32, DG_SCALAR);
    dg_result(r.b, "broadcast", dg_broadcast(r.b, a, n - 1, "dp"));
    dg_result(r.b, "reduce", dg_reduce_to(r.b, a, DG_SUM, n - 1, "dp"));
    dg_result(r.b, "most", dg_all_reduce(r.b, k, DG_MAX, "dp"));
    dg_result(r.b, "gather", dg_all_gather(r.b, a, "dp"));
    dg_result(r.b, "rows", dg_all_gatherv(r.b, a, k, "dp", &counts));
    dg_result(r.b, "counts", counts);
    rig_compile_rank(&r, DG_F32, comm);
    rig_input(&r, "a", x);
    rig_input(&r, "k", &(double){ me % 3 });
    rig_batch(&r);
    WRONG_UNLESS(dg_exec_read(r.x, "broadcast", v, r.d) == 0);
    WRONG_UNLESS(v[0] == n - 1 && v[1] == n - 0.5 && v[3] == 7);
    WRONG_UNLESS(dg_exec_read(r.x, "reduce", v, r.d) == 0);
    WRONG_UNLESS(me == n - 1 ? v[0] == n * (n - 1) / 2 && v[3] == 7 * n : v[0] == me && v[3] == 7);
    WRONG_UNLESS(rig_result(&r, "most") == (n > 2 ? 2 : n - 1));
    WRONG_UNLESS(dg_exec_read(r.x, "gather", v, r.d) == 0);
    for (int i = 0; i < n; i++)
        WRONG_UNLESS(v[4 * i] == i && v[4 * i + 2] == -i);
    WRONG_UNLESS(dg_exec_read(r.x, "counts", v, r.d) == 0);
    for (int i = 0; i < n; i++)
        WRONG_UNLESS(v[i] == i % 3);
    WRONG_UNLESS(dg_exec_read(r.x, "rows", v, r.d) == 0);
    for (int i = 0; i < n; i++) {
        WRONG_UNLESS(i % 3 < 1 || (v[at] == i && v[at + 1] == i + 0.5));
        WRONG_UNLESS(i % 3 < 2 || (v[at + 2] == -i && v[at + 3] == 7));
        at += 2 * (i % 3);
    }
    for (; at < 4 * n; at++)
        WRONG_UNLESS(v[at] == 0);
    rig_close(&r);
    return NULL;
}

static void values_are_exchanged(void **state)
{
    (void)state;
    crew_run(1, exchange, NULL);
    crew_run(2, exchange, NULL);
    crew_run(5, exchange, NULL);
}

/* ---- gradients through collectives ----------------------------------------------------------- */

enum { BY_MEAN, BY_SUM, BY_GATHER, BY_COPY, WAYS };

/* A parameter w [C] that all ranks have, rows of their own, and a loss behind a collective. */
typedef struct behind {
    int way, ranks;
    double w[C], dw[CREW_MOST][C], loss[CREW_MOST];
} behind;

static dg_val weights_of(rig *r, const behind *s)
{
    return dg_param(r->b, "w", DG_SHAPE(C), dg_init_data(r->b, s->w, C));
}

static dg_val rows_of(rig *r, int rank)
{
    double v[ROWS * C];

    for (int i = 0; i < ROWS * C; i++)
        v[i] = number(rank * ROWS * C + i, 0.7);
    return dg_const(r->b, DG_SHAPE(ROWS, C), v);
}

static dg_val score(rig *r, dg_val x)
{
    return dg_mean(r->b, dg_mul(r->b, dg_silu(r->b, x), x), DG_ALL_AXES, false);
}

static const char *differentiates(dg_comm *comm, void *ctx)
{
    behind *s = ctx;
    rig r = rig_open(true);
    dg_val w, x, h, loss;

    dg_build_axis(r.b, "dp", comm->ranks);
    dg_build_place(r.b, "dp", comm->rank);
    w = weights_of(&r, s);
    x = rows_of(&r, comm->rank);
    h = dg_mul(r.b, x, w);
    if (s->way == BY_GATHER)
        loss = score(&r, dg_mul(r.b, dg_all_gather(r.b, h, "dp"), w));
    else if (s->way == BY_COPY)
        loss = score(&r, dg_mul(r.b, dg_broadcast(r.b, h, comm->ranks - 1, "dp"), x));
    else
        loss = dg_all_reduce(r.b, score(&r, h), s->way == BY_SUM ? DG_SUM : DG_MEAN, "dp");
    loss = dg_mul(r.b, loss, loss);
    dg_result(r.b, "loss", loss);
    dg_all_reduce_gradients(r.b, dg_backward(r.b, loss, 1), "dp");
    rig_compile_rank(&r, DG_F64, comm);
    rig_batch(&r);
    WRONG_UNLESS(dg_exec_run(r.x, DG_SEG_UPDATE, &r.control, r.d) == 0);
    s->loss[comm->rank] = rig_result(&r, "loss");
    rig_get(&r, DG_GRADIENTS, "net.w", s->dw[comm->rank]);
    rig_close(&r);
    return NULL;
}

/* The same on one rank that has all rows: the mean of the ranks' losses. */
static double on_one_rank(const behind *s, double *dw)
{
    rig r = rig_open(true);
    dg_val w = weights_of(&r, s), h[CREW_MOST], total = dg_number(r.b, 0), one;
    double loss;

    for (int i = 0; i < s->ranks; i++)
        h[i] = dg_mul(r.b, rows_of(&r, i), w);
    for (int i = 0; i < s->ranks; i++) {
        if (s->way == BY_GATHER)
            one = score(&r, dg_mul(r.b, dg_concat(r.b, 0, s->ranks, h), w));
        else if (s->way == BY_COPY)
            one = score(&r, dg_mul(r.b, h[s->ranks - 1], rows_of(&r, i)));
        else
            one = score(&r, h[i]);
        if (s->way == BY_GATHER || s->way == BY_COPY)
            one = dg_mul(r.b, one, one);
        total = dg_add(r.b, total, one);
    }
    if (s->way != BY_SUM)
        total = dg_scale(r.b, total, 1.0 / s->ranks, 0);
    if (s->way == BY_SUM || s->way == BY_MEAN)
        total = dg_mul(r.b, total, total);
    dg_result(r.b, "loss", total);
    dg_backward(r.b, total, 1);
    rig_compile(&r, DG_F64);
    rig_batch(&r);
    loss = rig_result(&r, "loss");
    rig_get(&r, DG_GRADIENTS, "net.w", dw);
    rig_close(&r);
    return loss;
}

static double mean_loss(behind s)
{
    double sum = 0;

    crew_run(s.ranks, differentiates, &s);
    for (int i = 0; i < s.ranks; i++)
        sum += s.loss[i];
    return sum / s.ranks;
}

static void gradients_flow_through(void **state)
{
    const double step = ldexp(1, -12); /* initial weights have the digits of f32 */
    double worst = 0, slopes = 0;

    (void)state;
    for (int way = 0; way < WAYS; way++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            behind s = { .way = way, .ranks = ranks }, up, down;
            double all[C], slope[C], loss;

            for (int i = 0; i < C; i++)
                s.w[i] = ldexp(round(ldexp(number(i, 1.3), 8)), -8);
            loss = on_one_rank(&s, all);
            crew_run(ranks, differentiates, &s);
            for (int i = 0; i < ranks; i++)
                worst = fmax(worst, distance(s.dw[i], all, C));
            worst = fmax(worst, fabs(mean_loss(s) - loss) / loss);
            for (int i = 0; i < C; i++) {
                up = down = s;
                up.w[i] += step;
                down.w[i] -= step;
                slope[i] = (mean_loss(up) - mean_loss(down)) / (2 * step);
            }
            slopes = fmax(slopes, distance(s.dw[0], slope, C));
        }
    print_message("# against one rank %.2g, against central differences %.2g\n", worst, slopes);
    assert_true(worst < 1e-13 && slopes < 1e-6);
}

/* ---- two variables are never averaged ---------------------------------------------------------
 */

/* A mean of x where the flag is set, one of y where it is not; alike in size, type and operator.
 * Rank 0 has the flag, rank 1 has not. */
static const char *meets_the_wrong_one(dg_comm *comm, void *ctx)
{
    rig r = rig_open(false);
    dg_val flag, x;
    const char *said;

    (void)ctx;
    dg_build_axis(r.b, "dp", comm->ranks);
    flag = dg_input(r.b, "flag", DG_I32, DG_SCALAR);
    x = dg_input(r.b, "x", DG_REAL, DG_SCALAR);
    for (int i = 0; i < 2; i++) {
        rig_node(&r, i, i ? "train/b" : "train/a", false);
        dg_guard_begin(r.b, i ? dg_truth(r.b, dg_real(r.b, flag), true) : flag);
        dg_result(r.b, i ? "mean_b" : "mean_a", dg_all_reduce(r.b, x, DG_MEAN, "dp"));
        dg_guard_end(r.b, 0, NULL);
    }
    rig_compile_rank(&r, DG_F32, comm);
    rig_input(&r, "flag", &(double){ comm->rank == 0 });
    rig_input(&r, "x", &(double){ 1 + comm->rank });
    WRONG_UNLESS(dg_exec_run(r.x, DG_SEG_BATCH, &r.control, r.d) == -DG_EINTERNAL);
    said = dg_diag_text(r.d);
    WRONG_UNLESS(strstr(said, "error[collective-failed]: all_reduce: rank 0 came to the mean of 1 "
                              "f32 of train/a ("));
    WRONG_UNLESS(strstr(said, "), rank 1 to the mean of 1 f32 of train/b ("));
    rig_close(&r);
    return NULL;
}

static void variables_are_told_apart(void **state)
{
    (void)state;
    crew_run(2, meets_the_wrong_one, NULL);
}

/* ---- what is exchanged, as a list ------------------------------------------------------------ */

static uint64_t list(int64_t n, int root, bool swap, bool guarded, dg_str *out)
{
    rig r = rig_open(true);
    dg_val x, w, g;
    uint64_t digest;

    dg_build_axis(r.b, "dp", 2);
    x = dg_input(r.b, "x", DG_REAL, DG_SHAPE(n));
    w = dg_param(r.b, "w", DG_SHAPE(n), dg_init_const(1));
    if (guarded)
        dg_guard_begin(r.b, dg_slice(r.b, x, 0, 0, 1));
    for (int i = 0; i < 2; i++)
        if (i == swap)
            dg_result(r.b, "b", dg_broadcast(r.b, x, root, "dp"));
        else
            dg_result(r.b, "m", dg_all_reduce(r.b, x, DG_MAX, "dp"));
    if (guarded)
        dg_guard_end(r.b, 0, NULL);
    g = dg_backward(r.b, dg_sum(r.b, dg_mul(r.b, x, w), DG_ALL_AXES, false), 1);
    dg_all_reduce_gradients(r.b, g, "dp");
    assert_int_equal(dg_passes(r.p, DG_F32, DG_F32, NULL, 2, r.d), 0);
    assert_int_equal(dg_plan_open(&r.plan, r.p, r.backend, 1, r.d), 0);
    dg_plan_exchange(out, r.plan);
    digest = dg_plan_digest(r.plan);
    rig_close(&r);
    return digest;
}

static void plans_say_what_they_exchange(void **state)
{
    dg_str text = { 0 }, other = { 0 };
    uint64_t digest = list(16, 0, false, false, &text);

    (void)state;
    assert_non_null(strstr(text.s, "net broadcast 16 f32 (root 0)\n"));
    assert_non_null(strstr(text.s, "net all_reduce max 16 f32\n"));
    assert_non_null(strstr(text.s, " mean 16 f32\n"));
    assert_true(list(16, 0, false, false, &other) == digest);
    assert_true(list(32, 0, false, false, &other) != digest);
    assert_true(list(16, 1, false, false, &other) != digest);
    assert_true(list(16, 0, true, false, &other) != digest);
    assert_true(list(16, 0, false, true, &other) != digest);
    assert_non_null(strstr(other.s, "net all_reduce max 16 f32 (guarded)\n"));
    dg_str_free(&text);
    dg_str_free(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_are_those_of_all_rows),
        cmocka_unit_test(means_may_be_large),
        cmocka_unit_test(some_ranks_are_empty),
        cmocka_unit_test(all_ranks_are_empty),
        cmocka_unit_test(gradients_flow_through),
        cmocka_unit_test(values_are_exchanged),
        cmocka_unit_test(variables_are_told_apart),
        cmocka_unit_test(plans_say_what_they_exchange),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
