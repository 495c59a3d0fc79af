/* programs.c: see programs.h. */
#include "runtime/programs.h"

#include <string.h>

#include "kernels/peers.h"
#include "report/memory_info.h"

/* ---- open ------------------------------------------------------------------------------------ */

static int lower_program(dg_programs *g, const dg_scope *scope, dg_size size, dg_compiled **c,
                         dg_diag *d)
{
    int rc = dg_compiled_lower(c, &g->conf, scope, size, d);

    if (rc == 0)
        DG_PUSH(g->arena, g->compiled, *c);
    return rc;
}

int dg_programs_lower(dg_programs *g, dg_diag *d)
{
    const dg_graph *graph = g->conf.graph;
    dg_size *sizes;
    dg_compiled *c;
    int n, batch, rc = 0;

    g->conf.params = dg_params_open();
    for (int i = -1; i < graph->n_evaluates; i++) {
        const dg_scope *scope = i < 0 ? graph->train : graph->evaluates[i];

        if (!scope)
            continue;
        DG_TRY(dg_scope_sizes(scope, g->arena, &sizes, &n, &batch, d));
        DG_TRY(lower_program(g, scope, sizes[0], &c, d));
    }
    if (!g->compiled.n)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = graph->file }, "pipeline-empty",
                       "neither <train> nor <evaluate>: there is nothing to run");
    dg_params_seal(g->conf.params);
out:
    return rc;
}

int dg_programs_open_backend(dg_programs *g, const dg_run_options *o, dg_diag *d)
{
    static const char *const words[] = { "f32", "bf16", "f64", "tf32" };
    enum { F32, BF16, F64, TF32, N };
    const dg_scope *train = g->conf.graph->train;
    const char *asked = o->precision ? o->precision : words[train ? train->precision : F32],
               *device = o->device      ? o->device
                         : o->reference ? "ref"
                                        : "cpu";
    dg_compiled_conf *c = &g->conf;
    int which = 0, rc;

    while (which < N && strcmp(words[which], asked) != 0)
        which++;
    if (which == N)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "precision-unknown",
                       "precision \"%s\": f32, tf32, bf16 or f64 is expected", asked);
    c->base = c->low = which == F64 ? DG_F64 : DG_F32;
    rc = dg_backend_open(&c->backend, device, d);
    if (rc < 0)
        return rc;
    if (which == BF16 && !o->reference)
        c->low = c->backend->low_precision(c->backend, &g->why);
    g->precision = words[c->low == DG_BF16 ? BF16 : which == BF16 ? F32 : which];
    return which == TF32 ? dg_backend_tf32(c->backend, o->precision ? DG_NOWHERE : train->where, d)
                         : 0;
}

static bool has_ema(const dg_programs *g)
{
    const dg_graph *graph = g->conf.graph;

    for (int i = 0; i < g->compiled.n; i++)
        if (g->compiled.items[i]->program->ema)
            return true;
    for (int i = 0; i < graph->n_evaluates; i++)
        if (graph->evaluates[i]->weights)
            return true;
    return false;
}

int dg_programs_open_store(dg_programs *g, uint64_t seed, dg_diag *d)
{
    const dg_compiled_conf *c = &g->conf;
    int rc;

    g->n_loaded = -1;
    DG_TRY(dg_store_open(&g->store, c->backend, c->params, c->base, c->graph->train != NULL,
                         has_ema(g), c->comm, d));
    DG_TRY(dg_store_init(g->store, seed, c->threads, d));
out:
    return rc;
}

void dg_programs_close(dg_programs *g)
{
    for (int i = 0; i < g->compiled.n; i++)
        dg_compiled_close(&g->compiled.items[i], g->conf.backend);
    dg_memory_close(&g->memory);
    dg_store_close(&g->store);
    if (g->conf.comm && g->conf.comm->peers) /* they work on the device */
        g->conf.comm->peers->close(&g->conf.comm->peers);
    dg_backend_close(&g->conf.backend);
    dg_params_close(&g->conf.params);
    dg_arena_close(&g->visible_arena);
}

/* ---- the current program --------------------------------------------------------------------- */

