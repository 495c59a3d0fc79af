/* families: pipelines drawn around each way in which the proof was once wrong, on both sides of the
 * line. A template, drawn/NAME.xml, has choices; what the proof must say follows from them by a
 * rule that is written beside it, not by the proof. What is accepted is looked at again as a
 * program; what is refused is mended word by word (tests/proof/followed.h).
 *
 *     tests/proof/families [MEMBERS [SEED [FOLDER]]]     of each family, on each side; 20 and 1
 *
 * FOLDER gets those that a run accepts; tests/long/families runs them. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/str.h"
#include "tests/proof/followed.h"

enum { MOST_CHOICES = 16, MOST_MEMBERS = 400 };

/* A member: which word of each choice; a choice is named, {guard:early|any|pos}, to be asked for by
 * a rule, or not, {:2|3}. {=guard:a|b|c} follows the earlier choice of that name. */
typedef struct member {
    const char *text;
    int n, pick[MOST_CHOICES];
    char name[MOST_CHOICES][16];
} member;

typedef struct family {
    const char *name;                       /* of its template, drawn/NAME.xml */
    const char *(*expect)(const member *m); /* the id that must be said; "": none */
    bool warns;                             /* the id is a warning's */
} family;

static int of(const member *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->name[i], name) == 0)
            return m->pick[i];
    fail_msg("no choice is called %s", name);
    return 0;
}

enum { STEP, VOTE, RANK }; /* words of a flag; the last is this rank's own */
/* ---- the families ---------------------------------------------------------------------------- */

/* A use with connect, of a model in which a node has a guard. */
static const char *inner_guard(const member *m)
{
    return !of(m, "connect") && (of(m, "inner") == RANK || of(m, "other") == RANK) ? "DG-PRES" : "";
}

/* A key of a record that may be missing. */
static const char *missing_key(const member *m)
{
    return !of(m, "connect") && (of(m, "key") == RANK || of(m, "other") == RANK) ? "DG-PRES" : "";
}

/* A summand that is always there, by connect on any node before it. */
static const char *stands_in(const member *m)
{
    return !of(m, "first") && !of(m, "second") && (of(m, "guard") == RANK || of(m, "other") == RANK)
               ? "DG-PRES"
               : "";
}

/* The rank that has the numbers of a sink, and the rank that reports. */
static const char *reporter(const member *m)
{
    const int scope = of(m, "scope") - 1, sink = of(m, "sink") - 1;

    return sink >= 0 && sink != (scope < 0 ? 0 : scope) ? "DG-VALUE" : "";
}

/* A loss behind a collective: sums, means, copies and gathers have a gradient. */
static const char *severed(const member *m)
{
    enum { MAX = 1, MIN = 2 };

    return of(m, "behind") && (of(m, "kind") == MAX || of(m, "kind") == MIN) ? "DG-GRAD" : "";
}

/* A broadcast whose root may lack the operand: then it sends zeros; one that always lacks it is
 * refused. */
static const char *lacking_root(const member *m)
{
    return of(m, "guard") == RANK || (of(m, "on") && of(m, "on") - 1 != of(m, "root")) ? "DG-PRES"
                                                                                       : "";
}

/* Shares, buckets and tails: has each rank as many batches? */
static const char *unequal_rates(const member *m)
{
    enum { TWO_RATIOS = 3 };

    return of(m, "even") || (of(m, "equal") && of(m, "sampler") != TWO_RATIOS) ? "" : "DG-RATE";
}

/* An evaluation of unequal shares, with and without a collective in its rounds. */
static const char *evaluated_shares(const member *m)
{
    return !of(m, "equal") && of(m, "meet") ? "DG-RATE" : "";
}

/* The norm of this rank's gradient may be shown, and not used. */
static const char *own_norm(const member *m)
{
    return !of(m, "reduced") && of(m, "use") >= 2 ? "DG-VALUE" : "";
}

static const char *same_batches(const member *m)
{
    return of(m, "axis") ? "" : "DG-W-SAME";
}

/* A guard that speaks of one batch of several. */
static const char *last_batch(const member *m)
{
    return of(m, "batches") && of(m, "guard") ? "DG-W-LAST" : "";
}

