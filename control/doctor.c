/* doctor.c: compares the flight recorders of all ranks. Step words and collectives are numbered
 * alike on every rank, because every rank makes the same ones. So the first number with different
 * records is where the ranks diverged; if there is none, the rank whose records end first is the
 * one that the others waited for. */
#include "control/doctor.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "media/json.h"
#include "control/message.h"

enum { FILE_MAX = 16 << 20 };

typedef struct entry {
    int64_t number, step, elements, line, column;
    const char *op, *type, *node, *file, *schedule;
    bool ended;
} entry;

typedef struct chart { /* the records of one rank */
    int rank;
    const char *host, *node, *file;
    int64_t step, line, column;
    bool waits;
    int n;
    entry *entries;
} chart;

static int64_t whole_of(const dg_json *o, const char *key)
{
    const double v = dg_json_number(o, key);

    return v > -1e15 && v < 1e15 ? (int64_t)v : -1;
}

static int by_number(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

static entry read_entry(const dg_json *o)
{
    const dg_json *end = dg_json_get(o, "end");

    return (entry){ .number = whole_of(o, "number"),
                    .step = whole_of(o, "step"),
                    .elements = whole_of(o, "elements"),
                    .line = whole_of(o, "line"),
                    .column = whole_of(o, "column"),
                    .op = dg_json_text(o, "op"),
                    .type = dg_json_text(o, "type"),
                    .node = dg_json_text(o, "node"),
                    .file = dg_json_text(o, "file"),
                    .schedule = dg_json_text(o, "schedule"),
                    .ended = end && end->kind == DG_JSON_NUMBER && end->number > 0 };
}

/* Reads one recorder: a JSON value per line, the first of which names the rank. A rank that is
 * killed, or a full disk, may leave any part of it. */
static int read_chart(chart *c, const char *path, dg_arena *a, dg_diag *d)
{
    char *text = NULL;
    size_t n, at = 0;
    int rc = dg_file_read(&text, &n, path, FILE_MAX, d), lines = 0;

    *c = (chart){ .host = "", .node = "", .file = "" };
    for (size_t i = 0; rc == 0 && i < n; i++)
        lines += text[i] == '\n';
    if (rc == 0 && lines == 0)
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "doctor-nothing",
                     "it ends before the end of its first line");
    c->entries = DG_NEW_N(a, lines + 1, entry);
    for (int i = 0; rc == 0 && i < lines; i++) {
        size_t len = strcspn(text + at, "\n");
        const dg_json *o;

        rc = dg_json_parse(&o, a, text + at, len, path, d);
        at += len + 1;
        if (rc == 0 && i == 0) {
            const dg_json *waits = dg_json_get(o, "waits");

            c->rank = (int)whole_of(o, "rank");
            c->host = dg_json_text(o, "host");
            c->node = dg_json_text(o, "node");
            c->file = dg_json_text(o, "file");
            c->line = whole_of(o, "line");
            c->column = whole_of(o, "column");
            c->step = whole_of(o, "step");
            c->waits = waits && waits->truth;
            if (c->rank < 0)
                rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "doctor-nothing",
                             "its first line names no rank");
        } else if (rc == 0) {
            c->entries[c->n] = read_entry(o);
            if (c->entries[c->n].number > 0)
                c->n++;
            else
                rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "doctor-nothing",
                             "line %d has no number of a record", i + 1);
        }
    }
    dg_free(text);
    qsort(c->entries, (size_t)c->n, sizeof *c->entries, by_number);
    return rc;
}

