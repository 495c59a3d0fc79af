/* language: good pipelines mean what docs/xml.md says they mean. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "proof/proof.h"
#include "tests/graph/toy.h"

#define NET                                \
    "<model id='net'><input id='images'/>" \
    "<toy.conv id='conv' in='@images'/><toy.head id='head' in='@conv' classes='3'/></model>"
#define DATA                                                                                 \
    "<toy.loader id='data'/><toy.sampler id='pick' in='@data' batch='2'/><toy.batch id='b' " \
    "in='@pick'/>"                                                                           \
    "<use id='out' model='net' images='@b.images'/>"
#define STEP                                                                                \
    "<toy.loss id='loss' predictions='@out' targets='@b.targets'/><toy.backward id='grad' " \
    "loss='@loss'/><toy.step id='opt' gradients='@grad'/>"

typedef struct world {
    dg_diag *d;
    dg_registry *r;
    dg_graph *g;
} world;

static void load(world *w, const char *text, const dg_set *sets, int n_sets)
{
    w->d = dg_diag_open();
    w->r = toy_registry(w->d);
    int rc = dg_graph_parse(&w->g, text, strlen(text), "dir/t.xml", sets, n_sets, w->r, w->d);

    if (rc < 0 || dg_diag_n(w->d) || dg_graph_check(w->g, w->d) < 0) {
        char *said = toy_print(w->d, w->g);

        fail_msg("%s", said);
    }
}

static void done(world *w)
{
    dg_graph_close(&w->g);
    dg_registry_close(&w->r);
    dg_diag_close(&w->d);
}

static const dg_node *node(const world *w, const char *path)
{
    const dg_node *n = toy_node(w->g, path);

    if (!n)
        fail_msg("there is no node %s", path);
    return n;
}

/* Input `port` of a node is fed by the node at `from`. */
static void fed_by(const world *w, const char *path, int port, const char *from)
{
    const dg_node *n = node(w, path);

    assert_non_null(n->in[port].from);
    assert_string_equal(n->in[port].from->path, from);
}

static void scopes(void **state)
{
    world w;

    (void)state;
    load(&w,
         "<pipeline version='1' name='all' seed='7'><mesh dp='ranks'/>" NET
         "<train epochs='3' precision='bf16' accumulate='4' patience='10 epochs'>" DATA STEP
         "<toy.ema id='ema' of='@opt'/><toy.log in='@loss.terms'/>"
         "<toy.log in='@loss.terms.loss_b'/></train>"
         "<evaluate every='153 steps' weights='@ema'>" DATA
         "<toy.score id='score' in='@out'/></evaluate>"
         "<evaluate id='second' every='10 min' weights='@opt'>" DATA
         "<toy.score id='other' in='@out'/></evaluate>"
         "<checkpoint to='runs/x' every='1 epoch' best='@score.AP/red cell' keep='3'/></pipeline>",
         NULL, 0);
    const dg_graph *g = w.g;

    assert_string_equal(g->name, "all");
    assert_int_equal(g->seed, 7);
    assert_string_equal(g->axis, "dp");
    assert_int_equal(g->ranks, 1);
    assert_int_equal(g->train->epochs, 3);
    assert_int_equal(g->train->steps, 0);
    assert_int_equal(g->train->precision, 1);
    assert_int_equal(g->train->accumulate, 4);
    assert_int_equal(g->train->patience.unit, DG_EPOCHS);
    assert_int_equal(g->n_evaluates, 2);
    assert_ptr_equal(g->evaluates[0]->weights, node(&w, "train/ema"));
    assert_null(g->evaluates[1]->weights); /* what an optimizer gives are the weights as trained */
    assert_string_equal(g->evaluates[1]->id, "second");
    assert_int_equal(g->evaluates[1]->every.unit, DG_MINUTES);
    assert_int_equal(g->evaluates[0]->every.unit, DG_STEPS);
    assert_true(g->evaluates[0]->every.n == 153);
    assert_ptr_equal(g->checkpoint.best, node(&w, "evaluate/score"));
    assert_string_equal(g->checkpoint.best_key, "AP/red cell");
    assert_string_equal(g->checkpoint.to, "runs/x");
    assert_int_equal(g->checkpoint.keep, 3);
    /* nodes without an id are numbered within their scope and class; a bare id is the main
     * output */
    assert_string_equal(node(&w, "train/toy.log#1")->in[0].key ? "key" : "all", "all");
    assert_string_equal(node(&w, "train/toy.log#2")->in[0].key, "loss_b");
    assert_int_equal(node(&w, "train/grad")->in[0].port, 0);
    assert_string_equal(node(&w, "train/loss")->out_types[1], "{loss_a:f[],loss_b:f[]}");
    assert_string_equal(node(&w, "second/other")->where.node, "second/other");
    done(&w);
}

