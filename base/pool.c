/* pool.c: splits 0..n-1 into ranges and runs them on OpenMP's team, so that our loops and oneDNN
 * share threads. Built with DG_NO_OPENMP it creates threads per call instead: ThreadSanitizer does
 * not understand libgomp. */
#include "base/pool.h"

#include <math.h>
#include <sched.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/str.h"

#ifdef DG_NO_OPENMP
#include <pthread.h>
#else
/* What gcc compiles `#pragma omp parallel` to. Calling it directly selects libgomp, which oneDNN
 * uses, with every compiler; clang's pragma would load a second OpenMP runtime. */
void GOMP_parallel(void (*region)(void *), void *ctx, unsigned threads, unsigned flags);
int omp_in_parallel(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
void omp_set_num_threads(int threads);
#endif

typedef struct job {
    dg_range_fn *body;
    void *ctx;
    int64_t n;
    int threads;
} job;

static void run_range(const job *j, int k)
{
    /* ranges 0..more-1 get one index more */
    int64_t each = j->n / j->threads, more = j->n % j->threads;
    int64_t begin = each * k + (k < more ? k : more);

    j->body(j->ctx, begin, begin + each + (k < more), k);
}

#ifdef DG_NO_OPENMP

typedef struct worker {
    const job *job;
    int k;
    bool started;
    pthread_t thread;
} worker;

static _Thread_local bool inside;

static bool in_parallel(void)
{
    return inside;
}

static void *thread_work(void *w)
{
    inside = true;
    run_range(((const worker *)w)->job, ((const worker *)w)->k);
    return NULL;
}

static void run_all(job *j)
{
    enum { AT_ONCE = 64 };
    worker w[AT_ONCE];

    for (int base = 0; base < j->threads; base += AT_ONCE) {
        int n = j->threads - base < AT_ONCE ? j->threads - base : AT_ONCE;

        for (int k = 1; k < n; k++) {
            w[k] = (worker){ .job = j, .k = base + k };
            w[k].started = pthread_create(&w[k].thread, NULL, thread_work, &w[k]) == 0;
        }
        inside = true;
        run_range(j, base);
        for (int k = 1; k < n; k++)
            if (!w[k].started)
                run_range(j, base + k);
        inside = false;
        for (int k = 1; k < n; k++)
            if (w[k].started)
                pthread_join(w[k].thread, NULL);
    }
}

#else

static bool in_parallel(void)
{
    return omp_in_parallel();
}

static void thread_work(void *ctx)
{
    const job *j = ctx;

    for (int k = omp_get_thread_num(); k < j->threads; k += omp_get_num_threads())
        run_range(j, k);
}

static void run_all(job *j)
{
    GOMP_parallel(thread_work, j, (unsigned)j->threads, 0);
}

static void count_team(void *got)
{
    if (omp_get_thread_num() == 0)
        *(int *)got = omp_get_num_threads();
}

#endif

void dg_parallel_for(int threads, int64_t n, dg_range_fn *body, void *ctx)
{
    const int most = threads < DG_THREADS_MOST ? threads : DG_THREADS_MOST;
    job j = { body, ctx, n, n < most ? (int)n : most };

    if (n <= 0)
        return;
    if (j.threads <= 1) {
        body(ctx, 0, n, 0);
    } else if (in_parallel()) {
        for (int k = 0; k < j.threads; k++)
            run_range(&j, k);
    } else {
        run_all(&j);
    }
}

int dg_pool_team(int threads)
{
#ifdef DG_NO_OPENMP
    return threads;
#else
    int before = omp_get_max_threads();

    omp_set_num_threads(threads > 0 ? threads : 1);
    return before;
#endif
}

int dg_threads_available(void)
{
    cpu_set_t set;
    int quota = (int)ceil(dg_cgroup_cores("")), n;

    if (sched_getaffinity(0, sizeof set, &set) == 0)
        n = CPU_COUNT(&set);
    else
        /* the affinity mask does not fit cpu_set_t: more cores than CPU_SETSIZE */
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (quota && quota < n)
        n = quota;
    return n > 0 ? n : 1;
}

int dg_pool_check(int threads, dg_diag *d)
{
    int got = threads;

    if (threads > DG_THREADS_MOST) {
        dg_fail(d, DG_EINPUT, DG_NOWHERE, "threads-many",
                "%d threads are wanted, at most %d are possible", threads, (int)DG_THREADS_MOST);
        dg_help(d, "this process may use %d core%s: more threads than that make it slower",
                dg_threads_available(), dg_plural(dg_threads_available(), "s"));
        return -DG_EINPUT;
    }
#ifndef DG_NO_OPENMP
    if (threads > 1)
        GOMP_parallel(count_team, &got, (unsigned)threads, 0);
#endif
    if (got >= threads)
        return 0;
    dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "threads-missing",
            "%d threads are wanted, but OpenMP gives %d", threads, got);
    dg_help(d, "ask for %d thread%s, or unset OMP_THREAD_LIMIT and OMP_DYNAMIC", got,
            dg_plural(got, "s"));
    return -DG_EUNSUPPORTED;
}
