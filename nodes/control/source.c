/* source.c: numbers from outside the graph: constants, time, this rank and its machine, random
 * numbers. In a program they are inputs that the host writes. */
#include "nodes/builtin.h"

#include <stdio.h>

typedef struct number {
    double value;
} number;
typedef struct file {
    const char *path;
} file;
typedef struct draw {
    double low, high;
    int64_t seed;
} draw;

static const dg_port real[] = { DG_OUT("out", "f[]", "the number"), { 0 } };
static const dg_port whole[] = { DG_OUT("out", "i[]", "the number"), { 0 } };

static const dg_attr number_attrs[] = { DG_NUM(number, value, 0, -1e300, 1e300, "the number"),
                                        { 0 } };
static const dg_attr file_attrs[] = { DG_STR_REQUIRED(file, path, "on this rank's machine"),
                                      { 0 } };
static const dg_attr draw_attrs[] = {
    DG_NUM(draw, low, 0, -1e300, 1e300, "lower bound"),
    DG_NUM(draw, high, 1, -1e300, 1e300, "upper bound, excluded"),
    DG_ENUM(draw, seed, 0, "rank|shared", "random numbers differ per rank, or are equal on all"),
    { 0 },
};

static const dg_rule rank_rules[] = {
    { DG_RULE_VALUE, .to = "out", .why = "is the number of this rank" },
    { 0 },
};
static const dg_rule clock_rules[] = {
    { DG_RULE_VALUE, .to = "out", .why = "is the time by this rank's clock" },
    { 0 },
};
static const dg_rule memory_rules[] = {
    { DG_RULE_VALUE, .to = "out", .why = "is what this rank has left" },
    { 0 },
};
static const dg_rule file_rules[] = {
    { DG_RULE_VALUE, .to = "out", .why = "looks at this rank's file system" },
    { 0 },
};
static const dg_rule draw_rules[] = {
    { DG_RULE_VALUE, .to = "out", .when = "seed!=shared",
      .why = "is drawn by each rank for itself" },
    { 0 },
};

static double step(const void *self, dg_supply_args *a)
{
    (void)self;
    return (double)a->clock.step;
}

static double epoch(const void *self, dg_supply_args *a)
{
    (void)self;
    return (double)a->clock.epoch;
}

static double constant(const void *self, dg_supply_args *a)
{
    const number *c = self;

    (void)a;
    return c->value;
}

static double rank_number(const void *self, dg_supply_args *a)
{
    (void)self;
    return a->rank;
}

static double seconds(const void *self, dg_supply_args *a)
{
    (void)self;
    return a->seconds;
}

static double free_bytes(const void *self, dg_supply_args *a)
{
    (void)self;
    return a->free_bytes;
}

static double is_there(const void *self, dg_supply_args *a)
{
    FILE *f = fopen(((const file *)self)->path, "rb");

    (void)a;
    if (f)
        fclose(f);
    return f != NULL;
}

static double drawn(const void *self, dg_supply_args *a)
{
    const draw *c = self;

    return dg_draw_range(c->seed ? &a->shared : &a->own, c->low, c->high);
}

static void lower_number(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const number *c = self;

    (void)in;
    out[0] = dg_number(b, c->value);
}

const dg_node_class dg_node_source_number = {
    DG_NODE_CLASS,
    .name = "source.number",
    .role = DG_ROLE_CONTROL,
    .brief = "A constant.",
    .ports = real,
    .attrs = number_attrs,
    .conf_size = sizeof(number),
    .lower = lower_number,
    .supply = constant,
    .foreseen = true,
};

#define SOURCE(id, text, port_table, rule_table, function, before)                              \
    const dg_node_class dg_node_source_##id = { DG_NODE_CLASS,           .name = "source." #id, \
                                                .role = DG_ROLE_CONTROL, .brief = text,         \
                                                .ports = port_table,     .rules = rule_table,   \
                                                .supply = function,      .foreseen = before }
SOURCE(step, "The number of the step, from 0: the same on every rank.", whole, NULL, step, true);
SOURCE(epoch, "The number of the epoch, from 0: the same on every rank.", whole, NULL, epoch, true);
SOURCE(rank, "The number of this rank.", whole, rank_rules, rank_number, true);
SOURCE(clock, "Seconds of the run, by this rank's clock.", real, clock_rules, seconds, false);
SOURCE(memory, "Free bytes on this rank.", real, memory_rules, free_bytes, false);

const dg_node_class dg_node_source_file = {
    DG_NODE_CLASS,
    .name = "source.file",
    .role = DG_ROLE_CONTROL,
    .brief = "1 if this rank can open a file, else 0.",
    .ports = whole,
    .attrs = file_attrs,
    .conf_size = sizeof(file),
    .rules = file_rules,
    .supply = is_there,
};
const dg_node_class dg_node_source_random = {
    DG_NODE_CLASS,
    .name = "source.random",
    .role = DG_ROLE_CONTROL,
    .brief = "A random number, drawn in each iteration.",
    .ports = real,
    .attrs = draw_attrs,
    .conf_size = sizeof(draw),
    .rules = draw_rules,
    .supply = drawn,
    .foreseen = true,
};
