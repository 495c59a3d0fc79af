/* data.c: opens the data sets of a run's scopes, and feeders of batches from them. */
#include "runtime/data.h"

#include <string.h>

#include "base/file.h"
#include "graph/expand.h"
#include "graph/foreseen.h"
#include "graph/rule.h"
#include "media/layout.h"
#include "runtime/data_report.h"
#include "runtime/programs.h"
#include "runtime/step.h"

void dg_data_sets_close(dg_data_sets *s)
{
    for (int i = 0; i < s->open.n; i++)
        s->open.items[i]->set->close(s->open.items[i]->set->self);
    s->open.n = 0;
}

static dg_data *find_data(const dg_data_sets *s, const dg_scope *scope)
{
    for (int i = 0; i < s->open.n; i++)
        if (s->open.items[i]->scope == scope)
            return s->open.items[i];
    return NULL;
}

/* Refuses data with more classes than a node knows: its tables would be read out of bounds. */
static int check_classes(const dg_scope *owner, const dg_scope *scope, const dg_dataset *data,
                         dg_diag *d)
{
    int rc = 0;

    for (int i = 0; i < owner->n_nodes; i++) {
        const dg_node *node = owner->nodes[i];
        int64_t n = node->class->classes ? node->class->classes(node->conf) : data->n_classes;

        if (n >= data->n_classes)
            continue;
        rc = dg_fail(d, DG_EINPUT, node->where, "data-classes",
                     "%s has %d classes, <%s id=\"%s\"> has classes=\"%lld\"", data->name,
                     data->n_classes, node->class->name, node->id, (long long)n);
        dg_note(d, scope->where, "<%s> uses these data", scope->id);
        dg_help(d, "say classes=\"%d\", or take the classes that are not wanted out of the file",
                data->n_classes);
    }
    return rc;
}

static int check_all_classes(const dg_graph *g, const dg_scope *scope, const dg_dataset *data,
                             dg_diag *d)
{
    int rc = check_classes(scope, scope, data, d);

    for (int m = 0; m < g->n_models; m++) {
        int own = check_classes(g->models[m], scope, data, d);

        rc = rc ? rc : own;
    }
    return rc;
}

/* Refuses files with different categories: each file's categories number the classes, so one number
 * would mean different classes. */
static int check_categories(const dg_data_sets *s, const dg_scope *scope, const dg_dataset *data,
                            dg_diag *d)
{
    for (int i = 0; i < s->open.n; i++) {
        const dg_scope *first = s->open.items[i]->scope;
        const dg_dataset *other = s->open.items[i]->set;

        for (int k = 0; k < data->n_classes && k < other->n_classes; k++) {
            const dg_coco_class *a = &data->classes[k], *b = &other->classes[k];

            if (a->id == b->id || strcmp(a->name, b->name) == 0)
                continue;
            dg_fail(d, DG_EINPUT, scope->where, "data-categories",
                    "class %d is category %lld, %s, in %s, and category %lld, %s, in %s", k,
                    (long long)a->id, a->name, data->name, (long long)b->id, b->name, other->name);
            dg_note(d, first->where, "<%s> uses that one", first->id);
            dg_help(d, "list the same categories in both files, those without objects too");
            return -DG_EINPUT;
        }
    }
    return 0;
}

/* Replaces {rank} in a loader's texts by this rank's number, with files="rank". */
static void name_rank(const dg_node *loader, int rank, dg_arena *arena)
{
    for (const dg_attr *a = loader->class->attrs; a && a->name; a++) {
        const char **text = (const char **)(void *)((char *)loader->conf + a->offset), *at;

        if (a->kind != DG_ATTR_STR && a->kind != DG_ATTR_PATH)
            continue;
        while (*text && (at = strstr(*text, "{rank}")))
            *text =
                dg_printf(arena, "%.*s%d%s", (int)(at - *text), *text, rank, at + strlen("{rank}"));
    }
}

/* Adds help for a missing folder given by root="$data" in the pipeline's own file: the command line
 * may name another. */
static void help_find(dg_graph *g, const dg_node *loader, dg_arena *a, dg_diag *d)
{
    const dg_item_attr *root = dg_item_find(loader->item, "root");
    size_t n;
    const char *text = dg_graph_source(g, g->file, &n), *end;

    if (!root || !text || loader->item->frame || dg_exists(root->value) ||
        (root->folder && dg_exists(dg_path_join(a, root->folder, root->value))))
        return;
    end = text + n;
    for (int line = 1; line < root->value_at.line && text; line++)
        text = (text = memchr(text, '\n', (size_t)(end - text))) ? text + 1 : NULL;
    if (text && root->value_at.column > 0 && end - text > root->value_at.column &&
        text[root->value_at.column - 1] == '$') {
        text += root->value_at.column;
        dg_help(d, "--set %.*s=DIR says where the data are", (int)strcspn(text, "\"'/"), text);
    }
}