static int by_rank(const void *a, const void *b)
{
    const chart *x = a, *y = b;

    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* A recorder or verdict that cannot be read is said, and the others are looked at. */
static void add_unreadable(dg_str *out, dg_diag *own)
{
    const dg_err *e = dg_diag_at(own, 0);

    dg_str_fmt(out, "%s cannot be read: %s.\n", e->at.file ? e->at.file : "a file", e->text);
    dg_diag_clear(own);
}

static int read_charts(chart *charts, int *n, const char *flight, dg_arena *a, dg_str *out,
                       dg_diag *d)
{
    DIR *dir = opendir(flight);
    dg_diag *own;

    *n = 0;
    if (!dir)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = flight }, "doctor-nothing",
                       "there is no such folder, and no run.json beside it: no run has begun here");
    own = dg_diag_open();
    for (struct dirent *e; *n < DG_MAX_RANKS && (e = readdir(dir));)
        if (strncmp(e->d_name, "rank-", 5) == 0 && strstr(e->d_name, ".jsonl")) {
            if (read_chart(&charts[*n], dg_path_join(a, flight, e->d_name), a, own) == 0)
                (*n)++;
            else
                add_unreadable(out, own);
        }
    dg_diag_close(&own);
    closedir(dir);
    qsort(charts, (size_t)*n, sizeof *charts, by_rank);
    return 0;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void add_place(dg_str *s, const char *node, const char *file, int64_t line, int64_t column)
{
    if (!*node)
        dg_str_add(s, " outside all nodes");
    else
        dg_str_fmt(s, " in node \"%s\"", node);
    if (*file)
        dg_str_fmt(s, " (%s:%lld:%lld)", file, (long long)line, (long long)column);
}

static void add_entry(dg_str *s, const entry *e)
{
    if (strcmp(e->op, "step") == 0)
        dg_str_fmt(s, "began step %lld with schedule %s", (long long)e->step + 1, e->schedule);
    else if (strcmp(e->op, "seen") == 0)
        dg_str_fmt(s, "told what it had seen at step %lld", (long long)e->step + 1);
    else if (e->elements > 0)
        dg_str_fmt(s, "began %s of %lld %s", e->op, (long long)e->elements, e->type);
    else
        dg_str_fmt(s, "began %s", e->op);
    if (strcmp(e->op, "step") != 0 && strcmp(e->op, "seen") != 0)
        add_place(s, e->node, e->file, e->line, e->column);
}

/* The first error of verdict.json; NULL: there is none, or, as *s then says, none that is one. */
static const dg_json *read_verdict(const char *path, dg_arena *a, dg_str *s)
{
    const dg_json *v = NULL, *first = NULL;
    dg_diag *own;

    if (!dg_exists(path))
        return NULL;
    own = dg_diag_open();
    if (dg_json_read(&v, a, path, own) == 0) {
        first = v->kind == DG_JSON_ARRAY && v->n ? &v->items[0] : NULL;
        if (!first || !*dg_json_text(first, "id") || !*dg_json_text(first, "message")) {
            first = NULL;
            dg_fail(own, DG_EINPUT, (dg_where){ .file = path }, "doctor-nothing",
                    "it names no error");
        }
    }
    if (!first)
        add_unreadable(s, own);
    dg_diag_close(&own);
    return first;
}

static void add_verdict(dg_str *s, const dg_json *first)
{
    const dg_json *help;

    if (!first) {
        dg_str_add(s, "No verdict was written.\n");
        return;
    }
    dg_str_fmt(s, "The run ended because of %s: %s", dg_json_text(first, "id"),
               dg_json_text(first, "message"));
    if (*dg_json_text(first, "file") && whole_of(first, "line") > 0)
        dg_str_fmt(s, " (%s:%lld:%lld)", dg_json_text(first, "file"),
                   (long long)whole_of(first, "line"), (long long)whole_of(first, "column"));
    dg_str_add(s, ".\n");
    help = dg_json_get(first, "help");
    for (int i = 0; help && help->kind == DG_JSON_ARRAY && i < help->n; i++)
        if (help->items[i].kind == DG_JSON_STRING)
            dg_str_fmt(s, "What to do: %s.\n", help->items[i].text);
}