/* The score of a plugin's sink, by which a checkpoint is chosen: of all images, or of rank 0's. */
enum { JOINS, SAID, UNSAID }; /* class of the sink: only the first can join, and says so */
enum { ON_EACH, OVER_THE_AXIS, ON_RANK_0 }; /* how it scores */

static bool of_a_share(const member *m)
{
    return of(m, "dealt") && of(m, "how") != ON_RANK_0 &&
           !(of(m, "how") == OVER_THE_AXIS && of(m, "class") == JOINS);
}

static const char *plugin_score(const member *m)
{
    return of_a_share(m) ? "DG-VALUE" : "";
}

static const char *score_of_a_share(const member *m)
{
    bool joined = of(m, "how") == OVER_THE_AXIS && of(m, "class") == JOINS;

    return of_a_share(m) ? "DG-W-SHARE" : joined && !of(m, "dealt") ? "DG-W-SAME" : "";
}

/* A score to choose by, of a sink that may never fire. */
static const char *idle_score(const member *m)
{
    return of(m, "guard") || (of(m, "before") && !of(m, "stand")) ? "DG-W-IDLE" : "";
}

/* Operands that a plugin cuts by the size of an image: W/64 of them, or a row of the batch. */
static const char *operand_sizes(const member *m)
{
    enum { OWN = 0, AS_MANY = 2, ROWS = 2 }; /* the first sizes have as many columns each */

    return of(m, "draw") == OWN && of(m, "sizes") >= AS_MANY && of(m, "what") != ROWS ? "DG-SHAPE"
                                                                                      : "";
}

/* A plugin that exchanges what its row does not say, or the other way round. */
static const char *untrue_row(const member *m)
{
    enum { ALLREDUCE, ELSEWHERE, TWICE, SILENT };
    enum { NO_AXIS, DP };
    const int says = of(m, "says"), axis = of(m, "axis");

    return (says == ELSEWHERE && axis != DP) || ((says == TWICE || says == SILENT) && axis == DP)
               ? "contract-undeclared"
               : "";
}

/* A node that drops items: another takes the place, at the size that the batch has. Only plans that
 * each rank makes for itself choose other sizes. */
static const char *dropped_items(const member *m)
{
    enum { SEVERAL_SIZES = 2 };

    return of(m, "plan") && of(m, "sizes") >= SEVERAL_SIZES && of(m, "meet") ? "DG-SHAPE" : "";
}

static const family families[] = {
    { "inner-guard", inner_guard, false },
    { "missing-key", missing_key, false },
    { "stands-in", stands_in, false },
    { "reporter", reporter, false },
    { "severed", severed, false },
    { "lacking-root", lacking_root, false },
    { "unequal-rates", unequal_rates, false },
    { "evaluated-shares", evaluated_shares, false },
    { "own-norm", own_norm, false },
    { "same-batches", same_batches, true },
    { "last-batch", last_batch, true },
    { "plugin-score", plugin_score, false },
    { "score-of-a-share", score_of_a_share, true },
    { "idle-score", idle_score, true },
    { "operand-sizes", operand_sizes, false },
    { "untrue-row", untrue_row, false },
    { "dropped-items", dropped_items, false },
};

/* ---- drawing --------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = *state;

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Writes the text of a member, whose words are drawn. */
static void expand(member *m, dg_str *out, const char *text, uint64_t *state)
{
    *m = (member){ 0 };
    for (; *text; text++) {
        const char *end, *word;
        int n = 1, k;
        size_t len;

        if (*text != '{') {
            dg_str_fmt(out, "%c", *text);
            continue;
        }
        end = strchr(text, '}');
        word = strchr(text, ':') + 1;
        len = (size_t)(word - text) - 2;
        for (const char *s = word; s < end; s++)
            n += *s == '|';
        if (text[1] == '=') {
            char name[16];

            snprintf(name, sizeof name, "%.*s", (int)len - 1, text + 2);
            k = of(m, name);
        } else {
            assert_true(m->n < MOST_CHOICES && len < sizeof m->name[0]);
            k = (int)(draw(state) % (uint64_t)n);
            memcpy(m->name[m->n], text + 1, len);
            m->pick[m->n++] = k;
        }
        for (; k > 0; k--)
            word += strcspn(word, "|}") + 1;
        dg_str_fmt(out, "%.*s", (int)strcspn(word, "|}"), word);
        text = end;
    }
}

