/* monitor.c: describes monitors as text and as JSON. */
#include "graph/monitor.h"

static const struct {
    const char *attribute, *declares, *how;
    bool joint;
} kinds[DG_N_MONITORS] = {
    [DG_MONITOR_DATA] = { "data", "declared the same on all ranks", "digests, at the start",
                          false },
    [DG_MONITOR_COUNT] = { "count", "declared equal on all ranks", "digests, with each batch",
                           true },
    [DG_MONITOR_SIZE] = { "size", "declared one for all ranks at a step",
                          "digests, with each batch", true },
    [DG_MONITOR_VALUE] = { "value", "declared the same on all ranks", "digests, within the batch",
                           true },
    [DG_MONITOR_FIRING] = { "firing", "proved to be on all ranks or on none",
                            "digests, within the batch", true },
    [DG_MONITOR_LISTED] = { "sizes", "declared those that it lists", "each rank, each epoch",
                            false },
    [DG_MONITOR_DROPS] = { "drops", "declared drops=\"no\"", "each rank, each sample", false },
    [DG_MONITOR_PRESENT] = { "presence", "declared always there", "each rank, each batch", false },
    [DG_MONITOR_SHAPE] = { "shape", "declared ", "each rank, each batch", false },
};

/* ---- one monitor ----------------------------------------------------------------------------- */

bool dg_monitor_is_joint(const dg_monitor *m)
{
    return kinds[m->kind].joint;
}

const char *dg_monitor_attribute(const dg_monitor *m)
{
    return kinds[m->kind].attribute;
}

static const char *how(const dg_monitor *m)
{
    return kinds[m->kind].how;
}

const char *dg_monitor_port(const dg_monitor *m)
{
    return m->output < 0 ? "" : m->node->out_ports[m->output]->name;
}

void dg_monitor_declares(dg_str *out, const dg_monitor *m)
{
    dg_str_add(out, kinds[m->kind].declares);
    if (m->kind == DG_MONITOR_SHAPE)
        dg_str_add(out, m->node->out_types[m->output]);
    if (m->axes)
        dg_str_fmt(out, " of %s", m->axes);
}

/* ---- the list -------------------------------------------------------------------------------- */

static void print_one(dg_str *out, const dg_monitor *m)
{
    const dg_where *at = &m->node->where;
    const char *port = dg_monitor_port(m);

    dg_str_fmt(out, "%s:%d:%d: %s%s%s: %s: ", at->file, at->line, at->column, m->node->path,
               *port ? "." : "", port, dg_monitor_attribute(m));
    dg_monitor_declares(out, m);
    dg_str_fmt(out, " (%s)\n", how(m));
}

void dg_monitors_print(dg_str *out, const dg_monitors *m)
{
    for (int i = 0; i < m->list.n; i++)
        print_one(out, &m->list.items[i]);
}

static void json_text(dg_str *out, const char *key, const char *value)
{
    dg_str_fmt(out, "\"%s\":", key);
    dg_str_json(out, value);
    dg_str_add(out, ",");
}

void dg_monitors_json(dg_str *out, const dg_monitors *m)
{
    dg_str_add(out, "[");
    for (int i = 0; i < m->list.n; i++) {
        const dg_monitor *x = &m->list.items[i];
        dg_str declares = { 0 };

        dg_monitor_declares(&declares, x);
        dg_str_fmt(out, "%s\n  {\"monitor\":%d,", i ? "," : "", i);
        json_text(out, "scope", x->scope->id);
        json_text(out, "node", x->node->path);
        json_text(out, "class", x->node->class->name);
        json_text(out, "port", dg_monitor_port(x));
        json_text(out, "attribute", dg_monitor_attribute(x));
        json_text(out, "contract", declares.s);
        json_text(out, "watched", how(x));
        json_text(out, "file", x->node->where.file);
        dg_str_fmt(out, "\"line\":%d,\"column\":%d}", x->node->where.line, x->node->where.column);
        dg_str_free(&declares);
    }
    dg_str_fmt(out, "%s]\n", m->list.n ? "\n" : "");
}
