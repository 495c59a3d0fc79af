/* cmd_new.c: `detrgraph new node`: creates a folder with a node, its makefile and test, and a
 * pipeline that uses it: renamed copies of plugins/template. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/dir.h"
#include "base/file.h"
#include "cli/cli.h"
#include "graph/registry.h"
#include "graph/structure.h"

typedef struct opts {
    const char *dir, *kind;
} opts;

static const dg_option options[] = {
    { "dir", DG_OPTION_STR, offsetof(opts, dir), "DIR", NULL, "parent folder (the current one)" },
    { "kind", DG_OPTION_WORD, offsetof(opts, kind), NULL, "tensor|op|loader|item|sink",
      "kind of node to start from (tensor)" },
    { 0 },
};

typedef struct template_file {
    const char *kind, *name; /* kind "common": for every kind */
    const char *text;
} template_file;

#include "cli/templates.inc"

/* True for class names: lower-case letters, digits and _ in parts separated by dots. */
static bool is_class_name(const char *s)
{
    bool begin = true;

    for (; *s; s++) {
        if (begin ? !islower((unsigned char)*s)
                  : !islower((unsigned char)*s) && !isdigit((unsigned char)*s) && *s != '_' &&
                        *s != '.')
            return false;
        begin = *s == '.';
    }
    return !begin;
}

/* True for built-in classes and elements inside them, such as <flip> in <augment>. */
static bool is_builtin(const dg_registry *r, const char *name)
{
    for (int i = 0; i < dg_registry_n(r); i++)
        for (const dg_child_class *c = dg_registry_at(r, i)->children; c && c->name; c++)
            if (strcmp(c->name, name) == 0)
                return true;
    return dg_registry_find(r, name) != NULL;
}

/* Reports what has the name already. */
static bool is_taken(const char *class, dg_diag *d)
{
    dg_registry *r = dg_builtin_registry(d);
    const char *by = NULL;

    if (dg_structure_find(class) || dg_structure_class(class))
        by = "an element of the language";
    else if (r && is_builtin(r, class))
        by = "an element that comes with the engine";
    else if (strcmp(class, "numbers") == 0)
        by = "the test beside it, numbers.c";
    dg_registry_close(&r);
    if (by)
        dg_say_error("detrgraph new: \"%s\" is the name of %s: give the node another, like my_%s\n",
                     class, by, class);
    return by != NULL;
}

/* Appends text with my.node replaced by the class, my_node by the file name. */
static void add_renamed(dg_str *out, const char *text, const char *class, const char *file)
{
    for (; *text; text++) {
        const char *name = strncmp(text, "my.node", 7) == 0   ? class
                           : strncmp(text, "my_node", 7) == 0 ? file
                                                              : NULL;

        if (name) {
            dg_str_add(out, name);
            text += 6;
        } else {
            dg_str_add_n(out, text, 1);
        }
    }
}

static int write_file(const template_file *t, const char *folder, const char *class,
                      const char *file, dg_arena *a, dg_diag *d)
{
    dg_str name = { 0 }, text = { 0 };
    int rc;

    add_renamed(&name, t->name, class, file);
    add_renamed(&text, t->text, class, file);
    rc = dg_dir_put(dg_path_join(a, folder, name.s), text.s, text.n, d);
    dg_str_free(&name);
    dg_str_free(&text);
    return rc;
}

static int write_node(const char *class, const char *kind, const char *dir, dg_arena *a, dg_diag *d)
{
    char *file = dg_strdup(a, class), *partial = NULL;
    const char *folder;
    dg_listing files = { 0 };
    int rc;

    for (char *c = file; *c; c++)
        *c = *c == '.' ? '_' : *c;
    folder = dir ? dg_path_join(a, dir, file) : file;
    if (dg_exists(folder)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "new-exists",
                "there is something of this name already");
        dg_help(d, "give the node another name, or another place: --dir DIR");
        return -DG_EINPUT;
    }
    DG_TRY(dg_dir_begin(&partial, a, folder, d));
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++)
        if (strcmp(templates[i].kind, "common") == 0 || strcmp(templates[i].kind, kind) == 0)
            DG_TRY(write_file(&templates[i], partial, class, file, a, d));
    DG_TRY(dg_dir_commit(partial, folder, d));
    DG_TRY(dg_dir_list(&files, NULL, a, folder, d));
    for (int i = 0; i < files.n; i++)
        dg_say("  %s/%s\n", folder, files.v[i]);
    dg_say("\nNext: cd %s && make && make check\n", dg_shell(a, folder));
out:
    if (rc < 0 && partial)
        dg_dir_remove(partial);
    return rc;
}

static int verb_new(const void *given, const dg_words *words, dg_arena *a)
{
    const opts *o = given;
    const char *name = words->v[1];
    dg_diag *d;
    int rc;

    if (strcmp(words->v[0], "node") != 0) {
        dg_say_error("detrgraph new: \"%s\": what can be made is a node\n", words->v[0]);
        return DG_EXIT_USAGE;
    }
    if (!is_class_name(name)) {
        dg_say_error(
            "detrgraph new: \"%s\": a class's name has small letters, digits and _, in parts "
            "separated by dots, like my_gate or head.mine\n",
            name);
        return DG_EXIT_USAGE;
    }
    d = dg_diag_open();
    if (is_taken(name, d)) {
        dg_diag_close(&d);
        return DG_EXIT_USAGE;
    }
    rc = write_node(name, o->kind ? o->kind : "tensor", o->dir, a, d);
    fflush(stdout);
    dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc < 0 ? DG_EXIT_FAILED : DG_EXIT_OK;
}

static const dg_example examples[] = {
    { "new node my_gate", "Create my_gate/ with a node that computes." },
    { "new node cutout --kind item --dir nodes", "Create an augmentation in nodes/cutout/." },
    { "new node loader.ours --kind loader", "Create a loader for your own data format." },
    { 0 },
};

const dg_verb dg_verb_new = {
    .name = "new",
    .args = "node NAME [OPTIONS]",
    .brief = "Create a custom node from a template.",
    .doc = "The folder holds the node's source, a Makefile that needs only an installed detrgraph, "
           "a test, and\n"
           "a pipeline that uses the node. docs/writing-nodes.md continues from there.\n\n"
           "  tensor    computes with the engine's ops, which differentiate themselves\n"
           "  op        computes with its own kernels, forward and backward\n"
           "  loader    reads a data format of its own\n"
           "  item      changes samples: an augmentation\n"
           "  sink      consumes results: an evaluation",
    .examples = examples,
    .options = options,
    .size = sizeof(opts),
    .least = 2,
    .most = 2,
    .run = verb_new,
};
