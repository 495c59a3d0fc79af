/* session.c: opens a pipeline: graph, parameters, backend; gives its programs memory; closes in reverse. */
#include "runtime/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/pool.h"
#include "graph/monitor.h"
#include "graph/vary.h"
#include "nodes/builtin.h"
#include "runtime/available.h"
#include "runtime/link.h"
#include "runtime/steer.h"
#include "runtime/weights.h"
#include "runtime/watched.h"

/* ---- log ------------------------------------------------------------------------------------------------- */

/* One rank speaks for all; the others say what may be wrong with them alone. */
static void log_line(void *ctx, dg_level level, const char *line)
{
    static const char *const marks[] = { "debug: ", "", "warning: " };
    dg_run                  *run = ctx;
    char                     own[512];

    if (run->world.rank > 0 && (level != DG_WARN || !run->started))
        return;
    if (run->world.rank > 0) {
        snprintf(own, sizeof own, "rank %d: %s", run->world.rank, line);
        line = own;
    }

    if (run->log_file) {
        fprintf(run->log_file, "%s%s\n", marks[level], line);
        fflush(run->log_file);
    }
    if (run->o.log)
        run->o.log(run->o.log_ctx, (int)level, line);
}

void dg_run_log_warnings(dg_run *run, dg_diag *d)
{
    for (int i = 0; i < dg_diag_n(d); i++) {
        const dg_err *e = dg_diag_at(d, i);
        const char   *place = e->at.node ? e->at.node : e->at.file;

        if (e->severity == DG_WARNING)
            dg_log_line(&run->env, DG_WARN, "%s%s%s [%s]", place ? place : "", place ? ": " : "", e->text, e->id);
    }
    if (!dg_diag_errors(d))
        dg_diag_clear(d);
}

/* ---- open ------------------------------------------------------------------------------------------------ */

static int make_registry(dg_run *run, dg_diag *d)
{
    int rc = 0;

    run->registry = dg_registry_open();
    for (int i = 0; rc == 0 && dg_builtin_nodes[i]; i++)
        rc = dg_registry_add(run->registry, dg_builtin_nodes[i], d);
    for (int i = 0; rc == 0 && run->o.classes && run->o.classes[i]; i++)
        rc = dg_registry_add(run->registry, run->o.classes[i], d);
    return rc;
}

static int split_sets(dg_run *run, dg_set **sets, dg_diag *d)
{
    *sets = DG_NEW_N(run->arena, run->o.n_sets + 1, dg_set);
    for (int i = 0; i < run->o.n_sets; i++) {
        const char *equals = strchr(run->o.sets[i], '=');

        if (!equals || equals == run->o.sets[i])
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "set-form", "--set %s: name=value is expected", run->o.sets[i]);
        (*sets)[i] = (dg_set){ dg_strndup(run->arena, run->o.sets[i], (size_t)(equals - run->o.sets[i])),
                               dg_strdup(run->arena, equals + 1) };
    }
    return 0;
}

/* As many ranks as were started, where the pipeline leaves it open. */
static int fit_world(dg_run *run, dg_diag *d)
{
    dg_graph *g = run->graph;
    dg_where  at = { .file = g->file };

    if (g->axis && g->ranks_open)
        g->ranks = run->world.ranks;
    g->rank = run->world.rank;
    if (!g->axis && run->world.ranks > 1) {
        dg_fail(d, DG_EINPUT, at, "ranks-mesh", "%d ranks were started, and the pipeline does not say how they share the work",
                run->world.ranks);
        dg_help(d, "<mesh dp=\"ranks\"/> before the model, and axis=\"dp\" where nodes deal or join");
        return -DG_EINPUT;
    }
    if (g->axis && g->ranks != run->world.ranks) {
        dg_fail(d, DG_EINPUT, at, "ranks-mesh", "<mesh dp=\"%lld\"/>: so many ranks are needed, and %d %s started", (long long)g->ranks,
                run->world.ranks, run->world.ranks == 1 ? "is" : "are");
        dg_help(d, "--ranks %lld, or dp=\"ranks\" for as many as are started", (long long)g->ranks);
        return -DG_EINPUT;
    }
    return 0;
}

