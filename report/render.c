/* render.c: lays out and draws a picture; the only file that uses Graphviz.
 *
 * Contexts are never freed: Graphviz 2.42's pango plugin keeps the last font's name beyond the life
 * of its context, and would read freed memory in the next picture. */
#include "report/render.h"

#include <string.h>
#include <strings.h>

#include <graphviz/gvc.h>

#include "base/file.h"

static const char *format_of(const char *path)
{
    static const char *const formats[] = { "svg", "png", "pdf", "dot" };
    const char *dot = strrchr(dg_path_name(path), '.');

    for (size_t i = 0; dot && i < sizeof formats / sizeof *formats; i++)
        if (strcasecmp(dot + 1, formats[i]) == 0)
            return formats[i];
    return NULL;
}

/* Receives the picture's bytes. */
typedef int take_fn(void *ctx, const char *data, size_t n, dg_diag *d);

static int draw(const char *format, const char *text, take_fn *take, void *ctx, dg_diag *d)
{
    agerrlevel_t before = agseterr(AGMAX); /* silences standard error */
    GVC_t *gvc = gvContext();
    graph_t *graph = gvc ? agmemread(text) : NULL;
    char *data = NULL;
    unsigned n = 0;
    int rc;

    if (!graph)
        rc = dg_fail(d, DG_EINTERNAL, DG_NOWHERE, "render-layout",
                     "Graphviz does not read the graph: %s", aglasterr() ? aglasterr() : "?");
    else if (gvLayout(gvc, graph, "dot") != 0 || gvRenderData(gvc, graph, format, &data, &n) != 0 ||
             !data)
        rc = dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "render-layout", "Graphviz cannot draw %s: %s",
                     format, aglasterr() ? aglasterr() : "?");
    else
        rc = take(ctx, data, n, d);
    if (data)
        gvFreeRenderData(data);
    if (graph) {
        gvFreeLayout(gvc, graph);
        agclose(graph);
    }
    agseterr(before);
    return rc;
}

static int write_picture(void *path, const char *data, size_t n, dg_diag *d)
{
    return dg_file_write(path, data, n, d);
}

/* Skips to the <svg> tag: a page has its own prologue. */
static int keep_svg(void *out, const char *data, size_t n, dg_diag *d)
{
    const char *tag = memmem(data, n, "<svg", 4);

    (void)d;
    if (tag)
        dg_str_add_n(out, tag, n - (size_t)(tag - data));
    return 0;
}

int dg_render_svg(dg_str *out, const dg_graph *g, const dg_heat *heat, dg_diag *d)
{
    dg_str text = { 0 };
    int rc;

    dg_render_heat(&text, g, heat);
    rc = draw("svg", text.s, keep_svg, out, d);
    dg_str_free(&text);
    return rc;
}

int dg_render_file(const char *path, const dg_graph *g, const dg_diag *faults, dg_diag *d)
{
    const char *format = format_of(path);
    dg_str text = { 0 };
    int rc;

    if (!format) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "render-format",
                     "the extension says what is drawn: .svg, .png, .pdf or .dot");
        return rc;
    }
    dg_render_dot(&text, g, faults);
    if (strcmp(format, "dot") == 0)
        rc = dg_file_write(path, text.s, text.n, d);
    else
        rc = draw(format, text.s, write_picture, (void *)(uintptr_t)path, d);
    dg_str_free(&text);
    return rc;
}
