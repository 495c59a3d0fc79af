/* options.c: a verb's command line, read by its table. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"

static int usage(const dg_verb *v, const char *fmt, ...) DG_PRINTF(2, 3);
static int usage(const dg_verb *v, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "detrgraph %s: ", v->name);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nusage: detrgraph %s %s\n", v->name, v->args);
    va_end(ap);
    return DG_EXIT_USAGE;
}

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);

    for (const char *w = words; *w; w += strcspn(w, "|") + (w[strcspn(w, "|")] == '|'))
        if (strcspn(w, "|") == len && memcmp(w, word, len) == 0)
            return true;
    return false;
}

static bool read_size(const char *text, dg_size *out)
{
    char  copy[48];
    char *times;

    if (strlen(text) >= sizeof copy)
        return false;
    strcpy(copy, text);
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

    switch (o->kind) {
    case DG_OPTION_FLAG:
        *(bool *)at = true;
        return 0;
    case DG_OPTION_INT:
        if (dg_parse_i64(value, at) && *(int64_t *)at >= 0 && *(int64_t *)at <= INT32_MAX)
            return 0;
        return usage(v, "--%s %s: expected a whole number%s", o->name, value,
                     dg_parse_i64(value, at) ? ", from 0 to 2147483647" : "");
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
    case DG_OPTION_MAYBE:
        break;
    }
    *(const char **)at = value;
    return 0;
}

static int unknown_option(const dg_verb *v, const char *arg)
{
    const char *names[64], *near;
    int         n = 0;

    for (const dg_option *o = v->options; o && o->name && n < 64; o++)
        names[n++] = o->name;
    near = dg_nearest(arg + 2, names, n);
    return near ? usage(v, "there is no option %s; did you mean --%s?", arg, near)
                : usage(v, "there is no option %s", arg);
}

int dg_options_read(const dg_verb *v, int argc, char **argv, void *options, dg_words *words,
                    dg_arena *a)
{
    bool only_words = false;

    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        size_t      len = equals ? (size_t)(equals - arg) : strlen(arg);

        if (only_words || arg[0] != '-' || arg[1] == '\0') {
            add_word(words, arg, a);
            continue;
        }
        only_words = strcmp(arg, "--") == 0;
        if (only_words)
            continue;
        const dg_option *o = v->options;

        if (strcmp(arg, "-o") == 0) { /* the one short option */
            arg = "--out";
            len = strlen(arg);
        }
        while (o && o->name &&
               (len < 3 || strncmp(arg, "--", 2) != 0 || strlen(o->name) != len - 2 ||
                memcmp(o->name, arg + 2, len - 2) != 0))
            o++;
        if (!o || !o->name)
            return unknown_option(v, dg_strndup(a, arg, len));
        if (o->kind == DG_OPTION_MAYBE && !equals) {
            const char *next = i + 1 < argc ? argv[i + 1] : "-";
            bool no_word = v->most >= 0 && words->n >= v->most && next[0] != '-'; /* all are there */
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
    return 0;
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
