/* fuzz_ops.c: see fuzz_ops.h. */
#include "tests/invariance/fuzz_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_val.h"

/* ---- values ---------------------------------------------------------------------------------- */

uint64_t fz_digest_of(double x)
{
    return x == 0 ? 0 : fz_mix(fz_bits(x), 77) | 1;
}

/* A single number is what it is, however it was made. */
fz_datum fz_single(double x)
{
    return (fz_datum){ fz_digest_of(x), x };
}

/* The number of what is known by its digest only: 0 as often as not if it is whole. */
static fz_datum drawn(const fz_rank *k, const fz_t_value *x, int node, uint64_t digest)
{
    const uint64_t h = fz_mix(digest, k->sim->seed);
    const fz_mood mood = node == FZ_NONE ? FZ_ANYHOW : fz_mood_of(k, node);
    const bool zero = h % 8 < (mood == FZ_EMPTY ? 6 : x->whole ? 3 : 1);
    double number = x->whole ? (double)(1 + h % 3) : 4 * fz_unit(fz_mix(h, 1)) - 2;

    if (mood == FZ_UP || mood == FZ_DOWN)
        number = fabs(number) * (mood == FZ_UP ? 1 : -1);
    if (x->elements == 1)
        return fz_single(zero ? 0 : number);
    return (fz_datum){ digest | 1, zero ? 0 : number };
}

fz_region *fz_region_at(fz_rank *k, fz_space s, long offset)
{
    fz_machine *m = k->machine;
    fz_region *r = m->region[s];
    unsigned at = (unsigned)(offset / 64) * 7 % FZ_SLOTS; /* parameters lie 64 bytes apart */

    for (; m->slot[s][at]; at = (at + 1) % FZ_SLOTS)
        if (r[m->slot[s][at] - 1].offset == offset)
            return &r[m->slot[s][at] - 1];
    if (m->n_regions[s] == FZ_REGIONS)
        abort();
    r = &r[m->n_regions[s]++];
    m->slot[s][at] = (short)m->n_regions[s];
    *r = (fz_region){ offset, 0, 0 };
    if (s == FZ_P_WEIGHTS || s == FZ_P_EMA)
        r->digest = fz_mix(k->sim->seed, (uint64_t)offset) | 1;
    return r;
}

static bool keeps(fz_space s)
{
    return s > FZ_P_SLAB && s < FZ_P_SPACES;
}

fz_datum fz_get(fz_rank *k, int v)
{
    const fz_machine *m = k->machine;
    const fz_t_value *x = &m->text->value[v];

    if (!v)
        return (fz_datum){ 0, 0 };
    if (!keeps(x->space))
        return (fz_datum){ m->digest[v], m->number[v] };
    return (fz_datum){ fz_region_at(k, x->space, x->offset)->digest, 1 };
}

static void write_region(fz_rank *k, int v, uint64_t digest)
{
    const fz_t_value *x = &k->machine->text->value[v];
    fz_region *r = fz_region_at(k, x->space, x->offset);

    if (r->busy)
        fz_part(k->sim, FZ_OTHER_STATE, "rank %d writes at %ld what is being reduced", k->r,
                x->offset);
    r->digest = digest;
}

void fz_put(fz_rank *k, int v, fz_datum d)
{
    fz_machine *m = k->machine;
    const fz_t_value *x = &m->text->value[v];

    if (!v)
        return;
    m->digest[v] = d.digest;
    m->number[v] = d.number;
    if (keeps(x->space))
        write_region(k, v, d.digest);
}

/* ---- what is known of operations ------------------------------------------------------------- */

