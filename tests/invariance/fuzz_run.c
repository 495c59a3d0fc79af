/* fuzz_run.c: the course of a run: epochs, batches, loops, evaluations, on every rank; and what
 * happens where ranks meet. */
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_run.h"

const char *const fz_verdicts[FZ_N_VERDICTS] = {
    "same", "another collective", "another count", "waits for ever", "state", "normaliser", "dealt twice",
    "wrong device", "never ready", "multiplied",
};
enum { EPOCH_NODE = -2, MOST_WORK = 60000 };

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

/* --- where ranks meet -------------------------------------------------------------------------- */

bool fz_meet(fz_rank *k)
{
    if (k->answered) {
        k->answered = false;
        return true;
    }
    k->ask.captured = k->captured && k->state == FZ_S_NODES && k->ask.what != FZ_VOTES;
    k->blocked = true;
    return false;
}

static bool mates(const fz_rank *a, const fz_rank *b, int axis)
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
        snprintf(out, n, "rank %d at <%s id=\"%s\"> (step %d, size %08x)", k->r, fz_classes[node->op].name, node->id,
                 k->step, (unsigned)k->ask.count);
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
    if (a->ask.node != b->ask.node || a->ask.what != b->ask.what || a->ask.captured != b->ask.captured)
        part_between(s, FZ_OTHER_COLLECTIVE, a, b);
    else if (a->ask.count && b->ask.count && a->ask.count != b->ask.count)
        part_between(s, FZ_OTHER_COUNT, a, b);
    return s->fault->kind == FZ_SAME;
}

static double join(int how, double a, double b)
{
    switch (how) {
    case FZ_MAX: return fmax(a, b);
    case FZ_MIN: return fmin(a, b);
    case FZ_ANY: return a != 0 || b != 0;
    case FZ_ALL: return a != 0 && b != 0;
    default: return a + b;
    }
}

