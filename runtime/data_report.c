/* data_report.c: see data_report.h. */
#include "runtime/data_report.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/str.h"
#include "media/box_form.h"
#include "media/draw.h"
#include "media/survey.h"

enum { NAMED = 10 };

static const char *fault_text(dg_box_fault f)
{
    switch (f) {
    case DG_BOX_EMPTY:
        return "has no width or no height: dropped";
    case DG_BOX_OUTSIDE:
        return "lies outside the image: dropped";
    default:
        return "reaches outside the image: cut";
    }
}

static void log_classes(const dg_env *env, const dg_dataset *data)
{
    dg_str s = { 0 };
    char n[32];

    for (int i = 0; i < data->n_classes; i++) {
        if (i == 20) {
            dg_str_fmt(&s, ", and %d more", data->n_classes - i);
            break;
        }
        dg_str_fmt(&s, "%s%s (id %lld", i ? ", " : "", data->classes[i].name,
                   (long long)data->classes[i].id);
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
    int64_t faults = r->n_degenerate + r->n_outside + r->n_cut;

    if (r->n_crowd)
        dg_log_line(env, DG_INFO, "  %lld crowd region%s: evaluation only", (long long)r->n_crowd,
                    dg_plural(r->n_crowd, "s"));
    if (!faults)
        return;
    dg_log_line(
        env, DG_WARN,
        "  %lld box%s without width or height and %lld outside their image dropped, %lld cut to it",
        (long long)r->n_degenerate, dg_plural(r->n_degenerate, "es"), (long long)r->n_outside,
        (long long)r->n_cut);
    for (int i = 0; i < r->n_named; i++) {
        const dg_coco_annotation *a = &data->truths[r->named[i].annotation];
        dg_item_info info;

        data->info(data->self, a->image, &info);
        dg_log_line(env, DG_WARN, "    %s: annotation %lld [%g, %g, %g, %g] %s", info.name,
                    (long long)a->id, a->x, a->y, a->w, a->h, fault_text(r->named[i].fault));
    }
    if (faults > r->n_named)
        dg_log_line(env, DG_WARN, "    and %lld more", (long long)(faults - r->n_named));
}

/* ---- unreadable files ------------------------------------------------------------------------ */

typedef struct probing {
    dg_dataset *data;
    bool *bad;
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

/* Reads the faulty files again for their messages. */
static int name_unreadable(const dg_env *env, dg_dataset *data, const bool *bad, int64_t n,
                           dg_faults *faults, dg_diag *d)
{
    dg_diag *why = dg_diag_open();
    bool replace = data->replace && n < data->n_items;
    int named = 0, rc = 0;

    dg_log_line(env, DG_WARN, "  %lld of %d images cannot be read%s", (long long)n, data->n_items,
                replace ? " and will be replaced by others" : "");
    if (!replace)
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "data-unreadable",
                     "%s: %lld of %d images cannot be read", data->name, (long long)n,
                     data->n_items);
    for (int i = 0; i < data->n_items && named < DG_FAULTS_KEPT; i++) {
        if (!bad[i] || data->probe(data->self, i, why) >= 0)
            continue;
        const dg_err *e = dg_diag_at(why, 0);

        if (named++ < NAMED) {
            dg_log_line(env, DG_WARN, "    %s: %s", e->at.file ? e->at.file : data->name, e->text);
            if (rc)
                dg_note(d, e->at, "%s", e->text);
        }
        dg_fault_take(faults, DG_FAULT_IMAGE_UNREADABLE, i, why);
    }
    faults->of[DG_FAULT_IMAGE_UNREADABLE].n = n;
    if (rc && !data->replace)
        dg_help(d, "mend or remove them, or let the loader take others in their place: "
                   "on_error=\"replace\"");
    dg_diag_close(&why);
    return rc;
}

static int probe_all(const dg_env *env, dg_dataset *data, dg_faults *faults, dg_diag *d)
{
    probing p = { data, calloc((size_t)data->n_items + 1, sizeof *p.bad) };
    int64_t n = 0;
    int rc = 0;

    if (!p.bad)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to look at %d images",
                       data->n_items);
    dg_parallel_for(env->threads, data->n_items, probe_range, &p);
    for (int i = 0; i < data->n_items; i++)
        n += p.bad[i];
    if (n)
        rc = name_unreadable(env, data, p.bad, n, faults, d);
    free(p.bad);
    return rc;
}

