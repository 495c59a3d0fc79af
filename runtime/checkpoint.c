/* checkpoint.c: the state of a run on disk. A checkpoint becomes visible by a single rename of its
 * folder, after all of its files were fsynced, so that power cuts and full disks leave earlier ones
 * intact. */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/checkpoint_state.h"
#include "weights/weights.h"

enum {
    MODEL = DG_PART_MODEL,
    EMA = DG_PART_EMA,
    OPTIMIZER = DG_PART_OPTIMIZER,
    STATE = DG_N_PARTS
};
enum { N_FILES = STATE + 1 };
static const char *const parts[N_FILES] = { "model.safetensors", "ema.safetensors",
                                            "optimizer.safetensors", "state.json" };

/* ---- reading --------------------------------------------------------------------------------- */

/* Opens a part, whose bytes dg_archive_open compares with the part's own checksum, and compares
 * that with the state's: a whole file of another checkpoint is wrong, too. */
static int open_part(dg_archive **file, dg_arena *a, const char *folder, int part,
                     const dg_checkpoint_state *state, dg_diag *d)
{
    const char *path = dg_path_join(a, folder, parts[part]), *step;
    dg_where at = { .file = path };
    int rc = dg_archive_open(file, path, d);
    int64_t n;

    if (rc < 0)
        return rc;
    step = (*file)->meta ? dg_json_text((*file)->meta, "step") : "";
    if (state->has_sums && !(*file)->has_checksum)
        rc = dg_fail(d, DG_EINPUT, at, "checkpoint-damaged",
                     "it carries no checksum, and was written with one");
    else if (state->has_sums && (*file)->checksum != state->sum[part])
        rc = dg_fail(d, DG_EINPUT, at, "checkpoint-damaged",
                     "it is not the file that was written with this state.json: its checksum is "
                     "%016llx, and that of the state %016llx",
                     (unsigned long long)(*file)->checksum, (unsigned long long)state->sum[part]);
    else if (*step && (!dg_parse_i64(step, &n) || n != state->progress.step))
        rc = dg_fail(d, DG_EINPUT, at, "checkpoint-damaged",
                     "it was written after step %s, and state.json after step %lld", step,
                     (long long)state->progress.step);
    if (rc < 0)
        dg_archive_close(file);
    return rc;
}

static int read_part(dg_arena *a, const char *folder, int part, const dg_checkpoint_state *state,
                     dg_store *s, dg_space space, const char *prefix, dg_diag *d)
{
    dg_archive *file = NULL;
    int rc = open_part(&file, a, folder, part, state, d);

    if (rc == 0)
        rc = dg_weights_load(s, space, file, prefix, d);
    dg_archive_close(&file);
    return rc;
}

/* "step-000123" -> 123; -1 for other names. */
static int64_t step_of(const char *name)
{
    int64_t n;

    return strncmp(name, "step-", 5) == 0 && name[5] >= '0' && name[5] <= '9' &&
                   dg_parse_i64(name + 5, &n)
               ? n
               : -1;
}

static int by_step_down(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

/* Lists the steps of all checkpoints of a run, newest first. */
static int list_steps(dg_arena *a, const char *checkpoints, int64_t **steps)
{
    DG_VEC(int64_t) found = { 0 };
    DIR *dir = opendir(checkpoints);

    for (struct dirent *e; dir && (e = readdir(dir));)
        if (step_of(e->d_name) >= 0)
            DG_PUSH(a, found, step_of(e->d_name));
    if (dir)
        closedir(dir);
    if (found.n)
        qsort(found.items, (size_t)found.n, sizeof *found.items, by_step_down);
    *steps = found.items;
    return found.n;
}

static char *folder_of(dg_arena *a, const char *checkpoints, int64_t step)
{
    return dg_printf(a, "%s/step-%06lld", checkpoints, (long long)step);
}

/* True if all its files exist and are as they were written. */
static bool is_whole(dg_arena *a, const char *folder, dg_diag *d)
{
    dg_checkpoint_state state;
    int64_t step = step_of(dg_path_name(folder));
    int rc = dg_checkpoint_state_read(&state, a, dg_path_join(a, folder, parts[STATE]), d);

    if (rc == 0 && step >= 0 && step != state.progress.step)
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "checkpoint-damaged",
                     "its state.json is of step %lld", (long long)state.progress.step);
    for (int i = MODEL; rc == 0 && i < STATE; i++) {
        dg_archive *file = NULL;

        if (i == EMA && !state.has_ema &&
            (state.has_sums || !dg_exists(dg_path_join(a, folder, parts[i]))))
            continue;
        rc = open_part(&file, a, folder, i, &state, d);
        dg_archive_close(&file);
    }
    return rc == 0;
}

