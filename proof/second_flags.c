/* second_flags.c: does a flag made of other flags differ between ranks? Guards are conjunctions,
 * negations and, from these, disjunctions, of a few flags. If one of them decides nothing, it does
 * not matter that it differs: the flag's truth table says so. */
#include "proof/second_internal.h"
#include "tensor/ops.h"

enum { MOST = 10, TERMS = 64, WORDS = (1 << MOST) / 64 };

typedef struct formula {
    const dg_look *l;
    bool failed; /* too large */
    int n, n_terms;
    int32_t flag[MOST];           /* flags that are given */
    int32_t term[TERMS];          /* flags made of them */
    uint64_t table[TERMS][WORDS]; /* bit s: the truth under assignment s */
} formula;

static const dg_instr *maker(const formula *f, int32_t v)
{
    const dg_program *p = f->l->p;
    int i = p->values.items[v].producer;

    return i >= 0 ? &p->instrs.items[i] : NULL;
}

/* True if v is made of one or two flags, by the instruction. */
static bool is_made(const formula *f, int32_t v)
{
    const dg_instr *in = maker(f, v);

    return in && !in->guard &&
           (in->op == DG_OP(truth_i32) || in->op == DG_OP(truth) || in->op == DG_OP(reshape_i32)) &&
           dg_shape_elements(f->l->p->values.items[v].shape) == 1;
}

static void collect(formula *f, int32_t v)
{
    if (f->failed)
        return;
    if (!is_made(f, v)) {
        int i = 0;

        while (i < f->n && f->flag[i] != v)
            i++;
        f->failed |= i == MOST;
        if (i == f->n && !f->failed)
            f->flag[f->n++] = v;
        return;
    }
    for (int i = 0; i < f->n_terms; i++)
        if (f->term[i] == v)
            return;
    f->failed |= f->n_terms == TERMS;
    if (f->failed)
        return;

    const dg_instr *in = maker(f, v);

    for (int k = 0; k < in->n_in; k++)
        if (in->v[k])
            collect(f, in->v[k]);
    f->failed |= f->n_terms == TERMS;
    if (!f->failed)
        f->term[f->n_terms++] = v; /* after what it is made of */
}

/* The truth of a flag under 64 assignments. */
static uint64_t word(const formula *f, int32_t v, int w)
{
    static const uint64_t low[] = { 0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, 0xf0f0f0f0f0f0f0f0,
                                    0xff00ff00ff00ff00, 0xffff0000ffff0000, 0xffffffff00000000 };

    for (int i = 0; i < f->n; i++)
        if (f->flag[i] == v)
            return i < 6 ? low[i] : w >> (i - 6) & 1 ? UINT64_MAX : 0;
    for (int i = 0; i < f->n_terms; i++)
        if (f->term[i] == v)
            return f->table[i][w];
    return 0;
}

static void evaluate(formula *f, int term)
{
    const dg_instr *in = maker(f, f->term[term]);
    bool negate = in->op != DG_OP(reshape_i32) && ((const truth_attr *)in->attr)->negate;

    for (int w = 0; w < WORDS; w++) {
        uint64_t x = word(f, in->v[0], w);

        x = negate ? ~x : x;
        f->table[term][w] = in->n_in > 1 && in->v[1] ? x & word(f, in->v[1], w) : x;
    }
}

/* True if the last term is not the same with flag i and without. */
static bool depends(const formula *f, int i)
{
    const uint64_t *t = f->table[f->n_terms - 1];

    for (int s = 0; s < 1 << f->n; s++)
        if ((t[s / 64] >> s % 64 & 1) != (t[(s ^ 1 << i) / 64] >> (s ^ 1 << i) % 64 & 1))
            return true;
    return false;
}

uint32_t dg_second_flag(const dg_look *l, int32_t v)
{
    formula f = { .l = l };
    uint32_t axes = 0;

    if (!is_made(&f, v))
        return UINT32_MAX;
    collect(&f, v);
    if (f.failed)
        return UINT32_MAX;
    for (int i = 0; i < f.n_terms; i++)
        evaluate(&f, i);
    for (int i = 0; i < f.n; i++)
        if (dg_second_read(l, f.flag[i]) && depends(&f, i))
            axes |= dg_second_read(l, f.flag[i]);
    return axes;
}
