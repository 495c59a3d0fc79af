/* advice: every help line of the proof is followed word by word, and what comes of it is validated:
 * it must be accepted, or what is wrong next must be something else. The lines are those of all
 * cases of tests/invariance/xml, of errors and of warnings, and of what is proved and not run.
 *
 * A case that no edit of the file can mend says why: <!-- no-advice: reason -->. */
#include "tests/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/str.h"
#include "proof/proof.h"
#include "tests/proof/edits.h"
#include "tests/proof/loaded.h"

enum { MOST = 600 };

typedef struct counts {
    int cases, errors, excused, lines, accepted, next;
} counts;

static counts sum;

/* What is said of a pipeline, also when it is to be run. */
static void prove(loaded *x, const char *text, const char *file)
{
    load(x, text, file);
    if (x->g && dg_graph_check(x->g, x->d) == 0)
        (void)!dg_graph_runnable(x->g, x->d);
}

/* An error and its path, without positions: edits move what stands behind them. */
static char *gist(const dg_err *e)
{
    dg_str s = { 0 };
    char *text, *to;

    dg_str_fmt(&s, "%s %s", e->id, e->text);
    for (int i = 0; i < e->n_remarks; i++)
        if (!e->remarks[i].help && strncmp(e->remarks[i].text, "the same cause", 14) != 0)
            dg_str_fmt(&s, "; %s", e->remarks[i].text);
    text = strdup(s.s);
    dg_str_free(&s);
    for (char *from = to = text; (*to = *from); from++) /* "(line 7)" too */
        to += !(*from >= '0' && *from <= '9');
    return text;
}

static int times_said(const loaded *x, const char *what)
{
    int n = 0;

    for (int i = 0; i < dg_diag_n(x->d); i++) {
        char *other = dg_diag_at(x->d, i)->folded ? NULL : gist(dg_diag_at(x->d, i));

        n += other && strcmp(other, what) == 0;
        free(other);
    }
    return n;
}

/* ---- one line of help ------------------------------------------------------------------------ */

static bool try(const files *all, const loaded *before, const dg_err *e, const char *help)
{
    const char *file = all->name[0];
    files f = { 0 };
    char why[256], *what = gist(e);
    loaded x;
    bool fine, left;

    for (int i = 0; i < all->n; i++)
        files_add(&f, all->name[i], all->text[i]);
    sum.lines++;
    fine = follow(&f, file, help, why);
    if (!fine) {
        print_message("# %s: %s: the help of %s %s\n", file, help, e->id, why);
    } else {
        files_write(&f);
        prove(&x, files_text(&f, file), file);
        left = times_said(&x, what) >= times_said(before, what);
        fine = !left;
        sum.accepted += dg_diag_errors(x.d) == 0 && !left;
        sum.next += dg_diag_errors(x.d) > 0 && !left;
        if (left)
            print_message("# %s: %s stays, although \"%s\":\n%s", file, e->id, help,
                          dg_diag_text(x.d));
        unload(&x);
        files_write(all);
    }
    files_close(&f);
    free(what);
    return fine;
}

static bool is_excused(const char *text, const dg_err *e)
{
    char words[128];

    snprintf(words, sizeof words, "<!-- no-advice: %s ", e->id);
    return strstr(text, words) != NULL;
}

static void followed(void **state)
{
    const files *all = *state;
    const char *file = all->name[0];
    bool fine = true;
    loaded x;

    files_write(all);
    prove(&x, all->text[0], file);
    sum.cases++;
    for (int i = 0; i < dg_diag_n(x.d); i++) {
        const dg_err *e = dg_diag_at(x.d, i);
        int n = 0;

        if (e->folded)
            continue;
        sum.errors++;
        if (is_excused(all->text[0], e)) {
            sum.excused++;
            continue;
        }
        for (int k = 0; k < e->n_remarks; k++)
            if (e->remarks[k].help) {
                n++;
                fine &= try(all, &x, e, e->remarks[k].text);
            }
        if (n == 0) {
            print_message("# %s: %s has no help:\n%s", file, e->id, dg_diag_text(x.d));
            fine = false;
        }
    }
    unload(&x);
    assert_true(fine);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int is_xml(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);

    return n > 4 && strcmp(e->d_name + n - 4, ".xml") == 0;
}

/* The case, and the parts that it may include. */
static void take(files *f, const char *name)
{
    static const char *const parts[] = { "data", "detr", "logged", "net", "update" };
    char part[64], *text = read_file(name);

    files_add(f, name, text);
    dg_free(text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(part, sizeof part, "parts/%s.xml", parts[i]);
        text = read_file(part);
        files_add(f, part, text);
        dg_free(text);
    }
}

static void all_followed(void **state)
{
    (void)state;
    print_message(
        "# %d cases, %d errors and warnings, of which %d cannot be mended in the file; %d "
        "lines of help: %d make an accepted pipeline, %d show what is wrong next\n",
        sum.cases, sum.errors, sum.excused, sum.lines, sum.accepted, sum.next);
    assert_true(sum.lines >= 200); /* else the cases have lost their faults */
    assert_int_equal(sum.lines, sum.accepted + sum.next);
}

int main(void)
{
    static files cases[MOST];
    static struct CMUnitTest tests[MOST + 1];
    struct dirent **found;
    char folder[] = "/tmp/advice-XXXXXX", command[64];
    int n, rc;

    if (enter_cases() != 0 || (n = scandir(".", &found, is_xml, alphasort)) <= 0 || n > MOST)
        return 1;
    for (int i = 0; i < n; i++) {
        take(&cases[i], found[i]->d_name);
        tests[i] = (struct CMUnitTest){ found[i]->d_name, followed, NULL, NULL, &cases[i] };
    }
    tests[n] = (struct CMUnitTest){ "all lines", all_followed, NULL, NULL, NULL };
    if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("parts", 0755) != 0)
        return 1;
    rc = _cmocka_run_group_tests("advice", tests, (size_t)n + 1, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", folder);
    rc = chdir("/") != 0 || system(command) != 0 ? 1 : rc;
    for (int i = 0; i < n; i++) {
        files_close(&cases[i]);
        free(found[i]);
    }
    free(found);
    return rc;
}
