/* survey_text.c: a survey as text for people, with bars. */
#include "media/survey.h"

#include <stdio.h>
#include <string.h>

enum { BAR = 30, CLASSES_SHOWN = 40, FAULTS_SHOWN = 5, NAME = 24, SPLIT = 18 };

typedef struct page {
    dg_str *out;
    bool colour;
} page;

static const char *paint(const page *p, const char *escape)
{
    return p->colour ? escape : "";
}

static void heading(const page *p, const char *text)
{
    dg_str_fmt(p->out, "\n%s%s%s\n", paint(p, "\033[1m"), text, paint(p, "\033[0m"));
}

static const char *count_text(int64_t n, char buf[32])
{
    return dg_human_count(n, buf, 32);
}

static void add_padded(dg_str *out, const char *text, int width)
{
    dg_str_add(out, "  ");
    dg_str_plain(out, text);
    dg_str_fmt(out, "%*s", dg_str_padding(text, width), "");
}

static void bar(const page *p, const char *label, int64_t n, int64_t most, const char *more)
{
    char buf[32];
    int full = most > 0 ? (int)(BAR * n / most) : 0;
    dg_str line = { 0 };

    if (full == 0 && n > 0)
        full = 1;
    for (int i = 0; i < full; i++)
        dg_str_add(&line, "#");
    add_padded(p->out, label, NAME);
    dg_str_fmt(p->out, " %9s  %s%s%s", count_text(n, buf), paint(p, "\033[36m"),
               line.s ? line.s : "", paint(p, "\033[0m"));
    dg_str_plain(p->out, more);
    dg_str_add(p->out, "\n");
    dg_str_free(&line);
}

static void print_splits(const page *p, const dg_survey *s)
{
    char a[32], b[32], c[32];

    dg_str_fmt(p->out, "\n  %-18s %9s %9s %9s %9s\n", "split", "images", "objects", "empty",
               "crowd");
    for (int i = 0; i < s->n_splits; i++) {
        const dg_survey_split *x = &s->splits[i];

        if (!x->readable) {
            add_padded(p->out, x->name, SPLIT);
            dg_str_add(p->out, " cannot be read\n");
            continue;
        }
        add_padded(p->out, x->name, SPLIT);
        dg_str_fmt(p->out, " %9s %9s %9lld %9lld\n", count_text(x->n_images, a),
                   count_text(x->n_objects, b), (long long)x->n_empty, (long long)x->n_crowd);
    }
    if (s->n_splits > 1)
        dg_str_fmt(p->out, "  %-18s %9s %9s %9s %9lld\n", "together", count_text(s->n_images, a),
                   count_text(s->n_objects, b), count_text(s->n_empty, c), (long long)s->n_crowd);
    if (s->n_truncated)
        dg_str_fmt(p->out, "  objects marked as truncated: %s\n", count_text(s->n_truncated, a));
    for (int i = 0; i < s->layout.others.n; i++) {
        dg_str_add(p->out, i ? ", " : "  not looked at, other labels: ");
        dg_str_plain(p->out, s->layout.others.items[i]);
    }
    if (s->layout.others.n)
        dg_str_add(p->out, "\n");
}

static void print_classes(const page *p, const dg_survey *s)
{
    int64_t most = 0;

    for (int k = 0; k < s->n_classes; k++)
        most = s->per_class[k] > most ? s->per_class[k] : most;
    heading(p, "classes");
    for (int k = 0; k < s->n_classes && k < CLASSES_SHOWN; k++) {
        dg_str more = { 0 };

        for (int i = 0; i < s->n_splits && s->n_splits > 1; i++)
            dg_str_fmt(&more, "%s%s %lld", i ? ", " : "  ", s->splits[i].name,
                       (long long)s->splits[i].per_class[k]);
        bar(p, s->classes[k], s->per_class[k], most, more.s ? more.s : "");
        dg_str_free(&more);
    }
    if (s->n_classes > CLASSES_SHOWN)
        dg_str_fmt(p->out, "  and %d more (--format json has all)\n", s->n_classes - CLASSES_SHOWN);
    if (dg_survey_imbalance(s) >= 10)
        dg_str_fmt(p->out, "  the largest class has %.0f times the objects of the smallest\n",
                   dg_survey_imbalance(s));
}

static void print_histogram(const page *p, const dg_histogram *h)
{
    int64_t most = 0;
    int first = h->n, last = -1;

    for (int i = 0; i < h->n; i++)
        if (h->count[i]) {
            most = h->count[i] > most ? h->count[i] : most;
            first = i < first ? i : first;
            last = i;
        }
    if (last < 0)
        return;
    heading(p, h->title);
    for (int i = first; i <= last; i++)
        bar(p, h->label[i], h->count[i], most, "");
}

