/* presets.c: the shipped presets declare exactly the parameters of the PyTorch reference: names,
 * shapes, kinds, counts,
 * and the optimizer's groups. */
#include "tests/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/graph.h"
#include "kernels/attrs.h"
#include "nodes/builtin.h"

typedef struct opened {
    dg_diag *d;
    dg_registry *registry;
    dg_graph *graph;
    dg_params *params;
    dg_program *program;
} opened;

static const char *source(void)
{
    const char *dir = getenv("srcdir");

    return dir ? dir : ".";
}

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

/* further: another setting, if it has a name. */
static void open_with(opened *o, const char *preset, const char *classes, int size, dg_set further)
{
    char path[4096];
    const dg_set sets[] = { { "batch", "2" }, { "classes", classes }, further };

    *o =
        (opened){ .d = dg_diag_open(), .registry = dg_registry_open(), .params = dg_params_open() };
    for (int i = 0; dg_builtin_nodes[i]; i++)
        must(dg_registry_add(o->registry, dg_builtin_nodes[i], o->d), o->d);
    snprintf(path, sizeof path, "%s/pipelines/%s_coco.xml", source(), preset);
    must(dg_graph_load(&o->graph, path, sets, further.name ? 3 : 2, o->registry, o->d), o->d);
    must(dg_graph_lower(&o->program, o->graph, o->graph->train, (dg_size){ size, size }, o->params,
                        o->d),
         o->d);
}

static void open_preset(opened *o, const char *preset, const char *classes, int size)
{
    open_with(o, preset, classes, size, (dg_set){ 0 });
}

static void close_preset(opened *o)
{
    dg_program_close(&o->program);
    dg_params_close(&o->params);
    dg_graph_close(&o->graph);
    dg_registry_close(&o->registry);
    dg_diag_close(&o->d);
}

/* ---- counts ---------------------------------------------------------------------------------- */

typedef struct group {
    double lr, weight_decay;
    int tensors;
    int64_t elements;
} group;
typedef struct expected {
    const char *preset;
    int64_t parameters, trainable, backbone, encoder, decoder;
    int tensors, entries, n_groups;
    group groups[4];
} expected;

static const expected table[] = {
    { "rtdetrv2_r18vd",
      20184464,
      20184464,
      11199968,
      4965120,
      4019376,
      326,
      538,
      2,
      { { 1e-4, 0, 162, 31360 }, { 1e-4, 1e-4, 164, 20153104 } } },
    { "rtdetrv2_r34vd",
      31441668,
      31441668,
      21308128,
      4965120,
      5168420,
      404,
      665,
      4,
      { { 5e-5, 1e-4, 39, 21290848 },
        { 5e-5, 0, 78, 17280 },
        { 1e-4, 0, 181, 41764 },
        { 1e-4, 1e-4, 106, 10091776 } } },
    { "rtdetrv2_r50vd_m",
      36593772,
      36565260,
      23474016,
      5653248,
      7466508,
      402,
      768,
      3,
      { { 1e-5, 1e-4, 52, 23445504 }, { 1e-4, 0, 134, 26112 }, { 1e-4, 1e-4, 213, 13093644 } } },
    { "rtdetrv2_r50vd",
      42891372,
      42862860,
      23474016,
      11950848,
      7466508,
      390,
      744,
      3,
      { { 1e-5, 1e-4, 52, 23445504 }, { 1e-4, 0, 126, 32256 }, { 1e-4, 1e-4, 209, 19385100 } } },
    { "rtdetrv2_r101vd",
      76556268,
      76527756,
      42413920,
      26577536,
      7564812,
      441,
      999,
      3,
      { { 1e-6, 1e-4, 103, 42385408 }, { 1e-4, 0, 126, 42752 }, { 1e-4, 1e-4, 209, 34099596 } } },
    { "rtdetr_r18vd",
      20184464,
      20184464,
      11199968,
      4965120,
      4019376,
      326,
      533,
      4,
      { { 1e-5, 0, 46, 9856 },
        { 1e-5, 1e-4, 23, 11190112 },
        { 1e-4, 0, 159, 35504 },
        { 1e-4, 1e-4, 98, 8948992 } } },
    { "rtdetr_r34vd",
      31441668,
      31441668,
      21308128,
      4965120,
      5168420,
      404,
      659,
      4,
      { { 1e-5, 0, 78, 17280 },
        { 1e-5, 1e-4, 39, 21290848 },
        { 1e-4, 0, 177, 40740 },
        { 1e-4, 1e-4, 110, 10092800 } } },
    { "rtdetr_r50vd_m",
      36593772,
      36565260,
      23474016,
      5653248,
      7466508,
      402,
      760,
      3,
      { { 1e-5, 1e-4, 52, 23445504 }, { 1e-4, 0, 213, 51212 }, { 1e-4, 1e-4, 134, 13068544 } } },
    { "rtdetr_r50vd",
      42891372,
      42862860,
      23474016,
      11950848,
      7466508,
      390,
      736,
      3,
      { { 1e-5, 1e-4, 52, 23445504 }, { 1e-4, 0, 205, 57356 }, { 1e-4, 1e-4, 130, 19360000 } } },
    { "rtdetr_r101vd",
      76556268,
      76527756,
      42413920,
      26577536,
      7564812,
      441,
      991,
      3,
      { { 1e-6, 1e-4, 103, 42385408 }, { 1e-4, 0, 118, 39936 }, { 1e-4, 1e-4, 217, 34102412 } } },
    { "codino_r50",
      65204005,
      64928485,
      23508032,
      0,
      0,
      515,
      674,
      2,
      { { 2e-5, 1e-4, 42, 23232512 }, { 2e-4, 1e-4, 356, 41695973 } } },
    { "codino_swin_l", /* the backbone as torchvision counts it, with the norms of four outputs */
      235471769,
      235471769,
      195201204,
      0,
      0,
      689,
      689,
      2,
      { { 2e-5, 1e-4, 333, 195201204 }, { 2e-4, 1e-4, 356, 40270565 } } },
};

