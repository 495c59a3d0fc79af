/* vary.h: shared by the files of the proof: sets of axes with their causes, the state of a port,
 * and the faults found. */
#ifndef DG_PROOF_VARY_H
#define DG_PROOF_VARY_H

#include "graph/lower.h"
#include "graph/rule.h"
#include "graph/edit.h"
#include "proof/proof.h"

enum { DG_VARY_AXES = 4, DG_VARY_FLAGS = 62 };
enum { DG_FILLED = 1, DG_NOT_FILLED };
#define DG_VARY_NEVER (UINT64_C(1) << 63)

typedef struct dg_vary_axis {
    const char *name;
    int64_t size;
} dg_vary_axis;

/* A set of axes over which something varies, and the cause of each (index into dg_proof.causes). */
typedef struct dg_vary {
    uint32_t axes;
    int32_t cause[DG_VARY_AXES];
} dg_vary;

/* A step on the path from a rank's own data to a fault. */
typedef struct dg_cause {
    const dg_node *node;
    dg_where where;
    const char *text, *key; /* key: "when ...", "row ...": what kind of step it is */
    int32_t from;           /* the previous step; 0: a source */
    int32_t root;           /* the first step that is more than a value; 0: none yet */
    int32_t source;         /* the first step */
} dg_cause;

struct dg_keyed;
/* What is known about an output, or about an input wired to one. */
typedef struct dg_seen {
    bool there; /* false: not wired */
    bool stream;
    bool may;            /* may be missing where it could exist, if only on all ranks at once */
    bool changes, leads; /* image size, and leading dimension, change from item to item */
    bool endless;
    int flag;       /* number of the value, which tells guards apart; 0: none */
    uint64_t needs; /* bits of p->flags: guards that hold wherever it is present */
    /* bits of p->flags: guards that imply its presence, apart from `present`; NEVER: something else
     * is needed, too */
    uint64_t enough;
    int at; /* 1 + the only rank that can have it; 0: several can; negative: none can */
    dg_vary value, present, rate, size, lead, partial, inexact;
    const dg_node *reduced; /* a <reduce> that it hangs on: its root alone has the result */
    bool learned;           /* hangs on trainable parameters */
    /* how the operands differed that depend on parameters and reached this value through
     * collectives: its gradient differs over these axes too */
    dg_vary made;
    /* of rate: what was added after an endless sampler, which cancels what came before */
    dg_vary after;
    const struct dg_keyed *keys; /* for records whose keys are distinguished */
    int n_keys;
} dg_seen;

typedef struct dg_keyed {
    const char *name;
    dg_seen seen;
} dg_keyed;

typedef struct dg_clocked { /* the loop of a scope */
    dg_vary rate, skip;
    dg_vary rounds; /* of all its streams, including endless ones */
    dg_vary ends;   /* of rate: what ends it permanently */
    bool timed;     /* ends after a number of steps */
    bool endless;   /* has an endless stream: the length of its epochs is agreed on */
    bool stops;     /* has a <stop> */
    bool shared;    /* has a collective */
} dg_clocked;

/* a collective, to be compared with the clock once it is known */
typedef struct dg_vary_meeting {
    const dg_node *node;
    uint32_t axes;
    bool at_end; /* once, when the loop has ended on all ranks */
} dg_vary_meeting;

typedef struct dg_visited { /* an evaluation with collectives */
    const dg_scope *scope;
    const dg_node *node; /* the first node with one */
    uint32_t axes;
} dg_visited;

/* A node or output that may be missing on some ranks, for a reason of its own. */
typedef struct dg_root {
    const dg_node *node;
    dg_absence absent;
    dg_vary present;
    int flag; /* its guard's index in p->flags; -1: another reason */
} dg_root;

/* What lowering showed about an input: a tensor, or one key of a record; port DG_VARY_INNER: about
 * an operand of a collective inside the node. */