static int check_capacity(const dg_chain *chain, const dg_dataset *data, dg_diag *d)
{
    const dg_node *batch = chain->batch;
    int64_t most = batch->class->capacity ? batch->class->capacity(batch->conf) : 0;
    dg_item_info info, worst = { 0 };
    int over = 0, rc;

    for (int i = 0; most && i < data->n_items; i++) {
        data->info(data->self, i, &info);
        over += info.n_objects > most;
        if (info.n_objects > worst.n_objects)
            worst = info;
    }
    if (!over)
        return 0;
    rc = dg_fail(d, DG_EINPUT, batch->where, "data-objects",
                 "%d image%s more than max_objects=\"%lld\" objects: %s has %d", over,
                 over == 1 ? " has" : "s have", (long long)most, worst.name, worst.n_objects);
    dg_help(d, "targets are never cut: set max_objects=\"%d\"", worst.n_objects);
    return rc;
}

/* Refuses training data that nothing can be learned from; warns of boxes in another form. */
static int check_boxes(const dg_env *env, const dg_data *own, dg_diag *d)
{
    const dg_dataset *data = own->set;
    const dg_node *loader = own->chain.loader;
    dg_box_forms forms = { .written = dg_box_form_of(loader->class->name) };
    dg_arena *a;
    dg_box_verdict v;
    dg_item_info info = { 0 };
    int asked = -1;

    /* files that somebody labelled; generated scenes are empty on purpose */
    if (data->probe && data->report->n_objects == 0 && data->n_items > 0) {
        dg_fail(d, DG_EINPUT, loader->where, "no-objects",
                "none of the %lld image%s of %s has an object", (long long)data->n_items,
                dg_plural(data->n_items, "s"), data->name);
        dg_help(d, "nothing can be learned from them: label some, or name other data");
        return -DG_EINPUT;
    }
    for (int64_t i = 0; i < data->n_truths; i++) {
        if (data->truths[i].image < 0 || data->truths[i].image >= data->n_items)
            continue;                       /* a foreign loader's */
        if (data->truths[i].image != asked) /* info may count an item's objects */
            data->info(data->self, data->truths[i].image, &info);
        asked = data->truths[i].image;
        dg_box_forms_add(&forms, &data->truths[i], (int)info.w, (int)info.h);
    }
    a = dg_arena_open();
    v = dg_box_forms_judge(&forms, a);
    if (v.text)
        dg_log_line(env, DG_WARN, "  %s", v.text);
    dg_arena_close(&a);
    return 0;
}

int dg_data_report_log(const dg_env *env, dg_data *own, bool probe, dg_diag *d)
{
    const dg_scope *scope = own->scope;
    dg_dataset *data = own->set;
    const dg_data_report *r = data->report;
    char a[32], b[32];
    int rc = 0, rc2;

    if (r) {
        dg_log_line(env, DG_INFO,
                    "%s data: %s: %s image%s, %s object%s, %d class%s, %d image%s without objects, "
                    "at most %d in one",
                    scope->id, data->name, dg_human_count(r->n_images, a, sizeof a),
                    dg_plural(r->n_images, "s"), dg_human_count(r->n_objects, b, sizeof b),
                    dg_plural(r->n_objects, "s"), data->n_classes, dg_plural(data->n_classes, "es"),
                    r->n_empty, dg_plural(r->n_empty, "s"), r->most_objects);
        log_classes(env, data);
        log_boxes(env, data);
    } else {
        dg_log_line(env, DG_INFO, "%s data: %s: %s image%s, %d class%s", scope->id, data->name,
                    dg_human_count(data->n_items, a, sizeof a), dg_plural(data->n_items, "s"),
                    data->n_classes, dg_plural(data->n_classes, "es"));
        log_classes(env, data);
    }
    if (scope->kind == DG_SCOPE_TRAIN)
        dg_draw_check_names(data->classes, data->n_classes, d);
    if (scope->kind == DG_SCOPE_TRAIN && r)
        rc = check_boxes(env, own, d);
    if (scope->kind == DG_SCOPE_TRAIN && rc == 0)
        rc = check_capacity(&own->chain, data, d);
    if (data->probe && probe) {
        rc2 = probe_all(env, data, &own->faults, d);
        rc = rc ? rc : rc2;
    }
    return rc;
}

