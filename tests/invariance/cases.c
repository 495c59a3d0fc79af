/* cases: every pipeline of tests/invariance/xml is proved to be what its first lines say:
 *
 *   <!-- verdict: reject DG-GRAD DG-KEYS -->   accept or reject, and every id, warnings too
 *   <!-- says: words -->                       stand in what people read
 *   <!-- from: where it happened -->
 *   <!-- flip: old => new; DG-RATE -->         with old replaced by new it is rejected, with that
 * id
 *   <!-- spare: id id -->                      elements that it could do without, or without
 * their connect, equal or empty
 *
 * What is planned (a second axis) is proved here all the same.
 * Classes are those of the program, and <declared>, which says of itself what a custom node may
 * say. And a mutation of what was accepted: without one equal, agree, broadcast, equalize, pad or
 * connect the verdict flips: it is rejected, or, where that is all, warned of. */
#include "tests/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "nodes/builtin.h"
#include "proof/proof.h"
#include "report/render.h"
#include "tests/invariance/declared.h"

enum { MOST = 640 };

typedef struct proved {
    dg_diag *d;
    dg_registry *r;
    dg_graph *g;
    bool rejected;
} proved;

static void prove(proved *v, const char *text, const char *file)
{
    *v = (proved){ .d = dg_diag_open(), .r = dg_registry_open() };
    for (int i = 0; dg_builtin_nodes[i]; i++)
        assert_int_equal(dg_registry_add(v->r, dg_builtin_nodes[i], v->d), 0);
    for (int i = 0; declared_nodes[i]; i++)
        if (dg_registry_add(v->r, declared_nodes[i], v->d) < 0)
            fail_msg("%s", dg_diag_text(v->d));
    v->rejected = dg_graph_parse(&v->g, text, strlen(text), file, NULL, 0, v->r, v->d) < 0;
    if (!v->rejected) {
        if (v->g->ranks_open)
            v->g->ranks = 2;
        v->rejected = dg_graph_check(v->g, v->d) < 0;
        v->rejected = dg_graph_runnable(v->g, v->d) < 0 || v->rejected;
    }
    assert_true(v->rejected == (dg_diag_errors(v->d) > 0));
}

static void forget(proved *v)
{
    dg_graph_close(&v->g);
    dg_registry_close(&v->r);
    dg_diag_close(&v->d);
}

static bool has_id(const proved *v, const char *id, size_t n)
{
    for (int i = 0; i < dg_diag_n(v->d); i++)
        if (strlen(dg_diag_at(v->d, i)->id) == n && strncmp(dg_diag_at(v->d, i)->id, id, n) == 0)
            return true;
    return false;
}

static char *read_case(const char *file)
{
    dg_diag *d = dg_diag_open();
    char *text;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, file, 0, d), 0);
    dg_diag_close(&d);
    return text;
}

/* The text of the k-th comment that begins with `word: `, copied; NULL if there are fewer. */
static char *remark(const char *text, const char *word, int k)
{
    char begin[32];

    snprintf(begin, sizeof begin, "<!-- %s: ", word);
    for (const char *p = text; (p = strstr(p, begin)); p++)
        if (k-- == 0) {
            const char *from = p + strlen(begin), *end = strstr(from, " -->");

            assert_non_null(end);
            return strndup(from, (size_t)(end - from));
        }
    return NULL;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static void check_verdict(const proved *v, const char *file, const char *verdict)
{
    const char *ids = strchr(verdict, ' ');
    char *said = strdup(dg_diag_text(v->d));
    int n = 0;

    if (v->rejected != (strncmp(verdict, "reject", 6) == 0))
        fail_msg("%s is %s, expected %s:\n%s", file, v->rejected ? "rejected" : "accepted", verdict,
                 said);
    for (ids = ids ? ids + 1 : ""; *ids; ids += strcspn(ids, " "), ids += *ids == ' ', n++)
        if (!has_id(v, ids, strcspn(ids, " ")))
            fail_msg("%s: expected %s:\n%s", file, verdict, said);
    for (int i = 0; i < dg_diag_n(v->d); i++)
        if (!strstr(verdict, dg_diag_at(v->d, i)->id))
            fail_msg("%s: expected %s, found %s too:\n%s", file, verdict, dg_diag_at(v->d, i)->id,
                     said);
    free(said);
}

static void verdict(void **state)
{
    const char *file = *state;
    char *text = read_case(file), *want = remark(text, "verdict", 0), *words;
    proved v;

    assert_non_null(want);
    prove(&v, text, file);
    check_verdict(&v, file, want);
    for (int k = 0; (words = remark(text, "says", k)); k++) {
        if (!strstr(dg_diag_text(v.d), words))
            fail_msg("%s does not say \"%s\":\n%s", file, words, dg_diag_text(v.d));
        free(words);
    }
    forget(&v);
    free(want);
    dg_free(text);
}

/* ---- mutations ------------------------------------------------------------------------------- */

/* text with n bytes at `at` replaced. */
static char *replace(const char *text, const char *at, size_t n, const char *by)
{
    size_t before = (size_t)(at - text), len = strlen(text), more = strlen(by);
    char *out = malloc(len + more + 1);

    assert_non_null(out);
    memcpy(out, text, before);
    memcpy(out + before, by, more);
    strcpy(out + before + more, at + n);
    return out;
}

static void must_flip(const char *text, const char *file, const char *what, const char *id)
{
    proved v;

    prove(&v, text, file);
    if (id ? !has_id(&v, id, strlen(id)) : dg_diag_n(v.d) == 0)
        fail_msg("%s without %s is %s:\n%s", file, what,
                 v.rejected ? "rejected otherwise" : "accepted", dg_diag_text(v.d));
    forget(&v);
}

static char *attribute(const char *element, const char *name)
{
    char begin[32];
    const char *end = strchr(element, '>'), *at;

    snprintf(begin, sizeof begin, " %s=\"", name);
    at = strstr(element, begin);
    if (!at || at > end)
        return NULL;
    at += strlen(begin);
    return strndup(at, strcspn(at, "\""));
}

static bool is_spare(const char *text, const char *at)
{
    char *id = attribute(at, "id"), *spare = remark(text, "spare", 0);
    bool found = false;

    for (const char *p = spare; id && p && *p; p += strcspn(p, " "), p += *p == ' ')
        found |= strcspn(p, " ") == strlen(id) && strncmp(p, id, strlen(id)) == 0;
    free(id);
    free(spare);
    return found;
}

/* Attributes that can be left out. */
static int drop_attributes(const char *text, const char *file)
{
    static const char *const words[] = { " equal=\"drop\"", " equal=\"pad\"", " empty=\"pad\"",
                                         " connect=\"zero\"" };
    int n = 0;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *p = text; (p = strstr(p, words[i])); p++) {
            const char *element = p;
            char *other;

            while (*element != '<')
                element--;
            if (is_spare(text, element))
                continue;
            other = replace(text, p, strlen(words[i]), "");
            n++;
            must_flip(other, file, words[i], NULL);
            free(other);
        }
    return n;
}

