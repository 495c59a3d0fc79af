/* internal.h: what the files of this folder share: backend.c opens, closes and has the memory,
 * work.c the lanes and events, calls.c functions of the host and words of observers, join.c
 * launches that are given together, libraries.c products and convolutions, record.c the recordings,
 * load.c finds the module. Everything here is called with the device's lock held, unless it says
 * otherwise. */
#ifndef DG_KERNELS_CUDA_HOST_INTERNAL_H
#define DG_KERNELS_CUDA_HOST_INTERNAL_H

#include <pthread.h>

#include "kernels/comm.h"
#include "kernels/cuda/host/host.h"

typedef struct dg_cuda dg_cuda;

typedef struct dg_cuda_lane {
    dg_cuda_queue queue; /* first: what an op's kernels are put on */
    dg_cuda *owner;
    dg_cuda_stream *stream;
    int32_t *word; /* pinned: the mark of the launch that began last; DG_NO_MARK */
    int mark;      /* of the launch that is being queued */
    bool marked;   /* one of its kernels says so */
    int before;    /* the mark of the last kernel with one */
} dg_cuda_lane;

/* A kernel of one of several launches that are given together. */
typedef struct dg_cuda_part {
    dg_cuda_function kernel, many; /* many: NULL if it has no form for several calls */
    dg_cuda_grid grid;
    const int32_t *guard;
    int mark, stage; /* stage: its number among the kernels of its launch */
    int at;          /* of its parameters, in the bytes of all */
    size_t bytes;
    bool done;
} dg_cuda_part;

/* A function of the host on a lane. */
typedef struct dg_cuda_job {
    struct dg_cuda_job *next, **at; /* the list of all */
    dg_cuda *owner;
    int (*fn)(void *ctx);
    void *ctx;
    int mark;
    bool recorded; /* stays when it has run */
    uint64_t recording;
} dg_cuda_job;

/* In a capture an event has no time: `inner` takes the capture from lane to lane. `outer` is for
 * who waits outside; a replay records it at its end, and waits for it before its begin. */
struct dg_event {
    dg_cuda_event *inner, *outer;
    uint64_t in; /* number of the recording that recorded it; 0: none did */
    int n_users; /* recordings that have it */
    bool closed;
};

typedef struct dg_cuda_use {
    dg_event *event;
    bool awaited; /* of somebody outside; else recorded here */
} dg_cuda_use;

struct dg_recording {
    uint64_t number;
    dg_lane lane;
    unsigned lanes; /* that it uses: bits */
    dg_cuda_graph *graph;
    dg_cuda_use *uses;
    int n_uses, cap_uses;
};

typedef struct dg_cuda_range {
    char *p;
    size_t bytes;
    char *device; /* where kernels see it */
    bool refused; /* it cannot be pinned */
} dg_cuda_range;

typedef struct dg_cuda_ranges {
    dg_cuda_range *items;
    int n, cap;
} dg_cuda_ranges;

typedef struct dg_cuda_planned {
    dg_cuda_product product;
    dg_cuda_plan *plan;
} dg_cuda_planned;

typedef struct dg_cuda_conv_planned {
    dg_cuda_convolution what;
    dg_cuda_conv_plan *plan; /* NULL: the library has none that would do */
} dg_cuda_conv_planned;

struct dg_cuda {
    dg_backend table; /* first: what the caller has */
    const dg_cuda_module *module;
    void *handle; /* of the module; NULL: it is the caller's */
    dg_cuda_runtime *r;
    char *nccl; /* the file to load as NCCL; NULL: wherever it is found */
    pthread_mutex_t lock;
    dg_cuda_lane lanes[DG_N_LANES];
    int32_t *words;          /* of the lanes */
    dg_cuda_ranges pinned;   /* by alloc_pinned */
    dg_cuda_ranges observed; /* pages with words of observers */
    dg_cuda_planned *plans;
    int n_plans, cap_plans;
    dg_cuda_conv_planned *conv_plans;
    int n_conv_plans, cap_conv_plans;
    bool tf32;         /* f32 may be multiplied as tf32 */
    void *workspace;   /* of products and convolutions */
    int32_t *counters; /* of kernels */
    /* Instead of being put, kernels are noted in `parts`, their parameters in `bytes`. */
    bool collecting;
    int stage, n_parts, cap_parts;
    dg_cuda_part *parts;
    char *bytes;
    int n_bytes, cap_bytes;
    uint8_t *followed; /* per mark + 1: a product without a mark has followed */
    int n_followed;
    dg_recording *recording;
    uint64_t n_recordings;
    dg_event *order;  /* between lanes, around a replay */
    int status, mark; /* of what failed first; 0: nothing has */
    char why[256];
    pthread_mutex_t jobs_lock; /* never held while CUDA is called */
    dg_cuda_job *jobs;
    int job_status, job_mark; /* of the first job that failed */
};

