/* structure.c: pipeline, plugin, mesh, let, include, part, stack, model, input, use, loop, train,
 * evaluate, checkpoint. */
#include "graph/structure.h"

#include <string.h>

static const dg_attr pipeline_attrs[] = {
    { "version", DG_ATTR_INT, offsetof(dg_pipeline_conf, version), true, 0, 1, 1, NULL,
      "of the language: 1" },
    DG_STR(dg_pipeline_conf, name, NULL, "for people; the file's name if left out"),
    DG_INT(dg_pipeline_conf, seed, 0, 0, 9007199254740992.0, "of all random numbers"),
    DG_STR(dg_pipeline_conf, digest, NULL,
           "of the canonical graph, as validate prints it: another graph is refused"),
    { 0 },
};
static const dg_attr plugin_attrs[] = {
    DG_PATH_REQUIRED(dg_plugin_conf, path, "shared library with node classes"),
    { 0 },
};
static const dg_attr mesh_attrs[] = {
    DG_STR_REQUIRED(dg_mesh_conf, dp,
                    "size of the axis dp: a number, or \"ranks\" for as many as are started"),
    DG_INT(dg_mesh_conf, tp, 1, 1, 65536, "size of the axis tp: ranks that share one batch"),
    DG_ENUM(dg_mesh_conf, order, 0, "document|ready",
            "in which order collectives are launched: one list for all axes, or each as soon as "
            "its input is there"),
    DG_STR(dg_mesh_conf, devices, "cpu",
           "cpu, cuda (each rank the GPU of its local number), one GPU for all (cuda:0), or a list "
           "with one for each rank"),
    DG_ENUM(dg_mesh_conf, share_gpu, 0, "no|test", "test: several ranks may have one GPU"),
    { 0 },
};
static const dg_attr train_attrs[] = {
    DG_INT(dg_train_conf, steps, 0, 0, 1e12, "length: so many optimizer steps"),
    DG_INT(dg_train_conf, epochs, 0, 0, 1e9,
           "length: so many passes over the data; one of steps and epochs is given"),
    DG_INT(dg_train_conf, accumulate, 1, 1, 65536, "batches per optimizer step"),
    DG_ENUM(dg_train_conf, precision, 0, "f32|bf16|f64",
            "of arithmetic; bf16 keeps f32 weights, f64 runs reference kernels"),
    DG_WHEN(dg_train_conf, patience, NULL,
            "stop early when the checkpoint's best has not improved for so long"),
    DG_ENUM(dg_train_conf, on_fail, 0, "abort|vote|skip",
            "when something fails on one rank: all stop, all decide together, or this rank alone "
            "leaves out its batch"),
    DG_ENUM(dg_train_conf, capture, 0, "never|always|shape",
            "CUDA-graph capture; shape: each image size when it is met again"),
    { 0 },
};
static const dg_attr evaluate_attrs[] = {
    DG_WHEN(dg_evaluate_conf, every, NULL,
            "how often during training; only at its end if left out"),
    DG_INT(dg_evaluate_conf, on, -1, -1, 65535, "the one rank that evaluates; -1: all of them"),
    DG_WHEN(dg_evaluate_conf, budget, NULL, "how long the others may have to wait for it"),
    { 0 },
};
static const dg_attr checkpoint_attrs[] = {
    DG_STR(dg_checkpoint_attrs, to, NULL,
           "the run's folder, seen from the current one; --out goes before it"),
    DG_WHEN(dg_checkpoint_attrs, every, NULL, "how often; only at the end if left out"),
    DG_INT(dg_checkpoint_attrs, keep, 1, 1, 10000, "newest ones that are kept, beside the best"),
    { 0 },
};
static const dg_attr input_attrs[] = {
    DG_BOOL(dg_input_conf, optional, false,
            "a <use> may leave it out; what it feeds must be optional too"),
    { 0 },
};
static const dg_attr use_attrs[] = {
    DG_STR_REQUIRED(dg_use_conf, model, "id of the model"),
    { 0 },
};
static const dg_attr loop_attrs[] = {
    DG_INT(dg_loop_conf, times, 0, 0, 1e9, "how often; 0: as count says"),
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
      .brief = "Names values: $name stands for them from here on.",
      .doc = "A let is known to what follows it inside the same element. --set name=value replaces "
             "those of the pipeline's top level.",
      .free = "a name and its value" },
    { .name = "include",
      .inside = "pipeline part model train evaluate stack",
      .brief = "Puts the elements of a part's file here.",
      .doc = "file=\"...\" is relative to this file. id=\"p\" is a prefix of the ids inside "
             "(\"p.\"); @p is the part's last node.",
      .free = "a parameter: it takes the place of the part's <let> of that name" },
    { .name = "part",
      .inside = "",
      .brief = "The root of a file that others include.",
      .doc = "Its lets are its parameters with their defaults." },
    { .name = "stack",
      .inside = "model train evaluate part stack",
      .brief = "Repeats its elements, each time on the result of the time before.",
      .doc = "id and count=\"n\" are needed. @in is in=\"@...\" the first time and then the last "
             "node of the repetition before;\n"
             "$index counts from 0; ids are \"id.index.inner\"; after it, @id is the last node of "
             "the last repetition.",
      .wires = "in" },
    { .name = "model",
      .inside = "pipeline",
      .brief = "A network: nodes with parameters, used by <use>.",
      .doc = "id is needed. Its output is its last node's." },
    { .name = "train",
      .inside = "pipeline",
      .brief = "The training step.",
      CONF(dg_train_conf, train_attrs) },
    { .name = "evaluate",
      .inside = "pipeline",
      .brief = "A pass over held-out data.",
      .doc = "weights=\"@ema\" names a node of <train> that gives parameters; without it the "
             "weights are those being trained.",
      CONF(dg_evaluate_conf, evaluate_attrs),
      .wires = "weights" },
    { .name = "checkpoint",
      .inside = "pipeline",
      .brief = "Where and how often the state is saved.",
      .doc =
          "best=\"@coco.AP\" names a number of an evaluation; the best checkpoint so far is kept.",
      CONF(dg_checkpoint_attrs, checkpoint_attrs),
      .wires = "best" },
    { .name = NULL },
};

