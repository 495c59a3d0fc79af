/* folders.c: the exact messages of a run for bad folders and full disks, and for a folder or file
 * that goes while it runs; existing files are left untouched. */
#include "tests/bad/rig.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/checkpoint.h"

static void folder_in_use(void **state)
{
    toy *t = *state;

    assert_int_equal(mkdir(toy_path(t, "out"), 0777), 0);
    write_file(t, "out/thesis.tex", "\\documentclass");
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ 0 }), -DG_EINPUT);
    says(t, "out-exists", "the run's folder exists and is not empty");
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .resume = DG_RUN_RESUME }),
                     -DG_EINPUT);
    says(t, "resume-none", "there is no whole checkpoint to resume from");
    assert_int_equal(dg_mkdirs(toy_path(t, "out/flight"), t->d), 0);
    write_file(t, "out/flight/verdict.json", "[]"); /* of a run before */
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .force = true }), 0);
    assert_false(dg_exists(toy_path(t, "out/flight/verdict.json")));
    assert_true(dg_exists(toy_path(t, "out/thesis.tex"))); /* force removes only what runs create */
    assert_int_equal(train(t, plain(t), 2,
                           (dg_run_train_options){ .resume = DG_RUN_RESUME,
                                                   .resume_from = toy_path(t, "no") }),
                     -DG_EINPUT);
    says(t, "resume-folder", "--resume takes a checkpoint's folder, such as OUT/checkpoints/last");
}

static void resume_without_folder(void **state)
{
    toy *t = *state;

    assert_int_equal(toy_train(t, plain(t), (dg_run_train_options){ .resume = DG_RUN_RESUME_AUTO }),
                     -DG_EINPUT);
    says(t, "resume-without-out", "--resume needs the run's folder: --out");
}

/* Run as an unprivileged user, because root can write everywhere. */
static void unwritable_folder(void **state)
{
    enum { NOBODY = 65534 };
    toy *t = *state;
    bool root = geteuid() == 0;

    assert_int_equal(chmod(t->folder, 0555), 0);
    assert_int_equal(root ? seteuid(NOBODY) : 0, 0);
    int rc = train(t, plain(t), 2, (dg_run_train_options){ 0 });

    assert_int_equal(root ? seteuid(0) : 0, 0);
    assert_int_equal(chmod(t->folder, 0755), 0);
    assert_int_equal(rc, -DG_EIO);
    says(t, "folder-create", "cannot create the folder: Permission denied");
}

static void things_in_the_way(void **state)
{
    toy *t = *state;

    assert_int_equal(dg_mkdirs(toy_path(t, "out/run.log"), t->d), 0);
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .force = true }), -DG_EIO);
    says(t, "file-kind", "a file is expected, this is a folder");
    assert_int_equal(rmdir(toy_path(t, "out/run.log")), 0);
    assert_int_equal(dg_mkdirs(toy_path(t, "out/model.safetensors"), t->d), 0);
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .force = true }), -DG_EIO);
    says(t, "checkpoint-write", "cannot put the weights into the run's folder: Is a directory");
}

static void full_disk(void **state)
{
    toy *t = *state;
    const char *disk = toy_path(t, "disk"),
               *text =
                   toy_pipeline(t->arena,
                                (toy_text){ .train = "steps=\"60\"",
                                            .evaluate = "every=\"100 steps\"",
                                            .end = "<checkpoint every=\"1 steps\" keep=\"40\"/>" });

    assert_int_equal(dg_mkdirs(disk, t->d), 0);
    bool own = unshare(CLONE_NEWNS) == 0;

    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL); /* fails in a chroot, harmlessly */
    if (!own || mount("tmpfs", disk, "tmpfs", 0, "size=600k"))
        skip(); /* mounting a small file system needs root */
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ .out = toy_path(t, "disk/out") }),
                     -DG_EIO);
    assert_non_null(strstr(dg_diag_at(t->d, 0)->text, "No space left on device"));
    assert_non_null(strstr(dg_diag_at(t->d, 0)->remarks[0].text, " are missing; --resume with"));
    dg_diag_clear(t->d);
    assert_int_equal(t->n_reports, 60); /* it went on to its end */
    const char *newest = dg_checkpoint_newest(t->arena, toy_path(t, "disk/out"), NULL);

    assert_non_null(newest);
    int done = atoi(strstr(newest, "step-") + 5);

    assert_in_range(done, 3, 59);
    /* The earlier checkpoint is intact: the run resumes from it once there is space. */
    assert_int_equal(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=60m"), 0);
    assert_int_equal(train(t, text, 0,
                           (dg_run_train_options){ .out = toy_path(t, "disk/out"),
                                                   .resume = DG_RUN_RESUME }),
                     0);
    assert_int_equal(t->n_reports, 60 - done);
    assert_int_equal(umount2(disk, MNT_DETACH), 0);
}

/* A file size limit of a few thousand bytes, which metrics.jsonl reaches first: its lines wait in
 * memory, and the run ends with an error, for they were not written. */
