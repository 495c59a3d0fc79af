/* session.c: opens a pipeline (graph, parameters, backend), gives access to its parts, closes in
 * reverse order. The only file that sees struct dg_run. */
#include <string.h>

#include "base/pool.h"
#include "control/link.h"
#include "control/monitor_digests.h"
#include "graph/monitor.h"
#include "nodes/builtin.h"
#include "proof/proof.h"
#include "runtime/control_hooks.h"
#include "runtime/data.h"
#include "runtime/fit_batch.h"
#include "runtime/programs.h"
#include "runtime/run_log.h"
#include "runtime/step.h"
#include "weights/weights.h"

/* Mutable parts are behind pointers, so that a const dg_run can give access to them. */
struct dg_run {
    dg_arena *arena;
    dg_run_log *log;
    dg_registry *registry;
    dg_pipeline pipeline;          /* what the run is */
    dg_programs *programs;         /* what computes */
    dg_exec_observer observers[2]; /* of every program: flight recorder, monitors */
    dg_world world;                /* the other ranks; by default a single rank */
    bool ranked;                   /* a world was given: ranks started for training */
    dg_monitor_digests *digests;   /* NULL: nothing to compare */
    dg_progress *progress;         /* how far the run has come */
    dg_horizon *horizon;
    dg_step_state *step;
    dg_data_sets *data;
};

const dg_pipeline *dg_run_pipeline(const dg_run *run)
{
    return &run->pipeline;
}

dg_programs *dg_run_programs(const dg_run *run)
{
    return run->programs;
}

const dg_world *dg_run_world(const dg_run *run)
{
    return &run->world;
}

dg_monitor_digests *dg_run_digests(const dg_run *run)
{
    return run->digests;
}

dg_progress *dg_run_progress(const dg_run *run)
{
    return run->progress;
}

dg_horizon *dg_run_horizon(const dg_run *run)
{
    return run->horizon;
}

dg_step_state *dg_run_step_state(const dg_run *run)
{
    return run->step;
}

dg_data_sets *dg_run_data_sets(const dg_run *run)
{
    return run->data;
}

dg_run_log *dg_run_log_of(const dg_run *run)
{
    return run->log;
}

const dg_env *dg_run_env(const dg_run *run)
{
    return &run->log->env;
}

/* ---- diagnostics ----------------------------------------------------------------------------- */

