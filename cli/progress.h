/* progress.h: what people see during a run: log lines, and a progress bar on terminals or plain
 * lines elsewhere. */
#ifndef DG_CLI_PROGRESS_H
#define DG_CLI_PROGRESS_H

#include <detrgraph/run.h>

typedef struct dg_bar {
    bool terminal, shown; /* shown: the bar is on the last line */
    int columns;
    double last_s; /* time of the last plain line */
    bool quiet;    /* only warnings */
    bool verbose;  /* a line per step, and debugging lines; no bar */
    bool scored;   /* there was an evaluation, with this AP */
    double ap;
} dg_bar;

dg_bar dg_bar_begin(void);
void dg_bar_clear(dg_bar *b); /* removes the bar before other output */

/* Callbacks for dg_run_options.log and dg_run_train_options.report; ctx is the bar. */
void dg_bar_log(void *ctx, int level, const char *line);
void dg_bar_report(void *ctx, const dg_run_report *r);

/* For dg_run_options.log of verbs with machine-readable output: only warnings, to standard
 * error. */
void dg_log_warning(void *ctx, int level, const char *line);

/* Prints errors and warnings, with source lines read from the files that they name. */
void dg_print_diag_files(const dg_diag *d);

#endif