/* Adds help if the data are there in another form than the loader reads. */
static void help_form(const dg_node *loader, dg_arena *a, dg_diag *d)
{
    static const char *const prefix = "loader.";
    const dg_item_attr *attr = dg_item_find(loader->item, "root");
    const char *root = !attr ? NULL
                       : attr->folder && !dg_exists(attr->value)
                           ? dg_path_join(a, attr->folder, attr->value)
                           : attr->value;
    dg_diag *ignored = dg_diag_open();
    dg_layout l;

    if (root && dg_is_folder(root) && strncmp(loader->class->name, prefix, strlen(prefix)) == 0 &&
        dg_layout_find(&l, a, root, NULL, ignored) == 0 && l.form != DG_FORM_PLAIN &&
        strcmp(dg_form_name(l.form), loader->class->name + strlen(prefix)) != 0)
        dg_help(d,
                "the folder looks like a data set for <loader.%s>; detrgraph init --data %s "
                "writes a pipeline for it",
                dg_form_name(l.form), dg_shell(a, root));
    dg_diag_close(&ignored);
}

static int open_set(dg_run *run, dg_data *data, dg_diag *d)
{
    const dg_node *loader = data->chain.loader;
    const dg_world *w = dg_run_world(run);
    const dg_pipeline *p = dg_run_pipeline(run);
    dg_arena *a = dg_run_data_sets(run)->arena;
    int rc;

    data->own_files = dg_node_has_row(loader, DG_RULE_VALUE);
    if (data->own_files)
        name_rank(loader, w->rank, a);
    rc = loader->class->open(&data->set, loader->conf,
                             data->own_files ? (uint64_t)w->rank : p->seed, d);
    if (rc < 0) {
        dg_note(d, loader->where, "<%s id=\"%s\"> asks for it", loader->class->name, loader->id);
        if (rc == -DG_EIO)
            help_find(p->graph, loader, a, d);
        help_form(loader, a, d);
        return rc;
    }
    if (!data->set->name) /* it is for messages; foreign loaders may not set it */
        data->set->name = loader->id;
    return 0;
}

int dg_run_data(dg_run *run, const dg_scope *scope, const dg_data **out, dg_diag *d)
{
    dg_data_sets *s = dg_run_data_sets(run);
    dg_data *data = find_data(s, scope);
    int rc;

    *out = data;
    if (data)
        return 0;
    data = DG_NEW(s->arena, dg_data);
    *data = (dg_data){ .scope = scope, .faults = { .arena = s->arena, .split = -1 } };
    DG_TRY(dg_scope_chain(&data->chain, scope, d));
    DG_TRY(open_set(run, data, d));
    DG_PUSH(s->arena, s->open, data);
    *out = data;
    DG_TRY(check_all_classes(dg_run_pipeline(run)->graph, scope, data->set, d));
    DG_TRY(check_categories(s, scope, data->set, d));
    DG_TRY(dg_data_report_log(dg_run_env(run), data,
                              dg_run_world(run)->local_rank == 0 || data->own_files, d));
    dg_log_warnings(dg_run_env(run), d);
out:
    return rc;
}

/* The feeds that the scope's program takes from the batch node. */
static int wanted_feeds(const dg_program *p, const dg_node *batch, dg_arena *a,
                        const char *const **keys)
{
    const char **list = DG_NEW_N(a, p->inputs.n + 1, const char *);
    int n = 0;

    for (int k = 0; k < p->inputs.n; k++)
        if (p->inputs.items[k].index == batch->number)
            list[n++] = p->inputs.items[k].key;
    *keys = list;
    return n;
}

/* Smallest n over all ranks. A negative n means that the rank has failed; the others fail with
 * it. */
static int64_t least_of_ranks(void *ctx, const dg_node *of, int64_t n, dg_diag *d)
{
    const dg_world w = dg_world_of(ctx, of->path);
    double x = (double)n;
    int rc = dg_world_least(&w, &x, "counted what they have", d);

    if (rc < 0)
        return rc;
    return x < 0 && n >= 0 ? dg_fail(d, DG_ESTOP, DG_NOWHERE, "rank-failed",
                                     "another rank could not go on while the ranks counted what "
                                     "they have; see what it says")
                           : (int64_t)x;
}

/* True if each rank has different images: files of its own, a part of common ones, or an order that
 * it draws itself. */
static bool has_own_images(const dg_chain *c)
{
    bool own =
        dg_node_has_row(c->loader, DG_RULE_VALUE) || dg_node_has_row(c->sampler, DG_RULE_VALUE);

    for (int i = 0; i < c->n_choices; i++)
        own |= dg_node_has_row(c->choices[i], DG_RULE_VALUE);
    return own;
}

