/* step.c: one batch forward and backward, and the update when it is due. Numbers that are not
 * finite end the run before they change anything. */
#include "runtime/step.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "control/monitor_digests.h"
#include "report/memory_info.h"
#include "runtime/control_hooks.h"
#include "runtime/programs.h"

void dg_run_compute_control(dg_run *run)
{
    const dg_pipeline *pipeline = dg_run_pipeline(run);
    const dg_scope *train = pipeline->graph->train;
    const dg_horizon *h = dg_run_horizon(run);
    dg_progress *p = dg_run_progress(run);
    dg_step_state *s = dg_run_step_state(run);
    dg_control *c = &s->control;
    const dg_clock clock = {
        .step = p->step,
        .epoch = p->epoch,
        .n_steps = h->n_steps,
        .n_epochs = h->n_epochs,
        .steps_per_epoch =
            train && train->accumulate > 0 ? h->per_epoch / train->accumulate : h->per_epoch,
        .minutes = p->minutes,
    };

    *c = (dg_control){
        .seed = pipeline->seed,
        .step = p->step,
        .batch = p->batch,
        .epoch = p->epoch,
        .sample = p->sample,
        .accumulated = s->accumulated,
    };
    for (int i = 0; train && i < train->n_nodes; i++)
        if (train->nodes[i]->class->control)
            train->nodes[i]->class->control(train->nodes[i]->conf, &clock, c);
    dg_control_hooks_rates(dg_run_world(run)->link, p, c);
    if (s->adjust)
        s->adjust(s->adjust_ctx, c);
}

/* ---- feeding --------------------------------------------------------------------------------- */

/* What a number from outside the graph may depend on: the batch's place in the run, and this
 * rank. */
static dg_supply_args supply_args(uint64_t seed, const dg_node *node, int rank, int64_t number)
{
    char own[256];
    dg_supply_args a = {
        .rank = rank,
        .free_bytes = -1,
        .shared = dg_draw_begin(seed, node->path, (uint64_t)number),
    };

    snprintf(own, sizeof own, "%s/%d", node->path, rank);
    a.own = dg_draw_begin(seed, own, (uint64_t)number);
    return a;
}

double dg_foresee_supply(uint64_t seed, const dg_node *node, int rank, int64_t number,
                         const dg_clock *clock)
{
    dg_supply_args a = supply_args(seed, node, rank, number);

    a.clock = *clock;
    return node->class->supply(node->conf, &a);
}

/* Fails unless the number is what its port declares. */
static int check_number(const dg_node *node, double x, int64_t number, dg_diag *d)
{
    if (node->out_contracts[0]->dtype == DG_REAL || (x == floor(x) && fabs(x) <= INT32_MAX))
        return 0;
    dg_fail(d, DG_EINTERNAL, node->where, "contract-whole",
            "broke a declared contract: node \"%s\" port \"%s\" gave %g for batch %lld, declared a "
            "whole number",
            node->path, node->out_ports[0]->name, x, (long long)number + 1);
    dg_help(d, "`supply` of <%s> rounds its number, or its port is declared as f[]",
            node->class->name);
    return -DG_EINTERNAL;
}

/* Writes numbers from outside the graph before each batch, with the batch's clock, as they were
 * foreseen. */
static int feed_numbers(dg_run *run, const dg_feeder_batch *batch, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(run)->current;
    const uint64_t seed = dg_run_pipeline(run)->seed;
    const double minutes = dg_run_progress(run)->minutes;
    const dg_scope *s = c->scope;
    int rc = 0;

    for (int i = 0; i < s->n_nodes && rc == 0; i++) {
        const dg_node *node = s->nodes[i];
        int32_t input;

        if (!node->class->supply || node->class->lower)
            continue;
        input = dg_program_input_of(c->program, node->number, node->out_ports[0]->name);
        if (!input)
            continue; /* not read */

        dg_supply_args args = supply_args(seed, node, dg_run_world(run)->rank, batch->number);

        args.clock = batch->clock;
        args.clock.minutes = minutes;
        args.seconds = 60 * minutes;
        args.free_bytes = (double)dg_memory_available();

        double real = node->class->supply(node->conf, &args);
        bool is_real = node->out_contracts[0]->dtype == DG_REAL;

        rc = check_number(node, real, batch->number, d);
        if (rc < 0)
            break;

        int32_t whole = is_real ? 0 : (int32_t)real;
        dg_tensor t = { is_real ? DG_F64 : DG_I32, DG_SCALAR, is_real ? (void *)&real : &whole };

        rc = dg_exec_write(c->exec, input, &t, d);
    }
    return rc;
}

static const dg_feed *find_feed(const dg_feeder_batch *b, const char *key)
{
    for (int i = 0; i < b->n_feeds; i++)
        if (strcmp(b->feeds[i].key, key) == 0 && b->data[i])
            return &b->feeds[i];
    return NULL;
}

