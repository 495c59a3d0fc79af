/* log.c: formats a line and passes it to the environment's sink. */
#include "base/log.h"

#include <time.h>

#include "base/diag.h"
#include "base/str.h"

void dg_log_line(const dg_env *env, dg_level level, const char *fmt, ...)
{
    dg_str line = { 0 }, shown = { 0 };
    va_list ap;

    if (!env || !env->log)
        return;
    va_start(ap, fmt);
    dg_str_vfmt(&line, fmt, ap);
    va_end(ap);
    dg_str_shown(&shown, line.s ? line.s : "");
    env->log(env->log_ctx, level, shown.s ? shown.s : "");
    dg_str_free(&shown);
    dg_str_free(&line);
}

void dg_log_warnings(const dg_env *env, dg_diag *d)
{
    for (int i = 0; i < dg_diag_n(d); i++) {
        const dg_err *e = dg_diag_at(d, i);
        const char *place = e->at.node ? e->at.node : e->at.file;

        if (e->severity == DG_WARNING)
            dg_log_line(env, DG_WARN, "%s%s%s [%s]", place ? place : "", place ? ": " : "", e->text,
                        e->id);
    }
    if (!dg_diag_errors(d))
        dg_diag_clear(d);
}

double dg_monotonic_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