static dg_planning plan_of(const dg_run *run, const dg_data *data)
{
    const dg_graph *g = dg_run_pipeline(run)->graph;
    const dg_world *w = dg_run_world(run);
    const dg_chain *c = &data->chain;
    bool many = w->ranks > 1;
    dg_planning p = {
        .chain = c,
        .data = data->set,
        .seed = dg_run_pipeline(run)->seed,
        .rank = w->rank,
        .ranks = w->ranks,
        .own_plan = many && !dg_node_is_dealt(g, c->sampler),
        .own_images = many && data->scope->on < 0 && has_own_images(c),
        .least = many ? least_of_ranks : NULL,
        .ctx = (void *)(uintptr_t)w,
    };

    for (int i = 0; i < c->n_choices; i++)
        if (many && dg_node_is_dealt(g, c->choices[i])) {
            p.dealt |= 1u << i;
            p.ends_together |= dg_node_has_row(c->choices[i], DG_RULE_EQUAL);
        }
    return p;
}

bool dg_run_has_own_images(const dg_run *run, const dg_data *data)
{
    return plan_of(run, data).own_images;
}

bool dg_chain_plans_by_ranks(const dg_graph *g, const dg_chain *c)
{
    bool by_ranks = has_own_images(c) && !dg_node_is_dealt(g, c->sampler);

    for (int i = 0; i < c->n_choices; i++)
        by_ranks |= dg_node_is_dealt(g, c->choices[i]);
    return by_ranks;
}

static bool is_endless(const dg_data *data)
{
    return dg_node_has_row(data->chain.sampler, DG_RULE_ENDLESS);
}

int dg_run_epoch_batches(dg_run *run, const dg_data *data, int64_t epoch, int64_t *n,
                         int64_t *dropped, dg_diag *d)
{
    const dg_planning p = plan_of(run, data);
    int rc = dg_feeder_length(n, &p, epoch, dropped, d);

    if (p.ranks == 1 || !is_endless(data))
        return rc;
    *n = least_of_ranks(p.ctx, data->chain.sampler, rc < 0 ? -1 : *n, d);
    return rc < 0 ? rc : *n < 0 ? (int)*n : 0;
}

static dg_draw_scope drawn_by(const dg_node *node)
{
    return dg_node_has_row(node, DG_RULE_CORRELATED) ? DG_DRAWN_ALIKE
           : dg_node_has_row(node, DG_RULE_VALUE)    ? DG_DRAWN_BY_RANK
                                                     : DG_DRAWN_BY_SAMPLE;
}

typedef struct sizing {
    const dg_node *node;
    uint64_t seed;
    int rank;
} sizing;

/* For <resize>: the size that its number chooses. */
static dg_size size_of(void *ctx, int64_t number, const dg_clock *clock)
{
    const sizing *s = ctx;
    const dg_size *sizes;
    int unused, root, n = s->node->class->sizes(s->node->conf, &sizes, &unused);
    const dg_node *from = dg_wire_foreseen(dg_resize_wire(s->node), &root);
    double x = dg_foresee_supply(s->seed, from, root < 0 ? s->rank : root, number, clock);

    return sizes[x >= n - 1 ? n - 1 : x > 0 ? (int)x : 0];
}

int dg_run_open_feeder(dg_run *run, const dg_scope *scope, const dg_progress *p, int64_t epochs,
                       dg_feeder **f, dg_diag *d)
{
    const dg_progress *now = dg_run_progress(run);
    const dg_horizon *h = dg_run_horizon(run);
    dg_arena *a = dg_run_data_sets(run)->arena;
    const dg_data *data;
    int rc = dg_run_data(run, scope, &data, d);

    if (rc < 0)
        return rc;

    dg_feeder_conf conf = {
        .plan = plan_of(run, data),
        .accumulate = scope->accumulate > 0 ? scope->accumulate : 1,
        .n_steps = h->n_steps,
        .n_epochs = h->n_epochs,
        .epochs = epochs,
        .period = is_endless(data) ? h->per_epoch : 0,
        .frozen_clock = scope->kind == DG_SCOPE_EVALUATE,
        .now = { .step = now->step,
                 .epoch = now->epoch,
                 .n_steps = h->n_steps,
                 .n_epochs = h->n_epochs,
                 .steps_per_epoch = h->per_epoch },
        .threads = dg_run_env(run)->threads,
        .ahead = 4,
    };

    if (p) {
        conf.number = p->batch;
        conf.epoch = p->epoch;
        conf.index = p->index;
    }
    /* ranks may have to agree on a plan, which this thread then makes */
    conf.one_plan = conf.plan.dealt != 0;
    for (int i = 0; i < data->chain.n_items; i++)
        conf.drawn[i] = drawn_by(data->chain.items[i]);
    if (data->chain.resize) {
        sizing *ctx = DG_NEW(a, sizing);

        *ctx = (sizing){ data->chain.resize, conf.plan.seed, conf.plan.rank };
        conf.resize = size_of;
        conf.resize_ctx = ctx;
    }
    conf.n_keys = wanted_feeds(dg_programs_of(dg_run_programs(run), scope)->program,
                               data->chain.batch, a, &conf.keys);
    return dg_feeder_open(f, &conf, d);
}
