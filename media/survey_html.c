/* survey_html.c: a survey as one self-contained page: embedded pictures, SVG histograms, no
 * script. */
#include "media/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "media/draw.h"
#include "media/image.h"

enum {
    PICTURES = 12,
    FAULT_PICTURES = 6,
    TILE_W = 320,
    TILE_H = 400,
    ROW = 20,
    LABEL = 130,
    WIDTH = 460,
    COUNT = 76,
    CLASSES = 100,
    LONG = 30
};

static const char style[] =
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,\"DejaVu "
    "Sans\",sans-serif;max-width:1100px;margin:2em auto;padding:0 1em}"
    "h1{font-size:1.5em;overflow-wrap:anywhere}h2{font-size:1.15em;margin-top:2em;border-bottom:"
    "1px solid #8885}.note{opacity:.75}"
    "@media print{:root{color-scheme:light}body{max-width:none;margin:0;padding:0}}";

const char dg_survey_style[] =
    ".survey table{border-collapse:collapse}.survey td,.survey th{padding:.15em "
    ".8em;text-align:right;white-space:nowrap}"
    ".survey td:first-child,.survey th:first-child{text-align:left;padding-left:0}"
    ".survey th{font-weight:600;border-bottom:1px solid #8885}.survey .wide{overflow-x:auto}"
    ".survey .share{min-width:120px;vertical-align:middle}.survey .share "
    "i{display:block;height:.7em;min-width:1px;background:#3b82c4}"
    ".survey "
    ".bars{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(320px,100%),1fr));gap:"
    "1em 2em;margin:1.2em 0}"
    ".survey .tiles{display:flex;flex-wrap:wrap;gap:1em;margin:.6em 0}.survey .tiles "
    "figure{max-width:320px}.survey figure{margin:0;min-width:0}"
    ".survey code,.survey li{overflow-wrap:anywhere}.survey img{max-width:100%;height:auto}.survey "
    "svg{display:block;width:100%;height:auto}.survey svg text{fill:currentColor;font-size:12px}"
    ".survey .error{color:#c62828}.survey .warning{color:#b26a00}.survey "
    ".good{color:#2e7d32}.survey code{font-size:.9em}"
    ".survey ul{margin:.3em 0;padding-left:1.4em}.survey li{overflow-wrap:anywhere}"
    ".survey details{margin:.6em 0}.survey summary{cursor:pointer}"
    "@media(prefers-color-scheme:dark){.survey .error{color:#ff8a73}.survey "
    ".warning{color:#efbb4a}.survey .good{color:#6fce91}}"
    "@media print{.survey .error{color:#c62828}.survey .warning{color:#b26a00}.survey "
    ".good{color:#2e7d32}"
    ".survey figure,.survey li,.survey tr,.survey .wide{break-inside:avoid}.survey "
    "summary,.survey>p,.survey h2,.survey h3{break-after:avoid}"
    ".survey .wide{overflow:visible}}";

static void text(dg_str *out, const char *t)
{
    dg_str_xml(out, t ? t : "");
}

/* ---- tables and bars ------------------------------------------------------------------------- */

static void splits(dg_str *out, const dg_survey *s)
{
    dg_str_add(
        out,
        "<div class=\"wide\"><table><tr><th>split</th><th>images</th><th>objects</th><th>without "
        "objects</th><th>crowd</th>"
        "<th>most in one</th></tr>\n");
    for (int i = 0; i < s->n_splits; i++) {
        const dg_survey_split *x = &s->splits[i];

        dg_str_add(out, "<tr><td>");
        text(out, x->name);
        if (x->readable)
            dg_str_fmt(
                out,
                "</td><td>%lld</td><td>%lld</td><td>%lld</td><td>%lld</td><td>%lld</td></tr>\n",
                (long long)x->n_images, (long long)x->n_objects, (long long)x->n_empty,
                (long long)x->n_crowd, (long long)x->most_objects);
        else
            dg_str_add(out, "</td><td colspan=\"5\" class=\"error\">cannot be read</td></tr>\n");
    }
    if (s->n_splits > 1)
        dg_str_fmt(out,
                   "<tr><th>together</th><th>%lld</th><th>%lld</th><th>%lld</th><th>%lld</"
                   "th><th>%lld</th></tr>\n",
                   (long long)s->n_images, (long long)s->n_objects, (long long)s->n_empty,
                   (long long)s->n_crowd, (long long)s->most_objects);
    dg_str_add(out, "</table></div>\n");
}

