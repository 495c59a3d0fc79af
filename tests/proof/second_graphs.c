/* second_graphs: the second look at pipelines lowered without the proof of the graph: the two holes
 * that the proof had, sizes that differ, and what it rejects. */
#include "tests/proof/loaded.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* The number of programs of the pipeline in which something is found; -1: it cannot be read. */
static int look_at(const char *text, const char *file, dg_str *said)
{
    loaded x;
    const dg_scope *s;
    int found = 0;

    load(&x, text, file);
    for (int i = 0; x.g && (s = scope_of(&x, i)); i++) {
        dg_second_host *h = dg_second_host_make(x.g, s, x.a);
        dg_program *first = lowered(&x, s, 0), *p;
        dg_diag *d = dg_diag_open();

        found += first && dg_second_look(first, h, d) < 0;
        for (int k = 1; first && (p = lowered(&x, s, k)); k++) {
            found += h->size.axes && dg_second_meet(first, p, h->size.axes, h, d) < 0;
            dg_program_close(&p);
        }
        dg_program_close(&first);
        dg_str_add(said, dg_diag_text(d));
        dg_diag_close(&d);
    }
    found = x.g ? found : -1;
    unload(&x);
    return found;
}

#define PIPELINE(text)                                                                           \
    "<pipeline version=\"1\"><mesh dp=\"2\"/>"                                                   \
    "<model id=\"net\"><input id=\"images\"/><input id=\"late\" optional=\"true\"/>"             \
    "<layer.linear id=\"a\" in=\"@images\" width=\"4\"/>"                                        \
    "<loss.mean id=\"ma\" in=\"@a\" when=\"@late\"/></model>"                                    \
    "<model id=\"main\"><input id=\"images\"/>"                                                  \
    "<layer.linear id=\"a\" in=\"@images\" width=\"4\"/></model>"                                \
    "<train steps=\"8\">\n<include file=\"parts/data.xml\"/>"                                    \
    "<source.step id=\"ep\"/><test id=\"late\" in=\"@ep\" is=\"above\" than=\"3\"/>"             \
    "<source.rank id=\"me\"/><test id=\"pos\" in=\"@me\" is=\"positive\"/>"                      \
    "<test id=\"neg\" in=\"@me\" is=\"zero\"/>"                                                  \
    "<use id=\"o\" model=\"main\" images=\"@b.images\"/><loss.mean id=\"loss\" in=\"@o\"/>" text \
    "<backward id=\"grad\" loss=\"@loss\"/>"                                                     \
    "<include file=\"parts/update.xml\"/></train></pipeline>"

/* A model that always fires has a node inside that does not; a mean takes place where the one or
 * this rank's own flag says so. And: two means, each where a flag of this rank says so, the one on
 * these ranks and the other on those: two variables would be averaged. */
static const char *const holes[] = {
    PIPELINE("<use id=\"out\" model=\"net\" images=\"@b.images\" late=\"@late\" connect=\"zero\"/>"
             "<loss.mean id=\"extra\" in=\"@b.images\" when=\"@pos\"/>"
             "<sum id=\"side\" aux=\"@out\" extra=\"@extra\"/>"
             "<allreduce id=\"m\" in=\"@side\" axis=\"dp\"/><log in=\"@m\"/>"),
    PIPELINE("<loss.mean id=\"lb\" in=\"@o\" when=\"@late\"/>"
             "<record id=\"r\" a=\"@loss\" b=\"@lb\" connect=\"zero\"/>"
             "<sum id=\"lx\" a=\"@loss\" when=\"@pos\"/><sum id=\"ly\" a=\"@loss\" when=\"@neg\"/>"
             "<sum id=\"s\" a=\"@lx\" b=\"@r.b\"/><sum id=\"s2\" a=\"@ly\" b=\"@r.b\"/>"
             "<allreduce id=\"m\" in=\"@s\" axis=\"dp\"/><log in=\"@m\"/>"
             "<allreduce id=\"m2\" in=\"@s2\" axis=\"dp\"/><log in=\"@m2\"/>"),
};

static void two_holes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof holes / sizeof *holes; i++) {
        dg_str said = { 0 };

        assert_int_equal(look_at(holes[i], "hole.xml", &said), 1);
        assert_non_null(strstr(said.s, "all_reduce of \"train/m\", takes place where"));
        assert_non_null(strstr(said.s, "<source.rank id=\"me\"> is the number of this rank"));
        dg_str_free(&said);
    }
}

