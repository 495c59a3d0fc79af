/* init_plan.h: the values that the text of init's pipeline is made of, and what the families of
 * models write of it. */
#ifndef DG_CLI_INIT_PLAN_H
#define DG_CLI_INIT_PLAN_H

#include "base/str.h"
#include "cli/models.h"
#include "media/survey.h"

typedef struct dg_init_family dg_init_family;

typedef struct dg_init_plan {
    const dg_model *model;
    const dg_init_family *family;
    const dg_survey *survey;
    const dg_split *train, *val;            /* val NULL: no validation split */
    const char *root, *pretrained, *folder; /* folder: of its run */
    bool whole_model;                       /* pretrained has a whole model, not only a backbone */
    bool new_classes;                       /* and another number of classes than the data */
    int64_t n_train;
    int n_held; /* images held out */
    int size, queries, epochs, every;
    int batch;      /* images of an update on each rank */
    int at_once;    /* of them, so many are in memory at a time */
    int memory;     /* it has room for no more; 0: for any number */
    bool is_given;  /* by --batch */
    bool automatic; /* run chooses at_once */
    char let[24];   /* the value of <let batch>: at_once, or "auto:16" */
    int64_t steps;
    double minutes;  /* by --minutes; 0: not given */
    int64_t asked;   /* steps by --steps, or what --minutes has room for; 0: by the data */
    int smaller;     /* size that --minutes has room for; 0: the data's */
    double hold_out; /* share of train held out in place of a validation split */
} dg_init_plan;

/* What is a family's own. Strings are attributes, each behind a blank. */
struct dg_init_family {
    int most_images;                 /* of an update */
    bool any_size;                   /* a multiple of 32, to which images are scaled */
    int most_at_once;                /* an update of more adds up batches; 0: it is one batch */
    void (*choose)(dg_init_plan *p); /* changes the data's size and queries; NULL: it does not */
    void (*lets)(dg_str *out, const dg_init_plan *p);
    void (*network)(dg_str *out, const dg_init_plan *p);
    /* between <loader> and the end of <train> */
    void (*training)(dg_str *out, const dg_init_plan *p);
    const char *train;                   /* of <train> */
    const char *batch, *images, *detect; /* of <batch>, <use> and <detect> of the evaluation */
    const char *random_lr, *pretrained_lr;
    const char *short_lr; /* of a whole pretrained model in a short run */
};

extern const dg_init_family dg_init_rtdetr, dg_init_rfdetr, dg_init_codino;

/* ---- what families write alike --------------------------------------------------------------- */

/* Gradients and their update, up to the end of <train>. backward: attributes; groups: of the
 * optimizer; decay, warmup: of the average. */
typedef struct dg_init_update {
    const char *backward, *total, *terms, *groups, *decay;
    int64_t warmup;
} dg_init_update;
void dg_init_write_update(dg_str *out, const dg_init_update *u);

/* ` pretrained="$pretrained"` of the backbone, and of what else a whole model has; or "". */
const char *dg_init_backbone_weights(const dg_init_plan *p);
const char *dg_init_other_weights(const dg_init_plan *p);

int64_t dg_init_warmup(const dg_init_plan *p); /* steps */
bool dg_init_is_short(const dg_init_plan *p);  /* too few steps for small ones to lead far */

/* The text of the pipeline. */
void dg_init_write(dg_str *out, const dg_init_plan *p);

#endif
