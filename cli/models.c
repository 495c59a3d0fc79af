/* models.c: see models.h. Recognises a model from its tensors: type and number of blocks from the
 * backbone, width and expansion from the encoder's shapes, layers from the decoder, the version
 * from the point scales, which only version 2 stores. Uses the reference's names. */
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

static const dg_model models[] = {
    { "rtdetrv2_r18vd", 2, 18, 256, 1024, 3, -1, "0.5", DG_NORM_GROUP, false },
    { "rtdetrv2_r34vd", 2, 34, 256, 1024, 4, -1, "0.5", SMALL_GROUPS("5e-5"), false },
    { "rtdetrv2_r50vd_m", 2, 50, 256, 1024, 6, 2, "0.5", LARGE_GROUPS("1e-5"), true },
    { "rtdetrv2_r50vd", 2, 50, 256, 1024, 6, -1, "1", LARGE_GROUPS("1e-5"), true },
    { "rtdetrv2_r101vd", 2, 101, 384, 2048, 6, -1, "1", LARGE_GROUPS("1e-6"), true },
    { "rtdetr_r18vd", 1, 18, 256, 1024, 3, -1, "0.5", SMALL_GROUPS("1e-5"), false },
    { "rtdetr_r34vd", 1, 34, 256, 1024, 4, -1, "0.5", SMALL_GROUPS("1e-5"), false },
    { "rtdetr_r50vd_m", 1, 50, 256, 1024, 6, 2, "0.5", LARGE_GROUPS("1e-5"), true },
    { "rtdetr_r50vd", 1, 50, 256, 1024, 6, -1, "1", LARGE_GROUPS("1e-5"), true },
    { "rtdetr_r101vd", 1, 101, 384, 2048, 6, -1, "1", LARGE_GROUPS("1e-6"), true },
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

/* ---- recognising models
 * ----------------------------------------------------------------------- */

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

static int layers_of(const dg_archive *a)
{
    char name[64];
    int n = 0;

    do
        snprintf(name, sizeof name, "decoder.decoder.layers.%d.linear1.weight", n);
    while (dg_archive_find(a, name) && ++n < 64);
    return n;
}

const dg_model *dg_model_of(const dg_archive *a)
{
    int64_t width = channels(a, "encoder.input_proj.0.conv.weight");
    int64_t inner = channels(a, "encoder.fpn_blocks.0.conv1.conv.weight");
    int version =
        dg_archive_find(a, "decoder.decoder.layers.0.cross_attn.num_points_scale") ? 2 : 1;
    int depth = depth_of(a), layers = layers_of(a);

    for (int i = 0; i < N_MODELS; i++) {
        const dg_model *m = &models[i];

        /* exports for evaluation lack the layers after the evaluated one */
        if (m->version == version && m->depth == depth && m->width == width &&
            (double)inner == strtod(m->expansion, NULL) * m->width &&
            (layers == m->layers || layers == m->eval_idx + 1))
            return m;
    }
    return NULL;
}

bool dg_models_alike(const dg_model *a, const dg_model *b)
{
    return a->depth == b->depth && a->width == b->width && a->layers == b->layers &&
           strcmp(a->expansion, b->expansion) == 0;
}