static fz_val combine(fz_rank *const v[], int n, int i, int how, bool some)
{
    fz_val out = { 0 };
    int    there = 0;

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
        s->m->node[node].op != FZ_ALLREDUCE)
        return;
    for (int axis = 0; axis < 2; axis++)
        for (int r = 1; r < n; r++) {
            bool beside = axis == 0 ? v[r]->dp != v[0]->dp && v[r]->tp == v[0]->tp
                                    : v[r]->dp == v[0]->dp && v[r]->tp != v[0]->tp;
            bool differ = false;

            for (int i = 0; i < v[0]->ask.n_vals; i++)
                differ |= v[r]->ask.v[i].there &&
                          memcmp(&v[r]->ask.v[i].sum, &v[0]->ask.v[i].sum, sizeof(double)) != 0;
            s->sums->fired[axis][node] += beside;
            s->sums->differed[axis][node] += beside && differ;
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
    fz_val      out[FZ_KEYS + 1];
    long        least = first->least;
    int         rows = 0;

    count_sums(s, v, n);
    if (first->what == FZ_GRADIENTS)
        mean_gradients(v, n);
    for (int i = 0; i < first->n_vals; i++) {
        if (first->what == FZ_ROOT)
            out[i] = v[first->root < n ? first->root : 0]->ask.v[i];
        else
            out[i] = combine(v, n, i, first->what == FZ_GATHER ? FZ_SUMMED : first->how, first->what == FZ_VOTES);
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
static bool settle(fz_sim *s, fz_rank *k)
{
    fz_rank *v[FZ_RANKS];
    int      n = 0;

    for (int r = 0; r < s->n_ranks; r++) {
        fz_rank *o = &s->rank[r];

        if (!mates(o, k, k->ask.axis))
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

/* --- the course of an iteration ---------------------------------------------------------------- */

static void forget_body(fz_rank *k, int loop)
{
    const fz_model *m = k->sim->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (loop == FZ_NONE ? m->node[i].scope == k->scope : fz_inside(m, i, loop)) {
            for (int o = 0; o < FZ_OUT; o++)
                k->out[i][o].there = false;
            for (int o = 0; o < FZ_KEYS; o++)
                k->key[i][o].there = false;
        }
}

static bool needs(const fz_model *m, int node, int other)
{
    const fz_node *n = &m->node[node];

    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node == other)
            return true;
    return n->when.node == other;
}

/* Nodes [at, end) of the order that stay together: one, or a loop with its body. */
static int unit_end(const fz_rank *k, int at, int end)
{
    const fz_model *m = k->sim->m;
    int             to = at + 1;

    while (m->node[k->order[at]].op == FZ_LOOP && to < end && fz_inside(m, k->order[to], k->order[at]))
        to++;
    return to;
}

static bool unit_needs(const fz_model *m, const int *order, int from, int to, int other, int other_to)
{
    for (int i = from; i < to; i++)
        for (int j = other; j < other_to; j++)
            if (needs(m, order[i], order[j]))
                return true;
    return false;
}

/* Puts the units of [at, end) into any order that wires allow. */
static void shuffle_units(fz_rank *k, int at, int end)
{
    const fz_model *m = k->sim->m;
    int             was[FZ_NODES], first[FZ_NODES + 1], n = 0, put = at;
    bool            done[FZ_NODES] = { false };

    memcpy(was, k->order, (size_t)k->n_order * sizeof *was);
    for (int i = at; i < end; i = unit_end(k, i, end))
        first[n++] = i;
    first[n] = end;
    for (int step = 0; step < n; step++) {
        int ready[FZ_NODES], n_ready = 0, pick;

        for (int i = 0; i < n; i++) {
            bool waits = done[i];

            for (int j = 0; j < n && !waits; j++)
                waits = !done[j] && j != i && unit_needs(m, was, first[i], first[i + 1], first[j], first[j + 1]);
            if (!waits)
                ready[n_ready++] = i;
        }
        pick = ready[fz_below(&k->own, n_ready)];
        done[pick] = true;
        for (int i = first[pick]; i < first[pick + 1]; i++)
            k->order[put++] = was[i];
    }
}

/* Document order; with order="ready", any order between <skip> and <stop> that wires allow. */
static void put_in_order(fz_rank *k)
{
    const fz_model *m = k->sim->m;

    k->n_order = 0;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && !m->node[i].dead)
            k->order[k->n_order++] = i;
    for (int at = 0, end; m->order == FZ_READY && at < k->n_order; at = end + 1) {
        for (end = at; end < k->n_order; end++)
            if (m->node[k->order[end]].op == FZ_SKIP || m->node[k->order[end]].op == FZ_STOP)
                break;
        if (end < k->n_order && m->node[k->order[end]].loop != FZ_NONE)
            return; /* leaves a loop: what is around it stays */
        shuffle_units(k, at, end);
    }
}

/* The position after p, going round the loops that end there. */
static int onward(fz_rank *k, int p)
{
    const fz_model *m = k->sim->m;

    while (k->loop != FZ_NONE && (p >= k->n_order || !fz_inside(m, k->order[p], k->loop))) {
        if (--k->trips[k->loop] > 0) {
            k->turn++;
            forget_body(k, k->loop);
            for (p = 0; k->order[p] != k->loop; p++)
                ;
            return p + 1;
        }
        k->turn = k->turn / 16;
        k->loop = m->node[k->loop].loop;
    }
    return p;
}

static int end_of(const fz_rank *k, int loop, int p)
{
    while (p < k->n_order && fz_inside(k->sim->m, k->order[p], loop))
        p++;
    return p;
}

static void enter(fz_rank *k, int node)
{
    const fz_node *n = &k->sim->m->node[node];
    bool           wired = n->in[0].node != FZ_NONE;
    const fz_val  *count = wired ? fz_at(k, n->in[0]) : NULL;
    int            trips = fz_given(n->times, 0) < 4 ? fz_given(n->times, 0) : 4;

    if (wired)
        trips = !count->there || count->bad || count->sum < 0 ? 0 : count->sum > 4 ? 4 : (int)(count->sum + 0.5);
    if (!fz_guard(k, n) || (n->on != FZ_NONE && n->on != k->r))
        trips = 0;
    if (end_of(k, node, k->pos + 1) == k->pos + 1)
        trips = 0;
    forget_body(k, node);
    if (trips == 0) {
        k->pos = onward(k, end_of(k, node, k->pos + 1));
        return;
    }
    k->trips[node] = trips;
    k->turn = k->turn * 16 + 1;
    k->loop = node;
    k->pos++;
}

/* skip and stop */
static void leave(fz_rank *k, bool stop)
{
    if (k->loop == FZ_NONE) {
        *(k->scope == FZ_IN_TRAIN ? &k->stopped : &k->ended) |= stop;
        k->pos = k->n_order;
        return;
    }
    if (stop)
        k->trips[k->loop] = 1;
    k->pos = onward(k, end_of(k, k->loop, k->pos));
}

static bool stream_node(const fz_node *n)
{
    return fz_classes[n->op].flags & FZ_DATA && n->op != FZ_BATCH;
}

/* Runs nodes until the iteration ends; false: waits. */
static bool iterate(fz_rank *k)
{
    const fz_model *m = k->sim->m;

    while (k->pos < k->n_order) {
        int            i = k->order[k->pos];
        const fz_node *n = &m->node[i];
        fz_end         end = FZ_WENT_ON;
        bool           threads = n->n_in && n->in[0].node != FZ_NONE && stream_node(&m->node[n->in[0].node]) &&
                       fz_classes[n->op].flags & FZ_COLLECTIVE;

        k->sim->work++;
        if (n->op == FZ_LOOP) {
            enter(k, i);
            continue;
        }
        if (n->op == FZ_SKIP || n->op == FZ_STOP) {
            if (fz_guard(k, n) && (n->on == FZ_NONE || n->on == k->r))
                leave(k, n->op == FZ_STOP);
            else
                k->pos = onward(k, k->pos + 1);
            continue;
        }
        if (!threads)
            end = fz_fire(k, i);
        if (end == FZ_WAIT)
            return false;
        if (end == FZ_LOST_BATCH || end == FZ_LEFT_OUT) {
            k->loop = FZ_NONE;
            k->pos = k->n_order;
            k->turn = 0;
            k->lost = end == FZ_LOST_BATCH;
            return true;
        }
        k->pos = onward(k, k->pos + 1);
    }
    return true;
}

/* --- the course of a run ----------------------------------------------------------------------- */

static void begin_scope(fz_rank *k, int scope, int plan)
{
    const fz_model *m = k->sim->m;

    k->scope = scope;
    k->plan = plan;
    k->iteration = 0;
    k->ended = false;
    k->stream = (struct stream){ 0 };
    k->pos = 0;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == scope)
            k->metric[i] = 0;
    k->state = FZ_S_STREAM;
}

/* Builds the lists of the scope's data nodes; false: waits. */
static bool build(fz_rank *k)
{
    const fz_model *m = k->sim->m;

    for (; k->pos < m->n_nodes; k->pos++) {
        const fz_node *n = &m->node[k->pos];

        if (n->scope != k->scope || n->dead)
            continue;
        if (n->op == FZ_BATCH && n->in[0].node != FZ_NONE)
            k->stream.last = k->list[n->in[0].node];
        /* what loader threads exchange is what came in */
        if (fz_classes[n->op].flags & FZ_COLLECTIVE && n->in[0].node != FZ_NONE)
            k->list[k->pos] = k->list[n->in[0].node];
        if (stream_node(n) && fz_stream_node(k, k->pos) == FZ_WAIT)
            return false;
    }
    return true;
}

/* Loader threads exchange streams when they come to it: before the epoch begins, in one of its
 * iterations, or after it. `now` is where the rank is. False: waits. */
enum { EARLY = -2, LATE = 100 };
static bool exchange_streams(fz_rank *k, int scope, int now)
{
    const fz_model *m = k->sim->m;

    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (n->scope != scope || n->dead || !(fz_classes[n->op].flags & FZ_COLLECTIVE) || n->in[0].node == FZ_NONE ||
            !stream_node(&m->node[n->in[0].node]))
            continue;
        if (now == EARLY && !k->answered && k->late[i] == FZ_NONE) /* a new epoch's */
            k->late[i] = fz_chance(&k->own, 40) ? EARLY : fz_below(&k->own, 4);
        if (k->late[i] == FZ_NONE || (k->late[i] != now && now != LATE))
            continue;
        if (!k->answered)
            k->ask = (fz_request){ .what = FZ_BARRIER, .node = i, .axis = fz_given(n->axis, 0), .count = 1 };
        if (!fz_meet(k))
            return false;
        k->late[i] = FZ_NONE;
    }
    return true;
}