/* Objects per class and split. */
static void classes(dg_str *out, const dg_survey *s)
{
    int64_t most = 1;
    int n = s->n_classes < CLASSES ? s->n_classes : CLASSES;

    for (int k = 0; k < n; k++)
        most = s->per_class[k] > most ? s->per_class[k] : most;
    if (n > LONG)
        dg_str_fmt(out, "<details><summary>%d classes</summary>", s->n_classes);
    dg_str_add(out, "<div class=\"wide\"><table><tr><th>class</th>");
    for (int i = 0; i < s->n_splits && s->n_splits > 1; i++) {
        dg_str_add(out, "<th>");
        text(out, s->splits[i].name);
        dg_str_add(out, "</th>");
    }
    dg_str_add(out, "<th>objects</th><th class=\"share\"></th></tr>\n");
    for (int k = 0; k < n; k++) {
        dg_str_add(out, "<tr><td>");
        text(out, s->classes[k]);
        dg_str_add(out, "</td>");
        for (int i = 0; i < s->n_splits && s->n_splits > 1; i++)
            dg_str_fmt(out, "<td>%lld</td>", (long long)s->splits[i].per_class[k]);
        dg_str_fmt(out,
                   "<td>%lld</td><td class=\"share\"><i style=\"width:%.1f%%\"></i></td></tr>\n",
                   (long long)s->per_class[k], 100 * (double)s->per_class[k] / (double)most);
    }
    dg_str_add(out, "</table></div>");
    if (s->n_classes > n)
        dg_str_fmt(out, "<p class=\"note\">and %d more</p>", s->n_classes - n);
    dg_str_add(out, n > LONG ? "</details>\n" : "\n");
}

