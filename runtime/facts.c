/* facts.c: what a rank says of itself at the start, and how two ranks' are compared. A graph is told node by node, so that
 * a difference can be named: a digest alone says that there is one. */
#include "runtime/facts.h"

#include <string.h>
#include <unistd.h>

#include "graph/expand.h"
#include "graph/monitor.h"
#include "tensor/print.h"

const char dg_fact_rate[] = "learning rate that was set";

typedef struct list {
    dg_arena *a;
    DG_VEC(dg_row) rows;
} list;

static void add(list *l, const char *name, const char *value)
{
    DG_PUSH(l->a, l->rows, ((dg_row){ DG_ROW_SAME, name, value }));
}

/* A path may be another one on another machine; what lies there is compared by its digest. */
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
        dg_str         s = { 0 };

        if (n->item)
            add_item(&s, n->item, n->class->attrs);
        else
            dg_str_fmt(&s, "<%s>", n->element ? n->element : n->class->name);
        dg_str_fmt(&s, "\n%s:%d:%d", n->where.file ? n->where.file : "", n->where.line, n->where.column);
        add(l, dg_printf(l->a, "node %s", n->path), dg_strdup(l->a, s.s));
        dg_str_free(&s);
    }
}

static void add_graph(list *l, const dg_run *run)
{
    const dg_graph *g = run->graph;

    for (int i = 0; i < g->n_models; i++)
        add_scope(l, g->models[i]);
    if (g->train) {
        add(l, "length of <train>", dg_printf(l->a, "%lld steps, %lld epochs, %lld batches a step", (long long)g->train->steps,
                                               (long long)g->train->epochs, (long long)g->train->accumulate));
        add_scope(l, g->train);
    }
    for (int i = 0; i < g->n_evaluates; i++)
        add_scope(l, g->evaluates[i]);
}

/* What `lower` of the nodes has made of them, without places: another version of a plugin makes something else. */
static void add_programs(list *l, const dg_run *run)
{
    for (int i = 0; i < run->buckets.n; i++) {
        const dg_program *p = run->buckets.items[i]->program;
        dg_str            s = { 0 };

        dg_str_add(&s, "");
        for (int k = 0; k < p->instrs.n; k++) {
            const dg_instr *in = &p->instrs.items[k];

            dg_str_add(&s, in->op->name);
            dg_print_attr(&s, in->op, in->attr);
            for (int v = 0; v < in->n_in + in->n_out; v++)
                dg_print_value(&s, p, in->v[v]);
            dg_print_guard(&s, in);
        }
        add(l, dg_printf(l->a, "program of <%s>", run->buckets.items[i]->scope->id),
            dg_printf(l->a, "digest %016llx", (unsigned long long)dg_hash(s.s, s.n)));
        dg_str_free(&s);
    }
}

static void add_parameters(list *l, const dg_run *run)
{
    static const char *const kinds[] = { "trainable", "frozen", "buffer", "constant", "counter" };
    char                     shape[96];

    add(l, "number of parameters", dg_printf(l->a, "%d", dg_params_n(run->params)));
    for (int i = 0; i < dg_params_n(run->params); i++) {
        const dg_param_info *p = dg_params_at(run->params, i);

        add(l, dg_printf(l->a, "parameter %d", i),
            dg_printf(l->a, "%s %s%s %s", p->name, dg_dtype_name(run->base), dg_shape_print(p->shape, shape, sizeof shape),
                      kinds[p->kind]));
    }
}

/* By these a difference in what the ranks see is named; a place is told, not compared. */
static void add_monitors(list *l, const dg_run *run)
{
    for (int i = 0; i < run->monitors->list.n; i++) {
        const dg_monitor *m = &run->monitors->list.items[i];
        const char       *port = dg_monitor_port(m);
        dg_str            value = { 0 };

        dg_monitor_declares(&value, m);
        dg_str_fmt(&value, "\n%s:%d:%d", m->node->where.file ? m->node->where.file : "", m->node->where.line, m->node->where.column);
        DG_PUSH(l->a, l->rows, ((dg_row){ DG_ROW_WATCH,
                                          dg_printf(l->a, "%s of node \"%s\"%s%s%s", dg_monitor_attribute(m), m->node->path,
                                                    *port ? " port \"" : "", port, *port ? "\"" : ""),
                                          dg_strdup(l->a, value.s) }));
        dg_str_free(&value);
    }
}

dg_rows dg_facts_of_pipeline(const dg_run *run, dg_arena *a)
{
    list l = { .a = a };
    char buf[256] = "";

    add(&l, "versions", dg_strdup(a, run->versions ? run->versions : ""));
    add(&l, "CPU", dg_strdup(a, dg_cpu_features(buf, sizeof buf)));
    add(&l, "precision", run->precision);
    add(&l, "threads of the kernels", dg_printf(a, "%d", run->env.threads));
    add(&l, "seed", dg_printf(a, "%llu", (unsigned long long)run->seed));
    add_graph(&l, run);
    add_parameters(&l, run);
    add_programs(&l, run);
    add_monitors(&l, run);
    (void)gethostname(buf, sizeof buf - 1);
    DG_PUSH(a, l.rows, ((dg_row){ DG_ROW_DISTINCT, "device", dg_printf(a, "process %ld of %s", (long)getpid(), buf) }));
    return (dg_rows){ l.rows.n, l.rows.items };
}

