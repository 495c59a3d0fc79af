/* roster_time.c: who is silent, slow, or waits for ever. */
#include "runtime/roster_self.h"

#include <math.h>
#include <string.h>

static const double MISSED_S = DG_MISSED_S, QUIET_S = 0.5, START_S = 60, SLOW_S = 10, STALL_S = 5;

int dg_roster_lose_silent(dg_roster *r, double silent_s, double now)
{
    int first = -1;

    for (int i = r->conf.ranks - 1; i >= 0; i--) {
        dg_roster_rank *k = &r->ranks[i];

        if (!k->hello || k->left || k->failed || (!k->closed && now - k->heard_s < silent_s))
            continue;
        k->lost = true;
        first = i;
    }
    return first;
}

bool dg_roster_missed(const dg_roster *r, int rank, double now)
{
    const dg_roster_rank *k = &r->ranks[rank];

    return !dg_roster_over(r) && k->hello && !k->left && !k->gone && !k->failed && now - k->heard_s >= MISSED_S / 2;
}

void dg_roster_closed(dg_roster *r, int rank)
{
    r->ranks[rank].closed = true;
}

/* Who died with the launcher that would have told of it leaves a closed connection. One that broke is soon made again. */
static double limit_of(const dg_roster *r, const dg_roster_rank *k)
{
    return k->closed ? MISSED_S : k->hello ? r->conf.lost_after_s : fmax(r->conf.lost_after_s, START_S);
}

void dg_roster_tick_silence(dg_roster *r, int i, double now)
{
    dg_roster_rank *k = &r->ranks[i];
    double silent = now - k->heard_s, limit = limit_of(r, k);
    char   name[160];
    dg_str s = { 0 };

    if (silent < fmin(QUIET_S, limit) || (!k->hello && silent < limit))
        return;
    if (!k->quiet || silent >= limit)
        dg_roster_look(r, i);
    dg_str_add(&s, dg_roster_name(r, i, name, sizeof name));
    dg_str_fmt(&s, " has been silent for %.1f s", silent);
    dg_roster_add_where(&s, k);
    dg_str_add(&s, k->closed ? ", and its connection is closed" : "");
    if (silent >= limit) {
        k->lost = true;
        (void)dg_roster_lose_silent(r, fmax(limit - QUIET_S, MISSED_S), now); /* the others of its machine */
        dg_roster_add_saved(r, &s);
        dg_fail(r->verdict, DG_EIO, dg_roster_where_is(k), "rank-lost", "%s: it counts as lost", s.s);
        dg_roster_fail(r, true);
    } else if (!k->quiet) {
        k->quiet = true;
        dg_log_line(r->conf.env, DG_WARN, "%s; after %.3g s it counts as lost", s.s, limit);
    }
    dg_str_free(&s);
}

void dg_roster_tick_slow(dg_roster *r, int i)
{
    dg_roster_rank *k = &r->ranks[i];
    char  name[160];

    if (k->beat.waits || !*k->beat.node || k->beat.since_s < SLOW_S) {
        k->slow_told_s = 0;
        return;
    }
    if (k->beat.since_s < 2 * k->slow_told_s)
        return;
    k->slow_told_s = k->beat.since_s;
    dg_log_line(r->conf.env, DG_WARN, "%s is alive and has been in node \"%s\" (%s:%lld:%lld) for %.0f s: slow, or stuck",
                dg_roster_name(r, i, name, sizeof name), k->beat.node, k->beat.file, (long long)k->beat.line, (long long)k->beat.column,
                k->beat.since_s);
}

/* All wait for one another, and not in the same place: nobody will ever come. */
void dg_roster_tick_stall(dg_roster *r)
{
    dg_str s = { 0 };
    bool   apart = false;

    for (int i = 0; i < r->conf.ranks; i++) {
        const dg_roster_rank *k = &r->ranks[i];

        if (k->gone || k->left || !k->beat.waits || k->beat.since_s < STALL_S)
            return;
        apart |= strcmp(k->beat.node, r->ranks[0].beat.node) != 0 || k->beat.step != r->ranks[0].beat.step;
    }
    if (!apart)
        return;
    for (int i = 0; i < r->conf.ranks; i++)
        dg_str_fmt(&s, "%srank %d in \"%s\" (step %lld)", i ? ", " : "", i, r->ranks[i].beat.node, (long long)r->ranks[i].beat.step + 1);
    dg_fail(r->verdict, DG_EINTERNAL, dg_roster_where_is(&r->ranks[0]), "ranks-apart", "every rank waits for the others, in different places: %s", s.s);
    dg_roster_fail(r, false);
    dg_str_free(&s);
}
