#include "tests/feed/feeder_rig.h"

#include "base/str.h"
#include "nodes/builtin.h"

static const char *const keys[] = { "images", "targets.labels", "targets.boxes", "targets.count" };

void open_data_with(fixture *f, const char *nodes, const dg_node_class *const *more)
{
    dg_str xml = { 0 };
    int rc;

    f->d = dg_diag_open();
    f->registry = dg_registry_open();
    for (int i = 0; dg_builtin_nodes[i]; i++)
        assert_int_equal(dg_registry_add(f->registry, dg_builtin_nodes[i], f->d), 0);
    for (int i = 0; more && more[i]; i++)
        assert_int_equal(dg_registry_add(f->registry, more[i], f->d), 0);
    dg_str_fmt(
        &xml,
        "<pipeline version=\"1\" name=\"t\" seed=\"3\"><train steps=\"1\">%s</train></pipeline>",
        nodes);
    rc = dg_graph_parse(&f->graph, xml.s, xml.n, "stream.xml", NULL, 0, f->registry, f->d);
    dg_str_free(&xml);
    if (rc < 0) {
        dg_str text = { 0 };

        dg_diag_print(&text, f->d, NULL, NULL, false);
        print_error("%s", text.s);
        dg_str_free(&text);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(dg_graph_chain(&f->chain, f->graph->train, f->d), 0);
    assert_int_equal(f->chain.loader->class->open(&f->data, f->chain.loader->conf, 3, f->d), 0);
}

void open_data(fixture *f, const char *nodes)
{
    open_data_with(f, nodes, NULL);
}

void close_data(fixture *f)
{
    f->data->close(f->data->self);
    dg_graph_close(&f->graph);
    dg_registry_close(&f->registry);
    dg_diag_close(&f->d);
}

dg_feeder_conf conf_of(fixture *f, int threads)
{
    return (dg_feeder_conf){
        .plan = { .chain = &f->chain, .data = f->data, .seed = 3, .ranks = 1 },
        .accumulate = 1,
        .epochs = 2,
        .keys = keys,
        .n_keys = 4,
        .threads = threads,
        .ahead = 2,
    };
}
