/* options.c: parses a verb's command line by its table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

static int usage(const dg_verb *v, const char *fmt, ...) DG_PRINTF(2, 3);
static int usage(const dg_verb *v, const char *fmt, ...)
{
    dg_str what = { 0 };
    va_list ap;

    va_start(ap, fmt);
    dg_str_vfmt(&what, fmt, ap);
    va_end(ap);
    dg_say_error("detrgraph %s: %s\nusage: detrgraph %s %s\n", v->name, what.s, v->name, v->args);
    dg_str_free(&what);
    return DG_EXIT_USAGE;
}

/* words: "text|json", ended by a space or NUL */
static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *w = words;; w++) {
        size_t n = strcspn(w, "| ");

        if (n == len && memcmp(w, word, len) == 0)
            return true;
        w += n;
        if (*w != '|')
            return false;
    }
}

static bool read_size(const char *text, dg_size *out)
{
    char copy[48];
    char *times;

    if (strlen(text) >= sizeof copy)
        return false;
    memcpy(copy, text, strlen(text) + 1);
    times = strchr(copy, 'x');
    if (times)
        *times = '\0';
    return dg_parse_i64(copy, &out->w) && dg_parse_i64(times ? times + 1 : copy, &out->h) &&
           out->w > 0 && out->h > 0;
}

static void add_word(dg_words *list, const char *word, dg_arena *a)
{
    if ((list->n & (list->n - 1)) == 0) { /* full at 0, 1, 2, 4, ... */
        const char **grown = DG_NEW_N(a, list->n ? 2 * list->n : 1, const char *);

        if (list->n)
            memcpy(grown, list->v, (size_t)list->n * sizeof *grown);
        list->v = grown;
    }
    list->v[list->n++] = word;
}

static int set_option(const dg_verb *v, const dg_option *o, const char *value, void *options,
                      dg_arena *a)
{
    void *at = (char *)options + o->offset;
    int least;

    switch (o->kind) {
    case DG_OPTION_FLAG:
        *(bool *)at = true;
        return 0;
    case DG_OPTION_INT:
    case DG_OPTION_COUNT:
        least = o->kind == DG_OPTION_COUNT;
        if (dg_parse_i64(value, at) && *(int64_t *)at >= least && *(int64_t *)at <= INT32_MAX)
            return 0;
        if (!dg_parse_i64(value, at))
            return usage(v, "--%s %s: expected a whole number", o->name, value);
        return usage(v, "--%s %s: expected a whole number, from %d to 2147483647", o->name, value,
                     least);
    case DG_OPTION_NUM:
        if (dg_parse_f64(value, at))
            return 0;
        return usage(v, "--%s %s: expected a number", o->name, value);
    case DG_OPTION_WORD:
        if (!has_word(o->words, value))
            return usage(v, "--%s %s: expected one of %s", o->name, value, o->words);
        *(const char **)at = value;
        return 0;
    case DG_OPTION_SIZE:
        if (read_size(value, at))
            return 0;
        return usage(v, "--%s %s: expected a side, or WIDTHxHEIGHT, in pixels", o->name, value);
    case DG_OPTION_LIST:
        if (strchr(o->value, '=') && (!strchr(value, '=') || value[0] == '='))
            return usage(v, "--%s %s: expected %s", o->name, value, o->value);
        add_word(at, value, a);
        return 0;
    case DG_OPTION_STR:
        if (!*value)
            return usage(v, "--%s: its value is empty", o->name);
        break;
    case DG_OPTION_MAYBE:
        break;
    }
    *(const char **)at = value;
    return 0;
}

static bool takes_sets(const dg_verb *v)
{
    for (const dg_option *o = v->options; o && o->name; o++)
        if (strcmp(o->name, "set") == 0)
            return true;
    return false;
}

/* Names that other programs use for our options. */
static const struct {
    const char *other, *ours;
} others[] = {
    { "batch-size", "batch" },   { "conf", "threshold" },   { "gpus", "ranks" },
    { "image-size", "size" },    { "img-size", "size" },    { "imgsz", "size" },
    { "iterations", "steps" },   { "max-steps", "steps" },  { "nproc-per-node", "ranks" },
    { "output", "out" },         { "output-dir", "out" },   { "time", "max-time" },
    { "weights", "pretrained" }, { "world-size", "ranks" }, { "epochs", "steps" },
};

