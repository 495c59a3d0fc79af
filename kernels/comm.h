/* comm.h: collectives between the ranks of a run, as the executor and the session see them. runtime/comm_shm.c fills
 * this table for CPU ranks of one machine, comm_gloo for several, the CUDA module's nccl for GPUs.
 *
 * Every rank calls the same collectives in the same order from one thread; only abort may come from another. Each
 * gives the same bits on every rank, and the same bits in every run. A rank that comes with something else than the
 * others (kind, operator, type, size), or never, ends the wait of all with an error: it is not waited for in vain.
 *
 * Status: 0; -DG_ESTOP after abort; -DG_EIO where a peer was lost; -DG_EINTERNAL where the ranks came with different
 * collectives; -DG_EUNSUPPORTED for a type or operator that the communicator does not know. `why` then says what was
 * seen. After a failure every further call fails alike. */
#ifndef DG_KERNELS_COMM_H
#define DG_KERNELS_COMM_H

#include <detrgraph/kernel.h>

typedef struct dg_comm dg_comm;

/* What the collectives of one rank have cost so far. */
typedef struct dg_comm_cost {
    int64_t n, bytes; /* collectives; bytes of this rank that took part in them */
    double  wait_s;   /* this rank slept until the others came: what is not hidden */
    double  work_s;   /* it copied and added */
} dg_comm_cost;

struct dg_comm {
    const char  *name; /* "shm" */
    int          rank, ranks;
    char         why[192]; /* of the last failure, for people; "" before */
    dg_comm_cost cost;
    bool         device; /* operands are in device memory (nccl); else in the host's */
    /* Begins the reduction of x over all ranks, in place: f32, f64, i32; sum, max, min (a NaN wins), mean (of whole
     * numbers rounded towards zero). x must not be touched until wait has returned. Several may be under way; wait takes
     * tickets in any order. Values of wait for tickets that were waited for already: 0. */
    int (*start)(dg_comm *self, dg_tensor x, dg_reduce op, int64_t *ticket);
    int (*wait)(dg_comm *self, int64_t ticket);
    /* The root's bytes reach every rank. */
    int (*broadcast)(dg_comm *self, void *p, size_t bytes, int root);
    /* all: ranks * bytes, in rank order. */
    int (*gather)(dg_comm *self, const void *mine, size_t bytes, void *all);
    /* bytes[r] of each rank r, the same array on every rank; all holds their sum, in rank order. */
    int (*gather_ragged)(dg_comm *self, const void *mine, const size_t bytes[], void *all);
    int (*barrier)(dg_comm *self);
    /* Zeroed memory of this rank in which reductions need no copy: the gradient space. A collective: every rank asks
     * for the same size. Belongs to the communicator; NULL where there is none. The slot may be NULL: use any memory. */
    void *(*memory)(dg_comm *self, size_t bytes);
    /* Makes every call return -DG_ESTOP, now and later; from any thread, at any time, again and again. Where memory is
     * shared this holds for all ranks of the machine at once. */
    void (*abort)(dg_comm *self);
    void (*close)(dg_comm **self);
};

#endif
