/* watched.c: see watched.h. */
#include "runtime/watched.h"

#include <stdlib.h>
#include <string.h>

typedef struct one {
    int32_t value;
    int     monitor, next; /* next: of the same instruction, -1 */
    bool    fires, last;   /* last: of the monitor's values, in the order in which they are made */
} one;

struct dg_watched {
    DG_VEC(one) all;
    int *first; /* by instruction; -1 */
};

bool dg_watched_is(const char *result)
{
    return strncmp(result, "watch/", 6) == 0 || strncmp(result, "fires/", 6) == 0;
}

/* When an instruction runs: what the host writes comes first, the update last. */
static int64_t turn_of(const dg_program *p, int32_t value)
{
    int i = p->values.items[value].producer;

    return i < 0 ? -1 : i + (p->instrs.items[i].segment == DG_SEG_UPDATE ? (int64_t)p->instrs.n : 0);
}

static void mark_last(dg_watched *l, const dg_program *p)
{
    for (int i = 0; i < l->all.n; i++) {
        one *x = &l->all.items[i];

        x->last = true;
        for (int k = 0; k < l->all.n && x->last; k++) {
            const one *y = &l->all.items[k];
            int64_t    here = turn_of(p, x->value), there = turn_of(p, y->value);

            x->last = y->monitor != x->monitor || there < here || (there == here && k >= i); /* of one instruction, from behind */
        }
    }
}

dg_watched *dg_watched_find(dg_arena *a, const dg_program *p)
{
    dg_watched *l = DG_NEW(a, dg_watched);
    int         n = p->instrs.n;

    l->first = DG_NEW_N(a, n + 1, int);
    for (int i = 0; i <= n; i++)
        l->first[i] = -1;
    for (int i = p->results.n - 1; i >= 0; i--) { /* the keys of a record stay in their order */
        const dg_binding *r = &p->results.items[i];
        int               at = p->values.items[r->value].producer;
        one               x = { .value = r->value };

        if (!dg_watched_is(r->name))
            continue;
        x.fires = *r->name == 'f';
        x.monitor = atoi(r->name + strlen("watch/"));
        at = at < 0 ? n : at;
        x.next = l->first[at];
        l->first[at] = l->all.n;
        DG_PUSH(a, l->all, x);
    }
    mark_last(l, p);
    return l;
}

static int see_value(const one *o, dg_witness *w, const dg_tensor *t, const dg_backend *b)
{
    enum { PIECE = 4096 };
    size_t bytes = (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
    char   piece[PIECE];
    int    rc = 0;

    for (size_t i = 0; i < bytes && rc == 0; i += PIECE) {
        size_t n = bytes - i < PIECE ? bytes - i : PIECE;

        rc = b->download(b, piece, (const char *)t->data + i, n);
        if (rc == 0)
            dg_witness_see(w, o->monitor, piece, n);
    }
    return rc;
}

static int see_flag(const one *o, dg_witness *w, const dg_tensor *t, const dg_backend *b)
{
    int32_t flag = 0;
    int     rc = b->download(b, &flag, t->data, sizeof flag);

    flag = flag != 0;
    if (rc == 0)
        dg_witness_see(w, o->monitor, &flag, sizeof flag);
    return rc;
}

int dg_watched_see(const dg_watched *l, dg_witness *w, const dg_exec *x, const dg_backend *b, int i, bool off, dg_diag *d)
{
    int rc = 0;

    for (int k = l->first[i]; k >= 0 && rc == 0; k = l->all.items[k].next) {
        const one      *o = &l->all.items[k];
        const dg_tensor t = dg_exec_tensor(x, o->value);

        if (o->fires)
            rc = see_flag(o, w, &t, b);
        else if (!off)
            rc = see_value(o, w, &t, b);
        if (rc < 0)
            rc = dg_fail(d, (dg_code)-rc, dg_witness_where(w, o->monitor), "device-copy", "the device refused to copy what is watched here");
        if (o->last)
            dg_witness_end(w, o->monitor);
    }
    return rc;
}