static bool has_batch(const fz_rank *k)
{
    const fz_model *m = k->sim->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && m->node[i].op == FZ_BATCH && !m->node[i].dead)
            return true;
    return false;
}

static bool repeats(const fz_rank *k)
{
    const fz_model *m = k->sim->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && m->node[i].repeat == 1)
            return true;
    return false;
}

/* Head of the loop over batches; false: waits. */
static bool head(fz_rank *k)
{
    const fz_model *m = k->sim->m;
    bool            train = k->scope == FZ_IN_TRAIN;

    if (!exchange_streams(k, k->scope, k->iteration))
        return false;
    if ((train && ((m->steps && k->step >= m->steps) || k->stopped)) || (!train && k->ended) ||
        (!has_batch(k) && k->iteration >= 4)) {
        k->state = FZ_S_SCOPE_END;
        return true;
    }
    if (has_batch(k) && !fz_stream_next(k)) {
        if (train && repeats(k) && m->steps) {
            k->sim->work += 1000; /* a stream of nothing never gives anything: no verdict */
            k->plan++;
            k->stream = (struct stream){ 0 };
            k->pos = 0;
            k->state = FZ_S_STREAM;
            return true;
        }
        k->state = FZ_S_SCOPE_END;
        return true;
    }
    forget_body(k, FZ_NONE);
    put_in_order(k);
    k->captured = false;
    k->pos = 0;
    k->loop = FZ_NONE;
    k->turn = 0;
    k->state = FZ_S_NODES;
    return true;
}

