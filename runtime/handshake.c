/* handshake.c: the facts that a rank reports at the start. Graphs are reported node by node, so
 * that a difference can be named; a digest alone would only show that there is one. */
#include "runtime/handshake.h"

#include <string.h>
#include <unistd.h>

#include "graph/expand.h"
#include "graph/monitor.h"
#include "tensor/print.h"

typedef struct list {
    dg_arena *a;
    DG_VEC(dg_row) rows;
} list;

static void add_row(list *l, const char *name, const char *value)
{
    DG_PUSH(l->a, l->rows, ((dg_row){ DG_ROW_SAME, name, value }));
}

/* True for paths: they may differ between machines; digests compare the contents. */
static bool is_path(const dg_attr *attrs, const char *name)
{
    for (const dg_attr *x = attrs; x && x->name; x++)
        if (strcmp(x->name, name) == 0)
            return x->kind == DG_ATTR_PATH;
    return strcmp(name, "root") == 0 || strcmp(name, "path") == 0 || strcmp(name, "to") == 0;
}

static void add_item(dg_str *s, const dg_item *item, const dg_attr *attrs)
{
    dg_str_fmt(s, "<%s", item->name);
    for (int i = 0; i < item->n_attrs; i++)
        if (!is_path(attrs, item->attrs[i].name))
            dg_str_fmt(s, " %s=\"%s\"", item->attrs[i].name, item->attrs[i].value);
    dg_str_add(s, ">");
    for (const dg_item *c = item->first; c; c = c->next)
        if (c->name)
            add_item(s, c, NULL);
}

static void add_scope(list *l, const dg_scope *scope)
{
    for (int i = 0; i < scope->n_nodes; i++) {
        const dg_node *n = scope->nodes[i];
        dg_str s = { 0 };

        if (n->item)
            add_item(&s, n->item, n->class->attrs);
        else
            dg_str_fmt(&s, "<%s>", n->element ? n->element : n->class->name);
        dg_str_fmt(&s, "\n%s:%d:%d", n->where.file ? n->where.file : "", n->where.line,
                   n->where.column);
        add_row(l, dg_printf(l->a, "node %s", n->path), dg_strdup(l->a, s.s));
        dg_str_free(&s);
    }
}

static void add_graph(list *l, const dg_graph *g)
{
    for (int i = 0; i < g->n_models; i++)
        add_scope(l, g->models[i]);
    if (g->train) {
        add_row(l, "length of <train>",
                dg_printf(l->a, "%lld steps, %lld epochs, %lld batches a step",
                          (long long)g->train->steps, (long long)g->train->epochs,
                          (long long)g->train->accumulate));
        add_scope(l, g->train);
    }
    for (int i = 0; i < g->n_evaluates; i++)
        add_scope(l, g->evaluates[i]);
}

/* Adds what `lower` has made of the nodes, without positions: another version of a plugin makes
 * something else. */
static void add_programs(list *l, const dg_programs *g)
{
    for (int i = 0; i < g->compiled.n; i++) {
        const dg_program *p = g->compiled.items[i]->program;
        dg_str s = { 0 };

        dg_str_add(&s, "");
        for (int k = 0; k < p->instrs.n; k++) {
            const dg_instr *in = &p->instrs.items[k];

            dg_str_add(&s, in->op->name);
            dg_print_attr(&s, in->op, in->attr);
            for (int v = 0; v < in->n_in + in->n_out; v++)
                dg_print_value(&s, p, in->v[v]);
            dg_print_guard(&s, in);
        }
        add_row(l, dg_printf(l->a, "program of <%s>", g->compiled.items[i]->scope->id),
                dg_printf(l->a, "digest %016llx", (unsigned long long)dg_fnv1a(s.s, s.n)));
        dg_str_free(&s);
    }
}

static void add_parameters(list *l, const dg_programs *g)
{
    const dg_params *params = g->conf.params;
    static const char *const kinds[] = { "trainable", "frozen", "buffer", "constant", "counter" };
    char shape[96];

    add_row(l, "number of parameters", dg_printf(l->a, "%d", dg_params_n(params)));
    for (int i = 0; i < dg_params_n(params); i++) {
        const dg_param_info *p = dg_params_at(params, i);

        add_row(l, dg_printf(l->a, "parameter %d", i),
                dg_printf(l->a, "%s %s%s %s", p->name, dg_dtype_name(g->conf.base),
                          dg_shape_print(p->shape, shape, sizeof shape), kinds[p->kind]));
    }
}

/* Adds the monitors, to name differences in monitored values; positions are reported, not
 * compared. */
