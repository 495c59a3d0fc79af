/* number.c: tests nodes with `supply` (numbers from outside the graph): the number must depend only
 * on what its rules and `foreseen` declare. */
#include "check/check_internal.h"

#include <math.h>

static dg_supply_args args_of(const dg_trial *t)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "moment"), 0, 0);
    int64_t step = (int64_t)dg_rng_below(&r, 1000);
    dg_supply_args a = { .clock = { .step = step,
                                    .epoch = step / 10,
                                    .n_steps = 1000,
                                    .n_epochs = 100,
                                    .steps_per_epoch = 10,
                                    .minutes = 2 },
                         .rank = 1,
                         .seconds = 120,
                         .free_bytes = 4e9 };

    a.shared = dg_draw_begin(t->seed, "shared", (uint64_t)step);
    a.own = dg_draw_begin(t->seed, "own", (uint64_t)step);
    return a;
}

static double supply(const dg_trial *t, const dg_supply_args *args)
{
    dg_supply_args a = *args;

    return t->class->supply(t->node->conf, &a);
}

bool dg_test_number(dg_node_test *k, dg_trial *t)
{
    dg_supply_args a = args_of(t);
    double x = supply(t, &a);

    if (!isfinite(x))
        return dg_test_miss(k, t, NULL, NULL, "at step %lld it gives %g", (long long)a.clock.step,
                            x);
    for (int i = 0; i < t->node->n_out; i++)
        if (t->node->out_contracts[i]->kind == DG_TYPE_TENSOR &&
            t->node->out_contracts[i]->dtype == DG_I32 && x != (double)(int32_t)x)
            return dg_test_miss(k, t, t->node->out_ports[i]->name,
                                "f[] holds any number, i[] whole ones of 32 bits",
                                "at step %lld it gives %.17g, and output \"%s\" is declared as i[]",
                                (long long)a.clock.step, x, t->node->out_ports[i]->name);
    return true;
}

/* Varies what a foreseen number cannot know, and what differs between ranks. */
bool dg_test_number_ranks(dg_node_test *k, dg_trial *t)
{
    const dg_supply_args a = args_of(t);
    bool varies = dg_trial_declares(t, DG_RULE_VALUE, false), foreseen = t->class->foreseen;
    double x = supply(t, &a), y;
    dg_supply_args b = a;

    if (varies && !foreseen)
        return dg_test_idle(k, "it is declared to differ (DG_RULE_VALUE), and not to be foreseen");
    y = supply(t, &a);
    if (x < y || x > y)
        return dg_test_miss(k, t, NULL,
                            "it follows from its arguments alone: no clock, no file, nothing that "
                            "is kept between calls",
                            "the same arguments give %.9g, and %.9g, and it is declared to %s", x,
                            y, foreseen ? "be foreseen" : "be the same on all ranks");
    b.seconds += 7;
    b.clock.minutes += 7;
    b.free_bytes /= 2;
    y = supply(t, &b);
    if (foreseen && (x < y || x > y))
        return dg_test_miss(k, t, NULL, "take `foreseen` away: then it is asked in its own step",
                            "it is declared to be foreseen, and follows from the time or the "
                            "memory: %.9g, and %.9g",
                            x, y);
    b.rank = 2;
    b.own = dg_draw_begin(t->seed, "another rank's", 0);
    y = supply(t, &b);
    if (!varies && (x < y || x > y))
        return dg_test_miss(
            k, t, NULL, "a row DG_RULE_VALUE in the class's rules declares it (docs/invariance.md)",
            "rank 1 gives %.9g, rank 2 %.9g, and no row of rules says that its output differs", x,
            y);
    return true;
}
