/* survey.h: what stands in a data set and what is wrong with it: `detrgraph data check`. Nothing
 * stops it but a data set that cannot be found. */
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
    const dg_split *split;
    dg_coco        *index;  /* NULL: it could not be read */
    const char     *name;
    int64_t         n_truncated;
    int64_t        *per_class; /* objects to train on, by the survey's classes */
} dg_survey_split;

enum { DG_HIST_SIDE, DG_HIST_ASPECT, DG_HIST_OBJECTS, DG_HIST_IMAGES, DG_N_HISTS };

typedef struct dg_survey {
    dg_arena        *arena;
    dg_layout        layout;
    dg_faults        faults;
    int              n_splits, n_classes;
    dg_survey_split *splits;
    const char     **classes;   /* of all splits, in the order of the first that has them */
    int64_t         *per_class; /* over all splits */
    int64_t          n_images, n_objects, n_crowd, n_truncated, n_empty;
    int64_t          n_read, n_bytes; /* images that were looked at, and how large their files are */
    bool             decoded;
    int              most_objects;
    const char      *most_image; /* that has them */
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

/* Second part of opening: looks at files. */
int dg_survey_images(dg_survey *s, const dg_survey_options *o, dg_diag *d) DG_MUST_USE;

void dg_survey_text(dg_str *out, const dg_survey *s, bool colour);
void dg_survey_json(dg_str *out, const dg_survey *s);
/* One page that needs nothing else: pictures are inside it. */
int dg_survey_html(dg_str *out, const dg_survey *s, dg_diag *d) DG_MUST_USE;

/* Of the largest class over the smallest that has any, over all splits; 0 where there are less than two. */
double dg_survey_imbalance(const dg_survey *s);

#endif
