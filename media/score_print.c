/* score_print.c: COCO scores as text and as JSON. */
#include "media/score.h"

#include <math.h>

#include "base/file.h"

static const struct {
    const char *name, *meaning;
} numbers[DG_N_SCORES] = {
    [DG_AP] = { "AP", "precision, mean over IoU 0.50:0.95" },
    [DG_AP50] = { "AP50", "precision at IoU 0.50" },
    [DG_AP75] = { "AP75", "precision at IoU 0.75" },
    [DG_AP_SMALL] = { "APs", "precision, objects below 32^2 pixels" },
    [DG_AP_MEDIUM] = { "APm", "precision, objects from 32^2 to 96^2 pixels" },
    [DG_AP_LARGE] = { "APl", "precision, objects above 96^2 pixels" },
    [DG_AR1] = { "AR1", "recall with the best detection of an image" },
    [DG_AR10] = { "AR10", "recall with the 10 best" },
    [DG_AR100] = { "AR100", "recall with the 100 best" },
    [DG_AR_SMALL] = { "ARs", "recall, objects below 32^2 pixels" },
    [DG_AR_MEDIUM] = { "ARm", "recall, objects from 32^2 to 96^2 pixels" },
    [DG_AR_LARGE] = { "ARl", "recall, objects above 96^2 pixels" },
};

const char *dg_score_name(int which)
{
    return numbers[which].name;
}

void dg_score_print(dg_str *out, const dg_score *s, const dg_coco_class *classes, int n_classes)
{
    for (int k = 0; k < DG_N_SCORES; k++)
        dg_str_fmt(out, "%-6s %7.4f   %s\n", numbers[k].name, dg_score_number(s, k),
                   numbers[k].meaning);
    if (classes && n_classes)
        dg_str_add(out, "\n     AP    AP50   class\n");
    for (int k = 0; classes && k < n_classes; k++)
        dg_str_fmt(out, "%7.4f %7.4f   %s\n", dg_score_class_ap(s, k), dg_score_class_ap50(s, k),
                   classes[k].name);
}

/* 12 decimals: hides the evaluator's epsilon, which turns 1 into 0.9999999999999999. */
static void add_number(dg_str *out, const char *key, double v)
{
    dg_str_fmt(out, "\"%s\":", key);
    dg_str_json_real(out, round(v * 1e12) / 1e12);
}

void dg_score_print_json(dg_str *out, const dg_score *s, const dg_coco_class *classes,
                         int n_classes)
{
    for (int k = 0; k < DG_N_SCORES; k++) {
        dg_str_add(out, k ? "," : "{");
        add_number(out, numbers[k].name, dg_score_number(s, k));
    }
    dg_str_add(out, ",\"classes\":[");
    for (int k = 0; classes && k < n_classes; k++) {
        dg_str_fmt(out, "%s{\"id\":%lld,\"name\":", k ? "," : "", (long long)classes[k].id);
        dg_str_json(out, classes[k].name);
        dg_str_add(out, ",");
        add_number(out, "AP", dg_score_class_ap(s, k));
        dg_str_add(out, ",");
        add_number(out, "AP50", dg_score_class_ap50(s, k));
        dg_str_add(out, "}");
    }
    dg_str_add(out, "]}");
}

/* ---- curves ---------------------------------------------------------------------------------- */

static void add_curve(dg_str *out, const double *precision)
{
    for (int r = 0; r < DG_SCORE_RECALLS; r++) {
        dg_str_add(out, r ? "," : "[");
        dg_str_json_real(out, round(precision[r] * 1e4) / 1e4);
    }
    dg_str_add(out, "]");
}

static void add_class(dg_str *out, const dg_score *s, const dg_coco_class *class, int label)
{
    static const struct {
        const char *name;
        int iou;
    } at[] = { { "0.50", 0 }, { "0.75", 5 }, { "0.90", 8 } };

    dg_str_fmt(out, "%s\n{\"id\":%lld,\"name\":", label ? "," : "", (long long)class->id);
    dg_str_json(out, class->name);
    dg_str_add(out, ",");
    add_number(out, "AP", dg_score_class_ap(s, label));
    dg_str_add(out, ",");
    add_number(out, "AP50", dg_score_class_ap50(s, label));
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        dg_str_fmt(out, "%s\"%s\":", i ? "," : ",\"precision\":{", at[i].name);
        add_curve(out, dg_score_curve(s, label, at[i].iou, 0));
    }
    dg_str_add(out, "}}");
}

int dg_score_write_curves(const char *path, const dg_score *s, const dg_coco_class *classes,
                          int n_classes, int64_t step, dg_diag *d)
{
    dg_str out = { 0 };
    int rc;

    dg_str_fmt(&out, "{\"step\":%lld,\"recall\":%d,\"classes\":[", (long long)step,
               DG_SCORE_RECALLS);
    for (int i = 0; i < n_classes; i++)
        add_class(&out, s, &classes[i], i);
    dg_str_add(&out, "]}\n");
    rc = dg_file_write(path, out.s, out.n, d);
    dg_str_free(&out);
    return rc;
}
