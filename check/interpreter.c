/* interpreter.c: see interpreter.h. */
#include "check/interpreter.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xA5, OLD_GARBAGE = 0xFF, NEW_GARBAGE = 0x3C };

static dg_dtype storage(int bits, dg_dtype t)
{
    return t != DG_REAL ? t : bits == 64 ? DG_F64 : DG_F32;
}

/* Fills the guard zones around `bytes` bytes in room; returns where those begin. */
static void *set_guards(char *room, size_t bytes)
{
    memset(room, GUARD_BYTE, GUARD);
    memset(room + GUARD + bytes, GUARD_BYTE, GUARD);
    return room + GUARD;
}

static void *guarded_alloc(dg_arena *a, size_t bytes)
{
    return set_guards(dg_alloc(a, bytes + 2 * GUARD), bytes);
}

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static bool is_intact(const dg_tensor *t)
{
    const unsigned char *at = t->data;
    size_t bytes = bytes_of(t);

    for (int i = 0; i < GUARD; i++)
        if (at[i - GUARD] != GUARD_BYTE || at[bytes + (size_t)i] != GUARD_BYTE)
            return false;
    return true;
}

dg_interpreter *dg_interpreter_open(dg_arena *a, const dg_program *p, int bits)
{
    dg_interpreter *m = DG_NEW(a, dg_interpreter);

    *m = (dg_interpreter){ .arena = a, .p = p, .bits = bits, .threads = 1 };
    m->data = DG_NEW_N(a, p->values.n, void *);
    for (int32_t v = 1; v < p->values.n; v++) {
        const dg_value *x = &p->values.items[v];
        dg_tensor t = dg_interpreter_tensor(m, v);

        t.data = m->data[v] = guarded_alloc(a, bytes_of(&t));
        for (int64_t i = 0; x->constant && i < dg_shape_elements(t.shape); i++)
            dg_tensor_set(&t, i,
                          x->dtype == DG_I32 ? (double)((const int32_t *)x->constant)[i]
                                             : ((const double *)x->constant)[i]);
    }
    return m;
}

dg_tensor dg_interpreter_tensor(const dg_interpreter *m, int32_t value)
{
    const dg_value *x = &m->p->values.items[value];

    if (!value)
        return (dg_tensor){ .dtype = DG_REAL, .shape.rank = -1 };
    return (dg_tensor){ storage(m->bits, x->dtype), x->shape, m->data[value] };
}

void dg_interpreter_set(dg_interpreter *m, int32_t value, const double *numbers)
{
    dg_tensor t = dg_interpreter_tensor(m, value);

    for (int64_t i = 0; i < dg_shape_elements(t.shape); i++)
        dg_tensor_set(&t, i, numbers[i]);
}

double dg_interpreter_get(const dg_interpreter *m, int32_t value, int64_t i)
{
    dg_tensor t = dg_interpreter_tensor(m, value);

    return dg_tensor_get(&t, i);
}

int dg_interpreter_operands(const dg_interpreter *m, const dg_instr *instr,
                            dg_tensor t[DG_MAX_OPERANDS])
{
    for (int i = 0; i < instr->n_in + instr->n_out; i++)
        t[i] = dg_interpreter_tensor(m, instr->v[i]);
    return instr->n_in + instr->n_out;
}

/* Runs a kernel with its workspace filled with one byte value and between guard zones. */
static int run_kernel(const dg_kernel *k, const dg_tensor *t, int n, const void *attr,
                      const dg_control *c, int threads, int garbage, bool *outside)
{
    dg_tensor shapes[DG_MAX_OPERANDS];
    dg_prepare p = { .t = shapes, .n = n, .attr = attr, .threads = threads };

    for (int i = 0; i < n; i++) {
        shapes[i] = t[i];
        shapes[i].data = NULL;
    }
    int rc = k->prepare ? k->prepare(&p) : 0;
    char *room = rc == 0 ? dg_try_alloc(p.workspace_bytes + 2 * GUARD) : NULL;

    if (room) {
        dg_tensor work = { DG_U8, DG_SHAPE((int64_t)p.workspace_bytes),
                           set_guards(room, p.workspace_bytes) };

        memset(work.data, garbage, p.workspace_bytes);
        rc = k->run(&(dg_args){ t, n, attr, c, work.data, p.handle, threads });
        *outside = !is_intact(&work);
        dg_free(room);
    } else if (rc == 0) {
        rc = -DG_EMEMORY;
    }
    if (k->release && p.handle)
        k->release(p.handle);
    return rc;
}

