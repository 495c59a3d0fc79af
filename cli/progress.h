/* progress.h: what people see while a run goes on: log lines, a bar on a terminal, plain lines elsewhere. */
#ifndef DG_CLI_PROGRESS_H
#define DG_CLI_PROGRESS_H

#include <detrgraph/run.h>

typedef struct dg_bar {
    bool   terminal, shown; /* a bar stands in the last line */
    int    columns;
    double last_s;          /* of the last plain line */
} dg_bar;

dg_bar dg_bar_begin(void);
void   dg_bar_clear(dg_bar *b); /* takes the bar away, before anything else is printed */

/* For dg_run_options.log and dg_run_train_options.report; ctx is the bar. */
void dg_bar_log(void *ctx, int level, const char *line);
void dg_bar_report(void *ctx, const dg_run_report *r);

/* For dg_run_options.log of verbs whose standard output programs read: warnings alone, to standard error. */
void dg_log_warning(void *ctx, int level, const char *line);

/* Prints errors and warnings; source lines are read from the files that they name. */
void dg_print_diag_files(const dg_diag *d);

#endif
