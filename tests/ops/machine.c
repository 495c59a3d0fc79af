/* machine.c: see machine.h. */
#include "tests/ops/machine.h"

#include <math.h>
#include <string.h>

#include "tests/check.h"

static dg_dtype storage(int bits, dg_dtype t)
{
    return t != DG_REAL ? t : bits == 64 ? DG_F64 : DG_F32;
}

double tensor_get(const dg_tensor *t, int64_t i)
{
    union {
        uint32_t u;
        float    f;
    } wide;

    switch (t->dtype) {
    case DG_F32:
        return ((const float *)t->data)[i];
    case DG_F64:
        return ((const double *)t->data)[i];
    case DG_BF16:
        wide.u = (uint32_t)((const uint16_t *)t->data)[i] << 16;
        return wide.f;
    case DG_I32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

void tensor_set(const dg_tensor *t, int64_t i, double x)
{
    union {
        uint32_t u;
        float    f;
    } wide;

    switch (t->dtype) {
    case DG_F32:
        ((float *)t->data)[i] = (float)x;
        break;
    case DG_F64:
        ((double *)t->data)[i] = x;
        break;
    case DG_BF16: /* to nearest even */
        wide.f = (float)x;
        wide.u += isnan(x) ? 0 : 0x7FFF + (wide.u >> 16 & 1);
        ((uint16_t *)t->data)[i] = (uint16_t)(wide.u >> 16);
        break;
    case DG_I32:
        ((int32_t *)t->data)[i] = (int32_t)x;
        break;
    case DG_U8:
        ((uint8_t *)t->data)[i] = (uint8_t)x;
        break;
    default:
        fail_msg("a %s cannot be set", dg_dtype_name(t->dtype));
    }
}

machine *machine_open(dg_arena *a, const dg_program *p, int bits)
{
    machine *m = DG_NEW(a, machine);

    *m = (machine){ .arena = a, .p = p, .bits = bits, .threads = 1 };
    m->data = DG_NEW_N(a, p->values.n, void *);
    for (int32_t v = 1; v < p->values.n; v++) {
        const dg_value *x = &p->values.items[v];
        dg_tensor       t = machine_tensor(m, v);
        int64_t         n = dg_shape_elements(t.shape);

        t.data = m->data[v] = dg_alloc_n(a, (size_t)n, dg_dtype_size(t.dtype));
        for (int64_t i = 0; x->constant && i < n; i++)
            tensor_set(&t, i,
                       x->dtype == DG_I32 ? (double)((const int32_t *)x->constant)[i]
                                          : ((const double *)x->constant)[i]);
    }
    return m;
}

dg_tensor machine_tensor(const machine *m, int32_t value)
{
    const dg_value *x = &m->p->values.items[value];

    if (!value)
        return (dg_tensor){ .dtype = DG_REAL, .shape.rank = -1 };
    return (dg_tensor){ storage(m->bits, x->dtype), x->shape, m->data[value] };
}

void machine_set(machine *m, int32_t value, const double *numbers)
{
    dg_tensor t = machine_tensor(m, value);

    for (int64_t i = 0; i < dg_shape_elements(t.shape); i++)
        tensor_set(&t, i, numbers[i]);
}

double machine_get(const machine *m, int32_t value, int64_t i)
{
    dg_tensor t = machine_tensor(m, value);

    return tensor_get(&t, i);
}

int machine_operands(const machine *m, const dg_instr *instr, dg_tensor t[DG_MAX_OPERANDS])
{
    for (int i = 0; i < instr->n_in + instr->n_out; i++)
        t[i] = machine_tensor(m, instr->v[i]);
    return instr->n_in + instr->n_out;
}

int run_kernel(const dg_kernel *k, const dg_tensor *t, int n, const void *attr, const dg_control *c,
               int threads)
{
    dg_tensor  shapes[DG_MAX_OPERANDS];
    dg_prepare p = { .t = shapes, .n = n, .attr = attr, .threads = threads };

    for (int i = 0; i < n; i++) {
        shapes[i] = t[i];
        shapes[i].data = NULL;
    }
    int rc = k->prepare ? k->prepare(&p) : 0;

    if (rc == 0) {
        void *workspace = dg_try_alloc(p.workspace_bytes);

        assert_non_null(workspace);
        memset(workspace, 0xFF, p.workspace_bytes);
        rc = k->run(&(dg_args){ t, n, attr, c, workspace, p.handle, threads });
        dg_free(workspace);
    }
    if (k->release && p.handle)
        k->release(p.handle);
    return rc;
}

int machine_run(machine *m, bool forward_only)
{
    for (int i = 0; i < m->p->instrs.n; i++) {
        const dg_instr *instr = &m->p->instrs.items[i];
        dg_tensor       t[DG_MAX_OPERANDS];
        int             n = machine_operands(m, instr, t), rc;

        if (forward_only && instr->phase != DG_FORWARD)
            continue;
        assert_int_not_equal(instr->op->effect, DG_COLLECTIVE);
        rc = run_kernel(m->bits == 64 ? instr->op->ref64 : instr->op->ref32, t, n, instr->attr,
                        &m->control, m->threads);
        if (rc)
            return rc;
    }
    return 0;
}

int32_t gradient_of(const dg_program *p, int param)
{
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *instr = &p->instrs.items[i];

        if (instr->op == DG_OP(accumulate) && p->values.items[instr->v[0]].param == param)
            return instr->v[0];
    }
    return 0;
}
