/* record.c: <record>, named values, and <sum>, their sum; both take any number of inputs. */
#include "nodes/builtin.h"

#include <string.h>

typedef struct conf {
    int64_t unused; /* keeps names_offset from being 0, which means "no names" */
    dg_names names;
} conf;

static const dg_port record_ports[] = {
    DG_IN_OPTIONAL("*", "any", "the value of the key of this name"),
    DG_OUT("out", "any", "a record with a key for every input; absent inputs give absent keys"),
    { 0 },
};
static const dg_port sum_ports[] = {
    DG_IN("*", "f[...]", "a summand"),
    DG_OUT("out", "f[...]", "the sum of the inputs that are present"),
    { 0 },
};

static const dg_rule record_rules[] = {
    { DG_RULE_KEYS, .to = "out", .why = "gives each value under its name" },
    { DG_RULE_LINEAR, .why = "keeps values as they are" },
    { 0 },
};
static const dg_rule sum_rules[] = {
    { DG_RULE_LINEAR, .why = "adds" },
    { 0 },
};

static void type_record(dg_typing *t, const void *self)
{
    const conf *c = self;
    char text[2048] = "";
    size_t n = 0;

    for (int i = 0; i < c->names.n; i++) {
        size_t more = strlen(c->names.v[i]);

        if (n + more + 8 > sizeof text)
            return; /* too many keys: leave the type open */
        text[n++] = i ? ',' : '{';
        memcpy(text + n, c->names.v[i], more);
        memcpy(text + n + more, ":any", 5);
        n += more + 4;
    }
    if (n)
        dg_type(t, "out", "%s}", text);
}

static void check_record(dg_check *k, const void *self)
{
    if (((const conf *)self)->names.n == 0)
        dg_check_fail(k, NULL, "inputs-none",
                      "has no input: give it wires under names of your own");
}

static void lower_record(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    out[0] = dg_record(b);
    for (int i = 0; i < c->names.n; i++)
        if (dg_has(in[i]))
            dg_record_set(b, out[0], c->names.v[i], in[i]);
}

static void lower_sum(dg_build *b, const void *self, const dg_val in[], dg_val out[])
{
    const conf *c = self;

    for (int i = 0; i < c->names.n; i++)
        if (dg_has(in[i]))
            out[0] = dg_has(out[0]) ? dg_add(b, out[0], in[i]) : in[i];
}

const dg_node_class dg_node_record = {
    DG_NODE_CLASS,
    .name = "record",
    .role = DG_ROLE_CONTROL,
    .brief = "Groups values under names: <record loss_a=\"@x\" loss_b=\"@y\"/>.",
    .ports = record_ports,
    .conf_size = sizeof(conf),
    .names_offset = offsetof(conf, names),
    .rules = record_rules,
    .type = type_record,
    .check = check_record,
    .lower = lower_record,
};
const dg_node_class dg_node_sum = {
    DG_NODE_CLASS,
    .name = "sum",
    .role = DG_ROLE_CONTROL,
    .brief = "The sum of any number of values: <sum a=\"@x\" b=\"@y\"/>.",
    .doc = "Absent values are left out; if all are absent, so is the sum.",
    .ports = sum_ports,
    .conf_size = sizeof(conf),
    .names_offset = offsetof(conf, names),
    .rules = sum_rules,
    .check = check_record,
    .lower = lower_sum,
};