static void evaluate(fz_rank *k, fz_state back)
{
    const fz_model *m = k->sim->m;

    k->back = back;
    if (m->eval_on != FZ_NONE && m->eval_on != k->r) {
        k->state = back;
        return;
    }
    k->kept = k->stream;
    k->kept_iteration = k->iteration;
    k->kept_plan = k->plan;
    k->evaluation++;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == FZ_IN_EVALUATE)
            k->late[i] = fz_below(&k->own, 4);
    begin_scope(k, FZ_IN_EVALUATE, 1000 + k->evaluation);
}

static bool time_to_evaluate(fz_rank *k, bool epoch)
{
    const fz_model *m = k->sim->m;

    if (!m->evaluates)
        return false;
    if (m->every_minutes)
        return fz_chance(&k->own, 40);
    return epoch ? !m->every_steps && (k->epoch + 1) % (m->every_epochs ? m->every_epochs : 1) == 0
                 : m->every_steps && k->step % m->every_steps == 0;
}

/* What follows from the numbers of an evaluation. */
static void judge_metrics(fz_rank *k)
{
    const fz_model *m = k->sim->m;
    bool            better;

    if (m->best.node == FZ_NONE || fz_elsewhere(k, &m->node[m->best.node]))
        return;
    better = k->evaluation == 1 || k->metric[m->best.node] > k->best;
    if (better)
        k->best = k->metric[m->best.node];
    k->without = better ? 0 : k->without + 1;
    k->choices |= (uint64_t)better << (k->n_choices++ % 64);
    k->stopped |= m->patience && k->without >= m->patience;
    k->stopped |= m->patience_minutes && k->without && fz_chance(&k->own, 50);
}

static void end_scope(fz_rank *k)
{
    k->pos = 0;
    if (k->scope == FZ_IN_EVALUATE) {
        judge_metrics(k);
        k->scope = FZ_IN_TRAIN;
        k->stream = k->kept;
        k->iteration = k->kept_iteration;
        k->plan = k->kept_plan;
        k->state = k->back;
    } else if (time_to_evaluate(k, true)) {
        evaluate(k, FZ_S_EPOCH_END);
    } else {
        k->state = FZ_S_EPOCH_END;
    }
}

static void iterated(fz_rank *k)
{
    k->state = FZ_S_HEAD;
    if (k->lost) {
        k->lost = false;
        return;
    }
    k->iteration++;
    if (k->scope == FZ_IN_TRAIN) {
        k->step++;
        if (time_to_evaluate(k, false))
            evaluate(k, FZ_S_HEAD);
    }
}

static bool start_epoch(fz_rank *k)
{
    const fz_model *m = k->sim->m;

    if (k->stopped || (m->steps ? k->step >= m->steps || k->epoch > 20 : k->epoch >= m->epochs)) {
        k->state = FZ_S_DONE;
        return true;
    }
    if (!k->begun && !exchange_streams(k, FZ_IN_TRAIN, EARLY))
        return false;
    k->begun = true;
    if (k->sim->meets[FZ_IN_TRAIN]) {
        if (!k->answered)
            k->ask = (fz_request){ .what = FZ_BARRIER, .node = EPOCH_NODE, .axis = FZ_DP | FZ_TP, .count = 1 };
        if (!fz_meet(k))
            return false;
    }
    k->begun = false;
    begin_scope(k, FZ_IN_TRAIN, repeats(k) ? k->plan + 1 : k->epoch);
    return true;
}

