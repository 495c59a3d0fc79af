/* adamw.c: <optimizer.adamw>: Loshchilov & Hutter 2019, with the gradient clipped by its global
 * norm.
 *
 *     g <- g min(1, clip / (|g| + 1e-6))
 *     m <- b1 m + (1-b1) g,  v <- b2 v + (1-b2) g^2
 *     w <- w (1 - lr wd) - lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps)
 * Step-dependent numbers reach the device in the control struct, computed here in double. */
#include "nodes/builtin.h"
#include "nodes/optimizer/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct conf {
    double lr, weight_decay, beta1, beta2, eps, clip;
    dg_children children;
} conf;

typedef struct group {
    const char *match, *unless;
    int64_t layers;
    double lr_scale, lr, weight_decay, decay;
} group;

enum { GROUP, SCHEDULE };
enum { LONGEST = 200, MOST_TEXT = 512 };  /* of a pattern of layers, and with numbers */
enum { MOST_GROUPS = DG_MAX_GROUPS - 1 }; /* one is for the remaining parameters */

static const dg_port ports[] = {
    DG_IN("gradients", "gradients", "gradients of all parameters"),
    DG_IN_OPTIONAL("norm", "f[]", "their norm, for clip; if omitted, computed here"),
    DG_OUT("parameters", "parameters", "the parameters after the step"),
    { 0 },
};

static const dg_attr attrs[] = {
    DG_NUM(conf, lr, 1e-4, 0, DG_LR_MAX, "learning rate"),
    DG_NUM(conf, weight_decay, 1e-4, 0, 10, "decoupled weight decay"),
    DG_NUM(conf, beta1, 0.9, 0, 0.999999, "decay of the first moment"),
    DG_NUM(conf, beta2, 0.999, 0, 0.99999999, "decay of the second moment"),
    DG_NUM(conf, eps, 1e-8, 1e-16, 1, "added to the root of the second moment"),
    DG_NUM(conf, clip, 0, 0, 1e12, "largest L2 norm of the whole gradient; 0: do not clip"),
    { 0 },
};

static const dg_attr group_attrs[] = {
    DG_STR_REQUIRED(group, match, "extended regular expression that selects parameters by name"),
    DG_STR(group, unless, NULL, "extended regular expression that excludes names"),
    DG_NUM(group, lr, -1, -1, DG_LR_MAX, "learning rate; -1: the optimizer's times lr_scale"),
    DG_NUM(group, lr_scale, 1, 0, 1000, "factor on the optimizer's learning rate"),
    DG_NUM(group, weight_decay, -1, -1, 10, "weight decay; -1: the optimizer's"),
    DG_INT(group, layers, 0, 0, MOST_GROUPS,
           "one such group for each layer: # in match and unless is its number, from 0"),
    DG_NUM(
        group, decay, 1, 0, 1,
        "layers: factor on the learning rate from a layer to the one before it; the last one has "
        "the group's"),
    { 0 },
};

static const dg_child_class children[] = {
    { "group", group_attrs, sizeof(group), MOST_GROUPS,
      "Parameters with separate settings; all others form the last group." },
    { "schedule", dg_schedule_attrs, sizeof(dg_schedule_conf), 1,
      "Changes the learning rate of all groups over the run." },
    { 0 },
};

static const dg_rule rules[] = {
    { DG_RULE_STATE, .from = "gradients", .why = "updates weights and moments" },
    { DG_RULE_STATE, .from = "norm", .why = "updates weights and moments" },
    { 0 },
};

/* Groups that a <group> stands for. */
static int64_t group_n(const group *g)
{
    return g->layers ? g->layers : 1;
}

static void check_group(dg_check *k, const group *g)
{
    if (g->lr < 0 && g->lr > -1)
        dg_check_fail(k, NULL, "group-rates",
                      "group \"%s\": lr=\"%g\" is below 0; without lr it is the optimizer's",
                      g->match, g->lr);
    if (g->lr >= 0 && (g->lr_scale < 1 || g->lr_scale > 1))
        dg_check_fail(k, NULL, "group-lr",
                      "group \"%s\" has both lr and lr_scale; one of them is enough", g->match);
    if (g->layers && !strchr(g->match, '#'))
        dg_check_fail(k, NULL, "group-layers",
                      "group \"%s\" has layers, but no # that stands for a layer's number",
                      g->match);
    if (!g->layers && g->decay < 1)
        dg_check_fail(k, NULL, "group-layers", "decay of group \"%s\" needs layers", g->match);
    if (g->layers && (strlen(g->match) > LONGEST || (g->unless && strlen(g->unless) > LONGEST)))
        dg_check_fail(k, NULL, "group-layers", "a pattern of layers has at most %d characters",
                      LONGEST);
}

