/* vary_self.h: what the files of the proof share: sets of axes with their causes, the state of a
 * port, and the faults that are found. */
#ifndef DG_GRAPH_VARY_SELF_H
#define DG_GRAPH_VARY_SELF_H

#include "graph/lower.h"
#include "graph/monitor.h"
#include "graph/vary.h"

enum { DG_VARY_AXES = 4, DG_VARY_FLAGS = 62 };
#define DG_VARY_NEVER (UINT64_C(1) << 63)

/* A set of axes, and for each what brought it in (a number in dg_proof.causes). */
typedef struct dg_vary {
    uint32_t axes;
    int32_t  cause[DG_VARY_AXES];
} dg_vary;

/* A step on the way from a rank's own data to a fault. */
typedef struct dg_cause {
    const dg_node *node;
    dg_where       where;
    const char    *text;
    int32_t        from;   /* the step before; 0: a source */
    int32_t        root;   /* the first step that is more than a value; 0: none so far */
    int32_t        source; /* the oldest */
} dg_cause;

struct dg_keyed;
/* What is known of an output, or of an input that is wired to one. */
typedef struct dg_seen {
    bool there; /* false: nothing is wired */
    bool stream;
    bool may; /* it may be missing on ranks that could have it, if only on all of them together */
    bool changes, leads; /* its image size, its leading dimension: other from item to item */
    bool endless;
    int  flag;       /* number of the value, by which guards are told apart; 0 */
    uint64_t needs;  /* bits of p->flags: guards that hold wherever it is there */
    uint64_t enough; /* that make it be there, but for what `present` says; NEVER: there is more to it */
    int  only;       /* the one rank that has it, and no other reason for absence; -1 */
    int  collective; /* number of the last collective that it waits for */
    dg_vary value, present, rate, size, lead, partial, inexact;
    dg_vary
        after; /* of rate: what came behind an endless sampler, which forgives what came before */
    const char *device; /* NULL: the host, on its way */
    const struct dg_keyed *keys; /* of a record whose keys are values of their own */
    int                    n_keys;
} dg_seen;

typedef struct dg_keyed {
    const char *name;
    dg_seen     seen;
} dg_keyed;

typedef struct dg_clocked { /* a loop */
    struct dg_clocked *up;
    dg_vary            rate, skip, fires;
    dg_vary            own;    /* of fires: not that of what is around it */
    dg_vary            rounds; /* of its streams, those too that never end */
    dg_vary            ends;   /* of rate: what ends it for good */
    bool               timed;  /* ends by a number of steps */
    bool               endless; /* has a stream that never ends: how long its epochs are is agreed */
    bool               stops;  /* has a <stop> */
    bool               shared; /* has a collective */
    int                after;  /* the last collective that a <skip> or its count waits for */
} dg_clocked;

typedef struct dg_meeting { /* a collective, to be held against the clocks when they are known */
    const dg_node    *node;
    const dg_clocked *clock;
    uint32_t          axes;
} dg_meeting;

typedef struct dg_visited { /* an evaluation in which ranks meet */
    const dg_scope *scope;
    const dg_node  *node; /* there first */
    uint32_t        axes;
} dg_visited;

/* A node or output that may be missing on some ranks for a reason of its own. */
typedef struct dg_root {
    const dg_node *node;
    dg_absence     absent;
    dg_vary        present;
    int            flag; /* number in p->flags of its guard; -1: another reason */
} dg_root;

/* What lowering showed of an input: a tensor, or one key of a record. */
typedef struct dg_fact {
    int         node, port, next; /* next fact of the same node, -1 */
    const char *key;              /* "" for a tensor */
    dg_shape    shape;
    bool        by_size, by_lead;             /* a dimension follows the image size, the batch */
    bool        inner_by_size, inner_by_lead; /* another than the leading one */
    int         lost;                         /* root without which it is missing; -1 */
} dg_fact;
typedef DG_VEC(dg_fact) dg_facts;

/* A trainable parameter that has no gradient without a root. */
typedef struct dg_lost {
    int param, root;
} dg_lost;

