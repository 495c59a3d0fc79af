/* fuzz_toys.h: node classes of the fuzzer's own. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_TOYS_H
#define DG_TESTS_INVARIANCE_FUZZ_TOYS_H

#include <detrgraph/node.h>

extern const dg_node_class *const fz_toys[]; /* NULL ends the list */

#endif