/* Is name one of "dp+tp"? */
static bool names_axis(const char *axes, const char *name)
{
    size_t n = strlen(name);

    for (const char *a = axes; a; a = strchr(a, '+') ? strchr(a, '+') + 1 : NULL)
        if (strncmp(a, name, n) == 0 && (a[n] == '\0' || a[n] == '+'))
            return true;
    return false;
}

bool dg_run_shares(const dg_run *run, const dg_node *node)
{
    const char *axis = NULL;

    for (const dg_attr *a = node->class->attrs; a && a->name; a++)
        if (strcmp(a->name, "axis") == 0 && a->kind == DG_ATTR_STR)
            memcpy(&axis, (const char *)node->conf + a->offset, sizeof axis);
    return run->graph->axis && names_axis(axis, run->graph->axis);
}

static int load_graph(dg_run *run, dg_diag *d)
{
    dg_set *sets;
    int     rc;

    DG_TRY(make_registry(run, d));
    DG_TRY(split_sets(run, &sets, d));
    if (run->o.text)
        DG_TRY(dg_graph_parse(&run->graph, run->o.text, strlen(run->o.text), run->o.file, sets, run->o.n_sets,
                              run->registry, d));
    else
        DG_TRY(dg_graph_load(&run->graph, run->o.file, sets, run->o.n_sets, run->registry, d));
    run->graph->keep_names = run->o.keep_named;
    DG_TRY(fit_world(run, d));
    DG_TRY(dg_steer_deal(run, d));
    DG_TRY(dg_graph_check(run->graph, d));
    DG_TRY(dg_graph_runnable(run->graph, d));
    if (run->o.world) /* ranks are started to train: said before they meet, it is said once */
        DG_TRY(dg_steer_places(run, d));
out:
    return rc;
}

static int choose_precision(dg_run *run, dg_diag *d)
{
    static const char *const words[] = { "f32", "bf16", "f64" };
    const char              *asked = run->o.precision;
    int                      which = 0;

    if (!asked)
        asked = run->graph->train ? words[run->graph->train->precision] : "f32";
    while (which < 3 && strcmp(words[which], asked) != 0)
        which++;
    if (which == 3)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "precision-unknown", "precision \"%s\": f32, bf16 or f64 is expected", asked);
    run->base = run->low = which == 2 ? DG_F64 : DG_F32;
    run->backend = run->o.reference ? &dg_backend_ref : &dg_backend_host;
    if (which == 1)
        run->low = run->o.reference ? DG_F32 : run->backend->low_precision(run->backend, &run->why);
    run->precision = run->low == DG_BF16 ? words[1] : words[which == 2 ? 2 : 0];
    return 0;
}

static int largest_first(const void *a, const void *b)
{
    const dg_size *x = a, *y = b;
    int64_t        n = x->w * x->h, m = y->w * y->h;

    return (n < m) - (n > m);
}

int dg_run_chain(const dg_scope *scope, dg_chain *chain, dg_diag *d)
{
    int rc = dg_graph_chain(chain, scope, d);

    if (rc < 0 || (chain->loader && chain->sampler && chain->batch))
        return rc;
    return dg_fail(d, DG_EINPUT, scope->where, "scope-without-data", "<%s> needs a loader, a sampler and a batch node to run",
                   scope->id);
}

int dg_run_sizes(const dg_run *run, const dg_scope *scope, dg_arena *a, dg_size **sizes, int *n, int *batch, dg_diag *d)
{
    const dg_size *listed = NULL;
    dg_chain       chain;
    int            rc = dg_run_chain(scope, &chain, d);

    (void)run;
    if (rc < 0)
        return rc;
    *n = dg_chain_sizes(&chain, &listed, batch);
    *sizes = dg_memdup(a, listed, (size_t)*n * sizeof **sizes);
    qsort(*sizes, (size_t)*n, sizeof **sizes, largest_first);
    return 0;
}