static void advance(fz_rank *k)
{
    fz_sim *s = k->sim;
    bool    on = true;

    while (on && k->state != FZ_S_DONE && s->fault->kind == FZ_SAME && s->work < MOST_WORK) {
        s->work++;
        switch (k->state) {
        case FZ_S_EPOCH: on = start_epoch(k); break;
        case FZ_S_STREAM:
            on = build(k);
            if (on)
                k->state = FZ_S_HEAD;
            break;
        case FZ_S_HEAD: on = head(k); break;
        case FZ_S_NODES:
            on = iterate(k);
            if (on)
                k->state = FZ_S_ITERATED;
            break;
        case FZ_S_ITERATED: iterated(k); break;
        case FZ_S_SCOPE_END:
            on = exchange_streams(k, k->scope, LATE);
            if (on)
                end_scope(k);
            break;
        case FZ_S_EPOCH_END:
            k->epoch++;
            k->state = FZ_S_EPOCH;
            break;
        case FZ_S_DONE: break;
        }
    }
}

/* --- a run ------------------------------------------------------------------------------------- */

/* As far as both have chosen, have they chosen the same? */
static void compare_choices(fz_sim *s, const fz_rank *a, const fz_rank *b)
{
    int      n = a->n_choices < b->n_choices ? a->n_choices : b->n_choices;
    uint64_t both = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;

    if ((a->choices & both) != (b->choices & both))
        fz_part(s, FZ_OTHER_STATE, "ranks %d and %d choose other checkpoints", a->r, b->r);
}

static void compare_states(fz_sim *s)
{
    const fz_model *m = s->m;

    for (int r = 1; r < s->n_ranks; r++) {
        compare_choices(s, &s->rank[0], &s->rank[r]);
        for (int i = 0; i < FZ_NODES + FZ_PARAMS; i++) {
            int node = i < FZ_NODES ? i : i - FZ_NODES < FZ_NODES ? i - FZ_NODES : 0;

            if (s->rank[r].state_of[i] != s->rank[0].state_of[i])
                fz_part(s, FZ_OTHER_STATE, "state of <%s id=\"%s\"> differs between ranks 0 and %d",
                        fz_classes[m->node[node].op].name, m->node[node].id, r);
        }
    }
}

static void compare_divisors(fz_sim *s)
{
    for (int i = 0; i < s->m->n_nodes; i++)
        for (int r = 1; r < s->n_ranks; r++)
            for (int t = 0; t < 16; t++)
                if (s->divisor[i][r][t].there && s->divisor[i][0][t].there &&
                    s->divisor[i][r][t].value != s->divisor[i][0][t].value)
                    fz_part(s, FZ_OTHER_NORMALISER, "<loss id=\"%s\"> counts %g objects on rank 0, %g on rank %d",
                            s->m->node[i].id, s->divisor[i][0][t].value, s->divisor[i][r][t].value, r);
}

static void start(fz_sim *s)
{
    const fz_model *m = s->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope <= FZ_IN_EVALUATE && fz_launches(m, i))
            s->meets[m->node[i].scope] = true;
    for (int r = 0; r < s->n_ranks; r++) {
        fz_rank *k = &s->rank[r];

        k->sim = s;
        k->r = r;
        k->dp = r / m->tp;
        k->tp = r % m->tp;
        k->own = (fz_dice){ fz_mix(s->seed, (uint64_t)r + 100), 0 };
        k->loop = FZ_NONE;
        for (int i = 0; i < FZ_NODES; i++)
            k->late[i] = FZ_NONE;
        for (int p = 0; p < FZ_PARAMS; p++)
            k->w[p] = fz_unit(fz_mix(s->seed, (uint64_t)p + 10000));
    }
}

