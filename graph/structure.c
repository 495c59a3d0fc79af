/* structure.c: the language's elements: pipeline, plugin, mesh, let, include, part, stack, model,
 * input, use, train, evaluate, checkpoint. */
#include "graph/structure.h"

#include <string.h>

static const dg_attr pipeline_attrs[] = {
    { "version", DG_ATTR_INT, offsetof(dg_pipeline_conf, version), true, 0, 0, 1, 1, NULL,
      "version of the language: 1" },
    DG_STR(dg_pipeline_conf, name, NULL, "name shown to people; if omitted, the file's name"),
    DG_INT(dg_pipeline_conf, seed, 0, 0, 9007199254740992.0, "seed of all random numbers"),
    DG_STR(dg_pipeline_conf, digest, NULL,
           "digest of the canonical graph, as validate prints it; any other graph is refused"),
    { 0 },
};
static const dg_attr plugin_attrs[] = {
    DG_PATH_REQUIRED(dg_plugin_conf, path, "shared library with node classes"),
    { 0 },
};
static const dg_attr mesh_attrs[] = {
    DG_STR_REQUIRED(
        dg_mesh_conf, dp,
        "size of the axis dp: a number, or \"ranks\" for the number of ranks that are started"),
    DG_INT(dg_mesh_conf, tp, 1, 1, 65536,
           "planned: size of the axis tp, whose ranks share one batch; no run has one yet"),
    { 0 },
};
static const dg_attr train_attrs[] = {
    DG_INT(dg_train_conf, steps, 0, 0, 1e12, "length of the run in optimizer steps"),
    DG_INT(dg_train_conf, epochs, 0, 0, 1e9,
           "length of the run in passes over the data; give either steps or epochs"),
    DG_INT(dg_train_conf, accumulate, 1, 1, 65536, "batches per optimizer step"),
    DG_ENUM(dg_train_conf, precision, 0, "f32|bf16|f64|tf32",
            "precision of arithmetic; bf16 keeps f32 weights, f64 runs reference kernels, tf32 is "
            "f32 with products of 10 bits, on GPUs"),
    DG_WHEN(dg_train_conf, patience, NULL,
            "stop early if the checkpoint's best has not improved for this long"),
    DG_ENUM(dg_train_conf, on_fail, 0, "abort|vote",
            "if a batch cannot be made on one rank: all stop, or all vote on skipping it"),
    { 0 },
};
static const dg_attr evaluate_attrs[] = {
    DG_WHEN(dg_evaluate_conf, every, NULL, "interval during training; if omitted, only at the end"),
    DG_INT(dg_evaluate_conf, on, -1, -1, 65535, "the only rank that evaluates; -1: all ranks"),
    DG_WHEN(dg_evaluate_conf, budget, NULL, "longest time that the other ranks wait for it"),
    { 0 },
};
static const dg_attr checkpoint_attrs[] = {
    DG_STR(dg_checkpoint_attrs, to, NULL,
           "the run's folder, relative to the current one; --out overrides it"),
    DG_WHEN(dg_checkpoint_attrs, every, NULL, "interval; if omitted, only at the end"),
    DG_INT(dg_checkpoint_attrs, keep, 1, 1, 10000,
           "number of newest checkpoints to keep, besides the best"),
    { 0 },
};
static const dg_attr input_attrs[] = {
    DG_BOOL(dg_input_conf, optional, false,
            "a <use> may omit it; inputs that it feeds must be optional too"),
    { 0 },
};
static const dg_attr use_attrs[] = {
    DG_STR_REQUIRED(dg_use_conf, model, "id of the model"),
    { 0 },
};

#define CONF(T, rows) .attrs = rows, .conf_size = sizeof(T)
const dg_structure dg_structures[] = {
    { .name = "pipeline",
      .inside = "",
      .brief = "The root of a pipeline.",
      CONF(dg_pipeline_conf, pipeline_attrs) },
    { .name = "plugin",
      .inside = "pipeline",
      .brief = "Loads node classes from a shared library.",
      CONF(dg_plugin_conf, plugin_attrs) },
    { .name = "mesh",
      .inside = "pipeline",
      .brief = "Names the axes along which ranks share the work.",
      CONF(dg_mesh_conf, mesh_attrs) },
    { .name = "let",
      .inside = "pipeline part model train evaluate stack",
      .brief = "Names values; $name then means the value.",
      .doc = "Visible to what follows inside the same element. --set name=value overrides those at "
             "the pipeline's top level.",
      .free = "a name and its value" },
    { .name = "include",
      .inside = "pipeline part model train evaluate stack",
      .brief = "Inserts the elements of a part's file.",
      .doc = "file=\"...\" is relative to this file. id=\"p\" prefixes the ids inside with \"p.\"; "
             "@p is the part's last node.",
      .free = "a parameter: overrides the part's <let> of that name" },
    { .name = "part",
      .inside = "",
      .brief = "The root of a file that others include.",
      .doc = "Its lets are its parameters, with their default values." },
    { .name = "stack",
      .inside = "model train evaluate part stack",
      .brief = "Repeats its elements, each repetition reading the previous one's result.",
      .doc = "Needs id and count=\"n\". @in is in=\"@...\" in the first repetition, then the last "
             "node of the previous one;\n$index counts from 0; ids are \"id.index.inner\"; "
             "afterwards @id is the last node of the last repetition.",
      .wires = "in" },
    { .name = "model",
      .inside = "pipeline",
      .brief = "A network: nodes with parameters, run by <use>.",
      .doc = "Needs an id. Its output is that of its last node." },
    { .name = "train",
      .inside = "pipeline",
      .brief = "The training scope: the nodes of a step.",
      CONF(dg_train_conf, train_attrs) },
    { .name = "evaluate",
      .inside = "pipeline",
      .brief = "A pass over held-out data.",
      .doc = "weights=\"@ema\" names a node of <train> that outputs parameters; if omitted, the "
             "weights being trained.",
      CONF(dg_evaluate_conf, evaluate_attrs),
      .wires = "weights" },
    { .name = "checkpoint",
      .inside = "pipeline",
      .brief = "Saves the run's state at intervals.",
      .doc = "best=\"@coco.AP\" names a number of an evaluation; the checkpoint with its best "
             "value is kept.",
      CONF(dg_checkpoint_attrs, checkpoint_attrs),
      .wires = "best" },
    { .name = NULL },
};

static const dg_port input_ports[] = {
    DG_OUT("out", "any", "what <use> wires to the attribute of this name"),
    { 0 },
};
static const dg_port no_ports[] = { { 0 } };

const dg_node_class dg_class_input = {
    DG_NODE_CLASS,
    .name = "input",
    .brief = "An input of a model.",
    .ports = input_ports,
    .attrs = input_attrs,
    .conf_size = sizeof(dg_input_conf),
};
const dg_node_class dg_class_use = {
    DG_NODE_CLASS,
    .name = "use",
    .brief = "Runs a model: takes a wire per input of the model, has the ports of its last node.",
    .doc = "All uses of a model share its parameters.",
    .ports = no_ports,
    .attrs = use_attrs,
    .conf_size = sizeof(dg_use_conf),
};

const dg_node_class *dg_structure_class(const char *name)
{
    static const dg_node_class *const classes[] = { &dg_class_input, &dg_class_use };

    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strcmp(classes[i]->name, name) == 0)
            return classes[i];
    return NULL;
}

bool dg_is_among(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = list; p && *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == len && memcmp(p, word, len) == 0)
            return true;
    return false;
}

const dg_structure *dg_structure_find(const char *name)
{
    for (const dg_structure *s = dg_structures; s->name; s++)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}
