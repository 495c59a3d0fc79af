/* choice.c: tests nodes with `choose` (filters, partitions): on lists of drawn items, with several
 * ranks that ask each other. */
#include "check/check_internal.h"

#include <string.h>

#include "nodes/items.h"

enum { EPOCHS = 3, THREADS = 2 * EPOCHS, RANKS = 3, ASKS = 8 };

/* One rank's choice. */
typedef struct chooser {
    const dg_trial *t;
    const dg_dataset *data;
    int64_t n, epoch;
    const int32_t *items;
    int rank, ranks;
    dg_arena *arena;
    dg_diag *d;
    dg_choice out;
    int rc;
    int asked;              /* number of questions to the other ranks */
    int64_t asks[ASKS];     /* the numbers asked with */
    const int64_t *answers; /* the answers; while unknown, its own numbers are echoed */
    int n_answers;
    bool fails; /* answer that the others have failed */
} chooser;

static int64_t least(void *ctx, int64_t n)
{
    chooser *c = ctx;
    int i = c->asked++;

    if (c->fails)
        return dg_fail(c->d, DG_ESTOP, DG_NOWHERE, "rank-failed",
                       "another rank could not go on while the ranks counted what they have; see "
                       "what it says");
    if (i < ASKS)
        c->asks[i] = n;
    return i < c->n_answers ? c->answers[i] : n;
}

static void *run_choice(void *ctx)
{
    chooser *c = ctx;
    const dg_choose_args args = { .data = c->data,
                                  .n = c->n,
                                  .items = c->items,
                                  .epoch = c->epoch,
                                  .seed = c->t->seed,
                                  .rank = c->rank,
                                  .ranks = c->ranks,
                                  .least = least,
                                  .ctx = c,
                                  .alloc = dg_test_alloc,
                                  .arena = c->arena };

    c->asked = 0;
    c->out = (dg_choice){ 0 };
    c->rc = c->t->class->choose(&c->out, c->t->node->conf, &args, c->d);
    return NULL;
}

/* Draws the input list: by default all items, else some in any order, a few of them padding. */
static void draw_items(chooser *c)
{
    dg_rng r = dg_rng_begin(dg_rng_named(c->t->seed, "left"), 0, 0);
    int n = c->data->n_items;
    int32_t *items = DG_NEW_N(c->t->arena, n + 1, int32_t);

    for (int i = 0; i < n; i++)
        items[i] = i;
    for (int i = n - 1; i > 0 && c->t->kind == DG_TRIAL_DRAWN; i--) {
        int j = (int)dg_rng_below(&r, (uint64_t)i + 1);
        int32_t item = items[i];

        items[i] = items[j];
        items[j] = item;
    }
    for (int i = 0; i < n && c->t->kind == DG_TRIAL_DRAWN; i++)
        items[i] = dg_rng_below(&r, 8) == 0 ? dg_item_padding(items[i]) : items[i];
    c->n = c->t->kind == DG_TRIAL_DRAWN ? n - (int)dg_rng_below(&r, (uint64_t)n / 4 + 1) : n;
    c->items = items;
}

static int n_items(const dg_trial *t)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "items"), 0, 0);

    return t->kind == DG_TRIAL_SMALLEST ? 1 : 6 + (int)dg_rng_below(&r, 60);
}

static chooser chooser_of(const dg_trial *t, const dg_dataset *data, int64_t epoch, int rank)
{
    int ranks = dg_trial_shares(t) ? (int)t->ranks : 1;
    chooser c = { .t = t,
                  .data = data,
                  .epoch = epoch,
                  .rank = ranks > 1 ? rank : 0,
                  .ranks = ranks,
                  .arena = dg_arena_open(),
                  .d = dg_diag_open() };

    draw_items(&c);
    return c;
}

static void forget(chooser *c)
{
    dg_arena_close(&c->arena);
    dg_diag_close(&c->d);
}

/* ---- what is left ---------------------------------------------------------------------------- */

