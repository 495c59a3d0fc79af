/* declared.h: classes that say of themselves what a custom node may say: one row each. */
#ifndef DG_TESTS_INVARIANCE_DECLARED_H
#define DG_TESTS_INVARIANCE_DECLARED_H

#include <detrgraph/node.h>

extern const dg_node_class *const declared_nodes[]; /* NULL ends it */

#endif