static int broken_feed(const dg_node *node, const char *key, const dg_feeder_batch *b,
                       const dg_feed *f, dg_shape declared, dg_diag *d)
{
    char found[96], wanted[96];
    size_t n = strcspn(key, ".");

    if (f)
        dg_fail(d, DG_EINTERNAL, node->where, "contract-shape",
                "broke a declared contract: node \"%s\" port \"%.*s\" gave %s%s for batch %lld, "
                "declared %s",
                node->path, (int)n, key, key, dg_shape_print(f->shape, found, sizeof found),
                (long long)b->number + 1, dg_shape_print(declared, wanted, sizeof wanted));
    else
        dg_fail(d, DG_EINTERNAL, node->where, "contract-absent",
                "broke a declared contract: node \"%s\" port \"%.*s\" gave no %s for batch %lld, "
                "declared always there",
                node->path, (int)n, key, key, (long long)b->number + 1);
    dg_help(
        d,
        "`feeds` of <%s> lists the same tensors each time that it is asked for the same image size",
        node->class->name);
    return -DG_EINTERNAL;
}

/* Fails unless the batch node's feeds are those that the program was made for. */
static int check_feeds(const dg_program *p, const dg_node *node, const dg_feeder_batch *b,
                       dg_diag *d)
{
    for (int i = 0; i < p->inputs.n; i++) {
        const dg_binding *in = &p->inputs.items[i];
        dg_shape declared = p->values.items[in->value].shape;
        const dg_feed *f = in->index == node->number ? find_feed(b, in->key) : NULL;

        if (in->index == node->number && (!f || !dg_shape_equal(f->shape, declared)))
            return broken_feed(node, in->key, b, f, declared, d);
    }
    return 0;
}

/* Writes the batch's tensors, now or ahead of their run. */
static int write_feeds(const dg_compiled *c, const dg_node *node, const dg_feeder_batch *batch,
                       bool ahead, dg_diag *d)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < batch->n_feeds; i++) {
        const dg_feed *f = &batch->feeds[i];
        const dg_tensor t = { f->dtype == DG_REAL ? DG_F32 : f->dtype, f->shape, batch->data[i] };
        int32_t input = dg_program_input_of(c->program, node->number, f->key);

        if (t.data && input)
            rc = ahead ? dg_exec_write_ahead(c->exec, batch->number, input, &t, d)
                       : dg_exec_write(c->exec, input, &t, d);
    }
    return rc;
}

int dg_run_send_ahead(const dg_compiled *c, const dg_feeder_batch *batch, dg_diag *d)
{
    dg_chain chain;

    if (dg_graph_chain(&chain, c->scope, NULL) < 0 ||
        check_feeds(c->program, chain.batch, batch, NULL) < 0)
        return 0; /* feeding it says why */
    return write_feeds(c, chain.batch, batch, true, d);
}

int dg_run_feed_batch(dg_run *run, const dg_feeder_batch *batch, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(run)->current;
    dg_chain chain;
    int rc;

    dg_monitor_digests_begin(dg_run_digests(run), dg_run_pipeline(run)->graph, c->scope,
                             dg_run_progress(run)->step, batch);
    DG_TRY(dg_graph_chain(&chain, c->scope, d));
    DG_TRY(check_feeds(c->program, chain.batch, batch, d));
    if (!dg_exec_take_ahead(c->exec, batch->number))
        DG_TRY(write_feeds(c, chain.batch, batch, false, d));
    DG_TRY(feed_numbers(run, batch, d));
    DG_TRY(dg_exec_show_inputs(c->exec, d));
out:
    return rc;
}

/* ---- numbers that are not finite ------------------------------------------------------------- */

/* True for the terms of the first loss node; without one, for every scalar. Their sum adds no
 * information. */
static bool is_term(const dg_program *p, int i)
{
    const dg_binding *r = &p->results.items[i];
    bool sums = dg_program_result_of(p, DG_RESULT_LOSS_TOTAL, 0) != 0;

    if (dg_shape_elements(p->values.items[r->value].shape) != 1 || r->kind == DG_RESULT_GRAD_NORM ||
        r->kind == DG_RESULT_DIFFERENTIATED || dg_result_is_monitored(r))
        return false;
    return !sums || (r->kind == DG_RESULT_LOSS_TERM && r->index == 0);
}

/* Lists terms that are not finite: "loss_vfl_dn_0 is NaN, loss_vfl is infinite"; *at: the first
 * one's node. */
