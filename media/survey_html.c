/* survey_html: a survey as one page that opens without a network: its pictures are inside it, its
 * histograms are drawn as SVG, and there is no script. */
#include "media/survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "media/draw.h"
#include "media/image.h"

enum { PICTURES = 12, FAULT_PICTURES = 6, TILE_W = 320, TILE_H = 400, ROW = 20, BAR = 260, CLASSES = 100 };

static const char style[] =
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid #8885}"
    "table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:right}td:first-child,th:first-child{text-align:left}"
    "th{font-weight:600;border-bottom:1px solid #8885}.row{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0;max-width:320px}"
    "img{max-width:100%;height:auto}.error{color:#c62828}.warning{color:#b26a00}.good{color:#2e7d32}"
    "code{font-size:.9em}ul{margin:.3em 0}li{overflow-wrap:anywhere}svg text{fill:currentColor;font-size:12px}"
    ".note{opacity:.75}details{margin:.6em 0}summary{cursor:pointer}";

static void text(dg_str *out, const char *t)
{
    dg_str_xml(out, t ? t : "");
}

/* ---- tables and bars ----------------------------------------------------------------------- */

static void splits(dg_str *out, const dg_survey *s)
{
    dg_str_add(out, "<table><tr><th>split</th><th>images</th><th>objects</th><th>without objects</th><th>crowd</th>"
                    "<th>most in one</th></tr>\n");
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        dg_str_add(out, "<tr><td>");
        text(out, s->splits[i].name);
        if (c)
            dg_str_fmt(out, "</td><td>%d</td><td>%lld</td><td>%d</td><td>%lld</td><td>%d</td></tr>\n", c->n_images,
                       (long long)c->report.n_objects, c->report.n_empty, (long long)c->report.n_crowd, c->report.most_objects);
        else
            dg_str_add(out, "</td><td colspan=\"5\" class=\"error\">cannot be read</td></tr>\n");
    }
    dg_str_fmt(out, "<tr><th>together</th><th>%lld</th><th>%lld</th><th>%lld</th><th>%lld</th><th>%d</th></tr></table>\n",
               (long long)s->n_images, (long long)s->n_objects, (long long)s->n_empty, (long long)s->n_crowd, s->most_objects);
}

static void bars(dg_str *out, const char *title, const char *const *label, const int64_t *count, int n)
{
    int64_t most = 1;
    int     first = n, last = -1;

    for (int i = 0; i < n; i++)
        if (count[i]) {
            most = count[i] > most ? count[i] : most;
            first = i < first ? i : first;
            last = i;
        }
    if (last < 0)
        return;
    dg_str_fmt(out, "<figure style=\"max-width:none\"><figcaption><b>");
    text(out, title);
    dg_str_fmt(out, "</b></figcaption><svg width=\"500\" height=\"%d\" role=\"img\">\n", ROW * (last - first + 1) + 4);
    for (int i = first; i <= last; i++) {
        int    y = ROW * (i - first);
        double w = (double)BAR * (double)count[i] / (double)most;

        dg_str_fmt(out, "<text x=\"150\" y=\"%d\" text-anchor=\"end\">", y + 15);
        text(out, label[i]);
        dg_str_fmt(out, "</text><rect x=\"158\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#3b82c4\"/>"
                        "<text x=\"%.1f\" y=\"%d\">%lld</text>\n",
                   y + 3, w < 1 && count[i] ? 1 : w, ROW - 5, 164 + w, y + 15, (long long)count[i]);
    }
    dg_str_add(out, "</svg></figure>\n");
}

/* ---- pictures ------------------------------------------------------------------------------ */

/* Of a tile, so that the image fills it; tall ones are drawn narrower. */
static int height_for(const dg_image *im)
{
    int h = (int)((int64_t)TILE_W * im->h / im->w);

    return h < 40 ? 40 : h > TILE_H ? TILE_H : h;
}

/* An image with its boxes as a figure; one that cannot be read is left out. */
static void picture(dg_str *out, const dg_survey *s, int split, int image, dg_scratch *scratch)
{
    const dg_coco       *c = s->splits[split].index;
    const dg_coco_image *im = &c->images[image];
    dg_diag             *quiet = dg_diag_open();
    dg_arena            *a = dg_arena_open();
    const char         **names = DG_NEW_N(a, c->n_classes + 1, const char *);
    dg_mark             *marks = DG_NEW_N(a, im->n + 1, dg_mark);
    dg_encoded           file = { 0 };
    dg_image             whole, tile;

    for (int k = 0; k < c->n_classes; k++)
        names[k] = c->classes[k].name;
    for (int k = 0; k < im->n; k++) {
        const dg_coco_annotation *x = &c->annotations[im->first + k];

        marks[k] = (dg_mark){ { x->x, x->y, x->x + x->w, x->y + x->h }, x->label, -1 };
    }
    dg_scratch_reset(scratch);

    const dg_tile one = { &whole, marks, im->n, NULL };

    if (dg_image_read(&whole, scratch, dg_path_join(a, c->folder, im->file_name), quiet) == 0 &&
        dg_draw_mosaic(&tile, scratch, &one, 1, 1, TILE_W, height_for(&whole), (dg_labels){ names, c->n_classes }, quiet) == 0 &&
        dg_jpeg_encode(&file, &tile, 82, "picture", quiet) == 0) {
        dg_str_add(out, "<figure><img alt=\"\" src=\"data:image/jpeg;base64,");
        dg_str_base64(out, file.p, file.n);
        dg_str_add(out, "\"><figcaption><code>");
        text(out, im->file_name);
        dg_str_add(out, "</code> <span class=\"note\">");
        if (s->n_splits > 1) {
            text(out, s->splits[split].name);
            dg_str_add(out, ", ");
        }
        dg_str_fmt(out, "%d x %d, %d object%s</span></figcaption></figure>\n", im->w, im->h, im->n, im->n == 1 ? "" : "s");
    }
    free(file.p);
    dg_arena_close(&a);
    dg_diag_close(&quiet);
}

