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

#include "tests/proof/followed.h"

enum { MOST = 700 };

static counts sum;

static void followed(void **state)
{
    assert_true(follow_all(*state, &sum));
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int is_xml(const struct dirent *e)
{
    const size_t n = strlen(e->d_name);

    return n > 4 && strcmp(e->d_name + n - 4, ".xml") == 0;
}

/* The case, and the parts that it may include. */
static void take(files *f, const char *name, struct dirent **parts, int n)
{
    char part[300], *text = read_file(name);

    files_add(f, name, text);
    dg_free(text);
    for (int i = 0; i < n; i++) {
        snprintf(part, sizeof part, "parts/%s", parts[i]->d_name);
        text = read_file(part);
        files_add(f, part, text);
        dg_free(text);
    }
}

static void free_list(struct dirent **list, int n)
{
    for (int i = 0; i < n; i++)
        free(list[i]);
    free(list);
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
    struct dirent **found, **parts;
    char folder[] = "/tmp/advice-XXXXXX", command[64];
    int n, n_parts, rc;

    if (enter_cases() != 0 || (n = scandir(".", &found, is_xml, alphasort)) <= 0 || n > MOST ||
        (n_parts = scandir("parts", &parts, is_xml, alphasort)) <= 0)
        return 1;
    for (int i = 0; i < n; i++) {
        take(&cases[i], found[i]->d_name, parts, n_parts);
        tests[i] = (struct CMUnitTest){ found[i]->d_name, followed, NULL, NULL, &cases[i] };
    }
    tests[n] = (struct CMUnitTest){ "all lines", all_followed, NULL, NULL, NULL };
    if (!mkdtemp(folder) || chdir(folder) != 0 || mkdir("parts", 0755) != 0)
        return 1;
    rc = _cmocka_run_group_tests("advice", tests, (size_t)n + 1, NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", folder);
    rc = chdir("/") != 0 || system(command) != 0 ? 1 : rc;
    for (int i = 0; i < n; i++)
        files_close(&cases[i]);
    free_list(found, n);
    free_list(parts, n_parts);
    return rc;
}
