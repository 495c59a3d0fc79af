/* run_log.c: see run_log.h. */
#include "runtime/run_log.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>

#include "base/pool.h"
#include "kernels/backend.h"
#include "kernels/peers.h"
#include "runtime/programs.h"

/* Says once that the log has gaps. */
static void write_out(dg_run_log *l)
{
    char reason[128], text[192];

    if (fflush(l->file) == 0 || l->has_gaps)
        return;
    l->has_gaps = true;
    snprintf(text, sizeof text, "run.log cannot be written: %s; its lines appear here only",
             strerror_r(errno, reason, sizeof reason));
    if (l->line)
        l->line(l->ctx, DG_WARN, text);
}

static void log_line(void *ctx, dg_level level, const char *line)
{
    static const char *const marks[] = { "debug: ", "", "warning: " };
    dg_run_log *l = ctx;
    char own[512];

    if (l->world->rank > 0 && (level != DG_WARN || !l->started))
        return;
    if (l->world->rank > 0) {
        snprintf(own, sizeof own, "rank %d: %s", l->world->rank, line);
        line = own;
    }
    if (l->file) {
        fprintf(l->file, "%s%s\n", marks[level], line);
        write_out(l);
    }
    if (l->line)
        l->line(l->ctx, (int)level, line);
}

void dg_run_log_debug(void *ctx, const char *line)
{
    const dg_run_log *l = ctx;
    dg_str own = { 0 };

    if (l->world->rank == 0) {
        dg_log_line(&l->env, DG_INFO, "%s", line);
    } else if (l->line) {
        dg_str_fmt(&own, "rank %d: %s", l->world->rank, line);
        l->line(l->ctx, (int)DG_DEBUG, own.s);
        dg_str_free(&own);
    }
}

void dg_run_log_open(dg_run_log *l, const dg_run_options *o, const dg_world *world)
{
    const dg_env env = { log_line, l, dg_monotonic_s,
                         o->threads > 0 ? o->threads : dg_threads_available() };

    *l = (dg_run_log){ .env = env, .world = world, .line = o->log, .ctx = o->log_ctx };
}

void dg_run_log_close(dg_run_log *l, const char *last_words)
{
    if (!l->file)
        return;
    if (last_words)
        fputs(last_words, l->file);
    fflush(l->file);
    /* a child of a node's library may have the file open, and would keep the folder locked */
    (void)flock(fileno(l->file), LOCK_UN);
    fclose(l->file);
    l->file = NULL;
}

/* Says what the device cannot do itself: it is correct, and slow. */
static void log_staged(const dg_programs *g, const dg_env *env)
{
    for (int i = 0; i < g->compiled.n; i++) {
        const dg_compiled *c = g->compiled.items[i];
        dg_str ops = { 0 };

        if (c->plan)
            dg_plan_staged(&ops, c->plan);
        if (ops.n)
            dg_log_line(env, DG_WARN, "<%s>: device %s has no kernels for %s: the host runs them",
                        c->scope->id, g->conf.backend->name, ops.s);
        dg_str_free(&ops);
    }
}

void dg_run_log_start(const dg_run *run)
{
    const dg_pipeline *pipeline = dg_run_pipeline(run);
    const dg_programs *g = dg_run_programs(run);
    const dg_world *w = dg_run_world(run);
    const dg_env *env = dg_run_env(run);
    const dg_graph *graph = pipeline->graph;
    int64_t trained = dg_programs_elements(g, DG_TRAINABLE),
            frozen = dg_programs_elements(g, DG_FROZEN);
    char features[128], trained_text[32], frozen_text[32];

    dg_cpu_features(features, sizeof features);
    dg_log_line(env, DG_INFO, "%s; CPU %s; %d thread%s", pipeline->versions, features, env->threads,
                dg_plural(env->threads, "s"));
    if (w->ranks > 1)
        dg_log_line(env, DG_INFO, "%d ranks, %d on this machine; collectives over %s%s%s", w->ranks,
                    w->local_ranks, w->comm->name, w->device->peers ? ", between GPUs by " : "",
                    w->device->peers ? w->device->peers->name : "");
    if (w->ranks > 1 && g->no_peers[0])
        dg_log_line(env, DG_WARN, "GPUs exchange through host memory, which is slow: %s",
                    g->no_peers);
    dg_log_line(env, DG_INFO, "precision %s%s%s%s", g->precision, g->why ? " (" : "",
                g->why ? g->why : "", g->why ? ")" : "");
    log_staged(g, env);
    if (pipeline->batch_why)
        dg_log_line(env, DG_INFO, "%s", pipeline->batch_why);
    dg_log_line(env, DG_INFO, "%s: %s parameters are trained, %s are frozen; seed %llu",
                graph->name ? graph->name : graph->file,
                dg_human_count(trained, trained_text, sizeof trained_text),
                dg_human_count(frozen, frozen_text, sizeof frozen_text),
                (unsigned long long)pipeline->seed);
}
