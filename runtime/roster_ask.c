/* roster_ask.c: what a person asks of a run: status, save, stop, set. */
#include "runtime/roster_self.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

static void add_status(const dg_roster *r, dg_str *s, double now)
{
    dg_str_fmt(s, "%d rank%s, %s, last step on disk %s%lld\n", r->conf.ranks, r->conf.ranks > 1 ? "s" : "",
               dg_roster_over(r) ? "ending" : r->state.stop_after >= 0 ? "stopping" : r->state.met ? "training" : "starting",
               r->saved < 0 ? "none " : "", (long long)r->saved);
    for (int i = 0; i < r->conf.ranks; i++) {
        const dg_roster_rank *k = &r->ranks[i];
        char        name[160];

        dg_str_add(s, dg_roster_name(r, i, name, sizeof name));
        if (k->gone || k->left)
            dg_str_add(s, " has left");
        else if (!k->hello)
            dg_str_add(s, " has not come yet");
        else
            dg_str_fmt(s, " heard %.1f s ago", now - k->heard_s);
        dg_roster_add_where(s, k);
        dg_str_add(s, "\n");
    }
}

static bool ask_set(dg_roster *r, const char *text, dg_str *answer)
{
    double lr;

    if (strncmp(text, "lr=", 3) != 0 || !dg_parse_f64(text + 3, &lr) || !(lr > 0) || !isfinite(lr)) {
        dg_str_fmt(answer, "set %s: lr=NUMBER is expected, a learning rate above 0", text);
        return false;
    }
    if (r->state.lr_from > r->state.confirmed) { /* some ranks may have begun with that one, others not yet */
        dg_str_add(answer, "the learning rate set before has not taken effect yet: try again after this step");
        return false;
    }
    r->state.lr_before = r->state.lr;
    r->state.lr = lr;
    r->state.lr_from = r->state.confirmed + 2;
    dg_str_fmt(answer, "learning rate %g from batch %lld on", lr, (long long)r->state.lr_from + 1);
    return true;
}

bool dg_roster_ask(dg_roster *r, const char *verb, const char *text, dg_str *answer, double now)
{
    int64_t after = r->state.confirmed + 1;

    if (strcmp(verb, "status") == 0) {
        add_status(r, answer, now);
        return true;
    }
    if (dg_roster_over(r)) {
        dg_str_add(answer, "the run is ending");
        return false;
    }
    if (strcmp(verb, "save") == 0) {
        if (r->state.save_after < 0 || r->state.save_after < r->state.confirmed) /* else one is on its way */
            r->state.save_after = after;
        dg_str_fmt(answer, "saving after batch %lld", (long long)r->state.save_after + 1);
    } else if (strcmp(verb, "stop") == 0) {
        r->state.stop_after = r->state.stop_after >= 0 ? r->state.stop_after : after;
        dg_str_fmt(answer, "saving and stopping after batch %lld", (long long)r->state.stop_after + 1);
    } else if (strcmp(verb, "set") != 0) {
        dg_str_fmt(answer, "there is no \"%s\": status, save, stop or set", verb);
        return false;
    } else if (!ask_set(r, text, answer)) {
        return false;
    }
    r->changed++;
    return true;
}
