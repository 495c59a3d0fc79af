/* data.c: the data sets of a run's scopes, and streams of batches from them. */
#include "runtime/session.h"

#include <string.h>

#include "base/file.h"
#include "graph/expand.h"
#include "graph/vary.h"
#include "runtime/datareport.h"

static const dg_data *find(const dg_run *run, const dg_scope *scope)
{
    for (int i = 0; i < run->data.n; i++)
        if (run->data.items[i].scope == scope)
            return &run->data.items[i];
    return NULL;
}

/* Labels count from 0 to the data's classes: a node that knows fewer would look them up past its tables. */
static int check_classes(const dg_scope *owner, const dg_scope *scope, const dg_dataset *data, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < owner->n_nodes; i++) {
        const dg_node *node = owner->nodes[i];
        int64_t        n = node->class->classes ? node->class->classes(node->conf) : data->n_classes;

        if (n >= data->n_classes)
            continue;
        rc = dg_fail(d, DG_EINPUT, node->where, "data-classes", "%s has %d classes, <%s id=\"%s\"> has classes=\"%lld\"",
                     data->name, data->n_classes, node->class->name, node->id, (long long)n);
        dg_note(d, scope->where, "<%s> uses these data", scope->id);
        dg_help(d, "say classes=\"%d\", or take the classes that are not wanted out of the file", data->n_classes);
    }
    return rc;
}

static int check_all_classes(const dg_run *run, const dg_scope *scope, const dg_dataset *data, dg_diag *d)
{
    int rc = check_classes(scope, scope, data, d);

    for (int m = 0; m < run->graph->n_models; m++) {
        int own = check_classes(run->graph->models[m], scope, data, d);

        rc = rc ? rc : own;
    }
    return rc;
}

/* Classes are numbered by the categories of each file: two files that list others would mean others by one number. */
static int check_categories(const dg_run *run, const dg_scope *scope, const dg_dataset *data, dg_diag *d)
{
    for (int i = 0; i < run->data.n; i++) {
        const dg_dataset *other = run->data.items[i].set;

        for (int k = 0; k < data->n_classes && k < other->n_classes; k++) {
            const dg_coco_class *a = &data->classes[k], *b = &other->classes[k];

            if (a->id == b->id || strcmp(a->name, b->name) == 0)
                continue;
            dg_fail(d, DG_EINPUT, scope->where, "data-categories",
                    "class %d is category %lld, %s, in %s, and category %lld, %s, in %s", k, (long long)a->id, a->name,
                    data->name, (long long)b->id, b->name, other->name);
            dg_note(d, run->data.items[i].scope->where, "<%s> uses that one", run->data.items[i].scope->id);
            dg_help(d, "list the same categories in both files, those without objects too");
            return -DG_EINPUT;
        }
    }
    return 0;
}

/* Texts of a loader whose ranks have files of their own: {rank} becomes this rank's number. */
static void name_rank(dg_run *run, const dg_node *loader)
{
    for (const dg_attr *a = loader->class->attrs; a && a->name; a++) {
        const char **text = (const char **)(void *)((char *)loader->conf + a->offset), *at;

        if (a->kind != DG_ATTR_STR && a->kind != DG_ATTR_PATH)
            continue;
        while (*text && (at = strstr(*text, "{rank}")))
            *text = dg_printf(run->arena, "%.*s%d%s", (int)(at - *text), *text, run->world.rank, at + strlen("{rank}"));
    }
}

static const dg_item_attr *attribute(const dg_item *item, const char *name)
{
    for (int i = 0; i < item->n_attrs; i++)
        if (strcmp(item->attrs[i].name, name) == 0)
            return &item->attrs[i];
    return NULL;
}

/* There is no such folder, and it is that of root="$data" in the pipeline's own file: the command line may name another. */
static void help_find(dg_run *run, const dg_node *loader, dg_diag *d)
{
    const dg_item_attr *root = attribute(loader->item, "root");
    size_t              n;
    const char         *text = dg_graph_source(run->graph, run->graph->file, &n), *end = text + n;

    if (!root || !text || loader->item->frame || dg_exists(root->value) ||
        (root->folder && dg_exists(dg_path_join(run->arena, root->folder, root->value))))
        return;
    for (int line = 1; line < root->value_at.line && text; line++)
        text = (text = memchr(text, '\n', (size_t)(end - text))) ? text + 1 : NULL;
    if (text && root->value_at.column > 0 && end - text > root->value_at.column && text[root->value_at.column - 1] == '$') {
        text += root->value_at.column;
        dg_help(d, "--set %.*s=DIR says where the data are", (int)strcspn(text, "\"'/"), text);
    }
}

