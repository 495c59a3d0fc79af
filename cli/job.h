/* job.h: the state of a running job, for `top` and `ctl status`: what it answers about its ranks,
 * and the numbers of its steps, read from its folder. */
#ifndef DG_CLI_JOB_H
#define DG_CLI_JOB_H

#include "base/arena.h"
#include "base/str.h"
#include "media/json.h"
#include "report/metrics_tail.h"

typedef struct dg_job dg_job;

dg_job *dg_job_open(const char *folder);
void dg_job_close(dg_job **j);

/* Asks the job about its ranks; an error if it does not answer. Invalidates the previous answer. */
int dg_job_ask(dg_job *j, dg_diag *d) DG_MUST_USE;
/* The current numbers, also of a job that has ended; valid until the next look. */
const dg_now *dg_job_look(dg_job *j);

const dg_json *dg_job_status(const dg_job *j); /* from the latest answer */
int dg_job_ranks(const dg_job *j);
const dg_json *dg_job_rank(const dg_job *j, int i);
bool dg_job_waits(const dg_job *j, int i); /* waits for other ranks, in the latest look */
/* share of the looks in which it waited; NaN: only one look so far */
double dg_job_waited(const dg_job *j, int i);
/* resident bytes; NaN for processes of other machines */
double dg_job_memory(const dg_job *j, int i);
/* The rank that waits clearly less than the others, which therefore wait for it; -1: none, or too
 * few looks. */
int dg_job_straggler(const dg_job *j);

/* Appends everything as one JSON object on one line; docs/reports.md lists its names. */
void dg_job_json(dg_str *s, const dg_job *j, const dg_now *now);

#endif