/* items with room for one behind the first n, or more: where they are now, with *cap set; NULL: no
 * memory, and nothing has changed. */
void *dg_cuda_room(void *items, int n, int *cap, size_t bytes);

/* The device of a backend, with its lock held; then rc, without. */
static inline dg_cuda *dg_cuda_lock(dg_backend *self)
{
    dg_cuda *c = (dg_cuda *)self;

    pthread_mutex_lock(&c->lock);
    return c;
}

static inline int dg_cuda_unlock(dg_cuda *c, int rc)
{
    pthread_mutex_unlock(&c->lock);
    return rc;
}

/* Notes an error of CUDA's: 0, or the device's status. mark: of the launch that was queued. */
int dg_cuda_check(dg_cuda *c, int code, int mark, const char *what);
bool dg_cuda_ranges_add(dg_cuda_ranges *r, dg_cuda_range one);
/* The range that holds p[0..bytes-1], or NULL. */
const dg_cuda_range *dg_cuda_ranges_at(const dg_cuda_ranges *r, const void *p, size_t bytes);

/* Whether work may be put on the lane now: in a recording it has to be one of its lanes. */
bool dg_cuda_may_put(const dg_cuda *c, dg_lane lane);
int dg_cuda_record_begin(dg_cuda *c, dg_lane lane);
int dg_cuda_record_end(dg_cuda *c, dg_recording **r);
int dg_cuda_replay(dg_cuda *c, dg_lane lane, const dg_recording *r);
int dg_cuda_record_event(dg_cuda *c, dg_event *e, dg_lane lane);
int dg_cuda_record_wait(dg_cuda *c, dg_lane lane, dg_event *e);
void dg_cuda_recording_close(dg_cuda *c, dg_recording *r);
void dg_cuda_event_free(dg_cuda *c, dg_event *e);

/* For an op's queue: what the vendor's libraries do, by plans that are kept. */
int dg_cuda_put_product(dg_cuda_queue *q, const dg_cuda_product *p, const dg_cuda_multiplied *at);
int dg_cuda_put_convolution(dg_cuda_queue *q, const dg_cuda_convolution *p,
                            const dg_cuda_convolved *at);

/* A failure of work that CUDA does not know of, without the lock: the next wait returns it. */
void dg_cuda_work_failed(dg_cuda *c, int status, int mark);
/* calls.c, for the backend's table: without the lock. */
int dg_cuda_call_host(dg_backend *self, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark);
int dg_cuda_sign_word(dg_backend *self, dg_lane lane, uint32_t *word, uint32_t value);

/* join.c: a kernel of a launch that is given with others; then all of them become launches. */
int dg_cuda_collect(dg_cuda *c, dg_cuda_lane *lane, dg_cuda_function f, dg_cuda_grid grid,
                    const void *params, size_t bytes, const int32_t *guard);
int dg_cuda_put_collected(dg_cuda *c, dg_cuda_lane *lane, bool in_turn);
/* work.c: a kernel with the mark of its launch. */
int dg_cuda_put_kernel(dg_cuda *c, dg_cuda_lane *lane, dg_cuda_function f, dg_cuda_grid grid,
                       const void *params, size_t bytes, const int32_t *guard, int mark);

/* For the backend's table: without the lock. */
int dg_cuda_peers_open(dg_backend *self, dg_comm *comm, char why[DG_BACKEND_WHY], dg_diag *d);

/* Fill the backend's table: without the lock. */
void dg_cuda_work_functions(dg_backend *b);
int dg_cuda_open_lanes(dg_cuda *c);
void dg_cuda_close_lanes(dg_cuda *c);

#endif
