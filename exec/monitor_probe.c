/* monitor_probe.c: see monitor_probe.h. */
#include "exec/exec_internal.h"

typedef struct one {
    int32_t value, there; /* there: a flag: 0 where there is no value; 0: always there */
    int64_t turn;         /* the time at which it can be shown */
    dg_where where;
    int monitor, next; /* next: of the same instruction; -1: none */
    bool fires, last;  /* last: it is the last of its monitor's values, in order of computation */
} one;

struct dg_monitor_probe {
    DG_VEC(one) all;
    int *first;                  /* by instruction; -1: none */
    int *collected, n_collected; /* indices into all: made since they were last shown */
};

/* The time at which a value is made: inputs from the host first, the update last. */
static int64_t turn_of(const dg_program *p, int32_t value)
{
    int i = p->values.items[value].producer;

    return i < 0 ? -1
                 : i + (p->instrs.items[i].segment == DG_SEG_UPDATE ? (int64_t)p->instrs.n : 0);
}

static void mark_last(dg_monitor_probe *l)
{
    for (int i = 0; i < l->all.n; i++) {
        one *x = &l->all.items[i];

        x->last = true;
        for (int k = 0; k < l->all.n && x->last; k++) {
            const one *y = &l->all.items[k];

            /* those of one instruction, backwards */
            x->last =
                y->monitor != x->monitor || y->turn < x->turn || (y->turn == x->turn && k >= i);
        }
    }
}

dg_monitor_probe *dg_monitor_probe_find(dg_arena *a, const dg_program *p)
{
    dg_monitor_probe *l = DG_NEW(a, dg_monitor_probe);
    int n = p->instrs.n;

    l->first = DG_NEW_N(a, n + 1, int);
    for (int i = 0; i <= n; i++)
        l->first[i] = -1;
    for (int i = p->results.n - 1; i >= 0; i--) { /* keeps the keys of a record in order */
        const dg_binding *r = &p->results.items[i];
        int at = p->values.items[r->value].producer;
        one x = { .value = r->value,
                  .turn = turn_of(p, r->value),
                  .monitor = r->index,
                  .fires = r->kind == DG_RESULT_MONITOR_FIRING };

        if (!dg_result_is_monitored(r) || r->kind == DG_RESULT_MONITOR_THERE)
            continue;
        if (!x.fires)
            x.there = dg_program_result_of(p, DG_RESULT_MONITOR_THERE, r->index);
        if (x.there && turn_of(p, x.there) > x.turn) {
            x.turn = turn_of(p, x.there);
            at = p->values.items[x.there].producer;
        }
        x.where = at < 0 ? DG_NOWHERE : p->instrs.items[at].origin.where;
        at = at < 0 ? n : at;
        x.next = l->first[at];
        l->first[at] = l->all.n;
        DG_PUSH(a, l->all, x);
    }
    l->collected = DG_NEW_N(a, l->all.n + 1, int);
    mark_last(l);
    return l;
}

void dg_monitor_probe_collect(dg_monitor_probe *l, int i)
{
    for (int k = l->first[i]; k >= 0; k = l->all.items[k].next)
        l->collected[l->n_collected++] = k;
}

bool dg_monitor_probe_has_some(const dg_monitor_probe *l)
{
    return l->n_collected > 0;
}

void dg_monitor_probe_empty(dg_monitor_probe *l)
{
    l->n_collected = 0;
}

static int show_one(const one *o, const dg_exec_observer *by, dg_exec *x, dg_diag *d)
{
    const dg_tensor t = dg_exec_tensor(x, o->value);
    const void *bytes;
    int32_t flag = 1;
    int rc = o->there ? dg_exec_peek(x, o->there, &bytes, d) : 0;

    if (rc == 0 && o->there)
        flag = *(const int32_t *)bytes;
    if (rc == 0)
        rc = dg_exec_peek(x, o->value, &bytes, d);
    if (rc < 0)
        return dg_fail(d, (dg_code)-rc, o->where, "device-copy",
                       "the device refused to copy what is watched here");
    if (!flag)
        return 0;
    if (o->fires) {
        flag = *(const int32_t *)bytes != 0;
        by->value(by->ctx, o->monitor, &flag, sizeof flag);
    } else {
        by->value(by->ctx, o->monitor, bytes, dg_exec_tensor_bytes(&t));
    }
    return 0;
}

int dg_monitor_probe_show(const dg_monitor_probe *l, const dg_exec_observer *by, dg_exec *x,
                          dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < l->n_collected && rc == 0; i++) {
        const one *o = &l->all.items[l->collected[i]];

        rc = show_one(o, by, x, d);
        if (o->last)
            by->value_end(by->ctx, o->monitor);
    }
    return rc;
}
