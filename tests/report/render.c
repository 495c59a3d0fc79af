/* render: the picture's text says what the graph says; files have the form that their extension
 * names. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "report/render.h"
#include "tests/graph/toy.h"

static const char good[] =
    "<pipeline version='1' name='a &lt; b' seed='3'><model id='net'><input id='images'/><toy.conv "
    "id='conv' in='@images' act='relu'/>"
    "<toy.head id='head' in='@conv' classes='3'/></model>"
    "<train steps='10'><toy.loader id='data'/><toy.sampler id='pick' in='@data' "
    "batch='2'/><toy.batch id='b' in='@pick'/>"
    "<use id='out' model='net' images='@b.images'/><toy.loss id='loss' predictions='@out' "
    "targets='@b.targets'/>"
    "<toy.backward id='grad' loss='@loss'/><toy.step id='opt' gradients='@grad'/><toy.ema id='ema' "
    "of='@opt'/></train>"
    "<evaluate weights='@ema'><toy.loader id='data'/><toy.sampler id='pick' in='@data' "
    "batch='2'/><toy.batch id='b' in='@pick'/>"
    "<use id='out' model='net' images='@b.images'/><toy.score id='score' "
    "in='@out'/></evaluate><checkpoint best='@score.AP'/></pipeline>";

static const char bad[] =
    "<pipeline version='1'><model id='net'><input id='images'/><toy.convv id='conv' in='@images'/>"
    "<toy.head id='head' in='@conv' classes='0'/></model><train steps='1'><toy.batch id='b' "
    "in='@nobody'/>"
    "<toy.norm id='n' in='@b.targets'/></train><what/></pipeline>";

typedef struct world {
    dg_diag *d;
    dg_registry *r;
    dg_graph *g;
    dg_str dot;
} world;

static void open_world(world *w, const char *text)
{
    *w = (world){ .d = dg_diag_open() };
    w->r = toy_registry(w->d);
    bool loads = toy_load(&w->g, w->r, text, true, w->d) == 0;

    assert_int_equal(loads, dg_diag_errors(w->d) == 0);
    dg_render_dot(&w->dot, w->g, w->d);
}

static void close_world(world *w)
{
    dg_str_free(&w->dot);
    dg_graph_close(&w->g);
    dg_registry_close(&w->r);
    dg_diag_close(&w->d);
}

static void has(const world *w, const char *text)
{
    if (!strstr(w->dot.s, text))
        fail_msg("\"%s\" is not in\n%s", text, w->dot.s);
}

static void text(void **state)
{
    world w;

    (void)state;
    open_world(&w, good);
    has(&w, "<B>a &lt; b</B>");
    has(&w, "<B>model net</B>");
    has(&w, "10 steps, f32");
    has(&w, "weights of ema");
    has(&w, "act=relu");
    has(&w, "f[B,H,W,3]<BR ALIGN=\"LEFT\"/>\302\240<FONT COLOR=\"#263238\">[2,32,32,3]</FONT>");
    has(&w, "logits f[B,C] <FONT COLOR=\"#263238\">[2,3]</FONT>");
    has(&w, "PORT=\"o1\"><FONT POINT-SIZE=\"8\" COLOR=\"#607d8b\">targets");
    has(&w, "best AP");
    assert_null(strstr(w.dot.s, "#c62828")); /* nothing is red */
    close_world(&w);
}

static void faults(void **state)
{
    world w;

    (void)state;
    open_world(&w, bad);
    has(&w, "there is no node class");
    has(&w, "classes=&quot;0&quot;: expected");
    has(&w, "color=\"#c62828\", penwidth=2"); /* the wire whose ends differ */
    has(&w, "faults [");
    has(&w, "there is no element &lt;what&gt;"); /* a fault of no node */
    close_world(&w);
}

static void files(void **state)
{
    static const struct {
        const char *extension, *magic;
    } rows[] = { { "svg", "<?xml" },
                 { "png", "\x89PNG" },
                 { "pdf", "%PDF" },
                 { "dot", "digraph" },
                 { "PNG", "\x89PNG" } };
    char folder[] = "/tmp/dg-render-XXXXXX", path[64];
    world w;

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
        size_t k = i / 2, n = 0;
        char *data = NULL;

        open_world(&w, i % 2 ? bad : good);
        snprintf(path, sizeof path, "%s/x.%s", folder, rows[k].extension);
        dg_diag_clear(w.d);
        if (dg_render_file(path, w.g, w.d, w.d) < 0 || dg_file_read(&data, &n, path, 0, w.d) < 0)
            fail_msg("%s", dg_diag_text(w.d));
        assert_true(n > 200);
        assert_memory_equal(data, rows[k].magic, strlen(rows[k].magic));
        dg_free(data);
        unlink(path);
        close_world(&w);
    }
    open_world(&w, good);
    assert_true(dg_render_file("/tmp/x.jpeg", w.g, w.d, w.d) < 0);
    check_only(w.d, "render-format");
    snprintf(path, sizeof path, "%s/none/x.svg", folder);
    assert_true(dg_render_file(path, w.g, w.d, w.d) < 0);
    check_only(w.d, "file-create");
    close_world(&w);
    rmdir(folder);
}

/* Graphviz without its plugins, as on a machine where it was half installed; in a child, for it
 * remembers. */
static void no_plugins(void **state)
{
    pid_t child = fork();
    int status;
    world w;

    (void)state;
    if (child == 0) {
        setenv("GVBINDIR", "/nonexistent", 1);
        open_world(&w, good);
        bool fails = dg_render_file("/tmp/dg-never.svg", w.g, w.d, w.d) < 0,
             said = strcmp(dg_diag_at(w.d, 0)->id, "render-layout") == 0;

        close_world(&w);
        _exit(fails && said && !dg_exists("/tmp/dg-never.svg") ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(no_plugins), cmocka_unit_test(text),
                                        cmocka_unit_test(faults), cmocka_unit_test(files) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