typedef struct dg_vary_finding {
    const char *code;
    bool        warning;
    dg_where    at;
    uint32_t    axes;
    int32_t     cause;
    const char *text, *help, *way; /* help and way may be NULL */
} dg_vary_finding;

typedef struct dg_proof {
    const dg_graph  *g;
    dg_arena        *arena;
    dg_params       *params;
    dg_vary_marks   *marks;
    dg_monitors     *monitors; /* NULL, or: what is taken on trust is added */
    const bool      *opaque;   /* by node number: what it computes is known to its class alone */
    int             *turns;    /* by node number: visits so far in this walk; with monitors */
    dg_vary_axis     axes[DG_VARY_AXES];
    int              n_axes;
    uint32_t         live;         /* axes with more than one rank */
    DG_VEC(dg_cause) causes;       /* number 0 is none */
    dg_map          *roots_by_key; /* -> number of the first cause with that key, as int * */
    DG_VEC(dg_vary_finding) faults;
    const dg_scope  *scope; /* being walked */
    bool             train;
    /* of the scope */
    DG_VEC(dg_meeting) meetings;
    DG_VEC(dg_meeting) agreements; /* of loaders, at the start of an epoch */
    DG_VEC(dg_root)    roots;
    DG_VEC(dg_root)    together; /* what may be missing on all ranks at once */
    bool               wants_sizes; /* a collective's operand may follow a size that varies */
    dg_facts           facts;       /* after lowering */
    int               *first_fact;  /* by node number; -1 */
    bool               lowered;
    DG_VEC(dg_lost)    lost;
    const dg_node     *keeper; /* updates state that all ranks hold alike */
    const dg_clocked  *keeps;  /* its loop */
    const dg_node     *skewed; /* who makes image sizes differ */
    dg_vary            skew;
    dg_clocked        *clock;
    DG_VEC(int)        flags;    /* values that are guards: numbers as in dg_seen */
    int                n_values; /* numbered so far */
    /* of the whole graph */
    DG_VEC(dg_visited) visited;
    dg_vary            metric; /* of <checkpoint best>: how it differs */
    const dg_clocked  *scored; /* its loop */
    uint32_t           joined; /* axes over which it is joined */
    bool               shared; /* <train> has a collective */
} dg_proof;

/* A scope, or a model in use, while it is walked. */
typedef struct dg_walked {
    const dg_scope *scope;
    const dg_seen  *inputs; /* of the model */
    dg_vary         fires;
    dg_clocked     *clock;
    int             after; /* the last collective that its guard waits for */
    uint64_t        needs, enough; /* as in dg_seen: of the use around it */
    dg_clocked    **loops; /* by node->index */
    dg_seen       **out;   /* by node->index */
} dg_walked;

/* A node while it is visited. */
typedef struct dg_visit {
    dg_walked     *f;
    const dg_node *node;
    dg_clocked    *clock;
    dg_seen       *in, *out;
    dg_vary        fires, guard, bypass;
    dg_vary        zeros; /* where connect puts zeros in the place of its result */
    dg_vary        own;   /* of fires: not that of the scope and the loops around it */
    int      flag;          /* number in p->flags of its guard; -1 */
    uint64_t needs, enough; /* as in dg_seen, of its firing */
    bool    never; /* a required input is wired to nothing */
    int     waits; /* number of the last collective that its guard waits for */
    int     after; /* and that it waits for */
    int     turn;  /* with monitors: visits of this node before */
} dg_visit;

/* --- vary_set.c: sets, causes, faults */
uint32_t    dg_vary_axes_of(const dg_proof *p, const char *text);
const char *dg_vary_name(const dg_proof *p, uint32_t axes); /* "dp (2 ranks)" */
dg_vary     dg_vary_join(dg_vary a, dg_vary b);
dg_vary     dg_vary_minus(dg_vary a, uint32_t axes);
dg_vary     dg_vary_only(dg_vary a, uint32_t axes);
/* A new source over axes. value: only a value so far; key tells roots apart. */
dg_vary dg_vary_source(dg_proof *p, uint32_t axes, const dg_node *node, dg_where at, bool value,
                       const char *key, const char *fmt, ...) DG_PRINTF(7, 8);
