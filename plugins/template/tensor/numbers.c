/* numbers.c: checks the values of my.node in a pipeline of that node alone, fed by hand. */
#include <detrgraph/run.h>

#include <math.h>
#include <stdio.h>

static const char pipeline[] =
    "<pipeline version=\"1\">"
    "  <plugin path=\"./libmy_node.so\"/>"
    "  <model id=\"m\"><input id=\"images\"/><my.node id=\"node\" x=\"@images\" "
    "start=\"1.5\"/></model>"
    "  <evaluate>"
    "    <loader.synthetic id=\"data\" images=\"1\" width=\"32\" height=\"32\"/>"
    "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"1\" sizes=\"32\"/>"
    "    <batch id=\"b\" in=\"@pick\"/>"
    "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>"
    "    <log id=\"seen\" in=\"@out\"/>"
    "  </evaluate>"
    "</pipeline>";

enum { N = 32 * 32 * 3 };

static double expected(double x)
{
    return 1.5 * x;
}

int main(void)
{
    const dg_run_options options = {
        .size = sizeof options, .file = "numbers.xml", .text = pipeline, .precision = "f32"
    };
    dg_diag *d = dg_diag_open();
    dg_run *run = NULL;
    static double x[N], y[N];
    double worst = 0;
    int rc;

    for (int i = 0; i < N; i++)
        x[i] = i % 17 * 0.25 - 2;
    DG_TRY(dg_run_open(&run, &options, d));
    DG_TRY(dg_run_select(run, "evaluate", 32, 32, d));
    DG_TRY(dg_run_feed(run, "b.images", x, N, d));
    DG_TRY(dg_run_forward(run, false, d));
    DG_TRY(dg_run_read(run, "seen.in", y, N, d));
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(y[i] - expected(x[i])));
    printf("my.node: %d numbers, the worst is off by %.2g\n", N, worst);
out:
    fputs(dg_diag_text(d), stderr);
    dg_run_close(&run);
    dg_diag_close(&d);
    return rc < 0 || worst > 1e-5;
}
