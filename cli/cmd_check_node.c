/* cmd_check_node.c: `detrgraph check-node`: tests the classes of a plugin against their
 * declarations; prints TAP. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "check/check.h"
#include "cli/cli.h"
#include "cli/launch.h"

typedef struct opts {
    const char *seed, *format;
    int64_t draws;
    dg_words sets, dims, inputs;
} opts;

static const dg_option options[] = {
    { "seed", DG_OPTION_STR, offsetof(opts, seed), "N", NULL,
      "seed of the first draw (1); a failure prints the seed that repeats it" },
    { "draws", DG_OPTION_INT, offsetof(opts, draws), "N", NULL,
      "draws of attributes, dimensions and numbers per test (12)" },
    { "set", DG_OPTION_LIST, offsetof(opts, sets), "ATTRIBUTE=VALUE", NULL,
      "fix an attribute instead of drawing it; may be repeated" },
    { "dim", DG_OPTION_LIST, offsetof(opts, dims), "LETTER=N", NULL,
      "fix a dimension instead of drawing it; may be repeated" },
    { "input", DG_OPTION_LIST, offsetof(opts, inputs), "PORT=LO:HI", NULL,
      "draw the numbers of an input from this range (-1:1); may be repeated" },
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "tap|json", "output format (tap)" },
    { 0 },
};

typedef struct reporter {
    const char *library;
    const opts *o;
    bool json;
    int n, failed, skipped;
    int pipe; /* in a class's process: for its reports */
    dg_str out;
} reporter;

/* ---- results --------------------------------------------------------------------------------- */

static void add_list(dg_str *s, const char *option, const dg_words *list)
{
    for (int i = 0; i < list->n; i++) {
        dg_str_fmt(s, " --%s ", option);
        dg_str_shell(s, list->v[i]);
    }
}

static void add_repeat(dg_str *s, const reporter *r, const dg_finding *f)
{
    dg_str_add(s, "detrgraph check-node ");
    dg_str_shell(s, r->library);
    dg_str_fmt(s, " %s --seed %llu --draws 1", f->class, (unsigned long long)f->seed);
    add_list(s, "set", &r->o->sets);
    add_list(s, "dim", &r->o->dims);
    add_list(s, "input", &r->o->inputs);
}

static void print_tap(reporter *r, const dg_finding *f)
{
    dg_str *s = &r->out;

    if (f->verdict == DG_VERDICT_OK)
        dg_str_fmt(s, "ok %d - %s: %s (%s)\n", r->n, f->class, f->test, f->text);
    else if (f->verdict == DG_VERDICT_SKIPPED)
        dg_str_fmt(s, "ok %d - %s: %s # SKIP %s\n", r->n, f->class, f->test, f->text);
    if (f->verdict != DG_VERDICT_FAILED)
        return;
    dg_str_fmt(s, "not ok %d - %s: %s\n#   %s\n", r->n, f->class, f->test, f->text);
    if (f->element)
        dg_str_fmt(s, "#   in %s%s%s\n", f->element, f->dims ? " with " : "",
                   f->dims ? f->dims : "");
    if (f->help)
        dg_str_fmt(s, "#   help: %s\n", f->help);
    if (f->element) {
        dg_str_add(s, "#   repeat: ");
        add_repeat(s, r, f);
        dg_str_add(s, "\n");
    }
}

static void add_field(dg_str *s, const char *name, const char *text)
{
    dg_str_fmt(s, ",\"%s\":", name);
    dg_str_json(s, text);
}

