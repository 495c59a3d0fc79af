/* job.c: see job.h. */
#include "cli/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "control/control_file.h"
#include "control/message.h"

enum { JUDGED = 12 }; /* looks before a rank may be called late */
static const double most_s = 20, behind = 0.15, forgets = 0.95;

struct dg_job {
    dg_arena *arena, *answer; /* answer: owns the latest answer */
    const char *folder;
    dg_metrics_tail *follow;
    const dg_json *status;
    struct {
        /* number of looks, and of those in which it waited for other ranks; older ones count
         * less */
        double looks, waited;
    } rows[DG_MAX_RANKS];
};

dg_job *dg_job_open(const char *folder)
{
    dg_arena *a = dg_arena_open();
    dg_job *j = DG_NEW(a, dg_job);

    j->arena = a;
    j->folder = dg_strdup(a, folder);
    j->follow = dg_metrics_tail_open(folder);
    return j;
}

void dg_job_close(dg_job **j)
{
    dg_arena *a = *j ? (*j)->arena : NULL;

    if (*j) {
        dg_metrics_tail_close(&(*j)->follow);
        dg_arena_close(&(*j)->answer);
    }
    dg_arena_close(&a);
    *j = NULL;
}

int dg_job_ask(dg_job *j, dg_diag *d)
{
    dg_control_file e;
    dg_str answer = { 0 };
    bool done;
    int rc;

    dg_arena_close(&j->answer);
    j->answer = dg_arena_open();
    j->status = NULL;
    DG_TRY(dg_control_file_read(j->folder, &e, j->answer, d));
    DG_TRY(dg_control_file_ask(&e, "status", "json", most_s, &done, &answer, d));
    DG_TRY(dg_json_parse(&j->status, j->answer, answer.s, answer.n, "status", d));
    for (int i = 0; i < dg_job_ranks(j); i++) {
        j->rows[i].looks = forgets * j->rows[i].looks + 1;
        j->rows[i].waited = forgets * j->rows[i].waited + dg_job_waits(j, i);
    }
out:
    dg_str_free(&answer);
    return rc;
}

const dg_now *dg_job_look(dg_job *j)
{
    return dg_metrics_tail_look(j->follow);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

const dg_json *dg_job_status(const dg_job *j)
{
    return j->status;
}

int dg_job_ranks(const dg_job *j)
{
    const dg_json *ranks = dg_json_get(j->status, "rank");

    return ranks && ranks->kind == DG_JSON_ARRAY ? ranks->n < DG_MAX_RANKS ? ranks->n : DG_MAX_RANKS
                                                 : 0;
}

const dg_json *dg_job_rank(const dg_job *j, int i)
{
    return &dg_json_get(j->status, "rank")->items[i];
}

bool dg_job_waits(const dg_job *j, int i)
{
    const dg_json *v = dg_json_get(dg_job_rank(j, i), "waits");

    return v && v->kind == DG_JSON_BOOL && v->truth;
}

double dg_job_waited(const dg_job *j, int i)
{
    return j->rows[i].looks > 1.5 ? j->rows[i].waited / j->rows[i].looks : NAN;
}

double dg_job_memory(const dg_job *j, int i)
{
    const dg_json *rank = dg_job_rank(j, i);
    char path[48], host[256] = "";
    long long pages = 0;
    FILE *f;
    int n = 0;

    (void)gethostname(host, sizeof host - 1);
    if (strcmp(host, dg_json_text(rank, "host")) != 0)
        return NAN;
    snprintf(path, sizeof path, "/proc/%.0f/statm", dg_json_number(rank, "process"));
    f = fopen(path, "re");
    if (f) {
        n = fscanf(f, "%*d %lld", &pages);
        fclose(f);
    }
    return n == 1 ? (double)pages * (double)sysconf(_SC_PAGESIZE) : NAN;
}

int dg_job_straggler(const dg_job *j)
{
    double least = 1, other = 1;
    int who = -1;

    for (int i = 0; i < dg_job_ranks(j); i++) {
        double share = j->rows[i].waited / fmax(j->rows[i].looks, 1);

        if (j->rows[i].looks < JUDGED * 0.6 ||
            strcmp(dg_json_text(dg_job_rank(j, i), "state"), "here") != 0)
            return -1;
        other = share < least ? least : fmin(other, share);
        who = share < least ? i : who;
        least = fmin(least, share);
    }
    return dg_job_ranks(j) > 1 && other - least > behind ? who : -1;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_value(dg_str *s, const dg_json *v)
{
    if (v->kind == DG_JSON_STRING)
        dg_str_json(s, v->text);
    else if (v->kind == DG_JSON_BOOL)
        dg_str_add(s, v->truth ? "true" : "false");
    else
        dg_str_json_real(s, v->kind == DG_JSON_NUMBER ? v->number : NAN);
}

/* Appends the plain values of an object, after an opening brace. */
static void add_plain(dg_str *s, const dg_json *o)
{
    for (int i = 0; o && i < o->n; i++) {
        if (o->items[i].kind == DG_JSON_ARRAY || o->items[i].kind == DG_JSON_OBJECT)
            continue;
        dg_str_json(s, o->items[i].key);
        dg_str_add(s, ":");
        add_value(s, &o->items[i]);
        dg_str_add(s, ",");
    }
}

static void add_real(dg_str *s, const char *key, double v)
{
    dg_str_fmt(s, "\"%s\":", key);
    dg_str_json_real(s, v);
    dg_str_add(s, ",");
}

void dg_job_json(dg_str *s, const dg_job *j, const dg_now *n)
{
    const struct {
        const char *key;
        double v;
    } numbers[] = { { "step", (double)n->step },
                    { "steps", (double)n->n_steps },
                    { "epoch", (double)n->epoch },
                    { "epochs", (double)n->n_epochs },
                    { "loss", n->loss },
                    { "mean_loss", n->mean_loss },
                    { "lr", n->lr },
                    { "images_per_s", n->images_per_s },
                    { "step_seconds", n->step_s },
                    { "data_share", n->data_share },
                    { "wait_share", n->wait_share },
                    { "device_share", n->device_share },
                    { "memory_bytes", n->memory_bytes },
                    { "device_memory_bytes", n->device_memory_bytes },
                    { "left_seconds", n->left_s },
                    { "best_AP", n->best_step >= 0 ? n->best : NAN },
                    { "best_step", (double)n->best_step },
                    { "AP", n->ap },
                    { "constant_AP", n->constant_ap },
                    { "straggler", dg_job_straggler(j) } };

    dg_str_add(s, "{");
    add_plain(s, j->status);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_real(s, numbers[i].key, numbers[i].v);
    dg_str_add(s, "\"fault\":");
    if (*n->fault)
        dg_str_json(s, n->fault);
    else
        dg_str_add(s, "null");
    dg_str_add(s, ",\"rank\":[");
    for (int i = 0; i < dg_job_ranks(j); i++) {
        dg_str_add(s, i ? ",{" : "{");
        add_plain(s, dg_job_rank(j, i));
        add_real(s, "memory_bytes", dg_job_memory(j, i));
        dg_str_add(s, "\"waited_share\":");
        dg_str_json_real(s, dg_job_waited(j, i));
        dg_str_add(s, "}");
    }
    dg_str_add(s, "]}\n");
}
