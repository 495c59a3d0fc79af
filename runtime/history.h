/* history.h: a run's folder, read back: every number of metrics.jsonl as a series over steps, and the other files as they
 * are. Also of a run that goes on or that failed: what is not there is NULL, a line that was cut short is left out. */
#ifndef DG_RUNTIME_HISTORY_H
#define DG_RUNTIME_HISTORY_H

#include "media/chart.h"
#include "media/json.h"

typedef struct dg_series {
    const char *name;
    DG_VEC(dg_point) points; /* x: step */
} dg_series;

typedef struct dg_track { /* of the training (scope NULL), or of one evaluation */
    const char *scope;
    DG_VEC(dg_series) series; /* in the order of the lines */
    const dg_json *curves;    /* of an evaluation: OUT/SCOPE/curves.json */
    const char    *pictures;  /* path of its last pictures */
} dg_track;

typedef struct dg_history {
    dg_arena   *arena;
    const char *folder, *name;  /* as given; its last part */
    dg_track    train;
    DG_VEC(dg_track) evaluations;
    const dg_json *run;         /* run.json */
    const dg_json *verdict;     /* dg_verdict_of */
    bool        alive;          /* it has a control file: it goes on, or was killed with its launcher */
    const char *pipeline;       /* text of pipeline.xml */
    double      best;           /* AP, */
    int64_t     best_step;      /* -1: no evaluation has AP */
    const char *best_scope;
} dg_history;

int  dg_history_open(dg_history **h, const char *folder, dg_diag *d) DG_MUST_USE;
void dg_history_close(dg_history **h);

/* The launcher's error of the part of a run that its run.json tells of; NULL: there is none, or it is of a part before. */
const dg_json *dg_verdict_of(dg_arena *a, const char *folder, const dg_json *run);

const dg_series *dg_track_find(const dg_track *t, const char *name); /* NULL: there is none */
double dg_series_last(const dg_series *s);                           /* NaN where there is none, or s is NULL */
/* Of run.json, by key, or by "end.why"; NULL and NaN where it is not there. */
const char *dg_history_text(const dg_history *h, const char *key);
double      dg_history_number(const dg_history *h, const char *key);
double      dg_history_step(const dg_history *h);  /* that is done; NaN: not known */
const char *dg_history_state(const dg_history *h); /* "done", "stopped", "failed", "running", "unknown" */

#endif
