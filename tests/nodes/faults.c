/* faults.c: what the nodes of a detector refuse, by the diagnostics they give. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "nodes/builtin.h"

typedef struct fault {
    const char *id; /* of the one diagnostic that must be among those given */
    const char *backbone, *encoder, *decoder; /* further attributes */
    const char *optimizer;                    /* elements inside it */
    const char *update, *end;                 /* elements before and after the optimizer */
    int w, h;
} fault;

#define LONG "(norm|bias|weight|norm|bias|weight|norm|bias|weight)"

static const fault faults[] = {
    { "frozen-without-pretrained", "freeze_norm='true'", "", "", "", "", "", 64, 64 },
    { "norm-fixed", "freeze_norm='true' norm='sync'", "", "", "", "", "", 64, 64 },
    { "norm-axis", "axis='dp'", "", "", "", "", "", 64, 64 },
    { "norm-axis", "", "axis='dp' norm='batch'", "", "", "", "", 64, 64 },
    { "norm-axis", "", "", "axis='dp'", "", "", "", 64, 64 },
    { "encoder-width", "", "width='36'", "", "", "", "", 64, 64 },
    { "encoder-expansion", "", "width='16' expansion='0.01'", "", "", "", "", 64, 64 },
    { "backbone-size", "", "", "", "", "", "", 80, 64 },
    { "decoder-width", "", "", "width='100'", "", "", "", 64, 64 },
    { "decoder-eval-idx", "", "", "eval_idx='2'", "", "", "", 64, 64 },
    { "decoder-points", "", "", "points='4,4'", "", "", "", 64, 64 },
    { "decoder-points", "", "", "points='65'", "", "", "", 64, 64 },
    { "decoder-eval-size", "", "", "eval_size='64,96'", "", "", "", 64, 64 },
    { "decoder-queries", "", "", "queries='300'", "", "", "", 64, 64 },
    { "decoder-discrete", "", "", "method='discrete'", "", "", "", 96, 64 },
    { "group-lr", "", "", "", "<group match='norm' lr='1' lr_scale='2'/>", "", "", 64, 64 },
    { "group-layers", "", "", "", "<group match='norm' layers='2'/>", "", "", 64, 64 },
    { "group-layers", "", "", "", "<group match='norm' decay='0.5'/>", "", "", 64, 64 },
    { "group-layers", "", "", "", "<group match='#" LONG LONG LONG LONG "' layers='2'/>", "", "",
      64, 64 },
    { "group-count", "", "", "",
      "<group match='a#' layers='20'/><group match='b'/><group match='c#' layers='11'/>", "", "",
      64, 64 },
    { "group-empty", "", "", "", "<group match='decoder.layers.#.norm' layers='3'/>", "", "", 64,
      64 },
    { "schedule-unused", "", "", "", "<schedule first='0'/>", "", "", 64, 64 },
    { "schedule-hold", "", "", "", "<schedule decay='cosine' hold='never'/>", "", "", 64, 64 },
    { "schedule-hold", "", "", "", "<schedule decay='cosine' hold='10 min'/>", "", "", 64, 64 },
    { "schedule-warmup", "", "", "", "<schedule warmup='10 min'/>", "", "", 64, 64 },
    { "schedule-unused", "", "", "", "<schedule hold='step 5'/>", "", "", 64, 64 },
    { "schedule-unused", "", "", "", "<schedule to='0.1'/>", "", "", 64, 64 },
    { "schedule-unused", "", "", "", "<schedule decay='cosine' milestones='3'/>", "", "", 64, 64 },
    { "schedule-milestones", "", "", "", "<schedule decay='multistep'/>", "", "", 64, 64 },
    { "allreduce-gradients", "", "", "", "", "<allreduce id='r' in='@grad' axis='dp' op='max'/>",
      "", 64, 64 },
    { "allreduce-parameters", "", "", "", "", "", "<allreduce id='r' in='@opt' axis='dp'/>", 64,
      64 },
};