dg_bucket_conf dg_run_bucket_conf(const dg_run *run)
{
    return (dg_bucket_conf){
        .graph = run->graph,
        .params = run->params,
        .backend = run->backend,
        .base = run->base,
        .low = run->low,
        .threads = run->env.threads,
        .ranks = run->world.ranks,
        .comm = run->world.ranks > 1 ? run->world.comm : NULL,
        .recorder = dg_link_recorder(run->world.link),
        .witness = run->witness,
    };
}

static int lower(dg_run *run, const dg_scope *scope, dg_size size, dg_bucket **b, dg_diag *d)
{
    dg_bucket_conf conf = dg_run_bucket_conf(run);
    int            rc = dg_bucket_lower(b, &conf, scope, size, d);

    if (rc == 0)
        DG_PUSH(run->arena, run->buckets, *b);
    return rc;
}

/* Every scope once, at its largest size, so that all parameters are known. */
static int lower_scopes(dg_run *run, dg_diag *d)
{
    dg_size   *sizes;
    dg_bucket *b;
    int        n, batch, rc = 0;

    for (int i = -1; i < run->graph->n_evaluates; i++) {
        const dg_scope *scope = i < 0 ? run->graph->train : run->graph->evaluates[i];

        if (!scope)
            continue;
        DG_TRY(dg_run_sizes(run, scope, run->arena, &sizes, &n, &batch, d));
        DG_TRY(lower(run, scope, sizes[0], &b, d));
    }
    if (!run->buckets.n)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = run->graph->file }, "pipeline-empty",
                       "neither <train> nor <evaluate>: there is nothing to run");
    dg_params_seal(run->params);
out:
    return rc;
}

static bool has_ema(const dg_run *run)
{
    for (int i = 0; i < run->buckets.n; i++)
        if (run->buckets.items[i]->program->ema)
            return true;
    for (int i = 0; i < run->graph->n_evaluates; i++)
        if (run->graph->evaluates[i]->weights)
            return true;
    return false;
}

static int load_pretrained(dg_run *run, dg_diag *d)
{
    bool any = false;
    int  rc = 0;

    run->n_loaded = -1;
    for (int m = 0; m < run->graph->n_models && !run->o.no_pretrained; m++)
        for (int i = 0; rc == 0 && i < run->graph->models[m]->n_nodes; i++)
            if (run->graph->models[m]->nodes[i]->pretrained) {
                rc = dg_weights_pretrained(run->store, run->graph->models[m]->nodes[i], &run->env, d);
                any = true;
            }
    if (rc == 0 && any && run->store->space[DG_EMA])
        rc = dg_store_copy(run->store, DG_EMA, DG_WEIGHTS, d);
    return rc;
}

/* Elements of the parameters of one kind, without the padding between them. */
int64_t dg_run_count(const dg_run *run, dg_param_kind kind)
{
    int64_t n = 0;

    for (int i = 0; i < dg_params_n(run->params); i++)
        if (dg_params_at(run->params, i)->kind == kind)
            n += dg_shape_elements(dg_params_at(run->params, i)->shape);
    return n;
}

void dg_run_log_start(dg_run *run)
{
    int64_t trained = dg_run_count(run, DG_TRAINABLE), frozen = dg_run_count(run, DG_FROZEN);
    char    features[128], count[32], still[32];

    dg_cpu_features(features, sizeof features);
    dg_log_line(&run->env, DG_INFO, "%s; CPU %s; %d thread%s", run->versions, features, run->env.threads,
                run->env.threads == 1 ? "" : "s");
    if (run->world.ranks > 1)
        dg_log_line(&run->env, DG_INFO, "%d ranks, %d on this machine; collectives over %s", run->world.ranks,
                    run->world.local_ranks, run->world.comm->name);
    dg_log_line(&run->env, DG_INFO, "precision %s%s%s%s", run->precision, run->why ? " (" : "", run->why ? run->why : "",
                run->why ? ")" : "");
    dg_log_line(&run->env, DG_INFO, "%s: %s parameters are trained, %s are frozen; seed %llu",
                run->graph->name ? run->graph->name : run->graph->file, dg_human_count(trained, count, sizeof count),
                dg_human_count(frozen, still, sizeof still), (unsigned long long)run->seed);
}

