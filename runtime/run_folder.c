/* run_folder.c: a run's folder: whether it may be used, and its contents before the first step. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/metrics_out.h"
#include "runtime/run_log.h"

/* Files of a run at the top of its folder, besides checkpoints/ and run.log, which is open
 * already. */
static const char *const left_by_runs[] = { "pipeline.xml",
                                            "metrics.jsonl",
                                            "first-batches.jpg",
                                            "model.safetensors",
                                            "ema.safetensors",
                                            "run.json",
                                            "data.json",
                                            "graph.svg",
                                            "report.html",
                                            "trace.json",
                                            "events.out.tfevents.detrgraph" };
/* Files of an evaluation in its folder, besides pictures. */
static const char *const left_by_evaluations[] = { "pictures.json", "detections.json", "images.txt",
                                                   "curves.json", "review.json" };

enum { LAST_BREATHS = 20 }; /* tenths of a second to wait for a killed run that is ending */

/* True if the folder is empty, or has only the log of a run that ended before it began, e.g. with a
 * misspelt data folder. */
static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;

    for (struct dirent *e; dir && (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
             strcmp(e->d_name, "run.log") != 0;
    if (dir)
        closedir(dir);
    return n == 0;
}

/* Unlinks BEGIN4711.jpg. */
static void clear_pictures(dg_train *t, const char *folder, const char *begin)
{
    const size_t n = strlen(begin);
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, begin, n) == 0 &&
            strcmp(e->d_name + n + strspn(e->d_name + n, "0123456789"), ".jpg") == 0)
            unlink(dg_path_join(t->arena, folder, e->d_name));
    if (dir)
        closedir(dir);
}

static void clear_evaluation(dg_train *t, const char *folder)
{
    for (size_t i = 0; i < sizeof left_by_evaluations / sizeof *left_by_evaluations; i++)
        unlink(dg_path_join(t->arena, folder, left_by_evaluations[i]));
    clear_pictures(t, folder, "step-");
    clear_pictures(t, dg_path_join(t->arena, folder, "pictures"), "");
}

static void clear_folder(dg_train *t)
{
    const dg_graph *g = dg_run_pipeline(t->run)->graph;

    for (int i = 0; i < g->n_evaluates; i++)
        clear_evaluation(t, dg_path_join(t->arena, t->out, g->evaluates[i]->id));
    for (size_t i = 0; i < sizeof left_by_runs / sizeof left_by_runs[0]; i++)
        unlink(dg_path_join(t->arena, t->out, left_by_runs[i]));
    dg_checkpoint_drop(t->out, -1);
}

static int refuse_folder(dg_train *t, dg_diag *d)
{
    if (!dg_is_folder(t->out))
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "out-exists",
                       "it is a file; --out names a folder");
    dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "out-exists",
            "the run's folder exists and is not empty");
    dg_help(d, "--resume auto continues the run in it, --force begins anew in its place, --out "
               "names another");
    return -DG_EINPUT;
}

/* False if another process holds the lock. File systems without locks let every process in. */
static bool lock_log(FILE *f)
{
    for (int i = 0; flock(fileno(f), LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++) {
        if (i == LAST_BREATHS)
            return false;
        (void)poll(NULL, 0, 100);
    }
    return true;
}

/* Only what has the log's name is looked at: another file may be on a disk that does not answer. */
static bool is_log(int dir, const char *link, const struct stat *log)
{
    char to[PATH_MAX];
    const ssize_t n = readlinkat(dir, link, to, sizeof to - 1);
    struct stat st;

    if (n < 0)
        return false;
    to[n] = '\0';
    return dg_path_ends(to, "/run.log") && fstatat(dir, link, &st, 0) == 0 &&
           st.st_dev == log->st_dev && st.st_ino == log->st_ino;
}

static bool has_open(const char *pid, const struct stat *log)
{
    char path[64];
    bool found = false;
    DIR *dir;
    int fd;

    snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
    dir = opendir(path);
    fd = dir ? dirfd(dir) : -1;
    for (struct dirent *e; fd >= 0 && !found && (e = readdir(dir));)
        found = is_log(fd, e->d_name, log);
    if (dir)
        closedir(dir);
    return found;
}

/* The first other process that has the log open: the run in the folder, or a child that it left. 0:
 * none can be seen. */
static long holder_of(const char *log)
{
    DIR *dir = opendir("/proc");
    long first = 0, pid;
    struct stat st;

    if (dir && stat(log, &st) == 0)
        for (struct dirent *e; (e = readdir(dir));) {
            pid = strtol(e->d_name, NULL, 10);
            if (pid > 0 && pid != getpid() && (!first || pid < first) && has_open(e->d_name, &st))
                first = pid;
        }
    if (dir)
        closedir(dir);
    return first;
}

static int refuse_busy(dg_train *t, const char *log, dg_diag *d)
{
    const long pid = holder_of(log);
    char comm[64], name[32] = "?";
    FILE *f;

    snprintf(comm, sizeof comm, "/proc/%ld/comm", pid);
    f = pid ? fopen(comm, "re") : NULL;
    if (f && fgets(name, sizeof name, f))
        name[strcspn(name, "\n")] = '\0';
    if (f)
        fclose(f);
    dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "out-busy",
            "another run is writing into this folder%s",
            pid ? "" : ", or a process that it left behind has its log open");
    if (pid)
        dg_note(d, (dg_where){ .file = log }, "process %ld (%s) has it open", pid, name);
    dg_help(d, "--out names another; detrgraph ctl %s status asks the run in it%s",
            dg_shell(t->arena, t->out),
            pid ? dg_printf(t->arena, "; if none answers, kill %ld ends what it left behind", pid)
                : "");
    return -DG_EINPUT;
}