int dg_interpreter_kernel(const dg_kernel *k, const dg_tensor *t, int n, const void *attr,
                          const dg_control *c, int threads)
{
    bool outside = false;

    return run_kernel(k, t, n, attr, c, threads, OLD_GARBAGE, &outside);
}

static const dg_kernel *kernel_of(const dg_interpreter *m, const dg_op *op)
{
    return m->bits == 64 ? op->ref64 : m->host && op->host ? op->host : op->ref32;
}

static bool is_plugin_op(const dg_op *op)
{
    return op < dg_ops || op >= dg_ops + DG_N_OPS;
}

/* ---- detecting kernel faults ----------------------------------------------------------------- */

/* True if the instruction may write operand i. */
static bool may_write(const dg_instr *instr, int i)
{
    dg_signature s;

    return i >= instr->n_in || (dg_signature_parse(&s, instr->op->signature) == 0 &&
                                dg_signature_at(&s, instr->n_in, i)->state);
}

static void copy_operands(dg_arena *a, const dg_instr *instr, const dg_tensor *from, dg_tensor *to,
                          int garbage)
{
    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        to[i] = from[i];
        if (!from[i].data)
            continue;
        to[i].data = guarded_alloc(a, bytes_of(&from[i]));
        if (i < instr->n_in)
            memcpy(to[i].data, from[i].data, bytes_of(&from[i]));
        else
            memset(to[i].data, garbage, bytes_of(&from[i]));
    }
}

/* Runs the kernel again on copies, with other garbage in outputs and workspace, or with other
 * threads; the bits must not change. */
static dg_kernel_fault_kind run_again(const dg_interpreter *m, const dg_instr *instr,
                                      const dg_tensor *before, const dg_tensor *t, int threads,
                                      int garbage, int *operand)
{
    dg_arena *a = dg_arena_open();
    dg_tensor other[DG_MAX_OPERANDS];
    bool outside = false;
    dg_kernel_fault_kind kind = DG_KERNEL_NONE;

    copy_operands(a, instr, before, other, garbage);
    if (run_kernel(kernel_of(m, instr->op), other, instr->n_in + instr->n_out, instr->attr,
                   &m->control, threads, garbage, &outside))
        kind = DG_KERNEL_FAILED;
    for (int i = 0; i < instr->n_in + instr->n_out && kind == DG_KERNEL_NONE; i++)
        if (t[i].data && may_write(instr, i) &&
            memcmp(t[i].data, other[i].data, bytes_of(&t[i])) != 0) {
            *operand = i;
            kind = threads != m->threads    ? DG_KERNEL_THREADS
                   : garbage != OLD_GARBAGE ? DG_KERNEL_GARBAGE
                                            : DG_KERNEL_STATE;
        }
    dg_arena_close(&a);
    return kind;
}

