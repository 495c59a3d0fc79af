/* misread.c: a defect of the reference's library that stands in fixtures with one image, imitated
 * so that everything behind it can be compared.
 *
 * Where a batch norm's map goes on as tokens (the decoder's projections, the encoder's coarsest
 * one), the gradient comes back with [tokens, channels] in memory. With a batch of one, torch 1.13
 * (CPU) reads it as [channels, tokens] in batch norm's backward pass: for one image both layouts
 * count as contiguous. The engine's gradients are right; what a fixture with B = 1 says about
 * parameters before that point follows from the misread one. So here, after the instruction that
 * makes such a gradient, its elements are put in the order in which torch reads them. */
#include <stdlib.h>
#include <string.h>

#include "runtime/programs.h"
#include "tests/parity/fixture.h"

enum { MOST = 8 };

typedef struct misread {
    dg_exec *exec;
    dg_exec_observer observer;
    int n;
    struct {
        int instr;
        int32_t value;
        int64_t tokens, channels;
    } at[MOST];
    dg_diag *d;
} misread;

static void scramble(const double *from, double *to, int64_t tokens, int64_t channels)
{
    for (int64_t c = 0; c < channels; c++)
        for (int64_t t = 0; t < tokens; t++)
            to[t * channels + c] = from[c * tokens + t];
}

static void after(void *ctx, int instr, const dg_ran *how)
{
    misread *m = ctx;

    (void)how;
    for (int i = 0; i < m->n; i++) {
        int64_t n = m->at[i].tokens * m->at[i].channels;
        double *v;

        if (m->at[i].instr != instr)
            continue;
        v = malloc((size_t)(2 * n) * sizeof *v);
        if (v && dg_exec_get(m->exec, m->at[i].value, v, m->d) == 0) {
            scramble(v, v + n, m->at[i].tokens, m->at[i].channels);
            (void)!dg_exec_set(m->exec, m->at[i].value, v + n, m->d);
        }
        free(v);
    }
}

void fixture_misread(fixture *f)
{
    static const char *const names[] = { "grad.encoder.input_proj.2", "grad.decoder.input_proj.0",
                                         "grad.decoder.input_proj.1", "grad.decoder.input_proj.2" };
    const dg_compiled *current = dg_run_programs(f->run)->current;
    const dg_program *p = current->program;
    misread *m;

    if (f->batch > 1)
        return;
    m = DG_NEW(f->arena, misread);
    m->exec = current->exec;
    m->d = f->d;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        int32_t v = dg_program_named(p, names[i]);
        const dg_shape *s = &p->values.items[v].shape;

        if (!v || s->rank != 4)
            continue;
        m->at[m->n].tokens = s->d[1] * s->d[2];
        m->at[m->n].channels = s->d[3];
        while (strcmp(p->instrs.items[p->values.items[v].producer].op->name, "reshape") == 0)
            v = p->instrs.items[p->values.items[v].producer].v[0];
        m->at[m->n].instr = p->values.items[v].producer;
        m->at[m->n++].value = v;
    }
    m->observer = (dg_exec_observer){ .ctx = m, .ran = after, .at_once = true };
    dg_exec_observe(m->exec, &m->observer);
    printf("  one image: gradients of maps that became tokens are reordered as torch 1.13 misreads "
           "them\n");
}
