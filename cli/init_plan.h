/* init_plan.h: the values that the text of init's pipeline is made of, and the parts of RF-DETR's.
 */
#ifndef DG_CLI_INIT_PLAN_H
#define DG_CLI_INIT_PLAN_H

#include "base/str.h"
#include "cli/models.h"
#include "media/survey.h"

typedef struct dg_init_plan {
    const dg_model *model;
    const dg_survey *survey;
    const dg_split *train, *val;            /* val NULL: no validation split */
    const char *root, *pretrained, *folder; /* folder: of its run */
    bool whole_model;                       /* pretrained has a whole model, not only a backbone */
    int64_t n_train;
    int n_held; /* images held out */
    int size, queries, epochs, every;
    int batch; /* of an update on each rank */
    int64_t steps;
    double hold_out; /* share of train held out in place of a validation split */
} dg_init_plan;

/* Chooses size, queries, and batches that an update adds up. */
void dg_init_rfdetr_size(dg_init_plan *p);
int dg_init_rfdetr_accumulate(const dg_init_plan *p);
void dg_init_rfdetr_lets(dg_str *out, const dg_init_plan *p);
void dg_init_rfdetr_network(dg_str *out, const dg_init_plan *p);
/* What is between <loader> and the end of <train>. */
void dg_init_rfdetr_training(dg_str *out, const dg_init_plan *p);

#endif
