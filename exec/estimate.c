/* estimate.c: see estimate.h. */
#include "exec/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/pool.h"
#include "tensor/ops.h"

enum { PROBES = 6, COPIED = 4 << 20 /* bytes */, ALIGNMENT = 64 };
static const double most_s = 0.3; /* for all probes; the first is run once whatever it takes */
/* An instruction with more arithmetic is not probed: reference kernels need a second for it. The
 * first has less than small_flops, where an op is that small; its time bounds the others. */
static const double most_flops = 4e9, small_flops = 1e9;

static double read_clock(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* The time of `threads` that all work. Other processes do not lengthen it. */
static double worked(int threads)
{
    return read_clock(CLOCK_PROCESS_CPUTIME_ID) / threads;
}

/* Ops whose time is their arithmetic, and whose kernels take zeros in every operand. */
static bool computes(const dg_op *op)
{
    static const char *const names[] = { "conv2d", "conv2d_dx", "conv2d_dw", "matmul" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(op->name, names[i]) == 0)
            return true;
    return false;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

static size_t bytes_of(const dg_tensor *t)
{
    return t->shape.rank < 0 || t->dtype == DG_REAL
               ? 0
               : (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Seconds of a run on free cores: the least of some. The first makes what later ones find, so it
 * counts only if it took `most` or more. Negative: it did not work. */
static double time_runs(const dg_kernel *kernel, const dg_args *a, double most)
{
    enum { RUNS = 6 };
    const double began = now();
    double least = -1;

    for (int k = 0; k < RUNS && now() - began < most; k++) {
        const double at = worked(a->threads);
        double s;

        if (kernel->run(a) != 0)
            return -1;
        s = worked(a->threads) - at;
        least = k < 2 || s < least ? s : least;
    }
    return least;
}

/* Seconds of an instruction on zeros; negative: it did not work. */
static double time_one(const dg_plan *plan, dg_backend *b, int i, double most)
{
    const dg_instr *in = &plan->program->instrs.items[i];
    const dg_plan_instr *pi = &plan->instrs[i];
    const int n = in->n_in + in->n_out;
    const dg_control control = { .accumulated = 0 };
    size_t bytes = aligned(pi->workspace_bytes + 1), at;
    dg_tensor *t = calloc((size_t)n, sizeof *t);
    char *memory;
    double s = -1;

    for (int k = 0; k < n; k++)
        bytes += aligned(bytes_of(&pi->t[k]));
    memory = t ? b->alloc(b, bytes) : NULL;
    if (memory) {
        dg_args a = { t, n, in->attr, &control, memory, pi->handle, plan->threads };

        memset(memory, 0, bytes);
        at = aligned(pi->workspace_bytes + 1);
        for (int k = 0; k < n; k++) {
            t[k] = pi->t[k];
            t[k].data = bytes_of(&t[k]) ? memory + at : NULL;
            at += aligned(bytes_of(&t[k]));
        }
        s = time_runs(pi->kernel, &a, most);
        b->free(b, memory);
    }
    free(t);
    return s;
}

static bool is_probe(const dg_plan *plan, int i)
{
    const dg_plan_instr *pi = &plan->instrs[i];

    return pi->kernel && !pi->alias && !pi->staged && pi->flops > 0 && pi->flops < most_flops &&
           computes(plan->program->instrs.items[i].op);
}

/* The probe with the most arithmetic below a limit, other than the n done ones and their equals;
 * -1: there is none. */
static int next_probe(const dg_plan *plan, double below, const double *done, int n)
{
    int best = -1;

    for (int i = 0; i < plan->program->instrs.n; i++) {
        const double flops = plan->instrs[i].flops;
        bool fits =
            is_probe(plan, i) && flops < below && (best < 0 || flops > plan->instrs[best].flops);

        for (int k = 0; k < n; k++)
            fits &= flops < done[k] || flops > done[k];
        best = fits ? i : best;
    }
    return best;
}

/* The largest of the small ones, else the smallest of all; -1: there is none. */
static int first_probe(const dg_plan *plan)
{
    int best = next_probe(plan, small_flops, NULL, 0);

    if (best >= 0)
        return best;
    for (int i = 0; i < plan->program->instrs.n; i++)
        if (is_probe(plan, i) && (best < 0 || plan->instrs[i].flops < plan->instrs[best].flops))
            best = i;
    return best;
}

/* Floating-point operations per second; 0: not known. Each probe is the largest that, by the rate
 * so far, fits well into the time that is left. Much smaller ones do not count beside it: a
 * kernel's start is most of their time. */
static double rate_of(const dg_plan *plan, dg_backend *b)
{
    enum { LESS = 4 };
    const double began = now();
    double done[PROBES], rate = 0, flops = 0, seconds = 0, largest = 0, left = most_s;
    int i = first_probe(plan);

    for (int k = 0; k < PROBES && i >= 0 && left > 0 && plan->instrs[i].flops * LESS >= largest;
         k++) {
        const double s = time_one(plan, b, i, left / LESS), x = done[k] = plan->instrs[i].flops;

        if (s > 0 && x > LESS * largest)
            flops = seconds = 0;
        if (s > 0) {
            largest = fmax(largest, x);
            flops += x;
            seconds += s;
            rate = flops / seconds;
        }
        left = most_s - (now() - began);
        i = next_probe(plan, rate > 0 ? fmin(most_flops, rate * left / LESS) : small_flops, done,
                       k + 1);
    }
    return rate;
}

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct copy {
    char *to;
    const char *from;
} copy;

static void copy_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    const copy *c = ctx;

    (void)thread;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

/* Bytes read and written per second by all threads; 0: not known. */
static double bandwidth_of(int threads)
{
    enum { COPIES = 8 };
    char *memory = malloc(2 * (size_t)COPIED);
    copy c = { memory, memory ? memory + COPIED : NULL };
    double least = INFINITY;

    if (!memory)
        return 0;
    memset(memory, 1, 2 * (size_t)COPIED);
    for (int k = 0; k < COPIES; k++) {
        const double at = worked(threads);

        dg_parallel_for(threads, COPIED, copy_range, &c);
        least = fmin(least, worked(threads) - at);
    }
    free(memory);
    return least > 0 ? 2.0 * (double)COPIED / least : 0;
}

bool dg_speed_measure(dg_speed *r, const dg_plan *plan, dg_backend *backend)
{
    *r = (dg_speed){ 0 };
    if (!backend->immediate)
        return false;
    r->flops = rate_of(plan, backend);
    r->bytes = r->flops > 0 ? bandwidth_of(plan->threads) : 0;
    return r->bytes > 0;
}

/* The reduction of gradients stands among the batch's instructions, and waits for the last batch of
 * an update. */
static dg_segment segment_of(const dg_instr *in)
{
    return in->op == DG_OP(reduce_begin) || in->op == DG_OP(reduce_end) ? DG_SEG_UPDATE
                                                                        : in->segment;
}

double dg_speed_seconds(const dg_speed *r, const dg_plan *plan, dg_segment segment)
{
    double flops = 0, bytes = 0;

    for (int i = 0; i < plan->program->instrs.n; i++) {
        const dg_instr *in = &plan->program->instrs.items[i];
        const dg_plan_instr *pi = &plan->instrs[i];

        if (segment_of(in) != segment)
            continue;
        if (computes(in->op))
            flops += pi->flops;
        else if (!pi->alias)
            bytes += pi->bytes;
    }
    return flops / r->flops + bytes / r->bytes;
}