enum { DG_VARY_INNER = -1 };
typedef struct dg_vary_fact {
    int node, port, next; /* next: next fact of the same node, -1 */
    const char *key;      /* "" for a tensor */
    dg_shape shape;
    bool by_size, by_lead;             /* a dimension follows the image size; the batch */
    bool inner_by_size, inner_by_lead; /* a dimension other than the leading one does */
    int lost;                          /* the root without which it is missing; -1: none */
    bool at_times;                     /* it may be missing on all ranks at once */
} dg_vary_fact;
typedef DG_VEC(dg_vary_fact) dg_vary_facts;

/* A tensor that a node with connect="zero" takes, or a key of a record. */
typedef struct dg_taken {
    const dg_node *node;
    int port;
    const char *key; /* "" for a tensor */
    dg_shape shape;
    bool whole; /* i32 */
} dg_taken;

/* A trainable parameter that has no gradient without a root. */
typedef struct dg_lost {
    int param, root;
} dg_lost;

typedef struct dg_vary_finding {
    const char *code;
    bool warning;
    dg_where at;
    uint32_t axes;
    int32_t cause;
    const char *to;                /* path of the node that the path leads to; NULL: at.node */
    const char *text, *help, *way; /* help, and another way out; may be NULL */
} dg_vary_finding;

typedef struct dg_proof {
    const dg_graph *g;
    dg_arena *arena;
    dg_params *params;
    dg_vary_marks *marks;
    dg_monitors *monitors; /* NULL, or the list to add trusted properties to */
    const bool *opaque;    /* by node number: only its class knows what it computes */
    bool *trained;         /* by node number: it has trainable parameters */
    int *turns;            /* by node number: visits so far in this walk; for monitors */
    dg_vary_axis axes[DG_VARY_AXES];
    int n_axes;
    uint32_t live;           /* axes with more than one rank */
    DG_VEC(dg_cause) causes; /* index 0 means none */
    dg_map *roots_by_key;    /* -> number of the first cause with that key, as int * */
    DG_VEC(dg_vary_finding) faults;
    const dg_scope *scope; /* the scope being walked */
    bool train;
    /* of that scope: */
    DG_VEC(dg_vary_meeting) meetings;
    DG_VEC(dg_vary_meeting) agreements; /* of loaders, at the start of an epoch */
    DG_VEC(dg_root) roots;
    DG_VEC(dg_root) together; /* what may be missing on all ranks at once */
    bool wants_sizes;         /* a collective's operand may follow a size that varies */
    dg_vary_facts facts;      /* set by lowering */
    int *first_fact;          /* by node number; -1 */
    bool lowered;
    DG_VEC(dg_lost) lost;
    DG_VEC(dg_taken) taken;
    char *filled;          /* by node number: DG_FILLED in all its uses; 0: not visited */
    const dg_node *keeper; /* the first node that updates state which must be equal on all ranks */
    const dg_node *skewed; /* the node that makes image sizes differ */
    dg_vary skew;
    dg_clocked *clock;
    DG_VEC(int) flags; /* values that are guards: numbers as in dg_seen.flag */
    int n_values;      /* number of the latest value */
    /* of the whole graph: */
    DG_VEC(dg_visited) visited;
    dg_vary metric;           /* how the number of <checkpoint best> differs */
    int metric_at;            /* as in dg_seen.at */
    const dg_clocked *scored; /* its loop */
    uint32_t joined;          /* axes over which it is combined */
    bool shared;              /* <train> has a collective */
} dg_proof;

/* A scope, or a model in use, being walked. */
typedef struct dg_walked {
    const dg_scope *scope;
    const dg_seen *inputs; /* of the model */
    dg_vary fires;
    uint64_t needs, enough; /* as in dg_seen, of the enclosing <use> */
    int at;                 /* of the enclosing <use>, or the rank of the scope */
    dg_seen **out;          /* by node->index */
} dg_walked;