static bool check_left(dg_node_test *k, dg_trial *t, const chooser *c, const int32_t *before)
{
    /* items that are given only as padding */
    bool *only = DG_NEW_N(t->arena, c->data->n_items + 1, bool);

    for (int64_t i = 0; i < c->n; i++)
        only[dg_item_of(before[i])] = before[i] < 0;
    if (memcmp(before, c->items, (size_t)c->n * sizeof *before) != 0)
        return dg_test_miss(k, t, NULL, "write what is left into args->alloc(args->arena, ...)",
                            "it changes the list of items that it is given");
    if (c->out.n < 0 || (c->out.n && !c->out.items))
        return dg_test_miss(k, t, NULL, NULL, "it leaves %lld item%s%s", (long long)c->out.n,
                            dg_plural(c->out.n, "s"), c->out.n > 0 ? ", and no list of them" : "");
    for (int64_t i = 0; i < c->out.n; i++) {
        int item = dg_item_of(c->out.items[i]);

        if (item >= c->data->n_items)
            return dg_test_miss(k, t, NULL, NULL, "it leaves item %d, and there %s %d item%s", item,
                                c->data->n_items == 1 ? "is" : "are", c->data->n_items,
                                dg_plural(c->data->n_items, "s"));
        if (only[item] && c->out.items[i] >= 0)
            return dg_test_miss(
                k, t, NULL,
                "~item stands for padding: look at the item, and leave the sign as it is",
                "item %d was given as padding, and comes out as one that counts", item);
    }
    return true;
}

static bool try_choice(dg_node_test *k, dg_trial *t, int n)
{
    chooser c = chooser_of(t, dg_trial_data(t, n, 0), 1, 0);
    int32_t *before = dg_memdup(t->arena, c.items, (size_t)(c.n + 1) * sizeof *before);
    bool fine;

    run_choice(&c);
    if (c.rc < 0)
        fine = dg_diag_n(c.d)
                   ? dg_test_refuse(k, c.d)
                   : dg_test_miss(k, t, NULL, "dg_fail says what a user can do",
                                  "it refuses %d item%s without a word", n, dg_plural(n, "s"));
    else
        fine = check_left(k, t, &c, before);
    dg_test_tally(k, (int)c.n, "items given", -1);
    forget(&c);
    return fine;
}

bool dg_test_choice(dg_node_test *k, dg_trial *t)
{
    return try_choice(k, t, n_items(t)) && (t->kind != DG_TRIAL_SMALLEST || try_choice(k, t, 0));
}

/* ---- the same again -------------------------------------------------------------------------- */

/* Describes where two choices differ; NULL: nowhere. */
static const char *difference(dg_arena *a, const chooser *x, const chooser *y)
{
    if ((x->rc < 0) != (y->rc < 0))
        return dg_printf(a, "it can be made, and cannot (%s)",
                         dg_test_why(a, x->rc < 0 ? x->d : y->d));
    if (x->rc < 0)
        return NULL;
    if (x->out.n != y->out.n)
        return dg_printf(a, "%lld item%s, and %lld", (long long)x->out.n, dg_plural(x->out.n, "s"),
                         (long long)y->out.n);
    for (int64_t i = 0; i < x->out.n; i++)
        if (x->out.items[i] != y->out.items[i])
            return dg_printf(a, "item %d in place %lld, and item %d", dg_item_of(x->out.items[i]),
                             (long long)i, dg_item_of(y->out.items[i]));
    return NULL;
}