/* The element goes; who read it reads what it read. */
static char *without_element(const char *text, const char *at)
{
    char *id = attribute(at, "id"), *in = attribute(at, "in"), wire[64];
    char *out = replace(text, at, (size_t)(strstr(at, "/>") + 2 - at), ""), *next;

    assert_true(id && in);
    snprintf(wire, sizeof wire, "\"@%s\"", id);
    for (char *p; (p = strstr(out, wire)); out = next) {
        char quoted[64];

        snprintf(quoted, sizeof quoted, "\"%s\"", in);
        next = replace(out, p, strlen(wire), quoted);
        free(out);
    }
    free(id);
    free(in);
    return out;
}

static int drop_elements(const char *text, const char *file)
{
    static const char *const words[] = { "<agree ", "<broadcast ", "<equalize " };
    int n = 0;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *p = text; (p = strstr(p, words[i])); p++) {
            if (is_spare(text, p))
                continue;
            char *other = without_element(text, p);

            must_flip(other, file, words[i], NULL);
            free(other);
            n++;
        }
    return n;
}

static int listed_flips(const char *text, const char *file)
{
    char *words;
    int n = 0;

    for (; (words = remark(text, "flip", n)); n++) {
        char *arrow = strstr(words, " => "), *id = strrchr(words, ';'), *other, by[256];

        assert_true(arrow && id && id > arrow);
        *arrow = '\0';
        snprintf(by, sizeof by, "%.*s", (int)(id - arrow - 4), arrow + 4);
        const char *body = strstr(text, "<pipeline"), *at = strstr(body, words);

        if (!at)
            fail_msg("%s: \"%s\" does not stand in it", file, words);
        other = replace(text, at, strlen(words), by);
        char *rest, *one = strtok_r(id + 1, " ", &rest);

        for (; one; one = strtok_r(NULL, " ", &rest))
            must_flip(other, file, words, one);
        free(other);
        free(words);
    }
    return n;
}

static void mutate(void **state)
{
    struct dirent **files = *state;
    int n = 0;

    for (; *files; files++) {
        char *text = read_case((*files)->d_name), *want = remark(text, "verdict", 0);

        if (strcmp(want, "accept") == 0)
            n += drop_attributes(text, (*files)->d_name) + drop_elements(text, (*files)->d_name) +
                 listed_flips(text, (*files)->d_name);
        free(want);
        dg_free(text);
    }
    assert_true(n >= 30); /* else the cases have lost what makes them legal */
    print_message("# %d mutations\n", n);
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Wires are coloured by what varies, guards are dashed, and the path of a rejection is thick. */
static void picture(void **state)
{
    static const char *const said[] = { "what differs over", "color=\"#ef6c00\"", "style=dashed",
                                        "penwidth=2", "may not take part" };
    char *text = read_case("nan-skip-local.xml");
    dg_str dot = { 0 };
    proved v;

    (void)state;
    prove(&v, text, "nan-skip-local.xml");
    dg_render_dot(&dot, v.g, v.d);
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (!strstr(dot.s, said[i]))
            fail_msg("\"%s\" is not in\n%s", said[i], dot.s);
    dg_str_free(&dot);
    forget(&v);
    dg_free(text);
}

static int choose(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return n > 4 && strcmp(e->d_name + n - 4, ".xml") == 0;
}

int main(void)
{
    const char *top = getenv("srcdir");
    struct dirent **found, *files[MOST + 1];
    struct CMUnitTest tests[MOST + 2];
    int n, rc;
    char folder[4096];

    snprintf(folder, sizeof folder, "%s/tests/invariance/xml", top ? top : ".");
    if (chdir(folder) != 0 || (n = scandir(".", &found, choose, alphasort)) <= 0 || n > MOST)
        return 1;
    for (int i = 0; i < n; i++) {
        files[i] = found[i];
        tests[i] = (struct CMUnitTest){ found[i]->d_name, verdict, NULL, NULL, found[i]->d_name };
    }
    files[n] = NULL;
    tests[n] = (struct CMUnitTest){ "mutations", mutate, NULL, NULL, files };
    tests[n + 1] = (struct CMUnitTest){ "picture", picture, NULL, NULL, NULL };
    rc = _cmocka_run_group_tests("invariance", tests, (size_t)n + 2, NULL, NULL);
    for (int i = 0; i < n; i++)
        free(found[i]);
    free(found);
    return rc;
}
