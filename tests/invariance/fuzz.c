/* fuzz.c: is the proof right, and is it tight?
 *
 *     fuzz                    1500 pipelines, and the cases in tests/invariance/xml
 *     fuzz COUNT [SEED]       COUNT pipelines, and what was among them; deterministic by SEED
 *     fuzz --one SEED         that pipeline, its verdict and its first divergence
 *     fuzz --loose CODE COUNT [SEED]   those rejected for this code alone that do not diverge
 *     fuzz --loose any COUNT [SEED]    the same, whatever they are rejected for
 *     fuzz --cases FOLDER     pipelines that people wrote, with the verdict that they expect
 *     fuzz FILE...            runs such pipelines
 *
 * Each pipeline is drawn as a model, written as XML, and given to the engine for its verdict; the
 * model is executed by simulated ranks up to 40 times: once node by node, and once from the text of
 * its programs (fuzz_machine.h; in the first form of one pipeline in 25). An accepted pipeline must
 * never diverge; of the rejected ones nearly all should. A finding is made as small as it gets, and
 * printed. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_cases.h"
#include "tests/invariance/fuzz_cover.h"
#include "tests/invariance/fuzz_draw.h"
#include "tests/invariance/fuzz_find.h"

enum { TEXT = 1 << 16, MOST_LOOSE = 400 };

typedef struct tally {
    int accepted, rejected, broken, unsound, shown, asked, by_programs;
    int by_code[FZ_CODES], shown_by_code[FZ_CODES]; /* whatever other codes there are */
    int alone[FZ_CODES], shown_alone[FZ_CODES];     /* rejected for this code only */
    int verdicts[FZ_N_VERDICTS];
    fz_cover cover;
} tally;

/* ---- counting -------------------------------------------------------------------------------- */

/* programs: execute its printed programs, too. */
static void one(fz_judge *j, tally *t, uint64_t seed, bool programs)
{
    static fz_model m;
    static char text[2 * TEXT];
    fz_opinion o;
    fz_fault fault;
    bool parted;

    fz_draw(&m, seed);
    o = fz_ask(j, &m, text, sizeof text);
    if (o.unsaid) { /* one batch of several may not be left out: each is an update then */
        m.accumulate = 1;
        o = fz_ask(j, &m, text, sizeof text);
    }
    if (o.broken) {
        if (t->broken++ < 3) {
            printf("# seed %llu: not a pipeline\n", (unsigned long long)seed);
            fz_print_commented(text);
        }
        return;
    }
    fz_cover_count(&t->cover, &m, &o);
    parted = fz_diverges(&m, seed, o.codes != 0, &fault);
    if (!o.codes) {
        t->accepted++;
        parted = parted || (programs && fz_programs_diverge(j, &m, seed, &fault));
        if (!parted)
            return;
        if (t->unsound++ < 8) {
            fz_shrink(&(fz_finding){ j, seed, 0 }, &m);
            printf("# seed %llu: accepted, and diverges\n", (unsigned long long)seed);
            fz_show(j, &m, seed);
        }
        return;
    }
    t->rejected++;
    t->shown += parted;
    t->asked += programs;
    t->by_programs += programs && fz_programs_diverge(j, &m, seed, &(fz_fault){ .kind = FZ_SAME });
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
    printf("# rejected and diverging within %d runs: %d (%.1f %%)\n", FZ_RUNS, t->shown,
           t->rejected ? 100.0 * t->shown / t->rejected : 0);
    printf("# by their printed programs alone: %d of %d rejected\n", t->by_programs, t->asked);
    printf("# %-10s %8s %8s %8s %8s\n", "code", "rejected", "diverge", "alone", "diverge");
    for (int c = 0; c < FZ_CODES; c++)
        if (t->by_code[c])
            printf("# %-10s %8d %8d %8d %8d\n", fz_codes[c], t->by_code[c], t->shown_by_code[c],
                   t->alone[c], t->shown_alone[c]);
    for (int v = 1; v < FZ_N_VERDICTS; v++)
        if (t->verdicts[v])
            printf("# shown by %-20s %6d\n", fz_verdicts[v], t->verdicts[v]);
}

/* whole: enough of them that everything must be among them. */
static int many(int count, uint64_t seed, bool whole)
{
    fz_judge *j = fz_judge_open();
    static tally t;
    bool ok[4] = { true, true, true, true };
    int unlowered;

    for (int i = 0; i < count; i++)
        one(j, &t, seed + (uint64_t)i, whole || i % 25 == 0);
    unlowered = fz_judge_unlowered(j);
    fz_judge_close(&j);
    print_tally(&t, count);
    printf("# programs that could not be made: %d\n", unlowered);
    if (whole)
        ok[3] = fz_cover_print(&t.cover) || count < 10000;
    ok[0] = t.broken == 0 && unlowered == 0;
    /* programs that never diverge would show nothing */
    ok[1] = t.unsound == 0 && t.by_programs * 3 >= t.asked;
    ok[2] = t.shown * 10 >= t.rejected * 9 && t.accepted * 3 >= count && t.rejected * 5 >= count;
    printf("%s 1 - every drawn pipeline is one, and has programs\n", ok[0] ? "ok" : "not ok");
    printf("%s 2 - no accepted pipeline diverges, nor do its programs\n", ok[1] ? "ok" : "not ok");
    printf("%s 3 - a good part is accepted, and nine of ten rejected ones diverge\n",
           ok[2] ? "ok" : "not ok");
    if (whole)
        printf("%s 4 - every class, word and code was drawn\n", ok[3] ? "ok" : "not ok");
    return ok[0] && ok[1] && ok[2] && ok[3] ? 0 : 1;
}

