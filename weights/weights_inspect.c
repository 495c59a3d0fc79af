/* weights_inspect.c: see weights_inspect.h. Reads elements as double, which holds every stored type
 * but I64 beyond 2^53. */
#include "weights/weights_inspect.h"

#include <math.h>
#include <string.h>

#include "weights/weight_names.h"

static double *elements(const dg_entry *e)
{
    double *v = dg_try_alloc((size_t)e->n * sizeof *v);

    if (v)
        dg_entry_read(e, v);
    return v;
}

static int widest(const dg_archive *a)
{
    int n = 0;

    for (int i = 0; i < a->n; i++)
        n = (int)strlen(a->entries[i].name) > n ? (int)strlen(a->entries[i].name) : n;
    return n;
}

/* ---- inspect --------------------------------------------------------------------------------- */

typedef struct statistics {
    double least, largest, sum, squares;
    int64_t n, not_finite;
} statistics;

/* Statistics of the finite elements. */
static statistics measure(const double *v, int64_t n)
{
    statistics s = { .least = (double)INFINITY, .largest = (double)-INFINITY };

    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(v[i])) {
            s.not_finite++;
            continue;
        }
        s.least = fmin(s.least, v[i]);
        s.largest = fmax(s.largest, v[i]);
        s.sum += v[i];
        s.squares += v[i] * v[i];
        s.n++;
    }
    return s;
}

static void add_statistics(dg_str *out, const statistics *s, bool json)
{
    static const char *const names[] = { "min", "max", "mean", "rms" };
    const double values[] = { s->least, s->largest, s->sum / (double)s->n,
                              sqrt(s->squares / (double)s->n) };

    for (int i = 0; i < 4 && (s->n || json); i++) {
        if (json) {
            dg_str_fmt(out, ",\"%s\":", names[i]);
            dg_str_json_real(out, values[i]);
        } else {
            dg_str_fmt(out, "  %s %.4g", names[i], values[i]);
        }
    }
    if (json)
        dg_str_fmt(out, ",\"not_finite\":%lld", (long long)s->not_finite);
    else if (s->not_finite)
        dg_str_fmt(out, "  %lld not finite", (long long)s->not_finite);
}

static int add_entry(dg_str *out, const dg_archive *a, const dg_entry *e, int width,
                     bool with_statistics, bool json, dg_diag *d)
{
    char shape[96];
    double *v = NULL;

    dg_shape_print(e->shape, shape, sizeof shape);
    if (json) {
        dg_str_add(out, "{\"name\":");
        dg_str_json(out, e->name);
        dg_str_fmt(out, ",\"dtype\":\"%s\",\"shape\":%s", dg_stored_name(e->type), shape);
    } else {
        dg_str_fmt(out, "  %-*s  %-4s  %s", width, e->name, dg_stored_name(e->type), shape);
    }
    if (with_statistics) {
        v = elements(e);
        if (!v)
            return dg_archive_no_memory(a, e->name, d);
        statistics s = measure(v, e->n);

        add_statistics(out, &s, json);
        dg_free(v);
    }
    dg_str_add(out, json ? "}" : "\n");
    return 0;
}

static void add_head(dg_str *out, const dg_archive *a, bool json)
{
    const dg_weight_names *l = dg_weight_names_of_archive(a);
    int64_t n = 0, bytes = 0;
    char count[32], size[32];

    for (int i = 0; i < a->n; i++) {
        n += a->entries[i].n;
        bytes += a->entries[i].n * (int64_t)dg_stored_size(a->entries[i].type);
    }
    if (!json) {
        dg_str_fmt(out, "%s%s%s: %d tensor%s, ", a->file, a->part ? ", its " : "",
                   a->part ? a->part : "", a->n, dg_plural(a->n, "s"));
        if (a->shards)
            dg_str_fmt(out, "in %d file%s, ", dg_map_n(a->shards),
                       dg_plural(dg_map_n(a->shards), "s"));
        dg_str_fmt(out, "%s elements, %s; %s\n", dg_human_count(n, count, sizeof count),
                   dg_human_bytes((double)bytes, size, sizeof size), dg_weight_names_brief(l, a));
        return;
    }
    dg_str_add(out, "{\"file\":");
    dg_str_json(out, a->file);
    dg_str_add(out, ",\"part\":");
    dg_str_json(out, a->part);
    dg_str_fmt(out, ",\"names\":\"%s\",\"elements\":%lld,\"bytes\":%lld,\"tensors\":[",
               dg_weight_names_name(l), (long long)n, (long long)bytes);
}

int dg_weights_inspect(dg_str *out, const char *file, bool with_statistics, bool json, dg_diag *d)
{
    dg_archive *a = NULL;
    int rc, width;

    DG_TRY(dg_archive_open(&a, file, d));
    width = widest(a);
    add_head(out, a, json);
    for (int i = 0; i < a->n; i++) {
        dg_str_add(out, json && i ? ",\n" : "");
        DG_TRY(add_entry(out, a, &a->entries[i], width, with_statistics, json, d));
    }
    dg_str_add(out, json ? "]}\n" : "");
out:
    dg_archive_close(&a);
    return rc;
}

/* ---- diff ------------------------------------------------------------------------------------ */

typedef enum state { SAME, CLOSE, DIFFERENT, SHAPE, MISSING, EXTRA, N_STATES } state;
static const char *const words[N_STATES] = { "same",  "close",   "different",
                                             "shape", "missing", "extra" };

typedef struct verdict {
    state state;
    double most; /* largest difference */
    int64_t at;
} verdict;

