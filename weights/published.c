/* published.c: see published.h. Addresses and AP are those of the projects' own pages:
 * lyuwenyu/RT-DETR, roboflow/rf-detr, facebookresearch/dinov2. */
#include "weights/published.h"

#include <stdlib.h>
#include <string.h>

#include "base/beside.h"
#include "base/file.h"
#include "base/str.h"
#include "weights/fetched.h"

#define RTDETR "https://github.com/lyuwenyu/storage/releases/download/"
#define RFDETR "https://storage.googleapis.com/rfdetr/"
#define DINOV2 "https://huggingface.co/facebook/"
#define APACHE "Apache-2.0"

const dg_published dg_published_all[] = {
    { .name = "rtdetrv2_r18vd_coco",
      .url = RTDETR "v0.2/rtdetrv2_r18vd_120e_coco_rerun_48.1.pth",
      .file = "rtdetrv2_r18vd_120e_coco_rerun_48.1.pth",
      .licence = APACHE,
      .ap = 48.1,
      .preset = "rtdetrv2_r18vd_coco" },
    { .name = "rtdetrv2_r34vd_coco",
      .url = RTDETR "v0.1/rtdetrv2_r34vd_120e_coco_ema.pth",
      .file = "rtdetrv2_r34vd_120e_coco_ema.pth",
      .licence = APACHE,
      .ap = 49.9,
      .preset = "rtdetrv2_r34vd_coco" },
    { .name = "rtdetrv2_r50vd_m_coco",
      .url = RTDETR "v0.1/rtdetrv2_r50vd_m_7x_coco_ema.pth",
      .file = "rtdetrv2_r50vd_m_7x_coco_ema.pth",
      .licence = APACHE,
      .ap = 51.9,
      .preset = "rtdetrv2_r50vd_m_coco" },
    { .name = "rtdetrv2_r50vd_coco",
      .url = RTDETR "v0.1/rtdetrv2_r50vd_6x_coco_ema.pth",
      .file = "rtdetrv2_r50vd_6x_coco_ema.pth",
      .licence = APACHE,
      .ap = 53.4,
      .preset = "rtdetrv2_r50vd_coco" },
    { .name = "rtdetrv2_r101vd_coco",
      .url = RTDETR "v0.1/rtdetrv2_r101vd_6x_coco_from_paddle.pth",
      .file = "rtdetrv2_r101vd_6x_coco_from_paddle.pth",
      .licence = APACHE,
      .ap = 54.3,
      .preset = "rtdetrv2_r101vd_coco" },
    { .name = "rtdetr_r18vd_coco",
      .url = RTDETR "v0.1/rtdetr_r18vd_dec3_6x_coco_from_paddle.pth",
      .file = "rtdetr_r18vd_dec3_6x_coco_from_paddle.pth",
      .licence = APACHE,
      .ap = 46.4,
      .preset = "rtdetr_r18vd_coco" },
    { .name = "rtdetr_r34vd_coco",
      .url = RTDETR "v0.1/rtdetr_r34vd_dec4_6x_coco_from_paddle.pth",
      .file = "rtdetr_r34vd_dec4_6x_coco_from_paddle.pth",
      .licence = APACHE,
      .ap = 48.9,
      .preset = "rtdetr_r34vd_coco" },
    { .name = "rtdetr_r50vd_m_coco",
      .url = RTDETR "v0.1/rtdetr_r50vd_m_6x_coco_from_paddle.pth",
      .file = "rtdetr_r50vd_m_6x_coco_from_paddle.pth",
      .licence = APACHE,
      .ap = 51.3,
      .preset = "rtdetr_r50vd_m_coco" },
    { .name = "rtdetr_r50vd_coco",
      .url = RTDETR "v0.1/rtdetr_r50vd_6x_coco_from_paddle.pth",
      .file = "rtdetr_r50vd_6x_coco_from_paddle.pth",
      .licence = APACHE,
      .ap = 53.1,
      .preset = "rtdetr_r50vd_coco" },
    { .name = "rtdetr_r101vd_coco",
      .url = RTDETR "v0.1/rtdetr_r101vd_6x_coco_from_paddle.pth",
      .file = "rtdetr_r101vd_6x_coco_from_paddle.pth",
      .licence = APACHE,
      .ap = 54.3,
      .preset = "rtdetr_r101vd_coco" },
    { .name = "r18vd",
      .url = RTDETR "v0.1/ResNet18_vd_pretrained_from_paddle.pth",
      .file = "ResNet18_vd_pretrained_from_paddle.pth",
      .licence = APACHE,
      .preset = "backbone.presnet depth=18" },
    { .name = "r34vd",
      .url = RTDETR "v0.1/ResNet34_vd_pretrained_from_paddle.pth",
      .file = "ResNet34_vd_pretrained_from_paddle.pth",
      .licence = APACHE,
      .preset = "backbone.presnet depth=34" },
    { .name = "r50vd",
      .url = RTDETR "v0.1/ResNet50_vd_ssld_v2_pretrained_from_paddle.pth",
      .file = "ResNet50_vd_ssld_v2_pretrained_from_paddle.pth",
      .licence = APACHE,
      .preset = "backbone.presnet depth=50" },
    { .name = "r101vd",
      .url = RTDETR "v0.1/ResNet101_vd_ssld_pretrained_from_paddle.pth",
      .file = "ResNet101_vd_ssld_pretrained_from_paddle.pth",
      .licence = APACHE,
      .preset = "backbone.presnet depth=101" },
    { .name = "rfdetr_nano_coco",
      .url = RFDETR "nano_coco/checkpoint_best_regular.pth",
      .file = "rf-detr-nano.pth",
      .licence = APACHE,
      .ap = 48.4,
      .preset = "rfdetr_nano_coco" },
    { .name = "rfdetr_small_coco",
      .url = RFDETR "small_coco/checkpoint_best_regular.pth",
      .file = "rf-detr-small.pth",
      .licence = APACHE,
      .ap = 53.0,
      .preset = "rfdetr_small_coco" },
    { .name = "rfdetr_medium_coco",
      .url = RFDETR "medium_coco/checkpoint_best_regular.pth",
      .file = "rf-detr-medium.pth",
      .licence = APACHE,
      .ap = 54.7,
      .preset = "rfdetr_medium_coco" },
    { .name = "dinov2_small",
      .url = DINOV2 "dinov2-small/resolve/main/model.safetensors",
      .file = "dinov2-small.safetensors",
      .licence = APACHE,
      .mib = 84.2,
      .preset = "backbone.dinov2 patch=14" },
    { 0 },
};