static void lets(void **state)
{
    const dg_set sets[] = { { "n", "5" } };
    world w;

    (void)state;
    load(&w,
         "<pipeline version='1'><let n='3' a='silu' dollar='$$x' at='@@home'/><let act='$a' "
         "name='${a}-${n}'/>"
         "<model id='net'><input id='images'/><let n='6'/><toy.conv id='conv' in='@images' "
         "width='$n' act='$act'/>"
         "<toy.head id='head' in='@conv' classes='4'/></model>"
         "<train steps='$n'><toy.loader id='data' split='$name$dollar'/><toy.sampler id='pick' "
         "in='@data' batch='2'/><toy.batch id='b' in='@pick'/>"
         "<use id='out' model='net' images='@b.images'/>" STEP "</train>"
         "<evaluate><toy.loader id='data' split='$at'/></evaluate></pipeline>",
         sets, 1);
    const char *const *split = node(&w, "train/data")->conf; /* root, split */

    assert_int_equal(w.g->train->steps, 5);
    assert_int_equal(*(const int64_t *)node(&w, "net/conv")->conf,
                     6); /* an inner let shadows, --set reaches the top only */
    assert_int_equal(((const int64_t *)node(&w, "net/conv")->conf)[1], 2);
    assert_string_equal(split[1], "silu-5$x");
    split = node(&w, "evaluate/data")->conf;
    assert_string_equal(split[1], "@home");
    done(&w);
}

static void stacks(void **state)
{
    world w;

    (void)state;
    load(&w,
         "<pipeline version='1'><model id='net'><input id='images'/>"
         "<stack id='body' count='2' in='@images'><toy.conv id='a' in='@in' width='8'/>"
         "<stack id='deep' count='2' in='@a'><toy.norm id='n' in='@in'/></stack><toy.conv id='c' "
         "in='@deep' width='1$index'/></stack>"
         "<toy.norm id='sum' in='@body'/><toy.head id='head' in='@sum' classes='3'/></model>"
         "<train steps='1'>" DATA STEP "</train></pipeline>",
         NULL, 0);
    fed_by(&w, "net/body.0.a", 0, "net/images");
    fed_by(&w, "net/body.0.deep.0.n", 0, "net/body.0.a");
    fed_by(&w, "net/body.0.deep.1.n", 0, "net/body.0.deep.0.n");
    fed_by(&w, "net/body.0.c", 0, "net/body.0.deep.1.n");
    fed_by(&w, "net/body.1.a", 0, "net/body.0.c");
    fed_by(&w, "net/body.1.c", 0, "net/body.1.deep.1.n");
    fed_by(&w, "net/sum", 0, "net/body.1.c");
    assert_int_equal(*(const int64_t *)node(&w, "net/body.1.c")->conf, 11);
    done(&w);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
    dg_diag *d = dg_diag_open();

    assert_int_equal(dg_file_write(path, text, strlen(text), d), 0);
    dg_diag_close(&d);
}

