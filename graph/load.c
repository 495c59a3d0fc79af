/* load.c: turns items into scopes: pipeline, plugin, mesh, model, train, evaluate, checkpoint.
 * node.c makes the nodes. */
#include "graph/edit.h"
#include "graph/load.h"

#include <stdio.h>
#include <string.h>

#include "base/beside.h"
#include "base/file.h"
#include "graph/attr.h"

/* Reads the attributes of a structural element. */
static bool read_structure(dg_loader *l, const dg_item *item, void *conf, const char *others)
{
    const dg_structure *s = dg_structure_find(item->name);

    return dg_load_attrs(l, item, dg_printf(l->arena, "<%s>", item->name), s->attrs, conf, others);
}

static void no_elements(dg_loader *l, const dg_item *item)
{
    for (const dg_item *k = item->first; k; k = k->next)
        if (k->name)
            dg_load_error(&l->report, k->frame, k->at, "element-misplaced",
                          "<%s> has no elements inside", item->name);
}

/* ---- scopes ---------------------------------------------------------------------------------- */

/* The id of a model or evaluate; NULL after an error. */
static const char *scope_id(dg_loader *l, const dg_item *item, const char *fallback)
{
    const dg_item_attr *a = dg_item_find(item, "id");

    if (!a && !fallback) {
        dg_load_error(&l->report, item->frame, item->at, "attr-missing", "<%s> needs id=\"...\"",
                      item->name);
        return NULL;
    }
    if (a && !dg_item_id_ok(&l->report, item->frame, a))
        return NULL;
    return dg_printf(l->arena, "%s%s", item->frame ? item->frame->prefix : "",
                     a ? a->value : fallback);
}

static const dg_scope *find_scope(const dg_graph *g, const char *id)
{
    for (int i = 0; i < g->n_models; i++)
        if (strcmp(g->models[i]->id, id) == 0)
            return g->models[i];
    for (int i = 0; i < g->n_evaluates; i++)
        if (strcmp(g->evaluates[i]->id, id) == 0)
            return g->evaluates[i];
    return g->train && strcmp(g->train->id, id) == 0 ? g->train : NULL;
}

static dg_scope *new_scope(dg_loader *l, const dg_item *item, dg_scope_kind kind, const char *id)
{
    dg_scope *scope = DG_NEW(l->arena, dg_scope);
    const dg_scope *other = id ? find_scope(l->g, id) : NULL;

    if (other) {
        const dg_item_attr *a = dg_item_find(item, "id");

        if (kind == DG_SCOPE_TRAIN && other->kind == kind)
            dg_load_error(&l->report, item->frame, item->at, "element-twice",
                          "a second <train>: a pipeline has one");
        else
            dg_load_error(&l->report, item->frame, a ? a->value_at : item->at, "id-twice",
                          "the id \"%s\" belongs to an earlier <%s>", id,
                          other->kind == DG_SCOPE_MODEL   ? "model"
                          : other->kind == DG_SCOPE_TRAIN ? "train"
                                                          : "evaluate");
        dg_load_error_note(&l->report, other->where, "the first stands here");
        if (kind != DG_SCOPE_TRAIN || other->kind != kind)
            dg_load_error_help(&l->report, kind == DG_SCOPE_TRAIN
                                               ? "give that one another id"
                                               : "give this one an id of its own");
    }
    scope->kind = kind;
    scope->id = id ? id : dg_printf(l->arena, "?%d", item->at.line);
    scope->where = item->at;
    scope->where.node = scope->id;
    scope->ids = dg_map_new(l->arena);
    scope->item = item;
    scope->on = -1;
    scope->prefix = item->frame ? item->frame->prefix : "";
    return scope;
}

static void collect_ids(dg_loader *l, const dg_item *item)
{
    for (const dg_item *k = item->first; k; k = k->next) {
        const dg_item_attr *a = k->name ? dg_item_find(k, "id") : NULL;

        if (a && !a->bad) {
            dg_where *at = DG_NEW(l->arena, dg_where);

            *at = a->value_at;
            dg_map_set(l->later, dg_load_id(l, k->frame, a->value), at);
        }
    }
}

