/* data.c: the data sets of a run's scopes, and streams of batches from them. */
#include "runtime/session.h"

#include <string.h>

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

int dg_run_data(dg_run *run, const dg_scope *scope, const dg_data **data, dg_diag *d)
{
    dg_data new = { .scope = scope };
    int     rc;

    *data = find(run, scope);
    if (*data)
        return 0;
    DG_TRY(dg_run_chain(scope, &new.chain, d));
    rc = new.chain.loader->class->open(&new.set, new.chain.loader->conf, run->seed, d);
    if (rc < 0) {
        dg_note(d, new.chain.loader->where, "<%s id=\"%s\"> asks for it", new.chain.loader->class->name, new.chain.loader->id);
        return rc;
    }
    DG_PUSH(run->arena, run->data, new);
    *data = find(run, scope);
    DG_TRY(check_all_classes(run, scope, new.set, d));
    DG_TRY(check_categories(run, scope, new.set, d));
    DG_TRY(dg_data_report_log(&run->env, scope, &new.chain, new.set, run->world.local_rank == 0, d));
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

/* Over all ranks; who fails leaves the others to the communicator. */
static int64_t least(void *ctx, int64_t n)
{
    const dg_world *w = ctx;
    double          x = (double)n;
    int64_t         ticket;
    int             rc = w->comm->start(w->comm, (dg_tensor){ DG_F64, DG_SCALAR, &x }, DG_MIN, &ticket);

    rc = rc < 0 ? rc : w->comm->wait(w->comm, ticket);
    return rc < 0 ? rc : (int64_t)x;
}

static dg_planning planning(dg_run *run, const dg_data *data)
{
    dg_planning p = {
        .chain = &data->chain,
        .data = data->set,
        .seed = run->seed,
        .rank = run->world.rank,
        .ranks = run->world.ranks,
        .whole = run->world.ranks > 1 && !dg_run_shares(run, data->chain.sampler),
        .least = run->world.ranks > 1 ? least : NULL,
        .ctx = &run->world,
    };

    for (int i = 0; i < data->chain.n_choices; i++)
        p.dealt |= run->world.ranks > 1 && dg_run_shares(run, data->chain.choices[i]) ? 1u << i : 0;
    return p;
}

int dg_run_length(dg_run *run, const dg_data *data, int64_t *n, int64_t *dropped, dg_diag *d)
{
    const dg_planning p = planning(run, data);

    return dg_stream_length(n, &p, run->progress.epoch, dropped, d);
}

bool dg_run_deals(dg_run *run, const dg_data *data)
{
    const dg_planning p = planning(run, data);

    return run->world.ranks > 1 && (!p.whole || p.dealt);
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
        .threads = run->env.threads,
        .ahead = 4,
    };

    if (p) {
        conf.number = p->batch;
        conf.epoch = p->epoch;
        conf.index = p->index;
    }
    if (conf.plan.dealt) /* ranks may have to agree on a plan: this thread makes it */
        conf.epochs = conf.epoch + 1;
    conf.n_keys = wanted(run, scope, data->chain.batch, &conf.keys);
    return dg_stream_open(s, &conf, d);
}