static void journal_too_large(void **state)
{
    toy *t = *state;
    struct rlimit before, small;
    int rc;

    assert_int_equal(train(t, plain(t), 4, (dg_run_train_options){ 0 }), 0);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){ 3500, before.rlim_max };
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc = toy_train(t,
                   toy_pipeline(t->arena, (toy_text){ .train = "steps=\"100\"",
                                                      .evaluate = "every=\"100 steps\"" }),
                   (dg_run_train_options){ .out = toy_path(t, "out"), .resume = DG_RUN_RESUME });
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(rc, -DG_EIO);
    assert_int_equal(t->n_reports, 96);
    assert_non_null(strstr(t->log.s, "cannot write: File too large [journal-write]; lines from"));
    assert_non_null(strstr(dg_diag_at(t->d, 0)->text, "cannot write: File too large"));
    dg_diag_clear(t->d);
}

static void move_away(toy *t)
{
    if (t->n_reports == 7)
        assert_int_equal(rename(toy_path(t, "out"), toy_path(t, "away")), 0);
}

static void put_a_file_there(toy *t)
{
    if (t->n_reports != 7)
        return;
    assert_int_equal(rename(toy_path(t, "out"), toy_path(t, "elsewhere")), 0);
    write_file(t, "out", "mine");
}

static int lines_of(toy *t, const char *name)
{
    char *text = NULL;
    size_t n;
    int lines = 0;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, name), 0, t->d), 0);
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    dg_free(text);
    return lines;
}

/* The folder is moved away while the run writes into it, and something else takes its place. */
static void folder_goes(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ .train = "steps=\"40\"",
                                                          .evaluate = "every=\"100 steps\"" });
    char *lines = NULL;
    size_t n;

    t->after_step = move_away;
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ 0 }), 0);
    assert_true(dg_exists(toy_path(t, "out/checkpoints/last/state.json")));
    assert_true(dg_exists(toy_path(t, "out/pipeline.xml")));
    assert_true(dg_exists(toy_path(t, "out/report.html")));
    assert_int_equal(lines_of(t, "out/metrics.jsonl"), 41); /* also those before it went */
    assert_int_equal(dg_file_read(&lines, &n, toy_path(t, "out/run.log"), 0, t->d), 0);
    assert_non_null(strstr(lines, "the run's folder was deleted, moved or emptied"));
    dg_free(lines);

    /* now a file is in its place: the run trains on, and ends with an error */
    t->after_step = put_a_file_there;
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ .force = true }), -DG_EIO);
    assert_non_null(strstr(t->log.s, "something else is in its place now: move that away "
                                     "[out-replaced]; the run goes on"));
    says(t, "folder-gone", "the run's folder is gone, and could not be made again");
    assert_int_equal(t->n_reports, 40);
    assert_int_equal(dg_file_read(&lines, &n, toy_path(t, "out"), 0, t->d), 0);
    assert_string_equal(lines, "mine");
    dg_free(lines);
}

static void put_a_folder_for_numbers(toy *t)
{
    if (t->n_reports != 7)
        return;
    assert_int_equal(unlink(toy_path(t, "out/metrics.jsonl")), 0);
    assert_int_equal(dg_mkdirs(toy_path(t, "out/metrics.jsonl"), t->d), 0);
}

/* TensorBoard's file is only renamed: the run still has it. */
static void put_nothing_for_numbers(toy *t)
{
    if (t->n_reports != 7)
        return;
    assert_int_equal(unlink(toy_path(t, "out/metrics.jsonl")), 0);
    assert_int_equal(rename(toy_path(t, "out/events.out.tfevents.detrgraph"),
                            toy_path(t, "out/events.out.tfevents.mine")),
                     0);
}

/* First the numbers cannot be written again; then the whole folder goes, and comes with them; then
 * they go once more. */
static void put_folders_for_numbers(toy *t)
{
    put_a_folder_for_numbers(t);
    if (t->n_reports == 14)
        assert_int_equal(rename(toy_path(t, "out"), toy_path(t, "away")), 0);
    if (t->n_reports != 21)
        return;
    assert_null(strstr(t->log.s, "is written again, with the numbers so far"));
    assert_int_equal(unlink(toy_path(t, "out/metrics.jsonl")), 0);
    assert_int_equal(dg_mkdirs(toy_path(t, "out/metrics.jsonl"), t->d), 0);
}

static int count(const char *text, const char *of)
{
    int n = 0;

    for (const char *s = text; (s = strstr(s, of)) != NULL; s++)
        n++;
    return n;
}

static void move_back(toy *t)
{
    put_a_file_there(t);
    if (t->n_reports != 20)
        return;
    assert_int_equal(unlink(toy_path(t, "out")), 0);
    assert_int_equal(rename(toy_path(t, "elsewhere"), toy_path(t, "out")), 0);
}

