/* survey_json.c: writes a survey as JSON, and reads it back. */
#include "media/survey.h"

#include <limits.h>
#include <string.h>

#include "media/json.h"

/* ---- writing --------------------------------------------------------------------------------- */

static void json_split(dg_str *out, const dg_survey *s, const dg_survey_split *x)
{
    dg_str_add(out, "{\"name\":");
    dg_str_json(out, x->name);
    dg_str_add(out, ",\"path\":");
    dg_str_json(out, x->path);
    dg_str_fmt(out,
               ",\"readable\":%s,\"images\":%lld,\"objects\":%lld,\"empty\":%lld,\"crowd\":%lld,"
               "\"truncated\":%lld,"
               "\"most_objects\":%lld",
               x->readable ? "true" : "false", (long long)x->n_images, (long long)x->n_objects,
               (long long)x->n_empty, (long long)x->n_crowd, (long long)x->n_truncated,
               (long long)x->most_objects);
    dg_str_add(out, ",\"per_class\":[");
    for (int k = 0; k < s->n_classes; k++)
        dg_str_fmt(out, "%s%lld", k ? "," : "", (long long)x->per_class[k]);
    dg_str_add(out, "]}");
}

static void json_fault(dg_str *out, const dg_survey *s, const dg_fault *x)
{
    dg_str_add(out, "{\"split\":");
    dg_str_json(out, x->split >= 0 ? s->splits[x->split].name : NULL);
    dg_str_add(out, ",\"file\":");
    dg_str_json(out, x->at.file);
    dg_str_fmt(out, ",\"line\":%d,\"column\":%d,\"message\":", x->at.line, x->at.column);
    dg_str_json(out, x->text);
    dg_str_add(out, "}");
}

static void json_faults(dg_str *out, const dg_survey *s)
{
    const char *comma = "";

    dg_str_add(out, ",\"faults\":[");
    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        const dg_fault_row *row = dg_fault_row_of((dg_fault_kind)kind);

        if (!s->faults.of[kind].n)
            continue;
        dg_str_fmt(out, "%s{\"id\":\"%s\",\"severity\":\"%s\",\"count\":%lld,\"title\":", comma,
                   row->id, row->error ? "error" : "warning", (long long)s->faults.of[kind].n);
        dg_str_json(out, row->title);
        dg_str_add(out, ",\"cases\":[");
        for (int i = 0; i < s->faults.of[kind].kept.n; i++) {
            dg_str_add(out, i ? "," : "");
            json_fault(out, s, &s->faults.of[kind].kept.items[i]);
        }
        dg_str_add(out, "]}");
        comma = ",";
    }
    dg_str_add(out, "]");
}

void dg_survey_json(dg_str *out, const dg_survey *s)
{
    dg_str_add(out, "{\"form\":");
    dg_str_json(out, s->form);
    dg_str_add(out, ",\"root\":");
    dg_str_json(out, s->root);
    dg_str_fmt(out,
               ",\"images\":%lld,\"objects\":%lld,\"empty\":%lld,\"crowd\":%lld,\"truncated\":%lld",
               (long long)s->n_images, (long long)s->n_objects, (long long)s->n_empty,
               (long long)s->n_crowd, (long long)s->n_truncated);
    dg_str_fmt(out, ",\"images_read\":%lld,\"bytes\":%lld,\"decoded\":%s", (long long)s->n_read,
               (long long)s->n_bytes, s->decoded ? "true" : "false");
    dg_str_add(out, ",\"splits\":[");
    for (int i = 0; i < s->n_splits; i++) {
        dg_str_add(out, i ? "," : "");
        json_split(out, s, &s->splits[i]);
    }
    dg_str_add(out, "],\"classes\":[");
    for (int k = 0; k < s->n_classes; k++) {
        dg_str_add(out, k ? ",{\"name\":" : "{\"name\":");
        dg_str_json(out, s->classes[k]);
        dg_str_fmt(out, ",\"objects\":%lld}", (long long)s->per_class[k]);
    }
    dg_str_add(out, "],\"imbalance\":");
    dg_str_json_real(out, dg_survey_imbalance(s));
    dg_str_add(out, ",\"histograms\":{");
    for (int i = 0; i < DG_N_HISTS; i++) {
        dg_str_fmt(out, "%s\"%s\":[", i ? "," : "", s->hist[i].key);
        for (int k = 0; k < s->hist[i].n; k++) {
            dg_str_add(out, k ? ",{\"bin\":" : "{\"bin\":");
            dg_str_json(out, s->hist[i].label[k]);
            dg_str_fmt(out, ",\"count\":%lld}", (long long)s->hist[i].count[k]);
        }
        dg_str_add(out, "]");
    }
    dg_str_add(out, "}");
    json_faults(out, s);
    dg_str_fmt(out, ",\"errors\":%lld,\"warnings\":%lld", (long long)dg_faults_errors(&s->faults),
               (long long)dg_faults_warnings(&s->faults));
    dg_str_fmt(out, ",\"advice\":{\"sizes\":%d,\"max_objects\":%d,\"why_sizes\":", s->advice.size,
               s->advice.max_objects);
    dg_str_json(out, s->advice.why_size);
    dg_str_add(out, ",\"why_max_objects\":");
    dg_str_json(out, s->advice.why_objects);
    dg_str_add(out, "}}\n");
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A count; 0 if out of range or not a number. */
static int64_t count(double v)
{
    return v >= 0 && v < 9e15 ? (int64_t)v : 0;
}

static int64_t count_of(const dg_json *o, const char *key)
{
    return count(dg_json_number(o, key));
}

static int small_count_of(const dg_json *o, const char *key)
{
    int64_t n = count_of(o, key);

    return n < INT_MAX ? (int)n : INT_MAX;
}

static bool is_true(const dg_json *o, const char *key)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_BOOL && v->truth;
}

