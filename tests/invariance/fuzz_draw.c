/* fuzz_draw.c: draws a pipeline, put together as people write them; then, in half of them,
 * something is spoiled. */
#include <string.h>

#include "tests/invariance/fuzz_parts.h"

/* ---- a step of training ---------------------------------------------------------------------- */

/* Makes losses of the layers' outputs that nobody uses. */
static void gather_losses(fz_drawer *w)
{
    int before = w->n_offers;

    for (int i = 0; i < before; i++) {
        const fz_offer *o = &w->offers[i];
        bool used = false;

        if (!o->trained || o->type != FZ_T_TENSOR)
            continue;
        for (int k = 0; k < w->m->n_nodes; k++) {
            const fz_node *n = &w->m->node[k];

            for (int j = 0; j < n->n_in; j++)
                used |= n->in[j].node == o->wire.node &&
                        !(fz_classes[n->op].flags & FZ_COLLECTIVE) && n->op != FZ_TEST &&
                        n->op != FZ_NOISE && n->op != FZ_LOG;
        }
        if (!used && w->n_losses < FZ_IN && !fz_slip(w, 3))
            fz_draw_mean(w, o);
        else if (!used && !fz_slip(w, 20))
            w->m->node[o->wire.node].frozen =
                fz_classes[w->m->node[o->wire.node].op].flags & FZ_TRAINED ? 1 : FZ_NONE;
    }
}

/* Is there a trained layer among what the losses come from? Then the engine differentiates them. */
static bool learns(const fz_drawer *w)
{
    bool from[FZ_NODES] = { false }, some = false;

    for (int i = 0; i < w->n_losses; i++)
        from[w->losses[i].node] = true;
    for (int i = w->m->n_nodes - 1; i >= 0; i--) {
        const fz_node *n = &w->m->node[i];

        if (!from[i] || n->op == FZ_TEST || fz_classes[n->op].flags & FZ_COLLECTIVE)
            continue;
        some |= n->op == FZ_USE || (fz_classes[n->op].flags & FZ_TRAINED && n->frozen != 1);
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].node != FZ_NONE)
                from[n->in[k].node] = true;
    }
    return some;
}

static void step_of_training(fz_drawer *w)
{
    fz_wire loss, gradients;
    fz_node *n;
    bool same = true, sure = true;

    if (!w->n_losses || !learns(w)) {
        for (int i = 0; i < w->m->n_nodes; i++)
            if (fz_classes[w->m->node[i].op].flags & FZ_TRAINED)
                w->m->node[i].frozen = 1;
        return;
    }
    loss = w->losses[0];
    if (w->n_losses > 1) {
        n = fz_add_node(w, FZ_SUM);
        if (!n)
            return;
        n->n_in = 0;
        for (int i = 0; i < w->n_losses; i++) {
            snprintf(n->name[n->n_in], FZ_ID, "l%d", i);
            n->in[n->n_in++] = w->losses[i];
        }
        loss = fz_wire_to(fz_last(w), 0);
    }
    if (fz_chance(w->d, 15)) { /* a loss that is not finite is left out, by all or by one */
        fz_node *bad = fz_add_node(w, FZ_TEST), *vote, *skip;
        int at = fz_last(w);

        if (!bad)
            return;
        bad->in[0] = loss;
        bad->is = FZ_NONFINITE;
        if (!fz_slip(w, 25) && (vote = fz_add_node(w, FZ_AGREE))) {
            vote->in[0] = fz_wire_to(at, 0);
            vote->how = FZ_ANY;
            vote->axis = w->everywhere;
            at = fz_last(w);
        }
        if ((skip = fz_add_node(w, FZ_SKIP)))
            skip->when = fz_wire_to(at, 0);
    }
    n = fz_add_node(w, FZ_BACKWARD);
    if (!n)
        return;
    n->in[0] = loss;
    gradients = fz_wire_to(fz_last(w), 0);
    if (!fz_slip(w, 5) && (n = fz_add_node(w, FZ_ALLREDUCE))) {
        n->in[0] = gradients;
        n->axis = fz_slip(w, 50) ? FZ_DP : w->everywhere;
        if (!fz_slip(w, 3))
            gradients = fz_wire_to(fz_last(w), 0);
    }
    if (fz_chance(w->d, 15) && (n = fz_add_node(w, FZ_GRADIENT_NORM))) {
        n->in[0] = !fz_slip(w, 20) ? gradients : fz_wire_to(gradients.node - 1, 0);
        if (w->m->node[n->in[0].node].op != FZ_BACKWARD)
            n->in[0] = gradients;
        fz_draw_guard(w, n, &same, &sure, 25);
        n = fz_add_node(w, FZ_ADAMW);
        if (n)
            n->in[1] = fz_wire_to(fz_last(w) - 1, 0);
    } else {
        n = fz_add_node(w, FZ_ADAMW);
    }
    if (!n)
        return;
    n->in[0] = gradients;
    fz_draw_guard(w, n, &same, &sure, 8);
    if (fz_chance(w->d, 30) && (n = fz_add_node(w, FZ_EMA))) {
        n->in[0] = fz_wire_to(fz_last(w) - 1, 0);
        fz_draw_guard(w, n, &same, &sure, 10);
    }
}

