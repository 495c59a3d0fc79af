/* fuzz_run.c: the course of a run: epochs, batches, evaluations, on every rank. */
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_machine.h"

enum { EPOCH_NODE = -2, MOST_WORK = 60000 };

/* ---- the course of a run --------------------------------------------------------------------- */

static void begin_scope(fz_rank *k, int scope, int plan)
{
    const fz_model *m = k->m;

    k->scope = scope;
    k->plan = plan;
    k->iteration = 0;
    k->ended = false;
    k->stream = (struct stream){ 0 };
    k->pos = 0;
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == scope)
            k->metric[i] =
                fz_joins_at_end(m, i) ? 1 + fz_unit(fz_mix(k->sim->seed, (uint64_t)plan)) : 0;
    k->state = FZ_S_STREAM;
}

/* Builds the lists of the scope's data nodes; false: waits. */
static bool build(fz_rank *k)
{
    const fz_model *m = k->m;

    for (; k->pos < m->n_nodes; k->pos++) {
        const fz_node *n = &m->node[k->pos];

        if (n->scope != k->scope || n->dead)
            continue;
        if (n->op == FZ_BATCH && n->in[0].node != FZ_NONE)
            k->stream.last = k->list[n->in[0].node];
        /* what loader threads exchange is what came in */
        if (fz_classes[n->op].flags & FZ_COLLECTIVE && n->in[0].node != FZ_NONE)
            k->list[k->pos] = k->list[n->in[0].node];
        if (fz_is_stream(n) && fz_stream_node(k, k->pos) == FZ_WAIT)
            return false;
    }
    return true;
}

/* Loader threads exchange streams when they come to it: before the epoch begins, in one of its
 * iterations, or after it. `now` is where the rank is. False: waits. */
enum { EARLY = -2, LATE = 100 };
static bool exchange_streams(fz_rank *k, int scope, int now)
{
    const fz_model *m = k->m;

    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (n->scope != scope || n->dead || !(fz_classes[n->op].flags & FZ_COLLECTIVE) ||
            n->in[0].node == FZ_NONE || !fz_is_stream(&m->node[n->in[0].node]))
            continue;
        if (now == EARLY && !k->answered && k->late[i] == FZ_NONE) /* a new epoch's */
            k->late[i] = fz_chance(&k->own, 40) ? EARLY : fz_below(&k->own, 4);
        if (k->late[i] == FZ_NONE || (k->late[i] != now && now != LATE))
            continue;
        if (!k->answered)
            k->ask = (fz_request){
                .what = FZ_BARRIER, .node = i, .axis = fz_given(n->axis, 0), .count = 1
            };
        if (!fz_meet(k))
            return false;
        k->late[i] = FZ_NONE;
    }
    return true;
}

static bool has_batch(const fz_rank *k)
{
    const fz_model *m = k->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && m->node[i].op == FZ_BATCH && !m->node[i].dead)
            return true;
    return false;
}

static bool repeats(const fz_rank *k)
{
    const fz_model *m = k->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == k->scope && m->node[i].repeat == 1)
            return true;
    return false;
}

/* Batches of an epoch of a stream that never ends: agreed at the start. */
enum { AGREED = 3 };

