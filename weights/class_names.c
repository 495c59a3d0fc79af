/* class_names.c: see class_names.h. */
#include "weights/class_names.h"

#include <string.h>

#include "base/file.h"
#include "media/json.h"

static const char **names_of_run(int *n, const dg_graph *g, const dg_scope *scope, dg_arena *a)
{
    const char *file = dg_path_join(a, dg_path_folder(a, g->file), "run.json"), **names;
    const dg_json *root = NULL, *data, *classes = NULL;
    dg_diag *ignored = dg_diag_open();

    if (!dg_exists(file) || dg_json_read(&root, a, file, ignored) < 0)
        root = NULL;
    dg_diag_close(&ignored);
    data = dg_json_get(root, "data");
    for (int i = 0; data && i < data->n; i++)
        if (strcmp(dg_json_text(&data->items[i], "scope"), scope->id) == 0)
            classes = dg_json_get(&data->items[i], "classes");
    if (!classes || classes->kind != DG_JSON_ARRAY || classes->n == 0)
        return NULL;
    names = DG_NEW_N(a, classes->n, const char *);
    for (int i = 0; i < classes->n; i++)
        names[i] = dg_json_text(&classes->items[i], "name");
    *n = classes->n;
    return names;
}

const char *const *dg_class_names(int *n, const dg_graph *g, const dg_scope *scope, dg_arena *a)
{
    const char **names = names_of_run(n, g, scope, a);
    dg_diag *ignored = names ? NULL : dg_diag_open();
    dg_dataset *set = NULL;
    dg_chain chain;

    if (!names && dg_scope_chain(&chain, scope, ignored) == 0 &&
        chain.loader->class->open(&set, chain.loader->conf, g->seed, ignored) == 0) {
        names = DG_NEW_N(a, set->n_classes + 1, const char *);
        for (int i = 0; i < set->n_classes; i++)
            names[i] = dg_strdup(a, set->classes[i].name);
        *n = set->n_classes;
        set->close(set->self);
    }
    dg_diag_close(&ignored);
    return names;
}
