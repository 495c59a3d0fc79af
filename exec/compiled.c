/* compiled.c: turns a scope and an image size into a runnable program. */
#include "exec/compiled.h"

#include <stdlib.h>

#include "proof/second.h"

int dg_compiled_lower(dg_compiled **out, const dg_compiled_conf *c, const dg_scope *scope,
                      dg_size size, dg_diag *d)
{
    dg_compiled *b = calloc(1, sizeof *b);
    int rc;

    if (!b)
        dg_oom(sizeof *b);
    b->scope = scope;
    b->size = size;
    rc = dg_graph_lower(&b->program, c->graph, scope, size, c->params, d);
    if (rc < 0)
        dg_compiled_close(&b, c->backend);
    *out = b;
    return rc;
}

/* Publishes the gradients' norm, so that it is kept to the end like any result. */
static void publish_norm(dg_program *p)
{
    if (p->norm)
        DG_PUSH(p->arena, p->results,
                ((dg_binding){
                    .name = "grad_norm", .value = p->norm, .kind = DG_RESULT_GRAD_NORM }));
}

/* The program as it will run here must keep what was proved of the graph. */
static int look_again(const dg_compiled *b, const dg_compiled_conf *c, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    int rc = dg_second_look(b->program, dg_second_host_make(c->graph, b->scope, a), d);

    dg_arena_close(&a);
    return rc;
}

int dg_compiled_plan(dg_compiled *b, const dg_compiled_conf *c, dg_diag *d)
{
    int rc;

    if (b->plan)
        return 0;
    publish_norm(b->program);
    rc = dg_passes(b->program, c->base, c->low, c->backend, c->ranks, d);
    if (rc == 0 && c->ranks > 1)
        rc = look_again(b, c, d);
    return rc < 0 ? rc : dg_plan_open(&b->plan, b->program, c->backend, c->threads, d);
}

/* want: bytes that are needed now; least: that will be. */
static int grow(dg_memory *m, void **p, int64_t *have, int64_t want, int64_t least,
                const char *what, dg_diag *d)
{
    char bytes[32];

    if (want <= *have)
        return 0;
    want = want > least ? want : least;
    m->backend->free(m->backend, *p);
    m->generation++;
    *have = 0;
    *p = m->backend->alloc(m->backend, (size_t)want);
    if (!*p)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for %s of %s",
                       dg_human_bytes((double)want, bytes, sizeof bytes), what);
    *have = want;
    return 0;
}

static int grow_io(dg_memory *m, int64_t want, dg_diag *d)
{
    int64_t before = m->io_bytes;
    int rc = grow(m, &m->io, &m->io_bytes, want, m->least_io_bytes, "the batch", d);

    if (rc < 0 || m->backend->immediate || m->io_bytes == before)
        return rc;
    dg_landing_close(&m->landing);
    return dg_landing_open(&m->landing, m->backend, m->io_bytes, d);
}

static dg_spaces spaces(const dg_compiled *b, dg_memory *m, const dg_store *s, bool ema)
{
    dg_spaces x = { .landing = m->landing.backend ? &m->landing : NULL };

    for (int k = 0; k < DG_N_SPACES; k++)
        x.at[k] = s->space[k];
    if (ema)
        x.at[DG_WEIGHTS] = s->space[DG_EMA];
    x.at[DG_SLAB] = m->slab;
    x.at[DG_IO] = m->io;
    x.at[DG_CONSTANTS] = b->constants;
    return x;
}

int dg_compiled_bind(dg_compiled *b, dg_memory *m, const dg_store *s, bool ema, dg_diag *d)
{
    dg_spaces x = spaces(b, m, s, ema);
    int rc;

    if (b->bound == m->generation && b->bound_ema == ema)
        return 0;
    b->bound = -1;
    rc = dg_exec_bind(b->exec, &x, d);
    if (rc < 0)
        return rc;
    b->bound = m->generation;
    b->bound_ema = ema;
    return 0;
}

int dg_compiled_compile(dg_compiled *b, const dg_compiled_conf *c, dg_memory *m, const dg_store *s,
                        dg_diag *d)
{
    size_t constant_bytes;
    int rc;

    if (b->exec)
        return 0;
    DG_TRY(dg_compiled_plan(b, c, d));
    constant_bytes = b->plan->constant_bytes ? (size_t)b->plan->constant_bytes : 64;
    b->constants = c->backend->alloc(c->backend, constant_bytes);
    if (!b->constants)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan",
                       "no memory for %zu bytes of constants", constant_bytes);
    m->backend = c->backend;
    DG_TRY(grow(m, &m->slab, &m->slab_bytes, b->plan->slab_bytes, m->least_slab_bytes,
                "intermediate values", d));
    DG_TRY(grow_io(m, b->plan->io_bytes, d));

    dg_spaces x = spaces(b, m, s, false);

    DG_TRY(dg_exec_open(&b->exec, b->plan, c->backend, &x, c->comm, d));
    b->bound = m->generation;
    b->exchange = dg_plan_digest(b->plan);
    for (int i = 0; i < c->n_observers; i++)
        dg_exec_observe(b->exec, &c->observers[i]);
    dg_exec_debug(b->exec, &c->debug);
out:
    return rc;
}

void dg_compiled_close(dg_compiled **b, dg_backend *backend)
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
        dg_landing_close(&m->landing);
        m->backend->free(m->backend, m->slab);
        m->backend->free(m->backend, m->io);
    }
    *m = (dg_memory){ 0 };
}
