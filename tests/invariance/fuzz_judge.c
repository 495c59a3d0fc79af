/* fuzz_judge.c: the one file of the fuzzer that asks the engine. */
#include "tests/invariance/fuzz_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/digest.h"
#include "graph/graph.h"
#include "graph/lower.h"
#include "graph/monitor.h"
#include "nodes/builtin.h"
#include "proof/proof.h"
#include "tensor/passes.h"
#include "tensor/plan.h"
#include "tests/invariance/fuzz_run.h"
#include "tests/invariance/fuzz_toys.h"

const char *const fz_codes[FZ_CODES] = {
    "DG-PRES", "DG-KEYS", "DG-SHAPE", "DG-RATE",  "DG-VALUE",
    "DG-GRAD", "DG-SEED", "DG-STATE", "DG-ORDER", "DG-DIGEST",
};
const char *const fz_warnings[FZ_WARNINGS] = { "DG-W-SKEW", "DG-W-CORR" };

struct fz_judge {
    dg_diag *d;
    dg_registry *r;
    dg_backend *backend;
    dg_graph *g; /* of the last question */
    fz_texts *texts;
    dg_arena *arena; /* of its monitors */
    dg_params *params[FZ_RANKS];
    dg_program *program; /* printed last */
    int unlowered;
};

/* ---- printing programs ----------------------------------------------------------------------- */

static int lower(dg_program **p, const fz_judge *j, const dg_scope *scope, dg_size size,
                 dg_params *params)
{
    if (size.w == 0 && dg_scope_size(&size, scope, j->d) < 0)
        return -1;
    return dg_lower(p, j->g, scope, size, 0, params, NULL, NULL, j->d);
}

static dg_params *make_params(const fz_judge *j)
{
    dg_params *params = dg_params_open();
    dg_program *p;
    int rc = 0;

    for (int i = -(j->g->train != NULL); i < j->g->n_evaluates && rc == 0; i++) {
        rc = lower(&p, j, i < 0 ? j->g->train : j->g->evaluates[i], (dg_size){ 0, 0 }, params);
        if (rc == 0)
            dg_program_close(&p);
    }
    if (rc == 0)
        dg_params_seal(params);
    else
        dg_params_close(&params);
    return params;
}

/* Parameters lie as in a run, which lowers all scopes first. */
static dg_params *params_of(fz_judge *j, int rank)
{
    if (!j->params[rank])
        j->params[rank] = make_params(j);
    return j->params[rank];
}

static char *given(dg_str *s)
{
    char *out = s->s ? strdup(s->s) : NULL;

    dg_str_free(s);
    return out;
}

static void complain(fz_judge *j)
{
    if (j->unlowered++ < 3)
        fprintf(stderr, "# no program: %s\n", dg_diag_text(j->d));
    dg_diag_clear(j->d);
}

static char *print_program(void *ctx, bool train, int rank, int w, int h)
{
    fz_judge *j = ctx;
    const dg_scope *scope = train ? j->g->train : j->g->n_evaluates ? j->g->evaluates[0] : NULL;
    dg_params *params;
    dg_str text = { 0 };
    int rc = -1;

    dg_diag_clear(j->d);
    dg_program_close(&j->program);
    j->g->rank = rank;
    params = params_of(j, rank);
    if (params && scope)
        rc = lower(&j->program, j, scope, (dg_size){ w, h }, params);
    if (rc == 0)
        rc = dg_passes(j->program, DG_F32, DG_F32, j->backend, (int)(j->g->ranks * j->g->mesh.tp),
                       j->d);
    if (rc < 0) {
        complain(j);
        return NULL;
    }
    dg_program_print(&text, j->program);
    return given(&text);
}

/* What `detrgraph plan` prints. */
static char *print_plan(void *ctx)
{
    fz_judge *j = ctx;
    dg_plan *plan = NULL;
    dg_str text = { 0 };

    if (dg_plan_open(&plan, j->program, j->backend, 1, j->d) < 0)
        complain(j);
    else
        dg_plan_print(&text, plan, true);
    dg_plan_close(&plan);
    return given(&text);
}

