/* review_json.c: a review as JSON. */
#include "media/review_parts.h"

#include <math.h>

#include "base/file.h"
#include "base/str.h"

static void add_real(dg_str *s, const char *before, double v)
{
    dg_str_add(s, before);
    dg_str_json_real(s, round(v * 1e6) / 1e6);
}

static double f1_of(double precision, double recall)
{
    return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

static void add_curve(dg_str *s, const char *name, const dg_review_parts *r, int which)
{
    dg_str_fmt(s, ",\n\"%s\":[", name);
    for (int i = 0; i < DG_REVIEW_POINTS; i++)
        add_real(s, i ? "," : "",
                 which == 0   ? r->precision[i]
                 : which == 1 ? r->recall[i]
                              : f1_of(r->precision[i], r->recall[i]));
    dg_str_add(s, "]");
}

static void add_classes(dg_str *s, const dg_review_parts *r)
{
    dg_str_add(s, ",\n\"classes\":[");
    for (int k = 0; k < r->data->n_classes; k++) {
        const dg_review_class *c = &r->classes[k];
        const double precision = c->found ? (double)c->hits / (double)c->found : 0,
                     recall = c->truths ? (double)c->hits / (double)c->truths : 0;

        dg_str_add(s, k ? ",\n{\"name\":" : "\n{\"name\":");
        dg_str_json(s, r->data->classes[k].name);
        dg_str_fmt(s, ",\"objects\":%lld,\"found\":%lld,\"right\":%lld", (long long)c->truths,
                   (long long)c->found, (long long)c->hits);
        add_real(s, ",\"precision\":", precision);
        add_real(s, ",\"recall\":", recall);
        add_real(s, ",\"F1\":", f1_of(precision, recall));
        add_real(s, ",\"best_F1\":", c->best_f1);
        add_real(s, ",\"best_threshold\":", c->best_threshold);
        dg_str_add(s, "}");
    }
    dg_str_add(s, "]");
}

static void add_matrix(dg_str *s, const dg_review_parts *r)
{
    const int n = r->data->n_classes + 1;

    dg_str_add(s, ",\n\"confusion\":");
    dg_str_add(s, r->matrix ? "[" : "null");
    for (int i = 0; r->matrix && i < n; i++) {
        dg_str_add(s, i ? ",\n[" : "[");
        for (int k = 0; k < n; k++)
            dg_str_fmt(s, "%s%lld", k ? "," : "", (long long)r->matrix[i * n + k]);
        dg_str_add(s, "]");
    }
    dg_str_add(s, r->matrix ? "]" : "");
}

static void add_worst(dg_str *s, const dg_review_parts *r)
{
    dg_str_add(s, ",\n\"worst\":[");
    for (int i = 0; i < r->n_images && i < DG_REVIEW_WORST; i++) {
        const dg_review_image *x = &r->images[i];
        dg_item_info info;

        if (x->missed + x->wrong + x->confused == 0)
            break;
        r->data->info(r->data->self, x->item, &info);
        dg_str_add(s, i ? ",\n{\"image\":" : "\n{\"image\":");
        dg_str_json(s, info.name ? info.name : "");
        dg_str_fmt(s, ",\"objects\":%lld,\"missed\":%lld,\"wrong\":%lld,\"confused\":%lld}",
                   (long long)x->truths, (long long)x->missed, (long long)x->wrong,
                   (long long)x->confused);
    }
    dg_str_add(s, "]");
}

int dg_review_json(const char *path, const dg_review_parts *r, int64_t step, dg_diag *d)
{
    const dg_review *v = r->sums;
    dg_str s = { 0 };
    int rc;

    dg_str_fmt(&s,
               "{\"step\":%lld,\"images\":%lld,\"objects\":%lld,\"small\":%lld,"
               "\"medium\":%lld,\"large\":%lld",
               (long long)step, (long long)v->n_images, (long long)v->n_truths,
               (long long)v->n_small, (long long)v->n_medium, (long long)v->n_large);
    add_real(&s, ",\n\"constant_AP\":", v->constant_ap);
    add_real(&s, ",\"constant_AP50\":", v->constant_ap50);
    add_real(&s, ",\n\"threshold\":", v->threshold);
    add_real(&s, ",\"F1\":", v->f1);
    add_real(&s, ",\"precision_there\":", v->precision);
    add_real(&s, ",\"recall_there\":", v->recall);
    add_curve(&s, "precision", r, 0);
    add_curve(&s, "recall", r, 1);
    add_curve(&s, "F1_over_threshold", r, 2);
    add_classes(&s, r);
    add_matrix(&s, r);
    add_worst(&s, r);
    dg_str_add(&s, "}\n");
    rc = dg_file_write(path, s.s, s.n, d);
    dg_str_free(&s);
    return rc;
}
