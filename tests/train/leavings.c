#include "tests/train/leavings.h"

#include <string.h>

#include "base/file.h"

void check_ok(toy *t, int rc)
{
    if (rc < 0)
        fail_msg("%s", dg_diag_text(t->d));
}

const dg_json *json_of(toy *t, const char *name)
{
    const dg_json *o;

    check_ok(t, dg_json_read(&o, t->arena, toy_path(t, name), t->d));
    return o;
}

const dg_json *at(const dg_json *o, const char *key)
{
    const dg_json *v = dg_json_get(o, key);

    if (!v)
        fail_msg("no \"%s\"", key);
    return v;
}

const char *text_of(toy *t, const char *name)
{
    char *text;
    size_t n;

    check_ok(t, dg_file_read(&text, &n, toy_path(t, name), 0, t->d));
    const char *kept = dg_strndup(t->arena, text, n);

    dg_free(text);
    return kept;
}

void has(const char *page, const char *words)
{
    if (!strstr(page, words))
        fail_msg("the page has no \"%s\"", words);
}

int train(toy *t, const char *out, toy_text text, dg_run_train_options o)
{
    o.out = toy_path(t, out);
    return toy_train(t, toy_pipeline(t->arena, text), o);
}
