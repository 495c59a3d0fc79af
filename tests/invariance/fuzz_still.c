/* fuzz_still.c: what can be seen of a model without a run. */
#include "tests/invariance/fuzz_run.h"

static void reach(const fz_model *m, int node, fz_set *seen, const fz_node *through)
{
    const fz_node *n = &m->node[node];
    int ins = n->op == FZ_NORM || n->op == FZ_LOSS ? 1 : n->n_in;

    if (!n->dead && fz_classes[n->op].flags & FZ_COLLECTIVE && n->axis == FZ_DP && m->dp == 1) {
        reach(m, n->in[0].node, seen, through); /* of one rank: nothing happens */
        return;
    }
    if (!n->dead && fz_differentiates(n)) {
        reach(m, n->in[0].node, seen, through);
        return;
    }
    if (n->dead || n->op == FZ_TEST || n->op == FZ_GRADIENT_NORM ||
        fz_classes[n->op].flags & (FZ_COLLECTIVE | FZ_DATA))
        return;
    if (n->op == FZ_INPUT) {
        for (int k = 0; through && fz_model_input(m, through->model, k) != FZ_NONE; k++)
            if (fz_model_input(m, through->model, k) == node && through->in[k].node != FZ_NONE)
                reach(m, through->in[k].node, seen, NULL);
        return;
    }
    fz_add(seen, node);
    for (int i = 0; i < ins; i++)
        if (n->in[i].node != FZ_NONE) {
            fz_wire w = n->in[i];

            if (w.key != FZ_NONE && fz_record_of(m, w.node) != FZ_NONE)
                w = m->node[fz_record_of(m, w.node)].in[w.key];
            if (w.node != FZ_NONE)
                reach(m, w.node, seen, through);
        }
    if (n->op == FZ_USE)
        for (int i = m->n_nodes - 1; i >= 0; i--)
            if (m->node[i].scope == FZ_IN_MODEL + n->model && !m->node[i].dead) {
                reach(m, i, seen, n);
                break;
            }
}

/* A parameter that is to be trained, and that no wire leads to the loss: whoever waits for its
 * gradient waits for ever. */
static bool never_ready(const fz_model *m, fz_fault *f)
{
    fz_set seen = { { 0, 0 }, 0 };
    bool used[FZ_NODES] = { false }, box = false, class = false;
    int backward = FZ_NONE;

    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (n->dead || (n->scope != FZ_IN_TRAIN && n->scope != FZ_IN_EVALUATE))
            continue;
        if (n->op == FZ_BACKWARD)
            backward = i;
        used[i] = true;
        for (int k = 0; n->op == FZ_USE && k < m->n_nodes; k++)
            used[k] |= m->node[k].scope == FZ_IN_MODEL + n->model;
    }
    if (backward == FZ_NONE)
        return false;
    reach(m, backward, &seen, NULL);
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].op == FZ_LOSS && fz_in(&seen, i)) {
            box |= m->node[i].terms != FZ_TERMS_CLASS;
            class |= m->node[i].terms != FZ_TERMS_BOX;
        }
    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (used[i] && !n->dead && n->frozen != 1 && fz_classes[n->op].flags & FZ_TRAINED &&
            (!fz_in(&seen, i) || (n->op == FZ_DECODER && !(box && class)))) {
            *f = (fz_fault){ .kind = FZ_NEVER_READY };
            snprintf(f->text, sizeof f->text, "no wire leads from <%s id=\"%s\"> to <backward>",
                     fz_classes[n->op].name, n->id);
            return true;
        }
    }
    return false;
}

bool fz_still(const fz_model *m, fz_fault *f)
{
    *f = (fz_fault){ .kind = FZ_SAME };
    return never_ready(m, f);
}