static const dg_port input_ports[] = {
    DG_OUT("out", "any", "what <use> wires to the attribute of this id"),
    { 0 },
};
static const dg_port no_ports[] = { { 0 } };
static const dg_port loop_ports[] = {
    DG_IN_OPTIONAL("count", "any", "a scalar: how often"),
    { 0 },
};
static const dg_rule loop_rules[] = {
    { DG_RULE_LOOP, .from = "count", .why = "repeats its nodes as often as it says" },
    { DG_RULE_PROVED, .why = "programs have no loops inside a step; <stack> repeats nodes a fixed "
                             "number of times" },
    { 0 },
};

const dg_node_class dg_class_input = {
    DG_NODE_CLASS,        .name = "input",      .brief = "An input of a model.",
    .ports = input_ports, .attrs = input_attrs, .conf_size = sizeof(dg_input_conf),
};
const dg_node_class dg_class_use = {
    DG_NODE_CLASS,
    .name = "use",
    .brief = "Runs a model: one wire for each of its inputs, and the ports of its last node.",
    .doc = "Every use of a model has the same parameters.",
    .ports = no_ports,
    .attrs = use_attrs,
    .conf_size = sizeof(dg_use_conf),
};

const dg_node_class dg_class_loop = {
    DG_NODE_CLASS,
    .name = "loop",
    .brief = "Repeats the nodes inside it within one iteration of its scope.",
    .doc = "Needs count=\"@...\" or times=\"n\". Nodes inside belong to the scope around it.",
    .ports = loop_ports,
    .attrs = loop_attrs,
    .conf_size = sizeof(dg_loop_conf),
    .rules = loop_rules,
};

const dg_node_class *dg_structure_class(const char *name)
{
    static const dg_node_class *const classes[] = { &dg_class_input, &dg_class_use,
                                                    &dg_class_loop };

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