/* What `detrgraph plan --monitors` prints. */
static char *print_monitors(void *ctx)
{
    const fz_judge *j = ctx;
    dg_str text = { 0 };

    if (j->g->monitors)
        dg_monitors_print(&text, j->g->monitors);
    return given(&text);
}

static const fz_printer printer = { print_program, print_plan, print_monitors };

fz_texts *fz_judge_texts(fz_judge *j)
{
    return j->texts;
}

int fz_judge_unlowered(const fz_judge *j)
{
    return j->unlowered;
}

static void forget(fz_judge *j)
{
    fz_texts_close(&j->texts);
    dg_program_close(&j->program);
    for (int r = 0; r < FZ_RANKS; r++)
        dg_params_close(&j->params[r]);
    dg_arena_close(&j->arena);
    dg_graph_close(&j->g);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

fz_judge *fz_judge_open(void)
{
    fz_judge *j = calloc(1, sizeof *j);

    if (!j)
        abort();
    j->d = dg_diag_open();
    j->r = dg_registry_open();
    for (int i = 0; dg_builtin_nodes[i]; i++)
        if (dg_registry_add(j->r, dg_builtin_nodes[i], j->d) < 0)
            abort();
    for (int i = 0; fz_toys[i]; i++)
        if (dg_registry_add(j->r, fz_toys[i], j->d) < 0) {
            fprintf(stderr, "%s\n", dg_diag_text(j->d));
            abort();
        }
    if (dg_backend_open(&j->backend, "cpu", j->d) < 0)
        abort();
    return j;
}

void fz_judge_close(fz_judge **j)
{
    if (!*j)
        return;
    forget(*j);
    dg_backend_close(&(*j)->backend);
    dg_registry_close(&(*j)->r);
    dg_diag_close(&(*j)->d);
    free(*j);
    *j = NULL;
}

/* As in a run: what is accepted has monitors, and its programs keep what they read. */
static void watch(fz_judge *j, fz_opinion *o)
{
    dg_monitors *m;

    if (o->codes || o->broken || o->unsaid)
        return;
    j->arena = dg_arena_open();
    if (dg_monitors_make(&m, j->g, j->arena, j->d) < 0)
        o->broken = true;
    else
        j->g->monitors = m;
}

fz_opinion fz_judge_ask(fz_judge *j, const char *xml, const char *other, char *text, size_t n)
{
    fz_opinion out = { 0 };
    dg_graph *g = NULL, *peer = NULL;
    int rc;

    forget(j);
    dg_diag_clear(j->d);
    rc = dg_graph_parse(&g, xml, strlen(xml), "fuzz.xml", NULL, 0, j->r, j->d);
    if (rc == 0 && other)
        rc = dg_graph_parse(&peer, other, strlen(other), "other.xml", NULL, 0, j->r, j->d);
    if (rc == 0)
        (void)(dg_graph_check(g, j->d) + (other ? dg_graph_compare(g, peer, j->d) : 0));
    for (int i = 0; i < dg_diag_n(j->d); i++) {
        const dg_err *e = dg_diag_at(j->d, i);
        bool known = e->severity == DG_WARNING;

        if (strcmp(e->id, "skip-accumulate") == 0)
            out.unsaid = known = true;
        for (int w = 0; w < FZ_WARNINGS; w++)
            out.warnings |= strcmp(e->id, fz_warnings[w]) == 0 ? 1u << w : 0;
        for (int c = 0; c < FZ_CODES; c++)
            if (strcmp(e->id, fz_codes[c]) == 0 && !known) {
                out.codes |= 1u << c;
                known = true;
            }
        out.broken |= !known;
    }
    if (text)
        snprintf(text, n, "%s", dg_diag_text(j->d));
    dg_graph_close(&peer);
    if (rc == 0) {
        j->g = g;
        j->texts = fz_texts_open(&printer, j);
        watch(j, &out);
    } else {
        dg_graph_close(&g);
    }
    return out;
}
