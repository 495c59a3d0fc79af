/* fuzz_judge.c: the one file of the fuzzer that asks the engine. */
#include "tests/invariance/fuzz_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/digest.h"
#include "graph/graph.h"
#include "nodes/builtin.h"
#include "proof/proof.h"
#include "tests/invariance/fuzz_toys.h"

const char *const fz_codes[FZ_CODES] = {
    "DG-PRES", "DG-KEYS", "DG-SHAPE", "DG-RATE",  "DG-VALUE",
    "DG-GRAD", "DG-SEED", "DG-STATE", "DG-ORDER", "DG-DIGEST",
};
const char *const fz_warnings[FZ_WARNINGS] = { "DG-W-SKEW", "DG-W-CORR" };

struct fz_judge {
    dg_diag *d;
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

fz_opinion fz_judge_ask(fz_judge *j, const char *xml, const char *other, char *text, size_t n)
{
    fz_opinion out = { 0 };
    dg_graph *g = NULL, *peer = NULL;
    int rc;

    dg_diag_clear(j->d);
    rc = dg_graph_parse(&g, xml, strlen(xml), "fuzz.xml", NULL, 0, j->r, j->d);
    if (rc == 0 && other)
        rc = dg_graph_parse(&peer, other, strlen(other), "other.xml", NULL, 0, j->r, j->d);
    if (rc == 0)
        (void)(dg_graph_check(g, j->d) + (other ? dg_graph_compare(g, peer, j->d) : 0));
    for (int i = 0; i < dg_diag_n(j->d); i++) {
        const dg_err *e = dg_diag_at(j->d, i);
        bool known = e->severity == DG_WARNING;

        for (int w = 0; w < FZ_WARNINGS; w++)
            out.warnings |= strcmp(e->id, fz_warnings[w]) == 0 ? 1u << w : 0;
        for (int c = 0; c < FZ_CODES; c++)
            if (strcmp(e->id, fz_codes[c]) == 0 && !known) {
                out.codes |= 1u << c;
                known = true;
            }
        out.broken |= !known;
    }
    if (text)
        snprintf(text, n, "%s", dg_diag_text(j->d));
    dg_graph_close(&peer);
    dg_graph_close(&g);
    return out;
}
