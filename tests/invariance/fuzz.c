/* fuzz.c: is the proof right, and is it tight?
 *
 *     fuzz                    1500 pipelines, and the cases in tests/invariance/xml
 *     fuzz COUNT [SEED]       COUNT pipelines; deterministic by SEED
 *     fuzz --one SEED         that pipeline, its verdict and its first divergence
 *     fuzz --loose CODE COUNT [SEED]   those rejected for this code alone that do not diverge
 *     fuzz --cases FOLDER     pipelines that people wrote, with the verdict that they expect
 *     fuzz FILE...            runs such pipelines
 *
 * Each pipeline is drawn as a model, written as XML, and given to the engine for its verdict; the
 * model is executed by simulated ranks up to 40 times. An accepted pipeline must never diverge;
 * of the rejected ones nearly all should. A finding is made as small as it gets, and printed. */
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_cases.h"
#include "tests/invariance/fuzz_draw.h"
#include "tests/invariance/fuzz_judge.h"
#include "tests/invariance/fuzz_run.h"

enum { RUNS = 40, XML = 1 << 16 };

typedef struct tally {
    int accepted, rejected, broken, unsound, shown;
    int by_code[FZ_CODES], shown_by_code[FZ_CODES]; /* whatever other codes there are */
    int alone[FZ_CODES], shown_alone[FZ_CODES];     /* rejected for this code only */
    int verdicts[FZ_N_VERDICTS];
    int classes[FZ_N_OPS];
} tally;

static fz_opinion opinion(fz_judge *j, const fz_model *m, char *xml, char *text, size_t n)
{
    FILE *to = fmemopen(xml, XML, "w");

    if (!to)
        abort();
    fz_write(to, m);
    fclose(to);
    return fz_judge_ask(j, xml, strlen(xml), text, n);
}

/* Does the model diverge in one of its runs? thorough: evidence over all runs counts, too. */
static bool diverges(const fz_model *m, uint64_t seed, bool thorough, fz_fault *f)
{
    fz_sums sums = { 0 };

    if (fz_still(m, f))
        return true;
    for (int run = 0; run < RUNS; run++)
        if (fz_run(m, fz_mix(seed, (uint64_t)run), f, &sums))
            return true;
    for (int i = 0; i < m->n_nodes && thorough; i++)
        if ((sums.fired[0][i] && !sums.differed[0][i]) ||
            (sums.fired[1][i] && !sums.differed[1][i])) {
            *f = (fz_fault){ .kind = FZ_MULTIPLIED };
            snprintf(f->text, sizeof f->text, "<allreduce id=\"%s\"> adds what all ranks have",
                     m->node[i].id);
            return true;
        }
    return false;
}

/* --- making a finding small ------------------------------------------------------------------- */

typedef struct finding {
    fz_judge *judge;
    uint64_t  seed;
    int code; /* FZ_NONE: accepted and diverges; else: rejected for this alone, and does not */
} finding;

static bool holds(const finding *f, const fz_model *m)
{
    static char xml[XML];
    fz_opinion  o = opinion(f->judge, m, xml, NULL, 0);
    fz_fault    fault;

    if (o.broken)
        return false;
    if (f->code == FZ_NONE)
        return !o.codes && diverges(m, f->seed, false, &fault);
    return o.codes == 1u << f->code && !diverges(m, f->seed, true, &fault);
}

static bool keep_if(const finding *f, fz_model *m, const fz_model *smaller)
{
    if (memcmp(m, smaller, sizeof *m) == 0 || !holds(f, smaller))
        return false;
    *m = *smaller;
    return true;
}

