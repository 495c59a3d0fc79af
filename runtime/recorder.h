/* recorder.h: the flight recorder of one rank: where it is, and its last collectives and step words. It lives in memory
 * that the launcher shares, so that it can be read whatever happens to the rank, kill -9 too.
 *
 * The rank's compute thread writes; its link and its launcher read. Every call takes NULL for "no recorder". */
#ifndef DG_RUNTIME_RECORDER_H
#define DG_RUNTIME_RECORDER_H

#include <detrgraph/tensor.h>

#include "runtime/message.h"

typedef struct dg_recorder dg_recorder;

enum { DG_RECORDS = 4096, DG_PLACES = 1024 };

int  dg_recorder_create(int *fd, dg_diag *d) DG_MUST_USE;     /* memory for one */
int  dg_recorder_open(dg_recorder **r, int fd, dg_diag *d) DG_MUST_USE; /* maps it; fd may be closed after */
void dg_recorder_close(dg_recorder **r);
void dg_recorder_reset(dg_recorder *r); /* for another attempt of the same rank */

/* The number of a place, the same for the same node and position. 0 is outside all nodes. */
uint32_t dg_recorder_place(dg_recorder *r, const dg_where *at);
void     dg_recorder_at(dg_recorder *r, uint32_t place); /* the compute thread is here now */
void     dg_recorder_word(dg_recorder *r, const dg_word *w);
void     dg_recorder_seen(dg_recorder *r, const dg_digests *seen); /* told the coordinator */
void     dg_recorder_saved(dg_recorder *r, int64_t step); /* is on disk */

/* A collective begins here; the number is for the end. Between enter and leave the thread waits for other ranks. */
uint64_t dg_recorder_begin(dg_recorder *r, const char *op, const char *type, int64_t elements);
void     dg_recorder_end(dg_recorder *r, uint64_t number);
void     dg_recorder_enter(dg_recorder *r);
void     dg_recorder_leave(dg_recorder *r);

/* For readers, in any process: where it is now (texts go to the arena), and how often that has changed. */
void     dg_recorder_look(const dg_recorder *r, dg_arena *a, dg_beat *out, uint64_t *changes);

/* Its records, oldest first; texts hold during the call. */
typedef struct dg_flight {
    uint64_t    number;
    int64_t     step, elements;
    double      begin_s, end_s; /* of the monotonic clock; end_s 0: under way, or a word */
    const char *op, *type, *node;
} dg_flight;
void dg_recorder_each(const dg_recorder *r, void (*take)(void *ctx, const dg_flight *x), void *ctx);

/* As JSON lines: who it is and where it was, then its records, oldest first. */
int dg_recorder_dump(const dg_recorder *r, const char *path, int rank, const char *host, dg_diag *d) DG_MUST_USE;

#endif