static void add_monitors(list *l, const dg_monitors *monitors)
{
    for (int i = 0; i < monitors->list.n; i++) {
        const dg_monitor *m = &monitors->list.items[i];
        const char *port = dg_monitor_port(m);
        dg_str value = { 0 };

        dg_monitor_declares(&value, m);
        dg_str_fmt(&value, "\n%s:%d:%d", m->node->where.file ? m->node->where.file : "",
                   m->node->where.line, m->node->where.column);
        DG_PUSH(l->a, l->rows,
                ((dg_row){ DG_ROW_MONITOR,
                           dg_printf(l->a, "%s of node \"%s\"%s%s%s", dg_monitor_attribute(m),
                                     m->node->path, *port ? " port \"" : "", port,
                                     *port ? "\"" : ""),
                           dg_strdup(l->a, value.s) }));
        dg_str_free(&value);
    }
}

dg_rows dg_facts_of_pipeline(const dg_pipeline *p, const dg_programs *g, dg_arena *a)
{
    list l = { .a = a };
    char buf[256] = "";

    add_row(&l, "versions", dg_strdup(a, p->versions));
    add_row(&l, "CPU", dg_strdup(a, dg_cpu_features(buf, sizeof buf)));
    add_row(&l, "precision", g->precision);
    add_row(&l, "threads of the kernels", dg_printf(a, "%d", g->conf.threads));
    add_row(&l, "seed", dg_printf(a, "%llu", (unsigned long long)p->seed));
    add_graph(&l, p->graph);
    add_parameters(&l, g);
    add_programs(&l, g);
    add_monitors(&l, p->monitors);
    (void)gethostname(buf, sizeof buf - 1);
    DG_PUSH(a, l.rows,
            ((dg_row){ DG_ROW_DISTINCT, "device",
                       dg_printf(a, "process %ld of %s", (long)getpid(), buf) }));
    return (dg_rows){ l.rows.n, l.rows.items };
}

/* Files may differ per rank; the meaning of labels may not. */
static void add_classes(list *l, const dg_dataset *data)
{
    add_row(l, "number of classes", dg_printf(l->a, "%d", data->n_classes));
    for (int i = 0; i < data->n_classes; i++)
        add_row(l, dg_printf(l->a, "class %d", i),
                dg_printf(l->a, "category %lld, %s", (long long)data->classes[i].id,
                          data->classes[i].name));
}

/* Names the nodes that plan an epoch: one of them is wrong if ranks differ. Their places stand
 * behind the line break, reported and not compared: ranks may have the file under other names. */
static void add_epoch(list *l, const dg_data *data, int64_t batches)
{
    const dg_chain *c = &data->chain;
    const char *name = "batches of an epoch, which follow from", *at = "";

    for (int i = 0; i <= c->n_choices; i++) {
        const dg_node *n = i < c->n_choices ? c->choices[i] : c->sampler;

        name = dg_printf(l->a, "%s%s <%s id=\"%s\">", name, i ? " and" : "", n->element, n->id);
        at = dg_printf(l->a, "%s%s%s:%d", at, i ? ", " : "", n->where.file, n->where.line);
    }
    add_row(l, name, dg_printf(l->a, "%lld\n%s", (long long)batches, at));
}

dg_rows dg_facts_of_data(const dg_data_sets *sets, const dg_data *train, const dg_identity *id,
                         const dg_progress *at, dg_arena *a)
{
    list l = { .a = a };

    if (!train->own_files) {
        add_row(&l, "number of images", dg_printf(a, "%d", train->set->n_items));
        add_row(&l, "digest of the data set",
                dg_printf(a, "%016llx", (unsigned long long)id->data));
    } else {
        add_classes(&l, train->set);
    }
    for (int i = 0; i < sets->open.n; i++) {
        const dg_data *e = sets->open.items[i];

        if (e->scope->kind == DG_SCOPE_EVALUATE && e->scope->on < 0 && !e->own_files)
            add_row(&l, dg_printf(a, "digest of the data set of <%s>", e->scope->id),
                    dg_printf(a, "%016llx", (unsigned long long)e->set->digest));
    }
    add_epoch(&l, train, id->per_epoch);
    add_row(&l, "batch", dg_printf(a, "%lld", (long long)id->batch));
    if (at->lr > 0)
        add_row(&l, dg_fact_rate, dg_printf(a, "%g", at->lr));
    add_row(&l, "where it begins",
            dg_printf(a, "step %lld, batch %lld", (long long)at->step, (long long)at->batch));
    return (dg_rows){ l.rows.n, l.rows.items };
}
