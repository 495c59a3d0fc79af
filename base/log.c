/* log.c: formats a line and hands it to the environment's sink. */
#include "base/log.h"

#include <time.h>

#include "base/str.h"

void dg_log_line(const dg_env *env, dg_level level, const char *fmt, ...)
{
    dg_str  line = { 0 };
    va_list ap;

    if (!env || !env->log)
        return;
    va_start(ap, fmt);
    dg_str_vfmt(&line, fmt, ap);
    va_end(ap);
    env->log(env->log_ctx, level, line.s);
    dg_str_free(&line);
}

double dg_monotonic_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
