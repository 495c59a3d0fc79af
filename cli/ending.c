/* ending.c: see ending.h. */
#include "cli/ending.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "control/control_file.h"
#include "report/history.h"

/* The step of the last checkpoint; -1: none. */
static int64_t saved_step(const char *folder, dg_arena *a)
{
    char to[64];
    ssize_t n = readlink(dg_path_join(a, folder, "checkpoints/last"), to, sizeof to - 1);
    int64_t step;

    if (n <= 5)
        return -1;
    to[n] = '\0';
    return dg_parse_i64(to + strlen("step-"), &step) ? step : -1;
}

/* "detrgraph run p.xml --set a=1 --ranks 2 --out OUT" */
static void add_command(dg_str *s, const dg_history *h)
{
    const dg_json *sets = dg_json_get(h->run, "sets");
    const double ranks = dg_history_number(h, "ranks");

    dg_str_add(s, "detrgraph run ");
    dg_str_shell(s, dg_json_text(h->run, "file"));
    for (int i = 0; sets && sets->kind == DG_JSON_ARRAY && i < sets->n; i++)
        if (sets->items[i].kind == DG_JSON_STRING) {
            dg_str_add(s, " --set ");
            dg_str_shell(s, sets->items[i].text);
        }
    if (ranks > 1 && dg_history_number(h, "machines") == 1)
        dg_str_fmt(s, " --ranks %.0f", ranks);
    dg_str_add(s, " --out ");
    dg_str_shell(s, h->folder);
}

static void add_continue(dg_str *out, const dg_history *h, int64_t saved)
{
    dg_str_add(out, "What to do: ");
    add_command(out, h);
    if (saved >= 0)
        dg_str_fmt(out, " --resume continues after step %lld.\n", (long long)saved);
    else
        dg_str_add(out, " --force begins anew: nothing of it was saved.\n");
}

static void add_gone(dg_str *out, const dg_history *h)
{
    dg_control_file file = { 0 };
    dg_diag *ignored = dg_diag_open();

    dg_str_fmt(out,
               "The run was ended from outside after step %.0f (kill -9, lack of memory, or "
               "power): ",
               fmax(dg_history_step(h), 0));
    if (dg_control_file_exists(h->folder) &&
        dg_control_file_read(h->folder, &file, h->arena, ignored) == 0)
        dg_str_fmt(out, "its process %lld is gone", (long long)file.process);
    else
        dg_str_add(out, "its process is gone");
    dg_str_add(out, ", and it wrote no reason.\n");
    dg_diag_close(&ignored);
}

static bool tell(dg_str *out, const dg_history *h, bool asked)
{
    const char *state = dg_history_text(h, "end.state"), *why = dg_history_text(h, "end.why");
    const long long step = (long long)fmax(dg_history_step(h), 0);
    const int64_t saved = saved_step(h->folder, h->arena);

    state = state ? state : "";
    why = why ? why : "";
    if (strcmp(state, "done") == 0) {
        dg_str_fmt(out, "The run is complete: it ended at step %lld: %s.\n", step, why);
    } else if (strcmp(state, "stopped") == 0) {
        dg_str_fmt(out, "The run was stopped at step %lld: %s.\n", step, why);
        add_continue(out, h, saved);
    } else if (h->alive) {
        if (asked)
            return false;
        dg_str_fmt(out, "The run is alive, at step %lld. What to do: detrgraph top ", step);
        dg_str_shell(out, h->folder);
        dg_str_add(out, " watches it.\n");
    } else if (h->verdict) {
        return false;
    } else if (strcmp(state, "failed") == 0) {
        dg_str_fmt(out, "The run failed at step %lld:\n%s", step, why);
        add_continue(out, h, saved);
    } else {
        add_gone(out, h);
        add_continue(out, h, saved);
    }
    return true;
}

bool dg_ending_tell(dg_str *out, const char *folder, bool asked)
{
    dg_diag *own = dg_diag_open();
    dg_history *h = NULL;
    dg_arena *a = dg_arena_open();
    bool told = false;

    if (dg_history_open(&h, folder, own) == 0 && h->run) {
        told = tell(out, h, asked);
    } else if (dg_exists(dg_path_join(a, folder, "run.json")) &&
               !dg_exists(dg_path_join(a, folder, "flight")) && dg_diag_n(own)) {
        const dg_err *e = dg_diag_at(own, 0);

        dg_str_fmt(out, "How the run ended cannot be told: %s: %s.\n",
                   e->at.file ? e->at.file : folder, e->text);
        told = true;
    }
    dg_history_close(&h);
    dg_arena_close(&a);
    dg_diag_close(&own);
    return told;
}
