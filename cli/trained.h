/* trained.h: a trained model as the verbs' words and options name it. */
#ifndef DG_CLI_TRAINED_H
#define DG_CLI_TRAINED_H

#include <detrgraph/detect.h>

#include "cli/cli.h"

typedef struct dg_trained_words {
    const char *place, *weights; /* a run or pipeline; --weights, or NULL: maybe published ones */
    const dg_words *sets;
    const char *which, *precision, *device; /* as the options were given, or NULL */
    int64_t threads;
} dg_trained_words;

/* False if neither weights nor a run's folder are given, or what is given is not there, after
 * reporting that for the verb. */
bool dg_trained_given(const char *verb, const char *place, const char *weights);

/* The same for a verb whose only word is place, "" if there is none: published weights then stand
 * alone. usage: of the verb. */
bool dg_trained_alone(const char *verb, const char *place, const char *weights, const char *usage);

/* Reads --threshold. False if it is none from 0 to 1, after reporting that. Without the option *out
 * is negative: the detector's is meant. */
bool dg_trained_least(double *out, const char *verb, const char *asked);

/* Opens the detector, and completes the threshold. */
int dg_trained_detector(dg_detector **out, const dg_trained_words *w, double *threshold, dg_diag *d)
    DG_MUST_USE;

#endif
