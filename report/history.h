/* history.h: reads a run's folder: every number of metrics.jsonl as a series over steps, and the
 * other files as they are. Works for running and failed runs: what is missing is NULL, a truncated
 * last line is ignored, and other damage is a warning, "report-part". */
#ifndef DG_REPORT_HISTORY_H
#define DG_REPORT_HISTORY_H

#include "media/chart.h"
#include "media/json.h"

typedef struct dg_series {
    const char *name;
    DG_VEC(dg_point) points; /* x: step */
} dg_series;

typedef struct dg_track { /* of the training (scope NULL), or of one evaluation */
    const char *scope;
    DG_VEC(dg_series) series; /* in order of appearance */
    const dg_json *curves;    /* of an evaluation: OUT/SCOPE/curves.json */
    const dg_json *review;    /* OUT/SCOPE/review.json */
    const char *pictures;     /* path of its latest pictures, in one; NULL: none */
    const dg_json *each;      /* OUT/SCOPE/pictures.json, of the same ones alone */
} dg_track;

typedef struct dg_history {
    dg_arena *arena;
    const char *folder, *name; /* as given; its last component */
    dg_track train;
    DG_VEC(dg_track) evaluations;
    const dg_json *run;     /* run.json */
    const dg_json *verdict; /* dg_verdict_of */
    bool alive;             /* it runs, judging by the lock of its log and its control file */
    const char *pipeline;   /* contents of pipeline.xml */
    double best;            /* best AP */
    int64_t best_step;      /* -1: no evaluation has AP */
    const char *best_scope;
} dg_history;

int dg_history_open(dg_history **h, const char *folder, dg_diag *d) DG_MUST_USE;
void dg_history_close(dg_history **h);

/* The launcher's error; NULL: none. A run that begins or goes on removes the one before. */
const dg_json *dg_verdict_of(dg_arena *a, const char *folder);

const dg_series *dg_track_find(const dg_track *t, const char *name); /* NULL if absent */
double dg_series_last(const dg_series *s);                           /* NaN if empty or s is NULL */
/* Values of run.json by key, or by path: "end.why"; NULL and NaN if absent. */
const char *dg_history_text(const dg_history *h, const char *key);
double dg_history_number(const dg_history *h, const char *key);
double dg_history_step(const dg_history *h); /* latest finished step; NaN: unknown */
/* "done", "stopped", "failed", "running", "unknown" */
const char *dg_history_state(const dg_history *h);

#endif