static int list_terms(const dg_compiled *c, dg_str *out, dg_where *at)
{
    const dg_program *p = c->program;
    int n = 0;

    for (int i = 0; i < p->results.n; i++) {
        const dg_value *v = &p->values.items[p->results.items[i].value];
        const char *name = strrchr(p->results.items[i].name, '.');
        double x = 0;

        if (!is_term(p, i) || dg_exec_get(c->exec, p->results.items[i].value, &x, NULL) < 0 ||
            isfinite(x))
            continue;
        if (n++ == 0 && v->producer >= 0)
            *at = p->instrs.items[v->producer].origin.where;
        if (n <= 8)
            dg_str_fmt(out, "%s%s is %s", n > 1 ? ", " : "",
                       name ? name + 1 : p->results.items[i].name, isnan(x) ? "NaN" : "infinite");
    }
    if (n > 8)
        dg_str_fmt(out, " and %d more", n - 8);
    return n;
}

static void list_images(dg_str *out, const dg_feeder_batch *batch)
{
    for (int i = 0; batch && i < batch->n; i++)
        if (!batch->padding || !batch->padding[i])
            dg_str_fmt(out, "%s%lld", out->n ? ", " : "", (long long)batch->samples[i].image_id);
}

/* The first parameter whose gradient is not finite, or NULL. */
static const char *bad_gradient(const dg_store *s)
{
    const char *found = NULL;

    for (int i = 0; !found && i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        int64_t n = dg_shape_elements(p->shape);
        double *v = p->kind == DG_TRAINABLE ? dg_try_alloc((size_t)n * sizeof *v) : NULL;

        if (v && dg_store_get(s, DG_GRADIENTS, i, v, NULL) == 0)
            for (int64_t k = 0; !found && k < n; k++)
                found = isfinite(v[k]) ? NULL : p->name;
        dg_free(v);
    }
    return found;
}

static int not_finite(dg_run *run, const dg_feeder_batch *batch, dg_diag *d)
{
    const dg_programs *g = dg_run_programs(run);
    const dg_scope *train = dg_run_pipeline(run)->graph->train;
    const long long step = (long long)dg_run_progress(run)->step + 1;
    dg_str terms = { 0 }, images = { 0 };
    dg_where at = train ? train->where : DG_NOWHERE;
    int n = list_terms(g->current, &terms, &at), rc;

    list_images(&images, batch);
    if (n) {
        rc = dg_fail(d, DG_ENUMERIC, at, "loss-not-finite",
                     "step %lld, node %s: %s; images %s; nothing was updated", step,
                     at.node ? at.node : "?", terms.s, images.s ? images.s : "fed by hand");
    } else {
        const char *name = bad_gradient(g->store);

        rc = dg_fail(d, DG_ENUMERIC, at, "gradient-not-finite",
                     "step %lld: the loss is finite and the gradient is not, first in %s; images "
                     "%s; nothing was updated",
                     step, name ? name : "its norm", images.s ? images.s : "fed by hand");
    }
    dg_help(d,
            "a smaller learning rate or a longer warm-up is the usual way out%s; look at these "
            "images and their boxes",
            g->conf.low == DG_BF16 ? ", or precision=\"f32\"" : "");
    dg_str_free(&terms);
    dg_str_free(&images);
    return rc;
}

/* A rank's result of an update. */
typedef struct verdict {
    double loss;
    int64_t bad; /* one of its own terms is not finite */
} verdict;

/* Computes the mean loss over all ranks, and the first rank with a bad term, or -1. */
static int compare_losses(const dg_world *w, verdict own, double *loss, int *bad, dg_diag *d)
{
    int n = w->ranks, rc;
    verdict *all = dg_try_alloc((size_t)n * sizeof *all);

    if (!all)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                       "no memory for a word of each rank");
    rc = dg_world_gather(w, &own, sizeof own, all, "compared their losses", d);
    *bad = -1;
    *loss = 0;
    for (int r = n - 1; r >= 0 && rc == 0; r--)
        *bad = all[r].bad ? r : *bad;
    for (int r = 0; r < n && rc == 0; r++)
        *loss += all[r].loss / n;
    dg_free(all);
    return rc;
}

static int bad_elsewhere(int64_t step, int rank, dg_diag *d)
{
    return dg_fail(d, DG_ENUMERIC, DG_NOWHERE, "loss-not-finite",
                   "step %lld: the loss of rank %d is not finite; nothing was updated",
                   (long long)step + 1, rank);
}

static bool terms_finite(const dg_compiled *c)
{
    dg_str terms = { 0 };
    dg_where at;
    bool fine = list_terms(c, &terms, &at) == 0;

    dg_str_free(&terms);
    return fine;
}

/* Compares the losses of all ranks, which meet here in every step, and refuses one that is not
 * finite unless the step is skipped. ok: the value that is equal on all ranks. */
