/* second_meet.c: compares the collectives of two programs, in order. Ranks whose images have other
 * sizes at the same step execute other programs; what they exchange must be the same. */
#include "proof/second.h"

#include <string.h>

#include "base/str.h"

/* The next collective over some of these axes, from instruction *at; NULL: none. */
static const dg_instr *next(const dg_program *p, int *at, uint32_t axes, const dg_second_host *h)
{
    while (*at < p->instrs.n) {
        const dg_instr *in = &p->instrs.items[(*at)++];

        if (in->op->effect == DG_COLLECTIVE && dg_second_axes(in, h) & axes)
            return in;
    }
    return NULL;
}

static const dg_value *operand(const dg_program *p, const dg_instr *in)
{
    return &p->values.items[in->v[0]];
}

static bool same(const dg_program *p, const dg_instr *x, const dg_program *q, const dg_instr *y)
{
    return x->op == y->op && x->origin.node == y->origin.node && x->segment == y->segment &&
           operand(p, x)->dtype == operand(q, y)->dtype &&
           dg_shape_elements(operand(p, x)->shape) == dg_shape_elements(operand(q, y)->shape) &&
           memcmp(x->attr, y->attr, x->op->attr_bytes) == 0;
}

static void print(dg_str *s, const dg_program *p, const dg_instr *in)
{
    char shape[64];

    if (!in) {
        dg_str_add(s, "no other one");
        return;
    }
    dg_str_fmt(s, "%s of %s%s of \"%s\"", in->op->name, dg_dtype_name(operand(p, in)->dtype),
               dg_shape_print(operand(p, in)->shape, shape, sizeof shape),
               in->origin.where.node ? in->origin.where.node : "?");
}

static int differ(const dg_program *p, const dg_instr *x, const dg_program *q, const dg_instr *y,
                  int number, const dg_second_host *h, dg_diag *d)
{
    const dg_instr *one = x ? x : y, *other = x && y ? y : NULL;
    dg_str s = { 0 };
    int rc;

    print(&s, p, x);
    dg_str_add(&s, " in one program, and ");
    print(&s, q, y);
    rc = dg_fail(d, DG_EINTERNAL, one->origin.where, "proof-disagrees",
                 "the graph was proved, but not its programs: ranks may have images of different "
                 "sizes at one step, and their collective %d is %s in another",
                 number, s.s);
    dg_str_free(&s);
    if (other && other->origin.node != one->origin.node)
        dg_note(d, other->origin.where, "the other is here");
    if (h->size.node)
        dg_note(d, h->size.node->where, "<%s id=\"%s\"> %s", h->size.node->element,
                h->size.node->id, h->size.why);
    dg_help(d, "let all ranks have one size at a step: a sampler with axis; and report this "
               "pipeline: either the proof is wrong or a plugin's rows are");
    return rc;
}

int dg_second_meet(const dg_program *p, const dg_program *q, uint32_t axes, const dg_second_host *h,
                   dg_diag *d)
{
    int i = 0, k = 0;

    for (int number = 1;; number++) {
        const dg_instr *x = next(p, &i, axes, h), *y = next(q, &k, axes, h);

        if (!x && !y)
            return 0;
        if (!x || !y || !same(p, x, q, y))
            return differ(p, x, q, y, number, h, d);
    }
}