static void list_visible(dg_programs *g)
{
    const dg_program *p = g->current->program;

    dg_arena_close(&g->visible_arena);
    g->visible_arena = dg_arena_open();
    memset(&g->visible, 0, sizeof g->visible);
    for (int i = 0; i < p->results.n; i++)
        if (!dg_result_is_monitored(&p->results.items[i]))
            DG_PUSH(g->visible_arena, g->visible, p->results.items[i]);
    for (int32_t v = 1; p->keep_names && v < p->values.n; v++)
        if (p->values.items[v].name && p->values.items[v].producer >= 0)
            DG_PUSH(g->visible_arena, g->visible,
                    ((dg_binding){ .name = p->values.items[v].name, .value = v }));
}

dg_compiled *dg_programs_of(const dg_programs *g, const dg_scope *scope)
{
    for (int i = 0; i < g->compiled.n; i++)
        if (g->compiled.items[i]->scope == scope)
            return g->compiled.items[i];
    return NULL;
}

const dg_compiled *dg_programs_made(const dg_programs *g, const dg_scope *scope, dg_size size)
{
    for (int i = 0; i < g->compiled.n; i++) {
        const dg_compiled *c = g->compiled.items[i];

        if (c->scope == scope && c->size.w == size.w && c->size.h == size.h)
            return c->exec ? c : NULL;
    }
    return NULL;
}

static int find_program(dg_programs *g, const dg_scope *scope, dg_size size, dg_compiled **out,
                        dg_diag *d)
{
    for (int i = 0; i < g->compiled.n; i++) {
        *out = g->compiled.items[i];
        if ((*out)->scope == scope && (*out)->size.w == size.w && (*out)->size.h == size.h)
            return 0;
    }
    return lower_program(g, scope, size, out, d);
}