bool dg_test_choice_repeat(dg_node_test *k, dg_trial *t)
{
    const dg_dataset *data = dg_trial_data(t, n_items(t), 0);
    chooser alone[EPOCHS], again[THREADS];
    bool fine = true;

    for (int i = 0; i < EPOCHS; i++) {
        alone[i] = chooser_of(t, data, i, 0);
        run_choice(&alone[i]);
    }
    for (int i = 0; i < THREADS; i++)
        again[i] = chooser_of(t, data, EPOCHS - 1 - i % EPOCHS, 0);
    dg_test_at_once(run_choice, again, sizeof *again, THREADS);
    for (int i = 0; fine && i < THREADS; i++) {
        const char *off = difference(t->arena, &alone[again[i].epoch], &again[i]);

        if (off)
            fine = dg_test_miss(k, t, NULL,
                                "a choice is a function of its arguments: draw by "
                                "dg_draw_begin(args->seed, \"order\", args->epoch)",
                                "what is left in epoch %lld is another when it is chosen again, by "
                                "threads side by side: %s",
                                (long long)again[i].epoch + 1, off);
    }
    for (int i = 0; i < EPOCHS; i++)
        forget(&alone[i]);
    for (int i = 0; i < THREADS; i++)
        forget(&again[i]);
    return fine;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Lets all ranks choose. A question is answered once all have asked it. */
static void answer_questions(chooser ranks[RANKS])
{
    int64_t answers[ASKS];

    for (int known = 0, more = 1; more && known <= ASKS; known++) {
        more = known < ASKS;
        for (int r = 0; r < RANKS; r++) {
            ranks[r].answers = answers;
            ranks[r].n_answers = known;
            run_choice(&ranks[r]);
            more = more && ranks[r].asked > known;
        }
        for (int r = 0; r < RANKS && more; r++)
            answers[known] =
                r && answers[known] < ranks[r].asks[known] ? answers[known] : ranks[r].asks[known];
    }
    for (int r = 0; r < RANKS; r++)
        ranks[r].answers = NULL; /* local array */
}

static bool check_questions(dg_node_test *k, dg_trial *t, chooser c[RANKS], bool equal)
{
    for (int r = 1; r < RANKS; r++)
        if (c[r].asked != c[0].asked)
            return dg_test_miss(k, t, NULL, "every rank asks equally often, whatever it holds",
                                "questions of rank 0 to the others (args->least): %d, of rank %d: "
                                "%d; a run would wait for ever",
                                c[0].asked, r, c[r].asked);
    if (c[0].asked && !equal)
        return dg_test_miss(k, t, NULL, "a row DG_RULE_EQUAL declares it (docs/invariance.md)",
                            "it asks the other ranks (args->least), and no row of rules says so: "
                            "validate would prove what does not hold");
    if (!c[0].asked)
        return true;
    c[0].fails = true;
    run_choice(&c[0]);
    c[0].fails = false;
    return c[0].rc < 0 ||
           dg_test_miss(k, t, NULL, "args->least below 0: return that",
                        "another rank has failed (args->least says so), and it goes on");
}

/* Checks the shares of ranks that get the same input. */
static bool check_shares(dg_node_test *k, dg_trial *t, const chooser c[RANKS], bool equal)
{
    bool value = dg_trial_declares(t, DG_RULE_VALUE, false),
         rate = equal || dg_trial_declares(t, DG_RULE_RATE, false);

    for (int r = 1; r < RANKS; r++) {
        const char *off = difference(t->arena, &c[0], &c[r]);

        if (off && !value)
            return dg_test_miss(k, t, NULL, "a row DG_RULE_VALUE declares it (docs/invariance.md)",
                                "rank %d is left others than rank 0, and no row of rules says that "
                                "its output differs: %s",
                                r, off);
        if (c[r].out.n != c[0].out.n && !rate)
            return dg_test_miss(
                k, t, NULL, "a row DG_RULE_RATE declares it; or let all ranks have equally many",
                "rank %d is left %lld items, rank 0 %lld, and no row of rules says that ranks may "
                "hold different counts",
                r, (long long)c[r].out.n, (long long)c[0].out.n);
    }
    return true;
}

/* Checks disjoint shares, if a rule DG_RULE_SEED with `from` says that the input is divided. */
static bool check_apart(dg_node_test *k, dg_trial *t, const chooser c[RANKS])
{
    int *owner = DG_NEW_N(t->arena, c[0].data->n_items + 1, int); /* 1 + rank */

    for (int r = 0; r < RANKS; r++)
        for (int64_t i = 0; i < c[r].out.n; i++) {
            int32_t item = c[r].out.items[i];

            if (item < 0)
                continue;
            if (owner[item] && owner[item] != 1 + r)
                return dg_test_miss(k, t, NULL,
                                    "what is given twice is padding the second time: ~item",
                                    "it is declared to share items out (DG_RULE_SEED), and item %d "
                                    "goes to rank %d and to rank %d",
                                    item, owner[item] - 1, r);
            owner[item] = 1 + r;
        }
    return true;
}

static bool check_steps(dg_node_test *k, dg_trial *t, const chooser c[RANKS])
{
    for (int r = 1; r < RANKS; r++)
        for (int64_t i = 0; i < c[0].out.n && i < c[r].out.n; i++) {
            dg_item_info a, b;

            c[0].data->info(c[0].data->self, dg_item_of(c[0].out.items[i]), &a);
            c[r].data->info(c[r].data->self, dg_item_of(c[r].out.items[i]), &b);
            if (a.w != b.w || a.h != b.h)
                return dg_test_miss(k, t, NULL,
                                    "a row DG_RULE_DIMS declares it (docs/invariance.md)",
                                    "item %lld of rank 0 is %dx%d, of rank %d %dx%d, and no row of "
                                    "rules says that sizes differ among ranks",
                                    (long long)i, a.w, a.h, r, b.w, b.h);
        }
    return true;
}

/* Checks ranks that begin with different numbers of items. */
static bool check_equal(dg_node_test *k, dg_trial *t, chooser c[RANKS])
{
    for (int r = 0; r < RANKS; r++)
        c[r].n -= c[r].n > 2 ? r : 0;
    answer_questions(c);
    for (int r = 1; r < RANKS; r++)
        if (c[r].rc >= 0 && c[0].rc >= 0 && c[r].out.n != c[0].out.n)
            return dg_test_miss(k, t, NULL,
                                "args->least(args->ctx, n) gives the least n of all ranks",
                                "it is declared that ranks are left equally many (DG_RULE_EQUAL): "
                                "of %lld items rank 0 is left %lld, of "
                                "%lld items rank %d %lld",
                                (long long)c[0].n, (long long)c[0].out.n, (long long)c[r].n, r,
                                (long long)c[r].out.n);
    return true;
}

bool dg_test_choice_ranks(dg_node_test *k, dg_trial *t)
{
    const dg_dataset *data = dg_trial_data(t, n_items(t), 0);
    bool equal = dg_trial_declares(t, DG_RULE_EQUAL, false), fine = true;
    const int32_t *before;
    chooser c[RANKS];

    if (!dg_trial_shares(t))
        return dg_test_idle(k, "it has no attribute axis: it is not told of ranks");
    for (int r = 0; r < RANKS; r++)
        c[r] = chooser_of(t, data, 1, r);
    /* the same input on all ranks */
    before = dg_memdup(t->arena, c[0].items, (size_t)(c[0].n + 1) * sizeof *before);
    answer_questions(c);
    for (int r = 0; r < RANKS && fine && !dg_test_refused(k); r++)
        fine = c[r].rc >= 0 ? check_left(k, t, &c[r], before) : dg_test_refuse(k, c[r].d);
    if (fine && !dg_test_refused(k)) {
        fine = check_questions(k, t, c, equal);
        answer_questions(c);
        fine = fine && check_shares(k, t, c, equal);
        fine = fine && (!dg_trial_declares(t, DG_RULE_SEED, true) || check_apart(k, t, c));
        fine = fine && (dg_trial_declares(t, DG_RULE_DIMS, false) ||
                        dg_trial_declares(t, DG_RULE_DIMS, true) || check_steps(k, t, c));
        fine = fine && (!equal || check_equal(k, t, c));
        dg_test_tally(k, RANKS, "ranks", -1);
    }
    for (int r = 0; r < RANKS; r++)
        forget(&c[r]);
    return fine;
}

/* ---- what items hold ------------------------------------------------------------------------- */

bool dg_test_choice_content(dg_node_test *k, dg_trial *t)
{
    int n = n_items(t);
    bool fine = true;
    chooser a;

    if (dg_trial_declares(t, DG_RULE_RATE, true))
        return dg_test_idle(k, "it is declared (DG_RULE_RATE with .from)");
    a = chooser_of(t, dg_trial_data(t, n, 0), 1, 0);
    run_choice(&a);
    if (a.rc < 0)
        fine = dg_test_refuse(k, a.d);
    for (unsigned other = 1; fine && !dg_test_refused(k) && other <= 3; other++) {
        chooser b = chooser_of(t, dg_trial_data(t, n, other), 1, 0);

        run_choice(&b);
        if (b.rc < 0 || a.out.n != b.out.n)
            fine = dg_test_miss(k, t, NULL,
                                "a row DG_RULE_RATE with .from declares it: ranks with other "
                                "images would be left unequally many",
                                "of %lld items %lld stay, and %lld where they hold other sizes or "
                                "objects: no row of rules says so",
                                (long long)a.n, (long long)a.out.n,
                                b.rc < 0 ? 0LL : (long long)b.out.n);
        dg_test_tally(k, 1, "other contents", -1);
        forget(&b);
    }
    forget(&a);
    return fine;
}
