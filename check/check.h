/* check.h: tests a node class against its declarations, with drawn attributes, dimensions and
 * numbers: `detrgraph check-node`. Each draw is a function of one seed, which every finding
 * names. */
#ifndef DG_CHECK_CHECK_H
#define DG_CHECK_CHECK_H

#include "graph/graph.h"

/* range of an input's numbers ("port" or "port.key"), or of a letter's size (lo == hi) */
typedef struct dg_number_range {
    const char *name;
    double lo, hi;
} dg_number_range;

typedef enum dg_verdict { DG_VERDICT_OK, DG_VERDICT_FAILED, DG_VERDICT_SKIPPED } dg_verdict;

/* The result of one test of a class. */
typedef struct dg_finding {
    const char *class, *test;
    dg_verdict verdict;
    const char *text; /* what was measured, what is wrong, or why it was skipped */
    /* for failures; else NULL */
    const char *port;    /* the input, output, attribute or parameter concerned */
    const char *element; /* the XML element with its drawn attributes */
    const char *dims;    /* "B=2 N=3 D=5" */
    const char *help;
    uint64_t seed; /* of the draw */
} dg_finding;

typedef struct dg_check_node {
    uint64_t seed; /* of the first draw; later ones count up */
    int draws;
    int n_sets; /* attributes that are not drawn */
    const dg_set *sets;
    int n_ranges, n_dims;
    const dg_number_range *ranges, *dims;
    /* Called before each draw with the failure to report if the test crashes; or NULL. */
    void (*trying)(void *ctx, const dg_finding *f);
    void *ctx;
} dg_check_node;

/* Calls found for every test, in order; returns the number of failures. The class must be
 * registered in r. Strings are valid during the call. */
int dg_check_node_class(const dg_node_class *c, dg_registry *r, const dg_check_node *how,
                        void (*found)(void *ctx, const dg_finding *f), void *ctx);

#endif
