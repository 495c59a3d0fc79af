/* codetr: Co-DINO with its three other heads on two ranks: the losses of one rank, on images that
 * are cut, flipped and padded, some of them without an object. */
#include "tests/ranks/toy_rank.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"

typedef struct edit {
    const char *from, *to;
} edit;

/* tests/bad/fixtures/codino.xml. RPN's own terms are left out: they are divided by the boxes of
 * their rank, as in the reference, and an image without objects counts one more. RoI's are, too,
 * but all images have as many as there is room for. */
static const edit edits[] = {
    { "<mesh", "<let batch=\"2\" lr=\"1e-4\"/>\n  <mesh" },
    { "samples=\"16\" pre_nms=\"50\" proposals=\"20\"",
      "samples=\"8\" pre_nms=\"200\" proposals=\"60\" class_weight=\"0\" box_weight=\"0\"" },
    { "samples=\"16\" positives=\"4\"", "samples=\"8\" positives=\"2\"" },
    { "batch=\"2\" size", "batch=\"$batch\" size" },
    { "in=\"@pick\" fit", "in=\"@aug\" fit" },
    { "<batch ",
      "<augment id=\"aug\" in=\"@pick\"><flip p=\"0.5\"/><resize_crop p=\"0.5\" sides=\"32,40,48\" "
      "least=\"24\" most=\"32\"/></augment>\n    <batch " },
    { "<optimizer.adamw", "<optimizer.adamw lr=\"$lr\"" },
    { "empty=\"none\"", "empty=\"none\" axis=\"dp\"" },
    { "steps=\"3\"", "steps=\"4\"" },
};

static const char *pipeline(toy *t)
{
    const char *top = getenv("srcdir"), *text;
    char *file;
    size_t n;

    assert_int_equal(dg_file_read(&file, &n,
                                  dg_printf(t->arena, "%s/tests/bad/fixtures/codino.xml",
                                            top ? top : "."),
                                  0, t->d),
                     0);
    text = dg_strdup(t->arena, file);
    dg_free(file);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        const char *at = strstr(text, edits[i].from);

        if (!at)
            fail_msg("codino.xml has no %s", edits[i].from);
        text = dg_printf(t->arena, "%.*s%s%s", (int)(at - text), text, edits[i].to,
                         at + strlen(edits[i].from));
    }
    return text;
}

static void as_one(void **state)
{
    toy *t = *state;
    start s = {
        .ranks = 1, .out = "one", .text = pipeline(t), .precision = "f32", .global = 2, .lr = "1e-6"
    };
    outcome one = toy_ranks_well(t, s), two;

    s.ranks = 2;
    s.out = "two";
    two = toy_ranks_well(t, s);
    assert_int_equal(one.n, 4);
    toy_same_losses(&one, &two, 4, 2e-6);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_one, toy_set_up, toy_tear_down),
    };
    int status;

    return toy_rank_main(argc, argv, &status) ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
