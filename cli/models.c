/* models.c: see models.h. Recognises a model from its tensors: type and number of blocks from the
 * backbone, width and expansion from the encoder's shapes, layers from the decoder, the version
 * from the point scales, which only version 2 stores. RF-DETR: patches, table of positions and
 * layers. Co-DINO: its backbone. Uses the references' names. */
#include "cli/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define SMALL_GROUPS(rate)                                                         \
    "      <group match=\"backbone.*norm\" lr=\"" rate "\" weight_decay=\"0\"/>\n" \
    "      <group match=\"backbone\" unless=\"norm\" lr=\"" rate "\"/>\n"          \
    "      <group match=\"(encoder|decoder).*(norm|bn|bias)\" weight_decay=\"0\"/>\n"
#define LARGE_GROUPS(rate)                                                \
    "      <group match=\"backbone\" unless=\"norm\" lr=\"" rate "\"/>\n" \
    "      <group match=\"(encoder|decoder).*(norm|bn)\" weight_decay=\"0\"/>\n"

#define SMALL_VIT "3,6,9,12", "4", 16, 8, 2, 12, "0.0323256418566144", "0.4704"
#define NANO_FAMILY SMALL_VIT, 300, false
#define SEG_FAMILY SMALL_VIT, 100, true
#define BASE_FAMILY "2,5,8,11"
static const dg_rfdetr
    nano = { 384, 6, 16, 2, 24, 384, NANO_FAMILY },
    small = { 384, 6, 16, 2, 32, 512, NANO_FAMILY },
    medium = { 384, 6, 16, 2, 36, 576, NANO_FAMILY },
    large = { 384, 6, 16, 2, 44, 704, NANO_FAMILY },
    base = { 384,      6,   14,   4, 37, 560, BASE_FAMILY, "4", 16, 8, 2, 11, "0.040407052320768",
             "0.4704", 300, false },
    large_deprecated = { 768,
                         12,
                         14,
                         4,
                         37,
                         560,
                         BASE_FAMILY,
                         "3,5",
                         24,
                         12,
                         4,
                         11,
                         "0.040407052320768",
                         "0.4704",
                         300,
                         false },
    seg_nano = { 384, 6, 12, 1, 26, 312, SEG_FAMILY },
    seg_small = { 384, 6, 12, 2, 32, 384, SEG_FAMILY };

static const dg_codino resnet_18 = { .depth = 18 }, resnet_34 = { .depth = 34 },
                       resnet_50 = { .depth = 50 },
                       swin_t = { 0, 96, "2,2,6,2", "3,6,12,24", "7", "0.2" },
                       swin_l = { 0, 192, "2,2,18,2", "6,12,24,48", "12", "0.3" };

static const dg_model models[] = {
    { "rtdetrv2_r18vd", 2, 18, 256, 1024, 3, -1, "0.5", DG_NORM_GROUP, false, NULL, NULL },
    { "rtdetrv2_r34vd", 2, 34, 256, 1024, 4, -1, "0.5", SMALL_GROUPS("5e-5"), false, NULL, NULL },
    { "rtdetrv2_r50vd_m", 2, 50, 256, 1024, 6, 2, "0.5", LARGE_GROUPS("1e-5"), true, NULL, NULL },
    { "rtdetrv2_r50vd", 2, 50, 256, 1024, 6, -1, "1", LARGE_GROUPS("1e-5"), true, NULL, NULL },
    { "rtdetrv2_r101vd", 2, 101, 384, 2048, 6, -1, "1", LARGE_GROUPS("1e-6"), true, NULL, NULL },
    { "rtdetr_r18vd", 1, 18, 256, 1024, 3, -1, "0.5", SMALL_GROUPS("1e-5"), false, NULL, NULL },
    { "rtdetr_r34vd", 1, 34, 256, 1024, 4, -1, "0.5", SMALL_GROUPS("1e-5"), false, NULL, NULL },
    { "rtdetr_r50vd_m", 1, 50, 256, 1024, 6, 2, "0.5", LARGE_GROUPS("1e-5"), true, NULL, NULL },
    { "rtdetr_r50vd", 1, 50, 256, 1024, 6, -1, "1", LARGE_GROUPS("1e-5"), true, NULL, NULL },
    { "rtdetr_r101vd", 1, 101, 384, 2048, 6, -1, "1", LARGE_GROUPS("1e-6"), true, NULL, NULL },
    { "rfdetr_nano", 0, 0, 256, 2048, 2, -1, "", "", false, &nano, NULL },
    { "rfdetr_small", 0, 0, 256, 2048, 3, -1, "", "", false, &small, NULL },
    { "rfdetr_medium", 0, 0, 256, 2048, 4, -1, "", "", false, &medium, NULL },
    { "rfdetr_large", 0, 0, 256, 2048, 4, -1, "", "", false, &large, NULL },
    { "rfdetr_base", 0, 0, 256, 2048, 3, -1, "", "", false, &base, NULL },
    { "rfdetr_large_deprecated", 0, 0, 384, 2048, 3, -1, "", "", false, &large_deprecated, NULL },
    { "rfdetr_seg_nano", 0, 0, 256, 2048, 4, -1, "", "", false, &seg_nano, NULL },
    { "rfdetr_seg_small", 0, 0, 256, 2048, 4, -1, "", "", false, &seg_small, NULL },
    { "codino_r18", 0, 0, 256, 2048, 6, -1, "", "", false, NULL, &resnet_18 },
    { "codino_r34", 0, 0, 256, 2048, 6, -1, "", "", false, NULL, &resnet_34 },
    { "codino_r50", 0, 0, 256, 2048, 6, -1, "", "", false, NULL, &resnet_50 },
    { "codino_swin_t", 0, 0, 256, 2048, 6, -1, "", "", false, NULL, &swin_t },
    { "codino_swin_l", 0, 0, 256, 2048, 6, -1, "", "", false, NULL, &swin_l },
};
enum { N_MODELS = sizeof models / sizeof *models };

