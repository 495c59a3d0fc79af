/* report: what a run leaves for people: run.json, and the page that is made of a folder. */
#include "tests/train/leavings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "report/history.h"
#include "report/report.h"

/* A page must not need anything beside it. */
static void opens_alone(const char *page)
{
    assert_non_null(strstr(page, "<!DOCTYPE html>"));
    assert_non_null(strstr(page, "</html>"));
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "<link"));
    assert_null(strstr(page, "src=\"http"));
    assert_null(strstr(page, ">nan"));
    assert_null(strstr(page, " nan"));
}

static const char *page_of(toy *t, const char *folder)
{
    check_ok(t, dg_report_write(toy_path(t, "page.html"), &folder, 1, t->d));
    opens_alone(text_of(t, "page.html"));
    return text_of(t, "page.html");
}

/* ---- run.json and the page ------------------------------------------------------------------- */

static void account(void **state)
{
    toy *t = *state;
    const dg_json *run, *end, *nodes;
    bool found = false;

    check_ok(t, train(t, "a", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    run = json_of(t, "a/run.json");
    assert_true(at(run, "format")->number == 1);
    assert_true(at(run, "steps")->number == 12);
    assert_true(at(run, "ranks")->number == 1);
    end = at(run, "end");
    assert_string_equal(at(end, "state")->text, "done");
    assert_string_equal(at(end, "why")->text, "all steps are done");
    assert_true(at(end, "step")->number == 12);
    assert_int_equal(at(run, "data")->n, 2);
    assert_int_equal(at(&at(run, "data")->items[0], "classes")->n, 2);
    assert_int_equal(at(run, "per_rank")->n, 1);
    nodes = at(at(run, "profile"), "nodes");
    for (int i = 0; i < nodes->n; i++)
        found |= strcmp(at(&nodes->items[i], "name")->text, "m/net") == 0 &&
                 at(&nodes->items[i], "seconds")->number > 0;
    assert_true(found);
}

static void curves(void **state)
{
    toy *t = *state;
    const dg_json *c, *classes;

    check_ok(t, train(t, "a", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    c = json_of(t, "a/evaluate/curves.json");
    assert_true(at(c, "step")->number == 12);
    classes = at(c, "classes");
    assert_int_equal(classes->n, 2);
    assert_int_equal(at(at(&classes->items[1], "precision"), "0.75")->n,
                     (int)at(c, "recall")->number);
}

static void page(void **state)
{
    toy *t = *state;
    const char *text, *folder;

    check_ok(t, train(t, "first", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    text = text_of(t, "first/report.html");
    opens_alone(text);
    has(text, "<span class=\"state done\">done</span>");
    has(text, "<h2>Scores</h2>");
    has(text, "loss_box");
    has(text, "data:image/jpeg;base64,/9j/");
    has(text, "&lt;toy.net");                      /* the pipeline itself */
    has(text, "data:image/svg+xml;base64,PHN2Zy"); /* "<svg": the graph, */
    has(text, "box aspect (width : height)");      /* and the data report, */
    has(text_of(t, "first/graph.svg"), "<g id=\"graph0\"");
    has(text_of(t, "first/graph.svg"), " ms</text>");
    /* for which the page needs nothing but the folder. */
    folder = toy_path(t, "first");
    assert_string_equal(page_of(t, folder), text);
    assert_int_equal(unlink(toy_path(t, "first/graph.svg")), 0);
    assert_int_equal(unlink(toy_path(t, "first/data.json")), 0);
    text = page_of(t, folder);
    has(text, "The folder has no graph.svg");
    has(text, "The folder has no data.json");
}

/* The data report of a run is the one of `data check`, as far as annotations tell. */
static void data_report(void **state)
{
    toy *t = *state;
    const dg_json *all, *first;

    check_ok(t, train(t, "a", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    all = json_of(t, "a/data.json");
    assert_string_equal(at(all, "form")->text, "loader.synthetic");
    assert_int_equal(at(all, "splits")->n, 2);
    first = &at(all, "splits")->items[0];
    assert_string_equal(at(first, "name")->text, "train");
    assert_true(at(first, "images")->number > 0);
    assert_true(at(first, "objects")->number > 0);
    assert_int_equal(at(all, "classes")->n, 2);
    assert_int_equal(at(first, "per_class")->n, 2);
    assert_int_equal(at(at(all, "histograms"), "box_side")->n, 9);
    assert_true(at(all, "images_read")->number == 0);
}

static void compared(void **state)
{
    toy *t = *state;
    const char *folders[2], *text;
    dg_str summary = { 0 };

    check_ok(t, train(t, "slow", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    check_ok(t,
             train(t, "fast", (toy_text){ .train = "steps=\"14\"" }, (dg_run_train_options){ 0 }));
    folders[0] = toy_path(t, "slow");
    folders[1] = toy_path(t, "fast");
    check_ok(t, dg_report_write(toy_path(t, "both.html"), folders, 2, t->d));
    text = text_of(t, "both.html");
    opens_alone(text);
    has(text, "2 runs compared");
    has(text, "<del>-   &lt;train steps=&quot;12&quot;&gt;</del><ins>+   &lt;train "
              "steps=&quot;14&quot;&gt;</ins>");
    has(text, "<th>steps</th><td>12</td><td>14</td>");
    check_ok(t, dg_report_summary(&summary, folders, 2, true, t->d));
    const dg_json *all;

    check_ok(t, dg_json_parse(&all, t->arena, summary.s, summary.n, "summary", t->d));
    assert_int_equal(all->n, 2);
    assert_string_equal(at(&all->items[1], "state")->text, "done");
    assert_true(at(at(&all->items[1], "last"), "loss")->number > 0);
    dg_str_free(&summary);
    check_ok(t, dg_report_summary(&summary, folders, 2, false, t->d));
    has(summary.s, "best AP");
    dg_str_free(&summary);
}

static void of_a_failure(void **state)
{
    toy *t = *state;
    const char *folder, *text;

    assert_int_equal(train(t, "broken", (toy_text){ .loss = "breaks=\"2.5\"" },
                           (dg_run_train_options){ 0 }),
                     -DG_ENUMERIC);
    dg_diag_clear(t->d);
    assert_string_equal(at(at(json_of(t, "broken/run.json"), "end"), "state")->text, "failed");
    folder = toy_path(t, "broken");
    check_ok(t, dg_report_write(toy_path(t, "broken.html"), &folder, 1, t->d));
    text = text_of(t, "broken.html");
    opens_alone(text);
    has(text, "loss-not-finite");
    has(text, "class=\"state failed\"");
}

static void of_nothing(void **state)
{
    toy *t = *state;
    const char *folder = toy_path(t, "empty");

    check_ok(t, dg_mkdirs(folder, t->d));
    assert_int_equal(dg_report_write(toy_path(t, "x.html"), &folder, 1, t->d), -DG_EINPUT);
    check_only(t->d, "report-nothing");
    assert_false(dg_exists(toy_path(t, "x.html")));
}

/* A folder of an older program, whose run was killed in the middle of a line. */
static void of_a_torso(void **state)
{
    static const char metrics[] =
        "{\"step\":1,\"epoch\":0,\"loss\":3,\"lr\":1e-3,\"seconds\":0.5,\"images_per_s\":8}\n"
        "{\"step\":1,\"epoch\":0,\"evaluate\":\"evaluate\",\"AP\":0.25,\"AP50\":-1,\"seconds\":1}\n"
        "{\"step\":2,\"epoch\":0,\"loss\":null,\"lr\":1e-3,\"sec";
    static const char *const odd[] = {
        "[]",
        "{\"end\":3,\"data\":{\"a\":1},\"profile\":[1],\"per_rank\":\"x\",\"classes\":[1,{}],"
        "\"sets\":[1]}",
        ("{\"steps\":1e300,\"batch\":-1e300,\"data\":[1,[],{\"classes\":[3]}],\"profile\":{"
         "\"steps\":0,\"nodes\":[{},1]},\"per_rank\":[1,2],"
         "\"recall\":1,\"step\":1e400,\"classes\":[{\"precision\":{\"0.50\":[1]}},{\"precision\":{"
         "\"0.50\":[0,1,\"x\"]},\"AP\":\"y\"}]}"),
    };
    toy *t = *state;
    const char *folder = toy_path(t, "old");
    dg_history *h;

    check_ok(t, dg_mkdirs(folder, t->d));
    check_ok(t, dg_file_write(toy_path(t, "old/metrics.jsonl"), metrics, sizeof metrics - 1, t->d));
    check_ok(t, dg_history_open(&h, folder, t->d));
    assert_string_equal(h->name, "old");
    assert_int_equal(h->best_step, 1);
    assert_true(dg_series_last(dg_track_find(&h->train, "loss")) == 3);
    assert_string_equal(dg_history_state(h), "unknown");
    dg_history_close(&h);
    check_ok(t, dg_report_write(toy_path(t, "old.html"), &folder, 1, t->d));
    opens_alone(text_of(t, "old.html"));
    /* Files that are JSON and nothing else. */
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        check_ok(t, dg_file_write(toy_path(t, "old/run.json"), odd[i], strlen(odd[i]), t->d));
        check_ok(t, dg_mkdirs(toy_path(t, "old/evaluate"), t->d));
        check_ok(t, dg_file_write(toy_path(t, "old/evaluate/curves.json"), odd[i], strlen(odd[i]),
                                  t->d));
        check_ok(t, dg_report_write(toy_path(t, "old.html"), &folder, 1, t->d));
        opens_alone(text_of(t, "old.html"));
        check_ok(t, dg_file_write(toy_path(t, "old/data.json"), odd[i], strlen(odd[i]), t->d));
        has(page_of(t, folder), "data.json cannot be read: this is not what data check writes");
    }
}

static void write_file(toy *t, const char *name, const char *text)
{
    check_ok(t, dg_file_write(toy_path(t, name), text, strlen(text), t->d));
}

/* What somebody else has left in a folder is read, never run, and leads nowhere else. */
static void of_a_stranger(void **state)
{
    toy *t = *state;
    const char *folder = toy_path(t, "odd");
    dg_str json = { 0 };
    dg_history *h;

    check_ok(t, dg_mkdirs(folder, t->d));
    check_ok(t, dg_mkdirs(toy_path(t, "other"), t->d));
    write_file(t, "other/step-000001.jpg", "a secret");
    write_file(t, "odd/evil.so", "no library");
    write_file(t, "odd/pipeline.xml",
               "<pipeline name=\"p\" version=\"1\"><plugin path=\"evil.so\"/></pipeline>");
    write_file(t, "odd/run.json", "{\"end\":{\"state\":\"<script>\\\"\"}}");
    write_file(t, "odd/metrics.jsonl",
               "{\"step\":1,\"epoch\":0,\"evaluate\":\"../other\",\"AP\":0.9}\n"
               "{\"step\":1,\"epoch\":0,\"evaluate\":\".\",\"AP\":0.9}\n"
               "{\"step\":1,\"epoch\":0,\"evaluate\":[1],\"loss\":3}\n"
               "{\"step\":1,\"epoch\":0,\"evaluate\":\"e\",\"AP\":null}\n"
               "{\"step\":2,\"epoch\":0,\"evaluate\":\"e\",\"AP\":0.25}\n"
               "{\"step\":3,\"epoch\":0,\"evaluate\":\"e\",\"AP\":null}\n");
    check_ok(t, dg_history_open(&h, folder, t->d));
    assert_int_equal(h->evaluations.n, 1);
    assert_int_equal(h->train.series.n, 0);
    assert_int_equal(h->best_step, 2);
    assert_true(h->best == 0.25);
    assert_string_equal(dg_history_state(h), "unknown");
    dg_history_close(&h);
    write_file(t, "odd/graph.svg",
               "<svg><script>alert(1)</script></svg>"); /* in a picture nothing runs */
    write_file(
        t, "odd/data.json",
        "{\"splits\":[{\"name\":\"<script>\",\"images\":-1,\"per_class\":[1,2,\"x\"]},3],"
        "\"classes\":[{\"name\":\"<b>\"},4],"
        "\"histograms\":{\"box_side\":[1,{\"bin\":\"<i>\",\"count\":1e300}],\"image_size\":{}},"
        "\"objects\":1,\"faults\":[1,{\"id\":\"box-empty\",\"count\":9,\"cases\":[{\"file\":\"<u>"
        "\",\"line\":1e12}]}]}");
    has(page_of(t, folder), "&lt;script&gt;");
    check_ok(t, dg_report_summary(&json, &folder, 1, true, t->d));
    has(json.s, "\"state\":\"unknown\"");
    dg_str_free(&json);
}

/* Pipelines that are equal as far as they are compared are not told equal. */
static void long_pipelines(void **state)
{
    toy *t = *state;
    dg_str text = { 0 };
    const char *folders[] = { toy_path(t, "a"), toy_path(t, "b") }, *page;

    dg_str_add(&text, "<pipeline>");
    for (int i = 0; i < 2500; i++)
        dg_str_add(&text, "\n");
    for (int i = 0; i < 2; i++) {
        check_ok(t, dg_mkdirs(folders[i], t->d));
        write_file(t, i ? "b/run.json" : "a/run.json", "{}");
        write_file(t, i ? "b/pipeline.xml" : "a/pipeline.xml",
                   dg_printf(t->arena, "%s</%d>", text.s, i));
    }
    dg_str_free(&text);
    check_ok(t, dg_report_write(toy_path(t, "both.html"), folders, 2, t->d));
    page = text_of(t, "both.html");
    has(page, "Their first 2000 lines are compared");
    assert_null(strstr(page, "The files are equal"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(account),       TEST(curves),         TEST(page),       TEST(data_report),
        TEST(compared),      TEST(of_a_failure),   TEST(of_nothing), TEST(of_a_torso),
        TEST(of_a_stranger), TEST(long_pipelines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
