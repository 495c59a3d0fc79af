/* fuzz_find.c: asks engine and simulator, and makes findings small: whatever can be left out
 * without losing the finding is. */
#include "tests/invariance/fuzz_find.h"

#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_draw.h"

enum { XML = 1 << 16 };

static void write_to(char *xml, const fz_model *m, const char *first)
{
    FILE *to = fmemopen(xml, XML, "w");

    if (!to)
        abort();
    fputs(first, to);
    fz_write(to, m);
    fclose(to);
}

fz_opinion fz_ask(fz_judge *j, const fz_model *m, char *text, size_t n)
{
    static char xml[XML], other[XML];
    static fz_model peer;
    size_t used = 0;

    write_to(xml, m, "");
    if (m->peer != FZ_NONE) {
        fz_peer(&peer, m);
        write_to(other, &peer, "<!-- of another rank -->\n");
    }
    if (text) {
        used = (size_t)snprintf(text, n, "%s", xml);
        used = used < n ? used : n;
    }
    return fz_judge_ask(j, xml, m->peer == FZ_NONE ? NULL : other, text ? text + used : NULL,
                        n - used);
}

bool fz_diverges(const fz_model *m, uint64_t seed, bool thorough, fz_fault *f)
{
    static fz_model other;
    const fz_model *peer = m->peer >= 0 ? &other : m;
    fz_sums sums = { 0 };

    if (fz_still(m, f))
        return true;
    if (m->peer >= 0)
        fz_peer(&other, m);
    for (int run = 0; run < FZ_RUNS; run++)
        if (fz_run(m, peer, fz_mix(seed, (uint64_t)run), f, &sums))
            return true;
    for (int i = 0; i < m->n_nodes * FZ_KEYS && thorough; i++)
        for (int axis = 0; axis < 2; axis++) {
            int node = i / FZ_KEYS, key = i % FZ_KEYS;

            if (!sums.fired[axis][node][key] || sums.differed[axis][node][key])
                continue;
            *f = (fz_fault){ .kind = FZ_MULTIPLIED };
            snprintf(f->text, sizeof f->text, "\"%s\" adds what all ranks have", m->node[node].id);
            return true;
        }
    return false;
}

bool fz_programs_diverge(fz_judge *j, const fz_model *m, uint64_t seed, fz_fault *f)
{
    *f = (fz_fault){ .kind = FZ_SAME };
    for (int run = 0; run < FZ_PROGRAM_RUNS && fz_judge_texts(j); run++)
        if (fz_run_programs(m, fz_judge_texts(j), fz_mix(seed, (uint64_t)run), f))
            return true;
    return false;
}

/* ---- making a finding small ------------------------------------------------------------------ */

static bool holds(const fz_finding *f, const fz_model *m)
{
    fz_opinion o = fz_ask(f->judge, m, NULL, 0);
    fz_fault fault;

    if (o.broken || o.unsaid)
        return false;
    if (!f->codes)
        return !o.codes && (fz_diverges(m, f->seed, false, &fault) ||
                            fz_programs_diverge(f->judge, m, f->seed, &fault));
    return o.codes == f->codes && !fz_diverges(m, f->seed, true, &fault);
}

static bool keep_if(const fz_finding *f, fz_model *m, const fz_model *smaller)
{
    if (memcmp(m, smaller, sizeof *m) == 0 || !holds(f, smaller))
        return false;
    *m = *smaller;
    return true;
}

static bool shrink_node(const fz_finding *f, fz_model *m, int i)
{
    fz_model t = *m;
    bool smaller = false;

    if (m->node[i].dead)
        return false;
    fz_remove(&t, i);
    if (keep_if(f, m, &t))
        return true;
    t = *m;
    if (m->node[i].op != FZ_BATCH && m->node[i].n_in && m->node[i].in[0].node != FZ_NONE) {
        fz_bypass(&t, i);
        if (keep_if(f, m, &t))
            return true;
    }
    t = *m;
    if (m->node[i].op != FZ_SKIP && m->node[i].op != FZ_STOP) {
        t.node[i].when.node = FZ_NONE;
        smaller |= keep_if(f, m, &t);
    }
    for (const fz_attr *a = fz_attrs; a->name; a++) {
        t = *m;
        if (a->kind == FZ_NUM)
            continue;
        *(int *)((char *)&t.node[i] + a->at) = FZ_NONE;
        smaller |= keep_if(f, m, &t);
    }
    for (int k = 0; k < m->node[i].n_in; k++)
        if (fz_input_optional(m->node[i].op, k)) {
            t = *m;
            t.node[i].in[k].node = FZ_NONE;
            smaller |= keep_if(f, m, &t);
        }
    return smaller;
}

/* Words of the pipeline and its scopes. */
static void shrink_scopes(const fz_finding *f, fz_model *m)
{
    fz_model t = *m;

    t.tp = 1;
    keep_if(f, m, &t);
    t = *m;
    t.dp = 2;
    keep_if(f, m, &t);
    t = *m;
    t.peer = FZ_NONE;
    keep_if(f, m, &t);
    t = *m;
    t.evaluates = t.patience = t.patience_minutes = 0;
    t.best.node = FZ_NONE;
    for (int i = 0; i < t.n_nodes; i++)
        t.node[i].dead |= t.node[i].scope == FZ_IN_EVALUATE;
    keep_if(f, m, &t);
    t = *m;
    t.patience = t.patience_minutes = t.steps = 0;
    t.best.node = t.on_fail = FZ_NONE;
    t.epochs = 2;
    keep_if(f, m, &t);
}

void fz_shrink(const fz_finding *f, fz_model *m)
{
    bool smaller = true;

    while (smaller) {
        smaller = false;
        shrink_scopes(f, m);
        for (int i = m->n_nodes - 1; i >= 0; i--)
            smaller |= shrink_node(f, m, i);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

void fz_print_commented(const char *text)
{
    for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n'))
        printf("#   %.*s\n", (int)strcspn(p, "\n"), p);
}

void fz_show(fz_judge *j, const fz_model *m, uint64_t seed)
{
    static char text[2 * XML];
    fz_fault fault;

    fz_ask(j, m, text, sizeof text);
    fz_print_commented(text);
    if (m->peer >= 0)
        printf("#   another rank reads a file without \"%s\"\n", m->node[m->peer].id);
    if (fz_diverges(m, seed, true, &fault) || fz_programs_diverge(j, m, seed, &fault))
        printf("#   %s: %s\n", fz_verdicts[fault.kind], fault.text);
    else
        printf("#   no divergence in %d runs\n", FZ_RUNS);
}
