/* models.h: the presets' architectures, for init: their numbers, and which one a file of weights
 * belongs to. */
#ifndef DG_CLI_MODELS_H
#define DG_CLI_MODELS_H

#include "weights/archive.h"

#define DG_NORM_GROUP "      <group match=\"norm|bn\" weight_decay=\"0\"/>\n"

/* RF-DETR's numbers. features, levels: attributes' texts; size: the one that it was made for;
 * trained: layers of the backbone; embed, top: rates of embeddings and of the last trained layer,
 * as shares of the optimizer's; queries: where an image has tokens for them; masks: it finds masks,
 * too. */
typedef struct dg_rfdetr {
    int vit_width, vit_heads, patch, windows, positions, size;
    const char *features, *levels;
    int heads, self_heads, points, trained;
    const char *embed, *top;
    int queries;
    bool masks;
} dg_rfdetr;

/* Co-DINO's backbones: a ResNet, or a Swin with attributes of these texts. */
typedef struct dg_codino {
    int depth; /* of the ResNet; 0: Swin */
    int width;
    const char *depths, *heads, *window, *drop_path;
} dg_codino;

typedef enum { DG_SYSTEM_RTDETR, DG_SYSTEM_RFDETR, DG_SYSTEM_CODINO } dg_system;

typedef struct dg_model {
    const char *name;
    int version, depth, width, ffn, layers, eval_idx;
    /* groups: of the optimizer, for training a pretrained backbone */
    const char *expansion, *groups;
    bool freeze; /* freeze a pretrained backbone's first stage and norms */
    /* Both NULL: RT-DETR. For the others only width and layers above count. */
    const dg_rfdetr *vit;
    const dg_codino *codino;
} dg_model;

const dg_model *dg_model_find(const char *name); /* NULL: unknown */
const char *dg_model_near(const char *name);     /* a similar name, or NULL */
/* The model of a whole model's tensors, which have the reference's names; NULL: none of these. */
const dg_model *dg_model_of(const dg_archive *a);
/* True if the weights of one fit the other: versions 1 and 2 have the same tensors. */
bool dg_models_alike(const dg_model *a, const dg_model *b);
dg_system dg_model_system(const dg_model *m);
bool dg_model_has_masks(const dg_model *m);

#endif