/* metrics.jsonl alone goes: all is saved, and only what cannot be written is an error. */
static void numbers_go(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ .train = "steps=\"40\"",
                                                          .evaluate = "every=\"100 steps\"" });

    t->after_step = put_nothing_for_numbers;
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ 0 }), 0);
    assert_non_null(strstr(t->log.s, "metrics.jsonl was deleted: it is written again"));
    assert_null(strstr(t->log.s, "earlier checkpoints"));
    assert_int_equal(lines_of(t, "out/metrics.jsonl"), 41);
    assert_false(dg_exists(toy_path(t, "out/events.out.tfevents.detrgraph")));

    t->after_step = put_a_folder_for_numbers;
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ .force = true }), -DG_EIO);
    assert_non_null(strstr(t->log.s, "metrics.jsonl was deleted, and cannot be written again: "));
    says(t, "file-rename", "cannot put the new file into its place: Is a directory");
    assert_true(dg_exists(toy_path(t, "out/checkpoints/step-000040/state.json")));

    assert_int_equal(rmdir(toy_path(t, "out/metrics.jsonl")), 0);
    dg_str_free(&t->log);
    t->after_step = put_folders_for_numbers;
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ .force = true }), -DG_EIO);
    assert_int_equal(count(t->log.s, "deleted, and cannot be written again: "), 2);
    dg_diag_clear(t->d);
}

/* What was moved away comes back: the run saves into it again. */
static void folder_returns(void **state)
{
    toy *t = *state;
    const char *text = toy_pipeline(t->arena, (toy_text){ .train = "steps=\"40\"",
                                                          .evaluate = "every=\"100 steps\"" });

    t->after_step = move_back;
    assert_int_equal(train(t, text, 0, (dg_run_train_options){ 0 }), 0);
    assert_true(dg_exists(toy_path(t, "out/checkpoints/step-000040/state.json")));
    assert_int_equal(lines_of(t, "out/metrics.jsonl"), 41);
}

static void links_to(toy *t, const char *name)
{
    unlink(toy_path(t, name));
    assert_int_equal(symlink(toy_path(t, "mine"), toy_path(t, name)), 0);
}

static void mine_is_whole(toy *t)
{
    char *text = NULL;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, toy_path(t, "mine"), 0, t->d), 0);
    assert_string_equal(text, "mine");
    dg_free(text);
}

/* A file of the run was replaced by a link to something else: what it leads to stays as it is. */
static void links_lead_elsewhere(void **state)
{
    static const char *const files[] = { "out/run.log", "out/metrics.jsonl" };
    const dg_run_train_options resume = { .resume = DG_RUN_RESUME };
    toy *t = *state;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .force = true }), 0);
        links_to(t, files[i]);
        if (i == 0)
            write_file(t, "mine", "mine");
        else /* leads to nothing, which would be made */
            assert_int_equal(unlink(toy_path(t, "mine")), 0);
        assert_int_equal(train(t, plain(t), 3, resume), -DG_EIO);
        assert_string_equal(dg_diag_at(t->d, 0)->at.file, toy_path(t, files[i]));
        says(t, "file-link", "it is a symbolic link, and what it leads to would be written to");
        if (i == 0)
            mine_is_whole(t);
        else
            assert_false(dg_exists(toy_path(t, "mine")));
        assert_int_equal(unlink(toy_path(t, files[i])), 0);
    }
    write_file(t, "mine", "mine");
    links_to(t, "out/events.out.tfevents.detrgraph");
    assert_int_equal(train(t, plain(t), 3, resume), 0);
    assert_non_null(strstr(t->log.s, "it is a symbolic link"));
    mine_is_whole(t);
    /* a file that is written anew takes the place of the link; of a checkpoint kept elsewhere the
     * link is dropped */
    links_to(t, "out/run.json");
    links_to(t, "out/model.safetensors");
    assert_int_equal(rename(toy_path(t, "out/checkpoints/step-000003"), toy_path(t, "kept")), 0);
    assert_int_equal(symlink("../../kept", toy_path(t, "out/checkpoints/step-000003")), 0);
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .force = true }), 0);
    mine_is_whole(t);
    assert_true(dg_exists(toy_path(t, "kept/state.json")));
    /* and nothing is cleared away behind a linked folder that a run does not write into */
    write_file(t, "kept/mine.tmp-1", "mine");
    assert_int_equal(symlink("../kept", toy_path(t, "out/pictures")), 0);
    assert_int_equal(train(t, plain(t), 2, (dg_run_train_options){ .force = true }), 0);
    assert_true(dg_exists(toy_path(t, "kept/mine.tmp-1")));
    assert_false(dg_exists(toy_path(t, "out/checkpoints/step-000003")));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folder_in_use),     TEST(resume_without_folder),
        TEST(unwritable_folder), TEST(things_in_the_way),
        TEST(full_disk),         TEST(journal_too_large),
        TEST(folder_goes),       TEST(numbers_go),
        TEST(folder_returns),    TEST(links_lead_elsewhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
