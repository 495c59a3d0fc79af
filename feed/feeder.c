/* feeder.c: threads that make batches.
 *
 * A worker first takes an empty batch, then a number, so that the lowest number in progress always
 * has a batch to fill, and the ring never waits for a number without a worker. Epochs are planned
 * under the lock by the first thread that needs the plan. */
#include "feed/feeder.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/ring.h"
#include "feed/fetch.h"

typedef struct work { /* a batch and its memory */
    dg_feeder_batch pub;
    dg_fetching fetch; /* with the pixels of the sample being made */
    dg_scratch *kept;  /* tensors and names of the batch */
    int32_t *items;
    bool failed;
} work;

typedef struct task {
    int64_t number, epoch, index, n_in_epoch;
    dg_pick pick; /* items: this rank's, copied */
} task;

struct dg_feeder {
    dg_feeder_conf conf;
    int batch, n_works;
    work *works;
    work **idle;
    int n_idle;
    bool stopping;
    dg_arena *plan_arena;
    dg_schedule plan;
    int64_t left[DG_MAX_CHAIN]; /* items, or batches, remaining after each choice */
    /* of the next batch to claim: number in the run; its epoch; index in the plan */
    int64_t number, epoch, index;
    dg_ring *ring;
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    pthread_t *threads;
    int n_threads, n_numbered;
};

int dg_feeder_length(int64_t *n, const dg_planning *planning, int64_t epoch, int64_t *dropped,
                     dg_diag *d)
{
    dg_arena *arena = dg_arena_open();
    dg_schedule plan = { 0 };
    int rc = dg_epoch_plan_make(&plan, arena, planning, epoch, NULL, d);

    *n = plan.n_picks;
    if (dropped)
        *dropped = plan.dropped;
    dg_arena_close(&arena);
    return rc;
}

bool dg_feeder_votes(const dg_node *node)
{
    return node->on_fail == DG_FAIL_VOTE || node->scope->on_fail == DG_FAIL_VOTE;
}

/* With the lock held: plans s->epoch. */
static int plan_epoch(dg_feeder *s, dg_diag *d)
{
    dg_arena_close(&s->plan_arena);
    s->plan_arena = dg_arena_open();
    return dg_epoch_plan_make(&s->plan, s->plan_arena, &s->conf.plan, s->epoch, s->left, d);
}

static bool at_end(const dg_feeder *s)
{
    const int64_t period = s->conf.period;

    return s->conf.epochs && (period ? s->number / period : s->epoch) >= s->conf.epochs;
}

static task next_task(const dg_feeder *s)
{
    const int64_t n = s->number, period = s->conf.period;

    return period ? (task){ n, n / period, n % period, period, { 0 } }
                  : (task){ n, s->epoch, s->index, s->plan.n_picks, { 0 } };
}