static void bars(dg_str *out, const char *title, const char *const *label, const int64_t *count,
                 int n)
{
    int64_t most = 1;
    int first = n, last = -1;

    for (int i = 0; i < n; i++)
        if (count[i]) {
            most = count[i] > most ? count[i] : most;
            first = i < first ? i : first;
            last = i;
        }
    if (last < 0)
        return;
    dg_str_add(out, "<figure><figcaption><b>");
    text(out, title);
    dg_str_fmt(out, "</b></figcaption><svg viewBox=\"0 0 %d %d\" role=\"img\">\n", WIDTH,
               ROW * (last - first + 1) + 4);
    for (int i = first; i <= last; i++) {
        int y = ROW * (i - first);
        double w = (double)(WIDTH - LABEL - COUNT) * (double)count[i] / (double)most;

        dg_str_fmt(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LABEL - 8, y + 15);
        text(out, label[i]);
        dg_str_fmt(out,
                   "</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"#3b82c4\"/>"
                   "<text x=\"%.1f\" y=\"%d\">%lld</text>\n",
                   LABEL, y + 3, w < 1 && count[i] ? 1 : w, ROW - 5, LABEL + 6 + w, y + 15,
                   (long long)count[i]);
    }
    dg_str_add(out, "</svg></figure>\n");
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Shrinks an image, and its marks, to fit a tile; smaller images stay as they are. */
static int shrink(dg_image *im, dg_scratch *scratch, dg_mark *marks, int n, dg_diag *d)
{
    const double scale = fmin(1, fmin((double)TILE_W / im->w, (double)TILE_H / im->h));
    const int w = (int)fmax(1, rint(scale * im->w)), h = (int)fmax(1, rint(scale * im->h));

    for (int k = 0; k < n; k++)
        marks[k].box = (dg_box){ marks[k].box.x1 * scale, marks[k].box.y1 * scale,
                                 marks[k].box.x2 * scale, marks[k].box.y2 * scale };
    return scale < 1 ? dg_image_resize(im, scratch, im, w, h, d) : 0;
}

/* An image with its boxes as a figure; unreadable images are skipped. */
static void picture(dg_str *out, const dg_survey *s, int split, int image, dg_scratch *scratch)
{
    const dg_coco *c = s->splits[split].index;
    const dg_coco_image *im = &c->images[image];
    dg_diag *quiet = dg_diag_open();
    dg_arena *a = dg_arena_open();
    const char **names = DG_NEW_N(a, c->n_classes + 1, const char *);
    dg_mark *marks = DG_NEW_N(a, im->n + 1, dg_mark);
    dg_encoded file = { 0 };
    dg_image whole, tile;

    for (int k = 0; k < c->n_classes; k++)
        names[k] = c->classes[k].name;
    for (int k = 0; k < im->n; k++) {
        const dg_coco_annotation *x = &c->annotations[im->first + k];

        marks[k] = (dg_mark){ { x->x, x->y, x->x + x->w, x->y + x->h }, x->label, -1 };
    }
    dg_scratch_reset(scratch);

    const dg_tile one = { &whole, marks, im->n, NULL };

    if (dg_image_read(&whole, scratch, dg_path_join(a, c->folder, im->file_name), quiet) == 0 &&
        shrink(&whole, scratch, marks, im->n, quiet) == 0 &&
        dg_draw_picture(&tile, scratch, &one, (dg_labels){ names, c->n_classes }, TILE_W / 2,
                        quiet) == 0 &&
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
        dg_str_fmt(out, "%d x %d, %d object%s</span></figcaption></figure>\n", im->w, im->h, im->n,
                   dg_plural(im->n, "s"));
    }
    free(file.p);
    dg_arena_close(&a);
    dg_diag_close(&quiet);
}

/* A few images of every split, evenly spaced. */
static void gallery(dg_str *out, const dg_survey *s, dg_scratch *scratch)
{
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;
        int n = c ? c->n_images < PICTURES ? c->n_images : PICTURES : 0;

        if (!n)
            continue;
        dg_str_add(out, "<details open><summary>");
        text(out, s->splits[i].name);
        dg_str_add(out, "</summary><div class=\"tiles\">\n");
        for (int k = 0; k < n; k++)
            picture(out, s, i, (int)((int64_t)c->n_images * k / n), scratch);
        dg_str_add(out, "</div></details>\n");
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

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
            if (x->at.line > 0 && x->at.column > 0)
                dg_str_fmt(out, ":%d", x->at.column);
            dg_str_add(out, "</code> ");
        }
        text(out, x->text);
        dg_str_add(out, "</li>\n");
    }
    if (s->faults.of[kind].n > s->faults.of[kind].kept.n)
        dg_str_fmt(out, "<li>and %lld more</li>\n",
                   (long long)(s->faults.of[kind].n - s->faults.of[kind].kept.n));
    dg_str_add(out, "</ul>\n");
}

/* Pictures of some images with that fault. */
static void fault_pictures(dg_str *out, const dg_survey *s, int kind, dg_scratch *scratch)
{
    int shown = 0, split = -1, image = -1;

    dg_str_add(out, "<div class=\"tiles\">\n");
    for (int i = 0; i < s->faults.of[kind].kept.n && shown < FAULT_PICTURES; i++) {
        const dg_fault *x = &s->faults.of[kind].kept.items[i];

        if (x->image < 0 || x->split < 0 || (x->image == image && x->split == split))
            continue;
        picture(out, s, split = x->split, image = x->image, scratch);
        shown++;
    }
    dg_str_add(out, "</div>\n");
}

/* scratch NULL: no pictures. */
static void faults(dg_str *out, const dg_survey *s, dg_scratch *scratch)
{
    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        const dg_fault_row *row = dg_fault_row_of((dg_fault_kind)kind);

        if (!s->faults.of[kind].n)
            continue;
        dg_str_fmt(out,
                   "<details%s><summary class=\"%s\"><b>%s: %lld</b> <code>%s</code></summary>\n<p "
                   "class=\"note\">%s</p>\n",
                   s->faults.of[kind].kept.n <= 10 ? " open" : "", row->error ? "error" : "warning",
                   row->title, (long long)s->faults.of[kind].n, row->id, row->help);
        if (scratch)
            fault_pictures(out, s, kind, scratch);
        fault_list(out, s, kind);
        dg_str_add(out, "</details>\n");
    }
}

