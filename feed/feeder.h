/* feeder.h: runs loader, sampler, augment and batch nodes on threads, ahead of the step.
 *
 * Batches come in plan order with the same bits, whatever the number of threads: every sample is a
 * pure function of (seed, epoch, global sample number). */
#ifndef DG_FEED_FEEDER_H
#define DG_FEED_FEEDER_H

#include "base/diag.h"
#include "graph/graph.h"
#include "feed/epoch_plan.h"

enum {
    DG_MAX_FEEDS = 16,
    DG_MAX_ITEMS = sizeof((dg_chain *)0)->items / sizeof *((dg_chain *)0)->items
};

typedef struct dg_feeder dg_feeder;

typedef struct dg_feeder_batch {
    int64_t number; /* in the run, from 0 */
    int64_t epoch, index, n_in_epoch;
    int n_choices; /* choices of this epoch, and how many items each left */
    const dg_node *const *choices;
    int64_t left[DG_MAX_CHAIN];
    dg_clock clock; /* as its nodes saw it; also for the program */
    dg_size size;
    int n;                 /* slots of this rank */
    uint64_t first_sample; /* global number of slot 0: control.sample */
    uint64_t next_sample;  /* of the next batch, over all ranks */
    dg_sample *samples;    /* names and sizes; image and objects are gone */
    bool *padding;         /* per slot: computed, not counted */
    int n_feeds;
    dg_feed feeds[DG_MAX_FEEDS];
    void *data[DG_MAX_FEEDS]; /* DG_REAL as f32; NULL: not wanted */
    int n_replaced;
    /* loading failed under on_fail="vote": empty; the ranks vote to skip it */
    bool spoilt;
    dg_diag *diag;  /* warnings about replaced samples; why it is spoilt */
    double seconds; /* time that a thread spent on it, */
    double begin_s; /* since this time of the monotonic clock, */
    int thread;     /* and its index */
} dg_feeder_batch;

/* What the host itself reads of a batch: to draw it, and to count its objects. */
typedef enum dg_feed_kind {
    DG_FEED_IMAGES, /* f32 [B,H,W,3], 0 to 1 */
    DG_FEED_LABELS, /* i32 [B,M] */
    DG_FEED_BOXES,  /* f32 [B,M,4]: centre, width and height as shares of the image */
    DG_FEED_COUNT,  /* i32 [B]: objects of an image */
    DG_N_FEED_KINDS
} dg_feed_kind;
/* The batch's tensor of this kind and, unless NULL, its shape; NULL: nothing wants it. */
const void *dg_feeder_batch_data(const dg_feeder_batch *b, dg_feed_kind kind, dg_shape *shape);

/* What the random draws of an augmenting node depend on: the sample's number in the run; this
 * rank's count of samples, equal on all ranks; or that count, different per rank. */
typedef enum dg_draw_scope { DG_DRAWN_BY_SAMPLE, DG_DRAWN_ALIKE, DG_DRAWN_BY_RANK } dg_draw_scope;

typedef struct dg_feeder_conf {
    dg_planning plan;
    dg_draw_scope drawn[DG_MAX_ITEMS]; /* indexed like plan.chain->items */
    int64_t accumulate;                /* batches per step */
    int64_t n_steps, n_epochs;         /* of the whole run, for schedules; 0: unknown */
    int64_t number, epoch, index;      /* where to begin: 0, 0, 0, or from a checkpoint */
    int64_t epochs;                    /* end before this epoch; 0: never */
    /* batches per epoch of a sampler that never ends, whose plans are passes; 0: one plan is one
     * epoch. Only `number` then tells where to begin */
    int64_t period;
    bool one_plan; /* end with the plan in which it begins */
    /* in a scope without steps: every batch has the clock `now`; else its number and epoch give the
     * clock */
    bool frozen_clock;
    dg_clock now;
    /* the size of a batch, instead of the planned one; or NULL */
    dg_size (*resize)(void *ctx, int64_t number, const dg_clock *clock);
    void *resize_ctx;
    const char *const *keys; /* the wanted feeds */
    int n_keys;
    int threads; /* >= 1 */
    int ahead;   /* most finished batches that may wait; >= 1 */
} dg_feeder_conf;

/* The feeder's threads make all plans after the first: with a collective plan.least, set one_plan.
 * Copies conf; what it points to must outlive the feeder. */
int dg_feeder_open(dg_feeder **s, const dg_feeder_conf *conf, dg_diag *d) DG_MUST_USE;
void dg_feeder_close(dg_feeder **s);
/* The next batch, NULL at the end. Return it with dg_feeder_give_back. */
int dg_feeder_next(dg_feeder *s, dg_feeder_batch **batch, dg_diag *d) DG_MUST_USE;
/* The batch that dg_feeder_next will give, if it is ready and in order; else NULL. The next call
 * takes it. */
const dg_feeder_batch *dg_feeder_peek(dg_feeder *s);
void dg_feeder_give_back(dg_feeder *s, dg_feeder_batch *batch);

/* True if on_fail="vote" holds for the node: a batch for which it cannot read its input comes out
 * spoilt. */
bool dg_feeder_votes(const dg_node *node);

/* Number of one rank's batches in the plan of an epoch. dropped: samples of the plan that are in
 * none of them; may be NULL. */
int dg_feeder_length(int64_t *n, const dg_planning *plan, int64_t epoch, int64_t *dropped,
                     dg_diag *d) DG_MUST_USE;

#endif