/* A node being visited. */
typedef struct dg_visit {
    dg_walked *f;
    const dg_node *node;
    dg_seen *in, *out;
    dg_vary fires, around, guard, bypass; /* around: of the scope, the skips */
    dg_vary zeros;                        /* where connect replaces its result by zeros */
    dg_vary own;                          /* of fires: without that of the scope */
    int flag;                             /* its guard's index in p->flags; -1: none */
    uint64_t needs, enough;               /* as in dg_seen, of its firing */
    int at;                               /* as in dg_seen */
    bool guarded;                         /* its guard is wired */
    int guard_at;                         /* as in dg_seen, of its guard */
    bool filled; /* connect: where something keeps it from firing, its outputs are zeros */
    int turn;    /* visits of this node before; for monitors */
} dg_visit;

/* --- axes.c: sets of axes and their causes */
const char *dg_vary_called(const dg_proof *p, const dg_node *node); /* <loss.rtdetr id="loss"> */
uint32_t dg_vary_axes_of(const dg_proof *p, const char *text);
uint32_t dg_vary_row_axes(const dg_proof *p, const dg_node *node, const dg_rule *r);
const char *dg_vary_name(const dg_proof *p, uint32_t axes); /* "dp (2 ranks)" */
dg_vary dg_vary_join(dg_vary a, dg_vary b);
dg_vary dg_vary_minus(dg_vary a, uint32_t axes);
dg_vary dg_vary_only(dg_vary a, uint32_t axes);
/* A new cause over axes. value: only a value so far; key identifies roots. */
dg_vary dg_vary_source(dg_proof *p, uint32_t axes, const dg_node *node, dg_where at, bool value,
                       const char *key, const char *fmt, ...) DG_PRINTF(7, 8);
/* The same axes with one more step. */
dg_vary dg_vary_step(dg_proof *p, dg_vary from, const dg_node *node, dg_where at, const char *key,
                     const char *fmt, ...) DG_PRINTF(6, 7);

/* --- findings.c: faults, each root once */
/* Adds a fault; the caller sets help and way in the result. */
dg_vary_finding *dg_vary_fault(dg_proof *p, const char *code, dg_where at, dg_vary v,
                               const char *fmt, ...) DG_PRINTF(5, 6);
void dg_vary_warn(dg_proof *p, const char *code, dg_where at, dg_vary v, const char *help,
                  const char *fmt, ...) DG_PRINTF(6, 7);
/* Reports the faults; two: as warnings about two ranks. Returns -DG_EINPUT after an error. */
int dg_vary_report(dg_proof *p, bool two, dg_diag *d);

/* --- collectives.c: requirements of collectives and state */
void dg_vary_collective(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen in[],
                        dg_vary fires, dg_seen *out);
void dg_vary_agreement(dg_proof *p, const dg_node *node, uint32_t axes, dg_vary fires);
/* The axes over which a <reduce> leaves its result on its root; 0: of NULL. */
uint32_t dg_vary_reduced_over(const dg_proof *p, const dg_node *node);
void dg_vary_state(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen in[],
                   dg_vary fires);
void dg_vary_accumulated(dg_proof *p, const dg_visit *v);
void dg_vary_rate(dg_proof *p, const dg_node *node, dg_vary rate, uint32_t axes);
void dg_vary_clocks(dg_proof *p); /* compares collectives with clocks */

/* --- advice.c: ways out, as edits that can be made word by word; NULL: none is known */
const dg_cause *dg_vary_first(const dg_proof *p, dg_vary v); /* the root, or source, of a cause */
/* What the port reads comes through a new collective: "agree op=\"any\"". */
const char *dg_vary_through(const dg_proof *p, const dg_node *node, int port, const char *what,
                            uint32_t axes);