static void check_counts(const dg_params *p, const expected *e)
{
    static const char *const parts[] = { "backbone.", "encoder.", "decoder." };
    int64_t all = 0, trainable = 0, part[3] = { 0 };
    int tensors = 0;

    for (int i = 0; i < dg_params_n(p); i++) {
        const dg_param_info *info = dg_params_at(p, i);
        int64_t n = dg_shape_elements(info->shape);

        if (info->kind > DG_FROZEN)
            continue;
        all += n;
        tensors++;
        trainable += info->kind == DG_TRAINABLE ? n : 0;
        for (int k = 0; k < 3; k++)
            part[k] += strncmp(info->name, parts[k], strlen(parts[k])) == 0 ? n : 0;
    }
    assert_int_equal(all, e->parameters);
    assert_int_equal(trainable, e->trainable);
    assert_int_equal(part[0], e->backbone);
    assert_int_equal(part[1], e->encoder);
    assert_int_equal(part[2], e->decoder);
    assert_int_equal(tensors, e->tensors);
    assert_int_equal(dg_params_n(p), e->entries);
}

static const adamw_attr *optimizer(const dg_program *p)
{
    for (int i = 0; i < p->instrs.n; i++)
        if (strcmp(p->instrs.items[i].op->name, "adamw") == 0)
            return p->instrs.items[i].attr;
    fail_msg("the program has no adamw");
    return NULL;
}

static const dg_node *optimizer_node(const dg_graph *g)
{
    for (int i = 0; i < g->train->n_nodes; i++)
        if (g->train->nodes[i]->class == &dg_node_optimizer_adamw)
            return g->train->nodes[i];
    fail_msg("the pipeline has no optimizer");
    return NULL;
}

static void check_groups(const opened *o, const expected *e)
{
    const adamw_attr *a = optimizer(o->program);
    const dg_node *node = optimizer_node(o->graph);
    group found[DG_MAX_GROUPS] = { 0 };
    dg_control control = { 0 };
    dg_clock warm = { .step = 5000 };

    for (int i = 0; i < dg_params_n(o->params); i++) {
        const dg_param_info *info = dg_params_at(o->params, i);

        for (int64_t k = 0; k < a->n_ranges && info->kind == DG_TRAINABLE; k++)
            if (info->offset >= a->ranges[k].begin && info->offset < a->ranges[k].end) {
                group *g = &found[a->ranges[k].group];

                g->tensors++;
                g->elements += dg_shape_elements(info->shape);
                g->weight_decay = a->ranges[k].weight_decay;
            }
    }
    node->class->control(node->conf, &warm, &control);
    assert_int_equal(control.n_groups, e->n_groups);
    for (int i = 0; i < e->n_groups; i++) {
        assert_int_equal(found[i].tensors, e->groups[i].tensors);
        assert_int_equal(found[i].elements, e->groups[i].elements);
        assert_true(fabs(found[i].weight_decay - e->groups[i].weight_decay) < 1e-18);
        assert_true(fabs(control.lr[i] - e->groups[i].lr) < 1e-18);
    }
}

