/* ring.c: item k lives in slot k mod capacity from put to take; one lock and one condition for both
 * sides. */
#include "base/ring.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/arena.h"

typedef struct slot {
    bool full;
    void *item;
} slot;

struct dg_ring {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t capacity, taken, end;
    bool stopped;
    slot slots[];
};

dg_ring *dg_ring_open(int capacity)
{
    size_t n = capacity > 0 ? (size_t)capacity : 1;
    dg_ring *r = calloc(1, sizeof *r + n * sizeof *r->slots);

    if (!r)
        dg_oom(sizeof *r + n * sizeof *r->slots);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->capacity = n;
    r->end = UINT64_MAX;
    return r;
}

void dg_ring_close(dg_ring **r)
{
    if (!*r)
        return;
    pthread_cond_destroy(&(*r)->changed);
    pthread_mutex_destroy(&(*r)->lock);
    free(*r);
    *r = NULL;
}

int dg_ring_put(dg_ring *r, uint64_t k, void *item)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && k >= r->taken + r->capacity)
        pthread_cond_wait(&r->changed, &r->lock);
    bool stopped = r->stopped;

    if (!stopped) {
        slot *s = &r->slots[k % r->capacity];

        assert(k >= r->taken && !s->full); /* every k is put once */
        *s = (slot){ true, item };
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return stopped ? -DG_ESTOP : 0;
}

int dg_ring_take(dg_ring *r, void **item)
{
    pthread_mutex_lock(&r->lock);
    while (!r->stopped && r->taken < r->end && !r->slots[r->taken % r->capacity].full)
        pthread_cond_wait(&r->changed, &r->lock);
    bool over = r->stopped || r->taken >= r->end;

    if (!over) {
        slot *s = &r->slots[r->taken % r->capacity];

        *item = s->item;
        *s = (slot){ 0 };
        r->taken++;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return over ? -DG_ESTOP : 0;
}

void *dg_ring_peek(const dg_ring *r)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&r->lock;
    const slot *s;
    void *item;

    pthread_mutex_lock(lock);
    s = &r->slots[r->taken % r->capacity];
    item = s->full && !r->stopped ? s->item : NULL;
    pthread_mutex_unlock(lock);
    return item;
}

void dg_ring_end(dg_ring *r, uint64_t n)
{
    pthread_mutex_lock(&r->lock);
    r->end = n;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

void dg_ring_stop(dg_ring *r)
{
    pthread_mutex_lock(&r->lock);
    r->stopped = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

int dg_ring_ready(const dg_ring *r)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)&r->lock;
    uint64_t n = 0;

    pthread_mutex_lock(lock);
    while (n < r->capacity && r->slots[(r->taken + n) % r->capacity].full)
        n++;
    pthread_mutex_unlock(lock);
    return (int)n;
}