/* Single numbers and flags; false: it is none of these. */
static bool arithmetic(const fz_t_instr *in, const fz_datum *x, double *out)
{
    const double a = x[0].number, b = in->n_in > 1 ? x[1].number : 0;

    if (in->traits & FZ_TRUTH)
        *out = ((a != 0) != (in->negate != 0));
    else if (in->traits & FZ_COPY)
        *out = a;
    else if (in->traits & FZ_ADD)
        *out = a + b;
    else if (in->traits & FZ_SUB)
        *out = a - b;
    else if (in->traits & FZ_MUL)
        *out = a * b;
    else if (in->traits & FZ_LARGER)
        *out = fmax(a, b);
    else if (in->traits & FZ_SMALLER)
        *out = fmin(a, b);
    else if (in->traits & FZ_AT_LEAST)
        *out = a >= b;
    else if (in->traits & FZ_SCALE)
        *out = in->a * a + in->c;
    else
        return false;
    return true;
}

static bool all_single(const fz_rank *k, const fz_t_instr *in)
{
    const fz_text *t = k->machine->text;
    const bool sums = in->traits & FZ_SUMS;

    for (int i = 0; i < in->n_in; i++)
        if (t->in[in->first_in + i] && t->value[t->in[in->first_in + i]].elements != 1 && !sums)
            return false;
    return in->n_out == 1 && t->value[in->out[0]].elements == 1;
}

/* Nothing but zeros comes of zeros. */
static bool vanishes(const fz_t_instr *in, const fz_datum *x)
{
    const bool product = in->traits & FZ_PRODUCT;
    bool some = false, all = in->n_in > 0;

    if (!product && !(in->traits & FZ_VANISHES))
        return false;
    for (int i = 0; i < in->n_in; i++) {
        some |= x[i].digest == 0;
        all &= x[i].digest == 0;
    }
    return all || (product && some);
}

int fz_node_of(const fz_rank *k, const char *path)
{
    const char *id = strrchr(path, '/');
    int found = FZ_NONE;

    id = id ? id + 1 : path;
    for (int i = 0; i < k->m->n_nodes; i++)
        if (strcmp(k->m->node[i].id, id) == 0 &&
            (found == FZ_NONE || k->m->node[i].scope == k->scope))
            found = i;
    return found;
}

int fz_node_at(const fz_rank *k, const fz_t_instr *in)
{
    if (in->at == FZ_T_UNKNOWN) /* the same for all ranks: a text is of one scope */
        k->machine->text->instr[in - k->machine->text->instr].at = fz_node_of(k, in->node);
    return in->at;
}

/* The numbers of the samples of this batch, which draws follow. */
uint64_t fz_samples(const fz_rank *k)
{
    const uint64_t batch = k->scope == FZ_IN_TRAIN
                               ? (uint64_t)k->batches
                               : (uint64_t)(1000 * (1 + k->evaluation) + k->iteration);
    uint64_t h = fz_mix(batch, (uint64_t)k->scope);

    for (int i = 0; i < k->batch.n; i++)
        h = fz_mix(fz_mix(h, (uint64_t)k->batch.item[i].id), k->batch.item[i].draw);
    return h;
}

/* What the printed program does not show: draws, and the ops of the toys (fuzz_toys.c). */
static uint64_t unseen(fz_rank *k, const fz_t_instr *in, int node)
{
    if (in->traits & FZ_DRAW)
        return fz_samples(k);
    if (node == FZ_NONE || !(in->traits & FZ_OF_TOY))
        return 0;
    return k->m->node[node].op == FZ_FIXED ? fz_mix(k->sim->seed, (uint64_t)node)
                                           : fz_roll(&k->own);
}