int dg_run_data(dg_run *run, const dg_scope *scope, const dg_data **data, dg_diag *d)
{
    dg_data new = { .scope = scope, .faults = { .arena = run->arena, .split = -1 } };
    int     rc;

    *data = find(run, scope);
    if (*data)
        return 0;
    DG_TRY(dg_run_chain(scope, &new.chain, d));
    new.own_files = dg_node_has_row(run->graph, new.chain.loader, DG_RULE_VALUE);
    if (new.own_files)
        name_rank(run, new.chain.loader);
    rc = new.chain.loader->class->open(&new.set, new.chain.loader->conf, new.own_files ? (uint64_t)run->world.rank : run->seed, d);
    if (rc < 0) {
        dg_note(d, new.chain.loader->where, "<%s id=\"%s\"> asks for it", new.chain.loader->class->name, new.chain.loader->id);
        if (rc == -DG_EIO)
            help_find(run, new.chain.loader, d);
        return rc;
    }
    if (!new.set->name) /* it is for messages: a loader of somebody else's may have left it out */
        new.set->name = new.chain.loader->id;
    DG_PUSH(run->arena, run->data, new);
    *data = find(run, scope);
    DG_TRY(check_all_classes(run, scope, new.set, d));
    DG_TRY(check_categories(run, scope, new.set, d));
    DG_TRY(dg_data_report_log(&run->env, &run->data.items[run->data.n - 1], run->world.local_rank == 0 || new.own_files, d));
    dg_run_log_warnings(run, d);
out:
    return rc;
}

/* The feeds that the scope's program takes: its inputs without the batch node's id. */
static int wanted(dg_run *run, const dg_scope *scope, const dg_node *batch, const char *const **keys)
{
    size_t       len = strlen(batch->id);
    const char **list = NULL;
    int          n = 0;

    for (int i = 0; i < run->buckets.n && !list; i++) {
        const dg_program *p = run->buckets.items[i]->program;

        if (run->buckets.items[i]->scope != scope)
            continue;
        list = DG_NEW_N(run->arena, p->inputs.n + 1, const char *);
        for (int k = 0; k < p->inputs.n; k++)
            if (strncmp(p->inputs.items[k].name, batch->id, len) == 0 && p->inputs.items[k].name[len] == '.')
                list[n++] = p->inputs.items[k].name + len + 1;
    }
    *keys = list;
    return n;
}

/* Over all ranks. Who asks with less than 0 has failed, and the others end with it. */
static int64_t least(void *ctx, int64_t n, dg_diag *d)
{
    const dg_world *w = ctx;
    double          x = (double)n;
    int64_t         ticket;
    int             rc = w->comm->start(w->comm, (dg_tensor){ DG_F64, DG_SCALAR, &x }, DG_MIN, &ticket);

    rc = rc < 0 ? rc : w->comm->wait(w->comm, ticket);
    if (rc < 0)
        return dg_fail(d, (dg_code)-rc, DG_NOWHERE, "collective-failed", "while the ranks counted what they have: %s", w->comm->why);
    return x < 0 && n >= 0 ? dg_fail(d, DG_ESTOP, DG_NOWHERE, "rank-failed",
                                     "another rank could not go on while the ranks counted what they have; see what it says")
                           : (int64_t)x;
}

/* Has each rank images of its own: files that only it sees, a part of what all have, or an order that it draws itself? */
static bool is_own(const dg_graph *g, const dg_chain *c)
{
    bool own = dg_node_has_row(g, c->loader, DG_RULE_VALUE) || dg_node_has_row(g, c->sampler, DG_RULE_VALUE);

    for (int i = 0; i < c->n_choices; i++)
        own |= dg_node_has_row(g, c->choices[i], DG_RULE_VALUE);
    return own;
}