const char *dg_checkpoint_newest(dg_arena *a, const char *out, const dg_env *env)
{
    const char *checkpoints = dg_path_join(a, out, "checkpoints"), *found = NULL;
    int64_t *steps;
    int n = list_steps(a, checkpoints, &steps);
    dg_diag *d = dg_diag_open();

    for (int i = 0; i < n && !found; i++) {
        const char *folder = folder_of(a, checkpoints, steps[i]);

        dg_diag_clear(d);
        if (is_whole(a, folder, d)) {
            found = folder;
            continue;
        }
        const dg_err *why = dg_diag_at(d, 0);

        dg_log_line(env, DG_WARN, "%s is passed over: %s: %s", folder,
                    why->at.file ? dg_path_name(why->at.file) : "", why->text);
    }
    dg_diag_close(&d);
    return found;
}

bool dg_checkpoint_is_one(const char *folder)
{
    dg_arena *a = dg_arena_open();
    char *real = realpath(folder, NULL);
    bool is = real && dg_is_folder(real) &&
              (step_of(dg_path_name(real)) >= 0 || dg_exists(dg_path_join(a, real, parts[STATE])));

    free(real);
    dg_arena_close(&a);
    return is;
}

/* Says which checkpoint beside a damaged one is whole: the newest before it. */
static void offer_earlier(dg_arena *a, const char *folder, dg_diag *d)
{
    char *real = realpath(folder, NULL);
    const char *beside = dg_path_folder(a, folder);
    int64_t *steps, own = real ? step_of(dg_path_name(real)) : -1;
    int n = own < 0 ? 0 : list_steps(a, beside, &steps);
    dg_diag *ignored = dg_diag_open();

    for (int i = 0; i < n; i++)
        if (steps[i] < own && is_whole(a, folder_of(a, beside, steps[i]), ignored)) {
            dg_help(d, "the checkpoint before it is whole: --resume=%s",
                    dg_shell(a, folder_of(a, beside, steps[i])));
            break;
        }
    dg_diag_close(&ignored);
    free(real);
}

