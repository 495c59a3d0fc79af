/* foreseen.c: see foreseen.h. */
#include "graph/foreseen.h"

#include "graph/rule.h"

const dg_wire *dg_resize_wire(const dg_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (!dg_contract_is_stream(node->in_types[i]))
            return &node->in[i];
    return NULL;
}

const dg_node *dg_wire_foreseen(const dg_wire *wire, int *root)
{
    const dg_node *from = wire ? wire->from : NULL;

    *root = -1;
    for (const dg_rule *r = from ? from->class->rules : NULL; r && r->kind; r++)
        if (r->kind == DG_RULE_BROADCAST && !from->when.from && from->on < 0 && from->n_in > 0) {
            *root = (int)dg_rule_root(from);
            from = from->in[0].from;
            break;
        }
    return from && from->class->foreseen && !from->when.from &&
                   from->on == (from->on < 0 ? -1 : *root)
               ? from
               : NULL;
}
