/* log.h: the sink for lines that people read while a run goes on. The caller chooses the sink;
 * nothing below cli/ writes to standard output or standard error. */
#ifndef DG_BASE_LOG_H
#define DG_BASE_LOG_H

#include <detrgraph/core.h>

typedef enum dg_level { DG_DEBUG, DG_INFO, DG_WARN } dg_level;
typedef void dg_log_fn(void *ctx, dg_level level, const char *line);

/* What main passes down to every room: the log sink, the clock and the number of threads. Passed by
 * pointer; there are no globals. */
typedef struct dg_env {
    dg_log_fn *log;
    void *log_ctx;
    double (*now_s)(void); /* monotonic seconds */
    int threads;           /* for kernels; >= 1 */
} dg_env;

void dg_log_line(const dg_env *env, dg_level level, const char *fmt, ...) DG_PRINTF(3, 4);
/* Logs the warnings in d, and forgets them unless there are errors too. */
void dg_log_warnings(const dg_env *env, dg_diag *d);
double dg_monotonic_s(void);

#endif
