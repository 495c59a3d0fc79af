/* fuzz_run.h: executes a model as the ranks of its mesh would, and watches whether they part.
 *
 * Every rank runs the nodes on values of its own until it reaches a collective; there it waits
 * until all members of the group stand at one. If they stand at the same one (node, operation,
 * element count, root), they get its result and go on. If not, or if nobody can go on,
 * the ranks have diverged. They also have if, at the end, state that all hold alike differs.
 * Tensors are their dimensions and three numbers (sum, largest, smallest), for no more is ever
 * asked of them. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_RUN_H
#define DG_TESTS_INVARIANCE_FUZZ_RUN_H

#include "tests/invariance/fuzz_model.h"

enum { FZ_RANKS = 8, FZ_ITEMS = 48, FZ_LISTS = 16, FZ_KEYS = FZ_IN, FZ_PARAMS = 128 };
enum { FZ_MONITORS = 256, FZ_MOMENTS = 8 };

typedef enum fz_verdict {
    FZ_SAME,
    FZ_OTHER_COLLECTIVE, /* two members of a group stand at different ones */
    FZ_OTHER_COUNT,      /* at the same one with operands of different size */
    FZ_WAITS,            /* one waits for ever */
    FZ_OTHER_STATE,      /* weights, moments, average, running statistics, best */
    FZ_OTHER_NORMALISER,
    FZ_DEALT_TWICE, /* two ranks got the same item of a partition, or nobody got it */
    FZ_NEVER_READY, /* a bucket waits for a gradient that no wire can give */
    FZ_FALSE_ALARM, /* a monitor stops a run that is right */
    FZ_MULTIPLIED,  /* in no run did the operands of a sum differ: it multiplies */
    FZ_OTHER_STEPS, /* a rank takes more steps of the training than another */
    FZ_N_VERDICTS,
} fz_verdict;
extern const char *const fz_verdicts[FZ_N_VERDICTS];

typedef struct fz_fault {
    fz_verdict kind;
    char text[400];
} fz_fault;

/* What can be seen without a run: parameters that no wire leads to. */
bool fz_still(const fz_model *m, fz_fault *f);

struct fz_texts;

/* Operands of each allreduce and reduce with op="sum" over several runs, along either axis, key by
 * key: how often it fired, and how often operands differed. */
typedef struct fz_sums {
    int fired[2][FZ_NODES][FZ_KEYS], differed[2][FZ_NODES][FZ_KEYS];
} fz_sums;

/* One run; true if the ranks diverge. peer: what the last rank has read, with nodes of the same
 * numbers. sums: NULL, or counted up. */
bool fz_run(const fz_model *m, const fz_model *peer, uint64_t seed, fz_fault *f, fz_sums *sums);
/* The same by the printed programs: only data and the course of a run are the model's. */
bool fz_run_programs(const fz_model *m, struct fz_texts *texts, uint64_t seed, fz_fault *f);

/* ---- what follows is shared by the files of the simulator ------------------------------------ */

typedef struct fz_set {
    uint64_t bits[2];
    uint64_t made; /* what ranks brought to the collectives that the gradient goes through */
} fz_set;          /* of parameters */

typedef struct fz_val {
    bool there, bad; /* bad: not finite */
    int nd, dim[4];
    double sum, max, min;
    fz_set grad; /* parameters that it is connected to */
} fz_val;

typedef struct fz_grads {
    fz_set has;
    double g[FZ_PARAMS];
} fz_grads;

/* An item of a stream: of a data set, or a sample of a pick. */
typedef struct fz_item {
    int id, objects, aspect, pick, w, h;
    uint64_t draw;
    bool padding;
} fz_item;
typedef struct fz_list {
    int n;
    bool picks;
    fz_item item[FZ_ITEMS];
} fz_list;

typedef enum fz_what {
    FZ_BARRIER,
    FZ_COMBINE,
    FZ_GRADIENTS,
    FZ_ROOT,
    FZ_GATHER,
    FZ_VOTES,
    FZ_LEAST,
    FZ_INSTR, /* of a printed program */
} fz_what;
typedef struct fz_request {
    fz_what what;
    int node, axis, root, how;
    uint64_t count; /* of elements, keys and all; 0: whatever comes */
    int n_vals;
    fz_val v[FZ_KEYS + 1];
    fz_grads *g;
    long least;
    const struct fz_t_instr *instr;
    uint64_t digest;
    double number;
} fz_request;

typedef enum fz_state {
    FZ_S_EPOCH,
    FZ_S_STREAM,
    FZ_S_HEAD,
    FZ_S_NODES,
    FZ_S_ITERATED,
    FZ_S_SCOPE_END,
    FZ_S_EPOCH_END,
    FZ_S_DONE,
} fz_state;