int dg_checkpoint_read(const char *folder, dg_store *s, dg_progress *progress,
                       const dg_identity *identity, bool *same_pipeline, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const char *file = dg_path_join(a, folder, parts[STATE]);
    dg_checkpoint_state state;
    bool sound = false;
    int rc;

    DG_TRY(dg_checkpoint_state_read(&state, a, file, d));
    sound = true;
    DG_TRY(dg_checkpoint_state_compare(&state, identity, same_pipeline, d));
    /* all of it before any of it: a damaged part leaves the run's state as it was */
    sound = is_whole(a, folder, d);
    rc = sound ? 0 : -DG_EINPUT;
    if (rc < 0)
        goto out;
    if (!state.has_sums)
        dg_warn(d, (dg_where){ .file = file }, "checkpoint-unchecked",
                "an older version wrote this checkpoint without checksums: damage to it would not "
                "be noticed");
    DG_TRY(read_part(a, folder, MODEL, &state, s, DG_WEIGHTS, "", d));
    if (s->space[DG_EMA])
        DG_TRY(read_part(a, folder, EMA, &state, s, DG_EMA, "", d));
    DG_TRY(read_part(a, folder, OPTIMIZER, &state, s, DG_MOMENT1, "moment1.", d));
    DG_TRY(read_part(a, folder, OPTIMIZER, &state, s, DG_MOMENT2, "moment2.", d));
    *progress = state.progress;
    s->counter = progress->batch;
out:
    if (rc < 0 && !sound)
        offer_earlier(a, folder, d);
    dg_arena_close(&a);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_link(const char *path)
{
    char to[1];

    return readlink(path, to, sizeof to) >= 0;
}

/* Removes a checkpoint's folder with its files; of a link to one, the link alone. */
static void remove_folder(dg_arena *a, const char *folder)
{
    DIR *dir = NULL;

    if (is_link(folder))
        unlink(folder);
    else
        dir = opendir(folder);
    /* also left by crashes: model.safetensors.tmp-123 */
    for (struct dirent *e; dir && (e = readdir(dir));)
        for (int i = 0; i < N_FILES; i++)
            if (strncmp(e->d_name, parts[i], strlen(parts[i])) == 0)
                unlink(dg_path_join(a, folder, e->d_name));
    if (dir)
        closedir(dir);
    rmdir(folder);
}

int64_t dg_checkpoint_bytes(const dg_checkpoint_args *c)
{
    const dg_store *s = c->store;
    int64_t n = 0;

    for (int i = 0; i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        const int copies =
            1 + (s->space[DG_EMA] != NULL) + (p->kind == DG_TRAINABLE ? 2 : 0); /* moments */

        if (p->offset >= 0)
            n += dg_shape_elements(p->shape) * (int64_t)dg_dtype_size(s->base) * copies;
    }
    return n;
}

static int write_parts(dg_arena *a, const char *folder, const dg_checkpoint_args *c, dg_diag *d)
{
    char step[24];
    const char *const meta[] = { "format", "pt", "step", step, NULL };
    dg_str state = { 0 };
    uint64_t sum[DG_N_PARTS];
    const bool ema = c->store->space[DG_EMA] != NULL;
    int rc;

    snprintf(step, sizeof step, "%lld", (long long)c->progress->step);
    DG_TRY(dg_weights_save(c->store, DG_WEIGHTS, dg_path_join(a, folder, parts[MODEL]), meta,
                           &sum[MODEL], d));
    if (ema)
        DG_TRY(dg_weights_save(c->store, DG_EMA, dg_path_join(a, folder, parts[EMA]), meta,
                               &sum[EMA], d));
    DG_TRY(
        dg_moments_save(c->store, dg_path_join(a, folder, parts[OPTIMIZER]), &sum[OPTIMIZER], d));
    dg_checkpoint_state_text(&state, c->progress, c->identity, sum, ema);
    DG_TRY(dg_file_write(dg_path_join(a, folder, parts[STATE]), state.s, state.n, d));
out:
    dg_str_free(&state);
    return rc;
}

/* Links OUT/model.safetensors to the checkpoint's file, so that no byte is written twice; on file
 * systems without hard links, symbolically. */
static int publish(dg_arena *a, const dg_checkpoint_args *c, const char *folder, int part,
                   dg_diag *d)
{
    const char *from = dg_path_join(a, folder, parts[part]),
               *to = dg_path_join(a, c->out, parts[part]);
    const char *beside = dg_printf(a, "%s.tmp-%ld", to, (long)getpid());
    const char *relative = dg_printf(a, "checkpoints/%s/%s", dg_path_name(folder), parts[part]);

    unlink(beside);
    if (link(from, beside) && symlink(relative, beside))
        return dg_fail_os(d, errno, to, "checkpoint-write",
                          "cannot link the weights into the run's folder");
    return rename(beside, to) ? dg_fail_os(d, errno, to, "checkpoint-write",
                                           "cannot put the weights into the run's folder")
                              : 0;
}

static int point(dg_arena *a, const char *checkpoints, const char *name, int64_t step, dg_diag *d)
{
    const char *to = dg_path_join(a, checkpoints, name),
               *beside = dg_printf(a, "%s.tmp-%ld", to, (long)getpid());

    unlink(beside);
    if (symlink(dg_path_name(folder_of(a, checkpoints, step)), beside) || rename(beside, to))
        return dg_fail_os(d, errno, to, "checkpoint-write", "cannot point to the checkpoint");
    return 0;
}

/* Moves a checkpoint into place by one rename. If that step exists already (an evaluation after a
 * save, a resumed run), exchanges the two, so that there is always one. */
static int put_into_place(dg_arena *a, const char *beside, const char *folder, dg_diag *d)
{
    bool again = dg_is_folder(folder);
    int fd;

    if (renameat2(AT_FDCWD, beside, AT_FDCWD, folder, again ? RENAME_EXCHANGE : 0)) {
        remove_folder(a, folder); /* this file system cannot exchange */
        if (rename(beside, folder)) {
            int rc = dg_fail_os(d, errno, folder, "checkpoint-write",
                                "cannot put the checkpoint into its place");

            if (dg_exists(folder) && !dg_is_folder(folder))
                dg_help(d, "a file of that name is in the way");
            return rc;
        }
    }
    remove_folder(a, beside);
    fd = open(dg_path_folder(a, folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) { /* a power cut must not undo the rename */
        (void)fsync(fd);
        close(fd);
    }
    return 0;
}

static void prune(dg_arena *a, const char *checkpoints, const dg_checkpoint_args *c)
{
    int64_t *steps;
    int n = list_steps(a, checkpoints, &steps);
    int newer = 0; /* unreadable ones of an earlier run; not counted */

    while (newer < n && steps[newer] > c->progress->step)
        newer++;
    for (int i = newer + (c->keep > 1 ? (int)c->keep : 1); i < n; i++)
        if (!c->progress->has_best || steps[i] != c->progress->best_step)
            remove_folder(a, folder_of(a, checkpoints, steps[i]));
}

int dg_checkpoint_later(const char *out, int64_t step)
{
    dg_arena *a = dg_arena_open();
    int64_t *steps;
    int n = list_steps(a, dg_path_join(a, out, "checkpoints"), &steps), later = 0;

    while (later < n && steps[later] > step)
        later++;
    dg_arena_close(&a);
    return later;
}

void dg_checkpoint_drop(const char *out, int64_t step)
{
    dg_arena *a = dg_arena_open();
    const char *checkpoints = dg_path_join(a, out, "checkpoints");
    int64_t *steps;
    int n = list_steps(a, checkpoints, &steps);

    for (int i = 0; i < n && steps[i] > step; i++)
        remove_folder(a, folder_of(a, checkpoints, steps[i]));
    if (step < 0) {
        unlink(dg_path_join(a, checkpoints, "last"));
        unlink(dg_path_join(a, checkpoints, "best"));
        rmdir(checkpoints);
    }
    dg_arena_close(&a);
}

/* True for temporary names: "model.safetensors.tmp-4711". */
static bool is_unfinished(const char *name)
{
    const char *mark = strstr(name, ".tmp-");

    return mark && mark[5] && !mark[5 + strspn(mark + 5, "0123456789")];
}

static void sweep(dg_arena *a, const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t n = strlen(e->d_name);

        if (is_unfinished(e->d_name))
            unlink(dg_path_join(a, folder, e->d_name));
        else if (step_of(dg_strndup(a, e->d_name, n > 4 ? n - 4 : 0)) >= 0 &&
                 strcmp(e->d_name + n - 4, ".tmp") == 0)
            remove_folder(a, dg_path_join(a, folder, e->d_name));
    }
    if (dir)
        closedir(dir);
}

void dg_checkpoint_sweep(const char *out)
{
    dg_arena *a = dg_arena_open();
    DIR *dir = opendir(out);

    sweep(a, out);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        const char *folder = dg_path_join(a, out, e->d_name);

        /* of linked ones, a run writes into this one only */
        if (e->d_name[0] != '.' && dg_is_folder(folder) &&
            (!is_link(folder) || strcmp(e->d_name, "checkpoints") == 0))
            sweep(a, folder);
    }
    if (dir)
        closedir(dir);
    dg_arena_close(&a);
}

int dg_checkpoint_write(const dg_checkpoint_args *c, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    const char *checkpoints = dg_path_join(a, c->out, "checkpoints");
    const char *folder = folder_of(a, checkpoints, c->progress->step),
               *beside = dg_printf(a, "%s.tmp", folder);
    int rc;

    DG_TRY(dg_mkdir(checkpoints, d));
    remove_folder(a, beside);
    DG_TRY(dg_mkdir(beside, d));
    rc = write_parts(a, beside, c, d);
    if (rc < 0) {
        remove_folder(a, beside);
        goto out;
    }
    DG_TRY(put_into_place(a, beside, folder, d));
    DG_TRY(publish(a, c, folder, MODEL, d));
    if (c->store->space[DG_EMA])
        DG_TRY(publish(a, c, folder, EMA, d));
    DG_TRY(point(a, checkpoints, "last", c->progress->step, d));
    if (c->progress->has_best && dg_is_folder(folder_of(a, checkpoints, c->progress->best_step)))
        DG_TRY(point(a, checkpoints, "best", c->progress->best_step, d));
    prune(a, checkpoints, c);
out:
    dg_arena_close(&a);
    return rc;
}
