/* cmd_plan.c: `detrgraph plan`: prints the plan of one scope at one image size: instructions with
 * shapes, spaces and offsets, memory, and arithmetic by node. Runs nothing and opens no data. */
#include <stdio.h>
#include <string.h>

#include "base/pool.h"
#include "cli/cli.h"
#include "exec/estimate.h"
#include "graph/lower.h"
#include "graph/monitor.h"
#include "proof/proof.h"
#include "tensor/passes.h"
#include "tensor/plan.h"

typedef struct options {
    dg_words sets;
    dg_size size;
    const char *scope, *precision, *format, *device;
    int64_t threads, ranks;
    bool summary, monitors;
} options;

static const dg_option rows[] = {
    { "size", DG_OPTION_SIZE, offsetof(options, size), "WxH", NULL,
      "image size (default: the first of the sampler's)" },
    { "scope", DG_OPTION_STR, offsetof(options, scope), "ID", NULL,
      "train, evaluate (the first), or an id (train)" },
    DG_OPTION_PRECISION(options),
    DG_OPTION_DEVICE(options),
    { "threads", DG_OPTION_INT, offsetof(options, threads), "N", NULL,
      "kernel threads to plan for (all cores)" },
    { "ranks", DG_OPTION_INT, offsetof(options, ranks), "N", NULL,
      "number of ranks where the mesh says dp=\"ranks\" (1)" },
    { "summary", DG_OPTION_FLAG, offsetof(options, summary), NULL, NULL,
      "leave out the instructions" },
    { "monitors", DG_OPTION_FLAG, offsetof(options, monitors), NULL, NULL,
      "list what the proof takes on trust and how a run monitors it (on two ranks unless --ranks "
      "is given)" },
    { "format", DG_OPTION_WORD, offsetof(options, format), NULL, "text|json",
      "output format (text)" },
    DG_OPTION_SETS(options),
    { 0 },
};

static const dg_scope *find_scope(const dg_graph *g, const char *id)
{
    if (!id)
        return g->train ? g->train : g->evaluates[0];
    if (g->train && strcmp(id, g->train->id) == 0)
        return g->train;
    for (int i = 0; i < g->n_evaluates; i++)
        if (strcmp(id, g->evaluates[i]->id) == 0)
            return g->evaluates[i];
    return strcmp(id, "evaluate") == 0 && g->n_evaluates ? g->evaluates[0] : NULL;
}

static int64_t precision_of(const options *o, const dg_graph *g)
{
    if (!o->precision)
        return g->train ? g->train->precision : 0;
    return strcmp(o->precision, "tf32") == 0  ? 3
           : strcmp(o->precision, "f64") == 0 ? 2
                                              : strcmp(o->precision, "bf16") == 0;
}

static void print_estimate(dg_str *out, const dg_plan *plan, dg_backend *backend)
{
    char text[32];
    dg_speed r;

    if (dg_speed_measure(&r, plan, backend))
        dg_str_fmt(out, "a batch takes about %s, by a probe of some of these kernels\n",
                   dg_human_time(dg_speed_seconds(&r, plan, DG_SEG_BATCH), text, sizeof text));
}

static int print_plan(const options *o, const dg_graph *g, const dg_scope *scope, dg_diag *d)
{
    dg_params *params = dg_params_open();
    dg_program *p = NULL;
    dg_plan *plan = NULL;
    dg_str out = { 0 };
    int64_t precision = precision_of(o, g);
    dg_backend *backend = NULL;
    dg_dtype base = precision == 2 ? DG_F64 : DG_F32, low = base;
    dg_size size = o->size;
    const char *reason = NULL, *device = dg_device_asked(o->device);
    int rc = 0;

    DG_TRY(dg_backend_open(&backend, device ? device : "cpu", d));
    if (!size.w)
        DG_TRY(dg_scope_size(&size, scope, d));
    if (precision == 3)
        DG_TRY(dg_backend_tf32(backend, o->precision ? DG_NOWHERE : g->train->where, d));
    if (precision == 1)
        low = backend->low_precision(backend, &reason);
    DG_TRY(dg_graph_lower(&p, g, scope, size, params, d));
    dg_params_seal(params);
    DG_TRY(dg_passes(p, base, low, backend, (int)g->ranks, d));
    DG_TRY(dg_plan_open(&plan, p, backend,
                        o->threads > 0 ? (int)o->threads : dg_threads_available(), d));
    if (o->format && strcmp(o->format, "json") == 0) {
        dg_plan_json(&out, plan, !o->summary);
    } else {
        if (reason)
            dg_str_fmt(&out, "%s\n", reason);
        dg_plan_print(&out, plan, !o->summary);
        if (o->summary)
            print_estimate(&out, plan, backend);
    }
    dg_say("%s", out.s ? out.s : "");
out:
    dg_str_free(&out);
    dg_plan_close(&plan);
    dg_program_close(&p);
    dg_params_close(&params);
    dg_backend_close(&backend);
    return rc;
}

static int print_monitors(const options *o, dg_graph *g, dg_arena *a, dg_diag *d)
{
    dg_monitors *m;
    dg_str out = { 0 };
    int rc;

    if (g->ranks_open && o->ranks <= 0)
        g->ranks = 2;
    DG_TRY(dg_graph_check(g, d));
    DG_TRY(dg_monitors_make(&m, g, a, d));
    if (o->format && strcmp(o->format, "json") == 0)
        dg_monitors_json(&out, m);
    else
        dg_monitors_print(&out, m);
    dg_say("%s", out.s ? out.s : "");
out:
    dg_str_free(&out);
    return rc;
}

static int plan_file(const options *o, const char *file, const dg_set *sets, dg_graph **g,
                     dg_registry *r, dg_arena *a, dg_diag *d)
{
    int rc = dg_graph_load(g, file, sets, o->sets.n, r, d);

    if (rc < 0)
        return rc;
    const dg_scope *scope = find_scope(*g, o->scope);

    if (!scope)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "scope-unknown",
                       "--scope %s: the pipeline has no such <train> or <evaluate>", o->scope);
    if ((*g)->ranks_open && o->ranks > 0)
        (*g)->ranks = o->ranks;
    return o->monitors ? print_monitors(o, *g, a, d) : print_plan(o, *g, scope, d);
}

static int verb_plan(const void *self, const dg_words *words, dg_arena *a)
{
    const options *o = self;
    dg_diag *d = dg_diag_open();
    dg_registry *r = dg_builtin_registry(d);
    dg_graph *g = NULL;
    bool fine = r && plan_file(o, words->v[0], dg_sets(&o->sets, a), &g, r, a, d) == 0;

    dg_print_diag(d, g);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_diag_close(&d);
    return fine ? DG_EXIT_OK : DG_EXIT_FAILED;
}

static const dg_example examples[] = {
    { "plan bccd_r18vd.xml --summary", "Print memory and arithmetic without the instructions." },
    { 0 },
};

const dg_verb dg_verb_plan = {
    .name = "plan",
    .args = "FILE [OPTIONS]",
    .brief = "Print the instructions of a step, their memory, and arithmetic per node.",
    .doc = "Lists every instruction with shapes and memory offsets, then peak memory and "
           "arithmetic per node.\n"
           "With `--ranks`, also lists the collectives in order; with `--device`, the ops that "
           "this device has\n"
           "no kernels for, so that the host runs them.",
    .examples = examples,
    .options = rows,
    .size = sizeof(options),
    .least = 1,
    .most = 1,
    .run = verb_plan,
};