/* Our name for it; the name itself if the verb has no option of ours. */
static const char *ours(const dg_verb *v, const char *name)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        for (const dg_option *o = v->options; o && o->name; o++)
            if (strcmp(others[i].other, name) == 0 && strcmp(others[i].ours, o->name) == 0)
                return o->name;
    return name;
}

/* What other programs have as options is mostly a value of the pipeline here. value: what follows
 * the option, or NULL. */
static int unknown_option(const dg_verb *v, const char *arg, const char *value)
{
    static const char *const lets = "epochs|batch|size|lr|data|classes|queries|patience|pretrained";
    const char *names[64], *near;
    int n = 0;

    if (takes_sets(v) && strncmp(arg, "--", 2) == 0 && has_word(lets, arg + 2))
        return usage(v,
                     "there is no option %s; values that the pipeline declares with <let> are "
                     "set by --set %s=%s",
                     arg, arg + 2, value && *value != '-' ? value : "VALUE");

    for (const dg_option *o = v->options; o && o->name && n < 64; o++)
        names[n++] = o->name;
    near = dg_nearest(ours(v, arg + 2), names, n);
    return near ? usage(v, "there is no option %s; did you mean --%s?", arg, near)
                : usage(v, "there is no option %s", arg);
}

/* ---- actions --------------------------------------------------------------------------------- */

static bool is_given(const dg_option *o, const void *options)
{
    const void *at = (const char *)options + o->offset;

    switch (o->kind) {
    case DG_OPTION_FLAG:
        return *(const bool *)at;
    case DG_OPTION_INT:
    case DG_OPTION_COUNT:
        return *(const int64_t *)at != 0;
    case DG_OPTION_NUM:
        return *(const double *)at > 0 || *(const double *)at < 0;
    case DG_OPTION_SIZE:
        return ((const dg_size *)at)->w != 0;
    case DG_OPTION_LIST:
        return ((const dg_words *)at)->n > 0;
    case DG_OPTION_STR:
    case DG_OPTION_WORD:
    case DG_OPTION_MAYBE:
        break;
    }
    return *(const char *const *)at != NULL;
}

/* What follows the name in "split images=link|copy": "", or the allowed values; NULL: not
 * listed. */
static const char *listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    for (const char *at = list; *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (strcspn(at, "= ") == len && memcmp(at, name, len) == 0)
            return at[len] == '=' ? at + len + 1 : "";
    return NULL;
}

static int check_option(const dg_verb *v, const dg_action *a, const dg_option *o,
                        const void *options)
{
    const char *needed = listed(a->needs, o->name),
               *words = needed ? needed : listed(a->takes, o->name), *value;

    if (!is_given(o, options))
        return needed
                   ? usage(v, "%s needs --%s %s", a->name, o->name, o->words ? o->words : o->value)
                   : 0;
    if (!words)
        return usage(v, "--%s means nothing to %s", o->name, a->name);
    if (!*words)
        return 0;
    value = *(const char *const *)(const void *)((const char *)options + o->offset);
    return has_word(words, value) ? 0
                                  : usage(v, "%s takes --%s %.*s, not %s", a->name, o->name,
                                          (int)strcspn(words, " "), words, value);
}

int dg_action_find(const dg_action *actions, const char *name)
{
    for (int i = 0; actions[i].name; i++)
        if (strcmp(actions[i].name, name) == 0)
            return i;
    return -1;
}

static int unknown_action(const dg_verb *v, const char *name)
{
    const char *names[16], *near;
    int n = 0, len = (int)strcspn(v->args, " ");

    for (; n < 16 && v->actions[n].name; n++)
        names[n] = v->actions[n].name;
    near = dg_nearest(name, names, n);
    return near ? usage(v, "expected %.*s, found \"%s\"; did you mean \"%s\"?", len, v->args, name,
                        near)
                : usage(v, "expected %.*s, found \"%s\"", len, v->args, name);
}