/* ---- looking closer -------------------------------------------------------------------------- */

static int show_one(uint64_t seed)
{
    static fz_model m;
    fz_judge *j = fz_judge_open();

    fz_draw(&m, seed);
    fz_show(j, &m, seed);
    fz_judge_close(&j);
    return 0;
}

static uint32_t codes_of(const char *name)
{
    for (int c = 0; c < FZ_CODES; c++)
        if (strcmp(fz_codes[c], name) == 0)
            return 1u << c;
    return (1u << FZ_CODES) - 1;
}

static int loose(const char *name, int count, uint64_t seed)
{
    static fz_model m;
    fz_judge *j = fz_judge_open();
    fz_fault fault;
    uint32_t codes = codes_of(name);
    int found = 0;

    for (int i = 0; i < count && found < MOST_LOOSE; i++, seed++) {
        fz_opinion o;

        fz_draw(&m, seed);
        o = fz_ask(j, &m, NULL, 0);
        if (o.broken || o.unsaid || !o.codes || o.codes & ~codes ||
            fz_diverges(&m, seed, true, &fault))
            continue;
        printf("# seed %llu: does not diverge\n", (unsigned long long)seed);
        fz_shrink(&(fz_finding){ j, seed, o.codes }, &m);
        fz_show(j, &m, seed);
        found++;
    }
    fz_judge_close(&j);
    return 0;
}

static int run_file(const char *file)
{
    static fz_model m;
    char why[200];
    fz_fault fault;

    if (!fz_read_file(&m, file, why, sizeof why)) {
        printf("%s: not read: %s\n", file, why);
        return 1;
    }
    if (fz_diverges(&m, 1, true, &fault))
        printf("%s: %s: %s\n", file, fz_verdicts[fault.kind], fault.text);
    else
        printf("%s: same in %d runs\n", file, FZ_RUNS);
    return 0;
}

/* What people say of their pipelines, held against what the simulator sees. */
static int run_cases(const char *folder, bool all)
{
    static fz_model m;
    struct dirent **list;
    int n = scandir(folder, &list, NULL, alphasort), read = 0, unread = 0, rejected = 0, shown = 0,
        wrong = 0;

    for (int i = 0; i < n; i++) {
        char file[512], why[200], codes[128] = "";
        int expected;
        fz_fault fault;

        snprintf(file, sizeof file, "%s/%s", folder, list[i]->d_name);
        free(list[i]);
        expected = strstr(file, ".xml") ? fz_expected(file, codes, sizeof codes) : -1;
        if (expected < 0 || (expected && !strstr(codes, "DG-")))
            continue;
        if (!fz_read_file(&m, file, why, sizeof why)) {
            unread++;
            if (all)
                printf("# %s: not read: %s\n", file, why);
            continue;
        }
        read++;
        rejected += expected;
        if (!fz_diverges(&m, 1, true, &fault)) {
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
    printf(
        "# %d cases read, %d to be rejected, of them %d diverge; %d have what a model cannot say\n",
        read, rejected, shown, unread);
    printf("%s - of the cases, no accepted one diverges, and nine of ten rejected ones do\n",
           read && !wrong && shown * 10 >= rejected * 9 ? "ok" : "not ok");
    return read && !wrong && shown * 10 >= rejected * 9 ? 0 : 1;
}

static int check(void)
{
    const char *top = getenv("srcdir");
    char folder[512];
    int rc = many(1500, 1, false);

    snprintf(folder, sizeof folder, "%s/tests/invariance/xml", top ? top : ".");
    rc |= run_cases(folder, false);
    printf("1..4\n");
    return rc;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int rc = 0;

    if (argc == 1)
        return check();
    if (argc > 2 && strcmp(argv[1], "--one") == 0)
        return show_one(strtoull(argv[2], NULL, 10));
    if (argc > 3 && strcmp(argv[1], "--loose") == 0)
        return loose(argv[2], atoi(argv[3]), argc > 4 ? strtoull(argv[4], NULL, 10) : seed);
    if (argc > 2 && strcmp(argv[1], "--cases") == 0)
        return run_cases(argv[2], true);
    if (argv[1][0] >= '0' && argv[1][0] <= '9')
        return many(atoi(argv[1]), argc > 2 ? strtoull(argv[2], NULL, 10) : seed, true);
    for (int i = 1; i < argc; i++)
        rc |= run_file(argv[i]);
    return rc;
}