static int check_finite(dg_run *run, const dg_feeder_batch *batch, int32_t ok, bool skipped,
                        dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(run)->current;
    const dg_program *p = c->program;
    int32_t sum = dg_program_result_of(p, DG_RESULT_DIFFERENTIATED, 0),
            total = sum ? sum : dg_program_result_of(p, DG_RESULT_LOSS_TOTAL, 0);
    double fine = 1;
    verdict own = { 0 };
    int bad = -1, rc;

    if (ok && p->values.items[ok].producer >= 0)
        DG_TRY(dg_exec_get(c->exec, ok, &fine, d));
    own.bad = !terms_finite(c);
    if (total)
        DG_TRY(dg_exec_get(c->exec, total, &own.loss, d));
    DG_TRY(compare_losses(dg_run_world(run), own, &dg_run_step_state(run)->loss, &bad, d));
    if (skipped)
        return 0;
    if (bad >= 0 && !own.bad)
        return bad_elsewhere(dg_run_progress(run)->step, bad, d);
    if (fine == 0 || own.bad)
        return not_finite(run, batch, d);
out:
    return rc;
}

/* ---- skip and stop --------------------------------------------------------------------------- */

/* *who: id of the first node before number `end` whose flag of this kind is nonzero, or NULL.
 * Results of the update are valid only after one. */
static int find_fired(const dg_compiled *c, dg_result_kind kind, bool update, int end,
                      const char **who, dg_diag *d)
{
    const dg_program *p = c->program;
    int rc = 0;

    *who = NULL;
    for (int i = 0; i < p->results.n && rc == 0 && !*who; i++) {
        const dg_binding *r = &p->results.items[i];
        int producer = p->values.items[r->value].producer;
        double flag = 0;

        if (r->kind != kind || r->index >= end ||
            (!update && producer >= 0 && p->instrs.items[producer].segment == DG_SEG_UPDATE))
            continue;
        rc = dg_exec_get(c->exec, r->value, &flag, d);
        *who = flag != 0 ? r->key : NULL;
    }
    return rc;
}

/* Whether a <skip> left out the update, and the average: those behind them leave out what follows
 * only, and may fire on some ranks. */
static int find_skipped(dg_run *run, bool *update, bool *average, dg_diag *d)
{
    const dg_compiled *c = dg_run_programs(run)->current;
    const dg_scope *train = dg_run_pipeline(run)->graph->train;
    int first = INT_MAX, last = INT_MAX, rc;
    const char *who;

    for (int i = 0; train && i < train->n_nodes; i++)
        if (train->nodes[i]->class->role == DG_ROLE_OPTIMIZER) {
            first = first < INT_MAX ? first : train->nodes[i]->number;
            last = train->nodes[i]->number;
        }
    DG_TRY(find_fired(c, DG_RESULT_SKIP, true, first, &who, d));
    *update = who != NULL;
    DG_TRY(find_fired(c, DG_RESULT_SKIP, true, last, &who, d));
    *average = who != NULL;
out:
    return rc;
}

/* ---- the step -------------------------------------------------------------------------------- */

int dg_run_forward_batch(dg_run *run, dg_diag *d)
{
    dg_run_compute_control(run);
    return dg_exec_run(dg_run_programs(run)->current->exec, DG_SEG_BATCH,
                       &dg_run_step_state(run)->control, d);
}

static int do_meanwhile(const dg_step_state *s, dg_diag *d)
{
    return s->meanwhile ? s->meanwhile(s->meanwhile_ctx, d) : 0;
}

int dg_run_train_batch(dg_run *run, const dg_feeder_batch *batch, bool *updated, dg_diag *d)
{
    const dg_programs *g = dg_run_programs(run);
    const dg_compiled *c = g->current;
    const dg_program *p = c->program;
    dg_step_state *s = dg_run_step_state(run);
    dg_progress *progress = dg_run_progress(run);
    bool skipped, still; /* without an update, without the average's */
    int rc;

    *updated = false;
    DG_TRY(dg_run_forward_batch(run, d));
    if (s->accumulated + 1 < p->accumulate) {
        DG_TRY(do_meanwhile(s, d));
        DG_TRY(check_finite(run, batch, p->ok_batch, false, d));
        if (!s->stopped_by)
            DG_TRY(find_fired(c, DG_RESULT_STOP, false, INT_MAX, &s->stopped_by, d));
        s->accumulated++;
    } else {
        DG_TRY(dg_exec_run(c->exec, DG_SEG_UPDATE, &s->control, d));
        DG_TRY(do_meanwhile(s, d));
        DG_TRY(find_skipped(run, &skipped, &still, d));
        DG_TRY(check_finite(run, batch, p->ok, skipped, d));
        if (!still)
            s->ema_initial_share *= s->control.ema_decay;
        if (!s->stopped_by)
            DG_TRY(find_fired(c, DG_RESULT_STOP, true, INT_MAX, &s->stopped_by, d));
        s->accumulated = 0;
        progress->step++;
        *updated = true;
    }
    progress->batch++;
    g->store->counter = progress->batch;
out:
    return rc;
}
