/* bucket.c: from a scope and an image size to a program that runs. */
#include "runtime/bucket.h"

#include <stdlib.h>

int dg_bucket_lower(dg_bucket **out, const dg_bucket_conf *c, const dg_scope *scope, dg_size size, dg_diag *d)
{
    dg_bucket *b = calloc(1, sizeof *b);
    int        rc;

    if (!b)
        dg_oom(sizeof *b);
    b->scope = scope;
    b->size = size;
    rc = dg_graph_lower(&b->program, c->graph, scope, size, c->params, d);
    if (rc < 0)
        dg_bucket_close(&b, c->backend);
    *out = b;
    return rc;
}

/* What the run shows if a node gives it that name: kept to the end like any result. */
static void show_named(dg_program *p)
{
    static const char *const names[] = { "loss.total", "grad_norm" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t v = dg_program_named(p, names[i]);

        if (v && !dg_program_result(p, names[i]))
            DG_PUSH(p->arena, p->results, ((dg_binding){ names[i], v }));
    }
}

int dg_bucket_plan(dg_bucket *b, const dg_bucket_conf *c, dg_diag *d)
{
    int rc;

    if (b->plan)
        return 0;
    if (b->program->training)
        show_named(b->program);
    rc = dg_passes(b->program, c->base, c->low, c->ranks, d);
    return rc < 0 ? rc : dg_plan_open(&b->plan, b->program, c->backend, c->threads, d);
}

static int grow(const dg_backend *backend, void **p, int64_t *have, int64_t want, const char *what, dg_diag *d)
{
    char bytes[32];

    if (want <= *have)
        return 0;
    backend->free(backend, *p);
    *have = 0;
    *p = backend->alloc(backend, (size_t)want);
    if (!*p)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for %s of %s",
                       dg_human_bytes((double)want, bytes, sizeof bytes), what);
    *have = want;
    return 0;
}

static dg_spaces spaces(const dg_bucket *b, const dg_memory *m, const dg_store *s, bool ema)
{
    dg_spaces x = { { 0 } };

    for (int k = 0; k < DG_N_SPACES; k++)
        x.at[k] = s->space[k];
    if (ema)
        x.at[DG_WEIGHTS] = s->space[DG_EMA];
    x.at[DG_SLAB] = m->slab;
    x.at[DG_IO] = m->io;
    x.at[DG_CONSTANTS] = b->constants;
    return x;
}

int dg_bucket_bind(dg_bucket *b, const dg_memory *m, const dg_store *s, bool ema, dg_diag *d)
{
    dg_spaces x = spaces(b, m, s, ema);

    return dg_exec_bind(b->exec, &x, d);
}

int dg_bucket_compile(dg_bucket *b, const dg_bucket_conf *c, dg_memory *m, const dg_store *s, dg_diag *d)
{
    size_t constant_bytes;
    int    rc;

    if (b->exec)
        return 0;
    DG_TRY(dg_bucket_plan(b, c, d));
    constant_bytes = b->plan->constant_bytes ? (size_t)b->plan->constant_bytes : 64;
    b->constants = c->backend->alloc(c->backend, constant_bytes);
    if (!b->constants)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for %zu bytes of constants", constant_bytes);
    m->backend = c->backend;
    DG_TRY(grow(c->backend, &m->slab, &m->slab_bytes, b->plan->slab_bytes, "intermediate values", d));
    DG_TRY(grow(c->backend, &m->io, &m->io_bytes, b->plan->io_bytes, "the batch", d));

    dg_spaces x = spaces(b, m, s, false);

    DG_TRY(dg_exec_open(&b->exec, b->plan, c->backend, &x, c->comm, d));
    b->exchange = dg_plan_digest(b->plan);
    if (c->recorder)
        dg_exec_watch(b->exec, c->recorder);
    if (c->witness)
        dg_exec_attend(b->exec, c->witness);
out:
    return rc;
}

void dg_bucket_close(dg_bucket **b, const dg_backend *backend)
{
    if (!*b)
        return;
    if ((*b)->exec)
        dg_exec_close(&(*b)->exec);
    if ((*b)->constants)
        backend->free(backend, (*b)->constants);
    if ((*b)->plan)
        dg_plan_close(&(*b)->plan);
    if ((*b)->program)
        dg_program_close(&(*b)->program);
    free(*b);
    *b = NULL;
}

void dg_memory_close(dg_memory *m)
{
    if (m->backend) {
        m->backend->free(m->backend, m->slab);
        m->backend->free(m->backend, m->io);
    }
    *m = (dg_memory){ 0 };
}
