/* hf_config.c: writes config.json and preprocessor_config.json from the attributes of the model's
 * nodes. The keys are those of transformers' RTDetrConfig, RTDetrV2Config, RTDetrResNetConfig and
 * RTDetrImageProcessor. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "weights/hf_internal.h"

enum { BACKBONE, ENCODER, DECODER };

static const char *const classes[DG_HF_PARTS] = { "backbone.presnet", "encoder.hybrid",
                                                  "decoder.rtdetr" };

/* ---- attributes ------------------------------------------------------------------------------ */

static const dg_attr *find_attr(const dg_node *node, const char *name)
{
    const dg_attr *a;

    assert(node); /* a model has every part */
    a = node->class->attrs;
    while (strcmp(a->name, name) != 0)
        a++;
    return a;
}

/* The value of a NUM, INT, BOOL or ENUM (index of the word) attribute. */
static double number(const dg_node *node, const char *name)
{
    const dg_attr *a = find_attr(node, name);
    const char *at = (const char *)node->conf + a->offset;

    switch (a->kind) {
    case DG_ATTR_NUM:
        return *(const double *)(const void *)at;
    case DG_ATTR_BOOL:
        return *(const bool *)(const void *)at;
    default:
        return (double)*(const int64_t *)(const void *)at;
    }
}

static dg_ints integers(const dg_node *node, const char *name)
{
    return *(const dg_ints *)(const void *)((const char *)node->conf +
                                            find_attr(node, name)->offset);
}

/* ---- what transformers can express ----------------------------------------------------------- */

static int refuse_unlike(const dg_hf_model *m, const dg_node *node, dg_diag *d, const char *what)
{
    return dg_fail(d, DG_EUNSUPPORTED, node->where, "hf-unlike", "transformers' %s has no %s",
                   m->version == 1 ? "RTDetr" : "RTDetrV2", what);
}

static int find_nodes(dg_hf_model *m, dg_diag *d)
{
    const dg_graph *g = m->graph;
    dg_where at = { .file = g->file };

    if (g->n_models != 1)
        return dg_fail(d, DG_EUNSUPPORTED, at, "hf-model", "one <model> is expected, found %d",
                       g->n_models);
    for (int i = 0; i < g->models[0]->n_nodes; i++) {
        const dg_node *node = g->models[0]->nodes[i];
        bool known = strcmp(node->class->name, "input") == 0;

        for (int k = 0; k < DG_HF_PARTS; k++)
            if (strcmp(node->class->name, classes[k]) == 0 && !m->nodes[k]) {
                m->nodes[k] = node;
                known = true;
            }
        if (!known)
            return dg_fail(d, DG_EUNSUPPORTED, node->where, "hf-model",
                           "<%s> has no counterpart in transformers' RTDetr and RTDetrV2",
                           node->class->name);
    }
    for (int k = 0; k < DG_HF_PARTS; k++)
        if (!m->nodes[k])
            return dg_fail(d, DG_EUNSUPPORTED, g->models[0]->where, "hf-model",
                           "the model has no <%s>", classes[k]);
    return 0;
}

static bool equal(dg_ints v)
{
    for (int i = 1; i < v.n; i++)
        if (v.v[i] != v.v[0])
            return false;
    return true;
}

