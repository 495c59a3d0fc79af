/* standin.h: what the files of the stand-in share. It answers kernels/cuda/runtime.h on the CPU, as
 * strictly as CUDA may: memory of the device is closed to the host, work is done by another thread
 * and as late as allowed, host memory is read when the copy runs, streams run in any order that
 * events leave, a capture refuses what CUDA refuses, and an error stays.
 *
 * Words after "cuda:module=PATH,":
 *   devices=N      so many devices (1)
 *   error=N        CUDA does not start: that number of cudaError_t
 *   memory=BYTES   of the device
 *   fault=N        the N-th kernel fails, with an illegal address
 *   seed=N         the order of streams
 *   share=1        every process has the same GPU
 *   plain=1        no library of convolutions, and no fast products of f32
 *   idle=1         kernels and products do nothing: for counting what a step consists of
 * At its end it appends a line of what was done to the file that STANDIN_COUNTS names. */
#ifndef DG_TESTS_CUDA_STANDIN_H
#define DG_TESTS_CUDA_STANDIN_H

#include <pthread.h>

#include "kernels/cuda/runtime.h"

enum { STANDIN_STREAMS = 8 };

typedef enum standin_work {
    STANDIN_COPY,
    STANDIN_CLEAR,
    STANDIN_LAUNCH,
    STANDIN_CALL,
    STANDIN_PRODUCT,
    STANDIN_CONVOLUTION,
    STANDIN_PEERS, /* a function that sees device memory and may wait for other processes */
    STANDIN_STAMP, /* an event's time */
    STANDIN_ORDER, /* until another stream has come to a place */
} standin_work;

typedef struct standin_item {
    struct standin_item *next;
    standin_work work;
    void *to; /* copy, clear */
    const void *from;
    size_t bytes;
    dg_cuda_function kernel;
    dg_cuda_grid grid;
    void *params; /* owned */
    const int32_t *guard;
    dg_cuda_place here;
    bool fails;
    void (*fn)(void *ctx);
    void *ctx;
    dg_cuda_product product;
    dg_cuda_multiplied multiplied;
    dg_cuda_convolution convolution;
    dg_cuda_convolved at;
    dg_cuda_stream *until;
    uint64_t seq;
    dg_cuda_event *stamp;
} standin_item;

struct dg_cuda_stream {
    dg_cuda_runtime *owner;
    standin_item *first, *last; /* first is number `done` and may be running */
    uint64_t queued, done, goal;
    int index;
    bool captured;
    uint64_t
        seen[STANDIN_STREAMS]; /* in a capture: items of each stream that are before the next */
};

struct dg_cuda_event {
    bool recorded, timed, closed;
    int n_stamps;    /* in queues */
    double passed_s; /* when it did */
    dg_cuda_stream *stream;
    uint64_t seq;                   /* items of it that are before the event */
    uint64_t capture;               /* the number of the one that recorded it */
    uint64_t seen[STANDIN_STREAMS]; /* in that */
};

struct dg_cuda_graph {
    standin_item *first, *last; /* in the order of their calls */
    int64_t n;
};

struct dg_cuda_plan {
    dg_cuda_product product;
};

struct dg_cuda_conv_plan {
    dg_cuda_convolution what;
};

typedef struct standin_words {
    int64_t devices, error, memory, fault, seed, share, plain, idle;
} standin_words;

typedef struct standin_block {
    char *p; /* what the caller has */
    size_t bytes;
    char *base; /* device: the mapping, with a guard page at either end */
    size_t mapped;
    bool open, device, foreign; /* foreign: the caller's pages, pinned */
} standin_block;

typedef struct standin {
    dg_cuda_runtime table; /* first: what the backend has */
    standin_words words;
    /* For the stand-in of NCCL, which is another library: without the lock. */
    int (*put_peers)(dg_cuda_stream *on, void (*fn)(void *ctx), void *ctx);
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, passed;
    bool stopped;
    uint64_t rng;
    dg_cuda_stream *streams[STANDIN_STREAMS];
    standin_block *blocks;
    int n_blocks, cap_blocks;
    int64_t used;
    int error;              /* that stays */
    dg_cuda_graph *graph;   /* that is being captured, or NULL */
    dg_cuda_stream *origin; /* of the capture */
    bool invalid;           /* the capture cannot be finished */
    uint64_t n_captures;
    int64_t n_launches, n_products, n_convolutions, n_copies, n_waits, n_replays, n_graphs,
        n_direct;
} standin;

static inline standin *standin_lock(dg_cuda_runtime *r)
{
    standin *s = (standin *)r;

    pthread_mutex_lock(&s->lock);
    return s;
}

static inline int standin_unlock(standin *s, int code)
{
    pthread_mutex_unlock(&s->lock);
    return code;
}

/* ---- memory: with the lock held -------------------------------------------------------------- */

/* NULL: not enough. */
void *standin_block_new(standin *s, size_t bytes, bool device);
standin_block *standin_block_at(standin *s, const void *p);
void standin_block_drop(standin *s, standin_block *b);
void standin_memory_open(standin *s);
void standin_memory_close(standin *s);

/* ---- work: with the lock held ---------------------------------------------------------------- */

/* To the stream, or to the graph that is being captured; a copy of the item, which owns params. */
int standin_put(standin *s, dg_cuda_stream *on, const standin_item *it);
void standin_append(standin *s, dg_cuda_stream *on, const standin_item *it);
/* Sleeps until the stream has done so many items. */
int standin_await(standin *s, dg_cuda_stream *on, uint64_t done);
void *standin_thread(void *s); /* without the lock */

/* ---- captures: the first with the lock held, the others without it --------------------------- */

/* For calls that CUDA forbids in a capture: the capture is lost, too. */
int standin_outside_capture(standin *s);
int standin_capture_begin(dg_cuda_runtime *r, dg_cuda_stream *on);
int standin_capture_end(dg_cuda_runtime *r, dg_cuda_stream *on, dg_cuda_graph **out);
int standin_graph_launch(dg_cuda_runtime *r, dg_cuda_graph *g, dg_cuda_stream *on);
void standin_graph_close(dg_cuda_runtime *r, dg_cuda_graph *g);

#endif
