/* twins: walks the op table. Every op has a sample; on each of them, and on what autodiff makes
 * of it, the host kernel agrees with the f32 reference within the row's tolerance, and that with
 * the f64 one; in bf16, where the row allows it, the host agrees with the f32 reference on the
 * same rounded operands. All write every element of their outputs, may work in place where the
 * row says so, and take any number of threads. */
#include "tests/check.h"

#include <math.h>

#include "tests/ops/operands.h"
#include "tests/ops/sample_program.h"
#include "tests/ops/variants.h"

static const double REF32_TOLERANCE = 5e-6; /* f32 inputs, sums in double: a few roundings */
static const double BF16_TOLERANCE =
    0x1p-7; /* one rounding of the output is half of that at most, one more inside */

typedef struct tally {
    int runs;
    double host, ref32,
        low; /* worst error over the largest magnitude of an output; low: host in bf16 */
} tally;

typedef struct walker {
    dg_arena *arena; /* of one sample */
    samples all;
    tally tally[DG_N_OPS];
    const sample *sample;
    int failures;
} walker;

static void compare(walker *w, const dg_instr *instr, const char *who, const dg_tensor *a,
                    const dg_tensor *b, double tolerance, double *worst)
{
    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        if (!a[i].data || (i < instr->n_in && !operand_of(instr, i).state))
            continue;
        double d = distance(&a[i], &b[i],
                            w->sample->edges ? 1 : 0); /* a gradient may be exactly 0 there */

        *worst = fmax(*worst, d);
        if (d > tolerance) {
            print_error("# %s, sample \"%s\" of %s: operand %d of %s is off by %.3g, at most %.3g "
                        "was allowed\n",
                        instr->op->name, w->sample->what, w->sample->op->name, i, who, d,
                        tolerance);
            w->failures++;
        }
    }
}

static void run(const dg_kernel *k, const dg_instr *instr, const dg_tensor *t, const dg_control *c,
                int threads)
{
    assert_int_equal(dg_interpreter_kernel(k, t, instr->n_in + instr->n_out, instr->attr, c,
                                           threads),
                     0);
}

static void check_in_bf16(walker *w, const dg_interpreter *m, const dg_instr *instr,
                          const variant *host)
{
    tally *t = &w->tally[instr->op - dg_ops];
    dg_tensor ref[DG_MAX_OPERANDS], low[DG_MAX_OPERANDS];

    for (int in_place = 0; in_place < 2; in_place++) {
        copy_operands(w->arena, m, instr, DG_F32, ref);
        copy_operands(w->arena, m, instr, DG_BF16, low);
        widen_inputs(instr, low, ref);
        if (in_place)
            share_places(instr, low);
        run(instr->op->ref32, instr, ref, &m->control, 1);
        run(host->kernel, instr, low, &m->control, 2);
        compare(w, instr, dg_printf(w->arena, "%s, in bf16", host->name), low, ref, BF16_TOLERANCE,
                &t->low);
    }
}

/* Against what ref has made of the instruction; on two threads in place. */
static void check_host(walker *w, const dg_interpreter *m, const dg_instr *instr,
                       const dg_tensor *ref)
{
    const dg_op *op = instr->op;
    variant hosts[MAX_VARIANTS];
    dg_tensor other[DG_MAX_OPERANDS];

    for (int n = host_variants(op, hosts), i = 0; i < n; i++) {
        for (int threads = 1; threads <= 3; threads++) {
            copy_operands(w->arena, m, instr, DG_F32, other);
            if (threads == 2)
                share_places(instr, other);
            run(hosts[i].kernel, instr, other, &m->control, threads);
            compare(w, instr, hosts[i].name, other, ref, op->tolerance,
                    &w->tally[op - dg_ops].host);
        }
        if (op->effect == DG_PURE && op->precision != DG_WIDE)
            check_in_bf16(w, m, instr, &hosts[i]);
    }
}

static void check_instruction(walker *w, const dg_interpreter *m, const dg_instr *instr)
{
    const dg_op *op = instr->op;
    tally *t = &w->tally[op - dg_ops];
    dg_tensor ref[DG_MAX_OPERANDS], other[DG_MAX_OPERANDS];
    double none = 0;

    copy_operands(w->arena, m, instr, DG_F32, ref);
    run(op->ref32, instr, ref, &m->control, 1);

    copy_operands(w->arena, m, instr, DG_F64, other);
    run(op->ref64, instr, other, &m->control, 1);
    compare(w, instr, "ref in f32", ref, other, REF32_TOLERANCE, &t->ref32);

    copy_operands(w->arena, m, instr, DG_F32, other);
    share_places(instr, other);
    run(op->ref32, instr, other, &m->control, 3);
    compare(w, instr, "ref on three threads, in place", other, ref, 0, &none);

    check_host(w, m, instr, ref);
    t->runs++;
}

static void check_sample(walker *w, const sample *one)
{
    sample_program sp;

    w->arena = dg_arena_open();
    w->sample = one;
    sample_program_open(&sp, w->arena, one);

    dg_interpreter *m = dg_interpreter_open(w->arena, sp.p, 32);

    sample_program_fill(&sp, m);
    for (int i = 0; i < sp.p->instrs.n; i++) {
        const dg_instr *instr = &sp.p->instrs.items[i];
        dg_tensor t[DG_MAX_OPERANDS];
        int n = dg_interpreter_operands(m, instr, t);

        check_instruction(w, m, instr);
        assert_int_equal(dg_interpreter_kernel(instr->op->ref32, t, n, instr->attr, &m->control, 1),
                         0);
    }
    sample_program_close(&sp);
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

static void kernels_agree_on_every_sample(void **state)
{
    walker *w = *state;

    for (int i = 0; i < w->all.list.n; i++)
        check_sample(w, w->all.list.items[i]);
    assert_int_equal(w->failures, 0);
}

static void every_op_has_a_sample(void **state)
{
    const walker *w = *state;
    int ops = 0, runs = 0, hosts = 0, host = 0, ref32 = 0, low = 0;

    for (int i = 0; i < DG_N_OPS; i++) {
        const tally *t = &w->tally[i];

        if (dg_ops[i].effect == DG_COLLECTIVE)
            continue;
        if (!t->runs)
            fail_msg("no sample runs the op %s: add one to tests/ops/samples_*.c", dg_ops[i].name);
        ops++;
        runs += t->runs;
        hosts += dg_ops[i].host != NULL;
        host = t->host > w->tally[host].host ? i : host;
        ref32 = t->ref32 > w->tally[ref32].ref32 ? i : ref32;
        low = t->low > w->tally[low].low ? i : low;
    }
    print_message("# %d ops, %d with a host kernel; %d runs of %d samples\n", ops, hosts, runs,
                  w->all.list.n);
    print_message("# worst error over the largest magnitude: host against ref %.2g (%s), in bf16 "
                  "%.2g (%s), f32 ref "
                  "against f64 %.2g (%s)\n",
                  w->tally[host].host, dg_ops[host].name, w->tally[low].low, dg_ops[low].name,
                  w->tally[ref32].ref32, dg_ops[ref32].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree_on_every_sample),
        cmocka_unit_test(every_op_has_a_sample),
    };

    return cmocka_run_group_tests_name("twins", tests, open_walker, close_walker);
}
