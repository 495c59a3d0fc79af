/* recorder.h: a rank's flight recorder: its position, its latest collectives and step words. It is
 * in memory shared with the launcher, so that it can be read whatever happens to the rank,
 * including kill -9.
 *
 * The rank's compute thread writes, and a late device's thread its collectives; the rank's link and
 * its launcher read. All functions accept NULL for "no recorder". */
#ifndef DG_CONTROL_RECORDER_H
#define DG_CONTROL_RECORDER_H

#include <detrgraph/tensor.h>

#include "control/message.h"
#include "exec/exec.h"

typedef struct dg_recorder dg_recorder;

enum { DG_RECORDS = 4096, DG_PLACES = 1024 };

int dg_recorder_create(int *fd, dg_diag *d) DG_MUST_USE; /* creates the memory of a recorder */
/* maps it; fd may be closed after */
int dg_recorder_open(dg_recorder **r, int fd, dg_diag *d) DG_MUST_USE;
void dg_recorder_close(dg_recorder **r);
void dg_recorder_reset(dg_recorder *r); /* for another attempt of the same rank */

/* The number of a place, unique per node and position; 0: outside nodes. */
uint32_t dg_recorder_place(dg_recorder *r, const dg_where *at);
void dg_recorder_at(dg_recorder *r, uint32_t place);   /* the compute thread is here now */
dg_exec_observer dg_recorder_observer(dg_recorder *r); /* an observer that calls the two above */
void dg_recorder_word(dg_recorder *r, const dg_word *w);
void dg_recorder_seen(dg_recorder *r, const dg_digests *seen); /* digests sent to the coordinator */
void dg_recorder_saved(dg_recorder *r, int64_t step); /* that step's checkpoint is on disk */
/* It is being written while the run goes on; 0: none is. */
void dg_recorder_saving(dg_recorder *r, int64_t step);

/* The number of a place that is known already, or 0. */
uint32_t dg_recorder_find(const dg_recorder *r, const dg_where *at);
/* begin and end of a collective at that place, 0: where the compute thread is; begin returns the
 * number for end. Between enter and leave the thread waits for other ranks. */
uint64_t dg_recorder_begin(dg_recorder *r, uint32_t place, const char *op, const char *type,
                           int64_t elements);
void dg_recorder_end(dg_recorder *r, uint64_t number);
void dg_recorder_enter(dg_recorder *r);
void dg_recorder_leave(dg_recorder *r);

/* For readers in any process: the current position (texts go to the arena), and a number that is
 * another one whenever the position has changed. */
void dg_recorder_look(const dg_recorder *r, dg_arena *a, dg_beat *out, uint64_t *changes);

/* Calls take for each record, oldest first; texts are valid during the call. */
typedef struct dg_flight {
    uint64_t number;
    int64_t step, elements;
    double begin_s, end_s; /* monotonic clock; end_s 0: in progress, or a word */
    const char *op, *type, *node;
} dg_flight;
void dg_recorder_each(const dg_recorder *r, void (*take)(void *ctx, const dg_flight *x), void *ctx);

/* Writes JSON lines: the rank and its position, then its records, oldest first. */
int dg_recorder_dump(const dg_recorder *r, const char *path, int rank, const char *host, dg_diag *d)
    DG_MUST_USE;

#endif
