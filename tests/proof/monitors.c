/* monitors.c: what is taken on trust has a monitor and what is proved has none; what a class hides
 * in its instructions is found when they are made. */
#include "tests/check.h"

#include <string.h>

#include "graph/monitor.h"
#include "media/json.h"
#include "nodes/builtin.h"
#include "proof/proof.h"

/* ---- classes that say of their output what is not in the wiring ------------------------------ */

static const dg_port scalar_of[] = { DG_IN("in", "f[...]", "numbers"),
                                     DG_OUT("out", "f[]", "their mean"),
                                     { 0 } };
static const dg_port alike_of[] = {
    DG_IN("in", "f[...]", "numbers"),
    DG_OUT_FLAGS("out", "f[]", DG_PORT_INVARIANT, "their mean, the same on all ranks"),
    { 0 },
};

static void mean(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    out[0] = dg_mean(b, in[0], DG_ALL_AXES, false);
}

static int run_op(const dg_args *a)
{
    memcpy(a->t[1].data, a->t[0].data, 4);
    return 0;
}
static int shape_op(dg_infer *s)
{
    s->out[0] = s->in[0];
    return 0;
}
static const dg_kernel op_kernel = { .run = run_op };
static const dg_op own = { DG_OP_ROW,
                          .name = "own",
                          .signature = "x -> y",
                          .effect = DG_PURE,
                          .precision = DG_WIDE,
                          .shape = shape_op,
                          .ref32 = &op_kernel,
                          .ref64 = &op_kernel };

/* An op that only this class knows. */
static void opaque(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    dg_val x = dg_mean(b, in[0], DG_ALL_AXES, false);

    (void)conf;
    dg_emit(b, &own, NULL, 1, &x, out);
}

static void draw(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    out[0] =
        dg_mean(b,
                dg_add(b, dg_uniform(b, "u", DG_SHAPE(2)), dg_mean(b, in[0], DG_ALL_AXES, false)),
                DG_ALL_AXES, false);
}

/* ---- classes that hide something ------------------------------------------------------------- */

static void hidden_sum(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    out[0] = dg_all_reduce(b, dg_mean(b, in[0], DG_ALL_AXES, false), DG_SUM, "dp");
}

static void hidden_state(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    dg_val x = dg_reshape(b, dg_mean(b, in[0], DG_ALL_AXES, false), DG_SHAPE(1));
    dg_val m = dg_buffer(b, "mean", DG_SHAPE(1), dg_init_zero()),
           v = dg_buffer(b, "var", DG_SHAPE(1), dg_init_zero());

    (void)conf;
    dg_stat_update(b, m, v, x, x, 8, 0.1);
    out[0] = dg_reshape(b, x, DG_SCALAR);
}

static const dg_port record_of[] = { DG_IN("in", "f[...]", "numbers"),
                                     DG_OUT("out", "{a:f[],b:f[],c?:f[],d_*:f[]}", "more"),
                                     { 0 } };

static void record(dg_build *b, const dg_val in[], dg_val out[], const char *const keys[])
{
    out[0] = dg_record(b);
    for (int i = 0; keys[i]; i++)
        dg_record_set(b, out[0], keys[i], dg_mean(b, in[0], DG_ALL_AXES, false));
}
static void whole(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    record(b, in, out, (const char *const[]){ "a", "b", "d_1", NULL });
}
static void lacking(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    record(b, in, out, (const char *const[]){ "a", "c", NULL });
}
static void more(dg_build *b, const void *conf, const dg_val in[], dg_val out[])
{
    (void)conf;
    record(b, in, out, (const char *const[]){ "a", "b", "e", NULL });
}

#define CLASS(id, ports_of, fn)                                    \
    static const dg_node_class class_##id = {                      \
        DG_NODE_CLASS,   .name = "t." #id,  .role = DG_ROLE_OTHER, \
        .brief = "One.", .ports = ports_of, .lower = fn,           \
    }
CLASS(mean, scalar_of, mean);
CLASS(alike, alike_of, mean);
CLASS(opaque, scalar_of, opaque);
CLASS(draw, scalar_of, draw);
CLASS(sum, scalar_of, hidden_sum);
CLASS(state, scalar_of, hidden_state);
CLASS(whole, record_of, whole);
CLASS(lacking, record_of, lacking);
CLASS(more, record_of, more);
static const dg_node_class *const own_classes[] = { &class_mean,  &class_alike,   &class_opaque,
                                                    &class_draw,  &class_sum,     &class_state,
                                                    &class_whole, &class_lacking, &class_more,
                                                    NULL };

typedef struct world {
    dg_diag *d;
    dg_registry *r;
    dg_graph *g;
    dg_arena *a;
} world;