static const entry *entry_at(const chart *c, int64_t number)
{
    const entry key = { .number = number };

    return c->n ? bsearch(&key, c->entries, (size_t)c->n, sizeof key, by_number) : NULL;
}

/* True if two records agree. Digests of monitored values are not compared: a rank may lack some,
 * and the verdict reports real differences. */
static bool entries_alike(const entry *a, const entry *b)
{
    return strcmp(a->op, b->op) == 0 && strcmp(a->type, b->type) == 0 &&
           strcmp(a->node, b->node) == 0 &&
           (strcmp(a->schedule, b->schedule) == 0 || strcmp(a->op, "seen") == 0) &&
           a->elements == b->elements && a->step == b->step;
}

/* The first number at which some rank's record differs from rank 0's; 0: none. */
static int64_t find_difference(const chart *c, int n, int *who)
{
    for (int i = 0; n && i < c[0].n; i++)
        for (int k = 1; k < n; k++) {
            const entry *e = entry_at(&c[k], c[0].entries[i].number);

            if (e && !entries_alike(e, &c[0].entries[i])) {
                *who = k;
                return e->number;
            }
        }
    return 0;
}

static int64_t last_number(const chart *c)
{
    return c->n ? c->entries[c->n - 1].number : 0;
}

static void add_difference(dg_str *s, const chart *c, int64_t number, int who)
{
    dg_str_fmt(s, "The ranks parted at their record %lld: rank %d ", (long long)number, c[0].rank);
    add_entry(s, entry_at(&c[0], number));
    dg_str_fmt(s, ", rank %d ", c[who].rank);
    add_entry(s, entry_at(&c[who], number));
    dg_str_add(s, ". What stands before it in the pipeline made them differ: detrgraph validate "
                  "shows what may vary there.\n");
}

static void add_behind(dg_str *s, const chart *c, int n)
{
    int first = 0, last = 0;

    for (int i = 1; i < n; i++) {
        first = last_number(&c[i]) < last_number(&c[first]) ? i : first;
        last = last_number(&c[i]) > last_number(&c[last]) ? i : last;
    }
    if (last_number(&c[first]) == last_number(&c[last])) {
        dg_str_add(s, "As far as they came, all ranks did the same.\n");
        return;
    }
    dg_str_fmt(s,
               "Up to there all ranks did the same; rank %d then came no further, while rank %d ",
               c[first].rank, c[last].rank);
    add_entry(s, entry_at(&c[last], last_number(&c[last])));
    dg_str_add(s, ".\n");
}

int dg_doctor_compare(dg_str *out, const char *folder, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    chart *c = DG_NEW_N(a, DG_MAX_RANKS, chart);
    int who = 0, n, rc = read_charts(c, &n, dg_path_join(a, folder, "flight"), a, out, d);
    int64_t number = rc == 0 ? find_difference(c, n, &who) : 0;

    if (number)
        add_difference(out, c, number, who);
    dg_arena_close(&a);
    return rc;
}

int dg_doctor_examine(dg_str *out, const char *folder, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const char *flight = dg_path_join(a, folder, "flight"),
               *verdict = dg_path_join(a, flight, "verdict.json");
    chart *c = DG_NEW_N(a, DG_MAX_RANKS, chart);
    int n, rc, who = 0;
    int64_t number;

    DG_TRY(read_charts(c, &n, flight, a, out, d));
    add_verdict(out, read_verdict(verdict, a, out));
    for (int i = 0; i < n; i++) {
        dg_str_fmt(out, "Rank %d (%s) was at step %lld", c[i].rank, c[i].host,
                   (long long)c[i].step + 1);
        add_place(out, c[i].node, c[i].file, c[i].line, c[i].column);
        dg_str_add(out, c[i].waits ? ", waiting for other ranks.\n" : ".\n");
    }
    number = find_difference(c, n, &who);
    if (number)
        add_difference(out, c, number, who);
    else if (n > 1)
        add_behind(out, c, n);
out:
    dg_arena_close(&a);
    return rc;
}