/* At the end of an include or stack: its id refers to the last node inside. */
static void close_frame(dg_loader *l, const dg_frame *f)
{
    if (!f->id || !f->last || f == l->top)
        return;
    const char *id = dg_load_id(l, f->up, f->id);

    if (dg_map_has(l->scope->ids, id)) {
        dg_load_error(&l->report, f->up, f->at, "id-twice",
                      "there is a node \"%s\" in this scope already", id);
        dg_load_error_note(&l->report, ((const dg_node *)dg_map_get(l->scope->ids, id))->where,
                           "it stands here");
        return;
    }
    dg_map_set(l->scope->ids, id, f->last);
}

static void read_items(dg_loader *l, const dg_item *item)
{
    for (const dg_item *k = item->first; k; k = k->next)
        if (k->name)
            dg_load_node(l, k);
        else
            close_frame(l, k->frame);
}

static void read_nodes(dg_loader *l, const dg_item *item, dg_scope *scope)
{
    l->scope = scope;
    l->top = item->frame;
    l->later = dg_map_new(l->arena);
    l->counts = dg_map_new(l->arena);
    l->references = dg_map_new(l->arena);
    l->nodes.n = l->nodes.cap = 0; /* the previous scope keeps its array of nodes */
    l->nodes.items = NULL;
    collect_ids(l, item);
    read_items(l, item);
    scope->nodes = l->nodes.items;
    scope->n_nodes = l->nodes.n;
    l->scope = NULL;
}

/* Appends; doubles the list when n is 0, 1, 2, 4, ... */
static void append(dg_loader *l, dg_scope ***list, int *n, dg_scope *scope)
{
    if ((*n & (*n - 1)) == 0) {
        dg_scope **grown = DG_NEW_N(l->arena, *n ? 2 * *n : 1, dg_scope *);

        if (*n)
            memcpy(grown, *list, (size_t)*n * sizeof *grown);
        *list = grown;
    }
    (*list)[(*n)++] = scope;
}

static void read_model(dg_loader *l, const dg_item *item)
{
    dg_graph *g = l->g;
    dg_scope *scope = new_scope(l, item, DG_SCOPE_MODEL, scope_id(l, item, NULL));

    read_structure(l, item, scope, "id");
    read_nodes(l, item, scope);
    scope->inputs = DG_NEW_N(l->arena, scope->n_nodes, const dg_node *);
    for (int i = 0; i < scope->n_nodes; i++)
        if (scope->nodes[i]->class == &dg_class_input)
            scope->inputs[scope->n_inputs++] = scope->nodes[i];
        else
            scope->output = scope->nodes[i];
    if (!scope->output)
        dg_load_error_unless_holes(&l->report, item->frame, item->at, "model-empty",
                                   "<model id=\"%s\"> has no nodes", scope->id);
    append(l, &g->models, &g->n_models, scope);
}

/* Refuses an interval of 0. */
static void above_zero(dg_loader *l, const dg_item *item, const char *name, dg_when w)
{
    const dg_item_attr *a = dg_item_find(item, name);

    if (a && !a->bad && w.unit != DG_NEVER && w.n <= 0)
        dg_load_error(&l->report, item->frame, a->value_at, "attr-value",
                      "%s=\"%s\": expected more than 0", a->name, a->value);
}

void dg_load_minutes(dg_loader *l, const dg_item *item, const char *name, dg_when w)
{
    const dg_item_attr *a = dg_item_find(item, name);

    if (a && !a->bad && w.unit != DG_NEVER && w.unit != DG_MINUTES)
        dg_load_error(&l->report, item->frame, a->value_at, "attr-value",
                      "%s=\"%s\": expected minutes, like \"10 min\"", a->name, a->value);
}

/* What recurs is counted in what ranks agree on while they go. */
static void no_share(dg_loader *l, const dg_item *item, const char *name, dg_when w)
{
    const dg_item_attr *a = dg_item_find(item, name);

    if (a && !a->bad && w.unit == DG_SHARE)
        dg_load_error(&l->report, item->frame, a->value_at, "attr-value",
                      "%s=\"%s\": expected an interval, like \"153 steps\", \"1 epoch\" or "
                      "\"10 min\"",
                      a->name, a->value);
}

