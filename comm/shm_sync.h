/* shm_sync.h: how ranks that share memory wait for each other. Collectives are numbered; every rank
 * enters the same ones in the same order, each with what describes it. Some have a second
 * phase, which ends when all ranks have done their part. */
#ifndef DG_COMM_SHM_SYNC_H
#define DG_COMM_SHM_SYNC_H

#include "comm/meeting.h"

enum {
    DG_SHM_SLOTS = 64, /* counters */
    /* most collectives that a rank may have entered without waiting: less than half the slots, so
     * that no slot is used by two collectives at once, however far ranks are apart */
    DG_SHM_IN_FLIGHT = 24,
};

typedef struct dg_shm_sync {
    struct dg_shm_area *shared; /* shared memory */
    dg_comm *comm;              /* of this rank: its number, why and cost */
    int spins, failed;          /* failed: the status that every further call returns */
    uint64_t next;              /* number of the collective that it enters next */
    uint32_t done_target[DG_SHM_SLOTS];
} dg_shm_sync;

size_t dg_shm_sync_bytes(int ranks); /* bytes of zeroed shared memory needed */
void dg_shm_sync_open(dg_shm_sync *m, void *memory, dg_comm *comm);
void dg_shm_sync_leave(dg_shm_sync *m); /* other ranks stop waiting for this one */
void dg_shm_sync_stop(dg_shm_sync *m);  /* ends all waits of all ranks; from any thread */

int dg_shm_sync_status(dg_shm_sync *m) DG_MUST_USE; /* 0, or the failure */
/* From any thread: dg_comm.look. */
int dg_shm_sync_look(const dg_shm_sync *m, bool lost, char why[DG_COMM_WHY]);

/* Enters collective m->next and returns its number; call after writing what the others will read.
 * two: it has a second phase. */
uint64_t dg_shm_sync_enter(dg_shm_sync *m, const dg_meeting *what, bool two);
bool dg_shm_sync_complete(const dg_shm_sync *m, uint64_t k); /* true if all ranks have entered */
int dg_shm_sync_await(dg_shm_sync *m, uint64_t k) DG_MUST_USE;
/* this rank has done its part of the second phase */
void dg_shm_sync_done(dg_shm_sync *m, uint64_t k);
int dg_shm_sync_await_done(dg_shm_sync *m, uint64_t k) DG_MUST_USE;

#endif