static dg_planning planning(dg_run *run, const dg_data *data)
{
    const dg_chain *c = &data->chain;
    bool            many = run->world.ranks > 1;
    dg_planning     p = {
        .chain = c,
        .data = data->set,
        .seed = run->seed,
        .rank = run->world.rank,
        .ranks = run->world.ranks,
        .whole = many && !dg_run_shares(run, c->sampler),
        .own = many && data->scope->on < 0 && is_own(run->graph, c),
        .least = many ? least : NULL,
        .ctx = &run->world,
    };

    for (int i = 0; i < c->n_choices; i++)
        if (many && dg_run_shares(run, c->choices[i])) {
            p.dealt |= 1u << i;
            p.joint |= dg_node_has_row(run->graph, c->choices[i], DG_RULE_EQUAL);
        }
    return p;
}

bool dg_run_deals(dg_run *run, const dg_data *data)
{
    return planning(run, data).own;
}

bool dg_run_plans_by_ranks(const dg_run *run, const dg_chain *c)
{
    bool by_ranks = is_own(run->graph, c) && !dg_run_shares(run, c->sampler);

    for (int i = 0; i < c->n_choices; i++)
        by_ranks |= dg_run_shares(run, c->choices[i]);
    return by_ranks;
}

bool dg_run_endless(const dg_run *run, const dg_data *data)
{
    return dg_node_has_row(run->graph, data->chain.sampler, DG_RULE_ENDLESS);
}

int dg_run_length(dg_run *run, const dg_data *data, int64_t epoch, int64_t *n, int64_t *dropped, dg_diag *d)
{
    const dg_planning p = planning(run, data);
    int               rc = dg_stream_length(n, &p, epoch, dropped, d);

    if (run->world.ranks == 1 || !dg_run_endless(run, data))
        return rc;
    *n = least(&run->world, rc < 0 ? -1 : *n, d);
    return rc < 0 ? rc : *n < 0 ? (int)*n : 0;
}

static dg_drawn drawn_by(const dg_run *run, const dg_node *node)
{
    return dg_node_has_row(run->graph, node, DG_RULE_CORRELATED) ? DG_DRAWN_ALIKE
           : dg_node_has_row(run->graph, node, DG_RULE_VALUE)    ? DG_DRAWN_BY_RANK
                                                                 : DG_DRAWN_BY_SAMPLE;
}

typedef struct sizing {
    const dg_run  *run;
    const dg_node *node;
} sizing;

/* <resize>: number `size` of its list. */
static dg_size size_of(void *ctx, int64_t number, const dg_clock *clock)
{
    const sizing  *s = ctx;
    const dg_size *sizes;
    int            unused, root, n = s->node->class->sizes(s->node->conf, &sizes, &unused);
    const dg_node *from = dg_wire_foreseen(dg_resize_wire(s->node), &root);
    double         x = dg_run_foresee(s->run, from, root < 0 ? s->run->world.rank : root, number, clock);

    return sizes[x >= n - 1 ? n - 1 : x > 0 ? (int)x : 0];
}

int dg_run_stream(dg_run *run, const dg_scope *scope, const dg_progress *p, int64_t epochs, dg_stream **s, dg_diag *d)
{
    const dg_data *data;
    int            rc = dg_run_data(run, scope, &data, d);

    if (rc < 0)
        return rc;

    dg_stream_conf conf = {
        .plan = planning(run, data),
        .accumulate = scope->accumulate > 0 ? scope->accumulate : 1,
        .n_steps = run->n_steps,
        .n_epochs = run->n_epochs,
        .epochs = epochs,
        .period = dg_run_endless(run, data) ? run->per_epoch : 0,
        .still = scope->kind == DG_SCOPE_EVALUATE,
        .now = { .step = run->progress.step, .epoch = run->progress.epoch, .n_steps = run->n_steps, .n_epochs = run->n_epochs,
                 .steps_per_epoch = run->per_epoch },
        .threads = run->env.threads,
        .ahead = 4,
    };

    if (p) {
        conf.number = p->batch;
        conf.epoch = p->epoch;
        conf.index = p->index;
    }
    conf.one_plan = conf.plan.dealt != 0; /* ranks may have to agree on a plan: this thread makes it */
    for (int i = 0; i < data->chain.n_items; i++)
        conf.drawn[i] = drawn_by(run, data->chain.items[i]);
    if (data->chain.resize) {
        sizing *ctx = DG_NEW(run->arena, sizing);

        *ctx = (sizing){ run, data->chain.resize };
        conf.resize = size_of;
        conf.resize_ctx = ctx;
    }
    conf.n_keys = wanted(run, scope, data->chain.batch, &conf.keys);
    return dg_stream_open(s, &conf, d);
}