/* Takes the next number and its pick; false at the end. */
static bool claim_pick(dg_feeder *s, work *w, task *t, int *rc)
{
    bool more = true;

    pthread_mutex_lock(&s->lock);
    *rc = 0;
    while (s->index >= s->plan.n_picks && more && !*rc) {
        s->index -= s->plan.n_picks;
        s->epoch++;
        more = !s->conf.one_plan && !at_end(s);
        *rc = more ? plan_epoch(s, w->pub.diag) : 0;
    }
    if (!more || at_end(s)) {
        dg_ring_end(s->ring, (uint64_t)(s->number - s->conf.number));
        more = false;
    } else {
        *t = next_task(s);
        s->number++;
        if (!*rc) {
            t->pick = s->plan.picks[s->index++];
            memcpy(w->items, t->pick.items, (size_t)s->batch * sizeof *w->items);
            t->pick.items = w->items;
            memcpy(w->pub.left, s->left, sizeof s->left);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return more;
}

static work *take_idle(dg_feeder *s)
{
    work *w;

    pthread_mutex_lock(&s->lock);
    while (!s->n_idle && !s->stopping)
        pthread_cond_wait(&s->given_back, &s->lock);
    w = s->stopping ? NULL : s->idle[--s->n_idle];
    pthread_mutex_unlock(&s->lock);
    return w;
}

static dg_clock clock_of(const dg_feeder *s, const task *t)
{
    int64_t k = s->conf.accumulate > 1 ? s->conf.accumulate : 1;

    if (s->conf.frozen_clock)
        return s->conf.now;
    return (dg_clock){
        .step = t->number / k,
        .epoch = t->epoch,
        .n_steps = s->conf.n_steps,
        .n_epochs = s->conf.n_epochs,
        .steps_per_epoch = t->n_in_epoch / k,
    };
}

static int fill_slot(dg_feeder *s, work *w, const task *t, int slot)
{
    const dg_chain *chain = s->conf.plan.chain;
    dg_feeder_batch *b = &w->pub;
    dg_sample *sm = &b->samples[slot];
    int item, rc;
    char *path;

    assert(t->pick.items);
    item = t->pick.items[slot];
    b->padding[slot] = item < 0;
    rc = dg_fetch_sample(&w->fetch, item < 0 ? ~item : item, b->first_sample + (uint64_t)slot,
                         (uint64_t)(b->number * b->n + slot), sm);
    if (rc < 0)
        return rc;
    w->fetch.at = chain->batch;
    rc = chain->batch->class->fill(chain->batch->conf, b->size, b->n, slot, sm, b->data, b->diag);
    if (rc < 0)
        return rc;
    path = dg_scratch_alloc(w->kept, strlen(sm->path) + 1);
    if (!path)
        return dg_fail(b->diag, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory for a batch of %d images", b->n);
    sm->path = memcpy(path, sm->path, strlen(sm->path) + 1);
    sm->image.rgb = NULL;
    sm->objects = NULL;
    sm->scratch = NULL;
    sm->further = NULL;
    return 0;
}

static bool wanted(const dg_feeder_conf *c, const char *key)
{
    for (int i = 0; i < c->n_keys; i++)
        if (strcmp(c->keys[i], key) == 0)
            return true;
    return false;
}

static int make_tensors(dg_feeder *s, work *w)
{
    dg_feeder_batch *b = &w->pub;
    const dg_node *node = s->conf.plan.chain->batch;

    b->n_feeds = node->class->feeds(node->conf, b->size, b->n, b->feeds, DG_MAX_FEEDS);
    for (int i = 0; i < b->n_feeds; i++) {
        size_t each =
            b->feeds[i].dtype == DG_REAL ? sizeof(float) : dg_dtype_size(b->feeds[i].dtype);
        size_t bytes = (size_t)dg_shape_elements(b->feeds[i].shape) * each;

        b->data[i] = NULL;
        if (!wanted(&s->conf, b->feeds[i].key))
            continue;
        b->data[i] = dg_scratch_alloc(w->kept, bytes);
        if (!b->data[i])
            return dg_fail(b->diag, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                           "no memory for a batch of %d images", b->n);
        memset(b->data[i], 0, bytes);
    }
    return 0;
}

static int make_batch(dg_feeder *s, work *w, const task *t)
{
    dg_feeder_batch *b = &w->pub;
    double begin = dg_monotonic_s();
    /* otherwise all ranks have the same samples, under the same numbers */
    bool own = s->conf.plan.own_images;
    int rank = own ? s->conf.plan.rank : 0, ranks = own ? s->conf.plan.ranks : 1, rc;

    b->number = t->number;
    b->epoch = t->epoch;
    b->index = t->index;
    b->n_in_epoch = t->n_in_epoch;
    b->clock = clock_of(s, t);
    b->size = s->conf.resize ? s->conf.resize(s->conf.resize_ctx, t->number, &b->clock)
                             : (dg_size){ t->pick.w, t->pick.h };
    b->n_choices = s->conf.plan.chain->n_choices;
    b->choices = s->conf.plan.chain->choices;
    b->n = s->batch;
    b->first_sample = ((uint64_t)t->number * (uint64_t)ranks + (uint64_t)rank) * (uint64_t)s->batch;
    b->next_sample = (uint64_t)(t->number + 1) * (uint64_t)ranks * (uint64_t)s->batch;
    w->fetch.clock = b->clock;
    dg_scratch_reset(w->kept);
    rc = make_tensors(s, w);
    for (int slot = 0; slot < b->n && rc >= 0; slot++)
        rc = fill_slot(s, w, t, slot);
    b->n_replaced = w->fetch.n_replaced;
    b->begin_s = begin;
    b->seconds = dg_monotonic_s() - begin;
    return rc;
}

/* Lowers the calling thread's priority (on Linux, only this thread's): kernel threads wait for each
 * other, so one that loses its core to a loader delays all. Loaders catch up while the step waits
 * for them. */
static void lower_priority(void)
{
    enum { NICE = 10 };

    (void)setpriority(PRIO_PROCESS, 0, NICE);
}

/* The index of a thread, from 0. */
static int take_number(dg_feeder *s)
{
    int n;

    pthread_mutex_lock(&s->lock);
    n = s->n_numbered++;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* True for errors in the data or on the way to it; false for broken contracts and lack of
 * memory. */
static bool may_vote(const work *w, int rc)
{
    return (rc == -DG_EINPUT || rc == -DG_EIO) && w->fetch.at && dg_feeder_votes(w->fetch.at);
}

static void *worker(void *self)
{
    dg_feeder *s = self;
    work *w;
    int number = take_number(s);

    lower_priority();
    while ((w = take_idle(s))) {
        task t;
        bool failed;
        int rc;

        dg_diag_clear(w->pub.diag);
        w->pub.n_replaced = w->fetch.n_replaced = 0;
        w->fetch.at = NULL;
        if (!claim_pick(s, w, &t, &rc))
            break;
        w->pub.thread = number;
        if (rc >= 0)
            rc = make_batch(s, w, &t);
        w->pub.spoilt = may_vote(w, rc);
        w->failed = failed = rc < 0 && !w->pub.spoilt;
        /* the ring owns w now */
        if (dg_ring_put(s->ring, (uint64_t)(t.number - s->conf.number), w) < 0 || failed)
            break;
    }
    return NULL;
}

static int open_works(dg_feeder *s, dg_diag *d)
{
    s->n_works = s->conf.ahead + s->conf.threads + 1;
    s->works = calloc((size_t)s->n_works, sizeof *s->works);
    s->idle = calloc((size_t)s->n_works, sizeof(work *));
    for (int i = 0; s->works && s->idle && i < s->n_works; i++) {
        work *w = &s->works[i];

        w->pub.diag = dg_diag_open();
        w->kept = dg_scratch_open(0);
        w->fetch =
            (dg_fetching){ .conf = &s->conf, .scratch = dg_scratch_open(0), .d = w->pub.diag };
        w->items = calloc((size_t)s->batch, sizeof *w->items);
        w->pub.samples = calloc((size_t)s->batch, sizeof *w->pub.samples);
        w->pub.padding = calloc((size_t)s->batch, sizeof *w->pub.padding);
        if (!w->kept || !w->fetch.scratch || !w->items || !w->pub.samples || !w->pub.padding)
            break;
        s->idle[s->n_idle++] = w;
    }
    return s->n_idle == s->n_works
               ? 0
               : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the loader");
}

int dg_feeder_open(dg_feeder **out, const dg_feeder_conf *conf, dg_diag *d)
{
    dg_feeder *s = calloc(1, sizeof *s);
    const dg_size *sizes;
    int rc;

    *out = s;
    if (!s)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for the loader");
    s->conf = *conf;
    s->number = conf->number;
    s->epoch = conf->epoch;
    s->index = conf->index;
    if (conf->period) {
        s->epoch = 0;
        s->index = conf->number;
    }
    conf->plan.chain->sampler->class->sizes(conf->plan.chain->sampler->conf, &sizes, &s->batch);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->given_back, NULL);
    s->ring = dg_ring_open(conf->ahead);
    s->threads = calloc((size_t)conf->threads, sizeof *s->threads);
    DG_TRY(open_works(s, d));
    DG_TRY(plan_epoch(s, d));
    while (conf->period && s->index >= s->plan.n_picks) { /* skip finished passes */
        s->index -= s->plan.n_picks;
        s->epoch++;
        DG_TRY(plan_epoch(s, d));
    }
    for (; s->n_threads < conf->threads; s->n_threads++)
        if (!s->threads || pthread_create(&s->threads[s->n_threads], NULL, worker, s) != 0)
            DG_TRY(dg_fail(d, DG_EMEMORY, DG_NOWHERE, "loader-thread",
                           "cannot start loader thread %d of %d", s->n_threads + 1, conf->threads));
out:
    if (rc < 0)
        dg_feeder_close(out);
    return rc;
}

int dg_feeder_next(dg_feeder *s, dg_feeder_batch **batch, dg_diag *d)
{
    void *item = NULL;
    work *w;

    *batch = NULL;
    if (dg_ring_take(s->ring, &item) < 0)
        return 0;
    w = item;
    if (w->failed) {
        dg_diag_merge(d, w->pub.diag);
        return -DG_EINPUT;
    }
    *batch = &w->pub;
    return 0;
}

const dg_feeder_batch *dg_feeder_peek(dg_feeder *s)
{
    const work *w = dg_ring_peek(s->ring);

    return w && !w->failed && !w->pub.spoilt ? &w->pub : NULL;
}

void dg_feeder_give_back(dg_feeder *s, dg_feeder_batch *batch)
{
    work *w = (work *)(void *)((char *)batch - offsetof(work, pub));

    pthread_mutex_lock(&s->lock);
    s->idle[s->n_idle++] = w;
    pthread_cond_signal(&s->given_back);
    pthread_mutex_unlock(&s->lock);
}

void dg_feeder_close(dg_feeder **out)
{
    dg_feeder *s = *out;

    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->given_back);
    pthread_mutex_unlock(&s->lock);
    if (s->ring)
        dg_ring_stop(s->ring);
    for (int i = 0; i < s->n_threads; i++)
        pthread_join(s->threads[i], NULL);
    dg_ring_close(&s->ring);
    for (int i = 0; s->works && i < s->n_works; i++) {
        work *w = &s->works[i];

        dg_diag_close(&w->pub.diag);
        dg_scratch_close(&w->kept);
        dg_scratch_close(&w->fetch.scratch);
        free(w->items);
        free(w->pub.samples);
        free(w->pub.padding);
    }
    dg_arena_close(&s->plan_arena);
    pthread_cond_destroy(&s->given_back);
    pthread_mutex_destroy(&s->lock);
    free(s->works);
    free(s->idle);
    free(s->threads);
    free(s);
    *out = NULL;
}
