/* nodecheck.h: holds a node class to what it declares, with attributes, dimensions and numbers that are drawn:
 * `detrgraph check-node`. Every draw follows from one seed, which every finding names. */
#ifndef DG_RUNTIME_NODECHECK_H
#define DG_RUNTIME_NODECHECK_H

#include "graph/graph.h"

typedef struct dg_number_range { /* of the numbers of an input, "port" or "port.key"; or of a letter: lo == hi */
    const char *name;
    double      lo, hi;
} dg_number_range;

typedef enum dg_verdict { DG_VERDICT_OK, DG_VERDICT_FAILED, DG_VERDICT_SKIPPED } dg_verdict;

/* What one test of a class came to. */
typedef struct dg_finding {
    const char *class, *test;
    dg_verdict  verdict;
    const char *text;    /* what was measured; what is wrong; why it was skipped */
    /* of a failure; NULL where there is none */
    const char *port;    /* the input, output, attribute or parameter that it is about */
    const char *element; /* as a pipeline would have it, with the attributes that were drawn */
    const char *dims;    /* "B=2 N=3 D=5" */
    const char *help;
    uint64_t    seed;    /* of the draw */
} dg_finding;

typedef struct dg_node_check {
    uint64_t               seed;   /* of the first draw; the next has the next */
    int                    draws;
    int                    n_sets; /* attributes that are not drawn */
    const dg_set          *sets;
    int                    n_ranges, n_dims;
    const dg_number_range *ranges, *dims;
    /* Told of each draw before it is tried, as of the failure that it is if nothing else is heard of it; or NULL. */
    void (*trying)(void *ctx, const dg_finding *f);
    void *ctx;
} dg_node_check;

/* Tells found of every test, in order; returns how many failed. The class stands in r. Strings last as long as the call. */
int dg_node_check_class(const dg_node_class *c, dg_registry *r, const dg_node_check *how,
                        void (*found)(void *ctx, const dg_finding *f), void *ctx);

#endif