static bool shrink_node(const finding *f, fz_model *m, int i)
{
    fz_model t = *m;
    bool     smaller = false;

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

static void shrink(const finding *f, fz_model *m)
{
    bool smaller = true;

    while (smaller) {
        fz_model t = *m;

        smaller = false;
        t.tp = 1;
        keep_if(f, m, &t);
        t = *m;
        t.evaluates = t.patience = t.patience_minutes = 0;
        t.best.node = FZ_NONE;
        for (int i = 0; i < t.n_nodes; i++)
            t.node[i].dead |= t.node[i].scope == FZ_IN_EVALUATE;
        keep_if(f, m, &t);
        t = *m;
        t.patience = t.patience_minutes = t.steps = t.order = t.devices = 0;
        t.best.node = t.on_fail = t.capture = FZ_NONE;
        t.epochs = 2;
        keep_if(f, m, &t);
        for (int i = m->n_nodes - 1; i >= 0; i--)
            smaller |= shrink_node(f, m, i);
    }
}

static void print_commented(const char *text)
{
    for (const char *p = text; *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n'))
        printf("#   %.*s\n", (int)strcspn(p, "\n"), p);
}

static void print_model(fz_judge *j, const fz_model *m, uint64_t seed)
{
    static char xml[XML], text[XML];
    fz_fault    fault;

    opinion(j, m, xml, text, sizeof text);
    print_commented(xml);
    print_commented(text);
    if (diverges(m, seed, true, &fault))
        printf("#   %s: %s\n", fz_verdicts[fault.kind], fault.text);
    else
        printf("#   no divergence in %d runs\n", RUNS);
}

/* --- counting --------------------------------------------------------------------------------- */

static void count_classes(tally *t, const fz_model *m)
{
    for (int i = 0; i < m->n_nodes; i++)
        t->classes[m->node[i].op] += !m->node[i].dead;
}

static void one(fz_judge *j, tally *t, uint64_t seed)
{
    static fz_model m;
    static char     xml[XML], text[XML];
    fz_opinion      o;
    fz_fault        fault;
    bool            parted;

    fz_draw(&m, seed);
    o = opinion(j, &m, xml, text, sizeof text);
    count_classes(t, &m);
    if (o.broken) {
        if (t->broken++ < 3) {
            printf("# seed %llu: not a pipeline\n", (unsigned long long)seed);
            print_commented(xml);
            print_commented(text);
        }
        return;
    }
    parted = diverges(&m, seed, o.codes != 0, &fault);
    if (!o.codes) {
        t->accepted++;
        if (!parted)
            return;
        if (t->unsound++ < 8) {
            shrink(&(finding){ j, seed, FZ_NONE }, &m);
            printf("# seed %llu: accepted, and diverges\n", (unsigned long long)seed);
            print_model(j, &m, seed);
        }
        return;
    }
    t->rejected++;
    t->shown += parted;
    t->verdicts[fault.kind] += parted;
    for (int c = 0; c < FZ_CODES; c++) {
        bool has = o.codes >> c & 1, alone = o.codes == 1u << c;

        t->by_code[c] += has;
        t->shown_by_code[c] += has && parted;
        t->alone[c] += alone;
        t->shown_alone[c] += alone && parted;
    }
}

static void print_tally(const tally *t, int count)
{
    printf("# %d pipelines: %d accepted, %d rejected\n", count, t->accepted, t->rejected);
    printf("# accepted and diverging: %d\n", t->unsound);
    printf("# rejected and diverging within %d runs: %d (%.1f %%)\n", RUNS, t->shown,
           t->rejected ? 100.0 * t->shown / t->rejected : 0);
    printf("# %-10s %8s %8s %8s %8s\n", "code", "rejected", "diverge", "alone", "diverge");
    for (int c = 0; c < FZ_CODES; c++)
        if (t->by_code[c])
            printf("# %-10s %8d %8d %8d %8d\n", fz_codes[c], t->by_code[c], t->shown_by_code[c],
                   t->alone[c], t->shown_alone[c]);
    for (int v = 1; v < FZ_N_VERDICTS; v++)
        if (t->verdicts[v])
            printf("# shown by %-20s %6d\n", fz_verdicts[v], t->verdicts[v]);
}

static int many(int count, uint64_t seed)
{
    fz_judge *j = fz_judge_open();
    tally     t = { 0 };
    bool      ok[3];

    for (int i = 0; i < count; i++)
        one(j, &t, seed + (uint64_t)i);
    fz_judge_close(&j);
    print_tally(&t, count);
    ok[0] = t.broken == 0;
    ok[1] = t.unsound == 0;
    ok[2] = t.shown * 10 >= t.rejected * 9 && t.accepted * 3 >= count && t.rejected * 5 >= count;
    printf("%s 1 - every drawn pipeline is one\n", ok[0] ? "ok" : "not ok");
    printf("%s 2 - no accepted pipeline diverges\n", ok[1] ? "ok" : "not ok");
    printf("%s 3 - a good part is accepted, and nine of ten rejected ones diverge\n",
           ok[2] ? "ok" : "not ok");
    return ok[0] && ok[1] && ok[2] ? 0 : 1;
}

/* --- looking closer --------------------------------------------------------------------------- */

static int show_one(uint64_t seed)
{
    static fz_model m;
    fz_judge       *j = fz_judge_open();

    fz_draw(&m, seed);
    print_model(j, &m, seed);
    fz_judge_close(&j);
    return 0;
}

static int loose(const char *code, int count, uint64_t seed)
{
    static fz_model m;
    static char     xml[XML];
    fz_judge       *j = fz_judge_open();
    fz_fault        fault;
    int             found = 0;

    for (int c = 0; c < FZ_CODES; c++)
        for (int i = 0; i < count && strcmp(fz_codes[c], code) == 0 && found < 8; i++) {
            fz_opinion o;

            fz_draw(&m, seed + (uint64_t)i);
            o = opinion(j, &m, xml, NULL, 0);
            if (o.broken || o.codes != 1u << c || diverges(&m, seed + (uint64_t)i, true, &fault))
                continue;
            printf("# seed %llu: %s, and does not diverge\n",
                   (unsigned long long)(seed + (uint64_t)i), code);
            shrink(&(finding){ j, seed + (uint64_t)i, c }, &m);
            print_model(j, &m, seed + (uint64_t)i);
            found++;
        }
    fz_judge_close(&j);
    return 0;
}

static int run_file(const char *file)
{
    static fz_model m;
    char            why[200];
    fz_fault        fault;

    if (!fz_read_file(&m, file, why, sizeof why)) {
        printf("%s: not read: %s\n", file, why);
        return 1;
    }
    if (diverges(&m, 1, true, &fault))
        printf("%s: %s: %s\n", file, fz_verdicts[fault.kind], fault.text);
    else
        printf("%s: same in %d runs\n", file, RUNS);
    return 0;
}

/* What people say of their pipelines, held against what the simulator sees. */
static int run_cases(const char *folder)
{
    static fz_model m;
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort), read = 0, rejected = 0, shown = 0, wrong = 0;

    for (int i = 0; i < n; i++) {
        char     file[512], why[200], codes[128] = "";
        int      expected;
        fz_fault fault;

        snprintf(file, sizeof file, "%s/%s", folder, list[i]->d_name);
        free(list[i]);
        expected = strstr(file, ".xml") ? fz_expected(file, codes, sizeof codes) : -1;
        if (expected < 0 || (expected && !strstr(codes, "DG-")))
            continue;
        if (!fz_read_file(&m, file, why, sizeof why)) {
            printf("# %s: not read: %s\n", file, why);
            continue;
        }
        read++;
        rejected += expected;
        if (!diverges(&m, 1, true, &fault)) {
            if (expected)
                printf("# %s (%s) does not diverge\n", file, codes);
            continue;
        }
        shown += expected;
        wrong += !expected;
        if (!expected)
            printf("# %s is accepted: %s: %s\n", file, fz_verdicts[fault.kind], fault.text);
    }
    if (n >= 0)
        free(list);
    printf("# %d cases read, %d to be rejected, of them %d diverge\n", read, rejected, shown);
    printf("%s - of the cases, no accepted one diverges, and nine of ten rejected ones do\n",
           read && !wrong && shown * 10 >= rejected * 9 ? "ok" : "not ok");
    return read && !wrong && shown * 10 >= rejected * 9 ? 0 : 1;
}

static int check(void)
{
    const char *top = getenv("srcdir");
    char        folder[512];
    int         rc = many(1500, 1);

    snprintf(folder, sizeof folder, "%s/tests/invariance/xml", top ? top : ".");
    rc |= run_cases(folder);
    printf("1..4\n");
    return rc;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int      rc = 0;

    if (argc == 1)
        return check();
    if (argc > 2 && strcmp(argv[1], "--one") == 0)
        return show_one(strtoull(argv[2], NULL, 10));
    if (argc > 3 && strcmp(argv[1], "--loose") == 0)
        return loose(argv[2], atoi(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 10) : seed);
    if (argc > 2 && strcmp(argv[1], "--cases") == 0)
        return run_cases(argv[2]);
    if (argv[1][0] >= '0' && argv[1][0] <= '9')
        return many(atoi(argv[1]), argc > 2 ? strtoull(argv[2], NULL, 10) : seed);
    for (int i = 1; i < argc; i++)
        rc |= run_file(argv[i]);
    return rc;
}
