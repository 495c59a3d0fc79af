/* twins: on every sample of tests/ops, and on what autodiff makes of it, the CUDA kernel of an op,
 * run thread by thread on the CPU, agrees with the reference: in f64 with ref in f64, in f32 within
 * the row's tolerance, in bf16 with ref in f32 on the same rounded operands. It gives the same bits
 * in any order of threads and blocks, works in place where the row says so, and leaves its outputs
 * alone where its guard is 0, unless a library does its work. A convolution also runs with a
 * library that does nothing else, and without one. */
#include "tests/check.h"

#include <math.h>

#include "tensor/ops.h"
#include "tests/cuda/fibers.h"
#include "tests/ops/operands.h"
#include "tests/ops/sample_program.h"

static const double F64_TOLERANCE = 1e-11;
static const double BF16_TOLERANCE = 0x1p-7; /* as in tests/ops/twins */

/* They do with less shared memory, too, and give the same bits. */
static const struct {
    const char *op;
    size_t shared;
} adapt[] = {
    { "deform_attention_grad", 256 },
    { "match", 256 },
    { "attention", 20 << 10 },
    { "attention_grad", 20 << 10 },
};
enum { LITTLE_MEMORY = 2 /* this seed's runs have so little */ };

typedef struct walker {
    dg_arena *arena; /* of one sample */
    samples all;
    int runs[DG_N_OPS];
    double worst[DG_N_OPS][SAMPLE_TYPES];
    const sample *sample;
    fibers_plans plans; /* of the library of convolutions */
    int64_t launches, switches, convolutions;
    int failures;
} walker;

static void fail_sample(walker *w, const dg_instr *instr, const char *type, const char *what)
{
    print_error("# %s, sample \"%s\" of %s, in %s: %s\n", instr->op->name, w->sample->what,
                w->sample->op->name, type, what);
    w->failures++;
}

static bool may_write(const dg_instr *instr, int i)
{
    return i >= instr->n_in || operand_of(instr, i).state;
}

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static void compare(walker *w, const dg_instr *instr, int type, const dg_tensor *got,
                    const dg_tensor *ref)
{
    const dg_op *op = instr->op;
    double allowed = sample_types[type] == DG_F64   ? F64_TOLERANCE
                     : sample_types[type] == DG_F32 ? op->tolerance
                                                    : BF16_TOLERANCE;

    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        if (!got[i].data || !may_write(instr, i))
            continue;
        double d = distance(&got[i], &ref[i], w->sample->edges ? 1 : 0);
        double *worst = &w->worst[op - dg_ops][type];

        *worst = fmax(*worst, d);
        if (d > allowed)
            fail_sample(w, instr, sample_type_names[type],
                        dg_printf(w->arena, "operand %d is off by %.3g, at most %.3g is allowed", i,
                                  d, allowed));
    }
}

static void check_bits(walker *w, const dg_instr *instr, int type, const char *what,
                       const dg_tensor *a, const dg_tensor *b)
{
    for (int i = 0; i < instr->n_in + instr->n_out; i++)
        if (a[i].data && may_write(instr, i) && memcmp(a[i].data, b[i].data, bytes_of(&a[i])) != 0)
            fail_sample(w, instr, sample_type_names[type],
                        dg_printf(w->arena, "operand %d: %s changes the bits", i, what));
}

static void run(walker *w, const dg_instr *instr, int type, const dg_cuda_kernel *k,
                const dg_tensor *t, const dg_control *c, uint64_t seed, const int32_t *guard)
{
    fibers f = fibers_open(seed);
    int rc;

    f.plans = w->plans;
    f.combines = seed == LITTLE_MEMORY;
    for (size_t i = 0; i < sizeof adapt / sizeof adapt[0] && seed == LITTLE_MEMORY; i++)
        if (strcmp(adapt[i].op, instr->op->name) == 0)
            f.queue.shared_limit = adapt[i].shared;
    rc = fibers_run(&f, k, t, instr->n_in + instr->n_out, instr->attr, c, guard);

    w->launches += f.launches;
    w->switches += f.switches;
    w->convolutions += f.convolutions;
    if (rc)
        fail_sample(w, instr, sample_type_names[type],
                    dg_printf(w->arena, "status %d: %s", rc, f.why[0] ? f.why : "no fault"));
}

static bool is_convolution(const dg_instr *instr)
{
    return instr->op == DG_OP(conv_packed) || instr->op == DG_OP(conv_packed_dx) ||
           instr->op == DG_OP(conv_packed_dw);
}