static void check_adamw(dg_check *k, const void *self)
{
    const conf *c = self;
    int64_t n = 0;

    for (int i = 0; i < c->children.n; i++) {
        const group *g = c->children.v[i].conf;

        if (c->children.v[i].kind == SCHEDULE)
            dg_schedule_check(k, c->children.v[i].conf);
        if (c->children.v[i].kind == GROUP) {
            check_group(k, g);
            n += group_n(g);
        }
    }
    if (n > MOST_GROUPS)
        dg_check_fail(k, NULL, "group-count",
                      "%lld groups, with those of layers; at most %d are "
                      "possible",
                      (long long)n, MOST_GROUPS);
}

/* Calls fn for every group, layers one by one. */
static void each_group(const conf *c, void *ctx,
                       void (*fn)(void *ctx, const conf *c, const group *g, int64_t layer))
{
    for (int i = 0; i < c->children.n; i++) {
        const group *g = c->children.v[i].conf;

        for (int64_t l = 0; c->children.v[i].kind == GROUP && l < group_n(g); l++)
            fn(ctx, c, g, l);
    }
}

/* Rates of the groups, for a factor of 1. */
static void add_rate(void *ctx, const conf *c, const group *g, int64_t layer)
{
    dg_control *to = ctx;
    double lr = g->lr < 0 ? c->lr * g->lr_scale : g->lr;

    if (to->n_groups < MOST_GROUPS)
        to->lr[to->n_groups++] = lr * pow(g->decay, (double)(group_n(g) - 1 - layer));
}

typedef struct patterns {
    int n;
    dg_group groups[DG_MAX_GROUPS];
    char text[DG_MAX_GROUPS][2][MOST_TEXT];
} patterns;

/* The pattern of a layer: each # is its number. NULL stays NULL. */
static const char *pattern_of(char to[MOST_TEXT], const char *from, const group *g, int64_t layer)
{
    size_t n = 0;

    if (!from || !g->layers)
        return from;
    to[0] = 0;
    for (; *from && n + 3 < MOST_TEXT; from++)
        n += (size_t)(*from == '#' ? snprintf(to + n, MOST_TEXT - n, "%lld", (long long)layer)
                                   : snprintf(to + n, MOST_TEXT - n, "%c", *from));
    return to;
}

static void add_pattern(void *ctx, const conf *c, const group *g, int64_t layer)
{
    patterns *p = ctx;
    double decay = g->weight_decay < 0 ? c->weight_decay : g->weight_decay;

    if (p->n == MOST_GROUPS)
        return;
    p->groups[p->n] = (dg_group){ pattern_of(p->text[p->n][0], g->match, g, layer),
                                  pattern_of(p->text[p->n][1], g->unless, g, layer), decay };
    p->n++;
}

static void lower_adamw(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;
    patterns p = { 0 };
    dg_adamw_attr attr = { c->beta1, c->beta2, c->eps, c->weight_decay, c->clip, 0, p.groups };
    dg_val norm = dg_name(b, dg_has(in[1]) ? in[1] : dg_gradient_norm(b, in[0]), "grad_norm");

    each_group(c, &p, add_pattern);
    p.groups[p.n++] = (dg_group){ NULL, NULL, c->weight_decay };
    attr.n_groups = p.n;
    out[0] = dg_adamw(b, in[0], norm, &attr);
}

static void control(const void *self, const dg_clock *clock, dg_control *to)
{
    const conf *c = self;
    const dg_schedule_conf *schedule = NULL;
    double factor, t = (double)(clock->step + 1);

    for (int i = 0; i < c->children.n; i++)
        if (c->children.v[i].kind == SCHEDULE)
            schedule = c->children.v[i].conf;
    factor = dg_schedule_factor(schedule, clock);
    to->n_groups = 0;
    each_group(c, to, add_rate);
    to->lr[to->n_groups++] = c->lr;
    for (int i = 0; i < to->n_groups; i++)
        to->lr[i] *= factor;
    to->bias1 = 1 - pow(c->beta1, t);
    to->bias2 = 1 - pow(c->beta2, t);
}

const dg_node_class dg_node_optimizer_adamw = {
    DG_NODE_CLASS,
    .name = "optimizer.adamw",
    .role = DG_ROLE_OPTIMIZER,
    .brief = "AdamW with parameter groups, clipping by global norm and a learning-rate schedule.",
    .doc = "A step whose loss or gradient norm is not finite changes nothing.",
    .ports = ports,
    .attrs = attrs,
    .conf_size = sizeof(conf),
    .rules = rules,
    .children = children,
    .children_offset = offsetof(conf, children),
    .check = check_adamw,
    .lower = lower_adamw,
    .control = control,
};