/* ---- data.json ------------------------------------------------------------------------------- */

/* NULL if out of memory, or if a foreign loader names images or classes that do not exist. */
static dg_coco *index_of(const dg_dataset *data)
{
    dg_coco *c;

    for (int64_t i = 0; i < data->n_truths; i++)
        if (data->truths[i].image < 0 || data->truths[i].image >= data->n_items ||
            data->truths[i].label < 0 || data->truths[i].label >= data->n_classes)
            return NULL;
    c = dg_index_open(data->name);
    c->n_classes = data->n_classes;
    c->classes = DG_NEW_N(c->arena, data->n_classes + 1, dg_coco_class);
    memcpy(c->classes, data->classes, (size_t)data->n_classes * sizeof *c->classes);
    c->n_images = data->n_items;
    c->images = DG_NEW_N(c->arena, data->n_items + 1, dg_coco_image);
    for (int i = 0; i < data->n_items; i++) {
        dg_item_info info;

        data->info(data->self, i, &info);
        c->images[i] =
            (dg_coco_image){ .id = info.id,
                             .file_name = dg_strdup(c->arena, info.name ? info.name : ""),
                             .w = (int)info.w,
                             .h = (int)info.h };
    }
    if (!dg_index_over(c, data->truths, data->n_truths))
        dg_coco_close(&c);
    return c;
}

static bool are_same(const dg_data *a, const dg_data *b)
{
    return a->set->digest == b->set->digest && strcmp(a->set->name, b->set->name) == 0;
}

/* Lists data used by several scopes only once. */
static int sources_of(dg_survey_source *out, const dg_data_sets *sets, int ranks, dg_arena *a)
{
    int *which = DG_NEW_N(a, sets->open.n + 1, int), n = 0;

    for (int i = 0; i < sets->open.n; i++) {
        const dg_data *data = sets->open.items[i];
        const char *name = data->own_files && ranks > 1
                               ? dg_printf(a, "%s of rank 0", data->scope->id)
                               : data->scope->id;
        int same = 0;

        while (same < n && !are_same(sets->open.items[which[same]], data))
            same++;
        if (same < n) {
            out[same].name = dg_printf(a, "%s, %s", out[same].name, name);
            continue;
        }
        out[n].index = index_of(data->set);
        out[n].name = name;
        out[n].found = &data->faults;
        which[n++] = i;
    }
    return n;
}

int dg_data_report_write(const char *path, const dg_data_sets *sets, int ranks, dg_diag *d)
{
    const dg_data *first = sets->open.items[0];
    dg_arena *a = dg_arena_open();
    dg_survey_source *sources = DG_NEW_N(a, sets->open.n + 1, dg_survey_source);
    dg_survey *s = dg_survey_of(first->chain.loader->class->name, first->set->name, sources,
                                sources_of(sources, sets, ranks, a));
    dg_str json = { 0 };
    int rc;

    dg_survey_json(&json, s);
    rc = dg_file_write(path, json.s, json.n, d);
    dg_str_free(&json);
    dg_survey_close(&s);
    dg_arena_close(&a);
    return rc;
}
