/* pool.h: the only parallel primitive. Uses OpenMP's threads, which oneDNN shares; plain threads
 * under ThreadSanitizer. No other file may use OpenMP. */
#ifndef DG_BASE_POOL_H
#define DG_BASE_POOL_H

#include <detrgraph/core.h>

/* Handles indices begin..end-1 on thread number `thread`. */
typedef void dg_range_fn(void *ctx, int64_t begin, int64_t end, int thread);

/* Splits 0..n-1 into at most `threads` contiguous ranges whose sizes differ by at most one, runs
 * body on each and returns when all are done. Range k is a function of n and threads alone. Runs in
 * the caller when threads <= 1, n <= 1, or inside another body (no nesting). */
void dg_parallel_for(int threads, int64_t n, dg_range_fn *body, void *ctx);

/* Sets the team size that a library on the same runtime (oneDNN) uses from the calling thread;
 * returns the previous one. With plain threads it does nothing and returns `threads`. */
int dg_pool_team(int threads);

int dg_threads_available(void); /* cores this process may use: affinity mask and container quota */

enum { DG_THREADS_MOST = 1024 }; /* OpenMP's runtime needs room on the stack for each */

/* Fails for more than that, and when the runtime starts fewer than `threads` threads
 * (OMP_THREAD_LIMIT, OMP_DYNAMIC, cgroup): a primitive built for `threads` would deadlock. */
int dg_pool_check(int threads, dg_diag *d) DG_MUST_USE;

#endif