/* Distance of two numbers: two NaN are equal; one NaN is infinitely far. */
static double distance(double x, double y)
{
    double gap = fabs(x - y);

    return x == y || (isnan(x) && isnan(y)) ? 0 : isnan(gap) ? (double)INFINITY : gap;
}

static int compare(const dg_archive *a, const dg_entry *x, const dg_entry *y, double tolerance,
                   verdict *out, dg_diag *d)
{
    double *v = NULL, *w = NULL;
    bool bits;

    *out = (verdict){ .state = SHAPE };
    if (!dg_shape_equal(x->shape, y->shape))
        return 0;
    v = elements(x);
    w = elements(y);
    for (int64_t i = 0; v && w && i < x->n; i++)
        if (distance(v[i], w[i]) > out->most) {
            out->most = distance(v[i], w[i]);
            out->at = i;
        }
    bits = v && w && memcmp(v, w, (size_t)x->n * sizeof *v) == 0; /* distinguishes 0 from -0 */
    out->state = bits ? SAME : out->most <= tolerance ? CLOSE : DIFFERENT;
    dg_free(v);
    dg_free(w);
    return v && w ? 0 : dg_archive_no_memory(a, x->name, d);
}

typedef struct table {
    dg_str *out;
    bool json;
    int width, rows, n[N_STATES];
    double most;
} table;

static void add_row(table *t, const dg_entry *x, const dg_entry *y, const verdict *v)
{
    const dg_entry *any = x ? x : y;
    char first[96] = "null", second[96] = "null";

    if (x)
        dg_shape_print(x->shape, first, sizeof first);
    if (y)
        dg_shape_print(y->shape, second, sizeof second);
    t->n[v->state]++;
    if (t->json) {
        dg_str_add(t->out, t->rows++ ? ",\n{\"name\":" : "{\"name\":");
        dg_str_json(t->out, any->name);
        dg_str_fmt(t->out, ",\"state\":\"%s\",\"shapes\":[%s,%s]", words[v->state], first, second);
        if (v->state <= DIFFERENT) {
            dg_str_add(t->out, ",\"difference\":");
            dg_str_json_real(t->out, v->most);
            dg_str_fmt(t->out, ",\"at\":%lld", (long long)v->at);
        }
        dg_str_add(t->out, "}");
        return;
    }
    if (v->state == SAME)
        return;
    dg_str_fmt(t->out, "  %-*s  ", t->width, any->name);
    if (v->state <= DIFFERENT)
        dg_str_fmt(t->out, "%.4g at %lld of %s\n", v->most, (long long)v->at, first);
    else if (v->state == SHAPE)
        dg_str_fmt(t->out, "%s against %s\n", first, second);
    else
        dg_str_fmt(t->out, "only in the %s\n", x ? "first" : "second");
}

static int add_rows(table *t, const dg_archive *a, const dg_archive *b, double tolerance,
                    dg_diag *d)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < a->n; i++) {
        const dg_entry *x = &a->entries[i], *y = dg_archive_find(b, x->name);
        verdict v = { .state = MISSING };

        if (y)
            rc = compare(a, x, y, tolerance, &v, d);
        if (rc == 0)
            add_row(t, x, y, &v);
        t->most = fmax(t->most, v.most);
    }
    for (int i = 0; rc == 0 && i < b->n; i++)
        if (!dg_archive_find(a, b->entries[i].name))
            add_row(t, NULL, &b->entries[i], &(verdict){ .state = EXTRA });
    return rc;
}

static void add_sum(table *t)
{
    const int *n = t->n;

    if (t->json) {
        dg_str_add(t->out, "]");
        for (int i = 0; i < N_STATES; i++)
            dg_str_fmt(t->out, ",\"%s\":%d", words[i], n[i]);
        dg_str_add(t->out, ",\"difference\":");
        dg_str_json_real(t->out, t->most);
        dg_str_add(t->out, "}\n");
        return;
    }
    dg_str_fmt(t->out, "%d the same", n[SAME]);
    if (n[CLOSE])
        dg_str_fmt(t->out, ", %d within the tolerance", n[CLOSE]);
    dg_str_fmt(t->out,
               ", %d differ, %d of another shape, %d only in the first, %d only in the second",
               n[DIFFERENT], n[SHAPE], n[MISSING], n[EXTRA]);
    if (t->most > 0)
        dg_str_fmt(t->out, "; largest difference %.4g", t->most);
    dg_str_add(t->out, "\n");
}

int dg_weights_diff(dg_str *out, const char *first, const char *second, double tolerance, bool json,
                    bool *same, dg_diag *d)
{
    dg_archive *a = NULL, *b = NULL;
    table t = { .out = out, .json = json };
    int rc;

    DG_TRY(dg_archive_open(&a, first, d));
    DG_TRY(dg_archive_open(&b, second, d));
    DG_TRY(dg_archive_translate(a, dg_weight_names_all[0], d));
    DG_TRY(dg_archive_translate(b, dg_weight_names_all[0], d));
    t.width = widest(a) > widest(b) ? widest(a) : widest(b);
    dg_str_add(out, json ? "{\"tensors\":[" : "");
    DG_TRY(add_rows(&t, a, b, tolerance, d));
    add_sum(&t);
    *same = t.n[DIFFERENT] + t.n[SHAPE] + t.n[MISSING] + t.n[EXTRA] == 0;
out:
    dg_archive_close(&a);
    dg_archive_close(&b);
    return rc;
}