static void train_length(dg_loader *l, const dg_item *item, const dg_train_conf *conf)
{
    const dg_item_attr *steps = dg_item_find(item, "steps"), *epochs = dg_item_find(item, "epochs"),
                       *one = steps ? steps : epochs;

    if (conf->steps > 0 && conf->epochs > 0)
        dg_load_error(&l->report, item->frame, epochs->at, "train-length",
                      "<train> has both steps and epochs: one of them is its length");
    else if (conf->steps <= 0 && conf->epochs <= 0 && one)
        dg_load_error(&l->report, item->frame, one->value_at, "train-length",
                      "%s=\"%s\": a training has at least one", one->name, one->value);
    else if (conf->steps <= 0 && conf->epochs <= 0)
        dg_load_error(&l->report, item->frame, item->at, "train-length",
                      "<train> needs steps=\"...\" or epochs=\"...\"");
}

static void read_train(dg_loader *l, const dg_item *item)
{
    dg_train_conf conf = { 0 };
    dg_scope *scope = new_scope(l, item, DG_SCOPE_TRAIN, "train");

    if (read_structure(l, item, &conf, NULL)) {
        train_length(l, item, &conf);
        above_zero(l, item, "patience", conf.patience);
    }
    scope->steps = conf.steps;
    scope->epochs = conf.epochs;
    scope->accumulate = conf.accumulate;
    scope->precision = conf.precision;
    scope->patience = conf.patience;
    scope->on_fail = conf.on_fail;
    read_nodes(l, item, scope);
    if (!l->g->train)
        l->g->train = scope;
}

/* True if the node outputs parameters other than its input's. */
static bool averages(const dg_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (node->in_types[i]->kind == DG_TYPE_PARAMETERS)
            return true;
    return node->broken;
}

static void read_evaluate(dg_loader *l, const dg_item *item)
{
    dg_graph *g = l->g;
    dg_evaluate_conf conf = { 0 };
    dg_scope *scope = new_scope(l, item, DG_SCOPE_EVALUATE, scope_id(l, item, "evaluate"));
    const dg_item_attr *weights = dg_item_find(item, "weights");
    const char *rest;

    if (read_structure(l, item, &conf, "id weights")) {
        above_zero(l, item, "every", conf.every);
        no_share(l, item, "every", conf.every);
        dg_load_minutes(l, item, "budget", conf.budget);
    }
    scope->every = conf.every;
    scope->budget = conf.budget;
    scope->on = conf.on;
    if (weights) {
        scope->weights =
            dg_load_upward(l, item, weights, &g->train, g->train ? 1 : 0, "<train>", &rest);
        bool gives = scope->weights && scope->weights->broken;

        for (int i = 0; scope->weights && i < scope->weights->n_out; i++)
            gives |= scope->weights->out_contracts[i]->kind == DG_TYPE_PARAMETERS;
        if (scope->weights && (!gives || *rest)) {
            dg_load_error(&l->report, item->frame, weights->value_at, "weights-kind",
                          "weights=\"%s\": %s gives no parameters", weights->value,
                          dg_node_called(l->arena, scope->weights));
            dg_load_error_note(&l->report, scope->weights->where, "it stands here");
        } else if (scope->weights && !averages(scope->weights)) {
            scope->weights = NULL; /* an optimizer outputs the weights being trained */
        }
    }
    read_nodes(l, item, scope);
    append(l, &g->evaluates, &g->n_evaluates, scope);
}

static void read_best(dg_loader *l, const dg_item *item, const dg_item_attr *a)
{
    dg_checkpoint_conf *c = &l->g->checkpoint;
    const dg_node *node =
        dg_load_upward(l, item, a, l->g->evaluates, l->g->n_evaluates, "<evaluate>", &c->best_key);
    bool measures = node && node->broken;

    for (int i = 0; node && i < node->n_out; i++)
        if (node->out_contracts[i]->kind == DG_TYPE_METRICS) {
            size_t len = strlen(node->out_ports[i]->name);

            measures = true;
            if (strncmp(c->best_key, node->out_ports[i]->name, len) == 0 && c->best_key[len] == '.')
                c->best_key += len + 1; /* @coco.metrics.AP means @coco.AP */
        }
    c->best = node;
    c->best_attr = a;
    if (node && (!measures || !*c->best_key)) {
        dg_load_error(&l->report, item->frame, a->value_at, "best-kind",
                      "best=\"%s\": expected a number of an evaluation, like \"@coco.AP\"",
                      a->value);
        dg_load_error_note(&l->report, node->where, "%s stands here",
                           dg_node_called(l->arena, node));
    }
}

