/* fuzz_judge.c: the one file of the fuzzer that asks the engine. */
#include "tests/invariance/fuzz_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "nodes/builtin.h"
#include "tests/invariance/fuzz_toys.h"

const char *const fz_codes[FZ_CODES] = {
    "DG-PRES", "DG-KEYS",  "DG-SHAPE", "DG-RATE",   "DG-VALUE", "DG-GRAD",
    "DG-SEED", "DG-STATE", "DG-ORDER", "DG-DEVICE", "DG-FAIL",  "DG-DIGEST",
};

struct fz_judge {
    dg_diag     *d;
    dg_registry *r;
};

fz_judge *fz_judge_open(void)
{
    fz_judge *j = calloc(1, sizeof *j);

    if (!j)
        abort();
    j->d = dg_diag_open();
    j->r = dg_registry_open();
    for (int i = 0; dg_builtin_nodes[i]; i++)
        if (dg_registry_add(j->r, dg_builtin_nodes[i], j->d) < 0)
            abort();
    for (int i = 0; fz_toys[i]; i++)
        if (dg_registry_add(j->r, fz_toys[i], j->d) < 0) {
            fprintf(stderr, "%s\n", dg_diag_text(j->d));
            abort();
        }
    return j;
}

void fz_judge_close(fz_judge **j)
{
    if (!*j)
        return;
    dg_registry_close(&(*j)->r);
    dg_diag_close(&(*j)->d);
    free(*j);
    *j = NULL;
}

fz_opinion fz_judge_ask(fz_judge *j, const char *xml, size_t n, char *text, size_t text_n)
{
    fz_opinion out = { 0 };
    dg_graph  *g = NULL;
    int        rc;

    dg_diag_clear(j->d);
    rc = dg_graph_parse(&g, xml, n, "fuzz.xml", NULL, 0, j->r, j->d);
    if (rc == 0)
        rc = dg_graph_check(g, j->d);
    for (int i = 0; i < dg_diag_n(j->d); i++) {
        const dg_err *e = dg_diag_at(j->d, i);
        bool          known = e->severity == DG_WARNING;

        for (int c = 0; c < FZ_CODES; c++)
            if (strcmp(e->id, fz_codes[c]) == 0 && !known) {
                out.codes |= 1u << c;
                known = true;
            }
        out.broken |= !known;
    }
    if (text)
        snprintf(text, text_n, "%s", dg_diag_text(j->d));
    dg_graph_close(&g);
    return out;
}
