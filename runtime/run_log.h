/* run_log.h: where a run's log lines go: to the caller and, once the run has a folder, to run.log.
 * Rank 0 logs for all; other ranks log only warnings, once the ranks have started. */
#ifndef DG_RUNTIME_RUN_LOG_H
#define DG_RUNTIME_RUN_LOG_H

#include <stdio.h>

#include "base/log.h"
#include "comm/world.h"
#include "runtime/run.h"

struct dg_run_log {
    dg_env env; /* its log function writes here */
    const dg_world *world;
    void (*line)(void *ctx, int level, const char *line); /* the caller's, or NULL */
    void *ctx;
    FILE *file;    /* run.log; NULL: the run has no folder, or this is another rank */
    bool has_gaps; /* run.log could not be written at some time */
    bool started;  /* the first step follows: warnings are now this rank's own */
};

void dg_run_log_open(dg_run_log *l, const dg_run_options *o, const dg_world *world);
/* Writes last_words (or NULL) to run.log and closes it, if open. */
void dg_run_log_close(dg_run_log *l, const char *last_words);

/* Writes a line of --debug, of any rank and at once. ctx: the dg_run_log. */
void dg_run_log_debug(void *ctx, const char *line);

/* Logs the first lines: versions, CPU, threads, sizes, precision. */
void dg_run_log_start(const dg_run *run);

#endif