const dg_model *dg_model_find(const char *name)
{
    for (int i = 0; i < N_MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

const char *dg_model_near(const char *name)
{
    const char *names[N_MODELS];

    for (int i = 0; i < N_MODELS; i++)
        names[i] = models[i].name;
    return dg_nearest(name, names, N_MODELS);
}

/* ---- recognising models ---------------------------------------------------------------------- */

/* Output channels of a tensor (axis 0); -1: absent. */
static int64_t channels(const dg_archive *a, const char *name)
{
    const dg_entry *e = dg_archive_find(a, name);

    return e && e->shape.rank > 0 ? e->shape.d[0] : -1;
}

static int depth_of(const dg_archive *a)
{
#define BLOCK(n) "backbone.res_layers.2.blocks." #n ".branch2"
    if (dg_archive_find(a, BLOCK(0) "c.conv.weight"))
        return dg_archive_find(a, BLOCK(6) "a.conv.weight") ? 101 : 50;
    return dg_archive_find(a, BLOCK(2) "a.conv.weight") ? 34 : 18;
#undef BLOCK
}

static int layers_of(const dg_archive *a, const char *decoder)
{
    char name[64];
    int n = 0;

    do
        snprintf(name, sizeof name, "%s.layers.%d.linear1.weight", decoder, n);
    while (dg_archive_find(a, name) && ++n < 64);
    return n;
}

#define EMBEDDINGS "backbone.0.encoder.encoder.embeddings."
static const dg_model *rfdetr_of(const dg_archive *a)
{
    const dg_entry *table = dg_archive_find(a, EMBEDDINGS "position_embeddings"),
                   *patches = dg_archive_find(a, EMBEDDINGS "patch_embeddings.projection.weight");
    int layers = layers_of(a, "transformer.decoder");

    if (!table || !patches || table->shape.rank != 3 || patches->shape.rank != 4)
        return NULL;
    for (int i = 0; i < N_MODELS; i++) {
        const dg_rfdetr *v = models[i].vit;

        if (v && models[i].layers == layers && patches->shape.d[0] == v->vit_width &&
            patches->shape.d[3] == v->patch &&
            table->shape.d[1] == 1 + (int64_t)v->positions * v->positions)
            return &models[i];
    }
    return NULL;
}

/* The depth of torchvision's ResNet, by its third stage's blocks; 0: it is none of them. */
static int resnet_of(const dg_archive *a)
{
#define BLOCK(n, m) "backbone.layer3." #n ".conv" #m ".weight"
    if (!dg_archive_find(a, BLOCK(0, 1)))
        return 0;
    if (dg_archive_find(a, BLOCK(0, 3)))
        return dg_archive_find(a, BLOCK(6, 1)) ? 101 : dg_archive_find(a, BLOCK(5, 1)) ? 50 : 0;
    return dg_archive_find(a, BLOCK(2, 1)) ? 34 : 18;
#undef BLOCK
}

static const dg_model *codino_of(const dg_archive *a)
{
    int depth = resnet_of(a), width = (int)channels(a, "backbone.patch_embed.proj.weight");

    if (!dg_archive_find(a, "query_head.transformer.level_embeds"))
        return NULL;
    for (int i = 0; i < N_MODELS; i++) {
        const dg_codino *c = models[i].codino;

        if (c && (depth ? c->depth == depth : c->width == width))
            return &models[i];
    }
    return NULL;
}

const dg_model *dg_model_of(const dg_archive *a)
{
    int64_t width = channels(a, "encoder.input_proj.0.conv.weight");
    int64_t inner = channels(a, "encoder.fpn_blocks.0.conv1.conv.weight");
    int version =
        dg_archive_find(a, "decoder.decoder.layers.0.cross_attn.num_points_scale") ? 2 : 1;
    int depth = depth_of(a), layers = layers_of(a, "decoder.decoder");
    const dg_model *other = rfdetr_of(a);

    if (!other)
        other = codino_of(a);
    if (other)
        return other;

    for (int i = 0; i < N_MODELS; i++) {
        const dg_model *m = &models[i];

        /* exports for evaluation lack the layers after the evaluated one */
        if (dg_model_system(m) == DG_SYSTEM_RTDETR && m->version == version && m->depth == depth &&
            m->width == width && (double)inner == strtod(m->expansion, NULL) * m->width &&
            (layers == m->layers || layers == m->eval_idx + 1))
            return m;
    }
    return NULL;
}

bool dg_models_alike(const dg_model *a, const dg_model *b)
{
    if (dg_model_system(a) != DG_SYSTEM_RTDETR || dg_model_system(b) != DG_SYSTEM_RTDETR)
        return a == b;
    return a->depth == b->depth && a->width == b->width && a->layers == b->layers &&
           strcmp(a->expansion, b->expansion) == 0;
}

dg_system dg_model_system(const dg_model *m)
{
    return m->vit ? DG_SYSTEM_RFDETR : m->codino ? DG_SYSTEM_CODINO : DG_SYSTEM_RTDETR;
}

bool dg_model_has_masks(const dg_model *m)
{
    return m->vit && m->vit->masks;
}
