/* cmd_data.c: `detrgraph data check`: contents and faults of a data set; `detrgraph data convert`:
 * writes it in another form. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/pool.h"
#include "cli/cli.h"
#include "cli/init_refuse.h"
#include "media/convert.h"
#include "media/survey.h"

typedef struct opts {
    const char *format, *out, *split, *to, *images;
    int64_t threads;
    double hold_out;
} opts;

static const dg_option options[] = {
    { "split", DG_OPTION_STR, offsetof(opts, split), "NAME,...", NULL,
      "use these splits only (default: those that belong together)" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json|html",
      "check: output format (text)" },
    { "out", DG_OPTION_STR, offsetof(opts, out), "FILE", NULL,
      "check: write the report to FILE; .html or .json chooses the format" },
    { "images", DG_OPTION_WORD, offsetof(opts, images), NULL, "skip|look|decode|link|copy",
      "check: skip, look at headers and ends (look), or decode; convert: link or copy (link)" },
    { "to", DG_OPTION_WORD, offsetof(opts, to), NULL, "coco|voc|yolo", "convert: target format" },
    { "hold-out", DG_OPTION_NUM, offsetof(opts, hold_out), "SHARE", NULL,
      "convert: of data without splits, make this share the split val, like 0.2" },
    { "threads", DG_OPTION_INT, offsetof(opts, threads), "N", NULL,
      "check: threads that read files (all cores)" },
    { 0 },
};

enum { CHECK, CONVERT };

static const dg_action actions[] = {
    [CHECK] = { "check", "PATH", "", "split format out threads images=skip|look|decode" },
    [CONVERT] = { "convert", "FROM TO", "to", "split images=link|copy hold-out" },
    { 0 },
};

/* ---- progress -------------------------------------------------------------------------------- */

typedef struct progress {
    bool terminal, shown;
    const char *what;
    double begin_s, last_s;
} progress;

static void clear_progress(progress *p)
{
    if (p->shown)
        dg_line_clear(STDERR_FILENO);
    p->shown = false;
}

static void show_progress(void *ctx, const char *what, int64_t done, int64_t all)
{
    progress *p = ctx;
    double now = dg_monotonic_s();
    char a[32], b[32], left[48];

    if (!p->terminal)
        return;
    if (p->what != what) {
        p->what = what;
        p->begin_s = now;
    } else if (now - p->last_s < 0.1) {
        return;
    }
    p->last_s = now;
    dg_line_clear(STDERR_FILENO);
    dg_say_error("%s: %s of %s", what, dg_human_count(done, a, sizeof a),
                 dg_human_count(all, b, sizeof b));
    if (done > 0 && done < all)
        dg_say_error(", %s left",
                     dg_human_time((now - p->begin_s) * (double)(all - done) / (double)done, left,
                                   sizeof left));
    fflush(stderr);
    p->shown = true;
}

/* ---- check ----------------------------------------------------------------------------------- */

static const char *format_of(const opts *o)
{
    return o->format                                 ? o->format
           : o->out && dg_path_ends(o->out, ".html") ? "html"
           : o->out && dg_path_ends(o->out, ".json") ? "json"
                                                     : "text";
}

static int print_survey(const opts *o, const dg_survey *s, dg_diag *d)
{
    const char *format = format_of(o);
    dg_str text = { 0 };
    int rc = 0;

    if (strcmp(format, "html") == 0)
        rc = dg_survey_html(&text, s, d);
    else if (strcmp(format, "json") == 0)
        dg_survey_json(&text, s);
    else
        dg_survey_text(&text, s, !o->out && dg_colour(STDOUT_FILENO));
    if (rc == 0 && o->out)
        rc = dg_file_write(o->out, text.s, text.n, d);
    else if (rc == 0)
        dg_say_painted(STDOUT_FILENO, text.s);
    dg_str_free(&text);
    if (rc == 0 && o->out) {
        const int64_t errors = dg_faults_errors(&s->faults),
                      warnings = dg_faults_warnings(&s->faults);
        char a[32], b[32];

        dg_say("%s: %s error%s, %s warning%s\n", o->out, dg_human_count(errors, a, sizeof a),
               dg_plural(errors, "s"), dg_human_count(warnings, b, sizeof b),
               dg_plural(warnings, "s"));
    }
    return rc;
}

