/* cmd_doctor.c: `detrgraph doctor`: why a run failed, or what this machine offers a run. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "cli/ending.h"
#include "config.h"
#include "control/doctor.h"
#include "media/json.h"
#include "report/environment.h"

typedef struct opts {
    const char *format;
} opts;

static const dg_option options[] = {
    { "format", DG_OPTION_WORD, offsetof(opts, format), NULL, "text|json", "output format (text)" },
    { 0 },
};

/* ---- a run ----------------------------------------------------------------------------------- */

enum { VERDICT_MAX = 1 << 20 };

/* {"run": ..., "text": ..., "verdict": contents of flight/verdict.json, or null} */
static void add_run_json(dg_str *out, const char *folder, const char *text, dg_arena *a)
{
    const char *path = dg_path_join(a, folder, "flight/verdict.json");
    dg_diag *none = dg_diag_open();
    const dg_json *ignored;
    char *verdict = NULL;
    size_t n;
    bool sound = dg_exists(path) && dg_file_read(&verdict, &n, path, VERDICT_MAX, none) == 0 &&
                 dg_json_parse(&ignored, a, verdict, n, path, none) == 0;

    dg_str_add(out, "{\"run\":");
    dg_str_json(out, folder);
    dg_str_add(out, ",\"text\":");
    dg_str_json(out, text);
    dg_str_add(out, ",\"verdict\":");
    dg_str_add(out, sound ? verdict : "null");
    dg_str_add(out, "}\n");
    dg_free(verdict);
    dg_diag_close(&none);
}

static int examine(const char *folder, bool json, dg_arena *a)
{
    dg_diag *d = dg_diag_open();
    dg_str text = { 0 }, out = { 0 };
    int rc = dg_ending_tell(&text, folder, false) ? 0 : dg_doctor_examine(&text, folder, d);

    if (rc == 0 && json)
        add_run_json(&out, folder, text.s, a);
    if (rc == 0)
        dg_say("%s", json ? out.s : text.s);
    else
        dg_print_diag(d, NULL);
    dg_str_free(&text);
    dg_str_free(&out);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static bool is_new_topic(const dg_environment *e, int i)
{
    return i == 0 || strcmp(e->items[i].topic, e->items[i - 1].topic) != 0;
}

static void add_text(dg_str *out, const dg_environment *e)
{
    bool well = true;

    dg_str_fmt(out, "detrgraph %s\n", PACKAGE_VERSION);
    for (int i = 0; i < e->n; i++) {
        const dg_finding_row *row = &e->items[i];

        if (is_new_topic(e, i))
            dg_str_fmt(out, "\n%s\n", row->topic);
        dg_str_fmt(out, "  %-14s %s\n", row->name, row->value);
        well = well && !row->brings;
    }
    dg_str_add(out, well ? "\nNothing is missing.\n" : "\nto be had\n");
    for (int i = 0; i < e->n; i++)
        if (e->items[i].brings)
            dg_str_fmt(out, "  %-14s %s\n", e->items[i].name, e->items[i].brings);
}

/* {"version": ..., TOPIC: {NAME: {"value": ..., "brings": ...}}} */
static void add_json(dg_str *out, const dg_environment *e)
{
    dg_str_add(out, "{\"version\":\"" PACKAGE_VERSION "\"");
    for (int i = 0; i < e->n; i++) {
        const dg_finding_row *row = &e->items[i];

        if (is_new_topic(e, i)) {
            dg_str_add(out, i ? "},\n " : ",\n ");
            dg_str_json(out, row->topic);
            dg_str_add(out, ":{");
        } else {
            dg_str_add(out, ",");
        }
        dg_str_json(out, row->name);
        dg_str_add(out, ":{\"value\":");
        dg_str_json(out, row->value);
        dg_str_add(out, ",\"brings\":");
        dg_str_json(out, row->brings);
        dg_str_add(out, "}");
    }
    dg_str_add(out, "}}\n");
}

static int look_around(bool json, dg_arena *a)
{
    dg_environment e = { 0 };
    dg_str out = { 0 };

    dg_environment_read(&e, a);
    if (json)
        add_json(&out, &e);
    else
        add_text(&out, &e);
    dg_say("%s", out.s);
    dg_str_free(&out);
    return DG_EXIT_OK;
}

static int verb_doctor(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    bool json = o->format && strcmp(o->format, "json") == 0;

    return words->n ? examine(words->v[0], json, a) : look_around(json, a);
}

static const dg_example examples[] = {
    { "doctor", "Show what this machine offers a run, and what could improve it." },
    { "doctor runs/bccd", "Explain why that run ended." },
    { 0 },
};

const dg_verb dg_verb_doctor = {
    .name = "doctor",
    .args = "[RUN] [OPTIONS]",
    .brief = "Explain why a run failed, or describe this machine.",
    .doc = "RUN is the run's folder. From the last steps and collectives of every rank, in "
           "RUN/flight, doctor\n"
           "names the rank, node and line that failed, and where the ranks diverged. Without RUN "
           "it lists\n"
           "processor, memory, limits, library versions and GPUs, and what a change to any of them "
           "would bring.",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .most = 1,
    .run = verb_doctor,
};
