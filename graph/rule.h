/* rule.h: evaluates a class's rules of rank invariance for one node: whether a rule holds, over
 * which axes, for which input. */
#ifndef DG_GRAPH_RULE_H
#define DG_GRAPH_RULE_H

#include "graph/graph.h"

/* train: the node is used in <train>, to which a rule may be limited. */
bool dg_rule_holds(const dg_node *node, bool train, const dg_rule *r);
/* The axes that the rule names: "dp+tp", "" for none; NULL: all axes. */
const char *dg_rule_axes(const dg_node *node, const dg_rule *r);
bool dg_rule_is_collective(const dg_rule *r);
int dg_rule_input(const dg_node *node, const dg_rule *r); /* index of the port r->from; -1: none */

/* Attributes of a collective: its reduction ("sum"; NULL: the class has none), and its root
 * rank. */
const char *dg_rule_reduction(dg_arena *arena, const dg_node *node);
int64_t dg_rule_root(const dg_node *node);

/* True if a rule of this kind holds for the node in its own scope. */
bool dg_node_has_row(const dg_node *node, dg_rule_kind kind);
/* The next such rule after `after` (NULL: the first); NULL: none. */
const dg_rule *dg_node_row(const dg_node *node, dg_rule_kind kind, const dg_rule *after);

/* Is the name among the row's? */
bool dg_metric_listed(const dg_metric_row *row, const char *name);

#endif
