/* stream.h: loader, sampler, augment and batch nodes on threads of their own, ahead of the step.
 *
 * Batches come out in the order of the plan, whatever the number of threads, and hold the same bits: every
 * sample is a pure function of (seed, epoch, global sample number). */
#ifndef DG_RUNTIME_STREAM_H
#define DG_RUNTIME_STREAM_H

#include "base/diag.h"
#include "graph/graph.h"
#include "runtime/choice.h"

enum { DG_MAX_FEEDS = 16, DG_MAX_ITEMS = sizeof((dg_chain *)0)->items / sizeof *((dg_chain *)0)->items };

typedef struct dg_stream dg_stream;

typedef struct dg_stream_batch {
    int64_t    number;         /* of the run, from 0 */
    int64_t    epoch, index, n_in_epoch;
    int        n_choices;      /* nodes that chose items in this epoch, and how many items each has left */
    const dg_node *const *choices;
    int64_t    left[DG_MAX_CHAIN];
    dg_clock   clock;          /* that its nodes have seen, and the program is to see */
    dg_size    size;
    int        n;              /* slots of this rank */
    uint64_t   first_sample;   /* global number of slot 0: control.sample */
    uint64_t   next_sample;    /* of the batch that follows on, over all ranks */
    dg_sample *samples;        /* names and sizes; image and objects are gone */
    bool      *padding;        /* per slot: computed, not counted */
    int        n_feeds;
    dg_feed    feeds[DG_MAX_FEEDS];
    void      *data[DG_MAX_FEEDS]; /* DG_REAL as f32; NULL where nobody wants it */
    int        n_replaced;
    bool       spoilt;         /* it could not be made, and it is for the ranks to decide together (dg_stream_votes): it holds nothing */
    dg_diag   *diag;           /* warnings about replaced samples; why it is spoilt */
    double     seconds;        /* that a thread spent on it, */
    double     begin_s;        /* from here on of the monotonic clock, */
    int        thread;         /* and which */
} dg_stream_batch;

/* Draws of a node that changes samples follow the number of the sample in the run, or this rank's own count of samples,
 * in which case they are the same on all ranks, or each rank's own. */
typedef enum dg_drawn { DG_DRAWN_BY_SAMPLE, DG_DRAWN_ALIKE, DG_DRAWN_BY_RANK } dg_drawn;

typedef struct dg_stream_conf {
    dg_planning     plan;
    dg_drawn        drawn[DG_MAX_ITEMS]; /* by plan.chain->items */
    int64_t         accumulate;          /* batches per step */
    int64_t         n_steps, n_epochs;   /* of the whole run, for schedules; 0 where unknown */
    int64_t         number, epoch, index; /* where to begin: 0, 0, 0, or where a checkpoint ended */
    int64_t         epochs;              /* end after the epoch before this one; 0: never */
    int64_t         period;              /* batches of an epoch of a sampler that never ends, whose plans are rounds; 0: one
                                          * plan is one epoch. number alone says where to begin */
    bool            one_plan;            /* ends with the plan in which it begins */
    bool            still;               /* a scope that makes no steps: every batch has `now`; else its number and epoch say when */
    dg_clock        now;
    dg_size       (*resize)(void *ctx, int64_t number, const dg_clock *clock); /* of a batch, instead of what is planned; or NULL */
    void           *resize_ctx;
    const char *const *keys;             /* feeds that are wanted */
    int             n_keys;
    int             threads;             /* at least 1 */
    int             ahead;               /* finished batches that may wait, at least 1 */
} dg_stream_conf;

/* Plans after the first are made by the stream's threads: where plan.least is a collective, a stream has one_plan. conf is
 * copied; what it points to stays the caller's and outlives the stream. */
int  dg_stream_open(dg_stream **s, const dg_stream_conf *conf, dg_diag *d) DG_MUST_USE;
void dg_stream_close(dg_stream **s);
/* The next batch, NULL at the end. It is the caller's until dg_stream_give_back. */
int  dg_stream_next(dg_stream *s, dg_stream_batch **batch, dg_diag *d) DG_MUST_USE;
void dg_stream_give_back(dg_stream *s, dg_stream_batch *batch);

/* on_fail="vote", of the node or all of <train>: a batch in which it fails for its input comes out spoilt. */
bool dg_stream_votes(const dg_node *node);

/* Batches of one rank in the plan of an epoch. */
int  dg_stream_length(int64_t *n, const dg_planning *plan, int64_t epoch, int64_t *dropped, dg_diag *d) DG_MUST_USE;

#endif
