/* trace.c: Chrome's trace events, as JSON: "X" is a span, "C" a number, "M" a name; times in
 * microseconds. Spans of one track must be nested or disjoint: collectives, which overlap, are
 * spread over as many tracks as needed. */
#include "report/trace.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

enum { OVERLAPS = 8 };

typedef struct span {
    const char *name, *at; /* at: NULL, or the position in the pipeline */
    double begin_s, end_s;
    int lane;
    bool number; /* end_s is its value */
} span;

struct dg_trace {
    dg_arena *arena;
    double zero_s;
    int64_t n_lost;
    DG_VEC(span) spans;
    const char *node; /* of the current instructions; NULL: none */
    int lane;         /* and where they are shown */
    dg_where where;
    double node_begin_s, node_end_s;
};

int dg_trace_open(dg_trace **out, const dg_world *w, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_trace *t = DG_NEW(a, dg_trace);
    bool ignored;
    int rc;

    t->arena = a;
    *out = t;
    rc = dg_world_any(w, false, &ignored, "began to trace", d);
    t->zero_s = dg_monotonic_s();
    return rc;
}

void dg_trace_close(dg_trace **t)
{
    dg_arena *a = *t ? (*t)->arena : NULL;

    dg_arena_close(&a);
    *t = NULL;
}

static void add(dg_trace *t, span s)
{
    if (t->spans.n < DG_TRACE_EVENTS)
        DG_PUSH(t->arena, t->spans, s);
    else
        t->n_lost++;
}

void dg_trace_span(dg_trace *t, int lane, double begin_s, double end_s, const char *at,
                   const char *fmt, ...)
{
    va_list ap;

    if (!t)
        return;
    va_start(ap, fmt);
    add(t, (span){ .name = dg_vprintf(t->arena, fmt, ap),
                   .at = at ? dg_strdup(t->arena, at) : NULL,
                   .begin_s = begin_s,
                   .end_s = end_s,
                   .lane = lane });
    va_end(ap);
}

void dg_trace_number(dg_trace *t, const char *name, double v)
{
    if (t && isfinite(v)) /* the format cannot express other values */
        add(t, (span){ .name = name, .begin_s = dg_monotonic_s(), .end_s = v, .number = true });
}

void dg_trace_end_node(dg_trace *t)
{
    if (!t || !t->node)
        return;
    add(t, (span){ .name = t->node,
                   .begin_s = t->node_begin_s,
                   .end_s = t->node_end_s,
                   .lane = t->lane,
                   .at = t->where.file ? dg_printf(t->arena, "%s:%d:%d", t->where.file,
                                                   t->where.line, t->where.column)
                                       : NULL });
    t->node = NULL;
}

void dg_trace_instr(dg_trace *t, int lane, const dg_plan *plan, int instr, double begin_s,
                    double end_s)
{
    const dg_instr *in = &plan->program->instrs.items[instr];
    const char *node = in->origin.where.node ? in->origin.where.node : "-";

    if (!t)
        return;
    if (t->node != node) {
        dg_trace_end_node(t);
        t->node = node;
        t->lane = lane;
        t->where = in->origin.where;
        t->node_begin_s = begin_s;
    }
    t->node_end_s = end_s;
    add(t, (span){ .name = in->op->name, .begin_s = begin_s, .end_s = end_s, .lane = lane });
}

/* ---- collectives, from the flight recorder --------------------------------------------------- */

typedef struct lanes {
    dg_trace *t;
    double busy_s[OVERLAPS];
} lanes;