const dg_published *dg_published_find(const char *name)
{
    static const char *const data = "_coco";
    const size_t n = strlen(name);

    for (const dg_published *p = dg_published_all; p->name; p++)
        if (strcmp(p->name, name) == 0 ||
            (strncmp(p->name, name, n) == 0 && strcmp(p->name + n, data) == 0))
            return p;
    return NULL;
}

const char *dg_published_near(const char *name)
{
    const char *names[sizeof dg_published_all / sizeof *dg_published_all];
    int n = 0;

    for (const dg_published *p = dg_published_all; p->name; p++)
        names[n++] = p->name;
    return dg_nearest(name, names, n);
}

const char *dg_published_folder(dg_arena *a)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

    if (!cache || cache[0] != '/') /* the specification: other values are ignored */
        cache = home && *home ? dg_path_join(a, home, ".cache") : NULL;
    return cache ? dg_path_join(a, cache, "detrgraph/weights") : NULL;
}

const char *dg_published_place(dg_arena *a, const char *name)
{
    const dg_published *p = dg_published_find(name);
    const char *folder = p ? dg_published_folder(a) : NULL;

    return folder ? dg_path_join(a, folder, p->file) : NULL;
}

/* The file of a preset's pipeline; NULL: not found. */
static const char *find_pipeline(dg_arena *a, const char *preset)
{
    char path[4096];

    return dg_find_beside(path, sizeof path, dg_printf(a, "pipelines/%s.xml", preset))
               ? dg_strdup(a, path)
               : NULL;
}

int dg_published_file(const char **path, const char *name, dg_arena *a, dg_diag *d)
{
    const dg_published *p = dg_exists(name) ? NULL : dg_published_find(name);
    dg_fetched x;

    *path = p ? dg_published_place(a, p->name) : name;
    if (!p || (*path && dg_exists(*path)))
        return p ? dg_fetched_check(&x, *path, d) : 0;
    dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "weights-unfetched",
            "these weights are not fetched yet");
    dg_help(d, "detrgraph weights fetch %s", p->name);
    return -DG_EINPUT;
}

int dg_published_detector(const char **pipeline, const char **weights, const char *name,
                          dg_arena *a, dg_diag *d)
{
    const dg_published *p = dg_published_find(name);
    const dg_where at = { .file = name };
    int rc;

    *pipeline = find_pipeline(a, p->preset);
    if (!(p->ap > 0)) {
        dg_fail(d, DG_EINPUT, at, "weights-backbone",
                "this is a backbone, which detects nothing by itself");
        dg_help(d, "detrgraph init --data DIR --pretrained %s trains a detector from it", p->name);
        return -DG_EINPUT;
    }
    DG_TRY(dg_published_file(weights, name, a, d));
    if (!*pipeline) {
        dg_fail(d, DG_EINPUT, at, "weights-preset",
                "the pipeline %s.xml is not beside the program, nor installed", p->preset);
        dg_help(d, "name the pipeline before the weights: %s.xml --weights %s", p->preset,
                dg_shell(a, *weights));
        return -DG_EINPUT;
    }
out:
    return rc;
}