static void print_json(reporter *r, const dg_finding *f)
{
    static const char *const verdicts[] = { "ok", "failed", "skipped" };
    dg_str *s = &r->out, repeat = { 0 };

    add_repeat(&repeat, r, f);
    dg_str_fmt(s, "%s{\"class\":", r->n > 1 ? ",\n " : "");
    dg_str_json(s, f->class);
    add_field(s, "test", f->test);
    add_field(s, "verdict", verdicts[f->verdict]);
    add_field(s, "text", f->text);
    if (f->verdict == DG_VERDICT_FAILED) {
        add_field(s, "port", f->port);
        add_field(s, "element", f->element);
        add_field(s, "dims", f->dims);
        add_field(s, "help", f->help);
        dg_str_fmt(s, ",\"seed\":%llu", (unsigned long long)f->seed);
        add_field(s, "repeat", f->element ? repeat.s : NULL);
    }
    dg_str_add(s, "}");
    dg_str_free(&repeat);
}

static void count(reporter *r, dg_verdict verdict)
{
    r->n++;
    r->failed += verdict == DG_VERDICT_FAILED;
    r->skipped += verdict == DG_VERDICT_SKIPPED;
}

static void print_finding(reporter *r, const dg_finding *f)
{
    count(r, f->verdict);
    (r->json ? print_json : print_tap)(r, f);
    dg_say("%s", r->out.s);
    fflush(stdout);
    dg_str_free(&r->out);
}

/* ---- separate processes ---------------------------------------------------------------------- */

/* Each class is tested in a separate process, so that a crash affects no other class. It reports
 * what it tries, and the results. */
typedef struct told {
    bool done, over; /* done: this test is finished; over: all are */
    dg_verdict verdict;
    uint64_t seed;
    char test[128], element[512];
} told;

static void tell(const reporter *r, const told *t)
{
    if (write(r->pipe, t, sizeof *t) != sizeof *t)
        _exit(DG_EXIT_FAILED); /* the parent is gone */
}

static void trying(void *ctx, const dg_finding *f)
{
    told t = { .seed = f->seed };

    snprintf(t.test, sizeof t.test, "%s", f->test);
    snprintf(t.element, sizeof t.element, "%s", f->element ? f->element : "");
    tell(ctx, &t);
}

static void found(void *ctx, const dg_finding *f)
{
    print_finding(ctx, f);
    tell(ctx, &(told){ .done = true, .verdict = f->verdict });
}

/* Reports a crash, or an exit with status 0 before the last test: the rest counts as failed. */
static void print_crash(reporter *r, const char *class, const told *last, int status, dg_arena *a)
{
    const char *how =
        WIFSIGNALED(status)
            ? dg_printf(a, "it crashes the program: %s", strsignal(WTERMSIG(status)))
            : dg_printf(a, "it ends the program, with status %d", WEXITSTATUS(status));
    dg_finding f = {
        .class = class,
        .test = *last->test ? last->test : "its process ends well",
        .verdict = DG_VERDICT_FAILED,
        .text = how,
        .element = *last->element ? last->element : NULL,
        .seed = last->seed,
        .help = "a debugger shows where, and so does a plugin built with -g -fsanitize=address"
    };

    print_finding(r, &f);
}