static int check(dg_hf_model *m, dg_diag *d)
{
    const dg_node *encoder = m->nodes[ENCODER], *decoder = m->nodes[DECODER];
    double eval = number(decoder, "eval_idx"), layers = number(decoder, "layers");

    m->version = (int64_t)number(decoder, "version") + 1;
    m->n_layers = (int64_t)(eval < 0 ? layers + eval : eval) + 1;
    if (number(encoder, "version") != number(decoder, "version"))
        return refuse_unlike(m, encoder, d, "encoder of another version than the decoder's");
    if (nearbyint(3 * number(encoder, "depth")) != 3)
        return refuse_unlike(m, encoder, d,
                             "fusion blocks with other than three RepVGG blocks (depth)");
    if (!equal(integers(decoder, "points")))
        return refuse_unlike(m, decoder, d,
                             "number of sampling points for each level of its own (points)");
    if (number(decoder, "select") != 0)
        return refuse_unlike(m, decoder, d,
                             "selection of queries other than by their best class (select)");
    if (m->version == 1 && number(decoder, "method") != 0)
        return refuse_unlike(m, decoder, d, "discrete sampling (method)");
    if (m->size.w != m->size.h)
        dg_warn(d, encoder->where, "hf-square",
                "images are %lldx%lld: transformers lays out the encoder's positions differently "
                "where they are not square, and "
                "finds other boxes",
                (long long)m->size.w, (long long)m->size.h);
    return 0;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static const struct {
    const char *key;
    int part;
    const char *attr;
} numbers[] = {
    { "encoder_hidden_dim", ENCODER, "width" },      { "encoder_ffn_dim", ENCODER, "ffn" },
    { "encoder_attention_heads", ENCODER, "heads" }, { "d_model", DECODER, "width" },
    { "num_queries", DECODER, "queries" },           { "decoder_ffn_dim", DECODER, "ffn" },
    { "decoder_attention_heads", DECODER, "heads" },
};

/* Equal in every RT-DETR. */
static const char constants[] = "  \"activation_dropout\": 0.0,\n"
                                "  \"activation_function\": \"silu\",\n"
                                "  \"anchor_image_size\": null,\n"
                                "  \"attention_dropout\": 0.0,\n"
                                "  \"batch_norm_eps\": 1e-05,\n"
                                "  \"decoder_activation_function\": \"relu\",\n"
                                "  \"dropout\": 0.0,\n"
                                "  \"encode_proj_layers\": [2],\n"
                                "  \"encoder_activation_function\": \"gelu\",\n"
                                "  \"encoder_layers\": 1,\n"
                                "  \"eval_size\": null,\n"
                                "  \"feat_strides\": [8, 16, 32],\n"
                                "  \"is_encoder_decoder\": true,\n"
                                "  \"layer_norm_eps\": 1e-05,\n"
                                "  \"normalize_before\": false,\n"
                                "  \"num_feature_levels\": 3,\n"
                                "  \"positional_encoding_temperature\": 10000,\n"
                                "  \"use_pretrained_backbone\": false,\n"
                                "  \"use_timm_backbone\": false,\n"
                                "  \"with_box_refine\": true,\n";

static const struct {
    const char *blocks; /* number per stage */
    bool bottleneck;
} depths[] = { { "2, 2, 2, 2", false },
               { "3, 4, 6, 3", false },
               { "3, 4, 6, 3", true },
               { "3, 4, 23, 3", true } };

static void add_backbone(dg_str *s, const dg_hf_model *m)
{
    const char *blocks = depths[(int)number(m->nodes[BACKBONE], "depth")].blocks;
    bool bottleneck = depths[(int)number(m->nodes[BACKBONE], "depth")].bottleneck;
    int w = (int)number(m->nodes[BACKBONE], "width"), k = w * (bottleneck ? 4 : 1);

    dg_str_fmt(s,
               "  \"backbone\": null,\n"
               "  \"backbone_config\": {\n"
               "    \"depths\": [%s],\n"
               "    \"downsample_in_bottleneck\": false,\n"
               "    \"downsample_in_first_stage\": false,\n"
               "    \"embedding_size\": %d,\n"
               "    \"hidden_act\": \"relu\",\n"
               "    \"hidden_sizes\": [%d, %d, %d, %d],\n"
               "    \"layer_type\": \"%s\",\n"
               "    \"model_type\": \"rt_detr_resnet\",\n"
               "    \"num_channels\": 3,\n"
               "    \"out_features\": [\"stage2\", \"stage3\", \"stage4\"],\n"
               "    \"out_indices\": [2, 3, 4]\n"
               "  },\n",
               blocks, w, k, 2 * k, 4 * k, 8 * k, bottleneck ? "bottleneck" : "basic");
    dg_str_fmt(s, "  \"encoder_in_channels\": [%d, %d, %d],\n", 2 * k, 4 * k, 8 * k);
    dg_str_fmt(s, "  \"freeze_backbone_batch_norms\": %s,\n",
               number(m->nodes[BACKBONE], "freeze_norm") != 0 ? "true" : "false");
}

/* "nut" or, if names are unknown, "LABEL_3". */
static void add_label(dg_str *s, const dg_hf_model *m, int i)
{
    char name[24];

    snprintf(name, sizeof name, "LABEL_%d", i);
    dg_str_json(s, i < m->n_names ? m->names[i] : name);
}

static void add_labels(dg_str *s, const dg_hf_model *m)
{
    int n = (int)number(m->nodes[DECODER], "classes");

    dg_str_add(s, "  \"id2label\": {");
    for (int i = 0; i < n; i++) {
        dg_str_fmt(s, "%s\"%d\": ", i ? ", " : "", i);
        add_label(s, m, i);
    }
    dg_str_add(s, "},\n  \"label2id\": {");
    for (int i = 0; i < n; i++) {
        dg_str_add(s, i ? ", " : "");
        add_label(s, m, i);
        dg_str_fmt(s, ": %d", i);
    }
    dg_str_add(s, "},\n");
}

void dg_hf_config(dg_str *s, const dg_hf_model *m)
{
    const dg_node *encoder = m->nodes[ENCODER], *decoder = m->nodes[DECODER];
    long long width = (long long)number(encoder, "width");

    dg_str_fmt(s, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n",
               m->version == 1 ? "RTDetrForObjectDetection" : "RTDetrV2ForObjectDetection",
               m->version == 1 ? "rt_detr" : "rt_detr_v2");
    add_backbone(s, m);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dg_str_fmt(s, "  \"%s\": %lld,\n", numbers[i].key,
                   (long long)number(m->nodes[numbers[i].part], numbers[i].attr));
    dg_str_fmt(s, "  \"hidden_expansion\": %.17g%s,\n", number(encoder, "expansion"),
               number(encoder, "expansion") == nearbyint(number(encoder, "expansion")) ? ".0" : "");
    dg_str_fmt(s, "  \"decoder_in_channels\": [%lld, %lld, %lld],\n", width, width, width);
    dg_str_fmt(s, "  \"decoder_layers\": %lld,\n", (long long)m->n_layers);
    dg_str_fmt(s, "  \"decoder_n_points\": %lld,\n", (long long)integers(decoder, "points").v[0]);
    dg_str_fmt(s, "  \"learn_initial_query\": %s,\n",
               number(decoder, "learn_query_content") != 0 ? "true" : "false");
    if (m->version == 2)
        dg_str_fmt(s,
                   "  \"decoder_method\": \"%s\",\n  \"decoder_n_levels\": 3,\n  "
                   "\"decoder_offset_scale\": 0.5,\n",
                   number(decoder, "method") != 0 ? "discrete" : "default");
    add_labels(s, m);
    dg_str_add(s, constants);
    dg_str_add(s, "  \"num_denoising\": 100\n}\n");
}

void dg_hf_preprocessor(dg_str *s, const dg_hf_model *m)
{
    dg_str_fmt(s,
               "{\n"
               "  \"do_convert_annotations\": true,\n"
               "  \"do_normalize\": false,\n"
               "  \"do_pad\": false,\n"
               "  \"do_rescale\": true,\n"
               "  \"do_resize\": true,\n"
               "  \"format\": \"coco_detection\",\n"
               "  \"image_mean\": [0.485, 0.456, 0.406],\n"
               "  \"image_processor_type\": \"RTDetrImageProcessor\",\n"
               "  \"image_std\": [0.229, 0.224, 0.225],\n"
               "  \"resample\": 2,\n"
               "  \"rescale_factor\": 0.00392156862745098,\n"
               "  \"size\": {\"height\": %lld, \"width\": %lld}\n"
               "}\n",
               (long long)m->size.h, (long long)m->size.w);
}

/* ---- the model ------------------------------------------------------------------------------- */

const dg_scope *dg_hf_scope(const dg_graph *graph)
{
    return graph->n_evaluates ? graph->evaluates[0] : graph->train;
}

static int find_size(dg_hf_model *m, dg_diag *d)
{
    dg_size *sizes;
    int n, batch, rc = dg_scope_sizes(dg_hf_scope(m->graph), m->arena, &sizes, &n, &batch, d);

    if (rc == 0)
        m->size = sizes[0];
    return rc;
}

int dg_hf_describe(dg_hf_model *m, const dg_graph *graph, dg_arena *a, dg_diag *d)
{
    int rc;

    *m = (dg_hf_model){ .graph = graph, .arena = a };
    DG_TRY(find_size(m, d));
    DG_TRY(find_nodes(m, d));
    DG_TRY(check(m, d));
out:
    return rc;
}
