/* backend.h: a device, as the planner and the executor see it: memory, lanes of work, kernels.
 *
 * A backend may work later than it is called. What is put on a lane is done in the order of that
 * lane; lanes do not wait for each other, except for events. On the host every call is done when it
 * returns, an event is always in the past, and none of this costs anything.
 *
 * Host memory: a lane may still read and write memory from alloc_pinned after the call returns, so
 * the caller does not touch it until an event recorded behind that work has passed. Any other host
 * memory is the caller's again as soon as the call returns: an upload has copied it, a download has
 * waited for it.
 *
 * Status: 0 or -DG_E...; a fault that shows later is returned by the next call that waits, and
 * `fault` says where it began. After a fault every call that waits returns it again.
 *
 * docs/decisions/backend.md tells why; kernels/host is the host, kernels/far a device whose memory
 * and clock are far away, for tests. */
#ifndef DG_KERNELS_BACKEND_H
#define DG_KERNELS_BACKEND_H

#include <detrgraph/kernel.h>

typedef struct dg_backend dg_backend;
struct dg_comm;                           /* kernels/comm.h */
typedef struct dg_event dg_event;         /* a place in a lane */
typedef struct dg_recording dg_recording; /* work of a lane, to be done again */

typedef enum dg_lane {
    DG_LANE_COMPUTE, /* kernels */
    DG_LANE_COPY,    /* the next batch in, checkpoints out */
    DG_LANE_COMM,    /* collectives */
    DG_N_LANES
} dg_lane;

enum { DG_NO_MARK = -1, DG_BACKEND_WHY = 320 };

/* A kernel (NULL: nothing to compute) with its operands. It and all that it points to stay as they
 * are until the lane has run it, and for as long as a recording has it. */
typedef struct dg_launch {
    const dg_kernel *kernel;
    const dg_args *args;
    /* Device memory, or NULL. Where it holds 0 the kernel does not run; output 0 then becomes a
     * copy of operand `otherwise`, or, if that is -1, the outputs in zero_outputs become zeros. */
    const int32_t *guard;
    int otherwise;
    uint32_t zero_outputs; /* bit k: operand n_in + k */
    int n_in;
    int mark; /* the caller's number for it, which `fault` gives back */
} dg_launch;

/* Whether a launch gains from being given together with others of the same op. */
typedef enum dg_join {
    DG_JOIN_NONE,
    DG_JOIN_SIDE, /* with those that read nothing of each other's results: at the same time */
    DG_JOIN_TURN, /* also with those that do: one after the other */
} dg_join;

/* What a device can do at most in a second, by its maker's numbers; 0: not known. */
typedef struct dg_limits {
    double bytes, flops_f32, flops_bf16;
} dg_limits;

struct dg_backend {
    const char *name; /* as it was opened: "cpu", "far" */
    /* Work is done when a call returns, and device memory is host memory. */
    bool immediate;
    size_t alignment; /* of what alloc gives, and of every operand: bytes */
    int n_marks;      /* the callers': marks in use are below, so that plans do not share one */
    /* Pieces of work that the device was given, or a recording has: kernels, products, copies. 0
     * where work is done at once. */
    int64_t n_put;
    dg_limits limits;

    void (*close)(dg_backend **self);
    /* One line for people: "AVX-512 BF16, 2 threads"; into buf, which is returned. */
    const char *(*describe)(dg_backend *self, char *buf, size_t n);
    int (*memory)(dg_backend *self, int64_t *free_bytes, int64_t *total_bytes);

    /* Zeroed; NULL where there is not enough. free waits until no lane uses the memory. */
    void *(*alloc)(dg_backend *self, size_t bytes);
    void (*free)(dg_backend *self, void *p);
    void *(*alloc_pinned)(dg_backend *self, size_t bytes);
    void (*free_pinned)(dg_backend *self, void *p);

    int (*upload)(dg_backend *self, dg_lane lane, void *device, const void *host, size_t bytes);
    int (*download)(dg_backend *self, dg_lane lane, void *host, const void *device, size_t bytes);
    /* On the device; the places of a copy do not overlap. */
    int (*copy)(dg_backend *self, dg_lane lane, void *to, const void *from, size_t bytes);
    int (*clear)(dg_backend *self, dg_lane lane, void *p, size_t bytes);
    int (*launch)(dg_backend *self, dg_lane lane, const dg_launch *l);
    /* For an op with operands of these shapes. NULL: no launch gains. */
    dg_join (*joins)(dg_backend *self, const dg_op *op, const dg_tensor *t, int n);
    /* n of them, for which joins says so, in few pieces of work. in_turn: some read results of
     * others before them; else their operands and workspaces are in different places. */
    int (*launch_joined)(dg_backend *self, dg_lane lane, const dg_launch *l, int n, bool in_turn);
    /* A function of the host in the lane's order. It sees pinned memory, no device memory, and may
     * wait for other ranks; its status is the work's. */
    int (*call)(dg_backend *self, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark);
    /* The lane writes value to *word, any host memory that outlives the backend: its position, for
     * observers. */
    int (*sign)(dg_backend *self, dg_lane lane, uint32_t *word, uint32_t value);

