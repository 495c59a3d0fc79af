/* help.c: prints the tables as help pages for the terminal and as man pages. */
#include <string.h>

#include "cli/cli.h"
#include "config.h"

static const char *const about =
    "A pipeline is an XML file that describes a training run as a graph of nodes: loader, sampler, "
    "augmentation, model, loss, optimizer, evaluation, checkpoints. detrgraph checks it as a "
    "whole, proves that its ranks cannot diverge, compiles it to a plan of tensor instructions, "
    "and runs the plan.\n\n"
    "`--set NAME=VALUE` overrides a value that the pipeline declares with `<let>`. Pipelines that "
    "need data take its folder this way: `--set data=DIR`.";

typedef struct row {
    const char *name, *doc; /* name NULL terminates a list */
} row;

static const row statuses[] = {
    { "0", "done" },
    { "1", "failure of the pipeline, the data or the machine; standard error says what and where" },
    { "2", "usage error: wrong option or argument" },
    { "130", "interrupted by a signal or by `detrgraph ctl RUN stop`, after saving" },
    { 0 },
};

static const row variables[] = {
    { "NO_COLOR", "if not empty, disables colour. Otherwise colour is used on terminals only." },
    { "SLURM_STEP_NODELIST, SLURM_STEP_NUM_NODES, SLURM_NODEID, SLURM_JOB_ID",
      "set by srun, read by `run --nodes slurm`" },
    { "MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, LOCAL_WORLD_SIZE",
      "set by a Kubernetes PyTorchJob, read by `run --nodes pytorchjob`" },
    { "MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, LOCAL_WORLD_SIZE, LOCAL_RANK, GROUP_RANK, "
      "TORCHELASTIC_RUN_ID",
      "set by torchrun, read by `run --nodes torchrun`" },
    { "CUDA_VISIBLE_DEVICES", "the GPUs that `--device cuda` and `--ranks auto` see" },
    { 0 },
};

static const row files[] = {
    { DG_PKGDATADIR "/pipelines", "example pipelines: quickstart.xml, which needs no data, and "
                                  "presets for data in COCO format" },
    { DG_PKGDATADIR "/detrgraph.rng",
      "RELAX NG schema of the language, for editors and validators" },
    { 0 },
};

static const dg_example first_steps[] = {
    { "run quickstart.xml",
      "train a small detector on generated scenes; the file is in pipelines/ or " DG_PKGDATADIR
      "/pipelines" },
    { "data check DIR", "list contents and faults of your data set" },
    { "init --data DIR --out mine.xml", "write a pipeline for it" },
    { "validate mine.xml", "find mistakes before spending hours of computing" },
    { "run mine.xml", "train into runs/mine; --resume continues after a stop" },
    { "predict runs/mine IMAGE...", "detect objects in other images" },
    { 0 },
};

static bool takes_value(const dg_option *o)
{
    return o->kind != DG_OPTION_FLAG && o->kind != DG_OPTION_MAYBE;
}

/* The placeholder of an option's value; "" for a flag. */
static const char *value_of(const dg_option *o)
{
    return o->kind == DG_OPTION_FLAG ? "" : o->kind == DG_OPTION_WORD ? o->words : o->value;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

/* Appends text without backquotes, which mark bold text in man pages. */
static void add_plain(dg_str *out, const char *text)
{
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "`");
        dg_str_add_n(out, text, (size_t)(end - text));
    }
}

enum { COLUMNS = 80 };

/* Appends "  left    right"; right begins on the next line if left is long. */
static void add_row(dg_str *out, int width, const char *left, const char *right)
{
    dg_str plain = { 0 };

    if ((int)strlen(left) > width)
        dg_str_fmt(out, "  %s\n  %-*s  ", left, width, "");
    else
        dg_str_fmt(out, "  %-*s  ", width, left);
    add_plain(&plain, right);
    dg_str_wrap(out, plain.s ? plain.s : "", width + 4, COLUMNS - width - 4);
    dg_str_free(&plain);
    dg_str_add(out, "\n");
}

/* Appends paragraphs, as described in cli.h: their lines are joined and wrapped anew; those that
 * begin with blanks stay as they are. */
