/* score_print: COCO scores as text and as JSON. */
#include "media/score.h"

#include <math.h>

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

/* To 12 decimals: the evaluator's epsilon would make 0.9999999999999999 of 1. */
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