static int check_action(const dg_verb *v, const void *options, const dg_words *words)
{
    const dg_action *a = v->actions;
    int at = dg_action_find(a, words->v[0]), expected = 0;

    if (at < 0)
        return unknown_action(v, words->v[0]);
    a += at;
    for (const char *w = a->args; *w; w += strcspn(w, " "), w += strspn(w, " "))
        expected++;
    if (words->n != expected + 1)
        return usage(v, "%s is followed by %s, found %d word%s", a->name, a->args, words->n - 1,
                     words->n == 2 ? "" : "s");
    for (const dg_option *o = v->options; o->name; o++)
        if (check_option(v, a, o, options))
            return DG_EXIT_USAGE;
    return 0;
}

/* ---- the command line ------------------------------------------------------------------------ */

int dg_options_read(const dg_verb *v, int argc, char **argv, void *options, dg_words *words,
                    dg_arena *a)
{
    bool only_words = false;

    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        size_t len = equals ? (size_t)(equals - arg) : strlen(arg);

        if (only_words || arg[0] != '-' || arg[1] == '\0') {
            add_word(words, arg, a);
            continue;
        }
        only_words = strcmp(arg, "--") == 0;
        if (only_words)
            continue;
        const dg_option *o = v->options;

        if (arg[2] == '\0') { /* the short options */
            arg = arg[1] == 'o'   ? "--out"
                  : arg[1] == 'q' ? "--quiet"
                  : arg[1] == 'v' ? "--verbose"
                                  : arg;
            len = strlen(arg);
        }
        while (o && o->name &&
               (len < 3 || strncmp(arg, "--", 2) != 0 || strlen(o->name) != len - 2 ||
                memcmp(o->name, arg + 2, len - 2) != 0))
            o++;
        if (!o || !o->name)
            return unknown_option(v, dg_strndup(a, arg, len),
                                  equals         ? equals + 1
                                  : i + 1 < argc ? argv[i + 1]
                                                 : NULL);
        if (o->kind == DG_OPTION_MAYBE && !equals) {
            const char *next = i + 1 < argc ? argv[i + 1] : "-";
            /* all words are given */
            bool no_word = v->most >= 0 && words->n >= v->most && next[0] != '-';
            bool follows = strcmp(next, "auto") == 0 || dg_is_folder(next) || no_word;
            int rc = set_option(v, o, follows ? argv[++i] : "", options, a);

            if (rc)
                return rc;
            continue;
        }
        if (o->kind == DG_OPTION_FLAG ? equals != NULL : !equals && i + 1 >= argc)
            return usage(v,
                         o->kind == DG_OPTION_FLAG ? "--%s takes no value" : "--%s needs a value",
                         o->name);
        int rc = set_option(v, o,
                            o->kind == DG_OPTION_FLAG ? NULL
                            : equals                  ? equals + 1
                                                      : argv[++i],
                            options, a);

        if (rc)
            return rc;
    }
    if (words->n == 0 && v->least > 0)
        return usage(v, "%.*s is missing", (int)strcspn(v->args, " "), v->args);
    if (words->n < v->least)
        return usage(v, "more is expected after \"%s\"", words->v[words->n - 1]);
    if (v->most >= 0 && words->n > v->most)
        return usage(v, "\"%s\" is one word too many", words->v[v->most]);
    return v->actions ? check_action(v, options, words) : 0;
}

const dg_set *dg_sets(const dg_words *words, dg_arena *a)
{
    dg_set *all = DG_NEW_N(a, words->n, dg_set);

    for (int i = 0; i < words->n; i++) {
        const char *equals = strchr(words->v[i], '=');

        all[i] = (dg_set){ dg_strndup(a, words->v[i], (size_t)(equals - words->v[i])), equals + 1 };
    }
    return all;
}

const char *dg_device_asked(const char *option)
{
    const char *device = option ? option : getenv("DETRGRAPH_DEVICE");

    return device && *device ? device : NULL;
}