static void add_doc(dg_str *out, const char *doc, int indent)
{
    dg_str plain = { 0 }, paragraph = { 0 };

    add_plain(&plain, doc);
    for (const char *line = plain.s ? plain.s : ""; *line;) {
        const size_t n = strcspn(line, "\n");
        const char *next = line + n + (line[n] == '\n');

        dg_str_add(&paragraph, paragraph.n ? " " : "");
        dg_str_add_n(&paragraph, line, n);
        if (*line == ' ' || *next == ' ' || *next == '\n' || *next == '\0' || n == 0) {
            if (*line == ' ')
                dg_str_add_n(out, line, n);
            else
                dg_str_wrap(out, paragraph.s, indent, COLUMNS - indent);
            dg_str_add(out, "\n");
            dg_str_free(&paragraph);
        }
        line = next;
    }
    dg_str_free(&paragraph);
    dg_str_free(&plain);
}

static void add_program(dg_str *out)
{
    dg_str_add(out, "detrgraph trains DETR-family object detectors from XML pipelines.\n\nusage: "
                    "detrgraph VERB ...\n");
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++) {
        dg_str_fmt(out, "\n%s:\n", g->title);
        for (const dg_verb *const *v = g->verbs; *v; v++)
            add_row(out, 10, (*v)->name, (*v)->brief);
    }
    dg_str_add(out, "\nFirst steps (type detrgraph before each):\n");
    for (const dg_example *e = first_steps; e->command; e++)
        add_row(out, 31, e->command, e->what);
    dg_str_add(out, "\n"
                    "  detrgraph VERB --help   options of a verb\n"
                    "  detrgraph --version     version\n\n"
                    "Exit status: 0 done, 1 failed, 2 usage error, 130 interrupted.\n");
}

void dg_help_text(dg_str *out, const dg_verb *v)
{
    if (!v) {
        add_program(out);
        return;
    }
    dg_str_fmt(out, "usage: detrgraph %s %s\n\n%s\n", v->name, v->args, v->brief);
    if (v->doc) {
        dg_str_add(out, "\n");
        add_doc(out, v->doc, 0);
    }
    if (v->options && v->options->name)
        dg_str_add(out, "\n");
    for (const dg_option *o = v->options; o && o->name; o++) {
        dg_str left = { 0 };

        dg_str_fmt(&left, "--%s%s%s", o->name, takes_value(o) ? " " : "", value_of(o));
        add_row(out, 22, left.s, o->doc);
        dg_str_free(&left);
    }
    for (const dg_example *e = v->examples; e && e->command; e++) {
        dg_str_fmt(out, "%s  detrgraph %s\n      ", e == v->examples ? "\nExamples:\n" : "",
                   e->command);
        add_doc(out, e->what, 6);
    }
}

/* ---- man pages ------------------------------------------------------------------------------- */

/* Appends one character. The first of a line must not look like a roff request, and a line may end
 * after a slash: a long path fits no line. */
static void add_roff(dg_str *out, char c, bool begin)
{
    if (begin && (c == '.' || c == '\''))
        dg_str_add(out, "\\&");
    if (c == '\\')
        dg_str_add(out, "\\e");
    else if (c == '-')
        dg_str_add(out, "\\-");
    else if (c == '/')
        dg_str_add(out, "/\\:");
    else
        dg_str_add_n(out, &c, 1);
}

static void add_line(dg_str *out, const char *text, size_t n, bool *bold)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] != '`') {
            add_roff(out, text[i], i == 0);
            continue;
        }
        *bold = !*bold;
        dg_str_add(out, *bold ? "\\fB" : "\\fR");
    }
    dg_str_add(out, "\n");
}

/* Appends paragraphs, as described in cli.h. */
static void add_text(dg_str *out, const char *text)
{
    bool bold = false, verbatim = false;

    for (const char *p = text; *p;) {
        size_t n = strcspn(p, "\n");
        bool as_it_is = strncmp(p, "  ", 2) == 0;

        if (as_it_is != verbatim)
            dg_str_add(out, as_it_is ? ".nf\n" : ".fi\n");
        verbatim = as_it_is;
        if (n)
            add_line(out, p, n, &bold);
        else
            dg_str_add(out, ".PP\n");
        p += n + (p[n] == '\n');
    }
    if (verbatim)
        dg_str_add(out, ".fi\n");
}