static void read_checkpoint(dg_loader *l, const dg_item *item)
{
    dg_checkpoint_conf *c = &l->g->checkpoint;
    dg_checkpoint_attrs conf = { 0 };
    const dg_item_attr *best = dg_item_find(item, "best");

    no_elements(l, item);
    if (read_structure(l, item, &conf, "best")) {
        above_zero(l, item, "every", conf.every);
        no_share(l, item, "every", conf.every);
    }
    if (c->present) {
        dg_load_error(&l->report, item->frame, item->at, "element-twice",
                      "a second <checkpoint>: a pipeline has one");
        dg_load_error_note(&l->report, c->where, "the first stands here");
        return;
    }
    *c = (dg_checkpoint_conf){
        .present = true, .where = item->at, .to = conf.to, .every = conf.every, .keep = conf.keep
    };
    if (best)
        read_best(l, item, best);
}

static void read_mesh(dg_loader *l, const dg_item *item)
{
    dg_mesh_conf conf = { 0 };

    no_elements(l, item);
    bool whole = read_structure(l, item, &conf, NULL);

    if (l->g->axis)
        dg_load_error(&l->report, item->frame, item->at, "element-twice",
                      "a second <mesh>: a pipeline has one");
    l->g->axis = "dp";
    if (!whole)
        return;
    l->g->mesh = (dg_mesh){ .item = item, .tp = conf.tp };
    l->g->ranks_open = strcmp(conf.dp, "ranks") == 0;
    if (l->g->ranks_open)
        l->g->ranks = 1;
    else if (!dg_parse_i64(conf.dp, &l->g->ranks) || l->g->ranks < 1 || l->g->ranks > 65536)
        dg_load_error(&l->report, item->frame, dg_item_find(item, "dp")->value_at, "attr-value",
                      "dp=\"%s\": expected a number of ranks from 1 to 65536, or \"ranks\"",
                      conf.dp);
}

static void read_plugin(dg_loader *l, const dg_item *item)
{
    dg_plugin_conf conf = { 0 };

    no_elements(l, item);
    bool read = read_structure(l, item, &conf, NULL);
    int loaded = read ? dg_registry_load(l->g->registry, conf.path,
                                         dg_item_find(item, "path")->value_at, l->report.diag)
                      : 0;

    l->report.n += loaded < 0;
    l->report.holes |= !read || loaded < 0; /* its classes would be reported as unknown */
}

static void misplaced(dg_loader *l, const dg_item *item)
{
    const dg_structure *s = dg_structure_find(item->name);
    const dg_node_class *c = dg_registry_find(l->g->registry, item->name);
    const char *names[16];
    int n = 0;

    if (s || c || dg_structure_class(item->name)) {
        dg_load_error(&l->report, item->frame, item->at, "element-misplaced",
                      "<%s> does not stand inside <pipeline> itself", item->name);
        dg_load_error_help(&l->report,
                           strcmp(item->name, "input") == 0 ? "inputs stand inside <model>"
                           : strcmp(item->name, "part") == 0
                               ? "a part is a file of its own, for <include file=\"...\"/>"
                           : strcmp(item->name, "pipeline") == 0
                               ? "a pipeline is a file's outermost element"
                               : "nodes stand inside <model>, <train> or <evaluate>");
        return;
    }
    for (s = dg_structures; s->name; s++)
        if (dg_is_among(s->inside, "pipeline"))
            names[n++] = s->name;
    dg_load_error(&l->report, item->frame, item->at, "element-unknown", "there is no element <%s>",
                  item->name);
    dg_load_error_nearest(&l->report, item->name, names, n, "inside <pipeline> stand");
}

static void read_top(dg_loader *l, const dg_item *item)
{
    static const struct {
        const char *name;
        void (*read)(dg_loader *l, const dg_item *item);
    } rows[] = {
        { "plugin", read_plugin }, { "mesh", read_mesh },         { "model", read_model },
        { "train", read_train },   { "evaluate", read_evaluate }, { "checkpoint", read_checkpoint },
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].name, item->name) == 0) {
            rows[i].read(l, item);
            return;
        }
    misplaced(l, item);
}

