/* standin_queue.c: streams, and the thread that empties them: what somebody waits for, in the order
 * of each stream; between streams it draws. What nobody waits for stays for a while. */
#include "tests/cuda/standin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/cuda/products.h"
#include "tests/cuda/runner.h"

enum { PATIENCE_S = 1 };

/* Kernels of one process run one at a time. */
static pthread_mutex_t runner_lock = PTHREAD_MUTEX_INITIALIZER;

void standin_append(standin *s, dg_cuda_stream *on, const standin_item *it)
{
    standin_item *copy = malloc(sizeof *copy);

    if (!copy)
        abort();
    *copy = *it;
    copy->next = NULL;
    if (it->params) {
        copy->params = malloc(it->bytes);
        if (!copy->params)
            abort();
        memcpy(copy->params, it->params, it->bytes);
    }
    if (it->work == STANDIN_LAUNCH)
        copy->fails = ++s->n_launches == s->words.fault;
    s->n_products += it->work == STANDIN_PRODUCT;
    s->n_convolutions += it->work == STANDIN_CONVOLUTION;
    s->n_copies += it->work == STANDIN_COPY;
    if (on->last)
        on->last->next = copy;
    else
        on->first = copy;
    on->last = copy;
    on->queued++;
    pthread_cond_signal(&s->work);
}

int standin_put(standin *s, dg_cuda_stream *on, const standin_item *it)
{
    standin_item *copy;

    if (s->error || !on->captured) {
        if (!s->error) {
            s->n_direct++;
            standin_append(s, on, it);
        }
        return s->error;
    }
    copy = malloc(sizeof *copy);
    if (!copy)
        return DG_CUDA_NO_MEMORY;
    *copy = *it;
    copy->next = NULL;
    if (it->params) {
        copy->params = malloc(it->bytes);
        if (!copy->params)
            abort();
        memcpy(copy->params, it->params, it->bytes);
    }
    if (s->graph->last)
        s->graph->last->next = copy;
    else
        s->graph->first = copy;
    s->graph->last = copy;
    s->graph->n++;
    on->seen[on->index]++;
    return 0;
}

/* ---- waiting --------------------------------------------------------------------------------- */

int standin_await(standin *s, dg_cuda_stream *on, uint64_t done)
{
    s->n_waits++;
    if (on->goal < done)
        on->goal = done;
    pthread_cond_signal(&s->work);
    while (on->done < done)
        pthread_cond_wait(&s->passed, &s->lock);
    return s->error;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void perform(const standin *s, const standin_item *it)
{
    if (s->words.idle && it->work != STANDIN_COPY && it->work != STANDIN_CALL &&
        it->work != STANDIN_PEERS)
        return;
    switch (it->work) {
    case STANDIN_COPY:
        memcpy(it->to, it->from, it->bytes);
        break;
    case STANDIN_CLEAR:
        memset(it->to, 0, it->bytes);
        break;
    case STANDIN_LAUNCH:
        pthread_mutex_lock(&runner_lock);
        runner_run(it->kernel, it->grid, it->params, it->guard, it->here);
        pthread_mutex_unlock(&runner_lock);
        break;
    case STANDIN_PRODUCT:
        products_run(&it->product, &it->multiplied);
        break;
    case STANDIN_CONVOLUTION:
        if (!convolutions_run(&it->convolution, &it->at))
            abort();
        break;
    case STANDIN_CALL:
    case STANDIN_PEERS:
        it->fn(it->ctx);
        break;
    default:
        break;
    }
}

static void run_first(standin *s, dg_cuda_stream *on)
{
    standin_item *it = on->first;

    if (it->work == STANDIN_LAUNCH && it->fails && !s->error) {
        if (it->here.word)
            __atomic_store_n(it->here.word, (int32_t)it->here.mark, __ATOMIC_RELAXED);
        s->error = DG_CUDA_ILLEGAL_ADDRESS;
    }
    if (!s->error || it->work == STANDIN_PEERS) { /* else it is dropped */
        if (it->work == STANDIN_CALL)
            standin_memory_close(s);
        else
            standin_memory_open(s);
        pthread_mutex_unlock(&s->lock);
        perform(s, it);
        pthread_mutex_lock(&s->lock);
    }
    if (it->work == STANDIN_STAMP) {
        it->stamp->passed_s = now_s();
        if (!--it->stamp->n_stamps && it->stamp->closed)
            free(it->stamp);
    }
    on->first = it->next;
    if (!it->next)
        on->last = NULL;
    on->done++;
    free(it->params);
    free(it);
    pthread_cond_broadcast(&s->passed);
}

/* The streams that somebody waits for, and those that they wait for. */
static dg_cuda_stream *choose(standin *s)
{
    dg_cuda_stream *ready[STANDIN_STREAMS];
    int n;

    for (bool more = true; more;) {
        more = false;
        n = 0;
        for (int i = 0; i < STANDIN_STREAMS; i++) {
            dg_cuda_stream *on = s->streams[i];
            const standin_item *it = on ? on->first : NULL;

            if (!it || on->done >= on->goal)
                continue;
            if (it->work != STANDIN_ORDER || it->until->done >= it->seq) {
                ready[n++] = on;
            } else if (it->until->goal < it->seq) {
                it->until->goal = it->seq;
                more = true;
            }
        }
    }
    s->rng = s->rng * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX */
    return n ? ready[(s->rng >> 33) % (uint64_t)n] : NULL;
}

static bool pending(const standin *s)
{
    for (int i = 0; i < STANDIN_STREAMS; i++)
        if (s->streams[i] && s->streams[i]->first)
            return true;
    return false;
}

static void want_all(standin *s)
{
    for (int i = 0; i < STANDIN_STREAMS; i++)
        if (s->streams[i])
            s->streams[i]->goal = s->streams[i]->queued;
}

static void idle(standin *s)
{
    struct timespec until;

    standin_memory_close(s);
    if (!pending(s)) {
        pthread_cond_wait(&s->work, &s->lock);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_cond_timedwait(&s->work, &s->lock, &until))
        want_all(s);
}

void *standin_thread(void *ctx)
{
    standin *s = ctx;

    pthread_mutex_lock(&s->lock);
    while (!s->stopped || pending(s)) {
        dg_cuda_stream *on;

        if (s->stopped)
            want_all(s);
        on = choose(s);
        if (on)
            run_first(s, on);
        else
            idle(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}
