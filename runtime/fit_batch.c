/* fit_batch.c: see fit_batch.h. Plans state every byte before the first step, so the batch is found
 * by compiling some, and nothing has to run out of memory for it. */
#include "runtime/fit_batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/backend.h"
#include "report/memory_info.h"
#include "runtime/programs.h"
#include "runtime/trained.h"

/* The rest is for images that are read ahead, the libraries, and what others take meanwhile. */
static const double usable = 0.8;

static double room(const dg_programs *g, const dg_world *w)
{
    int64_t bytes;

    return dg_programs_free(g, w, &bytes) ? usable * (double)bytes : INFINITY;
}

static int plan(dg_programs *g, const dg_size *trained, dg_diag *d)
{
    const dg_graph *graph = g->conf.graph;

    return trained ? dg_programs_plan_at(g, graph->train, *trained, d)
                   : dg_programs_plan(g, true, graph->n_evaluates > 0, d);
}

/* Bytes that training needs with this batch; infinite where the pipeline refuses it. */
static double needs(const dg_run_options *o, const dg_world *w, int batch, const dg_size *trained,
                    double *has)
{
    dg_arena *a = dg_arena_open();
    dg_diag *ignored = dg_diag_open();
    const char **sets = DG_NEW_N(a, o->n_sets + 1, const char *);
    dg_run_options how = *o;
    dg_world alone = *w; /* this rank's place, without the others */
    dg_run *run = NULL;
    double bytes = INFINITY;

    if (o->n_sets)
        memcpy(sets, o->sets, (size_t)o->n_sets * sizeof *sets);
    sets[o->n_sets] = dg_printf(a, "batch=%d", batch);
    how.n_sets = o->n_sets + 1;
    how.sets = sets;
    how.log = NULL;
    how.debug = NULL;
    alone.link = NULL;
    alone.comm = alone.device = NULL;
    if (dg_run_open_unmade(&run, &how, &alone, ignored) == 0) {
        dg_programs *g = dg_run_programs(run);

        if (plan(g, trained, ignored) == 0)
            bytes = (double)dg_programs_bytes(g, true);
        *has = room(g, w);
    }
    dg_run_close(&run);
    dg_library_forget(); /* or it would have less room for the next one, which is not like it */
    dg_diag_close(&ignored);
    dg_arena_close(&a);
    return bytes;
}

/* A plan's bytes grow nearly evenly with the batch, so that the line between one that fits and one
 * that does not leads to the largest: after two or three plans, as a rule. */
void dg_fit_batch(dg_fit *f, const dg_run_options *o, const dg_world *w, int most,
                  const dg_size *trained)
{
    int above = most + 1; /* does not fit, or is not allowed */
    bool planned = false;

    *f = (dg_fit){ .batch = 1, .most = most, .room = INFINITY };
    for (int n = most; n > 0;) {
        const double bytes = needs(o, w, n, trained, &f->room);

        planned = planned || isfinite(bytes);
        if (isfinite(bytes) && bytes <= f->room) {
            f->batch = n;
            f->needs = bytes;
        } else {
            above = n;
            f->larger = isfinite(bytes) ? bytes : 0;
        }
        if (above > most || above == 1)
            break; /* all fit, or none */
        if (!(f->needs > 0)) {
            n = f->larger > 0 ? 1 : above / 2; /* a refused one is on no line */
            continue;
        }
        const double each =
            ((f->larger > 0 ? f->larger : 2 * f->needs) - f->needs) / (above - f->batch);
        const double more = floor((f->room - f->needs) / each);

        f->each = each;
        /* up to a refused one, where only halves lead */
        const int last = f->larger > 0 ? above - 1 : f->batch + (above - f->batch) / 2;

        n = more < 1 || above - f->batch == 1 ? 0
            : more < last - f->batch          ? f->batch + (int)more
                                              : last;
    }
    if (!planned)
        f->batch = most; /* the run says why the pipeline refuses it */
}

/* The batch of the run in the folder o->resumes; 0: there is none. */
static int batch_before(const dg_pipeline *p, const dg_run_options *o, dg_arena *a)
{
    const char *folder = o->resumes && !*o->resumes ? p->graph->checkpoint.to : o->resumes,
               *text = folder ? dg_trained_set(folder, "batch", a) : NULL;
    int64_t n;

    return text && dg_parse_i64(text, &n) && n >= 1 && n <= INT32_MAX ? (int)n : 0;
}

static const char *why(const dg_fit *f, int batch, const dg_world *w, dg_arena *a)
{
    const char *each = w->ranks > 1 ? " on each rank" : "";
    char need[32], have[32], more[32];

    dg_human_bytes(f->needs, need, sizeof need);
    dg_human_bytes(f->room, have, sizeof have);
    dg_human_bytes(f->each, more, sizeof more);
    if (batch < f->batch)
        return dg_printf(a, "batch %d%s: another rank has no memory for more", batch, each);
    if (!(f->needs > 0))
        return dg_printf(a, "batch 1%s: no larger one fits into %s, %g %% of what is free", each,
                         have, 100 * usable);
    if (batch == f->most)
        return dg_printf(a,
                         "batch %d%s, the most that auto takes here: a training needs %s, and "
                         "%s may be used",
                         batch, each, need, have);
    return dg_printf(a,
                     "batch %d%s fits into memory: a training needs %s of the %s that may be "
                     "used (%g %% of what is free), and each image more some %s",
                     batch, each, need, have, 100 * usable, more);
}

int dg_choose_batch(dg_pipeline *p, const dg_run_options *o, const dg_world *w, dg_arena *a,
                    dg_diag *d)
{
    const char **sets = DG_NEW_N(a, p->n_sets + 1, const char *);
    int before = w->rank == 0 ? batch_before(p, o, a) : 0, batch;
    double n;
    dg_fit f;
    int rc;

    DG_TRY(dg_world_broadcast(w, &before, sizeof before, "chose the batch", d));
    batch = before;
    if (!before) {
        dg_fit_batch(&f, o, w, p->graph->open_batch.most, NULL);
        n = f.batch;
        DG_TRY(dg_world_least(w, &n, "chose the batch", d));
        batch = (int)n;
    }
    if (p->n_sets)
        memcpy(sets, p->sets, (size_t)p->n_sets * sizeof *sets);
    sets[p->n_sets] = dg_printf(a, "batch=%d", batch);
    p->sets = sets;
    p->n_sets++;
    p->batch_why =
        before ? dg_printf(a, "batch %d, as when the run began", batch) : why(&f, batch, w, a);
out:
    return rc;
}