/* What a <checkpoint> could choose by: a score of the first evaluation. */
static void help_best(dg_loader *l)
{
    const dg_graph *g = l->g;
    const dg_scope *s = g->n_evaluates ? g->evaluates[0] : NULL;
    const dg_item at = { .name = "checkpoint", .at = g->checkpoint.where };

    for (int i = 0; s && g->checkpoint.present && i < s->n_nodes; i++)
        if (strcmp(s->nodes[i]->element, "evaluate.coco") == 0) {
            dg_load_error_help(&l->report, "%s",
                               dg_edit_write_part(g, &at, "best",
                                                  dg_printf(l->arena, "@%s.AP", s->nodes[i]->id)));
            return;
        }
    dg_load_error_help(&l->report, "like <checkpoint best=\"@coco.AP\"/> after <evaluate>");
}

static void read_pipeline(dg_loader *l, const dg_item *root)
{
    dg_pipeline_conf conf = { 0 };

    if (strcmp(root->name, "pipeline") != 0) {
        dg_load_error(&l->report, NULL, root->at, "pipeline-root",
                      "the outermost element is <%s>, expected <pipeline>", root->name);
        if (strcmp(root->name, "part") == 0)
            dg_load_error_help(&l->report,
                               "this file is a part: pipelines use it by <include file=\"...\"/>");
        return;
    }
    read_structure(l, root, &conf, NULL);
    l->g->name = conf.name ? conf.name : dg_path_name(l->g->file);
    l->g->seed = (uint64_t)conf.seed;
    l->g->digest = conf.digest;
    l->g->root = root;
    for (const dg_item *k = root->first; k; k = k->next)
        if (k->name)
            read_top(l, k);
    if (l->g->train && l->g->train->patience.unit != DG_NEVER && !l->g->checkpoint.best_key) {
        dg_load_error_unless_holes(&l->report, NULL, l->g->train->where, "patience-best",
                                   "<train> has patience, but no <checkpoint best=\"@...\"> says "
                                   "what has to become better");
        help_best(l);
    }
    if (!l->g->train && !l->g->n_evaluates)
        dg_load_error_unless_holes(&l->report, NULL, root->at, "pipeline-empty",
                                   "nothing to do: a pipeline has a <train> or an <evaluate>");
}

int dg_graph_parse(dg_graph **out, const char *text, size_t n, const char *file, const dg_set *sets,
                   int n_sets, dg_registry *registry, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_graph *g = DG_NEW(a, dg_graph);
    dg_loader l = { .g = g,
                    .arena = a,
                    .report = { .arena = a, .diag = d, .seen = dg_map_new(a) } };
    dg_item *root;

    g->arena = a;
    g->file = dg_strdup(a, file);
    g->name = g->file;
    g->registry = registry;
    g->sources = dg_map_new(a);
    g->dims.arena = a;
    g->ranks = 1;
    *out = g;
    int rc =
        dg_items_read(&root, &l.report, text, n, g->file, sets, n_sets, g->sources, &g->open_batch);

    if (rc == 0)
        read_pipeline(&l, root);
    dg_diag_sort(d);
    return l.report.n || rc < 0 ? -DG_EINPUT : 0;
}

/* Documents call the pipelines that come with detrgraph by their names: says where one is. */
static void name_own(const char *file, dg_diag *d)
{
    const char *name = dg_path_name(file);
    char own[4096], path[4096];
    dg_str word = { 0 };

    snprintf(own, sizeof own, "pipelines/%s%s", name, dg_path_ends(name, ".xml") ? "" : ".xml");
    if (dg_exists(file) || !dg_find_beside(path, sizeof path, own))
        return;
    dg_str_shell(&word, path);
    dg_help(d, "detrgraph has one of this name: %s", word.s);
    dg_str_free(&word);
}

int dg_graph_load(dg_graph **g, const char *file, const dg_set *sets, int n_sets,
                  dg_registry *registry, dg_diag *d)
{
    char *text;
    size_t n;
    int rc = dg_file_read(&text, &n, file, DG_XML_MAX_BYTES, d);

    *g = NULL;
    if (rc < 0) {
        name_own(file, d);
        return rc;
    }
    rc = dg_graph_parse(g, text, n, file, sets, n_sets, registry, d);
    dg_free(text);
    return rc;
}