/* Of every split a few, evenly over its images. */
static void gallery(dg_str *out, const dg_survey *s, dg_scratch *scratch)
{
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;
        int            n = c ? c->n_images < PICTURES ? c->n_images : PICTURES : 0;

        if (!n)
            continue;
        dg_str_add(out, "<details open><summary>");
        text(out, s->splits[i].name);
        dg_str_add(out, "</summary><div class=\"row\">\n");
        for (int k = 0; k < n; k++)
            picture(out, s, i, (int)((int64_t)c->n_images * k / n), scratch);
        dg_str_add(out, "</div></details>\n");
    }
}

/* ---- faults -------------------------------------------------------------------------------- */

static void fault_list(dg_str *out, const dg_survey *s, int kind)
{
    dg_str_add(out, "<ul>\n");
    for (int i = 0; i < s->faults.of[kind].kept.n; i++) {
        const dg_fault *x = &s->faults.of[kind].kept.items[i];

        dg_str_add(out, "<li>");
        if (x->split >= 0 && s->n_splits > 1) {
            text(out, s->splits[x->split].name);
            dg_str_add(out, ": ");
        }
        if (x->at.file) {
            dg_str_add(out, "<code>");
            text(out, x->at.file);
            if (x->at.line > 0)
                dg_str_fmt(out, ":%d", x->at.line);
            dg_str_add(out, "</code> ");
        }
        text(out, x->text);
        dg_str_add(out, "</li>\n");
    }
    if (s->faults.of[kind].n > s->faults.of[kind].kept.n)
        dg_str_fmt(out, "<li>and %lld more</li>\n", (long long)(s->faults.of[kind].n - s->faults.of[kind].kept.n));
    dg_str_add(out, "</ul>\n");
}

static void faults(dg_str *out, const dg_survey *s, dg_scratch *scratch)
{
    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        const dg_fault_row *row = dg_fault_row_of((dg_fault_kind)kind);
        int                 shown = 0, split = -1, image = -1;

        if (!s->faults.of[kind].n)
            continue;
        dg_str_fmt(out, "<details%s><summary class=\"%s\"><b>%s: %lld</b> <code>%s</code></summary>\n<p class=\"note\">%s</p>\n",
                   s->faults.of[kind].kept.n <= 10 ? " open" : "", row->error ? "error" : "warning", row->title,
                   (long long)s->faults.of[kind].n, row->id, row->help);
        dg_str_add(out, "<div class=\"row\">\n");
        for (int i = 0; i < s->faults.of[kind].kept.n && shown < FAULT_PICTURES; i++) {
            const dg_fault *x = &s->faults.of[kind].kept.items[i];

            if (x->image < 0 || x->split < 0 || (x->image == image && x->split == split))
                continue;
            picture(out, s, split = x->split, image = x->image, scratch);
            shown++;
        }
        dg_str_add(out, "</div>\n");
        fault_list(out, s, kind);
        dg_str_add(out, "</details>\n");
    }
}

/* ---- the page ------------------------------------------------------------------------------ */

int dg_survey_html(dg_str *out, const dg_survey *s, dg_diag *d)
{
    int64_t     errors = dg_faults_errors(&s->faults), warnings = dg_faults_warnings(&s->faults);
    dg_scratch *scratch = dg_scratch_open(0);

    if (!scratch)
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = s->layout.root }, "out-of-memory", "no memory for pictures");
    dg_str_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                    "<meta name=\"viewport\" content=\"width=device-width\"><title>");
    text(out, s->layout.root);
    dg_str_fmt(out, "</title><style>%s</style></head><body>\n<h1>", style);
    text(out, s->layout.root);
    dg_str_fmt(out, "</h1>\n<p>%s, %d classes, %lld images. <span class=\"%s\">%lld errors, %lld warnings.</span></p>\n",
               dg_form_name(s->layout.form), s->n_classes, (long long)s->n_images,
               errors ? "error" : warnings ? "warning" : "good", (long long)errors, (long long)warnings);
    splits(out, s);
    if (errors + warnings) {
        dg_str_add(out, "<h2>What to look at</h2>\n");
        faults(out, s, scratch);
    }
    dg_str_add(out, "<h2>What is in it</h2>\n<div class=\"row\">\n");
    bars(out, "objects of each class", s->classes, s->per_class, s->n_classes < CLASSES ? s->n_classes : CLASSES);
    for (int i = 0; i < DG_N_HISTS; i++)
        if (s->n_objects || i == DG_HIST_IMAGES)
            bars(out, s->hist[i].title, s->hist[i].label, s->hist[i].count, s->hist[i].n);
    dg_str_fmt(out, "</div>\n<h2>What suits</h2>\n<p><code>sizes=\"%d\"</code> <code>max_objects=\"%d\"</code></p>\n",
               s->advice.size, s->advice.max_objects);
    if (s->n_read) {
        dg_str_add(out, "<h2>Pictures</h2>\n");
        gallery(out, s, scratch);
    }
    dg_str_add(out, "</body></html>\n");
    dg_scratch_close(&scratch);
    return 0;
}
