/* ema.c: <ema>: moving average of parameters and running statistics: e <- d e + (1-d) w after every
 * step n = 1, 2, ... with d = decay (1 - exp(-n / warmup)), so that the initial weights are
 * forgotten quickly. */
#include "nodes/builtin.h"

#include <math.h>

typedef struct conf {
    double decay, warmup;
} conf;

static const dg_port ports[] = {
    DG_IN("of", "parameters", "parameters after the step"),
    DG_OUT("parameters", "parameters", "their average"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_NUM(conf, decay, 0.9999, 0, 1, "weight of the old average"),
    DG_NUM(conf, warmup, 2000, 0, 1e9, "steps over which decay rises to its value; 0: constant"),
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_STATE, .from = "of", .why = "updates the average" },
    { 0 },
};

static void lower_ema(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    (void)self;
    out[0] = dg_ema(b, in[0]);
}

static void control(const void *self, const dg_clock *clock, dg_control *to)
{
    const conf *c = self;
    double n = (double)(clock->step + 1);

    to->ema_decay = c->warmup > 0 ? c->decay * -expm1(-n / c->warmup) : c->decay;
}

const dg_node_class dg_node_ema = {
    DG_NODE_CLASS,
    .name = "ema",
    .role = DG_ROLE_OPTIMIZER,
    .brief = "Exponential moving average of all parameters and running statistics.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .lower = lower_ema,
    .control = control,
};
