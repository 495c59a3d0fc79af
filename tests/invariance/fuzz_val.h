/* fuzz_val.h: values of the simulator: numbers that stand for tensors. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_VAL_H
#define DG_TESTS_INVARIANCE_FUZZ_VAL_H

#include <string.h>

#include "tests/invariance/fuzz_run.h"

static inline uint64_t fz_bits(double x)
{
    uint64_t u;

    memcpy(&u, &x, sizeof u);
    return u;
}

static inline uint64_t fz_digest(const fz_val *v)
{
    return fz_mix(fz_mix(fz_bits(v->sum), fz_bits(v->max)), fz_mix(fz_bits(v->min), v->bad));
}

/* Elements and their arrangement; never 0. */
static inline uint64_t fz_count(const fz_val *v)
{
    uint64_t h = (uint64_t)v->nd + 1;

    for (int i = 0; i < v->nd; i++)
        h = fz_mix(h, (uint64_t)v->dim[i]);
    return h | 1;
}

static inline fz_val fz_scalar(double x)
{
    return (fz_val){ .there = true, .sum = x, .max = x, .min = x };
}

/* What a run makes of a node's numbers: in some runs they are mostly 0, mostly not finite, all of
 * one sign. What is rare in one run is so the rule in another. */
typedef enum fz_mood { FZ_BROKEN, FZ_EMPTY, FZ_UP, FZ_DOWN, FZ_ANYHOW } fz_mood;
static inline fz_mood fz_mood_of(const fz_rank *k, int node)
{
    uint64_t h = fz_mix(k->sim->seed, (uint64_t)node + 500) % 10;

    return h < FZ_ANYHOW ? (fz_mood)h : FZ_ANYHOW;
}

/* A new value from a number that decides all of it: as a mood has it, else positive as often as
 * not, at times 0, rarely not finite. */
static inline fz_val fz_drawn(const fz_rank *k, int node, fz_val like, uint64_t h)
{
    fz_mood mood = fz_mood_of(k, node);
    double big = fz_unit(fz_mix(h, 2)), small = -fz_unit(fz_mix(h, 3)),
           part = fz_unit(fz_mix(h, 1));

    like.there = true;
    like.bad |= h % (mood == FZ_BROKEN ? 2 : 29) == 0;
    like.sum = like.max = like.min = 0;
    if (like.bad || h % 8 == 1 || (mood == FZ_EMPTY && h % 8 < 6))
        return like;
    if (mood == FZ_UP)
        small = big * part;
    else if (mood == FZ_DOWN)
        big = small * part;
    like.sum = small + (big - small) * part;
    like.max = like.nd ? big : like.sum;
    like.min = like.nd ? small : like.sum;
    return like;
}

static inline const fz_val *fz_input(const fz_rank *k, const fz_node *n, int i)
{
    static const fz_val absent = { 0 };

    return i < n->n_in && n->in[i].node != FZ_NONE ? fz_at(k, n->in[i]) : &absent;
}

static inline void fz_unite(fz_set *to, const fz_set *from)
{
    to->bits[0] |= from->bits[0];
    to->bits[1] |= from->bits[1];
    if (from->made)
        to->made = fz_mix(to->made, from->made);
}

/* The draw of a node at this point of the run: the same on ranks that have come as far. */
static inline uint64_t fz_moment(const fz_rank *k, int node)
{
    uint64_t h = fz_mix(k->sim->seed, (uint64_t)node + 1000);

    h = fz_mix(h, k->scope == FZ_IN_EVALUATE
                      ? (uint64_t)(k->evaluation * 1000 + k->iteration) + (1 << 20)
                      : (uint64_t)k->batches);
    return h;
}

static inline bool fz_training(const fz_rank *k)
{
    return k->scope == FZ_IN_TRAIN;
}

static inline void fz_own_params(fz_set *s, const fz_model *m, int node)
{
    const fz_node *n = &m->node[node];

    if (n->frozen != 1 && fz_classes[n->op].flags & FZ_TRAINED)
        fz_add(s, node);
}

/* What the result of a collective is connected to, by what this rank brought. */
static inline fz_set fz_through(const fz_node *n, const fz_val *in)
{
    fz_set s = in->grad;

    if (s.bits[0] | s.bits[1])
        s.made = fz_mix(s.made, fz_digest(in));
    return fz_differentiates(n) ? s : (fz_set){ { 0, 0 }, 0 };
}

/* A divisor, a norm of the gradient: the same on all ranks, or it is none. */
static inline void fz_compare(fz_rank *k, int node, double x)
{
    if (!fz_training(k))
        return;
    k->sim->whole[node][k->r][k->batches % 16].batch = k->batches + 1;
    k->sim->whole[node][k->r][k->batches % 16].value = x;
}

/* Everything that a use of a model could be connected to. */
static inline void fz_model_params(fz_set *s, const fz_model *m, const fz_node *n)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == FZ_IN_MODEL + n->model && !m->node[i].dead) {
            fz_own_params(s, m, i);
            if (m->node[i].op == FZ_DECODER && m->node[i].frozen != 1) {
                fz_add(s, FZ_P_BOX + n->model);
                fz_add(s, FZ_P_CLASS + n->model);
                if (m->node[i].in[1].node != FZ_NONE && n->in[1].node != FZ_NONE)
                    fz_add(s, FZ_P_DENOISING + n->model);
            }
        }
}

/* What a node is connected to through its inputs that are there. */
static inline fz_set fz_connections(const fz_rank *k, const fz_node *n)
{
    fz_set s = { { 0, 0 }, 0 };

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node != FZ_NONE && fz_at(k, n->in[i])->there)
            fz_unite(&s, &fz_at(k, n->in[i])->grad);
    return s;
}

/* What classes do that meet other ranks, or have parameters (fuzz_layers.c). */
fz_end fz_reduce(fz_rank *k, int node);
/* The shape of a node's result, whether it has fired or not (fuzz_nodes.c). */
fz_val fz_shape_of(const fz_rank *k, int node);
fz_end fz_exchange(fz_rank *k, int node, fz_what what);
/* A collective of one number inside a node; the sum comes back in k->ask.v[0]. */
bool fz_inner(fz_rank *k, int node, int axis, int how, double x);
void fz_linear(fz_rank *k, int node);
fz_end fz_norm(fz_rank *k, int node);
fz_end fz_backbone(fz_rank *k, int node);
fz_end fz_decoder(fz_rank *k, int node);
fz_end fz_use(fz_rank *k, int node);
fz_end fz_loss(fz_rank *k, int node);

#endif
