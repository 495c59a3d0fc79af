/* pipelines.c: every pipeline of tests/bad/xml gives exactly the messages in the .txt file beside
 * it. Files named part_* are for <include>. A first line <!-- set: name=value ... --> acts as
 * --set. `tests/bad/pipelines --write` rewrites the .txt files; review them before committing. */
#include "tests/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "proof/proof.h"
#include "tests/graph/toy.h"

enum { MOST = 512 };

/* Stored messages do not contain the checkout's path. */
static void strip_folder(char *text)
{
    char here[4096];
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;

    for (char *p = text; n && (p = strstr(p, here));)
        memmove(p, p + n, strlen(p + n) + 1);
}

static int read_sets(dg_set *sets, int most, const char *text, dg_arena *a)
{
    const char *p = strncmp(text, "<!-- set: ", 10) == 0 ? text + 10 : "-->";
    int n = 0;

    while (n < most && strncmp(p, "-->", 3) != 0) {
        size_t name = strcspn(p, "="), value = strcspn(p + name + 1, " ");

        sets[n].name = dg_strndup(a, p, name);
        sets[n++].value = dg_strndup(a, p + name + 1, value);
        p += name + 1 + value + 1;
    }
    return n;
}

static char *messages(const char *file)
{
    dg_diag *d = dg_diag_open();
    dg_registry *r = toy_registry(d);
    dg_graph *g = NULL;
    dg_arena *a = dg_arena_open();
    dg_set sets[8];
    char *text;
    size_t n;
    int rc = dg_file_read(&text, &n, file, 0, d);

    assert_int_equal(rc, 0);
    rc = dg_graph_load(&g, file, sets, read_sets(sets, 8, text, a), r, d);
    if (rc == 0)
        rc = dg_graph_check(g, d);
    assert_true(rc < 0 ? dg_diag_errors(d) > 0 : dg_diag_errors(d) == 0);
    char *out = toy_print(d, g);

    strip_folder(out);
    dg_free(text);
    dg_graph_close(&g);
    dg_registry_close(&r);
    dg_arena_close(&a);
    dg_diag_close(&d);
    return out;
}

static void stored_path(char *path, size_t n, const char *file)
{
    snprintf(path, n, "%.*s.txt", (int)(strlen(file) - 4), file);
}

static void compare(void **state)
{
    const char *file = *state;
    char path[256];
    char *have = messages(file), *want;
    size_t n;
    dg_diag *d = dg_diag_open();

    stored_path(path, sizeof path, file);
    assert_int_equal(dg_file_read(&want, &n, path, 0, d), 0);
    if (n == 0)
        fail_msg("%s is empty: a bad pipeline has errors", path);
    if (strcmp(have, want) != 0)
        fail_msg("%s gives\n%s\nexpected\n%s", file, have, want);
    dg_free(want);
    free(have);
    dg_diag_close(&d);
}

static int choose(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return n > 4 && strcmp(e->d_name + n - 4, ".xml") == 0 && strncmp(e->d_name, "part_", 5) != 0;
}

static int rewrite(const char *file)
{
    char path[256];
    char *have = messages(file);
    FILE *f;

    stored_path(path, sizeof path, file);
    f = fopen(path, "w");
    if (!f || fputs(have, f) < 0 || fclose(f))
        return 1;
    free(have);
    return 0;
}

int main(int argc, char **argv)
{
    const char *top = getenv("srcdir");
    struct dirent **files;
    struct CMUnitTest tests[MOST];
    int n, rc = 0;
    char folder[4096];

    snprintf(folder, sizeof folder, "%s/tests/bad/xml", top ? top : ".");
    if (chdir(folder) != 0 || (n = scandir(".", &files, choose, alphasort)) <= 0 || n > MOST)
        return 1;
    for (int i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){ files[i]->d_name, compare, NULL, NULL, files[i]->d_name };
    if (argc > 1 && strcmp(argv[1], "--write") == 0)
        for (int i = 0; i < n; i++)
            rc |= rewrite(files[i]->d_name);
    else
        rc = _cmocka_run_group_tests("bad pipelines", tests, (size_t)n, NULL, NULL);
    for (int i = 0; i < n; i++)
        free(files[i]);
    free(files);
    return rc;
}
