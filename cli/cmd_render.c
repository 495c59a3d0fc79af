/* cmd_render.c: `detrgraph render`: draws a pipeline, with errors in red. */
#include <stdio.h>

#include "cli/cli.h"
#include "proof/proof.h"
#include "report/render.h"

typedef struct options {
    dg_words sets;
    const char *out;
} options;

static const dg_option rows[] = {
    { "out", DG_OPTION_STR, offsetof(options, out), "FILE", NULL,
      "(or -o) picture to write: .svg, .png, .pdf or .dot" },
    DG_OPTION_SETS(options),
    { 0 },
};

static int render(const options *o, const char *file, const dg_set *sets, dg_arena *a)
{
    dg_diag *d = dg_diag_open(), *own = dg_diag_open();
    dg_registry *r = dg_builtin_registry(d);
    dg_graph *g = NULL;
    int rc = r ? dg_graph_load(&g, file, sets, o->sets.n, r, d) : -DG_EINTERNAL;

    (void)a;
    if (rc == 0) {
        if (g->ranks_open)
            g->ranks = 2; /* as in validate */
        rc = dg_graph_check(g, d);
    }
    if (g && dg_render_file(o->out, g, d, own) == 0)
        dg_say("%s\n", o->out);
    else
        rc = rc < 0 ? rc : -DG_EIO;
    dg_print_diag(d, g);
    dg_print_diag(own, NULL);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_diag_close(&own);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_render(const void *self, const dg_words *words, dg_arena *a)
{
    const options *o = self;

    if (!o->out) {
        dg_say_error("detrgraph render: -o FILE is missing: where the picture goes\n");
        return DG_EXIT_USAGE;
    }
    return render(o, words->v[0], dg_sets(&o->sets, a), a);
}

static const dg_example examples[] = {
    { "render bccd_r18vd.xml -o bccd.svg",
      "Draw ports, contracts and shapes, with errors in red." },
    { 0 },
};

const dg_verb dg_verb_render = {
    .name = "render",
    .args = "FILE -o PICTURE [OPTIONS]",
    .brief = "Draw a pipeline: nodes, ports, contracts and shapes; errors in red.",
    .examples = examples,
    .options = rows,
    .size = sizeof(options),
    .least = 1,
    .most = 1,
    .run = verb_render,
};