static void add_rows(dg_str *out, const char *title, const row *rows)
{
    dg_str_fmt(out, ".SH %s\n", title);
    for (const row *r = rows; r->name; r++) {
        dg_str_add(out, ".TP\n");
        add_text(out, r->name);
        add_text(out, r->doc);
    }
}

static void add_options(dg_str *out, const dg_option *options)
{
    bool bold = false;

    if (!options || !options->name)
        return;
    dg_str_add(out, ".SH OPTIONS\n");
    for (const dg_option *o = options; o->name; o++) {
        dg_str_add(out, ".TP\n\\fB\\-\\-");
        for (const char *c = o->name; *c; c++)
            add_roff(out, *c, false);
        dg_str_fmt(out, "\\fR%s", takes_value(o) ? " \\fI" : "\\fI");
        add_line(out, value_of(o), strlen(value_of(o)), &bold);
        out->n--; /* continue the line */
        dg_str_add(out, "\\fR\n");
        add_text(out, o->doc);
    }
}

static void add_examples(dg_str *out, const dg_example *examples)
{
    bool bold = false;

    if (!examples)
        return;
    dg_str_add(out, ".SH EXAMPLES\n");
    for (const dg_example *e = examples; e->command; e++) {
        dg_str_add(out, ".TP\n\\fBdetrgraph ");
        add_line(out, e->command, strlen(e->command), &bold);
        out->n--; /* continue the line */
        dg_str_add(out, "\\fR\n");
        add_text(out, e->what);
    }
}

static void add_name(dg_str *out, const dg_verb *v)
{
    const char *s = v ? v->brief : "train DETR-family object detectors from XML pipelines";

    dg_str_add(out, ".TH DETRGRAPH");
    for (const char *c = v ? v->name : ""; *c; c++)
        dg_str_fmt(out, "%s%c", c == v->name ? "\\-" : "",
                   *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    dg_str_fmt(out, " 1 \"\" \"detrgraph %s\" \"User Commands\"\n.ad l\n.SH NAME\n",
               PACKAGE_VERSION);
    dg_str_fmt(out, "detrgraph%s%s \\- ", v ? "\\-" : "", v ? v->name : "");
    add_text(out, s);
    if (out->s[out->n - 2] == '.') /* a sentence in the table, a phrase here */
        out->s[--out->n - 1] = '\n';
}

static void add_verbs(dg_str *out)
{
    for (const dg_verb_group *g = dg_verb_groups; g->title; g++) {
        dg_str_fmt(out, ".SS %s\n", g->title);
        for (const dg_verb *const *v = g->verbs; *v; v++) {
            dg_str_fmt(out, ".TP\n.BR detrgraph\\-%s (1)\n", (*v)->name);
            add_text(out, (*v)->brief);
        }
    }
}

void dg_help_man(dg_str *out, const dg_verb *v)
{
    bool bold = false;

    add_name(out, v);
    dg_str_fmt(out, ".SH SYNOPSIS\n.B detrgraph %s\n", v ? v->name : "");
    add_line(out, v ? v->args : "VERB [OPTIONS]", strlen(v ? v->args : "VERB [OPTIONS]"), &bold);
    dg_str_add(out,
               v ? "" : ".br\n.B detrgraph\nVERB \\-\\-help\n.br\n.B detrgraph \\-\\-version\n");
    dg_str_add(out, ".SH DESCRIPTION\n");
    add_text(out, v ? v->brief : about);
    if (v && v->doc) {
        dg_str_add(out, ".PP\n");
        add_text(out, v->doc);
    }
    if (v && v->manual) {
        dg_str_add(out, ".PP\n");
        add_text(out, v->manual);
    }
    if (!v) {
        dg_str_add(out, ".SH VERBS\n");
        add_verbs(out);
    }
    add_options(out, v ? v->options : NULL);
    add_examples(out, v ? v->examples : first_steps);
    add_rows(out, "EXIT STATUS", statuses);
    if (!v) {
        add_rows(out, "ENVIRONMENT", variables);
        add_rows(out, "FILES", files);
    }
    dg_str_add(out, ".SH SEE ALSO\n");
    dg_str_add(out, v ? ".BR detrgraph (1)\n" : ".BR xmllint (1)\n");
}