static void counts_and_groups(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        opened o;

        open_preset(&o, table[i].preset, "80", 256);
        print_message("%s\n", table[i].preset);
        check_counts(o.params, &table[i]);
        check_groups(&o, &table[i]);
        close_preset(&o);
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const kinds[] = {
    [DG_TRAINABLE] = "trainable",   [DG_FROZEN] = "frozen",          [DG_BUFFER] = "buffer",
    [DG_EXPORT_CONST] = "constant", [DG_EXPORT_COUNTER] = "counter",
};

/* Version 1 names some parts by number, and stores no constants. */
static void version1_name(char *name, size_t n)
{
    static const char *const pairs[][2] = {
        { "encoder.input_proj.0.conv", "encoder.input_proj.0.0" },
        { "encoder.input_proj.0.norm", "encoder.input_proj.0.1" },
        { "encoder.input_proj.1.conv", "encoder.input_proj.1.0" },
        { "encoder.input_proj.1.norm", "encoder.input_proj.1.1" },
        { "encoder.input_proj.2.conv", "encoder.input_proj.2.0" },
        { "encoder.input_proj.2.norm", "encoder.input_proj.2.1" },
        { "decoder.enc_output.proj", "decoder.enc_output.0" },
        { "decoder.enc_output.norm", "decoder.enc_output.1" },
    };
    char old[256];

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strncmp(name, pairs[i][0], strlen(pairs[i][0])) == 0) {
            snprintf(old, sizeof old, "%s", name + strlen(pairs[i][0]));
            snprintf(name, n, "%s%s", pairs[i][1], old);
            return;
        }
}

static void check_row(const dg_params *p, const char *name, const char *shape, const char *kind)
{
    int i = dg_params_find(p, name);
    const dg_param_info *info = i >= 0 ? dg_params_at(p, i) : NULL;
    char ours[128] = "";

    if (!info)
        fail_msg("%s is not declared", name);
    for (int k = 0; k < info->shape.rank; k++)
        snprintf(ours + strlen(ours), sizeof ours - strlen(ours), "%s%lld", k ? "," : "",
                 (long long)info->shape.d[k]);
    if (!info->shape.rank)
        snprintf(ours, sizeof ours, "-");
    if (strcmp(ours, shape) != 0 || strcmp(kinds[info->kind], kind) != 0)
        fail_msg("%s: found %s %s, expected %s %s", name, ours, kinds[info->kind], shape, kind);
}

static void check_names(const char *preset, const char *list, bool version1)
{
    char path[4096], *text, *save = NULL, name[256], shape[64], kind[32];
    size_t n;
    int rows = 0;
    opened o;

    open_preset(&o, preset, "80", 256);
    snprintf(path, sizeof path, "%s/tests/nodes/data/%s", source(), list);
    must(dg_file_read(&text, &n, path, 1 << 20, o.d), o.d);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_int_equal(sscanf(line, "%255s %63s %31s", name, shape, kind), 3);
        if (version1 && strcmp(kind, "constant") == 0)
            continue;
        if (version1)
            version1_name(name, sizeof name);
        check_row(o.params, name, shape, kind);
        rows++;
    }
    assert_int_equal(dg_params_n(o.params), rows);
    dg_free(text);
    close_preset(&o);
}

static void names_r18vd(void **state)
{
    (void)state;
    check_names("rtdetrv2_r18vd", "params_r18vd.tsv", false);
}

static void names_r50vd(void **state)
{
    (void)state;
    check_names("rtdetrv2_r50vd", "params_r50vd.tsv", false);
}

static void names_r18vd_version1(void **state)
{
    (void)state;
    check_names("rtdetr_r18vd", "params_r18vd.tsv", true);
}

static void names_r50vd_version1(void **state)
{
    (void)state;
    check_names("rtdetr_r50vd", "params_r50vd.tsv", true);
}

/* The rate and decay that the optimizer gives to a parameter. */
static void check_rate(const opened *o, const dg_control *c, const char *name, double lr,
                       double decay)
{
    const dg_param_info *info = dg_params_at(o->params, dg_params_find(o->params, name));
    const adamw_attr *a = optimizer(o->program);

    for (int64_t k = 0; k < a->n_ranges; k++)
        if (info->offset >= a->ranges[k].begin && info->offset < a->ranges[k].end &&
            (fabs(c->lr[a->ranges[k].group] - lr) > 1e-9 * lr ||
             fabs(a->ranges[k].weight_decay - decay) > 1e-18))
            fail_msg("%s: rate %.10g and decay %g, expected %.10g and %g", name,
                     c->lr[a->ranges[k].group], a->ranges[k].weight_decay, lr, decay);
}