#define DATA(deal)                                                                               \
    "<loader.synthetic id='data' images='24'/>\n<sampler.bucket id='pick' in='@data' batch='2' " \
    "sizes='32,64' tail='drop'" deal                                                             \
    "/>\n<augment id='aug' in='@pick'/>\n<batch id='b' in='@aug' "                               \
    "max_objects='4'/>\n"

static int load(world *w, const char *mesh, const char *data, const char *nodes)
{
    dg_str text = { 0 };
    int rc = 0;

    *w = (world){ .d = dg_diag_open(), .r = dg_registry_open(), .a = dg_arena_open() };
    for (int i = 0; dg_builtin_nodes[i] && rc == 0; i++)
        rc = dg_registry_add(w->r, dg_builtin_nodes[i], w->d);
    for (int i = 0; own_classes[i] && rc == 0; i++)
        rc = dg_registry_add(w->r, own_classes[i], w->d);
    if (strncmp(data, "<train", 6) == 0)
        dg_str_fmt(&text, "<pipeline version='1'>%s%s</pipeline>", mesh, data);
    else
        dg_str_fmt(
            &text,
            "<pipeline version='1' seed='1'>%s\n<model id='m'><input id='images'/><layer.linear "
            "id='y' "
            "in='@images' width='2'/></model><train steps='4'>\n%s"
            "<use id='out' model='m' images='@b.images'/>\n<loss.mean id='loss' in='@out'/>\n%s\n"
            "<backward id='grad' loss='@loss.total'/><allreduce id='sync' in='@grad' axis='dp'/>"
            "<optimizer.adamw gradients='@sync' lr='1'/></train></pipeline>",
            mesh, data, nodes);
    rc = rc == 0 ? dg_graph_parse(&w->g, text.s, text.n, "t.xml", NULL, 0, w->r, w->d) : rc;
    rc = rc == 0 ? dg_graph_check(w->g, w->d) : rc;
    dg_str_free(&text);
    return rc;
}

static void done(world *w)
{
    dg_graph_close(&w->g);
    dg_registry_close(&w->r);
    dg_arena_close(&w->a);
    dg_diag_close(&w->d);
}

static void expect(const char *mesh, const char *data, const char *nodes, const char *list)
{
    world w;
    dg_monitors *m;
    dg_str text = { 0 };
    const dg_json *json;

    if (load(&w, mesh, data, nodes) < 0)
        fail_msg("%s", dg_diag_text(w.d));
    assert_int_equal(dg_monitors_make(&m, w.g, w.a, w.d), 0);
    dg_str_add(&text, "");
    dg_monitors_print(&text, m);
    for (size_t i = 0; strcmp(text.s, list) != 0; i++) /* the first line that differs */
        if (text.s[i] != list[i])
            fail_msg("have: %.200s\nwant: %.200s", text.s + i, list + i);
    text.n = 0;
    dg_monitors_json(&text, m);
    assert_int_equal(dg_json_parse(&json, w.a, text.s, text.n, "list", w.d), 0);
    assert_int_equal(json->n, m->list.n);
    dg_str_free(&text);
    done(&w);
}

#define RANKS "<mesh dp='2'/>"
#define STREAM()                                                                                 \
    "t.xml:3:1: train/data.out: data: declared the same on all ranks of dp (2 ranks) (digests, " \
    "at the start)\n"                                                                            \
    "t.xml:4:1: train/pick.out: count: declared equal on all ranks of dp (2 ranks) (digests, "   \
    "with each batch)\n"                                                                         \
    "t.xml:4:1: train/pick.out: size: declared one for all ranks at a step of dp (2 ranks) "     \
    "(digests, with each batch)\n" LOCAL
#define LOCAL                                                                                      \
    "t.xml:4:1: train/pick.out: sizes: declared those that it lists (each rank, each epoch)\n"     \
    "t.xml:5:1: train/aug.out: drops: declared drops=\"no\" (each rank, each sample)\n"            \
    "t.xml:6:1: train/b.images: presence: declared always there (each rank, each batch)\n"         \
    "t.xml:6:1: train/b.images: shape: declared f[B,H,W,3] (each rank, each batch)\n"              \
    "t.xml:6:1: train/b.targets: presence: declared always there (each rank, each batch)\n"        \
    "t.xml:6:1: train/b.targets: shape: declared {labels:i[B,M],boxes:f[B,M,4],count:i[B]} (each " \
    "rank, each batch)\n"                                                                          \
    "t.xml:6:1: train/b.sizes: presence: declared always there (each rank, each batch)\n"          \
    "t.xml:6:1: train/b.sizes: shape: declared i[B,2] (each rank, each batch)\n"
#define VALUE(node)                                                                          \
    node ".out: value: declared the same on all ranks of dp (2 ranks) (digests, within the " \
         "batch)\n"

/* Shares of 8 and 7 images. */
#define UNEVEN                                                                             \
    "<loader.synthetic id='data' images='15'/><partition id='mine' in='@data' axis='dp'/>" \
    "<sampler.plain id='pick' in='@mine' batch='1' size='32'/><batch id='b' in='@pick' "   \
    "max_objects='8'/>"