static const char *text_or_null(const dg_json *o, const char *key)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_STRING ? v->text : NULL;
}

static const dg_json *list_of(const dg_json *o, const char *key)
{
    static const dg_json none = { .kind = DG_JSON_ARRAY };
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_ARRAY ? v : &none;
}

static void read_classes(dg_survey *s, const dg_json *list)
{
    s->classes = DG_NEW_N(s->arena, list->n + 1, const char *);
    s->per_class = DG_NEW_N(s->arena, list->n + 1, int64_t);
    s->n_classes = list->n;
    for (int k = 0; k < list->n; k++) {
        s->classes[k] = dg_json_text(&list->items[k], "name");
        s->per_class[k] = count_of(&list->items[k], "objects");
    }
}

static void read_splits(dg_survey *s, const dg_json *list)
{
    s->splits = DG_NEW_N(s->arena, list->n + 1, dg_survey_split);
    s->n_splits = list->n;
    for (int i = 0; i < list->n; i++) {
        const dg_json *o = &list->items[i], *counts = list_of(o, "per_class");
        dg_survey_split *x = &s->splits[i];

        *x = (dg_survey_split){
            .name = dg_json_text(o, "name"),
            .path = text_or_null(o, "path"),
            .readable = is_true(o, "readable"),
            .n_images = count_of(o, "images"),
            .n_objects = count_of(o, "objects"),
            .n_empty = count_of(o, "empty"),
            .n_crowd = count_of(o, "crowd"),
            .n_truncated = count_of(o, "truncated"),
            .most_objects = count_of(o, "most_objects"),
            .per_class = DG_NEW_N(s->arena, s->n_classes + 1, int64_t),
        };
        for (int k = 0; k < counts->n && k < s->n_classes; k++)
            x->per_class[k] =
                counts->items[k].kind == DG_JSON_NUMBER ? count(counts->items[k].number) : 0;
        s->most_objects = x->most_objects > s->most_objects ? x->most_objects : s->most_objects;
    }
}

static void read_histograms(dg_survey *s, const dg_json *all)
{
    for (int i = 0; i < DG_N_HISTS; i++) {
        dg_histogram *h = &s->hist[i];
        const dg_json *list = list_of(all, dg_survey_histograms[i].key);

        h->title = dg_survey_histograms[i].title;
        h->key = dg_survey_histograms[i].key;
        for (h->n = 0; h->n < list->n && h->n < DG_HISTOGRAM_BINS; h->n++) {
            h->label[h->n] = dg_json_text(&list->items[h->n], "bin");
            h->count[h->n] = count_of(&list->items[h->n], "count");
        }
    }
}

static int split_named(const dg_survey *s, const char *name)
{
    for (int i = 0; i < s->n_splits; i++)
        if (strcmp(s->splits[i].name, name) == 0)
            return i;
    return -1;
}

static void read_fault(dg_survey *s, const dg_json *o)
{
    const dg_json *cases = list_of(o, "cases");

    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        if (strcmp(dg_fault_row_of((dg_fault_kind)kind)->id, dg_json_text(o, "id")) != 0)
            continue;
        s->faults.of[kind].n = count_of(o, "count");
        for (int i = 0; i < cases->n && i < DG_FAULTS_KEPT; i++) {
            const dg_json *c = &cases->items[i];

            DG_PUSH(s->arena, s->faults.of[kind].kept,
                    ((dg_fault){ .at = { .file = text_or_null(c, "file"),
                                         .line = small_count_of(c, "line"),
                                         .column = small_count_of(c, "column") },
                                 .text = dg_json_text(c, "message"),
                                 .split = split_named(s, dg_json_text(c, "split")),
                                 .image = -1 }));
        }
    }
}

int dg_survey_read(dg_survey **out, const char *path, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_survey *s = DG_NEW(a, dg_survey);
    const dg_json *o, *faults, *advice;
    int rc;

    s->arena = s->faults.arena = a;
    DG_TRY(dg_json_read(&o, a, path, d));
    if (!dg_json_get(o, "splits") || !dg_json_get(o, "histograms")) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "data-survey",
                     "this is not what data check writes: no \"splits\" or \"histograms\"");
        goto out;
    }
    s->form = dg_json_text(o, "form");
    s->root = dg_json_text(o, "root");
    s->n_images = count_of(o, "images");
    s->n_objects = count_of(o, "objects");
    s->n_empty = count_of(o, "empty");
    s->n_crowd = count_of(o, "crowd");
    s->n_truncated = count_of(o, "truncated");
    s->n_read = count_of(o, "images_read");
    s->n_bytes = count_of(o, "bytes");
    s->decoded = is_true(o, "decoded");
    read_classes(s, list_of(o, "classes"));
    read_splits(s, list_of(o, "splits"));
    read_histograms(s, dg_json_get(o, "histograms"));
    faults = list_of(o, "faults");
    for (int i = 0; i < faults->n; i++)
        read_fault(s, &faults->items[i]);
    advice = dg_json_get(o, "advice");
    s->advice.size = small_count_of(advice, "sizes");
    s->advice.max_objects = small_count_of(advice, "max_objects");
    s->advice.why_size = dg_json_text(advice, "why_sizes");
    s->advice.why_objects = dg_json_text(advice, "why_max_objects");
    *out = s;
out:
    if (rc < 0)
        dg_arena_close(&a);
    return rc;
}