/* The same axes, one step on. */
dg_vary dg_vary_step(dg_proof *p, dg_vary from, const dg_node *node, dg_where at, const char *key,
                     const char *fmt, ...) DG_PRINTF(6, 7);
/* Adds a fault; help and way are set in the one returned. */
dg_vary_finding *dg_vary_fault(dg_proof *p, const char *code, dg_where at, dg_vary v, const char *fmt, ...)
    DG_PRINTF(5, 6);
void dg_vary_warn(dg_proof *p, const char *code, dg_where at, dg_vary v, const char *help,
                  const char *fmt, ...) DG_PRINTF(6, 7);
/* Reports what was found; two: as warnings about two ranks. Returns -DG_EINPUT after an error. */
int dg_vary_report(dg_proof *p, bool two, dg_diag *d);

/* --- vary_rule.c: rows of classes */
bool     dg_rule_holds(const dg_proof *p, const dg_node *node, const dg_rule *r);
uint32_t dg_rule_axes(const dg_proof *p, const dg_node *node, const dg_rule *r); /* 0: none named */
const char *dg_rule_word(const dg_proof *p, const dg_node *node, const char *attr); /* or NULL */
int64_t     dg_rule_int(const dg_node *node, const char *attr, int64_t otherwise);
bool        dg_rule_is_collective(const dg_rule *r);
int         dg_rule_input(const dg_node *node, const dg_rule *r); /* port of r->from, -1 */

/* --- vary_meet.c: what collectives, state and devices need */
void dg_vary_collective(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen in[],
                        dg_vary fires, int after, dg_clocked *clock, dg_seen *out);
void dg_vary_agreement(dg_proof *p, const dg_node *node, uint32_t axes, dg_vary fires,
                       dg_clocked *clock);
void dg_vary_state(dg_proof *p, const dg_node *node, const dg_rule *r, const dg_seen in[],
                   dg_vary fires, const dg_clocked *clock);
void dg_vary_rate(dg_proof *p, const dg_node *node, dg_vary rate, uint32_t axes);
void dg_vary_clocks(dg_proof *p); /* meetings against clocks */
void dg_vary_device(dg_proof *p, const dg_node *node, const dg_seen in[], dg_seen *out);
void dg_vary_mesh(dg_proof *p); /* ranks on devices */

/* --- vary_fire.c */
int     dg_vary_activate(dg_proof *p, dg_visit *v); /* inputs, activation; the one rank that fires, or -1 */
bool    dg_vary_may_lack(const dg_node *node, const dg_seen in[]); /* an input that it needs */
dg_vary dg_vary_present(dg_proof *p, const dg_visit *v);           /* of its outputs, before the rows */

/* --- vary.c */
dg_vary dg_vary_own_kernels(dg_proof *p, const dg_node *node); /* where exact="false" */
void dg_vary_walk(dg_proof *p, dg_vary fires); /* p->scope, whose activation is fires */

/* Notes that a node or outputs of it may be missing for a reason of their own; present: over which
 * axes that differs; flag: number in p->flags of the guard that it hangs on, or -1. */
void dg_vary_root(dg_proof *p, const dg_node *node, dg_absence absent, dg_vary present, int flag);

/* --- vary_row.c */
void dg_vary_count(dg_seen *out, dg_vary rate); /* items of a stream: their number differs */
void dg_vary_partial(dg_proof *p, dg_visit *v); /* uses of pending sums */
void dg_vary_rows(dg_proof *p, dg_visit *v);

/* --- vary_trust.c: attributes of the node that have a monitor */
void dg_vary_trust(dg_proof *p, const dg_visit *v);

/* --- vary_lower.c: what only lowering shows */
void dg_vary_lower(dg_proof *p);     /* fills facts and lost */
void dg_vary_gradients(dg_proof *p); /* faults of parameters */

const char *dg_vary_called(const dg_proof *p, const dg_node *node); /* <loss.rtdetr id="loss"> */

#endif
