/* pool.h: the one parallel primitive. OpenMP in the normal build, so that own loops and oneDNN
 * share one set of threads; plain threads where OpenMP cannot be used (ThreadSanitizer). No
 * other file has an omp pragma. */
#ifndef DG_BASE_POOL_H
#define DG_BASE_POOL_H

#include <detrgraph/core.h>

/* body(ctx, begin, end, thread): indices begin..end-1. */
typedef void dg_range_fn(void *ctx, int64_t begin, int64_t end, int thread);

/* Splits 0..n-1 into at most `threads` contiguous ranges, sizes differing by at most one, and
 * runs them; returns when all are done. threads <= 1 or n <= 1 runs in the caller. Never nests:
 * called from inside a body it runs serially. Which range an index falls into depends on n and
 * threads only. */
void dg_parallel_for(int threads, int64_t n, dg_range_fn *body, void *ctx);

/* How many threads a library on the same runtime (oneDNN) gets when the calling thread enters
 * it; returns the number before. Plain threads have no such number: returns `threads`. */
int dg_pool_team(int threads);

int dg_threads_available(void); /* cores this process may run on */

/* Runs an empty region of `threads` threads and counts them: fewer means that a limit
 * (OMP_THREAD_LIMIT, OMP_DYNAMIC, cgroup) would make a primitive built for n threads wait for
 * ever. */
int dg_pool_check(int threads, dg_diag *d) DG_MUST_USE;

#endif
