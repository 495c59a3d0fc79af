/* survey.h: what stands in a data set and what is wrong with it: `detrgraph data check`, which nothing stops but a data set
 * that cannot be found, and the data of a run, from what the run has read of them. */
#ifndef DG_MEDIA_SURVEY_H
#define DG_MEDIA_SURVEY_H

#include "base/str.h"
#include "media/layout.h"

typedef struct dg_survey_options {
    const char *splits;    /* parted by commas; NULL: those that belong together */
    bool        no_images; /* look at annotations alone */
    bool        decode;    /* read images whole, else their headers and ends */
    int         threads;
    void      (*progress)(void *ctx, const char *what, int64_t done, int64_t all); /* or NULL */
    void       *ctx;
} dg_survey_options;

enum { DG_HISTOGRAM_BINS = 16 };
typedef struct dg_histogram {
    const char *title, *key;
    int         n;
    const char *label[DG_HISTOGRAM_BINS];
    int64_t     count[DG_HISTOGRAM_BINS];
} dg_histogram;

typedef struct dg_survey_split {
    const char     *name, *path; /* path: of its annotations, or its folder */
    bool            readable;
    int64_t         n_images, n_objects, n_crowd, n_truncated, n_empty, most_objects;
    int64_t        *per_class; /* objects to train on, by the survey's classes */
    const dg_split *split;
    dg_coco        *index; /* NULL: it could not be read, or the survey itself was read from a file */
} dg_survey_split;

enum { DG_HIST_SIDE, DG_HIST_ASPECT, DG_HIST_OBJECTS, DG_HIST_IMAGES, DG_N_HISTS };

typedef struct dg_survey {
    dg_arena        *arena;
    dg_layout        layout; /* of dg_survey_open */
    const char      *form, *root; /* "coco"; of a run the class of its loader */
    dg_faults        faults;
    int              n_splits, n_classes;
    dg_survey_split *splits;
    const char     **classes;   /* of all splits, in the order of the first that has them */
    int64_t         *per_class; /* over all splits */
    int64_t          n_images, n_objects, n_crowd, n_truncated, n_empty;
    int64_t          n_read, n_bytes; /* images that were looked at, and how large their files are */
    bool             decoded;
    int64_t          most_objects;
    const char      *most_image; /* that has them; NULL: there are none */
    dg_histogram     hist[DG_N_HISTS];
    struct {
        int    size, max_objects;
        double median_side;  /* of images: the longer one */
        double small_side;   /* a tenth of the boxes have sides (root of the area) below it, in pixels of their images */
        double small_scaled; /* and that at size */
        bool   one_shape;    /* all images have nearly one aspect */
        double aspect;       /* its width over height, at the median */
    } advice;
} dg_survey;

int  dg_survey_open(dg_survey **out, const char *path, const dg_survey_options *o, dg_diag *d) DG_MUST_USE;
void dg_survey_close(dg_survey **s);

/* Of indices that are in memory, from their annotations alone: no file is looked at. */
typedef struct dg_survey_source {
    const char      *name;
    dg_coco         *index; /* the survey takes it */
    const dg_faults *found; /* what was noted of its files before, or NULL */
} dg_survey_source;
dg_survey *dg_survey_of(const char *form, const char *root, const dg_survey_source *sources, int n);

/* What dg_survey_json wrote, without the indices; "data-survey" where it is something else. */
int dg_survey_read(dg_survey **out, const char *path, dg_diag *d) DG_MUST_USE;

/* Parts of opening: looks at files; histograms and advice. */
int  dg_survey_images(dg_survey *s, const dg_survey_options *o, dg_diag *d) DG_MUST_USE;
void dg_survey_shapes(dg_survey *s);

void dg_survey_text(dg_str *out, const dg_survey *s, bool colour);
void dg_survey_json(dg_str *out, const dg_survey *s);
/* One page that needs nothing else: pictures are inside it. */
int dg_survey_html(dg_str *out, const dg_survey *s, dg_diag *d) DG_MUST_USE;
/* What stands on that page besides pictures, for another page, in an element of class "survey"; its style. */
void dg_survey_html_part(dg_str *out, const dg_survey *s);
extern const char dg_survey_style[];

extern const dg_histogram dg_survey_histograms[DG_N_HISTS]; /* titles and keys; labels but for sizes of images */

/* Of the largest class over the smallest that has any, over all splits; 0 where there are less than two. */
double dg_survey_imbalance(const dg_survey *s);

#endif