/* ---- the detector ---------------------------------------------------------------------------- */

static void detector_model(fz_drawer *w)
{
    fz_model *m = w->m;
    fz_node *n;
    int scope = w->scope, bb, norm = fz_slip(w, 15) ? FZ_NONE : FZ_SYNC_NORM;

    w->scope = FZ_IN_MODEL;
    m->n_models = 1;
    strcpy(m->model_id[0], "detr");
    strcpy(fz_add_node(w, FZ_INPUT)->id, "images");
    n = fz_add_node(w, FZ_INPUT);
    strcpy(n->id, "denoising");
    n->optional = 1;
    n = fz_add_node(w, FZ_BACKBONE);
    bb = fz_last(w);
    n->in[0] = fz_wire_to(0, 0);
    n->norm = norm;
    if (fz_chance(w->d, 10))
        n->frozen = 1;
    n = fz_add_node(w, FZ_ENCODER);
    n->norm = fz_slip(w, 5) ? FZ_NONE : norm;
    for (int i = 0; i < 3; i++)
        n->in[i] = fz_wire_to(bb, i);
    n = fz_add_node(w, FZ_DECODER);
    n->in[0] = fz_wire_to(bb + 1, 0);
    n->in[1] = fz_wire_to(1, 0);
    n->norm = fz_slip(w, 5) ? FZ_NONE : norm;
    w->scope = scope;
}

static void detector_step(fz_drawer *w, int batch)
{
    fz_node *n;
    int dn = FZ_NONE, out, objects = FZ_NONE, loss;
    bool same = true, sure = true;

    if (fz_chance(w->d, 85)) {
        n = fz_add_node(w, FZ_DENOISING);
        dn = fz_last(w);
        n->in[0] = fz_wire_to(batch, 1);
        n->empty = w->filtered || !fz_slip(w, 20) ? FZ_EMPTY_PAD : FZ_NONE;
        n->axis = fz_slip(w, 10) ? FZ_NONE : FZ_DP;
        fz_draw_guard(w, n, &same, &sure, 15);
    }
    n = fz_add_node(w, FZ_USE);
    out = fz_last(w);
    n->model = 0;
    n->n_in = 2;
    n->in[0] = fz_wire_to(batch, 0);
    if (dn != FZ_NONE)
        n->in[1] = fz_wire_to(dn, 0);
    if (fz_chance(w->d, 25) && (n = fz_add_node(w, FZ_ALLREDUCE))) {
        objects = fz_last(w);
        n->in[0] = fz_wire_to(batch, 4);
        n->axis = FZ_DP;
        n->how = FZ_SUMMED;
    }
    n = fz_add_node(w, FZ_LOSS);
    loss = fz_last(w);
    n->in[0] = fz_wire_to(out, 0);
    n->in[1] = fz_wire_to(batch, 1);
    if (objects != FZ_NONE)
        n->in[2] = fz_wire_to(objects, 0);
    else if (!fz_slip(w, 10))
        n->axis = FZ_DP;
    else if (fz_chance(w->d, 50))
        n->in[2] = fz_wire_to(batch, 4);
    if (!w->filtered && fz_slip(w, 8))
        n->empty = FZ_EMPTY_ABSENT;
    if (fz_slip(w, 5))
        n->terms = FZ_TERMS_ALL + fz_below(w->d, 3);
    if (fz_chance(w->d, 20)) {
        fz_node *other = fz_add_node(w, FZ_LOSS);

        n->terms = FZ_TERMS_CLASS;
        memcpy(other->in, n->in, sizeof n->in);
        other->axis = n->axis;
        other->empty = n->empty;
        other->terms = FZ_TERMS_BOX;
        w->losses[w->n_losses++] = fz_wire_to(fz_last(w), 0);
    }
    if (fz_chance(w->d, 60) && (n = fz_add_node(w, FZ_ALLREDUCE))) {
        n->in[0] = fz_wire_to(loss, 1);
        n->axis = FZ_DP;
    }
    w->losses[w->n_losses++] = fz_wire_to(loss, 0);
}

