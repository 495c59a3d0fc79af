/* fuzz_meet.c: what happens where ranks meet. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "tests/invariance/fuzz_machine.h"

const char *const fz_verdicts[FZ_N_VERDICTS] = {
    "same",          "another collective", "another count", "waits for ever",
    "state",         "normaliser",         "dealt twice",   "never ready",
    "a false alarm", "multiplied",         "other steps",
};

void fz_part(fz_sim *s, fz_verdict kind, const char *fmt, ...)
{
    va_list ap;

    if (s->fault->kind != FZ_SAME)
        return;
    s->fault->kind = kind;
    va_start(ap, fmt);
    vsnprintf(s->fault->text, sizeof s->fault->text, fmt, ap);
    va_end(ap);
}

bool fz_meet(fz_rank *k)
{
    if (k->answered) {
        k->answered = false;
        return true;
    }
    k->blocked = true;
    return false;
}

bool fz_mates(const fz_rank *a, const fz_rank *b, int axis)
{
    return (axis & FZ_DP || a->dp == b->dp) && (axis & FZ_TP || a->tp == b->tp);
}

static const char *called(const fz_sim *s, const fz_rank *k, char *out, size_t n)
{
    const fz_node *node = &s->m->node[k->ask.node < 0 ? 0 : k->ask.node];

    if (k->state == FZ_S_DONE)
        snprintf(out, n, "rank %d has ended", k->r);
    else if (k->ask.node < 0)
        snprintf(out, n, "rank %d at the start of epoch %d", k->r, k->epoch);
    else
        snprintf(out, n, "rank %d at <%s id=\"%s\"> (step %d, size %08x)", k->r,
                 fz_classes[node->op].name, node->id, k->step, (unsigned)k->ask.count);
    return out;
}

static void part_between(fz_sim *s, fz_verdict kind, const fz_rank *a, const fz_rank *b)
{
    char one[128], other[128];

    fz_part(s, kind, "%s, %s", called(s, a, one, sizeof one), called(s, b, other, sizeof other));
}

/* Do two members of a group stand at the same collective? */
static bool agree(fz_sim *s, const fz_rank *a, const fz_rank *b)
{
    if (a->ask.node != b->ask.node || a->ask.what != b->ask.what)
        part_between(s, FZ_OTHER_COLLECTIVE, a, b);
    else if (a->ask.count && b->ask.count && a->ask.count != b->ask.count)
        part_between(s, FZ_OTHER_COUNT, a, b);
    return s->fault->kind == FZ_SAME;
}

static double join(int how, double a, double b)
{
    switch (how) {
    case FZ_MAX:
        return fmax(a, b);
    case FZ_MIN:
        return fmin(a, b);
    case FZ_ANY:
        return a != 0 || b != 0;
    case FZ_ALL:
        return a != 0 && b != 0;
    default:
        return a + b;
    }
}

static fz_val combine(fz_rank *const v[], int n, int i, int how, bool some)
{
    fz_val out = { 0 };
    int there = 0;

    for (int r = 0; r < n; r++) {
        const fz_val *x = &v[r]->ask.v[i];

        if (!x->there)
            continue;
        if (there++ == 0) {
            out = *x;
            continue;
        }
        out.bad |= x->bad;
        out.sum = join(how, out.sum, x->sum);
        out.max = join(how, out.max, x->max);
        out.min = join(how, out.min, x->min);
    }
    if (how == FZ_MEANT && there) {
        out.sum /= there;
        out.max /= there;
        out.min /= there;
    }
    if (some && !there)
        out = (fz_val){ .there = true };
    if (some && (how == FZ_ANY || how == FZ_ALL))
        out.sum = out.max = out.min = there && (out.sum != 0 || out.bad);
    if (some)
        out.bad = false;
    return out;
}

static void count_sums(fz_sim *s, fz_rank *const v[], int n)
{
    int node = v[0]->ask.node;

    if (!s->sums || v[0]->ask.what != FZ_COMBINE || v[0]->ask.how != FZ_SUMMED ||
        (s->m->node[node].op != FZ_ALLREDUCE && s->m->node[node].op != FZ_REDUCE))
        return;
    for (int axis = 0; axis < 2; axis++)
        for (int r = 1; r < n; r++) {
            bool beside = axis == 0 ? v[r]->dp != v[0]->dp && v[r]->tp == v[0]->tp
                                    : v[r]->dp == v[0]->dp && v[r]->tp != v[0]->tp;

            for (int i = 0; i < v[0]->ask.n_vals && beside; i++) {
                const fz_val *a = &v[0]->ask.v[i], *b = &v[r]->ask.v[i];

                s->sums->fired[axis][node][i] += a->there && b->there;
                s->sums->differed[axis][node][i] +=
                    b->there && memcmp(&a->sum, &b->sum, sizeof(double)) != 0;
            }
        }
}

static void mean_gradients(fz_rank *const v[], int n)
{
    for (int p = 0; p < FZ_PARAMS; p++) {
        double sum = 0;

        for (int r = 0; r < n; r++)
            sum += v[r]->ask.g->g[p];
        for (int r = 0; r < n; r++)
            v[r]->ask.g->g[p] = sum / n;
    }
}

static void answer(fz_sim *s, fz_rank *const v[], int n)
{
    fz_request *first = &v[0]->ask;
    fz_val out[FZ_KEYS + 1];
    long least = first->least;
    int rows = 0;

    if (first->what == FZ_INSTR) {
        fz_answer_instr(v, n);
        return;
    }
    count_sums(s, v, n);
    if (first->what == FZ_GRADIENTS)
        mean_gradients(v, n);
    for (int i = 0; i < first->n_vals; i++) {
        if (first->what == FZ_ROOT)
            out[i] = v[first->root < n ? first->root : 0]->ask.v[i];
        else
            out[i] = combine(v, n, i, first->what == FZ_GATHER ? FZ_SUMMED : first->how,
                             first->what == FZ_VOTES);
    }
    for (int r = 0; r < n; r++) {
        least = v[r]->ask.least < least ? v[r]->ask.least : least;
        rows += v[r]->ask.v[0].dim[0];
    }
    if (first->what == FZ_GATHER)
        out[0].dim[0] = rows;
    for (int r = 0; r < n; r++) {
        memcpy(v[r]->ask.v, out, (size_t)first->n_vals * sizeof *out);
        v[r]->ask.least = least;
        v[r]->blocked = false;
        v[r]->answered = true;
    }
}

/* Lets the group of a blocked rank go on if it is complete. */
bool fz_settle(fz_sim *s, fz_rank *k)
{
    fz_rank *v[FZ_RANKS];
    int n = 0;

    for (int r = 0; r < s->n_ranks; r++) {
        fz_rank *o = &s->rank[r];

        if (!fz_mates(o, k, k->ask.axis))
            continue;
        if (!o->blocked || o->ask.axis != k->ask.axis)
            return false;
        v[n++] = o;
    }
    for (int i = 1; i < n; i++)
        if (!agree(s, v[0], v[i]))
            return false;
    answer(s, v, n);
    return true;
}
/* Nobody can go on: who waits for whom? */
void fz_name_the_waiting(fz_sim *s)
{
    for (int r = 0; r < s->n_ranks; r++)
        for (int o = 0; s->rank[r].blocked && o < s->n_ranks; o++)
            if (o != r && fz_mates(&s->rank[o], &s->rank[r], s->rank[r].ask.axis) &&
                (!s->rank[o].blocked || s->rank[o].ask.axis != s->rank[r].ask.axis))
                part_between(s, FZ_WAITS, &s->rank[r], &s->rank[o]);
}