static void includes(void **state)
{
    static const char main_text[] =
        "<pipeline version='1'><let width='5' data='here/data'/><model id='net'><input "
        "id='images'/>"
        "<include file='parts/body.xml' id='body' act='relu'/><include file='parts/body.xml' "
        "id='more' from='@body' width='7'/>"
        "<toy.head id='head' in='@more' classes='3'/></model>"
        "<train steps='1'><toy.loader id='data' root='$data'/><toy.sampler id='pick' in='@data' "
        "batch='2'/><toy.batch id='b' in='@pick'/>"
        "<use id='out' model='net' images='@b.images'/>" STEP "</train>"
        "<evaluate><toy.loader id='data' root='sub/x'/><include file='parts/load.xml' "
        "id='p'/></evaluate></pipeline>";
    char folder[] = "/tmp/dg-language-XXXXXX", here[4096], want[8192];
    const dg_set sets[] = { { "data", "typed/data" } };
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);
    world w = { d, r, NULL };

    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("pipes", 0777) | mkdir("pipes/parts", 0777), 0);
    write_file("pipes/main.xml", main_text);
    write_file("pipes/parts/body.xml", "<part><let from='@images' act='none'/><toy.conv id='conv' "
                                       "in='$from' width='$width' act='$act'/></part>");
    write_file("pipes/parts/load.xml", "<part><toy.loader id='beside' root='y'/></part>");
    if (dg_graph_load(&w.g, "pipes/main.xml", sets, 1, r, d) < 0 || dg_diag_n(d))
        fail_msg("%s", toy_print(d, w.g));
    fed_by(&w, "net/body.conv", 0, "net/images");
    fed_by(&w, "net/more.conv", 0, "net/body.conv");
    fed_by(&w, "net/head", 0, "net/more.conv");
    assert_int_equal(((const int64_t *)node(&w, "net/body.conv")->conf)[0], 5);
    assert_int_equal(((const int64_t *)node(&w, "net/body.conv")->conf)[1], 1);
    assert_int_equal(((const int64_t *)node(&w, "net/more.conv")->conf)[0], 7);
    assert_int_equal(((const int64_t *)node(&w, "net/more.conv")->conf)[1], 0);
    assert_string_equal(node(&w, "net/more.conv")->where.file, "pipes/parts/body.xml");
    /* a path belongs to the file that wrote it, and what --set says to the folder where it was
     * typed */
    snprintf(want, sizeof want, "%s/typed/data", folder);
    assert_string_equal(*(const char *const *)node(&w, "train/data")->conf, want);
    snprintf(want, sizeof want, "%s/pipes/sub/x", folder);
    assert_string_equal(*(const char *const *)node(&w, "evaluate/data")->conf, want);
    snprintf(want, sizeof want, "%s/pipes/parts/y", folder);
    assert_string_equal(*(const char *const *)node(&w, "evaluate/p.beside")->conf, want);
    size_t n;

    assert_non_null(dg_graph_source(w.g, "pipes/parts/load.xml", &n));
    assert_int_equal(n, 47);
    assert_null(dg_graph_source(w.g, "elsewhere.xml", &n));
    done(&w);
    unlink("pipes/main.xml");
    unlink("pipes/parts/body.xml");
    unlink("pipes/parts/load.xml");
    rmdir("pipes/parts");
    rmdir("pipes");
    assert_int_equal(chdir(here), 0);
    rmdir(folder);
}

/* A chain of files, each including the next, and a part that is not there because it is a
 * folder. */
static void include_depth(void **state)
{
    char folder[] = "/tmp/dg-depth-XXXXXX", path[64], text[128];
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);
    dg_graph *g;

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/%d.xml", folder, i);
        snprintf(text, sizeof text,
                 i ? "<part><include file='%d.xml'/></part>"
                   : "<pipeline version='1'><include file='%d.xml'/></pipeline>",
                 i + 1);
        write_file(path, text);
    }
    snprintf(path, sizeof path, "%s/0.xml", folder);
    assert_true(dg_graph_load(&g, path, NULL, 0, r, d) < 0);
    check_only(d, "include-too-deep");
    dg_graph_close(&g);
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/%d.xml", folder, i);
        unlink(path);
    }
    rmdir(folder);
    dg_registry_close(&r);
    dg_diag_close(&d);
}

static void attributes(void **state)
{
    typedef struct {
        int64_t batch;
        dg_sizes sizes;
        dg_ints steps;
        dg_when until;
        bool shuffle;
    } sampler;
    world w;

    (void)state;
    load(&w,
         "<pipeline version='1'>" NET
         "<train steps='1'><toy.loader id='data' root='/abs/x' on_error='replace'/>"
         "<toy.sampler id='pick' in='@data' batch='2' sizes='32, 64x48,100:108:4' steps='-2,4:6:1' "
         "until='epoch 0' shuffle='false'/>"
         "<toy.augment id='aug' in='@pick'><flip/><crop p='1e-1'/><flip p='0' until='10 "
         "min'/></toy.augment><toy.batch id='b' in='@aug'/>"
         "<use id='out' model='net' images='@b.images' recompute='true'/>" STEP
         "</train></pipeline>",
         NULL, 0);
    const sampler *s = node(&w, "train/pick")->conf;
    const dg_children *ops = node(&w, "train/aug")->conf;
    dg_chain chain;

    assert_int_equal(s->sizes.n, 5);
    assert_int_equal(s->sizes.v[1].w, 64);
    assert_int_equal(s->sizes.v[1].h, 48);
    assert_int_equal(s->sizes.v[4].w, 108);
    assert_int_equal(s->steps.n, 4);
    assert_int_equal(s->steps.v[0], -2);
    assert_int_equal(s->steps.v[3], 6);
    assert_int_equal(s->until.unit, DG_EPOCHS);
    assert_true(s->until.n == 0);
    assert_false(s->shuffle);
    assert_int_equal(ops->n, 3);
    assert_int_equal(ops->v[0].kind, 0);
    assert_int_equal(ops->v[1].kind, 1);
    assert_true(*(const double *)ops->v[0].conf == 0.5);
    assert_true(*(const double *)ops->v[1].conf == 0.1);
    assert_true(*(const double *)ops->v[2].conf == 0);
    assert_true(node(&w, "train/out")->recompute);
    assert_int_equal(dg_graph_chain(&chain, w.g->train, w.d), 0);
    assert_ptr_equal(chain.loader, node(&w, "train/data"));
    assert_ptr_equal(chain.sampler, node(&w, "train/pick"));
    assert_ptr_equal(chain.batch, node(&w, "train/b"));
    assert_int_equal(chain.n_items, 1);
    assert_ptr_equal(chain.items[0], node(&w, "train/aug"));
    done(&w);
}

