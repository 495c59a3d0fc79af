/* fuzz_model.h: a pipeline as the fuzzer thinks of it. Nothing here knows the engine: the
 * generator fills a model, fuzz_xml.c writes it as a pipeline (or reads one), and the simulator
 * executes it. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_MODEL_H
#define DG_TESTS_INVARIANCE_FUZZ_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FZ_NODES = 96, FZ_IN = 6, FZ_OUT = 6, FZ_ID = 24, FZ_NONE = -1 };

/* Classes. What the simulator does not tell apart is one operation with several names. */
typedef enum fz_op {
    FZ_LOADER,
    FZ_PARTITION,
    FZ_FILTER,
    FZ_EQUALIZE,
    FZ_SAMPLER,
    FZ_PLAIN,
    FZ_AUGMENT,
    FZ_CROP,
    FZ_RESIZE,
    FZ_BATCH,
    FZ_NUMBER,
    FZ_STEP,
    FZ_EPOCH,
    FZ_RANK,
    FZ_CLOCK,
    FZ_MEMORY,
    FZ_FILE,
    FZ_RANDOM,
    FZ_TEST,
    FZ_SUM,
    FZ_RECORD,
    FZ_LINEAR,
    FZ_NORM,
    FZ_GRADIENT_NORM,
    FZ_ALLREDUCE,
    FZ_REDUCE,
    FZ_BROADCAST,
    FZ_AGREE,
    FZ_ALLGATHER,
    FZ_ALLGATHERV,
    FZ_SKIP,
    FZ_STOP,
    FZ_BACKWARD,
    FZ_ADAMW,
    FZ_EMA,
    FZ_LOG,
    FZ_MEAN,
    FZ_EMBED,
    FZ_NOISE,
    FZ_FIXED,
    FZ_METRIC,
    FZ_INPUT,
    FZ_USE,
    FZ_BACKBONE,
    FZ_ENCODER,
    FZ_DECODER,
    FZ_DENOISING,
    FZ_LOSS,
    FZ_DETECT,
    FZ_COCO,
    FZ_N_OPS,
} fz_op;

typedef enum fz_type {
    FZ_T_DATASET,
    FZ_T_PICKS,
    FZ_T_SAMPLES,
    FZ_T_INT,
    FZ_T_REAL,
    FZ_T_TENSOR,
    FZ_T_LABELS,
    FZ_T_RECORD,
    FZ_T_GRADIENTS,
    FZ_T_PARAMETERS,
    FZ_T_METRICS,
    FZ_T_NOTHING,
} fz_type;

enum {
    FZ_DATA = 1,
    FZ_SCALAR = 2,
    FZ_TENSOR_OP = 4,
    FZ_COLLECTIVE = 8,
    FZ_TRAINED = 16,
    FZ_ANY_NAMES = 32,
    FZ_INSIDE_MODEL = 64
};
typedef struct fz_class {
    const char *name;
    const char *ins;  /* input ports: "in count?"; FZ_ANY_NAMES: any attributes */
    const char *outs; /* output ports, the main one first */
    uint32_t flags;
} fz_class;
extern const fz_class fz_classes[FZ_N_OPS];

/* A wire: output port of a node; key: of the record on that port, by the number of the input that
 * made it. */
typedef struct fz_wire {
    int node, port, key;
} fz_wire;

/* Numbers of words: FZ_NONE is "not given". */
enum { FZ_DP = 1, FZ_TP = 2 };                                              /* axis */
enum { FZ_SUMMED, FZ_MAX, FZ_MIN, FZ_MEANT, FZ_ANY, FZ_ALL };               /* how */
enum { FZ_EQ_NONE, FZ_EQ_DROP, FZ_EQ_PAD };                                 /* equal */
enum { FZ_TAIL_DROP, FZ_TAIL_PAD, FZ_TAIL_KEEP };                           /* tail */
enum { FZ_SEED_RANK, FZ_SEED_SHARED, FZ_SEED_SAMPLE };                      /* seed */
enum { FZ_POSITIVE, FZ_ZERO, FZ_FINITE, FZ_NONFINITE, FZ_ABOVE, FZ_BELOW }; /* is */
enum { FZ_EMPTY_ABSENT, FZ_EMPTY_ZERO, FZ_EMPTY_PAD };                      /* empty */
enum { FZ_BATCH_NORM, FZ_SYNC_NORM };                                       /* norm */
enum { FZ_ABORT, FZ_VOTE };                                                 /* on_fail */
enum { FZ_TERMS_ALL, FZ_TERMS_CLASS, FZ_TERMS_BOX };                        /* terms */
enum { FZ_REWRITTEN = -2 };                                                 /* peer */