/* Nobody can go on: who waits for whom? */
static void name_the_waiting(fz_sim *s)
{
    for (int r = 0; r < s->n_ranks; r++)
        for (int o = 0; s->rank[r].blocked && o < s->n_ranks; o++)
            if (o != r && mates(&s->rank[o], &s->rank[r], s->rank[r].ask.axis) &&
                (!s->rank[o].blocked || s->rank[o].ask.axis != s->rank[r].ask.axis))
                part_between(s, FZ_WAITS, &s->rank[r], &s->rank[o]);
}

bool fz_run(const fz_model *m, uint64_t seed, fz_fault *f, fz_sums *sums)
{
    fz_sim *s = calloc(1, sizeof *s);
    bool    moved = true;

    *f = (fz_fault){ .kind = FZ_SAME };
    if (!s)
        return false;
    s->m = m;
    s->seed = seed;
    s->n_ranks = m->dp * m->tp;
    s->fault = f;
    s->sums = sums;
    start(s);
    while (moved && f->kind == FZ_SAME && s->work < MOST_WORK) {
        moved = false;
        for (int r = 0; r < s->n_ranks; r++)
            if (!s->rank[r].blocked && s->rank[r].state != FZ_S_DONE) {
                advance(&s->rank[r]);
                moved = true;
            }
        for (int r = 0; r < s->n_ranks && f->kind == FZ_SAME; r++)
            if (s->rank[r].blocked)
                moved |= settle(s, &s->rank[r]);
    }
    if (s->work < MOST_WORK)
        name_the_waiting(s);
    if (s->work < MOST_WORK && f->kind == FZ_SAME)
        compare_states(s);
    if (f->kind == FZ_SAME)
        compare_divisors(s);
    free(s);
    return f->kind != FZ_SAME;
}

/* --- what needs no run ------------------------------------------------------------------------- */

static void reach(const fz_model *m, int node, fz_set *seen, const fz_node *through)
{
    const fz_node *n = &m->node[node];
    int            ins = n->op == FZ_NORM || n->op == FZ_LOSS ? 1 : n->n_in;

    if (n->dead || n->op == FZ_TEST || n->op == FZ_GRADIENT_NORM || fz_classes[n->op].flags & (FZ_COLLECTIVE | FZ_DATA))
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

/* A parameter that the reduction of gradients waits for, and that no wire connects with the loss. */
static bool never_ready(const fz_model *m, fz_fault *f)
{
    fz_set seen = { { 0, 0 } };
    bool   used[FZ_NODES] = { false }, reduced = false, box = false, class = false;
    int    backward = FZ_NONE;

    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (n->dead || n->scope != FZ_IN_TRAIN)
            continue;
        if (n->op == FZ_BACKWARD)
            backward = i;
        reduced |= n->op == FZ_ALLREDUCE && backward != FZ_NONE && n->in[0].node == backward;
        used[i] = true;
        for (int k = 0; n->op == FZ_USE && k < m->n_nodes; k++)
            used[k] |= m->node[k].scope == FZ_IN_MODEL + n->model;
    }
    if (backward == FZ_NONE || !reduced)
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

static int device_of(const fz_model *m, const fz_node *n)
{
    int rank = m->devices == FZ_GPU_NONE ? FZ_DEV_CPU : FZ_DEV_RANK;

    return n->device == FZ_NONE || n->device == FZ_DEV_RANK ? rank : n->device;
}

bool fz_still(const fz_model *m, fz_fault *f)
{
    *f = (fz_fault){ .kind = FZ_WRONG_DEVICE };
    if (m->devices == FZ_GPU_ONE && m->share_gpu != 1 && m->dp * m->tp > 1) {
        snprintf(f->text, sizeof f->text, "all ranks have cuda:0");
        return true;
    }
    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        for (int k = 0; k < n->n_in && !n->dead; k++) {
            const fz_node *from = n->in[k].node == FZ_NONE ? NULL : &m->node[n->in[k].node];

            if (!from || !(fz_classes[n->op].flags & FZ_TENSOR_OP || (n->device != FZ_NONE && n->device != FZ_DEV_CPU)) ||
                !(fz_classes[from->op].flags & FZ_TENSOR_OP || from->op == FZ_BATCH) ||
                device_of(m, n) == device_of(m, from))
                continue;
            snprintf(f->text, sizeof f->text, "<%s id=\"%s\"> and its input are on two devices",
                     fz_classes[n->op].name, n->id);
            return true;
        }
    }
    *f = (fz_fault){ .kind = FZ_SAME };
    return never_ready(m, f);
}