static bool is_same(const dg_train *t)
{
    struct stat st;

    return stat(t->out, &st) == 0 && st.st_dev == t->device && st.st_ino == t->inode;
}

bool dg_folder_is_home(const dg_train *t)
{
    FILE *log = dg_run_log_of(t->run)->file;
    struct stat st;

    return is_same(t) && (!log || (fstat(fileno(log), &st) == 0 && st.st_nlink > 0));
}

static void remember_home(dg_train *t)
{
    struct stat st;

    if (stat(t->out, &st) == 0) {
        t->device = st.st_dev;
        t->inode = st.st_ino;
    }
}

static const char *log_of(const dg_train *t)
{
    return dg_path_join(t->arena, t->out, "run.log");
}

/* Opens the log, which is also the lock: two runs in one folder would overwrite each other's
 * checkpoints. */
static int open_log(dg_train *t, dg_diag *d)
{
    const char *log = log_of(t);
    int fd, rc = dg_file_open(&fd, log, O_WRONLY | O_CREAT | O_APPEND, d);
    FILE *f;

    if (rc < 0)
        return rc;
    f = fdopen(fd, "a");
    if (f && !lock_log(f)) {
        fclose(f);
        return refuse_busy(t, log, d);
    }
    if (!f) {
        rc = dg_fail_os(d, errno, log, "file-write", "cannot write");
        close(fd);
        return rc;
    }
    dg_run_log_of(t->run)->file = f;
    remember_home(t);
    return 0;
}

/* Refuses a folder whose checkpoints are unreadable: another version may be able to read them, or a
 * repair. */
static int refuse_unreadable(dg_train *t, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, (dg_where){ .file = dg_path_join(t->arena, t->out, "checkpoints") },
            "resume-unreadable",
            "there are checkpoints, and none of them can be read: the lines above say why");
    dg_help(d, "--force drops them and begins anew, --out names another folder");
    return -DG_EINPUT;
}

/* new/../old, which is there once `new` is: "old" if there is no `new`. */
static const char *direct(dg_arena *a, const char *path)
{
    char *s = dg_strdup(a, path), *up = s;

    while ((up = strstr(up, "/.."))) {
        char *rest = up + strlen("/.."), *name = up, before = *up;

        while (name > s && name[-1] != '/')
            name--;
        *up = '\0';
        if ((*rest && *rest != '/') || name == up || dg_exists(s)) {
            *up++ = before;
            continue;
        }
        rest += *rest == '/';
        memmove(name, rest, strlen(rest) + 1);
        up = s;
    }
    return *s ? s : ".";
}

