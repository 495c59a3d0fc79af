/* judge_time.c: silent ranks, slow ranks, and ranks that wait for each other forever. */
#include "control/judge_internal.h"

#include <math.h>
#include <string.h>

/* QUIET_S: what a busy machine does not reach; SLACK_S: ranks of one machine end within it */
static const double MISSED_S = DG_MISSED_S, QUIET_S = 5, SLACK_S = 0.5, START_S = 60, SLOW_S = 10,
                    STALL_S = 5;
/* how long all ranks may stand still: while they open their data, which a slow file server makes
 * long; once they train; and after a request to stop */
static const double STILL_START_S = 3600, STILL_S = 600, STILL_STOP_S = 120;

int dg_judge_lose_silent(dg_judge *r, double silent_s, double now)
{
    int first = -1;

    for (int i = r->conf.ranks - 1; i >= 0; i--) {
        dg_judge_rank *k = &r->ranks[i];

        if (!k->hello || k->left || k->failed || (!k->closed && now - k->heard_s < silent_s))
            continue;
        k->lost = true;
        first = i;
    }
    return first;
}

bool dg_judge_missed(const dg_judge *r, int rank, double now)
{
    const dg_judge_rank *k = &r->ranks[rank];

    return !dg_judge_over(r) && k->hello && !k->left && !k->gone && !k->failed &&
           now - k->heard_s >= MISSED_S / 2;
}

void dg_judge_closed(dg_judge *r, int rank)
{
    r->ranks[rank].closed = true;
}

/* How long rank k may be silent. A closed connection shortens it: its launcher died with it, or
 * else it reconnects soon. */
static double limit_of(const dg_judge *r, const dg_judge_rank *k)
{
    return k->closed  ? MISSED_S
           : k->hello ? r->conf.lost_after_s
                      : fmax(r->conf.lost_after_s, START_S);
}

void dg_judge_tick_silence(dg_judge *r, int i, double now)
{
    dg_judge_rank *k = &r->ranks[i];
    double silent = now - k->heard_s, limit = limit_of(r, k);
    char name[160];
    dg_str s = { 0 };

    if (silent < fmin(QUIET_S, limit / 2) || (!k->hello && silent < limit))
        return;
    if (!k->quiet || silent >= limit)
        dg_judge_look(r, i);
    dg_str_add(&s, dg_judge_name(r, i, name, sizeof name));
    dg_str_fmt(&s, " has been silent for %.1f s", silent);
    dg_judge_add_where(&s, k);
    dg_str_add(&s, k->closed ? ", and its connection is closed" : "");
    if (silent >= limit) {
        k->lost = true;
        /* also the other ranks of its machine */
        (void)dg_judge_lose_silent(r, fmax(limit - SLACK_S, MISSED_S), now);
        dg_judge_add_saved(r, &s);
        dg_fail(r->verdict, DG_EIO, dg_judge_where_is(k), "rank-lost", "%s: it counts as lost",
                s.s);
        dg_judge_fail(r, true);
    } else if (!k->quiet && r->conf.ranks > 1) {
        k->quiet = true;
        dg_log_line(r->conf.env, DG_WARN, "%s; after %.3g s it counts as lost", s.s, limit);
    }
    dg_str_free(&s);
}

void dg_judge_tick_slow(dg_judge *r, int i)
{
    dg_judge_rank *k = &r->ranks[i];
    char name[160];

    if (k->beat.waits || !*k->beat.node || k->beat.since_s < SLOW_S) {
        k->slow_logged_s = 0;
        return;
    }
    if (k->beat.since_s < 2 * k->slow_logged_s)
        return;
    k->slow_logged_s = k->beat.since_s;
    dg_log_line(r->conf.env, DG_WARN,
                "%s is alive and has been in node \"%s\" (%s:%lld:%lld) for %.0f s: slow, or stuck",
                dg_judge_name(r, i, name, sizeof name), k->beat.node, k->beat.file,
                (long long)k->beat.line, (long long)k->beat.column, k->beat.since_s);
}

/* Ends a run in which every rank is alive and none has moved for long: data that do not come, a
 * step that is never confirmed. */
static void tick_still(dg_judge *r)
{
    const bool stops = r->state.stop_after >= 0;
    const double limit = fmax(stops                    ? STILL_STOP_S
                              : r->state.confirmed < 0 ? STILL_START_S
                                                       : STILL_S,
                              4 * r->conf.lost_after_s);
    dg_str s = { 0 };

    for (int i = 0; i < r->conf.ranks; i++)
        if (!r->ranks[i].hello || r->ranks[i].gone || r->ranks[i].left ||
            r->ranks[i].beat.since_s < limit)
            return;
    for (int i = 0; i < r->conf.ranks && i < 8; i++) {
        dg_str_fmt(&s, "%srank %d%s", i ? ", " : "", i,
                   *r->ranks[i].beat.node ? "" : " before its first node");
        dg_judge_add_where(&s, &r->ranks[i]);
    }
    dg_judge_add_saved(r, &s);
    dg_fail(r->verdict, DG_EIO, dg_judge_where_is(&r->ranks[0]), "ranks-still",
            "every rank is alive, and none has moved for %.0f s%s: %s", limit,
            stops ? " after a request to stop" : "", s.s);
    dg_help(r->verdict, "a drive or a file server that does not answer is the usual cause");
    dg_judge_fail(r, true);
    dg_str_free(&s);
}

/* Detects a deadlock: all ranks wait for each other, but in different places. */
void dg_judge_tick_stall(dg_judge *r)
{
    dg_str s = { 0 };
    bool apart = false;

    tick_still(r);
    if (dg_judge_over(r))
        return;

    for (int i = 0; i < r->conf.ranks; i++) {
        const dg_judge_rank *k = &r->ranks[i];

        if (k->gone || k->left || !k->beat.waits || k->beat.since_s < STALL_S)
            return;
        apart |= strcmp(k->beat.node, r->ranks[0].beat.node) != 0 ||
                 k->beat.step != r->ranks[0].beat.step;
    }
    if (!apart)
        return;
    for (int i = 0; i < r->conf.ranks; i++)
        dg_str_fmt(&s, "%srank %d in \"%s\" (step %lld)", i ? ", " : "", i, r->ranks[i].beat.node,
                   (long long)r->ranks[i].beat.step + 1);
    dg_fail(r->verdict, DG_EINTERNAL, dg_judge_where_is(&r->ranks[0]), "ranks-apart",
            "every rank waits for the others, in different places: %s", s.s);
    dg_judge_fail(r, false);
    dg_str_free(&s);
}
