/* survey.h: contents and faults of a data set: for `detrgraph data check`, which stops only if the
 * data set cannot be found, and for a run's report, from the indices that the run has loaded. */
#ifndef DG_MEDIA_SURVEY_H
#define DG_MEDIA_SURVEY_H

#include "base/str.h"
#include "media/layout.h"

typedef struct dg_survey_options {
    const char *splits; /* comma-separated; NULL: the splits that belong together */
    bool no_images;     /* look only at annotations */
    bool decode;        /* decode images; false: read only headers and ends of files */
    int threads;
    void (*progress)(void *ctx, const char *what, int64_t done, int64_t all); /* may be NULL */
    void *ctx;
} dg_survey_options;

enum { DG_HISTOGRAM_BINS = 16 };
typedef struct dg_histogram {
    const char *title, *key;
    int n;
    const char *label[DG_HISTOGRAM_BINS];
    int64_t count[DG_HISTOGRAM_BINS];
} dg_histogram;

typedef struct dg_survey_split {
    const char *name, *path; /* path: the annotations, or the folder */
    bool readable;
    int64_t n_images, n_objects, n_crowd, n_truncated, n_empty, most_objects;
    int64_t *per_class; /* objects to train on, by the survey's class numbers */
    const dg_split *split;
    dg_coco *index; /* NULL if unreadable, or if the survey was read from a file */
} dg_survey_split;

enum { DG_HIST_SIDE, DG_HIST_ASPECT, DG_HIST_OBJECTS, DG_HIST_IMAGES, DG_N_HISTS };

typedef struct dg_survey {
    dg_arena *arena;
    dg_layout layout;        /* set by dg_survey_open */
    const char *form, *root; /* "coco"; for a run: its loader's class */
    dg_faults faults;
    int n_splits, n_classes;
    dg_survey_split *splits;
    const char **classes; /* of all splits, in the first split's order */
    int64_t *per_class;   /* over all splits */
    int64_t n_images, n_objects, n_crowd, n_truncated, n_empty;
    int64_t n_read, n_bytes; /* image files that were read, and their total size */
    bool decoded;
    int64_t most_objects;
    const char *most_image; /* an image with most_objects objects; NULL: none */
    dg_histogram hist[DG_N_HISTS];
    struct {
        int size, max_objects;
        double median_side; /* of the images' longer sides, px */
        /* tenth percentile of box sides (root of the area), in px of their images */
        double small_side;
        double small_scaled; /* the same after scaling the image to `size` */
        /* queries: objects to look for; denoising: noisy copies of the truth */
        int queries, denoising;
        /* the median of box sides over the tenth percentile: so far to zoom out, until half of the
         * objects are no larger than the smallest tenth was */
        double spread;
        bool one_shape;                     /* nearly all images have the same aspect ratio */
        double aspect;                      /* median of width / height */
        const char *why_size, *why_objects; /* for people; empty: nothing is known */
    } advice;
} dg_survey;

int dg_survey_open(dg_survey **out, const char *path, const dg_survey_options *o, dg_diag *d)
    DG_MUST_USE;
void dg_survey_close(dg_survey **s);
/* The tenth percentile of box sides in images that are scaled to this size, in px; 0: no boxes. */
double dg_survey_small(const dg_survey *s, double size);
/* How far to zoom out there, so that what is hard to see already gets no smaller: from 1 (not at
 * all) to 4. */
double dg_survey_zoom(const dg_survey *s, double size);

/* Surveys indices in memory by their annotations alone, without reading image files. */
typedef struct dg_survey_source {
    const char *name;
    dg_coco *index;         /* ownership passes to the survey */
    const dg_faults *found; /* faults noted while reading its files, or NULL */
} dg_survey_source;
dg_survey *dg_survey_of(const char *form, const char *root, const dg_survey_source *sources, int n);

/* Reads what dg_survey_json wrote, without the indices; "data-survey" if it is anything else. */
int dg_survey_read(dg_survey **out, const char *path, dg_diag *d) DG_MUST_USE;

/* Steps of dg_survey_open: image files; histograms and advice. */
int dg_survey_images(dg_survey *s, const dg_survey_options *o, dg_diag *d) DG_MUST_USE;
void dg_survey_shapes(dg_survey *s);

void dg_survey_text(dg_str *out, const dg_survey *s, bool colour);
void dg_survey_json(dg_str *out, const dg_survey *s);
/* One self-contained HTML page with embedded pictures. */
int dg_survey_html(dg_str *out, const dg_survey *s, dg_diag *d) DG_MUST_USE;
/* The body of that page without pictures, to embed in another page as an element of class "survey";
 * and its style. */
void dg_survey_html_part(dg_str *out, const dg_survey *s);
extern const char dg_survey_style[];

/* titles, keys and labels (no labels for DG_HIST_IMAGES) */
extern const dg_histogram dg_survey_histograms[DG_N_HISTS];

/* Objects of the largest class over those of the smallest non-empty one, over all splits; 0 with
 * fewer than two such classes. */
double dg_survey_imbalance(const dg_survey *s);

#endif