static const char pipeline[] =
    "<pipeline version='1'><mesh dp='ranks'/>"
    "<model id='m'><input id='images'/><input id='denoising' optional='true'/>"
    "<backbone.presnet id='backbone' in='@images' depth='18' %s/>"
    "<encoder.hybrid id='encoder' s8='@backbone.s8' s16='@backbone.s16' s32='@backbone.s32' "
    "ffn='32' %s %s/>"
    "<decoder.rtdetr id='decoder' memory='@encoder.out' denoising='@denoising' classes='3' "
    "layers='2' ffn='32' %s %s %s/></model>"
    "<train steps='1'><loader.synthetic id='data'/><sampler.bucket id='pick' in='@data' batch='2' "
    "sizes='%dx%d' tail='drop'/>"
    "<augment id='aug' in='@pick'/><batch id='b' in='@aug' max_objects='5'/>"
    "<denoising id='dn' targets='@b.targets' classes='3' count='4'/>"
    "<use id='out' model='m' images='@b.images' denoising='@dn'/>"
    "<loss.rtdetr id='loss' predictions='@out' targets='@b.targets'/><backward id='grad' "
    "loss='@loss.total'/>"
    "%s<optimizer.adamw id='opt' gradients='@grad'>%s</optimizer.adamw>%s</train></pipeline>";

typedef struct opened {
    dg_diag *d;
    dg_registry *registry;
    dg_graph *graph;
    dg_params *params;
    dg_program *program;
} opened;

static int open_text(opened *o, const fault *f, bool training)
{
    char text[8192];
    bool own_width = strstr(f->encoder, "width") != NULL,
         own_queries = strstr(f->decoder, "queries") != NULL;
    bool own_decoder_width = strstr(f->decoder, "width") != NULL;
    int rc = 0;

    *o =
        (opened){ .d = dg_diag_open(), .registry = dg_registry_open(), .params = dg_params_open() };
    for (int i = 0; dg_builtin_nodes[i]; i++)
        rc |= dg_registry_add(o->registry, dg_builtin_nodes[i], o->d);
    assert_int_equal(rc, 0);
    snprintf(text, sizeof text, pipeline, f->backbone, own_width ? "" : "width='32'", f->encoder,
             own_decoder_width ? "" : "width='32'", own_queries ? "" : "queries='10'", f->decoder,
             f->w % 32 ? 64 : f->w, f->h, f->update, f->optimizer, f->end);
    rc = dg_graph_parse(&o->graph, text, strlen(text), "fault.xml", NULL, 0, o->registry, o->d);
    if (rc == 0 && training)
        rc = dg_graph_lower(&o->program, o->graph, o->graph->train, (dg_size){ f->w, f->h },
                            o->params, o->d);
    return rc;
}

static void close_text(opened *o)
{
    if (o->program)
        dg_program_close(&o->program);
    dg_params_close(&o->params);
    if (o->graph)
        dg_graph_close(&o->graph);
    dg_registry_close(&o->registry);
    dg_diag_close(&o->d);
}

static bool has(const dg_diag *d, const char *id)
{
    for (int i = 0; i < dg_diag_n(d); i++)
        if (strcmp(dg_diag_at(d, i)->id, id) == 0)
            return true;
    return false;
}

static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        opened o;
        int rc = open_text(&o, &faults[i], true);

        if (rc == 0 || !has(o.d, faults[i].id))
            fail_msg("%s expected, found: %s", faults[i].id, dg_diag_text(o.d));
        close_text(&o);
    }
}

static void accepted(void **state)
{
    static const fault none[] = {
        { "", "", "", "", "", "", "", 96, 64 },
        { "", "", "", "method='discrete' points='2,3,4'", "", "", "", 64, 64 },
        { "", "", "", "select='agnostic' learn_query_content='true'", "", "", "", 64, 64 },
        { "", "freeze_at='2'", "version='1'", "version='1' eval_idx='0'",
          "<group match='norm' lr='1e-5'/>", "", "", 64, 64 },
        { "", "", "", "", "<schedule decay='cosine' hold='epoch 2' to='0.1' warmup='3'/>", "", "",
          64, 64 },
        { "", "", "", "", "<schedule decay='multistep' milestones='2,3'/>", "", "", 64, 64 },
        { "", "", "", "",
          "<group match='decoder.layers.#.' unless='norm#' layers='2' lr='1e-3' decay='0.5'/>"
          "<group match='decoder.layers.1.norm1'/><schedule warmup='2.5' first='0'/>",
          "", "", 64, 64 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        opened o;

        if (open_text(&o, &none[i], true))
            fail_msg("%s", dg_diag_text(o.d));
        close_text(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
