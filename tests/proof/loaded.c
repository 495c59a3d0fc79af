/* loaded.c: see loaded.h. */
#include "tests/proof/loaded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "graph/lower.h"
#include "nodes/builtin.h"
#include "tensor/passes.h"
#include "tests/invariance/declared.h"

void load(loaded *x, const char *text, const char *file)
{
    *x = (loaded){ .d = dg_diag_open(), .r = dg_registry_open(), .a = dg_arena_open() };
    for (int i = 0; dg_builtin_nodes[i]; i++)
        assert_int_equal(dg_registry_add(x->r, dg_builtin_nodes[i], x->d), 0);
    for (int i = 0; declared_nodes[i]; i++)
        assert_int_equal(dg_registry_add(x->r, declared_nodes[i], x->d), 0);
    if (dg_graph_parse(&x->g, text, strlen(text), file, NULL, 0, x->r, x->d) < 0)
        dg_graph_close(&x->g);
    if (x->g && x->g->ranks_open)
        x->g->ranks = 2;
    x->params = dg_params_open();
}

void unload(loaded *x)
{
    dg_params_close(&x->params);
    dg_graph_close(&x->g);
    dg_registry_close(&x->r);
    dg_arena_close(&x->a);
    dg_diag_close(&x->d);
}

const dg_scope *scope_of(const loaded *x, int i)
{
    int train = x->g->train != NULL;

    if (i < train)
        return x->g->train;
    return i - train < x->g->n_evaluates ? x->g->evaluates[i - train] : NULL;
}

dg_program *lowered_only(loaded *x, const dg_scope *scope, int which)
{
    const dg_size none = { 0, 0 }, *sizes = &none;
    dg_program *p = NULL;
    int n, batch;

    if (dg_scope_listed(&sizes, &n, &batch, scope, x->d) < 0 || which >= (n ? n : 1))
        return NULL;
    if (dg_lower(&p, x->g, scope, n ? sizes[which] : none, batch, x->params, NULL, NULL, x->d) < 0)
        return NULL;
    return p;
}

dg_program *lowered(loaded *x, const dg_scope *scope, int which)
{
    dg_program *p = lowered_only(x, scope, which);

    if (p)
        assert_int_equal(dg_passes(p, DG_F32, DG_F32, NULL, (int)(x->g->ranks * x->g->mesh.tp),
                                   x->d),
                         0);
    return p;
}

int enter_cases(void)
{
    const char *top = getenv("srcdir");
    char folder[4096];

    snprintf(folder, sizeof folder, "%s/tests/invariance/xml", top ? top : ".");
    return chdir(folder);
}

char *read_file(const char *file)
{
    dg_diag *d = dg_diag_open();
    char *text;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, file, 0, d), 0);
    dg_diag_close(&d);
    return text;
}