    /* NULL: no memory. One that was never recorded is in the past. */
    dg_event *(*event_open)(dg_backend *self);
    void (*event_close)(dg_backend *self, dg_event **e);
    int (*event_record)(dg_backend *self, dg_event *e, dg_lane lane);
    int (*lane_wait)(dg_backend *self, dg_lane lane, dg_event *e); /* the lane, not the caller */
    int (*event_wait)(dg_backend *self, dg_event *e);              /* the caller */
    /* One that keeps the time at which it passed. NULL: the device has no clock. */
    dg_event *(*stamp_open)(dg_backend *self);
    /* From one of those to another, on the same lane; both have passed. */
    int (*seconds)(dg_backend *self, dg_event *from, dg_event *to, double *seconds);

    /* Waits until all lanes are empty. */
    int (*finish)(dg_backend *self);
    /* After a failure: the mark of the work that failed first, or DG_NO_MARK. */
    int (*fault)(dg_backend *self);

    /* Between begin and end, the calls above add to the lane's recording instead of working. Calls
     * that wait or use pageable memory fail with -DG_EUNSUPPORTED. NULL if replaying would not be
     * faster than launching one by one. */
    int (*record_begin)(dg_backend *self, dg_lane lane);
    int (*record_end)(dg_backend *self, dg_recording **r);
    int (*replay)(dg_backend *self, dg_lane lane, const dg_recording *r);
    void (*recording_close)(dg_backend *self, dg_recording **r);

    /* Sets comm->peers, for collectives between the devices of comm's ranks: every rank calls it.
     * Where they cannot, comm->peers stays NULL and why says so, for the log. NULL: the backend has
     * no such thing. */
    int (*peers_open)(dg_backend *self, struct dg_comm *comm, char why[DG_BACKEND_WHY], dg_diag *d);
    /* The kernel of an op for operands of these types. NULL: this backend has none; on a device
     * that is not `immediate` the executor then runs the host's kernel on copies of the operands.
     * *is_ref: it is a reference kernel. */
    const dg_kernel *(*select)(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                               bool *is_ref);
    /* Whether parameters that the op reads had better be cast once, ahead of all readers, to the
     * type that it computes in. NULL: of no op. */
    bool (*wants_casts)(dg_backend *self, const dg_op *op);
    /* Whether an op whose row prefers bf16 runs faster in f32 with operands of these shapes. */
    bool (*prefers_wide)(dg_backend *self, const dg_op *op, const dg_tensor *t, int n);
    /* The fastest storage for DG_LOW ops when bf16 was asked for: DG_BF16, or DG_F32 where bf16
     * would be slower; reason is one line for the log. */
    dg_dtype (*low_precision)(dg_backend *self, const char **reason);
    /* From now on products and convolutions may round f32 factors to 10 bits behind the point
     * (tf32); sums stay f32. False: this device cannot. NULL: none of its kind can. */
    bool (*allow_tf32)(dg_backend *self);
};

/* Opens the device of that name: "cpu" (f32 and bf16 by host kernels, f64 by ref kernels), "ref"
 * (ref kernels for f32 too), "far" (the kernels of cpu, on a device for tests), "cuda" (a GPU).
 * -DG_EINPUT with the list of names for any other. */
int dg_backend_open(dg_backend **b, const char *device, dg_diag *d) DG_MUST_USE;
void dg_backend_close(dg_backend **b);
/* allow_tf32, or -DG_EUNSUPPORTED with what else to write; where: the precision. */
int dg_backend_tf32(dg_backend *b, dg_where where, dg_diag *d) DG_MUST_USE;

/* The host's kernel of an op; NULL: it has none either. What stands in where a device lacks one. */
const dg_kernel *dg_host_kernel(const dg_op *op, const dg_tensor *t, int n, bool *is_ref);

/* Whether an operand that is there has that type. */
static inline bool dg_any_of(const dg_tensor *t, int n, dg_dtype type)
{
    for (int i = 0; i < n; i++)
        if (t[i].dtype == type && t[i].shape.rank >= 0)
            return true;
    return false;
}

/* What launch does on the host, now: guard, kernel, or what a skipped kernel leaves. */
int dg_launch_now(const dg_launch *l);

/* What the CPU can do, for logs and reports: "AVX-512 BF16 AMX". */
const char *dg_cpu_features(char *buf, size_t n);
/* Libraries whose version changes results: "oneDNN 2.6.3". */
const char *dg_library_versions(char *buf, size_t n);
/* Frees what a library keeps of kernels that are closed, for others like them: of a plan that was
 * only tried, some 100 MB of addresses. */
void dg_library_forget(void);

#endif