static void pretrained(void **state)
{
    world w;

    (void)state;
    load(&w,
         "<pipeline version='1'><model id='net'><input id='images'/><toy.conv id='conv' "
         "in='@images' pretrained='/w/x.safetensors'/>"
         "<toy.norm id='n' in='@conv' frozen='true' pretrained='w.pth'/><toy.head id='head' "
         "in='@n' classes='3'/></model><train steps='1'>" DATA STEP "</train></pipeline>",
         NULL, 0);
    assert_string_equal(node(&w, "net/conv")->pretrained, "/w/x.safetensors");
    assert_non_null(strstr(node(&w, "net/n")->pretrained, "/dir/w.pth"));
    assert_int_equal(node(&w, "net/n")->pretrained_where.line, 1);
    done(&w);
}

/* One fault of a repeated body is said once, with the way through the includes. */
static void said_once(void **state)
{
    static const char text[] =
        "<pipeline version='1'><model id='net'><input id='images'/><stack id='s' count='50' "
        "in='@images'>"
        "<toy.conv in='@in' widht='3'/></stack></model><train steps='1'/></pipeline>";
    world w = { .d = dg_diag_open() };

    (void)state;
    w.r = toy_registry(w.d);
    assert_true(toy_load(&w.g, w.r, text, false, w.d) < 0);
    check_only(w.d, "attr-unknown");
    done(&w);
}

/* A name that no let gives is one error wherever it stands, and nothing is said of what follows. */
static void holes(void **state)
{
    static const char text[] =
        "<pipeline version='1' name='all' seed='7'><mesh dp='ranks' tp='1'/>"
        "<model id='net'><input id='images'/><input id='hint' optional='true'/>"
        "<stack id='body' count='2' in='@images'><toy.conv id='a' in='@in' width='8'/></stack>"
        "<toy.head id='head' in='@body' hint='@hint' classes='3'/></model>"
        "<train steps='3' accumulate='2' precision='f32' patience='2 epochs'>"
        "<toy.loader id='data' split='x'/><toy.sampler id='pick' in='@data' batch='2' sizes='32'/>"
        "<toy.augment id='aug' in='@pick'><flip p='0.1' until='epoch 3'/></toy.augment>"
        "<toy.batch id='b' in='@aug'/><use id='out' model='net' images='@b.images'/>" STEP
        "<toy.ema id='ema' of='@opt'/><toy.log in='@loss.terms.loss_b'/></train>"
        "<evaluate id='eval' every='1 epoch' weights='@ema' budget='2 min'>" DATA
        "<toy.score id='score' in='@out'/></evaluate>"
        "<checkpoint to='dir' every='1 epoch' best='@score.AP' keep='2'/></pipeline>";
    int n = 0;
    world w;

    (void)state;
    load(&w, text, NULL, 0);
    done(&w);
    for (const char *at = strchr(text, '='); at; at = strchr(at + 1, '='), n++) {
        const char *end = strchr(at + 2, '\'');
        char with[sizeof text + 8];

        if (n == 0)
            continue; /* the version of the language is no value */
        snprintf(with, sizeof with, "%.*s$nolet%s", (int)(at + 2 - text), text, end);
        w.d = dg_diag_open();
        w.r = toy_registry(w.d);
        w.g = NULL;
        (void)!dg_graph_parse(&w.g, with, strlen(with), "dir/t.xml", NULL, 0, w.r, w.d);
        if (dg_diag_n(w.d) != 1 || strcmp(dg_diag_at(w.d, 0)->id, "let-unknown") != 0)
            fail_msg("%.40s: %s", at - 8, toy_print(w.d, w.g));
        done(&w);
    }
    assert_true(n > 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scopes),     cmocka_unit_test(lets),          cmocka_unit_test(stacks),
        cmocka_unit_test(includes),   cmocka_unit_test(include_depth), cmocka_unit_test(attributes),
        cmocka_unit_test(pretrained), cmocka_unit_test(said_once),     cmocka_unit_test(holes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