static void print_place(dg_str *out, const dg_survey *s, const dg_fault *x)
{
    if (x->split >= 0 && s->n_splits > 1) {
        dg_str_plain(out, s->splits[x->split].name);
        dg_str_add(out, ": ");
    }
    if (x->at.file)
        dg_str_plain(out, x->at.file);
    if (x->at.line > 0)
        dg_str_fmt(out, ":%d", x->at.line);
    if (x->at.line > 0 && x->at.column > 0)
        dg_str_fmt(out, ":%d", x->at.column);
    if (x->at.file)
        dg_str_add(out, ": ");
    dg_str_plain(out, x->text);
}

static void print_faults(const page *p, const dg_survey *s)
{
    char buf[32];

    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        const dg_fault_row *row = dg_fault_row_of((dg_fault_kind)kind);
        int64_t n = s->faults.of[kind].n;
        int shown =
            s->faults.of[kind].kept.n < FAULTS_SHOWN ? s->faults.of[kind].kept.n : FAULTS_SHOWN;

        if (!n)
            continue;
        dg_str_fmt(p->out, "\n%s%s[%s]%s %s: %s\n",
                   paint(p, row->error ? "\033[1;31m" : "\033[1;33m"),
                   row->error ? "error" : "warning", row->id, paint(p, "\033[0m"), row->title,
                   count_text(n, buf));
        for (int i = 0; i < shown; i++) {
            dg_str_add(p->out, "    ");
            print_place(p->out, s, &s->faults.of[kind].kept.items[i]);
            dg_str_add(p->out, "\n");
        }
        if (n > shown)
            dg_str_fmt(p->out, "    and %s more\n", count_text(n - shown, buf));
        dg_str_fmt(p->out, "  help: %s\n", row->help);
    }
}

static void print_hint(const page *p, const char *name, int value, const char *why)
{
    enum { INDENT = 24, ROOM = 56 };
    char setting[INDENT];
    dg_str plain = { 0 };

    snprintf(setting, sizeof setting, "%s=\"%d\"", name, value);
    dg_str_plain(&plain, why);
    dg_str_fmt(p->out, "  %-*s", INDENT - 2, setting);
    dg_str_wrap(p->out, plain.s ? plain.s : "", INDENT, ROOM);
    dg_str_add(p->out, "\n");
    dg_str_free(&plain);
}

static void print_advice(const page *p, const dg_survey *s)
{
    heading(p, "what suits");
    print_hint(p, "sizes", s->advice.size, s->advice.why_size);
    if (s->n_objects)
        print_hint(p, "max_objects", s->advice.max_objects, s->advice.why_objects);
}

static void print_result(const page *p, const dg_survey *s)
{
    int64_t errors = dg_faults_errors(&s->faults), warnings = dg_faults_warnings(&s->faults);
    char a[32], b[32], size[32];

    dg_str_add(p->out, "\n");
    if (s->n_read)
        dg_str_fmt(p->out, "%s image%s looked at (%s, %s)\n", count_text(s->n_read, a),
                   dg_plural(s->n_read, "s"), dg_human_bytes((double)s->n_bytes, size, sizeof size),
                   s->decoded ? "decoded" : "headers and ends; --images decode reads them whole");
    else if (s->n_images)
        dg_str_add(p->out, "no image was looked at\n");
    dg_str_fmt(p->out, "%s%s error%s, %s warning%s%s\n",
               paint(p, errors     ? "\033[1;31m"
                        : warnings ? "\033[1;33m"
                                   : "\033[1;32m"),
               errors ? count_text(errors, a) : "no", dg_plural(errors, "s"),
               warnings ? count_text(warnings, b) : "no", dg_plural(warnings, "s"),
               paint(p, "\033[0m"));
}

void dg_survey_text(dg_str *out, const dg_survey *s, bool colour)
{
    const page p = { out, colour };

    dg_str_plain(out, s->layout.root);
    dg_str_fmt(out, ": %s, %d class%s\n", dg_form_title(s->layout.form), s->n_classes,
               dg_plural(s->n_classes, "es"));
    print_splits(&p, s);
    if (s->n_classes)
        print_classes(&p, s);
    for (int i = 0; i < DG_N_HISTS; i++)
        if (s->n_objects || i == DG_HIST_IMAGES)
            print_histogram(&p, &s->hist[i]);
    print_faults(&p, s);
    print_advice(&p, s);
    print_result(&p, s);
}
