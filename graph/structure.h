/* structure.h: the language's own elements, as tables like those of node classes. */
#ifndef DG_GRAPH_STRUCTURE_H
#define DG_GRAPH_STRUCTURE_H

#include <detrgraph/node.h>

typedef struct dg_structure {
    const char *name;
    const char *inside; /* allowed parents, separated by spaces */
    const char *brief;
    const char *doc;
    const dg_attr *attrs; /* or NULL */
    size_t conf_size;
    const char *wires; /* attributes that are wires, separated by spaces; or NULL */
    const char *free;  /* what any other attribute means; NULL: not allowed */
} dg_structure;

extern const dg_structure dg_structures[]; /* terminated by a NULL name */
const dg_structure *dg_structure_find(const char *name);

/* True if word is in a space-separated list. */
bool dg_is_among(const char *list, const char *word);

typedef struct dg_pipeline_conf {
    int64_t version;
    const char *name;
    int64_t seed;
    const char *digest;
} dg_pipeline_conf;
typedef struct dg_plugin_conf {
    const char *path;
} dg_plugin_conf;
typedef struct dg_mesh_conf {
    const char *dp;
    int64_t tp;
} dg_mesh_conf;
typedef struct dg_train_conf {
    int64_t steps, epochs, accumulate, precision, on_fail;
    dg_when patience;
} dg_train_conf;
typedef struct dg_evaluate_conf {
    dg_when every, budget;
    int64_t on;
} dg_evaluate_conf;
typedef struct dg_checkpoint_attrs {
    const char *to;
    dg_when every;
    int64_t keep;
} dg_checkpoint_attrs;
typedef struct dg_input_conf {
    bool optional;
} dg_input_conf;
typedef struct dg_use_conf {
    const char *model;
} dg_use_conf;

/* Classes of the structural elements that are nodes. */
extern const dg_node_class dg_class_input, dg_class_use;
/* The one of this name, or NULL. */
const dg_node_class *dg_structure_class(const char *name);

#endif
