/* class_names.h: the names of a pipeline's classes, for files of other programs. */
#ifndef DG_WEIGHTS_CLASS_NAMES_H
#define DG_WEIGHTS_CLASS_NAMES_H

#include "graph/graph.h"

/* The names of the classes that `scope` evaluates, and how many: those that the run noted beside
 * its pipeline, for its data may have moved since, else the data's own. NULL: unknown. */
const char *const *dg_class_names(int *n, const dg_graph *g, const dg_scope *scope, dg_arena *a);

#endif