static int check_class(const dg_check_node *how, reporter *r, const dg_node_class *class,
                       dg_registry *registry, dg_arena *a)
{
    dg_check_node told_of = *how;
    told now, last = { 0 };
    int ends[2], status = 0;
    pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;

    if (child < 0) {
        dg_say_error("detrgraph check-node: no process for <%s>: %s\n", class->name,
                     strerror(errno));
        return DG_EXIT_FAILED;
    }
    if (child == 0) {
        close(ends[0]);
        r->pipe = ends[1];
        told_of.trying = trying;
        told_of.ctx = r;
        (void)dg_check_node_class(class, registry, &told_of, found, r);
        tell(r, &(told){ .over = true });
        exit(DG_EXIT_OK);
    }
    close(ends[1]);
    /* shorter than PIPE_BUF, so it arrives whole */
    while (read(ends[0], &now, sizeof now) == sizeof now) {
        last = now;
        if (now.done)
            count(r, now.verdict);
    }
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (status || !last.over)
        print_crash(r, class->name, &last, status, a);
    return DG_EXIT_OK;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(const char *option, const char *value, const char *expected)
{
    dg_say_error("detrgraph check-node: --%s %s: %s is expected\n", option, value, expected);
    return DG_EXIT_USAGE;
}

/* Parses "NAME=LO:HI", or "NAME=N". */
static bool read_range(const char *text, bool single, dg_number_range *out, dg_arena *a)
{
    const char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;

    if (!equals || equals == text || (colon != NULL) == single)
        return false;
    out->name = dg_strndup(a, text, (size_t)(equals - text));
    if (single)
        return dg_parse_f64(equals + 1, &out->lo) && out->lo >= 1 && out->lo <= 4096 &&
               out->lo == (double)(int)out->lo;
    return dg_parse_f64(dg_strndup(a, equals + 1, (size_t)(colon - equals - 1)), &out->lo) &&
           dg_parse_f64(colon + 1, &out->hi) && out->lo <= out->hi;
}

static int read_options(dg_check_node *how, const opts *o, dg_arena *a)
{
    dg_number_range *dims = DG_NEW_N(a, o->dims.n + 1, dg_number_range),
                    *ranges = DG_NEW_N(a, o->inputs.n + 1, dg_number_range);
    int64_t seed = 1;

    if (o->seed && (!dg_parse_i64(o->seed, &seed) || seed < 0))
        return usage("seed", o->seed, "a whole number from 0 on");
    for (int i = 0; i < o->dims.n; i++)
        if (!read_range(o->dims.v[i], true, &dims[i], a))
            return usage("dim", o->dims.v[i],
                         "a letter of the ports with a size from 1 to 4096, like D=8,");
    for (int i = 0; i < o->inputs.n; i++)
        if (!read_range(o->inputs.v[i], false, &ranges[i], a))
            return usage("input", o->inputs.v[i], "an input with a range, like boxes=0:1,");
    *how = (dg_check_node){ .seed = (uint64_t)seed,
                            .draws = o->draws ? (int)o->draws : 12,
                            .n_sets = o->sets.n,
                            .sets = dg_sets(&o->sets, a),
                            .n_ranges = o->inputs.n,
                            .n_dims = o->dims.n,
                            .ranges = ranges,
                            .dims = dims };
    return 0;
}

/* The classes that a plugin adds, or that were asked for; NULL-terminated. */
static const char **classes_of(const dg_registry *r, const dg_registry *builtin,
                               const dg_words *words, dg_arena *a)
{
    DG_VEC(const char *) list = { 0 };

    for (int i = 1; i < words->n; i++)
        DG_PUSH(a, list, words->v[i]);
    for (int i = 0; i < dg_registry_n(r) && words->n == 1; i++)
        if (!dg_registry_find(builtin, dg_registry_at(r, i)->name))
            DG_PUSH(a, list, dg_registry_at(r, i)->name);
    DG_PUSH(a, list, NULL);
    return list.items;
}

static int check_classes(const dg_check_node *how, reporter *report, const dg_words *words,
                         dg_registry *r, const dg_registry *builtin, dg_arena *a)
{
    const char **names = classes_of(r, builtin, words, a);

    for (const char **name = names; *name; name++)
        if (!dg_registry_find(r, *name)) {
            dg_say_error(
                "detrgraph check-node: there is no class <%s> in %s; `detrgraph nodes --plugin "
                "%s` lists them\n",
                *name, words->v[0], dg_shell(a, words->v[0]));
            return DG_EXIT_FAILED;
        }
    if (report->json)
        dg_say("%s", "[");
    fflush(stdout);
    for (int rc; *names; names++) {
        rc = check_class(how, report, dg_registry_find(r, *names), r, a);
        if (rc)
            return rc;
    }
    if (report->json)
        dg_say("%s\n", "]");
    else
        dg_say("1..%d\n# %d passed, %d failed, %d skipped\n", report->n,
               report->n - report->failed - report->skipped, report->failed, report->skipped);
    return report->failed ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static int verb_check_node(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    dg_check_node how;
    reporter report = { .library = words->v[0],
                        .o = o,
                        .json = o->format && strcmp(o->format, "json") == 0 };
    int code, rc = read_options(&how, o, a);

    if (rc)
        return rc;
    if (dg_launch_alone(2, &code))
        return code;
    dg_diag *d = dg_diag_open();
    dg_registry *builtin = dg_builtin_registry(d), *r = dg_builtin_registry(d);

    rc = r ? dg_registry_load(r, dg_path_join(a, ".", words->v[0]), DG_NOWHERE, d) : -DG_EINTERNAL;
    dg_print_diag(d, NULL);
    code = rc < 0 ? DG_EXIT_FAILED : check_classes(&how, &report, words, r, builtin, a);
    dg_registry_close(&r);
    dg_registry_close(&builtin);
    dg_diag_close(&d);
    return code;
}

static const dg_example examples[] = {
    { "check-node ./libgate.so", "Test every class of the plugin." },
    { "check-node ./libgate.so gate_fuse --seed 17 --draws 1", "Repeat a draw that failed." },
    { "check-node ./libhead.so head --dim D=32 --input boxes=0:1",
      "Restrict dimensions and numbers to those that make sense." },
    { "check-node ./libmine.so loader.mine --set list=train.csv", "Test a loader on real data." },
    { 0 },
};

const dg_verb dg_verb_check_node = {
    .name = "check-node",
    .args = "LIBRARY [CLASS...] [OPTIONS]",
    .brief = "Test the nodes of a plugin against what they declare.",
    .doc = "Draws attributes, dimensions and numbers at random. Reports in TAP format; exits with "
           "1 if a test\n"
           "fails.",
    .manual =
        "Compute nodes (`lower`): outputs have the shapes of their ports, and lower succeeds for "
        "every\n"
        "dimension that the ports allow; training and evaluation have the same parameters, and "
        "each reaches an\n"
        "output; gradients agree with central differences in f64; kernels write all of their "
        "outputs and\n"
        "nothing else, whatever memory held before; two runs give the same bits; f32 agrees with "
        "f64, and bf16\n"
        "with f32; an empty batch gives finite numbers; flags and collectives are as declared.\n\n"
        "Augmentations (`item`): boxes stay inside the image, nothing outside the sample is "
        "written, samples\n"
        "are dropped only if declared, and every thread produces the same sample.\n\n"
        "Loaders (`open`): items agree with what `info` says of them, and are the same in any "
        "order, on any\n"
        "thread, and when the data are opened again; other data have another digest. Samplers "
        "(`schedule`):\n"
        "plans contain existing items at listed sizes, depend on data, seed and epoch only, are "
        "the same on\n"
        "all ranks, and do not depend on the contents of items, unless a row of `rules` says "
        "otherwise.\n"
        "Filters and partitions (`choose`): the same; also, padding stays padding, shares are "
        "disjoint and of\n"
        "equal size where declared, and every rank asks the others equally often. Batches "
        "(`feeds`, `fill`):\n"
        "tensors match the ports, only the given slot is written, and more objects than `capacity` "
        "are refused.\n\n"
        "Evaluations and logs (`begin`, `take`, `finish`): padding does not count, two at a time "
        "do not\n"
        "interfere, and one without images reports finite numbers; with a row DG_RULE_METRIC, "
        "neither the\n"
        "order of images nor the division into batches matters, and joined ranks report what one "
        "rank would.\n"
        "Numbers (`supply`): they depend only on what is declared.\n\n"
        "A class may refuse a draw with dg_check_fail or dg_error; refusing all draws is a "
        "failure. The first\n"
        "draw uses the default of every attribute. A test that could only repeat an earlier "
        "failure is\n"
        "skipped. A class that crashes fails, and the next one is tested.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 1,
    .most = -1,
    .run = verb_check_node,
};