static int check_data(const opts *o, const dg_words *words, dg_arena *a)
{
    progress p = { .terminal = dg_rewrites(STDERR_FILENO) };
    const char *images = o->images ? o->images : "look";
    dg_survey_options how = {
        .splits = o->split,
        .no_images = strcmp(images, "skip") == 0,
        .decode = strcmp(images, "decode") == 0,
        .threads = o->threads ? (int)o->threads : dg_threads_available(),
        .progress = show_progress,
        .ctx = &p,
    };
    dg_survey *s = NULL;
    dg_diag *d;
    int rc;

    d = dg_diag_open();
    rc = dg_survey_open(&s, words->v[1], &how, d);
    clear_progress(&p);
    if (rc == 0)
        rc = print_survey(o, s, d);
    if (rc == 0 && s->layout.form == DG_FORM_PLAIN)
        dg_warn_plain(s, d);
    dg_print_diag(d, NULL);
    if (rc == 0 && s->layout.form != DG_FORM_PLAIN)
        dg_next("init --data %s", dg_shell(a, words->v[1]));
    if (rc == 0 && dg_faults_errors(&s->faults))
        rc = -DG_EINPUT;
    dg_survey_close(&s);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

/* ---- convert --------------------------------------------------------------------------------- */

static void lost(int64_t n, const char *what)
{
    char buf[32];

    if (n)
        dg_say("  left out, %s: %s\n", what, dg_human_count(n, buf, sizeof buf));
}

static void print_converted(const dg_converted *c, const char *to, const dg_convert_options *how)
{
    char a[32], b[32];

    dg_say("%s: %s, %d split%s, %s image%s (%s), %s object%s, from %s\n", to, dg_form_name(how->to),
           c->n_splits, dg_plural(c->n_splits, "s"), dg_human_count(c->n_images, a, sizeof a),
           dg_plural(c->n_images, "s"), how->copy ? "copied" : "links to the old ones",
           dg_human_count(c->n_objects, b, sizeof b), dg_plural(c->n_objects, "s"),
           dg_form_name(c->from));
    lost(c->n_crowd, "crowd regions or difficult objects");
    lost(c->n_dropped, "boxes without width or height, or outside their image");
    lost(c->n_truncated, "marks of truncated objects");
    lost(c->n_areas, "areas of masks (those of the boxes take their place)");
    if (c->n_cut)
        dg_say("  boxes cut to their image: %s\n", dg_human_count(c->n_cut, a, sizeof a));
    if (c->n_renamed)
        dg_say("  images renamed, for others had their names, or the form cannot hold them: %s\n",
               dg_human_count(c->n_renamed, a, sizeof a));
}

static int convert(const opts *o, const dg_words *words, dg_arena *a)
{
    progress p = { .terminal = dg_rewrites(STDERR_FILENO) };
    dg_convert_options how = { .splits = o->split,
                               .copy = o->images && strcmp(o->images, "copy") == 0,
                               .hold_out = o->hold_out,
                               .progress = show_progress,
                               .ctx = &p };
    dg_converted c;
    dg_diag *d;
    int rc;

    how.to = strcmp(o->to, "coco") == 0  ? DG_FORM_COCO
             : strcmp(o->to, "voc") == 0 ? DG_FORM_VOC
                                         : DG_FORM_YOLO;
    if (o->hold_out < 0 || o->hold_out > 0.9) {
        dg_say_error("detrgraph data: --hold-out %g: a share of the images up to 0.9 is expected\n",
                     o->hold_out);
        return DG_EXIT_USAGE;
    }
    d = dg_diag_open();
    rc = dg_convert(&c, words->v[1], words->v[2], &how, d);
    clear_progress(&p);
    if (rc == 0) {
        print_converted(&c, words->v[2], &how);
        if (how.to == DG_FORM_YOLO && !c.has_val)
            dg_say("  data.yaml has no val, which most programs want: --hold-out 0.2 makes one\n");
        dg_next("data check %s", dg_shell(a, words->v[2]));
    } else if (dg_diag_at(d, 0)->code == DG_EINPUT && !dg_exists(words->v[2])) {
        dg_help(d, "detrgraph data check %s names all that is wrong with it",
                dg_shell(a, words->v[1]));
    }
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_data(const void *given, const dg_words *words, dg_arena *a)
{
    return dg_action_find(actions, words->v[0]) == CHECK ? check_data(given, words, a)
                                                         : convert(given, words, a);
}

static const dg_example examples[] = {
    { "data check DIR", "Print contents and faults." },
    { "data check DIR --out page.html", "Write a page with pictures, faulty ones first." },
    { "data convert DIR new --to yolo --images copy",
      "Convert to YOLO, with copies of the images." },
    { "data convert DIR new --to yolo --hold-out 0.2",
      "Of data without splits, make a fifth the split val." },
    { 0 },
};

const dg_verb dg_verb_data = {
    .name = "data",
    .args = "check|convert PATH [TO] [OPTIONS]",
    .brief = "Check a data set, or convert it to another format.",
    .doc = "PATH is a folder in " DG_FORM_TITLES " format, a folder of images, or an "
           "annotation file.\n\n"
           "  check     reports images, classes, sizes, and faults: boxes outside the image or "
           "duplicated,\n"
           "            images missing, broken, duplicated or in two splits; exits with 1 if there "
           "are errors\n"
           "  convert   writes the folder TO completely or not at all",
    .examples = examples,
    .options = options,
    .actions = actions,
    .size = sizeof(opts),
    .least = 1,
    .most = 3,
    .run = verb_data,
};