/* Ranks take images of other sizes at one step. Shapes that follow them must not be exchanged. */
static void sizes(void **state)
{
    static const char form[] =
        "<pipeline version=\"1\"><mesh dp=\"2\"/><model id=\"net\"><input id=\"images\"/>"
        "<layer.linear id=\"a\" in=\"@images\" width=\"4\"/></model><train steps=\"8\">"
        "<loader.synthetic id=\"data\" images=\"16\" width=\"32\" height=\"32\"/>"
        "<sampler.bucket id=\"pick\" in=\"@data\" batch=\"2\" sizes=\"32,64\" axis=\"dp\" "
        "tail=\"drop\"/><partition id=\"mine\" in=\"@pick\" axis=\"dp\" equal=\"drop\"/>"
        "<batch id=\"b\" in=\"@mine\" max_objects=\"4\"/>"
        "<use id=\"o\" model=\"net\" images=\"@b.images\"/><loss.mean id=\"loss\" in=\"@o\"/>"
        "%s<backward id=\"grad\" loss=\"@loss\"/><include file=\"parts/update.xml\"/></train>"
        "</pipeline>";
    static const char *const inside[] = {
        "<allreduce id=\"m\" in=\"@loss\" axis=\"dp\"/><log in=\"@m\"/>",
        "<allreduce id=\"m\" in=\"@b.images\" axis=\"dp\"/><loss.mean id=\"l\" in=\"@m\"/>"
        "<log in=\"@l\"/>",
    };

    (void)state;
    for (int i = 0; i < 2; i++) {
        dg_arena *a = dg_arena_open();
        dg_str said = { 0 };
        char *at, *text = dg_strdup(a, form);

        at = strstr(text, "%s");
        *at = '\0';
        assert_int_equal(look_at(dg_printf(a, "%s%s%s", text, inside[i], at + 2), "s.xml", &said),
                         i);
        if (i) {
            assert_non_null(strstr(said.s, "all_reduce of f32[2,32,32,3] of \"train/m\""));
            assert_non_null(strstr(said.s, "deals items of different sizes"));
        }
        dg_str_free(&said);
        dg_arena_close(&a);
    }
}

/* The programs of a preset's sizes are alike as they are lowered, and passes do the same to each.
 */
static void presets(void **state)
{
    static const char *const files[] = { "rtdetrv2_r18vd_coco.xml", "dino_r50_coco.xml" };
    int n = 0;

    (void)state;
    for (int f = 0; f < 2; f++) {
        dg_arena *a = dg_arena_open();
        const char *file = dg_printf(a, "../../../pipelines/%s", files[f]);
        char *text = read_file(file);
        const dg_scope *s;
        loaded x;

        load(&x, text, file);
        assert_non_null(x.g);
        for (int i = 0; (s = scope_of(&x, i)); i++) {
            dg_program *first = lowered_only(&x, s, 0), *passed = lowered(&x, s, 0), *p;

            assert_false(dg_second_alike(first, passed));
            for (int k = 1; (p = lowered_only(&x, s, k)); k++, n++) {
                assert_true(dg_second_alike(first, p));
                dg_program_close(&p);
                p = lowered(&x, s, k);
                assert_true(dg_second_alike(passed, p));
                dg_program_close(&p);
            }
            dg_program_close(&first);
            dg_program_close(&passed);
        }
        unload(&x);
        dg_free(text);
        dg_arena_close(&a);
    }
    assert_true(n > 20);
}

/* Most of the cases that the proof rejects because ranks would not take part alike, the second look
 * finds by itself. The others are not in a program: what only the host exchanges, what declared.c
 * says and does not do, a root that lacks its operand. */
static int choose(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return n > 4 && strcmp(e->d_name + n - 4, ".xml") == 0;
}

static void alone(void **state)
{
    static const char *const codes[] = { "DG-PRES", "DG-RATE", "DG-STATE", "DG-SHAPE" };
    int n = 0, found = 0, by_code[4] = { 0 }, of_code[4] = { 0 };
    struct dirent **files;
    int n_files = scandir(".", &files, choose, alphasort);

    (void)state;
    for (int i = 0; i < n_files; i++) {
        char *text = read_file(files[i]->d_name), *verdict = strstr(text, "verdict: reject");
        dg_str said = { 0 };
        int rc;

        free(files[i]);
        if (verdict && (*strchr(verdict, '\n') = '\0', true)) {
            bool asked = false;

            for (int k = 0; k < 4; k++)
                asked |= strstr(verdict, codes[k]) != NULL;
            *strchr(verdict, '\0') = '\n';
            rc = asked ? look_at(text, "case.xml", &said) : -1;
            *strchr(verdict, '\n') = '\0';
            n += rc >= 0;
            found += rc > 0;
            for (int k = 0; k < 4 && rc >= 0; k++)
                if (strstr(verdict, codes[k])) {
                    of_code[k]++;
                    by_code[k] += rc > 0;
                }
        }
        dg_str_free(&said);
        dg_free(text);
    }
    free(files);
    print_message("# rejected for presence, rate, state or shape: %d, found here too: %d\n", n,
                  found);
    for (int k = 0; k < 4; k++)
        print_message("# %s: %d of %d\n", codes[k], by_code[k], of_code[k]);
    assert_true(n > 100 && found * 10 >= n * 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_holes),
        cmocka_unit_test(sizes),
        cmocka_unit_test(presets),
        cmocka_unit_test(alone),
    };

    return enter_cases() ? 1 : cmocka_run_group_tests_name("second_graphs", tests, NULL, NULL);
}
