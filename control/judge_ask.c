/* judge_ask.c: answers requests of `detrgraph ctl`: status, save, stop, set. */
#include "control/judge_internal.h"

#include <string.h>

#include <detrgraph/kernel.h>

#include "base/str.h"
#include "control/facts.h"

static void add_rate(dg_str *s, double lr)
{
    if (lr > 0)
        dg_str_fmt(s, "learning rate %g", lr);
    else
        dg_str_add(s, "learning rate of the schedule");
}

/* Adds the learning rate if a person has set it, in this run or before it was resumed. */
static void add_set_rate(const dg_judge *r, dg_str *s)
{
    const dg_rows *facts = &r->ranks[0].facts;
    const dg_rates *rates = &r->state.rates;

    for (int i = 0; i < rates->n; i++) {
        bool comes = rates->v[i].from > 0 && rates->v[i].from > r->state.confirmed;

        if (!comes && i + 1 < rates->n && rates->v[i + 1].from <= r->state.confirmed)
            continue; /* no longer in effect */
        add_rate(s, rates->v[i].lr);
        if (comes)
            dg_str_fmt(s, " from batch %lld on", (long long)rates->v[i].from + 1);
        dg_str_add(s, ", as it was set\n");
    }
    for (int i = 0; i < facts->n && !rates->n; i++)
        if (strcmp(facts->v[i].name, dg_fact_rate) == 0)
            dg_str_fmt(s, "learning rate %s, as it was set before the run was resumed\n",
                       facts->v[i].value);
}

static const char *word_of(const dg_judge *r)
{
    return dg_judge_over(r)           ? "ending"
           : r->state.stop_after >= 0 ? "stopping"
           : r->state.met             ? "training"
                                      : "starting";
}

static void add_status(const dg_judge *r, dg_str *s, double now)
{
    dg_str_fmt(s, "%d rank%s, %s, ", r->conf.ranks, r->conf.ranks > 1 ? "s" : "", word_of(r));
    if (r->saved < 0)
        dg_str_add(s, "nothing is saved yet\n");
    else
        dg_str_fmt(s, "last step on disk %lld\n", (long long)r->saved);
    add_set_rate(r, s);
    for (int i = 0; i < r->conf.ranks; i++) {
        const dg_judge_rank *k = &r->ranks[i];
        char name[160];

        dg_str_add(s, dg_judge_name(r, i, name, sizeof name));
        if (k->gone || k->left)
            dg_str_add(s, " has left");
        else if (!k->hello)
            dg_str_add(s, " has not come yet");
        else
            dg_str_fmt(s, " heard %.1f s ago", now - k->heard_s);
        dg_judge_add_where(s, k);
        dg_str_add(s, "\n");
    }
}

/* Parses "lr=1e-4"; "lr=schedule" gives -1. */
static bool read_rate(const char *text, double *lr)
{
    *lr = -1;
    if (strncmp(text, "lr=", 3) != 0)
        return false;
    return strcmp(text + 3, "schedule") == 0 ||
           (dg_parse_f64(text + 3, lr) && *lr > 0 && *lr <= DG_LR_MAX);
}

static void add_rank_json(dg_str *s, const dg_judge_rank *k, int i, double now)
{
    dg_str_fmt(s, "%s{\"rank\":%d,\"host\":", i ? ",\n" : "", i);
    dg_str_json(s, k->host ? k->host : "");
    dg_str_fmt(s, ",\"process\":%lld,\"state\":\"%s\",\"heard_seconds\":", (long long)k->process,
               k->gone || k->left ? "left"
               : k->hello         ? "here"
                                  : "absent");
    dg_str_json_real(s, k->hello ? now - k->heard_s : -1);
    dg_str_fmt(s, ",\"step\":%lld,\"node\":", (long long)k->beat.step + 1);
    dg_str_json(s, k->beat.node);
    dg_str_add(s, ",\"file\":");
    dg_str_json(s, k->beat.file);
    dg_str_fmt(s, ",\"line\":%lld,\"column\":%lld,\"waits\":%s,\"since_seconds\":",
               (long long)k->beat.line, (long long)k->beat.column,
               k->beat.waits ? "true" : "false");
    dg_str_json_real(s, k->beat.since_s);
    dg_str_add(s, "}");
}

/* The status as JSON. */
static void add_status_json(const dg_judge *r, dg_str *s, double now)
{
    dg_str_fmt(s, "{\"ranks\":%d,\"state\":\"%s\",\"attempt\":%u,\"saved\":%lld,\"rank\":[",
               r->conf.ranks, word_of(r), r->conf.attempt, (long long)r->saved);
    for (int i = 0; i < r->conf.ranks; i++)
        add_rank_json(s, &r->ranks[i], i, now);
    dg_str_add(s, "]}\n");
}

static bool ask_set(dg_judge *r, const char *text, dg_str *answer)
{
    const dg_rates *rates = &r->state.rates;
    int64_t now = r->state.confirmed;
    double lr;

    if (!read_rate(text, &lr)) {
        dg_str_fmt(answer,
                   "set %s: lr=NUMBER is expected, a learning rate above 0 and up to %g, or "
                   "lr=schedule",
                   text, DG_LR_MAX);
        return false;
    }
    /* some ranks may have begun with the other rate already */
    for (int i = 0; i < rates->n; i++)
        if (rates->v[i].from > now && (now < 0 || rates->v[i].from <= now + 2)) {
            dg_str_add(
                answer,
                "the learning rate set before has not taken effect yet: try again after this step");
            return false;
        }
    dg_rates_set(&r->state.rates, now + 2, lr);
    add_rate(answer, lr);
    dg_str_fmt(answer, " from batch %lld on", (long long)now + 3);
    return true;
}

bool dg_judge_ask(dg_judge *r, const char *verb, const char *text, dg_str *answer, double now)
{
    int64_t after = r->state.confirmed + 1;

    if (strcmp(verb, "status") == 0) {
        if (strcmp(text, "json") == 0)
            add_status_json(r, answer, now);
        else
            add_status(r, answer, now);
        return true;
    }
    if (dg_judge_over(r)) {
        dg_str_add(answer, "the run is ending");
        return false;
    }
    if (strcmp(verb, "save") == 0) {
        /* otherwise a save is pending */
        if (r->state.save_after < 0 || r->state.save_after < r->state.confirmed)
            r->state.save_after = after;
        dg_str_fmt(answer, "saving after batch %lld", (long long)r->state.save_after + 1);
    } else if (strcmp(verb, "stop") == 0) {
        r->state.stop_after = r->state.stop_after >= 0 ? r->state.stop_after : after;
        dg_str_fmt(answer, "saving and stopping after batch %lld",
                   (long long)r->state.stop_after + 1);
    } else if (strcmp(verb, "set") != 0) {
        dg_str_fmt(answer, "there is no \"%s\": status, save, stop or set", verb);
        return false;
    } else if (!ask_set(r, text, answer)) {
        return false;
    }
    r->changed++;
    return true;
}
