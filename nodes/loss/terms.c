/* terms.c: see terms.h. */
#include "nodes/loss/terms.h"

#include <stdio.h>
#include <string.h>

void dg_loss_add(dg_loss_terms *t, const char *kind, const char *set, dg_val sum, double weight,
                 dg_val normaliser)
{
    dg_build *b = t->b;
    dg_val term = dg_div(b, dg_scale(b, sum, weight, 0), normaliser);
    char key[64];

    snprintf(key, sizeof key, "loss_%s%s", kind, set);
    dg_record_set(b, t->record, key, dg_name(b, term, "loss.%s", key));
    t->total = dg_has(t->total) ? dg_add(b, t->total, term) : term;
}

dg_val dg_loss_misfit(dg_build *b, dg_val predictions, const char *unread)
{
    static const struct {
        const char *key, *text;
    } rows[] = {
        { "groups", "the predictions are those of several groups of queries, which this loss would "
                    "match as one: <loss.rfdetr> matches each of them" },
        { "dn", "the predictions have denoising queries, which this loss does not read: "
                "<loss.rtdetr> and <loss.dino> train them" },
        { "sets", "the predictions have further sets of queries, which this loss does not read: "
                  "<loss.dino> trains them" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strstr(unread, rows[i].key) && dg_record_has(b, predictions, rows[i].key))
            return dg_error(b, "loss-groups", "%s", rows[i].text);
    return DG_NONE;
}

dg_val dg_loss_count(dg_build *b, dg_val count, const char *axis)
{
    dg_val n = dg_real(b, dg_sum(b, count, DG_ALL_AXES, false));

    return axis ? dg_all_reduce(b, n, DG_SUM, axis) : n;
}
