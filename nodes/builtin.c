/* builtin.c: the list of built-in node classes, which runtime passes to the registry. */
#include "nodes/builtin.h"

#define ROW(name) &dg_node_##name,
const dg_node_class *const dg_builtin_nodes[] = { DG_BUILTIN_NODES(ROW) NULL };
