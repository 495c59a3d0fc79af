/* registry.h: maps element names to node classes; loads plugins. */
#ifndef DG_GRAPH_REGISTRY_H
#define DG_GRAPH_REGISTRY_H

#include "base/diag.h"
#include <detrgraph/plugin.h>

typedef struct dg_registry dg_registry;

dg_registry *dg_registry_open(void);
void dg_registry_close(dg_registry **r); /* unloads plugins */
/* Adds a class after checking its tables (types parse, defaults are in range, names are unique). */
int dg_registry_add(dg_registry *r, const dg_node_class *c, dg_diag *d) DG_MUST_USE;
/* Loads a plugin and adds its classes. at: where the pipeline names it. */
int dg_registry_load(dg_registry *r, const char *path, dg_where at, dg_diag *d) DG_MUST_USE;
const dg_node_class *dg_registry_find(const dg_registry *r, const char *name);
bool dg_registry_is_extended(const dg_registry *r); /* there are classes of plugins */
int dg_registry_n(const dg_registry *r);
const dg_node_class *dg_registry_at(const dg_registry *r, int i); /* ordered by name */

#endif