/* 464 trainable tensors in 28 classes of rate and decay. */
static void rfdetr_nano(void **state)
{
    char path[4096], *text, *save = NULL, name[256], shape[64], kind[32];
    dg_control control = { 0 };
    int64_t elements = 0;
    double lr, decay;
    const dg_node *node;
    size_t n;
    int rows = 0;
    opened o;

    (void)state;
    open_preset(&o, "rfdetr_nano", "91", 256);
    node = optimizer_node(o.graph);
    node->class->control(node->conf, &(dg_clock){ .step = 5000 }, &control);
    assert_int_equal(control.n_groups, 28);
    snprintf(path, sizeof path, "%s/tests/nodes/data/params_rfdetr_nano.tsv", source());
    must(dg_file_read(&text, &n, path, 1 << 20, o.d), o.d);
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        assert_int_equal(sscanf(line, "%255s %63s %31s %lf %lf", name, shape, kind, &lr, &decay),
                         5);
        check_row(o.params, name, shape, kind);
        if (strcmp(kind, "trainable") == 0)
            check_rate(&o, &control, name, lr, decay);
        elements +=
            dg_shape_elements(dg_params_at(o.params, dg_params_find(o.params, name))->shape);
        rows++;
    }
    assert_int_equal(dg_params_n(o.params), rows);
    assert_int_equal(elements, 30467298);
    dg_free(text);
    close_preset(&o);
}

/* Numbers of elements, trained elements, tensors and groups. Nothing trains the mask token, nor
 * base's last layer. */
static void rfdetr_sizes(void **state)
{
    static const struct {
        const char *preset;
        int size;
        int64_t elements, untrained;
        int tensors, n_groups;
    } sizes[] = {
        { "rfdetr_small", 256, 32111170, 384, 487, 28 },
        { "rfdetr_medium", 256, 33687458, 384, 509, 28 },
        { "rfdetr_large", 256, 33933218, 384, 509, 28 },
        { "rfdetr_base", 280, 32174530, 1775616, 487, 26 },
        { "rfdetr_large_deprecated", 280, 135637474, 7090176, 533, 26 },
        { "rfdetr_seg_nano", 252, 33577475, 384, 544, 28 },
        { "rfdetr_seg_small", 264, 33711107, 384, 544, 28 },
        { "rfdetr_seg_preview", 312, 34153555, 384, 544, 28 },
        { "rfdetr_seg_medium", 312, 35694259, 384, 572, 28 },
        { "rfdetr_seg_large", 384, 35873971, 384, 572, 28 },
        { "rfdetr_seg_xlarge", 504, 38113635, 384, 600, 28 },
        { "rfdetr_seg_2xlarge", 648, 38648163, 384, 600, 28 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int64_t elements = 0, untrained = 0;
        dg_control control = { 0 };
        const dg_node *node;
        opened o;

        open_preset(&o, sizes[i].preset, "91", sizes[i].size);
        for (int k = 0; k < dg_params_n(o.params); k++) {
            const dg_param_info *info = dg_params_at(o.params, k);

            elements += dg_shape_elements(info->shape);
            untrained += info->kind == DG_TRAINABLE ? 0 : dg_shape_elements(info->shape);
        }
        node = optimizer_node(o.graph);
        node->class->control(node->conf, &(dg_clock){ .step = 5000 }, &control);
        assert_int_equal(elements, sizes[i].elements);
        assert_int_equal(untrained, sizes[i].untrained);
        assert_int_equal(dg_params_n(o.params), sizes[i].tensors);
        assert_int_equal(control.n_groups, sizes[i].n_groups);
        close_preset(&o);
    }
}

/* The variant of Co-DETR with a fixed canvas: the model is the same, its batches are jittered. */
static void codino_lsj(void **state)
{
    char part[4096];
    opened o;

    (void)state;
    snprintf(part, sizeof part, "%s/pipelines/parts/codino_data_lsj.xml", source());
    open_with(&o, "codino_r50", "80", 1024, (dg_set){ "data_part", part });
    assert_true(dg_program_input(o.program, "b.images") > 0);
    assert_int_equal(dg_program_input(o.program, "b.targets.masks"), 0);
    close_preset(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_groups),    cmocka_unit_test(names_r18vd),
        cmocka_unit_test(names_r50vd),          cmocka_unit_test(names_r18vd_version1),
        cmocka_unit_test(names_r50vd_version1), cmocka_unit_test(rfdetr_nano),
        cmocka_unit_test(rfdetr_sizes),         cmocka_unit_test(codino_lsj),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