typedef struct fz_sim fz_sim;
struct fz_machine;
typedef struct fz_rank {
    fz_sim *sim;
    const fz_model *m; /* what this rank has read */
    int r, dp, tp;
    fz_state state, back; /* back: where an evaluation returns to */
    bool blocked, answered;
    fz_request ask;
    fz_dice own; /* numbers that no other rank has */
    /* values */
    double w[FZ_PARAMS];
    uint64_t state_of[FZ_NODES + FZ_PARAMS]; /* history of each piece of replicated state */
    uint64_t choices;                        /* of the best checkpoint, a bit each */
    int n_choices;
    /* time */
    int first; /* epoch: it may go on from a checkpoint */
    int epoch, step, scope, evaluation, iteration, plan;
    int batches, accumulated; /* of training; of an update that is not complete */
    bool stopped, ended, lost,
        begun; /* training, this evaluation, this batch; an epoch has begun */
    /* stream of the scope, and the one that training goes on with after an evaluation */
    struct stream {
        fz_list *last;
        int at, samples;
    } stream, kept;
    int kept_iteration, kept_plan;
    fz_list *list[FZ_NODES];
    fz_list batch;
    int w_px, h_px;
    int late[FZ_NODES]; /* streams that loader threads exchange: at which iteration */
    /* place in the iteration */
    int order[FZ_NODES], n_order, pos;
    int used[FZ_NODES];         /* of each <use>: the node of its model at which it goes on */
    struct fz_machine *machine; /* executes programs; NULL: nodes are executed */
    /* metrics */
    double metric[FZ_NODES], best;
    int without;
    /* large: a run clears as much as it uses (fuzz_run.c) */
    fz_val out[FZ_NODES][FZ_OUT], key[FZ_NODES][FZ_KEYS];
    fz_grads grads[FZ_NODES];
    fz_list lists[FZ_LISTS];
} fz_rank;

struct fz_sim {
    const fz_model *m;
    uint64_t seed;
    int n_ranks;
    int meets[2]; /* the axes of the collectives in the scope */
    fz_fault *fault;
    fz_sums *sums;
    struct fz_texts *texts; /* the printed programs; NULL: the graph is executed */
    long work;
    /* large, see above */
    fz_rank rank[FZ_RANKS];
    struct {
        int plan;
        uint64_t in, items;
    } dealt[FZ_NODES][FZ_RANKS];
    struct fz_sight {
        uint64_t moment; /* scope and batch; 0: none */
        uint64_t seen[FZ_MONITORS];
    } sight[FZ_RANKS][FZ_MOMENTS]; /* what monitors told */
    struct {
        int batch; /* + 1; 0: none */
        double value;
        /* numbers that mean something only if all ranks have the same */
    } whole[FZ_NODES][FZ_RANKS][16];
};

/* What came of a node. */
typedef enum fz_end { FZ_WENT_ON, FZ_WAIT, FZ_LOST_BATCH } fz_end;

fz_end fz_fire(fz_rank *k, int node);
/* The number of a source in this iteration; of a node that copies the source of rank `root`. */
void fz_number(fz_rank *k, int node);
void fz_number_of(fz_rank *k, int node, int source, int root);
/* A sink takes x. */
fz_end fz_score(fz_rank *k, int node, double x);
bool fz_guard(const fz_rank *k, const fz_node *n);
/* Posts what k->ask holds; true once the answer is there. */
bool fz_meet(fz_rank *k);
void fz_part(fz_sim *s, fz_verdict kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool fz_elsewhere(const fz_rank *k,
                  const fz_node *n); /* can this rank never have it, by its place (on)? */
const fz_val *fz_at(const fz_rank *k, fz_wire w);
/* This rank's number among those of an axis, and how many they are. */
int fz_place(const fz_rank *k, int axis, int *n);

/* Lets the group of a blocked rank go on if it is complete. */
bool fz_settle(fz_sim *s, fz_rank *k);
/* Are two ranks in one group of these axes? */
bool fz_mates(const fz_rank *a, const fz_rank *b, int axes);
/* Nobody can go on: who waits for whom? */
void fz_name_the_waiting(fz_sim *s);

/* An iteration: nothing is there yet; the order of nodes; running them (false: waits). */
void fz_forget(fz_rank *k);
void fz_put_in_order(fz_rank *k);
bool fz_iterate(fz_rank *k);
bool fz_is_stream(const fz_node *n); /* does it handle items, before <batch>? */

/* Streams: the list of a data node for this plan; WAIT at an equalize. */
fz_end fz_stream_node(fz_rank *k, int node);
/* Next batch into k->batch; false: the stream has ended. */
bool fz_stream_next(fz_rank *k);
void fz_stream_batch(fz_rank *k, int node); /* outputs of <batch> */

static inline void fz_add(fz_set *s, int i)
{
    s->bits[i / 64] |= UINT64_C(1) << (i % 64);
}
static inline bool fz_in(const fz_set *s, int i)
{
    return s->bits[i / 64] >> (i % 64) & 1;
}
/* True for a collective that has a gradient: sums, means, copies of the root's, gathers. */
static inline bool fz_differentiates(const fz_node *n)
{
    const int how = fz_given(n->how, FZ_MEANT);

    return (n->op == FZ_ALLREDUCE && (how == FZ_SUMMED || how == FZ_MEANT)) ||
           n->op == FZ_BROADCAST || n->op == FZ_ALLGATHER;
}
/* Parameters of a model's decoder: those of its denoising, box and class heads. */
enum { FZ_P_DENOISING = 96, FZ_P_BOX = 104, FZ_P_CLASS = 112 };

/* True for scores that ranks join once, when their evaluations have ended: then all have the same.
 */
static inline bool fz_joins_at_end(const fz_model *m, int node)
{
    const fz_node *n = &m->node[node];

    return (n->op == FZ_METRIC || n->op == FZ_COCO) && n->axis != FZ_NONE &&
           (fz_given(m->tp, 1) == 1 || n->axis == (FZ_DP | FZ_TP));
}

#endif
