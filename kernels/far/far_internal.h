/* far_internal.h: what the files of the far device share: memory (far_memory.c), lanes and the
 * thread that empties them (far_queue.c), recordings (far_record.c), the table of calls (far.c).
 * Everything here is called with the device's lock held. */
#ifndef DG_KERNELS_FAR_FAR_INTERNAL_H
#define DG_KERNELS_FAR_FAR_INTERNAL_H

#include <pthread.h>

#include "base/rng.h"
#include "kernels/far/far.h"

/* ---- memory ---------------------------------------------------------------------------------- */

typedef enum dg_far_kind { DG_FAR_DEVICE, DG_FAR_PINNED } dg_far_kind;

typedef struct dg_far_block {
    dg_far_kind kind;
    char *p;      /* what the caller has */
    size_t bytes; /* as asked for */
    char *base;   /* device: the mapping, with a guard page at either end */
    size_t mapped;
    bool open; /* device: readable and writable now */
} dg_far_block;

typedef struct dg_far_memory {
    dg_far_block *blocks;
    int n, cap;
    int64_t used, limit; /* device: bytes; limit 0: the machine's memory */
} dg_far_memory;

typedef enum dg_far_share { DG_FAR_NONE, DG_FAR_PART, DG_FAR_ALL } dg_far_share;

/* NULL: not enough, or beyond the limit. Zeroed; device memory is closed. */
void *dg_far_memory_new(dg_far_memory *m, dg_far_kind kind, size_t bytes);
/* The block that begins at p, or NULL. */
const dg_far_block *dg_far_memory_at(const dg_far_memory *m, dg_far_kind kind, const void *p);
void dg_far_memory_drop(dg_far_memory *m, const dg_far_block *b);
void dg_far_memory_drop_all(dg_far_memory *m);
/* How much of p[0..n-1] is memory of this kind, in one block. */
dg_far_share dg_far_memory_share(const dg_far_memory *m, dg_far_kind kind, const void *p, size_t n);
/* For the worker alone: 0 or -DG_EMEMORY. */
int dg_far_memory_open(dg_far_memory *m);
void dg_far_memory_close(dg_far_memory *m);

/* ---- work ------------------------------------------------------------------------------------ */

typedef enum dg_far_work {
    DG_FAR_UPLOAD,
    DG_FAR_DOWNLOAD,
    DG_FAR_COPY,
    DG_FAR_CLEAR,
    DG_FAR_LAUNCH,
    DG_FAR_CALL,
    DG_FAR_SIGN,
    DG_FAR_RECORD,
    DG_FAR_WAIT,
} dg_far_work;

/* Item number seq of a lane, counted from its beginning. */
typedef struct dg_far_place {
    dg_lane lane;
    uint64_t seq;
} dg_far_place;

typedef struct dg_far_item {
    struct dg_far_item *next;
    dg_far_work work;
    dg_lane lane;
    int mark;
    void *to; /* upload, download, copy, clear */
    const void *from;
    size_t bytes;
    bool pageable;   /* download: `to` is any host memory, the caller waits */
    void *owned;     /* upload: copy of pageable memory, which `from` points to */
    bool checked;    /* upload: from's content has to have `digest` */
    uint64_t digest; /* or of the launch */
    const dg_launch *launch;
    bool recorded, fails; /* launch: from a recording; fault=N was asked for */
    int (*fn)(void *ctx); /* call */
    void *ctx;
    uint32_t *word, value; /* sign */
    dg_event *event;       /* record, wait */
    dg_far_place until;    /* wait: that place has been passed */
} dg_far_item;

struct dg_event {
    bool recorded, closed;
    dg_far_place at;
    int n_recordings;          /* that have it: memory stays until they are closed */
    uint64_t in;               /* number of the recording that recorded it; 0: none did */
    uint64_t seen[DG_N_LANES]; /* there: items of each lane that are behind it */
};

typedef struct dg_far_lane {
    dg_far_item *first, *last; /* first is number `done` and may be running */
    uint64_t queued, done;
    uint64_t goal; /* the worker runs the items before this one */
} dg_far_lane;

typedef struct dg_far_waiter {
    struct dg_far_waiter *next;
    dg_far_place until; /* that item and what comes after it may be pending */
} dg_far_waiter;

typedef struct dg_far_options {
    bool eager, ref;
    int64_t seed, patience_ms, memory, fault;
    const char *lacks[8]; /* names of ops */
    int n_lacks;
    bool lacks_all;
} dg_far_options;

typedef struct dg_far {
    dg_backend table; /* first: what the caller has */
    dg_backend *cpu;
    dg_far_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, passed; /* something to run; a waiter's place has been passed */
    bool stopped;
    dg_far_memory memory;
    dg_far_lane lanes[DG_N_LANES];
    dg_far_waiter *waiters;
    dg_rng order;
    double last_call_s;
    int64_t n_launches;
    int status, mark; /* of what failed first; 0: nothing has */
    char why[256];
    dg_recording *recording; /* under way, or NULL */
    uint64_t n_recordings;
} dg_far;

/* Notes the first failure. Returns rc. */
int dg_far_fault(dg_far *f, int rc, int mark, const char *fmt, ...) DG_PRINTF(4, 5);

/* 0, or -DG_EINTERNAL and a fault: the item uses memory that is not what it should be. */
int dg_far_check(dg_far *f, const dg_far_item *it);
uint64_t dg_far_launch_digest(const dg_launch *l);

/* Appends a copy of the item to its lane. */
int dg_far_put(dg_far *f, const dg_far_item *it);
/* Has the worker run up to and with that item, and what must run before it, and sleeps until then.
 * Returns the device's fault. */
int dg_far_await(dg_far *f, dg_far_place until);
/* The same for the last item of each lane that uses the block. */
void dg_far_await_users(dg_far *f, const dg_far_block *b);
int dg_far_await_all(dg_far *f);
/* Whether an item that is queued or running uses the block. */
bool dg_far_in_use(const dg_far *f, const dg_far_block *b);
void *dg_far_worker(void *far); /* the thread's function, without the lock */

/* ---- recordings ------------------------------------------------------------------------------ */

int dg_far_record_begin(dg_far *f, dg_lane lane);
int dg_far_record_end(dg_far *f, dg_recording **r);
/* Appends a copy of the item to the recording under way. */
int dg_far_record_put(dg_far *f, const dg_far_item *it);
int dg_far_replay(dg_far *f, dg_lane lane, const dg_recording *r);
void dg_far_recording_free(dg_recording *r);

#endif