int dg_programs_use(dg_programs *g, const dg_scope *scope, dg_size size, bool ema, dg_diag *d)
{
    dg_compiled *c;
    int rc;

    DG_TRY(find_program(g, scope, size, &c, d));
    DG_TRY(dg_compiled_compile(c, &g->conf, &g->memory, g->store, d));
    DG_TRY(dg_compiled_bind(c, &g->memory, g->store, ema && g->store->space[DG_EMA], d));
    if (g->current != c) {
        g->current = c;
        list_visible(g);
    }
out:
    return rc;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int64_t store_bytes(const dg_programs *g, bool train)
{
    return dg_store_bytes(g->conf.params, g->conf.base, train, has_ema(g));
}

int64_t dg_programs_bytes(const dg_programs *g, bool train)
{
    int64_t slab = 0, io = 0, constants = 0;

    for (int i = 0; i < g->compiled.n; i++) {
        const dg_plan *plan = g->compiled.items[i]->plan;

        if (!plan)
            continue;
        slab = plan->slab_bytes > slab ? plan->slab_bytes : slab;
        io = plan->io_bytes > io ? plan->io_bytes : io;
        constants += plan->constant_bytes;
    }
    if (!g->conf.backend->immediate)
        io *= 2; /* the landing */
    return store_bytes(g, train) + slab + io + constants;
}

/* What is in use already. The host's memory for gradients and moments is not, before they are
 * written. */
static int64_t allocated(const dg_programs *g, bool train)
{
    bool late = !g->conf.backend->immediate;

    return store_bytes(g, train && late) + g->memory.slab_bytes +
           g->memory.io_bytes * (late ? 2 : 1);
}

/* A device is a rank's own, or free is what is left of it. */
bool dg_programs_free(const dg_programs *g, const dg_world *w, int64_t *have)
{
    dg_backend *b = g->conf.backend;
    int64_t total;

    if (!b->immediate)
        return b->memory(b, have, &total) == 0;
    *have = dg_memory_available();
    if (*have < 0)
        return false;
    *have /= w->local_ranks;
    return true;
}

static const char *if_low(const dg_programs *g)
{
    const char *reason;

    if (g->conf.low == DG_BF16 || g->conf.base == DG_F64)
        return "";
    if (g->conf.backend->immediate)
        return ", say precision=\"bf16\" where the CPU has AMX";
    return g->conf.backend->low_precision(g->conf.backend, &reason) == DG_BF16
               ? ", say precision=\"bf16\""
               : "";
}

/* Refuses a run that does not fit into memory. */
static int check_memory(const dg_programs *g, const dg_compiled *largest, bool train,
                        const dg_world *w, dg_diag *d)
{
    int64_t need = dg_programs_bytes(g, train) - allocated(g, train), have;
    char needed[32], slab[32], free_now[32];

    if (!dg_programs_free(g, w, &have) || need <= have)
        return 0;
    dg_fail(d, DG_EMEMORY, largest->scope->where, "memory-refused",
            "the plan for %lldx%lld needs %s more%s (of which %s intermediate values), and %s are "
            "free",
            (long long)largest->size.w, (long long)largest->size.h,
            dg_human_bytes((double)need, needed, sizeof needed),
            g->conf.backend->immediate ? "" : " on the device",
            dg_human_bytes((double)largest->plan->slab_bytes, slab, sizeof slab),
            dg_human_bytes((double)have, free_now, sizeof free_now));
    dg_help(d, "make batch= or the largest of sizes= smaller%s%s", if_low(g),
            largest->scope->kind == DG_SCOPE_TRAIN
                ? ", or say recompute=\"true\" on the backbone and the encoder"
                : "");
    return -DG_EMEMORY;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_used(const dg_compiled *c, bool train, bool evaluate)
{
    return c->scope->kind == DG_SCOPE_TRAIN ? train : evaluate;
}

int dg_programs_plan(dg_programs *g, bool train, bool evaluate, dg_diag *d)
{
    dg_memory *m = &g->memory;
    int rc = 0;

    /* before the first use these are from dg_programs_lower */
    for (int i = 0; i < g->compiled.n; i++) {
        dg_compiled *c = g->compiled.items[i];

        if (!is_used(c, train, evaluate))
            continue;
        DG_TRY(dg_compiled_plan(c, &g->conf, d));
        m->least_slab_bytes = larger(m->least_slab_bytes, c->plan->slab_bytes);
        m->least_io_bytes = larger(m->least_io_bytes, c->plan->io_bytes);
    }
out:
    return rc;
}

int dg_programs_plan_at(dg_programs *g, const dg_scope *scope, dg_size size, dg_diag *d)
{
    dg_compiled *c;
    int rc;

    DG_TRY(find_program(g, scope, size, &c, d));
    DG_TRY(dg_compiled_plan(c, &g->conf, d));
out:
    return rc;
}

int dg_programs_prepare(dg_programs *g, bool train, bool evaluate, const dg_world *w, dg_diag *d)
{
    dg_compiled *largest = NULL;
    int rc;

    DG_TRY(dg_programs_plan(g, train, evaluate, d));
    for (int i = 0; i < g->compiled.n; i++) {
        dg_compiled *c = g->compiled.items[i];

        if (is_used(c, train, evaluate) &&
            (!largest || c->plan->slab_bytes > largest->plan->slab_bytes))
            largest = c;
    }
    if (largest)
        DG_TRY(check_memory(g, largest, train, w, d));
out:
    return rc;
}

int dg_programs_fit(dg_programs *g, const dg_scope *scope, dg_size size, const dg_world *w,
                    dg_diag *d)
{
    dg_compiled *c;
    int rc;

    DG_TRY(find_program(g, scope, size, &c, d));
    if (c->exec) /* its memory is there */
        return 0;
    DG_TRY(dg_compiled_plan(c, &g->conf, d));
    DG_TRY(check_memory(g, c, false, w, d));
out:
    return rc;
}

double dg_programs_device_s(const dg_programs *g)
{
    double s = 0;

    for (int i = 0; i < g->compiled.n; i++)
        if (g->compiled.items[i]->exec)
            s += dg_exec_count(g->compiled.items[i]->exec).device_s;
    return s;
}

int64_t dg_programs_elements(const dg_programs *g, dg_param_kind kind)
{
    const dg_params *params = g->conf.params;
    int64_t n = 0;

    for (int i = 0; i < dg_params_n(params); i++)
        if (dg_params_at(params, i)->kind == kind)
            n += dg_shape_elements(dg_params_at(params, i)->shape);
    return n;
}