typedef struct fz_node {
    int op;
    char id[FZ_ID];
    int scope; /* FZ_IN_MODEL + m, FZ_IN_TRAIN, FZ_IN_EVALUATE */
    bool dead; /* taken out */
    int n_in;
    fz_wire in[FZ_IN];
    char name[FZ_IN][FZ_ID]; /* of inputs, where any name will do */
    fz_wire when;
    int axis, how, root, equal, aligned, shuffle, seed, tail, repeat, files, is, connect, empty,
        norm, on, budget, on_fail, exact, frozen, recompute, optional, batch, images, width,
        min_objects, sizes, size_pick, model, terms, freeze_norm;
    double than, value, low, high; /* NAN: not given */
} fz_node;
enum { FZ_IN_TRAIN, FZ_IN_EVALUATE, FZ_IN_MODEL };

typedef struct fz_model {
    int n_nodes;
    fz_node node[FZ_NODES]; /* models first, then train, then evaluate; document order */
    int dp, tp;
    int steps, epochs, accumulate, on_fail, patience, patience_minutes;
    int evaluates, eval_on, eval_budget, every_epochs, every_steps, every_minutes;
    int n_models;
    char model_id[4][FZ_ID];
    fz_wire best; /* metrics of the evaluation that choose the checkpoint */
    int peer;     /* what the last rank has read: FZ_NONE the same file, FZ_REWRITTEN the same graph
                     in another file, else a file without this node */
} fz_model;

/* Words of nodes, as they are written and read. */
typedef enum fz_attr_kind { FZ_WORD, FZ_INT, FZ_AXIS, FZ_NUM, FZ_SIZES, FZ_BUDGET } fz_attr_kind;
typedef struct fz_attr {
    const char *name; /* NULL ends the table */
    fz_attr_kind kind;
    size_t at;         /* in fz_node */
    const char *words; /* of WORD */
    uint64_t ops;      /* bit of each class that has it; 0: all have */
    int otherwise;     /* the word that is meant where none is given; FZ_NONE: it depends */
} fz_attr;
extern const fz_attr fz_attrs[];
extern const char *const fz_sizes[4]; /* what sizes= may say; how many that lists: */
extern const int fz_n_sizes[4];

void fz_model_clear(fz_model *m);
/* A new node with nothing given and nothing wired; NULL if the model is full. */
fz_node *fz_model_add(fz_model *m, int op, int scope);
/* Input ports of a class: how many, by name (FZ_NONE), and whether one may stay unwired. */
int fz_inputs(int op);
int fz_input_named(int op, const char *name);
bool fz_input_optional(int op, int i);
/* The i-th word of a list separated by spaces, and its length; 0 past the end. */
int fz_word(const char *list, int i, const char **at);
/* The k-th input node of a model; FZ_NONE. */
int fz_model_input(const fz_model *m, int model, int k);
/* The node that names the keys of a record that comes out of this one; FZ_NONE. */
int fz_record_of(const fz_model *m, int node);
/* May a node launch a collective (of the data plane or of the control plane) there? */
bool fz_launches(const fz_model *m, int node);

void fz_write(FILE *to, const fz_model *m);
/* Reads a pipeline; false with a reason if it has something that a model cannot say. */
bool fz_read(fz_model *m, const char *text, char *why, size_t n);

static inline int fz_given(int word, int otherwise)
{
    return word == FZ_NONE ? otherwise : word;
}

/* Random numbers: a pure function of a key. */
static inline uint64_t fz_mix(uint64_t a, uint64_t b)
{
    uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;

    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    z *= 0xd6e8feb86659fd93u;
    return z ^ (z >> 32);
}
static inline double fz_unit(uint64_t h)
{
    return (double)(h >> 11) * 0x1p-53;
}
typedef struct fz_dice {
    uint64_t key, n;
} fz_dice;
static inline uint64_t fz_roll(fz_dice *d)
{
    return fz_mix(d->key, ++d->n);
}
static inline int fz_below(fz_dice *d, int n)
{
    return (int)(fz_roll(d) % (uint64_t)n);
}
static inline bool fz_chance(fz_dice *d, int percent)
{
    return fz_below(d, 100) < percent;
}

#endif