/* ---- a model of two layers ------------------------------------------------------------------- */

static void small_model(fz_drawer *w)
{
    fz_model *m = w->m;
    fz_node *n;
    int scope = w->scope;

    w->scope = FZ_IN_MODEL;
    m->n_models = 1;
    strcpy(m->model_id[0], "net");
    strcpy(fz_add_node(w, FZ_INPUT)->id, "images");
    n = fz_add_node(w, FZ_INPUT);
    strcpy(n->id, "rows");
    n->optional = 1;
    n = fz_add_node(w, FZ_LINEAR);
    n->in[0] = fz_wire_to(0, 0);
    n->width = 8;
    if (fz_chance(w->d, 60)) {
        n = fz_add_node(w, FZ_NORM);
        n->in[0] = fz_wire_to(fz_last(w) - 1, 0);
        if (fz_chance(w->d, 60))
            n->in[1] = fz_wire_to(1, 0);
        n->norm = fz_slip(w, 5) ? FZ_BATCH_NORM : FZ_SYNC_NORM;
        n->empty = fz_slip(w, 8) ? FZ_NONE : FZ_EMPTY_ZERO;
    }
    n = fz_add_node(w, FZ_LINEAR);
    n->in[0] = fz_wire_to(fz_last(w) - 1, 0);
    n->width = 4;
    w->scope = scope;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static void evaluation(fz_drawer *w)
{
    fz_model *m = w->m;
    int kind = fz_below(w->d, 100), batch;
    fz_wire scored;
    fz_node *n;

    m->evaluates = 1;
    if (kind < 60)
        m->every_epochs = 1;
    else if (kind < 85)
        m->every_steps = 1 + fz_below(w->d, 2);
    else
        m->every_minutes = 10;
    if (fz_chance(w->d, 20)) {
        m->eval_on = 0;
        m->eval_budget = 5;
    }
    w->scope = FZ_IN_EVALUATE;
    w->n_offers = 0;
    w->alone = m->eval_on != FZ_NONE;
    fz_draw_data(w);
    batch = fz_last(w);
    scored = fz_wire_to(batch, 3);
    fz_draw_body(w, w->alone && !fz_slip(w, 25) ? 0 : fz_below(w->d, 4));
    if (w->net && fz_chance(w->d, 60) && (n = fz_add_node(w, FZ_USE))) {
        n->model = 0;
        n->n_in = 2;
        n->in[0] = fz_wire_to(batch, 0);
        scored = fz_wire_to(fz_last(w), 0);
    }
    if (w->detector && (n = fz_add_node(w, FZ_USE))) { /* its norms are fixed, and ask nobody */
        n->model = 0;
        n->n_in = 2;
        n->in[0] = fz_wire_to(batch, 0);
        if ((n = fz_add_node(w, FZ_DETECT)))
            n->in[0] = fz_wire_to(fz_last(w) - 1, 0);
        n = fz_add_node(w, FZ_COCO);
    } else {
        n = fz_add_node(w, FZ_METRIC);
    }
    if (!n)
        return;
    n->in[0] = n->op == FZ_COCO ? fz_wire_to(fz_last(w) - 1, 0) : scored;
    n->axis = !fz_slip(w, 20) && m->eval_on == FZ_NONE ? w->everywhere : FZ_NONE;
    if (fz_chance(w->d, 60)) {
        m->best = fz_wire_to(fz_last(w), 0);
        if (m->every_epochs && fz_chance(w->d, 85)) /* else there is but one to choose from */
            m->steps = 0;
        if (m->eval_on == FZ_NONE && fz_chance(w->d, 40) && m->every_epochs)
            m->patience = 1;
        else if (m->eval_on == FZ_NONE && fz_chance(w->d, 20))
            m->patience_minutes = 10;
        m->epochs = 4;
    }
}
/* ---- a pipeline ------------------------------------------------------------------------------ */

static void mesh(fz_drawer *w)
{
    fz_model *m = w->m;

    static const int dp[20] = { 1, 3, 4 };

    m->dp = dp[fz_below(w->d, 20)];
    m->dp = m->dp ? m->dp : 2;
    if (fz_chance(w->d, m->dp == 1 ? 75 : m->dp == 2 ? 18 : 30))
        m->tp = m->dp <= 2 && fz_chance(w->d, 15) ? 3 : 2;
    w->everywhere = m->tp > 1 ? FZ_DP | FZ_TP : FZ_DP;
    if (fz_chance(w->d, 40))
        m->steps = 5 + fz_below(w->d, 4);
    if (fz_chance(w->d, 5))
        m->on_fail = fz_below(w->d, 2);
}

/* What the file of one rank lacks: something that matters wherever it stands. */
static int lacking(fz_drawer *w)
{
    int seen = 0, out = FZ_NONE;

    for (int i = 0; i < w->m->n_nodes; i++) {
        const fz_node *n = &w->m->node[i];
        bool matters = n->when.node == FZ_NONE && (n->op == FZ_ADAMW || n->op == FZ_EMA ||
                                                   n->op == FZ_AGREE || n->op == FZ_ALLREDUCE);

        if (n->op == FZ_SKIP || n->op == FZ_STOP)
            break; /* what comes then may never come */
        if (!n->dead && matters && n->scope == FZ_IN_TRAIN && fz_below(w->d, ++seen) == 0)
            out = i;
    }
    return out;
}

static bool learned(const fz_model *m)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].op == FZ_BACKWARD)
            return true;
    return false;
}