static int read_pipeline(dg_run *run, dg_diag *d)
{
    int rc;

    DG_TRY(load_graph(run, d));
    run->seed = run->o.has_seed ? run->o.seed : run->graph->seed;
    DG_TRY(dg_pool_check(run->env.threads, d));
    run->params = dg_params_open();
    DG_TRY(dg_monitors_make(&run->monitors, run->graph, run->arena, d));
    run->graph->monitors = run->monitors;
    run->witness = dg_witness_open(run->arena, run->monitors, &run->world);
    DG_TRY(lower_scopes(run, d));
    DG_TRY(choose_precision(run, d));
out:
    return rc;
}

static int fill_store(dg_run *run, dg_diag *d)
{
    int rc;

    DG_TRY(dg_store_open(&run->store, run->backend, run->params, run->base, run->graph->train != NULL, has_ema(run),
                         run->world.ranks > 1 ? run->world.comm : NULL, d));
    DG_TRY(dg_store_init(run->store, run->seed, d));
    DG_TRY(load_pretrained(run, d));
    run->fresh = 1;
    dg_run_log_warnings(run, d);
out:
    return rc;
}

int dg_run_open(dg_run **out, const dg_run_options *o, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_run   *run = DG_NEW(a, dg_run);
    char      libraries[64];
    int       rc;

    run->arena = a;
    dg_library_versions(libraries, sizeof libraries);
    memcpy(&run->o, o, o->size < sizeof run->o ? o->size : sizeof run->o);
    run->world = run->o.world ? *run->o.world : (dg_world){ .ranks = 1, .nodes = 1, .local_ranks = 1 };
    run->env = (dg_env){ log_line, run, dg_monotonic_s, o->threads > 0 ? o->threads : dg_threads_available() };
    run->versions = dg_printf(a, "%s, %s", run->o.program ? run->o.program : "detrgraph", libraries);
    rc = dg_world_agree(&run->world, read_pipeline(run, d), "read the pipeline", d);
    if (rc == 0)
        rc = dg_steer_meet_pipeline(run, d);
    if (rc == 0)
        rc = dg_world_agree(&run->world, fill_store(run, d), "made the parameters", d);
    if (rc < 0)
        dg_run_close(&run);
    *out = run;
    return rc;
}

void dg_run_close(dg_run **out)
{
    dg_run *run = *out;

    if (!run)
        return;
    for (int i = 0; i < run->data.n; i++)
        run->data.items[i].set->close(run->data.items[i].set->self);
    for (int i = 0; i < run->buckets.n; i++)
        dg_bucket_close(&run->buckets.items[i], run->backend);
    dg_memory_close(&run->memory);
    dg_store_close(&run->store);
    dg_params_close(&run->params);
    if (run->graph)
        dg_graph_close(&run->graph);
    if (run->registry)
        dg_registry_close(&run->registry);
    if (run->log_file)
        fclose(run->log_file);
    dg_arena_close(&run->visible_arena);

    dg_arena *a = run->arena;

    dg_arena_close(&a);
    *out = NULL;
}

/* ---- buckets --------------------------------------------------------------------------------------------- */

/* What the current program lets people see. */
static void list_visible(dg_run *run)
{
    const dg_program *p = run->current->program;

    dg_arena_close(&run->visible_arena);
    run->visible_arena = dg_arena_open();
    memset(&run->visible, 0, sizeof run->visible);
    for (int i = 0; i < p->results.n; i++)
        if (!dg_watched_is(p->results.items[i].name))
            DG_PUSH(run->visible_arena, run->visible, p->results.items[i]);
    for (int32_t v = 1; p->keep_names && v < p->values.n; v++)
        if (p->values.items[v].name && p->values.items[v].producer >= 0)
            DG_PUSH(run->visible_arena, run->visible, ((dg_binding){ p->values.items[v].name, v }));
}

