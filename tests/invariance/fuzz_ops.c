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

    for (int i = 0; i < m->n_regions[s]; i++)
        if (r[i].offset == offset)
            return &r[i];
    if (m->n_regions[s] == FZ_REGIONS)
        abort();
    r = &r[m->n_regions[s]++];
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

static void write_region(fz_rank *k, fz_space s, long offset, uint64_t digest)
{
    fz_region *r = fz_region_at(k, s, offset);

    if (r->busy)
        fz_part(k->sim, FZ_OTHER_STATE, "rank %d writes at %ld what is being reduced", k->r,
                offset);
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
        write_region(k, x->space, x->offset, d.digest);
}

/* ---- what is known of operations ------------------------------------------------------------- */

bool fz_is(const fz_t_instr *in, const char *names)
{
    const char *word;

    for (int i = 0, n; (n = fz_word(names, i, &word)) > 0; i++)
        if ((int)strlen(in->op) == n && strncmp(in->op, word, (size_t)n) == 0)
            return true;
    return false;
}

/* Single numbers and flags; false: it is none of these. */
static bool arithmetic(const fz_t_instr *in, const fz_datum *x, double *out)
{
    const double a = x[0].number, b = in->n_in > 1 ? x[1].number : 0;

    if (fz_is(in, "truth truth_i32"))
        *out = ((a != 0) != (in->negate != 0));
    else if (fz_is(in, "real cast reshape reshape_i32 sum sum_i32 expand"))
        *out = a;
    else if (fz_is(in, "add"))
        *out = a + b;
    else if (fz_is(in, "sub"))
        *out = a - b;
    else if (fz_is(in, "mul"))
        *out = a * b;
    else if (fz_is(in, "max2"))
        *out = fmax(a, b);
    else if (fz_is(in, "min2"))
        *out = fmin(a, b);
    else if (fz_is(in, "greater_equal"))
        *out = a >= b;
    else if (fz_is(in, "scale"))
        *out = in->a * a + in->c;
    else
        return false;
    return true;
}

static bool all_single(const fz_rank *k, const fz_t_instr *in)
{
    const fz_text *t = k->machine->text;
    /* a sum is known of many, too: a value's number is their sum */
    const bool sums = fz_is(in, "sum sum_i32 reshape reshape_i32 real cast");

    for (int i = 0; i < in->n_in; i++)
        if (t->in[in->first_in + i] && t->value[t->in[in->first_in + i]].elements != 1 && !sums)
            return false;
    return in->n_out == 1 && t->value[in->out[0]].elements == 1;
}

/* Nothing but zeros comes of zeros. */
static bool vanishes(const fz_t_instr *in, const fz_datum *x)
{
    const bool product = fz_is(in, "mul matmul");
    bool some = false, all = in->n_in > 0;

    if (!product &&
        !fz_is(in, "sum sum_i32 reduce_max reduce_max_i32 reshape reshape_i32 permute slice "
                   "expand cast real gather add sub concat relu abs"))
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

/* The numbers of the samples of this batch, which draws follow. */
uint64_t fz_samples(const fz_rank *k)
{
    uint64_t h = fz_mix((uint64_t)(k->step + 1000 * k->evaluation), (uint64_t)k->iteration);

    for (int i = 0; i < k->batch.n; i++)
        h = fz_mix(fz_mix(h, (uint64_t)k->batch.item[i].id), k->batch.item[i].draw);
    return h;
}

/* What the printed program does not show: draws, and the ops of the toys (fuzz_toys.c). */
static uint64_t unseen(fz_rank *k, const fz_t_instr *in, int node)
{
    if (fz_is(in, "uniform"))
        return fz_samples(k);
    if (node == FZ_NONE || strncmp(in->op, "toy_", 4) != 0)
        return 0;
    return k->m->node[node].op == FZ_FIXED ? fz_mix(k->sim->seed, (uint64_t)node)
                                           : fz_roll(&k->own);
}

void fz_compute(fz_rank *k, const fz_t_instr *in, const fz_datum *x)
{
    const fz_text *t = k->machine->text;
    const int node = fz_node_of(k, in->node);
    uint64_t h = fz_mix(in->what, unseen(k, in, node));
    const bool fixed =
        node != FZ_NONE && k->m->node[node].op == FZ_FIXED && strncmp(in->op, "toy_", 4) == 0;
    double number;

    if (all_single(k, in) && arithmetic(in, x, &number)) {
        if (fz_is(in, "truth truth_i32") && in->n_in > 1 && t->in[in->first_in + 1])
            number = number != 0 && x[1].number != 0;
        fz_put(k, in->out[0], fz_single(number));
        return;
    }
    for (int i = 0; i < in->n_in && !fixed; i++)
        h = fz_mix(h, x[i].digest);
    for (int i = 0; i < in->n_out; i++) {
        const fz_t_value *o = &t->value[in->out[i]];
        fz_datum d = drawn(k, o, node, fz_mix(h, (uint64_t)i));

        if (strcmp(in->op, "finite") == 0)
            d = fz_single(h % (node != FZ_NONE && fz_mood_of(k, node) == FZ_BROKEN ? 2 : 29) != 0);
        else if (vanishes(in, x))
            d = (fz_datum){ 0, 0 };
        else if (fz_is(in, "reshape reshape_i32"))
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
    const fz_t_value *to = &m->text->value[m->text->in[in->first_in]];
    uint64_t h = in->what;

    if (strcmp(in->op, "adamw") == 0) {
        adamw(k, in, x);
    } else if (strcmp(in->op, "ema") == 0) {
        for (int i = 0; i < m->n_regions[FZ_P_WEIGHTS] && x[in->n_in - 1].number != 0; i++)
            if (m->region[FZ_P_WEIGHTS][i].offset / 4 >= in->begin)
                mix_into(k, FZ_P_EMA, m->region[FZ_P_WEIGHTS][i].offset,
                         m->region[FZ_P_WEIGHTS][i].digest);
    } else if (strcmp(in->op, "accumulate") == 0) {
        write_region(k, to->space, to->offset, x[1].digest);
    } else { /* stat_update %mean %var ... %ok */
        for (int i = 2; i < in->n_in; i++)
            h = fz_mix(h, x[i].digest);
        for (int i = 0; i < 2 && x[in->n_in - 1].number != 0; i++) {
            const fz_t_value *s = &m->text->value[m->text->in[in->first_in + i]];

            mix_into(k, s->space, s->offset, h);
        }
    }
}
