/* job.h: what is known of a running job, for `top` and `ctl status`: what it answers of its ranks, and the numbers of its
 * steps, which are read from its folder. */
#ifndef DG_CLI_JOB_H
#define DG_CLI_JOB_H

#include "base/arena.h"
#include "base/str.h"
#include "media/json.h"
#include "runtime/follow.h"

typedef struct dg_job dg_job;

dg_job *dg_job_open(const char *folder);
void    dg_job_close(dg_job **j);

/* One look at the ranks; an error where the job does not answer. What it returned before is gone then. */
int dg_job_ask(dg_job *j, dg_diag *d) DG_MUST_USE;
/* The numbers as they are now, also of a job that has ended; they hold until the next look. */
const dg_now *dg_job_look(dg_job *j);

const dg_json *dg_job_status(const dg_job *j); /* of the last answer */
int            dg_job_ranks(const dg_job *j);
const dg_json *dg_job_rank(const dg_job *j, int i);
bool           dg_job_waits(const dg_job *j, int i);  /* for other ranks, in the last look; */
double         dg_job_waited(const dg_job *j, int i); /* in this share of the looks; NaN: there was but one */
double         dg_job_memory(const dg_job *j, int i); /* resident bytes; NaN of a process of another machine */
/* The rank that waits clearly less than the others: they wait for it; -1: there is none, or too few looks to tell. */
int            dg_job_straggler(const dg_job *j);

/* All of it as one object in one line; docs/reports.md lists its names. */
void dg_job_json(dg_str *s, const dg_job *j, const dg_now *now);

#endif