size_t dg_diag_write_json(const dg_diag *d, char *out, size_t n)
{
    dg_str s = { 0 };
    size_t length;

    dg_diag_json(&s, d);
    length = s.n;
    if (n) {
        const size_t fits = length < n ? length : n - 1;

        memcpy(out, s.s, fits);
        out[fits] = '\0';
    }
    dg_str_free(&s);
    return length;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int open_registry(dg_run *run, const dg_run_options *o, dg_diag *d)
{
    int rc = 0;

    run->registry = dg_registry_open();
    for (int i = 0; rc == 0 && dg_builtin_nodes[i]; i++)
        rc = dg_registry_add(run->registry, dg_builtin_nodes[i], d);
    for (int i = 0; rc == 0 && o->classes && o->classes[i]; i++)
        rc = dg_registry_add(run->registry, o->classes[i], d);
    return rc;
}

static int split_sets(dg_set **out, const dg_pipeline *p, dg_arena *a, dg_diag *d)
{
    dg_set *sets = DG_NEW_N(a, p->n_sets + 1, dg_set);

    for (int i = 0; i < p->n_sets; i++) {
        const char *equals = strchr(p->sets[i], '=');

        if (!equals || equals == p->sets[i])
            return dg_fail(d, DG_EINPUT, DG_NOWHERE, "set-form", "--set %s: name=value is expected",
                           p->sets[i]);
        sets[i] = (dg_set){ dg_strndup(a, p->sets[i], (size_t)(equals - p->sets[i])),
                            dg_strdup(a, equals + 1) };
    }
    *out = sets;
    return 0;
}

/* Sets the number of ranks to those started, if the pipeline leaves it open. */
static int fit_ranks(dg_graph *g, const dg_world *w, dg_diag *d)
{
    const dg_where at = g->axis ? g->mesh.item->at : g->root->at;

    if (g->axis && g->ranks_open)
        g->ranks = w->ranks;
    g->rank = w->rank;
    if (!g->axis && w->ranks > 1)
        return dg_graph_unshared(g, w->ranks, d);
    if (g->axis && g->ranks != w->ranks) {
        dg_fail(d, DG_EINPUT, at, "ranks-mesh",
                "<mesh dp=\"%lld\"/>: so many ranks are needed, and %d %s started",
                (long long)g->ranks, w->ranks, w->ranks == 1 ? "is" : "are");
        dg_help(d, "--ranks %lld, or dp=\"ranks\" for as many as are started", (long long)g->ranks);
        return -DG_EINPUT;
    }
    return 0;
}

static int read_graph(dg_run *run, const dg_run_options *o, dg_diag *d)
{
    dg_pipeline *p = &run->pipeline;
    dg_set *sets = NULL;
    int rc = split_sets(&sets, p, run->arena, d);

    if (rc < 0)
        return rc;
    return o->text ? dg_graph_parse(&p->graph, o->text, strlen(o->text), o->file, sets, p->n_sets,
                                    run->registry, d)
                   : dg_graph_load(&p->graph, o->file, sets, p->n_sets, run->registry, d);
}

static int load_graph(dg_run *run, const dg_run_options *o, dg_diag *d)
{
    dg_pipeline *p = &run->pipeline;
    int rc;

    if (p->graph->open_batch.most && p->graph->train && !o->evaluates_only) {
        DG_TRY(dg_choose_batch(p, o, &run->world, run->arena, d));
        dg_graph_close(&p->graph);
        DG_TRY(read_graph(run, o, d)); /* with the number, which is what is proved */
    }
    p->graph->keep_names = o->keep_named;
    DG_TRY(fit_ranks(p->graph, &run->world, d));
    DG_TRY(dg_control_hooks_deal(p->graph, &run->world, d));
    DG_TRY(dg_graph_validate(p->graph, d));
    if (run->ranked) /* before the ranks meet, so that it is reported once */
        DG_TRY(dg_control_hooks_places(p->graph, &run->world, d));
out:
    return rc;
}

/* Adds the observers of executing programs: flight recorder, monitors. */
static void add_observers(dg_run *run)
{
    dg_recorder *recorder = dg_link_recorder(run->world.link);
    int n = 0;

    if (recorder)
        run->observers[n++] = dg_recorder_observer(recorder);
    if (run->digests)
        run->observers[n++] = dg_monitor_digests_observer(run->digests);
    run->programs->conf.observers = run->observers;
    run->programs->conf.n_observers = n;
}

/* What a rank may fail at by itself, before any word between the ranks. */
static int read_texts(dg_run *run, const dg_run_options *o, dg_diag *d)
{
    int rc;

    if (o->debug)
        DG_TRY(dg_debug_parse(&run->programs->conf.debug.what, o->debug, d));
    run->programs->conf.debug.tell = dg_run_log_debug;
    run->programs->conf.debug.ctx = run->log;
    DG_TRY(open_registry(run, o, d));
    DG_TRY(read_graph(run, o, d));
out:
    return rc;
}

static int read_pipeline(dg_run *run, const dg_run_options *o, dg_diag *d)
{
    dg_pipeline *p = &run->pipeline;
    dg_monitors *monitors;
    int rc;

    DG_TRY(load_graph(run, o, d));
    p->seed = o->has_seed ? o->seed : p->graph->seed;
    DG_TRY(dg_pool_check(run->log->env.threads, d));
    DG_TRY(dg_monitors_make(&monitors, p->graph, run->arena, d));
    p->graph->monitors = p->monitors = monitors;
    run->digests = dg_monitor_digests_open(run->arena, monitors, &run->world);
    add_observers(run);
    run->programs->conf.graph = p->graph;
    DG_TRY(dg_programs_lower(run->programs, d));
    DG_TRY(dg_programs_open_backend(run->programs, o, d));
out:
    return rc;
}

static int load_pretrained(dg_run *run, dg_diag *d)
{
    const dg_graph *g = run->pipeline.graph;
    dg_store *store = run->programs->store;
    bool any = false;
    int rc = 0;

    for (int m = 0; m < g->n_models; m++)
        for (int i = 0; rc == 0 && i < g->models[m]->n_nodes; i++)
            if (g->models[m]->nodes[i]->pretrained) {
                rc = dg_weights_pretrained(store, g->models[m]->nodes[i], &run->log->env, d);
                any = true;
            }
    if (rc == 0 && any && store->space[DG_EMA])
        rc = dg_store_copy(store, DG_EMA, DG_WEIGHTS, d);
    return rc;
}

static int make_parameters(dg_run *run, const dg_run_options *o, dg_diag *d)
{
    int rc;

    DG_TRY(dg_programs_open_store(run->programs, run->pipeline.seed, d));
    if (!o->no_pretrained)
        DG_TRY(load_pretrained(run, d));
    run->step->ema_initial_share = 1;
    dg_log_warnings(&run->log->env, d);
out:
    return rc;
}

/* Makes a run, without reading files. */
static dg_run *make_run(const dg_run_options *o, const dg_world *world)
{
    dg_arena *a = dg_arena_open();
    dg_run *run = DG_NEW(a, dg_run);
    char libraries[64];

    dg_library_versions(libraries, sizeof libraries);
    run->arena = a;
    run->log = DG_NEW(a, dg_run_log);
    run->programs = DG_NEW(a, dg_programs);
    run->progress = DG_NEW(a, dg_progress);
    run->horizon = DG_NEW(a, dg_horizon);
    run->step = DG_NEW(a, dg_step_state);
    run->data = DG_NEW(a, dg_data_sets);
    run->programs->arena = run->data->arena = a;
    run->ranked = world != NULL;
    run->world = world ? *world : (dg_world){ .ranks = 1, .nodes = 1, .local_ranks = 1 };
    dg_run_log_open(run->log, o, &run->world);
    run->pipeline.n_sets = o->n_sets;
    run->pipeline.sets = o->sets;
    run->pipeline.versions =
        dg_printf(a, "%s, %s", o->program ? o->program : "detrgraph", libraries);
    run->programs->feed_draws = o->feed_draws;
    run->programs->conf.threads = run->log->env.threads;
    run->programs->conf.ranks = run->world.ranks;
    run->step->adjust = o->control;
    run->step->adjust_ctx = o->control_ctx;
    return run;
}

static int open_device_comm(dg_run *run, dg_diag *d)
{
    dg_compiled_conf *c = &run->programs->conf;
    int rc = dg_world_open_device(&run->world, !c->backend->immediate, d);

    c->comm = run->world.device;
    if (rc == 0 && c->comm && c->backend->peers_open)
        rc = c->backend->peers_open(c->backend, c->comm, run->programs->no_peers, d);
    return rc;
}

int dg_run_open_unmade(dg_run **out, const dg_run_options *o, const dg_world *world, dg_diag *d)
{
    int rc;

    *out = make_run(o, world);
    DG_TRY(read_texts(*out, o, d));
    DG_TRY(read_pipeline(*out, o, d));
out:
    if (rc < 0)
        dg_run_close(out);
    return rc;
}

int dg_run_open_rank(dg_run **out, const dg_run_options *options, const dg_world *world, dg_diag *d)
{
    dg_run_options o = { 0 };
    dg_run *run;
    int rc;

    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    run = make_run(&o, world);
    /* twice: all choose the batch together, in the second part */
    DG_TRY(dg_world_agree(&run->world, read_texts(run, &o, d), "read the pipeline", d));
    DG_TRY(dg_world_agree(&run->world, read_pipeline(run, &o, d), "read the pipeline", d));
    DG_TRY(open_device_comm(run, d));
    DG_TRY(dg_control_hooks_meet_pipeline(run, d));
    DG_TRY(dg_world_agree(&run->world, make_parameters(run, &o, d), "made the parameters", d));
out:
    if (rc < 0)
        dg_run_close(&run);
    *out = run;
    return rc;
}

int dg_run_open(dg_run **run, const dg_run_options *o, dg_diag *d)
{
    return dg_run_open_rank(run, o, NULL, d);
}

void dg_run_close(dg_run **out)
{
    dg_run *run = *out;
    dg_arena *a;

    if (!run)
        return;
    dg_data_sets_close(run->data);
    dg_programs_close(run->programs);
    dg_world_close_device(&run->world);
    if (run->pipeline.graph)
        dg_graph_close(&run->pipeline.graph);
    if (run->registry)
        dg_registry_close(&run->registry);
    dg_run_log_close(run->log, NULL);
    a = run->arena;
    dg_arena_close(&a);
    *out = NULL;
}