static int find_bucket(dg_run *run, const dg_scope *scope, dg_size size, dg_bucket **out, dg_diag *d)
{
    for (int i = 0; i < run->buckets.n; i++) {
        *out = run->buckets.items[i];
        if ((*out)->scope == scope && (*out)->size.w == size.w && (*out)->size.h == size.h)
            return 0;
    }
    return lower(run, scope, size, out, d);
}

int dg_run_use(dg_run *run, const dg_scope *scope, dg_size size, bool ema, dg_diag *d)
{
    dg_bucket_conf conf = dg_run_bucket_conf(run);
    dg_bucket     *b;
    int            rc;

    DG_TRY(find_bucket(run, scope, size, &b, d));
    DG_TRY(dg_bucket_compile(b, &conf, &run->memory, run->store, d));
    DG_TRY(dg_bucket_bind(b, &run->memory, run->store, ema && run->store->space[DG_EMA], d));
    if (run->current != b) {
        run->current = b;
        list_visible(run);
    }
out:
    return rc;
}

int64_t dg_run_bytes(const dg_run *run, bool train)
{
    int64_t slab = 0, io = 0, constants = 0;

    for (int i = 0; i < run->buckets.n; i++) {
        const dg_plan *plan = run->buckets.items[i]->plan;

        if (!plan)
            continue;
        slab = plan->slab_bytes > slab ? plan->slab_bytes : slab;
        io = plan->io_bytes > io ? plan->io_bytes : io;
        constants += plan->constant_bytes;
    }
    return dg_store_bytes(run->params, run->base, train, run->store->space[DG_EMA] != NULL) + slab + io + constants;
}

/* Weights and averages are written already and count as used; the rest is about to be. */
static int check_memory(dg_run *run, const dg_bucket *largest, bool train, dg_diag *d)
{
    int64_t weights = dg_store_bytes(run->params, run->base, false, run->store->space[DG_EMA] != NULL);
    int64_t need = dg_run_bytes(run, train) - weights, have = dg_memory_available();
    char    needed[32], slab[32], free_now[32];

    if (have < 0 || need * run->world.local_ranks <= have)
        return 0;
    have /= run->world.local_ranks;
    dg_fail(d, DG_EMEMORY, largest->scope->where, "memory-refused",
            "the plan for %lldx%lld needs %s more (of which %s intermediate values), and %s are free",
            (long long)largest->size.w, (long long)largest->size.h, dg_human_bytes((double)need, needed, sizeof needed),
            dg_human_bytes((double)largest->plan->slab_bytes, slab, sizeof slab),
            dg_human_bytes((double)have, free_now, sizeof free_now));
    dg_help(d, "make batch= or the largest of sizes= smaller%s, or say recompute=\"true\" on the backbone and the encoder",
            run->low == DG_BF16 ? "" : ", say precision=\"bf16\" where the CPU has AMX");
    return -DG_EMEMORY;
}

int dg_run_prepare(dg_run *run, bool train, bool evaluate, dg_diag *d)
{
    dg_bucket_conf conf = dg_run_bucket_conf(run);
    dg_bucket     *largest = NULL;
    int            rc = 0;

    for (int i = 0; i < run->buckets.n; i++) { /* those of lower_scopes: one a scope, at its largest size */
        dg_bucket *b = run->buckets.items[i];

        if (b->scope->kind == DG_SCOPE_TRAIN ? !train : !evaluate)
            continue;
        DG_TRY(dg_bucket_plan(b, &conf, d));
        if (!largest || b->plan->slab_bytes > largest->plan->slab_bytes)
            largest = b;
    }
    if (largest)
        DG_TRY(check_memory(run, largest, train, d));
out:
    return rc;
}