static dg_kernel_fault_kind watch_kernel(const dg_interpreter *m, const dg_instr *instr,
                                         const dg_tensor *t, int *operand)
{
    dg_arena *a = dg_arena_open();
    int n = instr->n_in + instr->n_out;
    bool outside = false;
    dg_kernel_fault_kind kind = DG_KERNEL_NONE;
    dg_tensor before[DG_MAX_OPERANDS];

    copy_operands(a, instr, t, before, OLD_GARBAGE);
    for (int i = instr->n_in; i < n; i++)
        if (t[i].data)
            memset(t[i].data, OLD_GARBAGE, bytes_of(&t[i]));
    if (run_kernel(kernel_of(m, instr->op), t, n, instr->attr, &m->control, m->threads, OLD_GARBAGE,
                   &outside))
        kind = DG_KERNEL_FAILED;
    if (outside) {
        kind = DG_KERNEL_OUTSIDE;
        *operand = -1;
    }
    for (int i = 0; i < n && kind == DG_KERNEL_NONE; i++) {
        *operand = i;
        if (t[i].data && !is_intact(&t[i]))
            kind = DG_KERNEL_OUTSIDE;
        else if (t[i].data && before[i].data && !may_write(instr, i) &&
                 memcmp(t[i].data, before[i].data, bytes_of(&t[i])) != 0)
            kind = DG_KERNEL_INPUT;
    }
    if (kind == DG_KERNEL_NONE)
        kind = run_again(m, instr, before, t, m->threads, OLD_GARBAGE, operand);
    if (kind == DG_KERNEL_NONE)
        kind = run_again(m, instr, before, t, m->threads, NEW_GARBAGE, operand);
    /* built-in ops have their own tests and tolerances */
    if (kind == DG_KERNEL_NONE && is_plugin_op(instr->op))
        kind = run_again(m, instr, before, t, m->threads + 2, OLD_GARBAGE, operand);
    dg_arena_close(&a);
    return kind;
}

/* True if the gradient deliberately ends here: a detached value, a selection, a comparison. A
 * plugin's op with real outputs may have forgotten its gradient, and that of a norm's statistics is
 * in the norm's own rule. */
static bool is_frozen(const dg_interpreter *m, const dg_instr *instr)
{
    bool real = false, moves = false, passes = false;

    for (int i = 0; i < instr->n_in + instr->n_out; i++) {
        const dg_value *x = &m->p->values.items[instr->v[i]];

        if (i < instr->n_in)
            moves = moves || x->needs_gradient;
        else
            passes = passes || x->needs_gradient;
        real = real || (i >= instr->n_in && instr->v[i] && x->dtype == DG_REAL);
    }
    return moves && !passes && instr->op != DG_OP(batch_stats) &&
           !(real && is_plugin_op(instr->op));
}

int dg_interpreter_run(dg_interpreter *m, bool forward_only)
{
    m->fault = (dg_kernel_fault){ DG_KERNEL_NONE, -1, -1 };
    for (int i = 0; i < m->p->instrs.n; i++) {
        const dg_instr *instr = &m->p->instrs.items[i];
        dg_tensor t[DG_MAX_OPERANDS];
        int n = dg_interpreter_operands(m, instr, t), rc = 0;

        if ((forward_only && instr->phase != DG_FORWARD) || (m->frozen && is_frozen(m, instr)))
            continue;
        assert(instr->op->effect != DG_COLLECTIVE);
        if (!kernel_of(m, instr->op)) {
            m->fault.kind = DG_KERNEL_MISSING;
            rc = -DG_EUNSUPPORTED;
        } else if (m->checked) {
            m->fault.kind = watch_kernel(m, instr, t, &m->fault.operand);
            rc = m->fault.kind == DG_KERNEL_NONE ? 0 : -DG_EINTERNAL;
        } else {
            rc = dg_interpreter_kernel(kernel_of(m, instr->op), t, n, instr->attr, &m->control,
                                       m->threads);
            m->fault.kind = rc ? DG_KERNEL_FAILED : DG_KERNEL_NONE;
        }
        if (rc) {
            m->fault.instr = i;
            return rc;
        }
    }
    return 0;
}

int32_t dg_interpreter_gradient(const dg_program *p, int param)
{
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *instr = &p->instrs.items[i];

        if (instr->op == DG_OP(accumulate) && p->values.items[instr->v[0]].param == param)
            return instr->v[0];
    }
    return 0;
}
