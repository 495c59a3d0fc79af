/* calls.c: functions of the host on a lane, and the words that observers watch. */
#include <stdlib.h>
#include <unistd.h>

#include "kernels/cuda/host/internal.h"

static void free_job(dg_cuda_job *j)
{
    *j->at = j->next;
    if (j->next)
        j->next->at = j->at;
    free(j);
}

void dg_cuda_work_failed(dg_cuda *c, int status, int mark)
{
    pthread_mutex_lock(&c->jobs_lock);
    if (c->job_status == 0) {
        c->job_status = status;
        c->job_mark = mark;
    }
    pthread_mutex_unlock(&c->jobs_lock);
}

/* On a thread of the runtime's. */
static void run_job(void *ctx)
{
    dg_cuda_job *j = ctx;
    dg_cuda *c = j->owner;
    int rc = j->fn(j->ctx);

    if (rc < 0)
        dg_cuda_work_failed(c, rc, j->mark);
    pthread_mutex_lock(&c->jobs_lock);
    if (!j->recorded)
        free_job(j);
    pthread_mutex_unlock(&c->jobs_lock);
}

static int put_job(dg_cuda *c, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark)
{
    dg_cuda_job *j = calloc(1, sizeof *j);
    int rc;

    if (!j)
        return -DG_EMEMORY;
    *j = (dg_cuda_job){ .owner = c,
                        .fn = fn,
                        .ctx = ctx,
                        .mark = mark,
                        .recorded = c->recording != NULL,
                        .recording = c->recording ? c->recording->number : 0 };
    pthread_mutex_lock(&c->jobs_lock);
    j->next = c->jobs;
    j->at = &c->jobs;
    if (c->jobs)
        c->jobs->at = &j->next;
    c->jobs = j;
    pthread_mutex_unlock(&c->jobs_lock);
    rc = c->r->call(c->r, c->lanes[lane].stream, run_job, j);
    if (rc) { /* it will not run */
        pthread_mutex_lock(&c->jobs_lock);
        free_job(j);
        pthread_mutex_unlock(&c->jobs_lock);
    }
    return dg_cuda_check(c, rc, mark, "a call of the host");
}

int dg_cuda_call_host(dg_backend *self, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark)
{
    dg_cuda *c = dg_cuda_lock(self);

    if (!dg_cuda_may_put(c, lane))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    return dg_cuda_unlock(c, put_job(c, lane, fn, ctx, mark));
}

/* Where kernels see the word, whose page gets pinned the first time. */
static const dg_cuda_range *pin_word(dg_cuda *c, uint32_t *word)
{
    const dg_cuda_range *known = dg_cuda_ranges_at(&c->observed, word, sizeof *word);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    dg_cuda_range one = { .p = (char *)word - (uintptr_t)word % page, .bytes = page };
    void *device = NULL;

    if (known || c->recording)
        return known;
    one.refused = c->r->pin(c->r, one.p, page, &device) != 0;
    one.device = device;
    if (!dg_cuda_ranges_add(&c->observed, one)) {
        if (!one.refused)
            c->r->unpin(c->r, one.p);
        return NULL;
    }
    return &c->observed.items[c->observed.n - 1];
}

typedef struct note {
    uint32_t *word, value;
} note;

static int write_word(void *ctx)
{
    note n = *(note *)ctx;

    __atomic_store_n(n.word, n.value, __ATOMIC_RELEASE);
    free(ctx);
    return 0;
}

/* A page that cannot be pinned, such as one that is read only elsewhere, is written by a call. */
static int sign_by_call(dg_cuda *c, dg_lane lane, uint32_t *word, uint32_t value)
{
    note *n = c->recording ? NULL : malloc(sizeof *n);
    int rc;

    if (!n)
        return c->recording ? -DG_EUNSUPPORTED : -DG_EMEMORY;
    *n = (note){ word, value };
    rc = put_job(c, lane, write_word, n, DG_NO_MARK);
    if (rc < 0)
        free(n);
    return rc;
}

int dg_cuda_sign_word(dg_backend *self, dg_lane lane, uint32_t *word, uint32_t value)
{
    dg_cuda *c = dg_cuda_lock(self);
    const dg_cuda_range *page;

    if (!dg_cuda_may_put(c, lane))
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    page = pin_word(c, word);
    if (!page && c->recording)
        return dg_cuda_unlock(c, -DG_EUNSUPPORTED);
    if (!page || page->refused)
        return dg_cuda_unlock(c, sign_by_call(c, lane, word, value));
    return dg_cuda_unlock(c, c->module->sign(&c->lanes[lane].queue,
                                             (uint32_t *)(page->device + ((char *)word - page->p)),
                                             value));
}
