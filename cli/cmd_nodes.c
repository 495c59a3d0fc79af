/* cmd_nodes.c: `detrgraph nodes`: prints the node reference and the schema from the tables. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "graph/schema.h"

typedef struct options {
    bool schema;
    const char *format;
    dg_words plugins;
} options;

static const dg_option rows[] = {
    { "schema", DG_OPTION_FLAG, offsetof(options, schema), NULL, NULL,
      "print a RELAX NG schema for editors and validators" },
    { "plugin", DG_OPTION_LIST, offsetof(options, plugins), "LIBRARY", NULL,
      "load a plugin first; may be repeated" },
    { "format", DG_OPTION_WORD, offsetof(options, format), NULL, "text|json",
      "output format of classes (text)" },
    { 0 },
};

static int unknown(const dg_registry *r, const char *name, dg_arena *a)
{
    int n = dg_registry_n(r);
    const char **names = DG_NEW_N(a, n, const char *), *near;

    for (int i = 0; i < n; i++)
        names[i] = dg_registry_at(r, i)->name;
    near = dg_nearest(name, names, n);
    dg_say_error("detrgraph nodes: there is no node class <%s>", name);
    dg_say_error(near ? "; did you mean <%s>?\n" : "; `detrgraph nodes` lists them\n", near);
    return DG_EXIT_FAILED;
}

/* Prints an array of the named classes, or of all. */
static int print_json(const dg_words *words, const dg_registry *r, dg_arena *a)
{
    dg_str out = { 0 };
    int n = words->n ? words->n : dg_registry_n(r), rc = DG_EXIT_OK;

    for (int i = 0; i < n && rc == DG_EXIT_OK; i++) {
        const char *name = words->n ? words->v[i] : dg_registry_at(r, i)->name;

        dg_str_add(&out, i ? ",\n" : "[");
        if (!dg_reference_json(&out, r, name))
            rc = unknown(r, name, a);
    }
    if (rc == DG_EXIT_OK)
        dg_say("%s]\n", out.s);
    dg_str_free(&out);
    return rc;
}

static int print_classes(const options *o, const dg_words *words, const dg_registry *r, dg_arena *a)
{
    dg_str out = { 0 };
    int rc = DG_EXIT_OK;

    if (o->schema)
        dg_schema_print(&out, r);
    else if (words->n == 0)
        dg_reference_list(&out, r);
    for (int i = 0; i < words->n; i++) {
        if (i)
            dg_str_add(&out, "\n");
        if (!dg_reference_print(&out, r, words->v[i]))
            rc = unknown(r, words->v[i], a);
    }
    if (out.s)
        dg_say("%s", out.s);
    dg_str_free(&out);
    return rc;
}

static int verb_nodes(const void *self, const dg_words *words, dg_arena *a)
{
    const options *o = self;

    if (o->schema && words->n) {
        dg_say_error("detrgraph nodes: --schema is of all classes, leave out \"%s\"\n",
                     words->v[0]);
        return DG_EXIT_USAGE;
    }
    if (o->schema && o->format) {
        dg_say_error("detrgraph nodes: --schema has one format, leave out --format\n");
        return DG_EXIT_USAGE;
    }
    dg_diag *d = dg_diag_open();
    dg_registry *r = dg_builtin_registry(d);
    int rc = r ? 0 : -DG_EINTERNAL;

    for (int i = 0; i < o->plugins.n && rc == 0;
         /* a path, not a name for the linker to look up */
         i++)
        rc = dg_registry_load(r, dg_path_join(a, ".", o->plugins.v[i]), DG_NOWHERE, d);
    dg_print_diag(d, NULL);
    if (rc < 0)
        rc = DG_EXIT_FAILED;
    else
        rc = o->format && strcmp(o->format, "json") == 0 ? print_json(words, r, a)
                                                         : print_classes(o, words, r, a);
    dg_registry_close(&r);
    dg_diag_close(&d);
    return rc;
}

static const dg_example examples[] = {
    { "nodes decoder.rtdetr", "Print ports, attributes with ranges and defaults, and what the "
                              "class declares to the proof." },
    { "nodes --schema --plugin ./libgate.so > my.rng",
      "Write a schema that includes a plugin's elements." },
    { 0 },
};

const dg_verb dg_verb_nodes = {
    .name = "nodes",
    .args = "[CLASS...] [OPTIONS]",
    .brief = "Print the reference of node classes, or a schema of the language.",
    .doc = "Without CLASS, lists all classes and the elements of the language. Editors complete "
           "and check\n"
           "against the RELAX NG schema; wiring errors and values that depend on one another need\n"
           "`detrgraph validate`.",
    .examples = examples,
    .options = rows,
    .size = sizeof(options),
    .most = -1,
    .run = verb_nodes,
};