static void check_with(walker *w, dg_interpreter *m, const dg_instr *instr, int type)
{
    const int32_t off = 0, on = 1;
    dg_tensor ref[DG_MAX_OPERANDS], got[DG_MAX_OPERANDS], other[DG_MAX_OPERANDS];
    int n = instr->n_in + instr->n_out;

    copy_operands(w->arena, m, instr, sample_types[type], got);

    const dg_cuda_kernel *k = dg_cuda_find(instr->op->name, got, n);

    if (!k)
        return;
    copy_operands(w->arena, m, instr, sample_types[type] == DG_F64 ? DG_F64 : DG_F32, ref);
    widen_inputs(instr, got, ref);
    assert_int_equal(dg_interpreter_kernel(sample_types[type] == DG_F64 ? instr->op->ref64
                                                                        : instr->op->ref32,
                                           ref, n, instr->attr, &m->control, 1),
                     0);
    run(w, instr, type, k, got, &m->control, 1, NULL);
    compare(w, instr, type, got, ref);

    copy_operands(w->arena, m, instr, sample_types[type], other);
    share_places(instr, other);
    run(w, instr, type, k, other, &m->control, LITTLE_MEMORY, &on);
    check_bits(w, instr, type, "another order of threads, in place, with sums at once,", got,
               other);

    copy_operands(w->arena, m, instr, sample_types[type], other);
    copy_operands(w->arena, m, instr, sample_types[type], got);
    run(w, instr, type, k, got, &m->control, 3, &off);
    if (!k->unguarded)
        check_bits(w, instr, type, "a guard of 0", got, other);
    w->runs[instr->op - dg_ops]++;
}

static void check_in(void *ctx, dg_interpreter *m, const dg_instr *instr, int type)
{
    walker *w = ctx;

    for (int plans = FIBERS_ALL; plans <= (is_convolution(instr) ? FIBERS_NONE : FIBERS_ALL);
         plans++) {
        w->plans = (fibers_plans)plans;
        check_with(w, m, instr, type);
    }
}

static void check_sample(walker *w, const sample *one)
{
    w->arena = dg_arena_open();
    w->sample = one;
    sample_program_walk(w->arena, one, check_in, w);
    dg_arena_close(&w->arena);
}

static int open_walker(void **state)
{
    dg_arena *a = dg_arena_open();
    walker *w = DG_NEW(a, walker);

    w->all.arena = a;
    *state = w;
    samples_of_all(&w->all);
    return 0;
}

static int close_walker(void **state)
{
    walker *w = *state;
    dg_arena *a = w->all.arena;

    dg_arena_close(&a);
    return 0;
}

static void kernels_agree_with_ref_on_every_sample(void **state)
{
    walker *w = *state;

    for (int i = 0; i < w->all.list.n; i++)
        check_sample(w, w->all.list.items[i]);
    assert_int_equal(w->failures, 0);
}

static void every_kernel_has_run(void **state)
{
    const walker *w = *state;
    int ops = 0, runs = 0, worst[SAMPLE_TYPES] = { 0 };

    print_message("# without a CUDA kernel:");
    for (int i = 0; i < DG_N_OPS; i++) {
        bool exists = dg_cuda_find(dg_ops[i].name, NULL, 0) != NULL;

        if (!exists && dg_ops[i].effect != DG_COLLECTIVE)
            print_message(" %s", dg_ops[i].name);
        if (exists && !w->runs[i])
            fail_msg("no sample runs the CUDA kernel of %s", dg_ops[i].name);
        ops += exists;
        runs += w->runs[i];
        for (int type = 0; type < SAMPLE_TYPES; type++)
            if (w->worst[i][type] > w->worst[worst[type]][type])
                worst[type] = i;
    }
    print_message("\n");
    assert_true(ops > 0);
    assert_true(w->convolutions > 0);
    print_message(
        "# %d ops, %d runs, %lld launches, %lld switches of threads, %lld convolutions of "
        "the library\n",
        ops, runs, (long long)w->launches, (long long)w->switches, (long long)w->convolutions);
    for (int type = 0; type < SAMPLE_TYPES; type++)
        print_message("# %s: worst error over the largest magnitude %.2g (%s)\n",
                      sample_type_names[type], w->worst[worst[type]][type],
                      dg_ops[worst[type]].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_with_ref_on_every_sample),
        cmocka_unit_test(every_kernel_has_run),
    };

    return cmocka_run_group_tests_name("twins", tests, open_walker, close_walker);
}