/* Files may be each rank's own; what a label means may not. */
static void add_classes(list *l, const dg_dataset *data)
{
    add(l, "number of classes", dg_printf(l->a, "%d", data->n_classes));
    for (int i = 0; i < data->n_classes; i++)
        add(l, dg_printf(l->a, "class %d", i), dg_printf(l->a, "category %lld, %s", (long long)data->classes[i].id, data->classes[i].name));
}

dg_rows dg_facts_of_data(const dg_run *run, const dg_identity *id, const dg_data *data, dg_arena *a)
{
    list l = { .a = a };

    if (!data->own_files) {
        add(&l, "number of images", dg_printf(a, "%d", data->set->n_items));
        add(&l, "digest of the data set", dg_printf(a, "%016llx", (unsigned long long)id->data));
    } else {
        add_classes(&l, data->set);
    }
    for (int i = 0; i < run->data.n; i++) {
        const dg_data *e = &run->data.items[i];

        if (e->scope->kind == DG_SCOPE_EVALUATE && e->scope->on < 0 && !e->own_files)
            add(&l, dg_printf(a, "digest of the data set of <%s>", e->scope->id),
                dg_printf(a, "%016llx", (unsigned long long)e->set->digest));
    }
    add(&l, "batches of an epoch", dg_printf(a, "%lld", (long long)id->per_epoch));
    add(&l, "batch", dg_printf(a, "%lld", (long long)id->batch));
    if (run->progress.lr > 0)
        add(&l, dg_fact_rate, dg_printf(a, "%g", run->progress.lr));
    add(&l, "where it begins", dg_printf(a, "step %lld, batch %lld", (long long)run->progress.step, (long long)run->progress.batch));
    return (dg_rows){ l.rows.n, l.rows.items };
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

static size_t compared(const char *value)
{
    return strcspn(value, "\n");
}

static bool equal(const dg_row *a, const dg_row *b)
{
    size_t n = compared(a->value);

    return strcmp(a->name, b->name) == 0 && n == compared(b->value) && memcmp(a->value, b->value, n) == 0;
}

/* " (b.xml:20:5)", or nothing */
static const char *place(dg_arena *a, const char *value)
{
    const char *p = strchr(value, '\n');

    return p ? dg_printf(a, " (%s)", p + 1) : "";
}

static int differ(int i, const char *const *hosts, const dg_row *mine, const dg_row *first, dg_diag *d)
{
    static const dg_row nothing = { DG_ROW_SAME, "nothing", "" };
    dg_arena           *a = dg_arena_open();
    int                 rc;

    mine = mine ? mine : &nothing;
    first = first ? first : &nothing;
    if (strcmp(mine->name, first->name) != 0)
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "DG-DIGEST", "rank %d (%s) has %s%s where rank 0 (%s) has %s%s", i, hosts[i], mine->name,
                     place(a, mine->value), hosts[0], first->name, place(a, first->value));
    else
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "DG-DIGEST", "%s: rank %d (%s) has %.*s%s, rank 0 (%s) has %.*s%s", mine->name, i, hosts[i],
                     (int)compared(mine->value), mine->value, place(a, mine->value), hosts[0], (int)compared(first->value), first->value,
                     place(a, first->value));
    dg_help(d, "every rank needs the same program, pipeline, data and options; nothing was trained");
    dg_arena_close(&a);
    return rc;
}

static int check_distinct(const dg_rows *facts, int ranks, int row, const char *const *hosts, dg_diag *d)
{
    for (int i = 1; i < ranks; i++)
        for (int k = 0; k < i; k++)
            if (row < facts[i].n && row < facts[k].n && equal(&facts[i].v[row], &facts[k].v[row]))
                return dg_fail(d, DG_EINPUT, DG_NOWHERE, "DG-DEVICE", "ranks %d (%s) and %d (%s) have the same %s: %s", k, hosts[k], i,
                               hosts[i], facts[i].v[row].name, facts[i].v[row].value);
    return 0;
}

int dg_facts_compare(const dg_rows *facts, int ranks, const char *const *hosts, dg_diag *d)
{
    int most = 0, rc = 0;

    for (int i = 0; i < ranks; i++)
        most = facts[i].n > most ? facts[i].n : most;
    for (int row = 0; row < most && rc == 0; row++) {
        const dg_row *first = row < facts[0].n ? &facts[0].v[row] : NULL;

        if (first && first->tag == DG_ROW_DISTINCT) {
            rc = check_distinct(facts, ranks, row, hosts, d);
            continue;
        }
        for (int i = 1; i < ranks && rc == 0; i++) {
            const dg_row *mine = row < facts[i].n ? &facts[i].v[row] : NULL;

            if (!mine || !first || !equal(mine, first))
                rc = differ(i, hosts, mine, first, d);
        }
    }
    return rc;
}