const char *dg_vary_axes_attr(const dg_node *node);    /* its attribute that names axes, or NULL */
const dg_node *dg_vary_sampler(const dg_scope *scope); /* NULL: none */
/* By what makes v differ first. other (NULL: not wanted): a second way, or NULL. */
const char *dg_vary_advice(const dg_proof *p, dg_vary v, const char **other);
const char *dg_vary_shape_way(const dg_proof *p, dg_vary v, const char **other);
const char *dg_vary_connect(const dg_proof *p, dg_vary v, const char **other); /* zeros, first */
const char *dg_vary_joined_score(const dg_proof *p, const dg_node *sink);      /* of all images */
const char *dg_vary_join_scores(const dg_proof *p); /* the one that chooses the checkpoint */
const char *dg_vary_counted(const dg_proof *p, const dg_node *node, const dg_rule *r, int port,
                            dg_vary v);
const char *dg_vary_state_way(const dg_proof *p, const dg_node *node, int port, dg_vary v);

/* --- activation.c */
/* Computes inputs and activation. */
void dg_vary_activate(dg_proof *p, dg_visit *v);
/* a required input may be missing */
bool dg_vary_may_lack(const dg_node *node, const dg_seen in[]);
/* of inputs one of which it needs, none is given to the model that it stands in */
bool dg_vary_has_none(const dg_node *node, const dg_seen in[]);
dg_vary dg_vary_present(const dg_visit *v); /* presence of its outputs, before rules */

/* --- sinks.c: numbers that rank 0 reports, or the rank that evaluates alone */
/* Whether the reporting rank has what the node takes; and what is known of its metrics. */
void dg_vary_sink(dg_proof *p, const dg_visit *v);
/* The number by which <checkpoint> chooses. */
void dg_vary_best(dg_proof *p);

/* --- walk.c */
dg_vary dg_vary_own_kernels(dg_proof *p, const dg_node *node); /* differences by exact="false" */
void dg_vary_walk(dg_proof *p, dg_vary fires); /* walks p->scope, which fires as `fires` */

/* Records that a node or outputs of it may be missing for a reason of their own. present: the axes
 * over which that differs; flag: index in p->flags of the guard it depends on, or -1. */
void dg_vary_root(dg_proof *p, const dg_node *node, dg_absence absent, dg_vary present, int flag);

/* --- keys.c: what is known of the keys of a record */
/* The value of a key path, "terms.loss"; the whole record's if keys are not distinguished. */
dg_seen dg_vary_read_keys(dg_seen in, const char *path);
/* Each key of a node's output, or the output itself, by what the node does to all of them: zeros
 * where it does not fire, kernels that are not exact. */
void dg_vary_settle(dg_proof *p, const dg_visit *v, dg_seen *out);

/* --- rows.c */
void dg_vary_count(dg_seen *out, dg_vary rate); /* the number of a stream's items differs */
void dg_vary_partial(dg_proof *p, dg_visit *v); /* checks uses of pending sums */
void dg_vary_rows(dg_proof *p, dg_visit *v);

/* --- trust.c: trusted properties of the node, which have monitors */
void dg_vary_trust(dg_proof *p, const dg_visit *v);
/* Takes out monitors of the scope that would compare batches of different epochs, once its clock is
 * known. */
void dg_vary_trusted(dg_proof *p);

/* --- relower.c: what only lowering shows */
void dg_vary_lower(dg_proof *p);     /* fills facts and lost */
void dg_vary_gradients(dg_proof *p); /* faults of parameters */

/* --- severed.c */
/* Reports a loss that hangs on parameters through a collective, which passes no gradients on. */
void dg_vary_severed(dg_proof *p);

/* --- zeros.c */
/* Records what a node with connect="zero" takes with everything present; key: "" at first. */
void dg_vary_take(dg_proof *p, dg_build *b, const dg_node *node, int port, const char *key,
                  dg_val v);
/* Zeros of that shape, at the node's latest use; DG_NONE if nothing is known. */
dg_val dg_vary_zeros(dg_proof *p, dg_build *b, const dg_node *node, int port);

/* --- prove.c */
/* Lists what the proof trusts. opaque, by node number: only its class knows what the node
 * computes. */
void dg_vary_monitors(dg_monitors *m, const bool *opaque, const dg_graph *g, dg_params *params,
                      dg_arena *arena);

#endif
