/* detect.h: a trained detector in a program: open it, add images, take what it finds. The verbs
 * predict and serve and the Python module use it, too.
 *
 * A detector is used by one thread at a time; several detectors, each with its own diagnostics,
 * work side by side in threads of their own. Results belong to the detector. */
#ifndef DETRGRAPH_DETECT_H
#define DETRGRAPH_DETECT_H

#include <detrgraph/data.h>
#include <detrgraph/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dg_detector dg_detector;

typedef struct dg_detector_options {
    size_t size; /* sizeof(dg_detector_options) */
    /* a run's folder, or a checkpoint or a file of weights in one; a pipeline, with `weights`; or
     * the name of a published detector in the cache, "rtdetrv2_r18vd_coco" */
    const char *model;
    const char *weights; /* a file or folder; NULL: model's */
    bool last;           /* of a run: the last weights instead of those with the best score */
    int n_sets;
    const char *const *sets; /* "name=value", like --set, after those of the run */
    const char *precision;   /* "f32", "tf32", "bf16"; NULL: the pipeline's */
    const char *device;      /* "cpu", "cuda", ..., as in dg_run_options; NULL: "cpu" */
    int threads;             /* 0: as many as this process may use */
    /* the classes by label, for weights without their data; NULL: as the pipeline's data name them
     */
    const dg_coco_class *names;
    int n_names;
    const char *program; /* for logs, as in dg_run_options */
    /* level: 0 debug, 1 info, 2 warning; may be NULL */
    void (*log)(void *ctx, int level, const char *line);
    void *log_ctx;
} dg_detector_options;

/* Opens the pipeline, loads the weights and compiles the program. Errors: "detector-model" (no
 * pipeline is found for the model), those of dg_run_open and dg_run_load. */
DG_PUBLIC int dg_detector_open(dg_detector **out, const dg_detector_options *o, dg_diag *d)
    DG_MUST_USE;
DG_PUBLIC void dg_detector_close(dg_detector **p);

/* The classes by label; *n 0: their names are not known. Valid while the detector is open. */
DG_PUBLIC const dg_coco_class *dg_detector_classes(const dg_detector *p, int *n);
/* The score with the best F1 in the run's evaluation of these weights; else 0.4: of a checkpoint
 * after which there was no evaluation, too. */
DG_PUBLIC double dg_detector_threshold(const dg_detector *p);

/* ---- images ---------------------------------------------------------------------------------- */

/* How many images can still be added before dg_detector_run: after it, a whole batch. */
DG_PUBLIC int dg_detector_room(const dg_detector *p);

/* Add an image, called `name` in results and errors; the detector keeps copies. An image without
 * room ("detector-full") or that cannot be read (-DG_EINPUT, -DG_EIO) leaves the batch as it was.
 * Adding the first image of a batch ends the life of the last results. */
DG_PUBLIC int dg_detector_add_file(dg_detector *p, const char *path, dg_diag *d) DG_MUST_USE;
/* n bytes of a JPEG, PNG, BMP, WebP or TIFF */
DG_PUBLIC int dg_detector_add_bytes(dg_detector *p, const char *name, const void *bytes, size_t n,
                                    dg_diag *d) DG_MUST_USE;

typedef enum dg_pixel_order {
    DG_PIXELS_RGB,
    DG_PIXELS_BGR,
    DG_PIXELS_RGBA, /* alpha is dropped */
    DG_PIXELS_BGRA,
    DG_PIXELS_GRAY,
} dg_pixel_order;

typedef struct dg_pixels {
    int w, h;
    dg_pixel_order order;
    int64_t stride;      /* bytes from a row to the next; 0: rows without gaps */
    const uint8_t *data; /* 8 bits per channel, rows top down */
} dg_pixels;
/* Errors: "image-size", "image-pixels". */
DG_PUBLIC int dg_detector_add_pixels(dg_detector *p, const char *name, const dg_pixels *in,
                                     dg_diag *d) DG_MUST_USE;

/* ---- detections ------------------------------------------------------------------------------ */

typedef struct dg_hit {
    dg_box box; /* x1, y1, x2, y2 in pixels of the image; may reach over its edges */
    int label;
    double score; /* 0 to 1 */
} dg_hit;

typedef struct dg_detected {
    const char *name;      /* as added */
    const dg_image *image; /* as read, upright */
    int n;
    const dg_hit *items; /* best first */
    const dg_rle *masks; /* of the items, as large as the image; NULL: the model has none */
} dg_detected;

/* Computes on the images added since the last call and gives what scores threshold or more, an
 * entry per image in their order. Empties the batch, also if it fails. The results live until the
 * next image is added, the next run or the close. */
DG_PUBLIC int dg_detector_run(dg_detector *p, double threshold, const dg_detected **found, int *n,
                              dg_diag *d) DG_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
