/* rig.c: see rig.h. */
#include "tests/bad/rig.h"

#include <string.h>

#include "base/file.h"

void says(toy *t, const char *id, const char *text)
{
    dg_str got = { 0 };
    const char *at = dg_diag_n(t->d) ? dg_diag_at(t->d, 0)->text : "nothing was said", *found;

    if (dg_diag_n(t->d) != 1)
        fail_msg("%d diagnostics: %s", dg_diag_n(t->d), dg_diag_text(t->d));
    while ((found = strstr(at, t->folder))) {
        dg_str_add_n(&got, at, (size_t)(found - at));
        dg_str_add(&got, "OUT");
        at = found + strlen(t->folder);
    }
    dg_str_add(&got, at);
    assert_string_equal(dg_diag_at(t->d, 0)->id, id);
    assert_string_equal(got.s, text);
    dg_str_free(&got);
    dg_diag_clear(t->d);
}

const char *plain(toy *t)
{
    return toy_pipeline(t->arena, (toy_text){ .evaluate = "every=\"100 steps\"" });
}

int train(toy *t, const char *text, int64_t steps, dg_run_train_options o)
{
    o.out = o.out ? o.out : toy_path(t, "out");
    o.steps = steps;
    return toy_train(t, text, o);
}

void write_file(toy *t, const char *name, const char *text)
{
    assert_int_equal(dg_file_write(toy_path(t, name), text, strlen(text), t->d), 0);
}
