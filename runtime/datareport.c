/* datareport.c: the data report before training. */
#include "runtime/datareport.h"

#include <stdlib.h>

#include "base/diag.h"
#include "base/pool.h"
#include "base/str.h"

enum { NAMED = 10 };

static const char *fault_text(dg_box_fault f)
{
    switch (f) {
    case DG_BOX_EMPTY: return "has no width or no height: dropped";
    case DG_BOX_OUTSIDE: return "lies outside the image: dropped";
    default: return "reaches outside the image: cut";
    }
}

static void log_classes(const dg_env *env, const dg_dataset *data)
{
    dg_str s = { 0 };
    char   n[32];

    for (int i = 0; i < data->n_classes; i++) {
        if (i == 20) {
            dg_str_fmt(&s, ", and %d more", data->n_classes - i);
            break;
        }
        dg_str_fmt(&s, "%s%s (id %lld", i ? ", " : "", data->classes[i].name, (long long)data->classes[i].id);
        if (data->report && data->report->per_class)
            dg_str_fmt(&s, ": %s", dg_human_count(data->report->per_class[i], n, sizeof n));
        dg_str_add(&s, ")");
    }
    if (s.s)
        dg_log_line(env, DG_INFO, "  classes: %s", s.s);
    dg_str_free(&s);
}

static void log_boxes(const dg_env *env, const dg_dataset *data)
{
    const dg_data_report *r = data->report;
    int64_t               faults = r->n_degenerate + r->n_outside + r->n_cut;

    if (r->n_crowd)
        dg_log_line(env, DG_INFO, "  %lld crowd regions: evaluation only", (long long)r->n_crowd);
    if (!faults)
        return;
    dg_log_line(env, DG_WARN, "  %lld boxes without width or height and %lld outside their image dropped, %lld cut to it",
                (long long)r->n_degenerate, (long long)r->n_outside, (long long)r->n_cut);
    for (int i = 0; i < r->n_named; i++) {
        const dg_coco_annotation *a = &data->truths[r->named[i].annotation];
        dg_item_info              info;

        data->info(data->self, a->image, &info);
        dg_log_line(env, DG_WARN, "    %s: annotation %lld [%g, %g, %g, %g] %s", info.name, (long long)a->id, a->x, a->y,
                    a->w, a->h, fault_text(r->named[i].fault));
    }
    if (faults > r->n_named)
        dg_log_line(env, DG_WARN, "    and %lld more", (long long)(faults - r->n_named));
}

/* ---- unreadable files ---------------------------------------------------------------------------------- */

typedef struct probing {
    dg_dataset *data;
    bool       *bad;
} probing;

static void probe_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    probing *p = ctx;
    dg_diag *d = dg_diag_open();

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        p->bad[i] = p->data->probe(p->data->self, (int)i, d) < 0;
        dg_diag_clear(d);
    }
    dg_diag_close(&d);
}

/* The first few faults again, for their texts. */
static int name_unreadable(const dg_env *env, dg_dataset *data, const bool *bad, int64_t n, dg_diag *d)
{
    dg_diag *why = dg_diag_open();
    bool     replace = data->replace && n < data->n_items;
    int      named = 0, rc = 0;

    dg_log_line(env, DG_WARN, "  %lld of %d images cannot be read%s", (long long)n, data->n_items,
                replace ? " and will be replaced by others" : "");
    if (!replace)
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "data-unreadable", "%s: %lld of %d images cannot be read", data->name,
                     (long long)n, data->n_items);
    for (int i = 0; i < data->n_items && named < NAMED; i++) {
        if (!bad[i] || data->probe(data->self, i, why) >= 0)
            continue;
        const dg_err *e = dg_diag_at(why, 0);

        dg_log_line(env, DG_WARN, "    %s: %s", e->at.file ? e->at.file : data->name, e->text);
        if (rc)
            dg_note(d, e->at, "%s", e->text);
        dg_diag_clear(why);
        named++;
    }
    if (rc && !data->replace)
        dg_help(d, "mend or remove them, or let the loader take others in their place: on_error=\"replace\"");
    dg_diag_close(&why);
    return rc;
}

static int probe_all(const dg_env *env, dg_dataset *data, dg_diag *d)
{
    probing p = { data, calloc((size_t)data->n_items + 1, sizeof *p.bad) };
    int64_t n = 0;
    int     rc = 0;

    if (!p.bad)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to look at %d images", data->n_items);
    dg_parallel_for(env->threads, data->n_items, probe_range, &p);
    for (int i = 0; i < data->n_items; i++)
        n += p.bad[i];
    if (n)
        rc = name_unreadable(env, data, p.bad, n, d);
    free(p.bad);
    return rc;
}

static int check_capacity(const dg_chain *chain, const dg_dataset *data, dg_diag *d)
{
    const dg_node *batch = chain->batch;
    int64_t        most = batch->class->capacity ? batch->class->capacity(batch->conf) : 0;
    dg_item_info   info, worst = { 0 };
    int            over = 0, rc;

    for (int i = 0; most && i < data->n_items; i++) {
        data->info(data->self, i, &info);
        over += info.n_objects > most;
        if (info.n_objects > worst.n_objects)
            worst = info;
    }
    if (!over)
        return 0;
    rc = dg_fail(d, DG_EINPUT, batch->where, "data-objects", "%d image%s more than max_objects=\"%lld\" objects: %s has %d",
                 over, over == 1 ? " has" : "s have", (long long)most, worst.name, worst.n_objects);
    dg_help(d, "targets are never cut: set max_objects=\"%d\"", worst.n_objects);
    return rc;
}

int dg_data_report_log(const dg_env *env, const dg_scope *scope, const dg_chain *chain, dg_dataset *data, bool probe,
                       dg_diag *d)
{
    const dg_data_report *r = data->report;
    char                  a[32], b[32];
    int                   rc = 0, rc2;

    if (r) {
        dg_log_line(env, DG_INFO, "%s data: %s: %s images, %s objects, %d classes, %d images without objects, at most %d in one",
                    scope->id, data->name, dg_human_count(r->n_images, a, sizeof a),
                    dg_human_count(r->n_objects, b, sizeof b), data->n_classes, r->n_empty, r->most_objects);
        log_classes(env, data);
        log_boxes(env, data);
    } else {
        dg_log_line(env, DG_INFO, "%s data: %s: %s images, %d classes", scope->id, data->name,
                    dg_human_count(data->n_items, a, sizeof a), data->n_classes);
        log_classes(env, data);
    }
    if (scope->kind == DG_SCOPE_TRAIN)
        rc = check_capacity(chain, data, d);
    if (data->probe && probe) {
        rc2 = probe_all(env, data, d);
        rc = rc ? rc : rc2;
    }
    return rc;
}
