/* xml: any bytes as a pipeline of toy nodes: read, checked, lowered, drawn. Other files and
 * plugins are left alone. */
#include <string.h>

#include "proof/proof.h"
#include "report/render.h"
#include "tests/fuzz/fuzz.h"
#include "tests/graph/toy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *text = (const char *)data;
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);
    dg_graph *g = NULL;
    dg_str out = { 0 };

    if (!memmem(text, n, "plugin", 6) && !memmem(text, n, "include", 7)) {
        if (dg_graph_parse(&g, text, n, "f.xml", NULL, 0, r, d) == 0 && g->n_nodes < 200)
            (void)!dg_graph_check(g, d);
        dg_diag_print(&out, d, dg_graph_source, g, true);
        dg_diag_json(&out, d);
        if (g->n_nodes < 200)
            dg_render_dot(&out, g, d);
    }
    dg_str_free(&out);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_diag_close(&d);
    return 0;
}
