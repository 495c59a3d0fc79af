/* parts.c: pictures and losses of a report. */
#include "report/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* ---- pictures -------------------------------------------------------------------------------- */

static void add_picture(dg_page *p, const char *path, const char *words)
{
    dg_str_add(p->out, "<p class=\"note\">");
    dg_page_text(p, "%s", words);
    dg_str_add(p->out, "</p>");
    if (!dg_page_image(p, path, "jpeg", words))
        dg_str_add(p->out, "<p>The picture is not in the folder.</p>\n");
}

/* Pairs of pictures, truth and detections, in a grid; false: the folder has none. A file's name in
 * it is a number, so that it leads nowhere else. */
static bool picture_grid(dg_page *p, const dg_history *h, const dg_track *t)
{
    const dg_json *list = dg_json_get(t->each, "pictures");

    if (!list || list->kind != DG_JSON_ARRAY || !list->n)
        return false;
    dg_str_add(p->out, "<p class=\"note\">");
    dg_page_text(p,
                 "%s, step %.0f: images whose objects are missed most, or found with the lowest "
                 "scores, each with its truth and with what was found",
                 t->scope, dg_json_number(t->each, "step"));
    dg_str_add(p->out, "</p>\n<div class=\"pictures\">\n");
    for (int i = 0; i < list->n; i++) {
        const char *words = dg_json_text(&list->items[i], "caption"),
                   *file = dg_printf(p->arena, "%s/pictures/%d.jpg", t->scope, i + 1);

        dg_str_add(p->out, i % 2 ? "<figure>" : "<div class=\"pair\"><figure>");
        if (!dg_page_image(p, dg_path_join(p->arena, h->folder, file), "jpeg", words))
            dg_str_add(p->out, "<p>The picture is not in the folder.</p>\n");
        dg_str_add(p->out, "<figcaption>");
        dg_page_text(p, "%s", words);
        dg_str_add(p->out, i % 2 || i == list->n - 1 ? "</figcaption></figure></div>\n"
                                                     : "</figcaption></figure>\n");
    }
    dg_str_add(p->out, "</div>\n");
    return true;
}

void dg_report_pictures(dg_page *p)
{
    dg_page_section(p, "pictures", "Detections beside truths");
    for (int r = 0; r < p->n; r++) {
        const dg_history *h = p->runs[r];

        if (p->n > 1) {
            dg_str_add(p->out, "<h3>");
            dg_page_text(p, "%s", h->name);
            dg_str_add(p->out, "</h3>");
        }
        int n = 0;

        for (int e = 0; e < h->evaluations.n; e++) {
            const char *path = h->evaluations.items[e].pictures;

            if (!path)
                continue;
            n++;
            if (picture_grid(p, h, &h->evaluations.items[e]))
                continue;
            add_picture(p, path,
                        dg_printf(p->arena,
                                  "%s, step %lld: images whose objects are missed most, or found "
                                  "with the lowest scores, each with its truth and with what was "
                                  "found",
                                  h->evaluations.items[e].scope,
                                  strtoll(dg_path_name(path) + 5, NULL, 10)));
        }
        if (!n)
            dg_str_add(p->out, "<p class=\"note\">No evaluation has left pictures yet.</p>");
        dg_str_add(p->out,
                   "<details><summary>The first batches, as the network saw them</summary>");
        add_picture(p, dg_path_join(p->arena, h->folder, "first-batches.jpg"),
                    "after augmentation, with the boxes that it was given");
        dg_str_add(p->out, "</details>\n");
    }
    dg_page_end_section(p);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* True for numbers that every line has, besides loss terms and <log>'s. */
static bool is_common(const char *name)
{
    static const char *const common[] = {
        "epoch",          "loss",         "grad_norm",          "lr",
        "seconds",        "images_per_s", "data_seconds",       "wait_seconds",
        "device_seconds", "memory_bytes", "device_memory_bytes"
    };

    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (strcmp(name, common[i]) == 0)
            return true;
    return false;
}

/* The family of a term: the longest other term that is its prefix before "_" ("loss_vfl" of
 * "loss_vfl_aux_0"), else its own name. */
static const char *family(const dg_track *t, const char *name)
{
    const char *best = name;
    size_t most = 0;

    for (int i = 0; i < t->series.n; i++) {
        const char *other = t->series.items[i].name;
        size_t n = strlen(other);

        if (!is_common(other) && n > most && strncmp(name, other, n) == 0 && name[n] == '_') {
            best = other;
            most = n;
        }
    }
    return best;
}

static void term_figure(dg_page *p, const char *head)
{
    const dg_track *t = &p->runs[0]->train;
    dg_figure f = { .title = head, .smooth = true, .from_zero = true };

    if (p->n > 1)
        for (int r = 0; r < p->n; r++)
            dg_figure_add(p, &f, p->runs[r]->name, dg_track_find(&p->runs[r]->train, head), r);
    for (int i = 0; p->n == 1 && i < t->series.n; i++) {
        const char *name = t->series.items[i].name;

        if (!is_common(name) && strcmp(family(t, name), head) == 0)
            dg_figure_add(p, &f, strcmp(name, head) == 0 ? name : name + strlen(head) + 1,
                          &t->series.items[i], f.lines.n);
    }
    dg_figure_draw(p, &f);
}

static void whole_figure(dg_page *p, const char *name, const char *title, bool smooth)
{
    dg_figure f = { .title = title, .smooth = smooth, .from_zero = !smooth };

    for (int r = 0; r < p->n; r++)
        dg_figure_add(p, &f, p->runs[r]->name, dg_track_find(&p->runs[r]->train, name),
                      p->n > 1 ? r : 0);
    dg_figure_draw(p, &f);
}

void dg_report_losses(dg_page *p)
{
    const dg_track *t = &p->runs[0]->train;
    bool more = false;

    dg_page_section(p, "losses", "Losses");
    dg_str_add(p->out, "<p class=\"note\">Running means; the faint lines are the steps themselves. "
                       "Rare spikes leave the picture.</p>\n");
    dg_page_figures(p);
    whole_figure(p, "loss", "Loss, all terms", true);
    for (int i = 0; i < t->series.n; i++) {
        const char *name = t->series.items[i].name;
        bool head = !is_common(name) && strcmp(family(t, name), name) == 0;

        more |= !is_common(name) && !head;
        if (head)
            term_figure(p, name);
    }
    whole_figure(p, "grad_norm", "Norm of the gradients", true);
    whole_figure(p, "lr", "Learning rate", false);
    dg_page_end_figures(p);
    if (p->n > 1 && more) {
        dg_str_add(p->out, "<details><summary>Every term</summary>\n");
        dg_page_figures(p);
        for (int i = 0; i < t->series.n; i++)
            if (!is_common(t->series.items[i].name) &&
                strcmp(family(t, t->series.items[i].name), t->series.items[i].name) != 0)
                term_figure(p, t->series.items[i].name);
        dg_page_end_figures(p);
        dg_str_add(p->out, "</details>\n");
    }
    dg_page_end_section(p);
}