/* Head of the loop over batches; false: waits. */
static bool head(fz_rank *k)
{
    const fz_model *m = k->m;
    bool train = k->scope == FZ_IN_TRAIN;

    if (!exchange_streams(k, k->scope, k->iteration))
        return false;
    if ((train && !k->accumulated && ((m->steps && k->step >= m->steps) || k->stopped)) ||
        (!train && k->ended) || (!has_batch(k) && k->iteration >= 4)) {
        k->state = FZ_S_SCOPE_END;
        return true;
    }
    if (train && repeats(k) && !m->steps && k->iteration >= AGREED) {
        k->state = FZ_S_SCOPE_END;
        return true;
    }
    if (has_batch(k) && !fz_stream_next(k)) {
        if (train && repeats(k)) {
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
    fz_forget(k);
    fz_put_in_order(k);
    k->pos = 0;
    k->state = FZ_S_NODES;
    return true;
}

static void evaluate(fz_rank *k, fz_state back)
{
    const fz_model *m = k->m;

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

/* Time is rank 0's: what it decides is decided alike. */
static bool decided_by_time(const fz_rank *k, int percent)
{
    return fz_mix(fz_mix(k->sim->seed, (uint64_t)k->step), (uint64_t)k->epoch) % 100 <
           (uint64_t)percent;
}

static bool time_to_evaluate(fz_rank *k, bool epoch)
{
    const fz_model *m = k->m;

    if (!m->evaluates)
        return false;
    if (m->every_minutes)
        return decided_by_time(k, 40);
    return epoch ? !m->every_steps && (k->epoch + 1) % (m->every_epochs ? m->every_epochs : 1) == 0
                 : m->every_steps && k->step % m->every_steps == 0;
}

/* What follows from the numbers of an evaluation. */
static void judge_metrics(fz_rank *k)
{
    const fz_model *m = k->m;
    bool better;

    if (m->best.node == FZ_NONE || fz_elsewhere(k, &m->node[m->best.node]))
        return;
    better = k->evaluation == 1 || k->metric[m->best.node] > k->best;
    if (better)
        k->best = k->metric[m->best.node];
    k->without = better ? 0 : k->without + 1;
    k->choices |= (uint64_t)better << (k->n_choices++ % 64);
    k->stopped |= m->patience && k->without >= m->patience;
    k->stopped |= m->patience_minutes && k->without && decided_by_time(k, 50);
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
        k->batches++;
        k->accumulated = k->accumulated + 1 < k->m->accumulate ? k->accumulated + 1 : 0;
        if (k->accumulated)
            return;
        k->step++;
        if (time_to_evaluate(k, false))
            evaluate(k, FZ_S_HEAD);
    }
}

static bool start_epoch(fz_rank *k)
{
    const fz_model *m = k->m;

    if (k->stopped || (m->steps ? k->step >= m->steps || k->epoch > 20 : k->epoch >= m->epochs)) {
        k->state = FZ_S_DONE;
        return true;
    }
    if (!k->begun && !exchange_streams(k, FZ_IN_TRAIN, EARLY))
        return false;
    k->begun = true;
    if (k->sim->meets[FZ_IN_TRAIN]) {
        if (!k->answered)
            k->ask = (fz_request){ .what = FZ_BARRIER,
                                   .node = EPOCH_NODE,
                                   .axis = k->sim->meets[FZ_IN_TRAIN],
                                   .count = 1 };
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
    bool on = true;

    while (on && k->state != FZ_S_DONE && s->fault->kind == FZ_SAME && s->work < MOST_WORK) {
        s->work++;
        switch (k->state) {
        case FZ_S_EPOCH:
            on = start_epoch(k);
            break;
        case FZ_S_STREAM:
            on = build(k);
            if (on)
                k->state = FZ_S_HEAD;
            break;
        case FZ_S_HEAD:
            on = head(k);
            break;
        case FZ_S_NODES:
            on = s->texts ? fz_execute(k) : fz_iterate(k);
            if (on)
                k->state = FZ_S_ITERATED;
            break;
        case FZ_S_ITERATED:
            iterated(k);
            break;
        case FZ_S_SCOPE_END:
            on = exchange_streams(k, k->scope, LATE);
            if (on)
                end_scope(k);
            break;
        case FZ_S_EPOCH_END:
            k->epoch++;
            k->state = FZ_S_EPOCH;
            break;
        case FZ_S_DONE:
            break;
        }
    }
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* As far as both have chosen, have they chosen the same? */
static void compare_choices(fz_sim *s, const fz_rank *a, const fz_rank *b)
{
    int n = a->n_choices < b->n_choices ? a->n_choices : b->n_choices;
    uint64_t both = n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX;

    if ((a->choices & both) != (b->choices & both))
        fz_part(s, FZ_OTHER_STATE, "ranks %d and %d choose other checkpoints", a->r, b->r);
}

static void compare_states(fz_sim *s)
{
    const fz_model *m = s->m;

    for (int r = 1; r < s->n_ranks; r++) {
        compare_choices(s, &s->rank[0], &s->rank[r]);
        if (s->rank[r].batches != s->rank[0].batches)
            fz_part(s, FZ_OTHER_STEPS, "rank 0 takes %d batches, rank %d %d", s->rank[0].batches, r,
                    s->rank[r].batches);
        if (s->texts)
            fz_compare_spaces(s, &s->rank[0], &s->rank[r]);
        for (int i = 0; i < FZ_NODES + FZ_PARAMS; i++) {
            int node = i < FZ_NODES ? i : i - FZ_NODES < FZ_NODES ? i - FZ_NODES : 0;

            if (s->rank[r].state_of[i] != s->rank[0].state_of[i])
                fz_part(s, FZ_OTHER_STATE, "state of <%s id=\"%s\"> differs between ranks 0 and %d",
                        fz_classes[m->node[node].op].name, m->node[node].id, r);
        }
    }
}

static void compare_wholes(fz_sim *s)
{
    for (int i = 0; i < s->m->n_nodes; i++)
        for (int r = 1; r < s->n_ranks; r++)
            for (int t = 0; t < 16; t++)
                if (s->whole[i][r][t].batch && s->whole[i][r][t].batch == s->whole[i][0][t].batch &&
                    s->whole[i][r][t].value != s->whole[i][0][t].value)
                    fz_part(s, FZ_OTHER_NORMALISER,
                            "<%s id=\"%s\"> has %g on rank 0, %g on rank %d",
                            fz_classes[s->m->node[i].op].name, s->m->node[i].id,
                            s->whole[i][0][t].value, s->whole[i][r][t].value, r);
}

/* A simulation that nothing has happened in yet; its memory is that of the last one. */
static fz_sim *fresh(const fz_model *m)
{
    static fz_sim *s;
    const size_t n = (size_t)m->n_nodes;

    s = s ? s : fz_grown(NULL, sizeof *s);
    memset(s, 0, offsetof(fz_sim, rank));
    for (int r = 0; r < m->dp * m->tp; r++) {
        fz_rank *k = &s->rank[r];

        memset(k, 0, offsetof(fz_rank, out));
        memset(k->out, 0, n * sizeof *k->out);
        memset(k->key, 0, n * sizeof *k->key);
        memset(k->grads, 0, n * sizeof *k->grads);
        for (int i = 0; i < FZ_MOMENTS; i++)
            s->sight[r][i].moment = 0;
    }
    memset(s->dealt, 0, n * sizeof *s->dealt);
    memset(s->whole, 0, n * sizeof *s->whole);
    return s;
}

static void start(fz_sim *s, const fz_model *peer)
{
    const fz_model *m = s->m;

    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope <= FZ_IN_EVALUATE && fz_launches(m, i))
            s->meets[m->node[i].scope] |= fz_given(m->node[i].axis, FZ_DP);
    for (int r = 0; r < s->n_ranks; r++) {
        fz_rank *k = &s->rank[r];

        k->sim = s;
        k->m = r == s->n_ranks - 1 ? peer : m;
        k->r = r;
        k->dp = r / m->tp;
        k->tp = r % m->tp;
        k->own = (fz_dice){ fz_mix(s->seed, (uint64_t)r + 100), 0 };
        k->first = (int)(s->seed % 3);
        k->machine = s->texts ? fz_machine_open() : NULL;
        for (int i = 0; i < FZ_NODES; i++)
            k->late[i] = FZ_NONE;
        for (int p = 0; p < FZ_PARAMS; p++)
            k->w[p] = fz_unit(fz_mix(s->seed, (uint64_t)p + 10000));
    }
}

static bool run(const fz_model *m, const fz_model *peer, struct fz_texts *texts, uint64_t seed,
                fz_fault *f, fz_sums *sums)
{
    fz_sim *s = fresh(m);
    bool moved = true;

    *f = (fz_fault){ .kind = FZ_SAME };
    s->m = m;
    s->seed = seed;
    s->n_ranks = m->dp * m->tp;
    s->fault = f;
    s->sums = sums;
    s->texts = texts;
    start(s, peer);
    while (moved && f->kind == FZ_SAME && s->work < MOST_WORK) {
        moved = false;
        for (int r = 0; r < s->n_ranks; r++)
            if (!s->rank[r].blocked && s->rank[r].state != FZ_S_DONE) {
                advance(&s->rank[r]);
                moved = true;
            }
        for (int r = 0; r < s->n_ranks && f->kind == FZ_SAME; r++)
            if (s->rank[r].blocked)
                moved |= fz_settle(s, &s->rank[r]);
    }
    if (s->work < MOST_WORK)
        fz_name_the_waiting(s);
    if (s->work < MOST_WORK && f->kind == FZ_SAME)
        compare_states(s);
    if (f->kind == FZ_SAME)
        compare_wholes(s);
    for (int r = 0; r < s->n_ranks; r++)
        fz_machine_free(&s->rank[r].machine);
    return f->kind != FZ_SAME;
}

bool fz_run(const fz_model *m, const fz_model *peer, uint64_t seed, fz_fault *f, fz_sums *sums)
{
    return run(m, peer, NULL, seed, f, sums);
}

bool fz_run_programs(const fz_model *m, struct fz_texts *texts, uint64_t seed, fz_fault *f)
{
    return run(m, m, texts, seed, f, NULL);
}