/* ---- one member ------------------------------------------------------------------------------ */

static int members = 20;
static uint64_t first_seed = 1;
static char *top;    /* the source folder */
static char *folder; /* NULL: none is to be written */
static counts sum;

static void keep(const family *f, const char *text, int number)
{
    char name[4096];
    FILE *out;

    snprintf(name, sizeof name, "%s/%s-%03d.xml", folder, f->name, number);
    out = fopen(name, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static bool is_said(const loaded *x, const char *id)
{
    for (int i = 0; i < dg_diag_n(x->d); i++)
        if (strcmp(dg_diag_at(x->d, i)->id, id) == 0)
            return true;
    return false;
}

static void check(const family *f, const member *m, const char *text, int number)
{
    const char *want = f->expect(m);
    char name[64];
    files one = { 0 };
    loaded x;

    prove(&x, text, "member.xml");
    if ((dg_diag_errors(x.d) > 0) != (*want && !f->warns) || (*want && !is_said(&x, want)) ||
        (f->warns && !*want && dg_diag_warnings(x.d)))
        fail_msg("%s: expected \"%s\":\n%s\n%s", f->name, want, text, dg_diag_text(x.d));
    if (folder && dg_diag_errors(x.d) == 0 && !strstr(text, "<declared"))
        keep(f, text, number);
    unload(&x);
    snprintf(name, sizeof name, "%s.xml", f->name);
    files_add(&one, name, text);
    assert_true(follow_all(&one, &sum));
    files_close(&one);
}

static char *template_of(const family *f)
{
    char name[4096];

    snprintf(name, sizeof name, "%s/tests/proof/drawn/%s.xml", top, f->name);
    return read_file(name);
}

/* As many members as there are to be on each side of the line, if there are so many. */
static void family_of(void **state)
{
    const family *f = *state;
    static char *seen[2 * MOST_MEMBERS];
    char *template = template_of(f);
    uint64_t seed = first_seed;
    int n = 0, of_side[2] = { 0 };

    assert_true(members >= 20 && members <= MOST_MEMBERS);
    for (int tries = 0; n < 2 * members && tries < 200 * members; tries++) {
        dg_str text = { 0 };
        bool known = false;
        member m;
        int right;

        expand(&m, &text, template, &seed);
        right = !*f->expect(&m);
        for (int i = 0; i < n && !known; i++)
            known = strcmp(seen[i], text.s) == 0;
        if (!known && of_side[right] < members) {
            of_side[right]++;
            seen[n++] = strdup(text.s);
            check(f, &m, text.s, n);
        }
        dg_str_free(&text);
    }
    for (int i = 0; i < n; i++)
        free(seen[i]);
    dg_free(template);
    print_message("# %s: %d members, %d of them right\n", f->name, n, of_side[1]);
    assert_true(of_side[0] >= 20 && of_side[1] >= 20);
}

static void all_followed(void **state)
{
    (void)state;
    print_message("# %d lines of help: %d make an accepted pipeline, %d show what is wrong next\n",
                  sum.lines, sum.accepted, sum.next);
    assert_int_equal(sum.lines, sum.accepted + sum.next);
}

int main(int argc, char **argv)
{
    enum { N = sizeof families / sizeof *families };
    struct CMUnitTest tests[N + 1];
    char work[] = "/tmp/families-XXXXXX", command[64];
    int rc;

    members = argc > 1 ? (int)strtol(argv[1], NULL, 10) : members;
    first_seed = argc > 2 ? strtoull(argv[2], NULL, 10) : first_seed;
    for (int i = 0; i < N; i++)
        tests[i] = (struct CMUnitTest){ families[i].name, family_of, NULL, NULL,
                                        (void *)(uintptr_t)&families[i] };
    tests[N] = (struct CMUnitTest){ "help", all_followed, NULL, NULL, NULL };
    top = realpath(getenv("srcdir") ? getenv("srcdir") : ".", NULL);
    folder = argc > 3 ? realpath(argv[3], NULL) : NULL;
    if (!mkdtemp(work) || chdir(work) != 0)
        return 1;
    rc = _cmocka_run_group_tests("families", tests, N + 1, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", work);
    free(folder);
    free(top);
    return chdir("/") != 0 || system(command) != 0 ? 1 : rc;
}