static void take_record(void *ctx, const dg_flight *r)
{
    lanes *l = ctx;
    int i = 0;

    if (r->begin_s < l->t->zero_s)
        return;
    if (strcmp(r->op, "step") == 0) {
        dg_trace_span(l->t, DG_TIMELINE_CONTROL, r->begin_s, r->begin_s, NULL, "word of step %lld",
                      (long long)r->step + 1);
        return;
    }
    if (r->end_s < r->begin_s) /* in progress */
        return;
    while (i < OVERLAPS - 1 && l->busy_s[i] > r->begin_s)
        i++;
    l->busy_s[i] = r->end_s;
    if (r->elements > 0)
        dg_trace_span(l->t, DG_TIMELINE_COLLECTIVE + i, r->begin_s, r->end_s, r->node,
                      "%s of %lld %s", r->op, (long long)r->elements, r->type);
    else
        dg_trace_span(l->t, DG_TIMELINE_COLLECTIVE + i, r->begin_s, r->end_s, r->node, "%s", r->op);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void add_name(dg_str *s, int rank, int lane, const char *name)
{
    dg_str_fmt(s,
               "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":",
               rank, lane);
    dg_str_json(s, name);
    dg_str_fmt(s,
               "}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{"
               "\"sort_index\":%d}},\n",
               rank, lane, lane);
}

static const char *name_of(dg_arena *a, int lane)
{
    return lane >= DG_TIMELINE_LOADER       ? dg_printf(a, "loader %d", lane - DG_TIMELINE_LOADER)
           : lane >= DG_TIMELINE_COLLECTIVE ? "collectives"
           : lane == DG_TIMELINE_CONTROL    ? "control plane"
           : lane == DG_TIMELINE_DEVICE     ? "device"
                                            : "step";
}

/* Names the tracks that were used. */
static void add_names(dg_str *s, const dg_trace *t, const dg_world *w)
{
    bool used[256] = { false };
    char host[256] = "";

    (void)gethostname(host, sizeof host - 1);
    dg_str_fmt(s,
               "{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":",
               w->rank);
    dg_str_json(s, dg_printf(t->arena, "rank %d, %s", w->rank, host));
    dg_str_fmt(s,
               "}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_sort_index\",\"args\":{"
               "\"sort_index\":%d}},\n",
               w->rank, w->rank);
    for (int i = 0; i < t->spans.n; i++)
        used[t->spans.items[i].lane & 255] |= !t->spans.items[i].number;
    for (int lane = 1; lane < 256; lane++)
        if (used[lane])
            add_name(s, w->rank, lane, name_of(t->arena, lane));
}

static void add_span(dg_str *s, const dg_trace *t, const span *x, int rank)
{
    double begin = 1e6 * (x->begin_s - t->zero_s);

    if (x->number) {
        dg_str_fmt(s, "{\"ph\":\"C\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"name\":", rank, begin);
        dg_str_json(s, x->name);
        dg_str_add(s, ",\"args\":{\"value\":");
        dg_str_json_real(s, x->end_s);
        dg_str_add(s, "}},\n");
        return;
    }
    dg_str_fmt(s, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":", rank,
               x->lane, begin, 1e6 * (x->end_s - x->begin_s));
    dg_str_json(s, x->name);
    if (x->at) {
        dg_str_add(s, ",\"args\":{\"at\":");
        dg_str_json(s, x->at);
        dg_str_add(s, "}");
    }
    dg_str_add(s, "},\n");
}

static void add_all(dg_str *s, const dg_trace *t, const dg_world *w)
{
    add_names(s, t, w);
    for (int i = 0; i < t->spans.n; i++)
        add_span(s, t, &t->spans.items[i], w->rank);
    if (t->n_lost)
        dg_str_fmt(s,
                   "{\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"name\":\"process_labels\",\"args\":{"
                   "\"labels\":\"%lld more left out\"}},\n",
                   w->rank, (long long)t->n_lost);
}

/* Writes the events of all ranks as one array. */
static int write_file(const char *path, const char *events, size_t n, dg_diag *d)
{
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    static const char last[] = "\n],\"otherData\":{\"program\":\"detrgraph\"}}\n";
    dg_outfile *f = NULL;
    int rc;

    DG_TRY(dg_outfile_open(&f, path, d));
    DG_TRY(dg_outfile_write(f, head, sizeof head - 1, d));
    DG_TRY(dg_outfile_write(f, events, n > 2 ? n - 2 : 0, d)); /* without the last ",\n" */
    DG_TRY(dg_outfile_write(f, last, sizeof last - 1, d));
    DG_TRY(dg_outfile_commit(f, d));
out:
    dg_outfile_close(&f);
    return rc;
}

int dg_trace_write(dg_trace *t, const dg_world *w, const dg_recorder *r, const char *path,
                   dg_diag *file, dg_diag *d)
{
    lanes l = { .t = t };
    dg_str own = { 0 };
    void *all = NULL;
    size_t *sizes = dg_try_alloc((size_t)w->ranks * sizeof *sizes), n = 0;
    int rc = sizes ? 0
                   : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %d sizes",
                             w->ranks);

    dg_trace_end_node(t);
    dg_recorder_each(r, take_record, &l);
    add_all(&own, t, w);
    DG_TRY(dg_world_agree(w, rc, "wrote a trace", d));
    DG_TRY(dg_world_collect(w, own.s, own.n, &all, sizes, "gathered a trace", d));
    assert(sizes);
    for (int k = 0; k < w->ranks; k++)
        n += sizes[k];
    if (w->rank == 0 && path)
        (void)write_file(path, all, n, file); /* reported in `file`; other ranks are unaffected */
out:
    dg_str_free(&own);
    dg_free(all);
    dg_free(sizes);
    return rc;
}