int dg_folder_open(dg_train *t, const char **resume, dg_diag *d)
{
    const dg_run_train_options *o = t->o;
    const dg_run_log *log;
    bool used;
    int rc = 0;

    *resume = NULL;
    t->out = o->out ? o->out : t->conf->present ? t->conf->to : NULL;
    if (t->out && !*t->out) /* its files would stand in the working folder, over those of others */
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "out-empty",
                       "the name of the run's folder is empty; . is the folder of the command");
    if (o->resume == DG_RUN_RESUME && o->resume_from)
        *resume = o->resume_from;
    if (!t->out && o->resume != DG_RUN_FRESH && !*resume)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "resume-without-out",
                       "--resume needs the run's folder: --out");
    if (!t->out) {
        dg_log_line(
            t->env, DG_WARN,
            "nothing will be saved: --out DIR names a folder for weights, metrics and pictures");
        return 0;
    }
    t->out = direct(t->arena, t->out);
    used = dg_exists(t->out) && !(dg_is_folder(t->out) && is_empty(t->out));
    if (used && o->resume == DG_RUN_FRESH && !o->force)
        return refuse_folder(t, d);
    /* before its checkpoints are looked at: a run that is ending saves its last one */
    if (used && dg_exists(log_of(t)))
        DG_TRY(open_log(t, d));
    if (o->resume != DG_RUN_FRESH && !*resume)
        *resume = dg_checkpoint_newest(t->arena, t->out, t->env);
    if (o->resume == DG_RUN_RESUME && !*resume) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "resume-none",
                "there is no whole checkpoint to resume from");
        dg_help(d, "--resume auto begins anew where there is none");
        return -DG_EINPUT;
    }
    if (*resume && !dg_checkpoint_is_one(*resume))
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = *resume }, "resume-folder",
                       "--resume takes a checkpoint's folder, such as OUT/checkpoints/last");
    if (o->resume == DG_RUN_RESUME_AUTO && !*resume && !o->force && dg_checkpoint_later(t->out, -1))
        return refuse_unreadable(t, d);
    t->replaces = used && !*resume;
    DG_TRY(dg_mkdirs(t->out, d));
    log = dg_run_log_of(t->run);
    if (!log->file)
        DG_TRY(open_log(t, d));
    if (!*resume && log->file && ftruncate(fileno(log->file), 0))
        return dg_fail_os(d, errno, log_of(t), "file-write", "cannot write");
    dg_checkpoint_sweep(t->out); /* the folder is locked now, and nothing is written yet */
    unlink(dg_path_join(t->arena, t->out, "flight/verdict.json")); /* of the run before */
out:
    return rc;
}

uint64_t dg_folder_digest(const dg_pipeline *p)
{
    dg_str all = { 0 };
    uint64_t digest;

    for (int i = 0; i < dg_map_n(p->graph->sources); i++) {
        size_t n;
        const char *text = dg_graph_source(p->graph, dg_map_key(p->graph->sources, i), &n);

        if (text)
            dg_str_add_n(&all, text, n);
        dg_str_add_n(&all, "", 1);
    }
    for (int i = 0; i < p->n_sets; i++) {
        dg_str_add(&all, p->sets[i]);
        dg_str_add_n(&all, "", 1);
    }
    digest = dg_fnv1a(all.s ? all.s : "", all.n);
    dg_str_free(&all);
    return digest;
}

/* Copies the pipeline's file, with the command line's settings in a comment at its end; parts
 * that it includes come along, so that the copy can be run. */
static int copy_pipeline(dg_train *t, dg_diag *d)
{
    const dg_pipeline *pipeline = dg_run_pipeline(t->run);
    const dg_graph *g = pipeline->graph;
    const char *home = dg_path_folder(t->arena, g->file);
    int rc = 0;

    for (int i = 0; rc == 0 && i < dg_map_n(g->sources); i++) {
        const char *name = dg_map_key(g->sources, i), *to = NULL;
        const char *part = dg_part_place(t->arena, home, name);
        size_t n;
        const char *text = dg_graph_source(pipeline->graph, name, &n);
        dg_str out = { 0 };

        if (!text)
            continue;
        dg_str_add_n(&out, text, n);
        if (strcmp(name, g->file) == 0) {
            to = dg_path_join(t->arena, t->out, "pipeline.xml");
            for (int k = 0; k < pipeline->n_sets; k++)
                if (!strstr(pipeline->sets[k], "--"))
                    dg_str_fmt(&out, "<!-- set %s -->\n", pipeline->sets[k]);
        } else if (part) {
            to = dg_path_join(t->arena, t->out, part);
            rc = dg_mkdirs(dg_path_folder(t->arena, to), d);
        }
        if (rc == 0 && to)
            rc = dg_file_write(to, out.s, out.n, d);
        dg_str_free(&out);
    }
    return rc;
}

int dg_folder_again(dg_train *t, dg_diag *d)
{
    dg_run_log *log = dg_run_log_of(t->run);
    FILE *before = log->file;
    int rc;

    if (dg_exists(t->out) && !is_same(t) && (!dg_is_folder(t->out) || !is_empty(t->out)))
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = t->out }, "out-replaced",
                       "something else is in its place now: move that away");
    DG_TRY(dg_mkdirs(t->out, d));
    if (before && !dg_folder_is_home(t)) {
        DG_TRY(dg_file_rescue(fileno(before), log_of(t), d));
        DG_TRY(open_log(t, d));
        fclose(before);
    }
    remember_home(t);
    DG_TRY(copy_pipeline(t, d));
out:
    return rc;
}

int dg_folder_begin(dg_train *t, dg_diag *d)
{
    int rc = 0;

    if (!t->out)
        return 0;
    if (t->replaces) /* only after data and memory were found sufficient */
        clear_folder(t);
    DG_TRY(dg_metrics_out_open(t, d));
    DG_TRY(copy_pipeline(t, d));
out:
    return rc;
}
