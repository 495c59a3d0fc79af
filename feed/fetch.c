/* fetch.c: see fetch.h. */
#include "feed/fetch.h"

#include "base/log.h"

enum { REPLACEMENTS = 16 }; /* other items to try in place of an unreadable one */

static const uint64_t AGAIN = 0xd1b54a32d192ed03u; /* salt of the draws for a dropped sample */

/* A loader of an older version sets less of a sample: what it does not know stays 0. */
static int read_sample(dg_fetching *f, int item, dg_sample *sm, uint64_t salt, dg_diag *d)
{
    dg_dataset *data = f->conf->plan.data;
    int rc;

    if (!salt) /* a further image shares the scratch with the sample that takes it */
        dg_scratch_reset(f->scratch);
    *sm = (dg_sample){ 0 };
    rc = data->sample(data->self, item, sm, f->scratch, d);
    sm->size = sizeof *sm;
    sm->index = f->number;
    sm->item = item;
    sm->further = &f->further;
    return rc;
}

/* Notes an unreadable item. d: what was wrong with it, and with its replacements. */
static void refuse_sample(const dg_fetching *f, const dg_diag *d)
{
    const dg_err *why = dg_diag_at(d, 0);

    if (f->conf->plan.data->replace) {
        dg_fail(f->d, why->code, why->at, why->id,
                "%s; nor could %d others be read that were tried in its place", why->text,
                REPLACEMENTS);
        return;
    }
    dg_diag_merge(f->d, d);
    if (f->conf->plan.data->probe)
        dg_help(f->d, "mend it, or let the loader take another in its place: on_error=\"replace\"");
}

/* Reads an item or, if the data set allows it, a replacement. salt: 0, or of a further image. */
static int load_item(dg_fetching *f, int item, dg_sample *sm, uint64_t salt)
{
    dg_diag *d = dg_diag_open();
    dg_draw draw = dg_draw_begin(f->conf->plan.seed ^ salt, "replace", f->number);
    int rc;

    f->at = f->conf->plan.chain->loader;
    rc = read_sample(f, item, sm, salt, d);
    for (int i = 0; rc < 0 && f->conf->plan.data->replace && i < REPLACEMENTS; i++)
        rc = read_sample(f, (int)dg_draw_below(&draw, f->conf->plan.data->n_items), sm, salt, d);
    if (rc < 0) {
        refuse_sample(f, d);
    } else if (dg_diag_n(d)) {
        const dg_err *why = dg_diag_at(d, 0);

        dg_warn(f->d, why->at, "sample-replaced", "%s; item %d stands in for it", why->text,
                sm->item);
        f->n_replaced++;
    }
    dg_diag_close(&d);
    return rc;
}

/* Fails if a node breaks its tables' promise, on which the proof relies: it dropped a sample
 * without DG_PORT_DROPS. */
static int check_drop(const dg_node *n, const dg_sample *sm, dg_diag *d)
{
    const char *port = "out";

    for (const dg_port *p = n->class->ports; p && p->name; p++) {
        if (p->flags & DG_PORT_DROPS)
            return 0;
        port = p->flags & DG_PORT_OUT ? p->name : port;
    }
    dg_fail(d, DG_EINTERNAL, n->where, "contract-drops",
            "broke a declared contract: node \"%s\" port \"%s\" dropped an item (image %lld), "
            "declared drops=\"no\"",
            n->path, port, (long long)sm->image_id);
    dg_help(d,
            "DG_PORT_DROPS in the ports of <%s> declares it; then the proof knows that ranks may "
            "have unequally many",
            n->class->name);
    return -DG_EINTERNAL;
}

/* salt: 0 for the sample itself; else of the item that stands in for a dropped one, or of a further
 * image: it draws anew. */
static dg_draw draws_of(const dg_fetching *f, int node, uint64_t salt)
{
    const dg_planning *p = &f->conf->plan;
    const char *path = p->chain->items[node]->path;
    dg_draw_scope drawn = f->conf->drawn[node];
    uint64_t seed =
        drawn == DG_DRAWN_BY_RANK ? p->seed ^ (uint64_t)p->rank * 0x9e3779b97f4a7c15u : p->seed;

    return dg_draw_begin(seed ^ salt, path, drawn == DG_DRAWN_BY_SAMPLE ? f->number : f->own);
}

/* Applies the first n nodes that change samples; 1: one of them dropped it. */
static int change_sample(dg_fetching *f, dg_sample *sm, int n, uint64_t salt)
{
    const dg_chain *chain = f->conf->plan.chain;
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++) {
        const dg_node *node = chain->items[i];
        dg_draw draw = draws_of(f, i, salt);

        f->at = node;
        f->node = i;
        rc = node->class->item(node->conf, sm, &draw, &f->clock, f->d);
        if (rc > 0) {
            rc = check_drop(node, sm, f->d);
            return rc < 0 ? rc : 1;
        }
    }
    return rc;
}

/* Makes a sample of an item by the first n nodes; of others, if they drop it. */
static int make_sample(dg_fetching *f, int item, dg_sample *sm, int n, uint64_t salt)
{
    dg_draw draw = dg_draw_begin(f->conf->plan.seed ^ salt, "dropped", f->number);
    int rc = load_item(f, item, sm, salt);

    if (rc >= 0)
        rc = change_sample(f, sm, n, salt);
    for (int i = 0; rc == 1 && i < REPLACEMENTS; i++) {
        rc = load_item(f, (int)dg_draw_below(&draw, f->conf->plan.data->n_items), sm, salt);
        if (rc >= 0)
            rc = change_sample(f, sm, n, salt ^ (uint64_t)(i + 1) * AGAIN);
    }
    return rc == 1
               ? dg_fail(f->d, DG_EINPUT, f->conf->plan.chain->sampler->where, "samples-dropped",
                         "%d items in a row were dropped by the nodes behind", REPLACEMENTS + 1)
               : rc;
}

/* The node's draw is the key of everything drawn for the further image, so that it, too, depends on
 * nothing but seed, node and sample. */
static int take_further(void *self, dg_sample *out, dg_draw *draw, dg_diag *d)
{
    dg_fetching *f = self;
    const int node = f->node, item = (int)dg_draw_below(draw, f->conf->plan.data->n_items);
    const uint64_t salt = 1 + (uint64_t)dg_draw_below(draw, INT64_MAX);
    int rc;

    (void)d;                         /* f->d: the node was given no other */
    if (f->depth == DG_MOST_FURTHER) /* a class that does not declare it */
        return dg_further_deep(f->conf->plan.chain->items[node], f->d);
    f->depth++;
    rc = make_sample(f, item, out, node, salt);
    f->depth--;
    f->node = node;
    if (rc >= 0)
        f->at = f->conf->plan.chain->items[node];
    return rc;
}

int dg_fetch_sample(dg_fetching *f, int item, uint64_t number, uint64_t own, dg_sample *out)
{
    const dg_chain *chain = f->conf->plan.chain;
    const dg_node *batch = chain->batch;

    f->number = number;
    f->own = own;
    f->depth = 0;
    f->further = (dg_further){
        .size = sizeof f->further,
        .most_objects = batch->class->capacity ? batch->class->capacity(batch->conf) : 0,
        .take = take_further,
        .self = f,
    };
    return make_sample(f, item, out, chain->n_items, 0);
}