static void add_uneven(dg_str *list)
{
    static const int column[] = { 11, 95, 152 };
    static const struct {
        int node;
        const char *said;
    } rows[] = {
        { 0, "data.out: data: declared the same on all ranks of dp (2 ranks) (digests, at the "
             "start)" },
        { 1, "pick.out: sizes: declared those that it lists (each rank, each epoch)" },
        { 2, "b.images: presence: declared always there (each rank, each batch)" },
        { 2, "b.images: shape: declared f[B,H,W,3] (each rank, each batch)" },
        { 2, "b.targets: presence: declared always there (each rank, each batch)" },
        { 2, "b.targets: shape: declared {labels:i[B,M],boxes:f[B,M,4],count:i[B]} (each rank, "
             "each batch)" },
        { 2, "b.sizes: presence: declared always there (each rank, each batch)" },
        { 2, "b.sizes: shape: declared i[B,2] (each rank, each batch)" },
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        dg_str_fmt(list, "t.xml:8:%d: evaluate/%s\n", column[rows[i].node], rows[i].said);
}

/* Batches that need not be of one epoch are not compared. An evaluation is one epoch, of whatever
 * length. */
static void of_one_epoch(void **state)
{
    dg_str list = { 0 };

    (void)state;
    add_uneven(&list);
    dg_str_add(&list, "t.xml:9:1: evaluate/y: firing: proved to be on all ranks or on none of dp "
                      "(2 ranks) (digests, within the batch)\n" STREAM());
    expect(RANKS,
           "<train epochs='2'>\n\n" DATA(" axis='dp'") "</train>\n<evaluate>" UNEVEN
                                                       "<source.number id='e'/>\n<loss.mean id='y' "
                                                       "in='@b.images' when='@e'/></evaluate>",
           "", list.s);
    dg_str_free(&list);
}

static void trusted(void **state)
{
    (void)state;
    expect(RANKS, DATA(" axis='dp'"), "", STREAM());
    /* what built-in instructions make of what is alike is proved; so is what differs anyway */
    expect(RANKS, DATA(" axis='dp'"),
           "<source.number id='one'/><t.mean id='x' in='@one'/><t.alike id='y' "
           "in='@one'/><t.opaque id='z' in='@out'/>",
           STREAM());
    expect(
        RANKS, DATA(" axis='dp'"),
        "<source.step id='step'/>\n<t.alike id='a' in='@out'/>\n<source.number id='one'/><t.opaque "
        "id='o' in='@one'/>\n"
        "<t.draw id='u' in='@one'/>\n<t.mean id='e' in='@one' when='@step'/>",
        STREAM() VALUE("t.xml:9:1: train/step") VALUE("t.xml:10:1: train/a")
            VALUE("t.xml:11:26: train/o") VALUE(
                "t.xml:12:1: train/u") "t.xml:13:1: train/e: firing: proved to be on all ranks or "
                                       "on none of dp (2 ranks) (digests, within the batch)\n");
    /* bits that may differ are not compared */
    expect(RANKS, DATA(" axis='dp'"),
           "<source.number id='one'/><t.opaque id='o' in='@one' exact='false'/>", STREAM());
    /* one rank, or none that is named: each looks for itself */
    expect("<mesh dp='1'/>", DATA(" axis='dp'"), "<source.step id='step'/>", LOCAL);
}

static void hidden(void **state)
{
    static const struct {
        const char *node, *id, *said;
    } cases[] = {
        { "<t.sum id='n' in='@out'/>", "contract-undeclared",
          "<t.sum> exchanges values with other ranks (all_reduce) over dp, and no row of its class "
          "says so "
          "here" },
        { "<t.state id='n' in='@out'/>", "contract-undeclared",
          "<t.state> keeps running statistics, and no row" },
        { "<t.lacking id='n' in='@out'/>", "contract-keys",
          "<t.lacking> declares \"out\" as {a:f[],b:f[],c?:f[],d_*:f[]}, and gives no key \"b\"" },
        { "<t.more id='n' in='@out'/>", "contract-keys", "and gives a key \"e\"" },
    };
    world w;

    (void)state;
    assert_int_equal(load(&w, RANKS, DATA(" axis='dp'"), "<t.whole id='n' in='@out'/>"), 0);
    done(&w);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (load(&w, RANKS, DATA(" axis='dp'"), cases[i].node) == 0)
            fail_msg("%s is accepted", cases[i].node);
        if (!strstr(dg_diag_at(w.d, 0)->text, cases[i].said))
            fail_msg("%s", dg_diag_text(w.d));
        check_only(w.d, cases[i].id);
        done(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trusted),
        cmocka_unit_test(of_one_epoch),
        cmocka_unit_test(hidden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