static void hint(dg_str *out, const char *name, int value, const char *why)
{
    dg_str_fmt(out, "<p><code>%s=\"%d\"</code> ", name, value);
    text(out, why);
    dg_str_add(out, "</p>\n");
}

/* ---- the page -------------------------------------------------------------------------------- */

static void part(dg_str *out, const dg_survey *s, const char *heading, dg_scratch *scratch)
{
    int64_t errors = dg_faults_errors(&s->faults), warnings = dg_faults_warnings(&s->faults);

    dg_str_add(out, "<p>");
    text(out, scratch ? dg_form_title(s->layout.form) : s->form);
    dg_str_fmt(out,
               ", %d class%s, %lld image%s. <span class=\"%s\">%lld error%s, %lld "
               "warning%s.</span>%s</p>\n",
               s->n_classes, dg_plural(s->n_classes, "es"), (long long)s->n_images,
               dg_plural(s->n_images, "s"),
               errors      ? "error"
               : warnings  ? "warning"
               : s->n_read ? "good"
                           : "note",
               (long long)errors, dg_plural(errors, "s"), (long long)warnings,
               dg_plural(warnings, "s"),
               s->n_read ? ""
               : !scratch
                   ? " These are of the annotations and of what was read of the images to train on "
                     "them. Copies, images in two splits and files cut short are found by "
                     "<code>detrgraph data check</code>."
                   : " No image was looked at.");
    splits(out, s);
    if (errors + warnings) {
        dg_str_fmt(out, "<%s>What to look at</%s>\n", heading, heading);
        faults(out, s, scratch);
    }
    dg_str_fmt(out, "<%s>What is in %s</%s>\n", heading,
               s->n_splits > 1 ? "all splits together" : "it", heading);
    if (s->n_classes)
        classes(out, s);
    dg_str_add(out, "<div class=\"bars\">\n");
    for (int i = 0; i < DG_N_HISTS; i++)
        if (s->n_objects || i == DG_HIST_IMAGES)
            bars(out, s->hist[i].title, s->hist[i].label, s->hist[i].count, s->hist[i].n);
    dg_str_fmt(out, "</div>\n<%s>What suits</%s>\n", heading, heading);
    hint(out, "sizes", s->advice.size, s->advice.why_size);
    if (s->n_objects)
        hint(out, "max_objects", s->advice.max_objects, s->advice.why_objects);
}

void dg_survey_html_part(dg_str *out, const dg_survey *s)
{
    dg_str_add(out, "<div class=\"survey\">\n");
    part(out, s, "h3", NULL);
    dg_str_add(out, "</div>\n");
}

int dg_survey_html(dg_str *out, const dg_survey *s, dg_diag *d)
{
    dg_scratch *scratch = dg_scratch_open(0);

    if (!scratch)
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = s->root }, "out-of-memory",
                       "no memory for pictures");
    dg_str_add(out,
               "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
               "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><title>");
    text(out, s->root);
    dg_str_fmt(out, "</title><style>%s%s</style></head><body class=\"survey\">\n<h1>", style,
               dg_survey_style);
    text(out, s->root);
    dg_str_add(out, "</h1>\n");
    part(out, s, "h2", scratch);
    if (s->n_read) {
        dg_str_add(out, "<h2>Pictures</h2>\n");
        gallery(out, s, scratch);
        for (int i = 0; i < s->n_splits && !dg_diag_n(d); i++)
            if (s->splits[i].index)
                dg_draw_check_names(s->splits[i].index->classes, s->splits[i].index->n_classes, d);
    }
    dg_str_add(out, "</body></html>\n");
    dg_scratch_close(&scratch);
    return 0;
}
