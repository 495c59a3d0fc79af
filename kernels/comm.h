/* comm.h: collectives between the ranks of a run. comm/shm.c implements this table for ranks of one
 * machine, comm/gloo.c for several machines. Operands are in host memory.
 *
 * Every rank calls the same collectives in the same order, one at a time; only abort may be called
 * while another call runs. Threads that call independently of each other need a communicator each:
 * see duplicate. Results have the same bits on every rank and in every run. If a rank's collective
 * differs from the others' (kind, operator or root, type, size, place), or a rank never arrives,
 * the wait of every rank ends with an error, before anything is combined.
 *
 * Status: 0; -DG_ESTOP after abort; -DG_EIO after losing a peer; -DG_EINTERNAL if the ranks'
 * collectives differ; -DG_EUNSUPPORTED for an unknown type or operator. `why` then holds the
 * reason. After a failure every further call fails with the same status. */
#ifndef DG_KERNELS_COMM_H
#define DG_KERNELS_COMM_H

#include <detrgraph/kernel.h>

typedef struct dg_comm dg_comm;

/* Where in the pipeline a rank calls: set it before a call. Ranks that call at the same time must
 * have the same id; the texts are for the error. Zeros: the place is not known. */
enum { DG_COMM_TEXT = 112, DG_COMM_WHY = 512 };
typedef struct dg_comm_place {
    uint64_t id;
    char text[DG_COMM_TEXT]; /* "of train/mean (x.xml:8:5)" */
} dg_comm_place;

/* What ranks come to. */
typedef enum dg_meeting_kind {
    DG_MEET_REDUCE = 1,
    DG_MEET_REDUCE_PIECES,
    DG_MEET_BROADCAST,
    DG_MEET_GATHER,
    DG_MEET_BARRIER
} dg_meeting_kind;

/* Totals of one rank's collectives. */
typedef struct dg_comm_cost {
    int64_t n, bytes; /* collectives; bytes that this rank contributed */
    double wait_s;    /* time asleep waiting for other ranks, i.e. not overlapped */
    double work_s;    /* time copying and adding */
} dg_comm_cost;

struct dg_comm {
    const char *name; /* e.g. "shm" */
    int rank, ranks;
    char why[DG_COMM_WHY]; /* the last failure, for people; "" before */
    dg_comm_place place;   /* of the next call */
    const dg_where *where; /* the node of that place, or NULL */
    dg_comm_cost cost;
    struct dg_peers *peers; /* the same ranks' devices (kernels/peers.h); NULL: there are none */
    /* Begins the in-place reduction of x over all ranks: f32, f64 or i32; sum, max, min (NaN wins),
     * mean (integers round towards zero). Do not touch x until wait returns. Several may be in
     * flight, and wait takes tickets in any order; waiting again for a finished ticket returns
     * 0. */
    int (*start)(dg_comm *self, dg_tensor x, dg_reduce op, int64_t *ticket);
    int (*wait)(dg_comm *self, int64_t ticket);
    /* Copies the root's bytes to every rank. */
    int (*broadcast)(dg_comm *self, void *p, size_t bytes, int root);
    /* all: ranks * bytes, in rank order. */
    int (*gather)(dg_comm *self, const void *mine, size_t bytes, void *all);
    /* Rank r contributes bytes[r], the same array on every rank; all holds their sum, in rank
     * order. */
    int (*gather_ragged)(dg_comm *self, const void *mine, const size_t bytes[], void *all);
    int (*barrier)(dg_comm *self);
    /* Only compares: each rank says what it is about to do by other means, and returns when all
     * have come to the same. a: operator or root; n: elements of that type, or bytes, of all ranks
     * together where they gather. cost.bytes counts what this rank will contribute. */
    int (*meet)(dg_comm *self, dg_meeting_kind kind, int a, dg_dtype type, size_t n);
    /* From any thread, without waiting: 0, or the status that further calls have, with its reason.
     * lost: also if a rank of this machine has ended or left, as far as that can be seen. */
    int (*look)(dg_comm *self, bool lost, char why[DG_COMM_WHY]);
    /* Zeroed memory that is reduced without copying, for the gradient space; owned by the
     * communicator; NULL if it has none. A collective: every rank asks for the same size. The
     * pointer may be NULL: use any memory. */
    void *(*memory)(dg_comm *self, size_t bytes);
    /* Makes another communicator of the same ranks: calls on one do not wait for calls on the
     * other. A collective; once for a communicator, and not for a duplicate. The caller closes it
     * before the original. */
    int (*duplicate)(dg_comm *self, dg_comm **other);
    /* Makes every call, current and future, return -DG_ESTOP, on its duplicate as well. Any thread
     * may call it, any number of times. With shared memory it stops all ranks of the machine at
     * once. */
    void (*abort)(dg_comm *self);
    void (*close)(dg_comm **self);
};

#endif