void fz_compute(fz_rank *k, const fz_t_instr *in, const fz_datum *x)
{
    const fz_text *t = k->machine->text;
    const int node = fz_node_at(k, in);
    uint64_t h = fz_mix(in->what, unseen(k, in, node));
    const bool fixed = node != FZ_NONE && k->m->node[node].op == FZ_FIXED && in->traits & FZ_OF_TOY;
    double number;

    if (all_single(k, in) && arithmetic(in, x, &number)) {
        if (in->traits & FZ_TRUTH && in->n_in > 1 && t->in[in->first_in + 1])
            number = number != 0 && x[1].number != 0;
        fz_put(k, in->out[0], fz_single(number));
        return;
    }
    for (int i = 0; i < in->n_in && !fixed; i++)
        h = fz_mix(h, x[i].digest);
    for (int i = 0; i < in->n_out; i++) {
        const fz_t_value *o = &t->value[in->out[i]];
        fz_datum d = drawn(k, o, node, fz_mix(h, (uint64_t)i));

        if (in->traits & FZ_FINITE_OP)
            d = fz_single(h % (node != FZ_NONE && fz_mood_of(k, node) == FZ_BROKEN ? 2 : 29) != 0);
        else if (vanishes(in, x))
            d = (fz_datum){ 0, 0 };
        else if (in->traits & FZ_RESHAPE)
            d = (fz_datum){ x[0].digest, x[0].number };
        fz_put(k, in->out[i], d);
    }
}

/* ---- updates --------------------------------------------------------------------------------- */

uint64_t fz_whole(const fz_rank *k, fz_space s, long begin, long end)
{
    const fz_machine *m = k->machine;
    uint64_t all = 0; /* regions come in any order */

    for (int i = 0; i < m->n_regions[s]; i++) {
        const fz_region *r = &m->region[s][i];

        if (r->offset / 4 >= begin && (end == 0 || r->offset / 4 < end))
            all += fz_mix((uint64_t)r->offset, r->digest);
    }
    return all;
}

static void mix_into(fz_rank *k, fz_space s, long offset, uint64_t h)
{
    fz_region *r = fz_region_at(k, s, offset);

    r->digest = fz_mix(r->digest, h) | 1;
}

/* "adamw %w %g %m %v %e %norm %ok" */
static void adamw(fz_rank *k, const fz_t_instr *in, const fz_datum *x)
{
    const fz_machine *m = k->machine;
    const uint64_t norm = in->n_in > 5 ? fz_mix(x[5].digest, fz_bits(x[5].number)) : 0;
    static const fz_space spaces[] = { FZ_P_WEIGHTS, FZ_P_MOMENT1, FZ_P_MOMENT2 };

    if (x[in->n_in - 1].number == 0)
        return;
    for (int i = 0; i < m->n_regions[FZ_P_GRADIENTS]; i++)
        for (int s = 0; s < 3; s++)
            mix_into(k, spaces[s], m->region[FZ_P_GRADIENTS][i].offset,
                     fz_mix(m->region[FZ_P_GRADIENTS][i].digest, norm));
}

void fz_update(fz_rank *k, const fz_t_instr *in, const fz_datum *x)
{
    fz_machine *m = k->machine;
    uint64_t h = in->what;

    if (strcmp(in->op, "adamw") == 0) {
        adamw(k, in, x);
    } else if (strcmp(in->op, "ema") == 0) {
        for (int i = 0; i < m->n_regions[FZ_P_WEIGHTS] && x[in->n_in - 1].number != 0; i++)
            if (m->region[FZ_P_WEIGHTS][i].offset / 4 >= in->begin)
                mix_into(k, FZ_P_EMA, m->region[FZ_P_WEIGHTS][i].offset,
                         m->region[FZ_P_WEIGHTS][i].digest);
    } else if (strcmp(in->op, "accumulate") == 0) {
        h = x[0].digest && x[1].digest ? fz_mix(x[0].digest, x[1].digest) | 1
                                       : x[0].digest | x[1].digest;
        write_region(k, m->text->in[in->first_in], k->accumulated ? h : x[1].digest);
    } else { /* stat_update %mean %var ... %ok */
        for (int i = 2; i < in->n_in; i++)
            h = fz_mix(h, x[i].digest);
        for (int i = 0; i < 2 && x[in->n_in - 1].number != 0; i++) {
            const fz_t_value *s = &m->text->value[m->text->in[in->first_in + i]];

            mix_into(k, s->space, s->offset, h);
        }
    }
}
