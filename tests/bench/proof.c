/* proof.c: measures what the two looks at a pipeline take: `tests/bench/proof [FILE]`; without
 * FILE, at one of 1000 nodes with 300 flags. CPU time, the least of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "graph/lower.h"
#include "nodes/builtin.h"
#include "proof/proof.h"
#include "proof/second.h"
#include "tensor/passes.h"

enum { ROUNDS = 9, NODES = 1000 };

static double cpu_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void least(double *ms, double begin)
{
    double took = 1000 * (cpu_s() - begin);

    *ms = *ms < 0 || took < *ms ? took : *ms;
}

/* A chain of layers; three in ten stand under a flag that all ranks agreed on. */
static void draw(dg_str *s)
{
    dg_str_add(s, "<pipeline version=\"1\"><mesh dp=\"2\"/><model id=\"net\">"
                  "<input id=\"images\"/><input id=\"flag\" optional=\"true\"/>"
                  "<layer.linear id=\"l0\" in=\"@images\" width=\"4\"/>");
    for (int i = 1; i < NODES; i++)
        if (i % 10 < 3)
            dg_str_fmt(s,
                       "<layer.linear id=\"l%d\" in=\"@l%d\" width=\"4\" when=\"@flag\" "
                       "connect=\"zero\"/>",
                       i, i - 1);
        else
            dg_str_fmt(s, "<layer.linear id=\"l%d\" in=\"@l%d\" width=\"4\"/>", i, i - 1);
    dg_str_add(s, "</model><train steps=\"8\">"
                  "<loader.synthetic id=\"data\" images=\"16\" width=\"32\" height=\"32\"/>"
                  "<sampler.plain id=\"pick\" in=\"@data\" batch=\"2\" size=\"32\" axis=\"dp\" "
                  "tail=\"drop\"/><batch id=\"b\" in=\"@pick\" max_objects=\"4\"/>"
                  "<test id=\"some\" in=\"@b.targets.count\" is=\"positive\"/>"
                  "<agree id=\"any\" in=\"@some\" op=\"any\" axis=\"dp\"/>"
                  "<use id=\"out\" model=\"net\" images=\"@b.images\" flag=\"@any\"/>"
                  "<loss.mean id=\"loss\" in=\"@out\"/><backward id=\"grad\" loss=\"@loss\"/>"
                  "<allreduce id=\"sync\" in=\"@grad\" axis=\"dp\"/>"
                  "<optimizer.adamw gradients=\"@sync\"/></train></pipeline>");
}

int main(int argc, char **argv)
{
    dg_diag *d = dg_diag_open();
    dg_registry *r = dg_registry_open();
    dg_graph *g = NULL;
    dg_str text = { 0 };
    double first = -1, passes = -1, second = -1, whole = -1;
    int n_instrs = 0, rc;

    for (int i = 0; dg_builtin_nodes[i]; i++)
        (void)!dg_registry_add(r, dg_builtin_nodes[i], d);
    draw(&text);
    rc = argc > 1 ? dg_graph_load(&g, argv[1], NULL, 0, r, d)
                  : dg_graph_parse(&g, text.s, text.n, "drawn.xml", NULL, 0, r, d);
    if (rc == 0 && g->ranks_open)
        g->ranks = 2;
    for (int i = 0; i < ROUNDS && rc == 0; i++) {
        dg_params *params = dg_params_open();
        dg_arena *a = dg_arena_open();
        dg_program *p;
        dg_size size;
        double begin;

        rc = dg_scope_size(&size, g->train, d);
        if (rc == 0)
            rc = dg_graph_lower(&p, g, g->train, size, params, d);
        if (rc < 0)
            break;
        begin = cpu_s();
        rc = dg_vary_check(g, params, NULL, a, d);
        least(&first, begin);
        begin = cpu_s();
        rc = rc < 0 ? rc : dg_passes(p, DG_F32, DG_F32, NULL, 2, d);
        least(&passes, begin);
        begin = cpu_s();
        rc = rc < 0 ? rc : dg_second_look(p, dg_second_host_make(g, g->train, a), d);
        least(&second, begin);
        n_instrs = p->instrs.n;
        dg_program_close(&p);
        dg_params_close(&params);
        dg_arena_close(&a);
        begin = cpu_s();
        rc = rc < 0 ? rc : dg_graph_check(g, d);
        least(&whole, begin);
    }
    if (rc < 0)
        fprintf(stderr, "%s", dg_diag_text(d));
    else
        printf(
            "%d nodes, %d instructions of <train>: the graph %.2f ms, passes %.2f ms, the second "
            "look %.2f ms; all of validate %.1f ms\n",
            g->n_nodes, n_instrs, first, passes, second, whole);
    dg_str_free(&text);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_diag_close(&d);
    return rc < 0;
}