/* Several batches for an update; activations that are computed again. */
static void save_memory(fz_drawer *w)
{
    if (fz_chance(w->d, 18))
        w->m->accumulate = 2 + fz_below(w->d, 2);
    if (!fz_chance(w->d, 15))
        return;
    for (int i = 0; i < w->m->n_nodes; i++)
        if (fz_classes[w->m->node[i].op].flags & FZ_TENSOR_OP && fz_chance(w->d, 40))
            w->m->node[i].recompute = 1;
}

void fz_draw(fz_model *m, uint64_t seed)
{
    fz_drawer w = { .m = m, .dice = { fz_mix(seed, 4711), 0 }, .scope = FZ_IN_TRAIN };

    w.d = &w.dice;
    w.careful = fz_chance(w.d, 55);
    fz_model_clear(m);
    mesh(&w);
    w.detector = fz_chance(w.d, 5);
    w.net = !w.detector && fz_chance(w.d, 25);
    if (w.detector)
        detector_model(&w);
    if (w.net)
        small_model(&w);
    for (int i = fz_below(w.d, 3); i > 0; i--)
        fz_draw_source(&w);
    fz_draw_data(&w);
    if (w.detector) {
        fz_draw_body(&w, fz_below(w.d, 3));
        for (int i = 0; i < m->n_nodes; i++)
            if (m->node[i].op == FZ_BATCH) {
                detector_step(&w, i);
                break;
            }
    } else {
        fz_draw_body(&w, 2 + fz_below(w.d, 10));
        if (!fz_chance(w.d, 6)) {
            gather_losses(&w);
            for (int tries = 0; tries < 8 && !learns(&w); tries++) {
                fz_draw_layer(&w);
                gather_losses(&w);
            }
        }
    }
    step_of_training(&w);
    if (fz_chance(w.d, 25)) {
        int before = m->n_nodes;

        fz_draw_body(&w, 1 + fz_below(w.d, 3));
        for (int i = before; i < m->n_nodes; i++) /* too late to learn anything */
            if (fz_classes[m->node[i].op].flags & FZ_TRAINED && !(learned(m) && fz_slip(&w, 10)))
                m->node[i].frozen = 1;
    }
    if (fz_chance(w.d, 35))
        evaluation(&w);
    if (fz_chance(w.d, w.careful ? 32 : 55))
        fz_spoil(&w);
    if (fz_chance(w.d, 20))
        fz_say_more(&w);
    save_memory(&w);
    if (m->dp * m->tp > 1 && fz_chance(w.d, 4))
        m->peer = fz_chance(w.d, 40) ? FZ_REWRITTEN : lacking(&w);
}
