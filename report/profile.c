/* profile.c: sums the times of instructions. */
#include "report/profile.h"

#include <stdlib.h>
#include <string.h>

dg_profile *dg_profile_open(void)
{
    dg_arena *a = dg_arena_open();
    dg_profile *p = DG_NEW(a, dg_profile);

    p->arena = a;
    return p;
}

void dg_profile_close(dg_profile **p)
{
    dg_arena *a = *p ? (*p)->arena : NULL;

    dg_arena_close(&a);
    *p = NULL;
}

static dg_share *find(dg_profile *p, dg_shares *list, const char *name)
{
    for (int i = 0; i < list->n; i++)
        if (list->items[i].name == name || strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    DG_PUSH(p->arena, *list, ((dg_share){ .name = name }));
    return &list->items[list->n - 1];
}

void dg_profile_add(dg_profile *p, const dg_plan *plan, int instr, double seconds, int64_t pieces)
{
    const dg_instr *in = &plan->program->instrs.items[instr];
    const dg_plan_instr *pi = &plan->instrs[instr];
    const char *node = in->origin.where.node ? in->origin.where.node : "-";
    dg_share *of[] = { find(p, &p->nodes, node), find(p, &p->ops, in->op->name), &p->all };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        of[i]->seconds += seconds;
        of[i]->flops += pi->flops;
        of[i]->bytes += pi->bytes;
        of[i]->ref_s += pi->is_ref ? seconds : 0;
        of[i]->pieces += (double)pieces;
    }
}

static int by_seconds(const void *x, const void *y)
{
    const dg_share *a = x, *b = y;

    return (a->seconds < b->seconds) - (a->seconds > b->seconds);
}

void dg_profile_sort(dg_profile *p)
{
    if (p->nodes.n)
        qsort(p->nodes.items, (size_t)p->nodes.n, sizeof *p->nodes.items, by_seconds);
    if (p->ops.n)
        qsort(p->ops.items, (size_t)p->ops.n, sizeof *p->ops.items, by_seconds);
}

void dg_profile_json(dg_str *s, const char *key, const dg_shares *list, int64_t steps)
{
    double n = steps > 0 ? (double)steps : 1;

    dg_str_fmt(s, "\"%s\":[", key);
    for (int i = 0; i < list->n; i++) {
        const dg_share *x = &list->items[i];

        dg_str_add(s, i ? ",\n{\"name\":" : "\n{\"name\":");
        dg_str_json(s, x->name);
        dg_str_fmt(s,
                   ",\"seconds\":%.6f,\"gflops\":%.3f,\"gb\":%.4f,\"ref_seconds\":%.6f,"
                   "\"pieces\":%.1f}",
                   x->seconds / n, 1e-9 * x->flops / n, 1e-9 * x->bytes / n, x->ref_s / n,
                   x->pieces / n);
    }
    dg_str_add(s, "]");
}
