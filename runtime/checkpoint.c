/* checkpoint.c: the state of a run on disk. A checkpoint becomes visible by one rename of its folder, after every
 * file in it was fsynced, so a power cut or a full disk leaves the ones before it whole. */
#include "runtime/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "media/json.h"
#include "runtime/weights.h"

enum { FORMAT = 1 };
static const char *const parts[] = { "model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json" };
enum { MODEL, EMA, OPTIMIZER, STATE, N_PARTS };

/* ---- state.json ------------------------------------------------------------------------------------------ */

static void add_int(dg_str *s, const char *key, int64_t v)
{
    dg_str_fmt(s, "  \"%s\": %lld,\n", key, (long long)v);
}

static void add_real(dg_str *s, const char *key, double v)
{
    dg_str_fmt(s, "  \"%s\": ", key);
    dg_str_json_real(s, v);
    dg_str_add(s, ",\n");
}

static void add_text(dg_str *s, const char *key, const char *v)
{
    dg_str_fmt(s, "  \"%s\": ", key);
    dg_str_json(s, v);
    dg_str_add(s, ",\n");
}

static void add_hex(dg_str *s, const char *key, uint64_t v) /* a JSON number would lose bits above 2^53 */
{
    dg_str_fmt(s, "  \"%s\": \"%016llx\",\n", key, (unsigned long long)v);
}

static void state_text(dg_str *s, const dg_progress *p, const dg_identity *i)
{
    dg_str_add(s, "{\n");
    add_int(s, "step", p->step);
    add_int(s, "batch", p->batch);
    add_int(s, "epoch", p->epoch);
    add_int(s, "index", p->index);
    add_int(s, "sample", p->sample);
    add_real(s, "minutes", p->minutes);
    if (p->lr > 0)
        add_real(s, "lr", p->lr);
    if (p->has_best) {
        add_real(s, "best", p->best);
        add_int(s, "best_step", p->best_step);
        add_int(s, "best_epoch", p->best_epoch);
        add_real(s, "best_minutes", p->best_minutes);
    }
    add_hex(s, "seed", i->seed);
    add_hex(s, "pipeline", i->pipeline);
    add_hex(s, "data", i->data);
    add_int(s, "batch_size", i->batch);
    add_int(s, "accumulate", i->accumulate);
    add_int(s, "batches_per_epoch", i->per_epoch);
    add_text(s, "precision", i->precision);
    add_int(s, "threads", i->threads);
    add_int(s, "ranks", i->ranks);
    add_text(s, "cpu", i->cpu);
    add_text(s, "versions", i->versions);
    add_int(s, "evaluated", p->evaluated);
    dg_str_fmt(s, "  \"format\": %d\n}\n", FORMAT);
}

static int need_int(const dg_json *o, const char *key, int64_t *out, dg_diag *d)
{
    const dg_json *v;
    int            rc = dg_json_need(&v, o, key, DG_JSON_NUMBER, d);

    if (rc < 0)
        return rc;
    if (!(v->number >= 0 && v->number <= 0x1p53))
        return dg_fail(d, DG_EINPUT, v->at, "checkpoint-state", "%s is %g; a count is expected", key, v->number);
    *out = (int64_t)v->number;
    return 0;
}

static int need_hex(const dg_json *o, const char *key, uint64_t *out, dg_diag *d)
{
    const dg_json *v;
    char          *end;
    int            rc = dg_json_need(&v, o, key, DG_JSON_STRING, d);

    if (rc < 0)
        return rc;
    *out = strtoull(v->text, &end, 16);
    return *end || end == v->text
               ? dg_fail(d, DG_EINPUT, v->at, "checkpoint-state", "%s is \"%s\"; a hexadecimal number is expected", key, v->text)
               : 0;
}

static double real_or(const dg_json *o, const char *key, double other)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_NUMBER ? v->number : other;
}

static int read_progress(const dg_json *o, dg_progress *p, dg_diag *d)
{
    int64_t format;
    int     rc;

    DG_TRY(need_int(o, "format", &format, d));
    if (format != FORMAT)
        return dg_fail(d, DG_EUNSUPPORTED, o->at, "checkpoint-format",
                       "checkpoint format %lld; this version of detrgraph reads format %d", (long long)format, FORMAT);
    DG_TRY(need_int(o, "step", &p->step, d));
    DG_TRY(need_int(o, "batch", &p->batch, d));
    DG_TRY(need_int(o, "epoch", &p->epoch, d));
    DG_TRY(need_int(o, "index", &p->index, d));
    DG_TRY(need_int(o, "sample", &p->sample, d));
    p->minutes = real_or(o, "minutes", 0);
    p->lr = fmax(0, real_or(o, "lr", 0));
    p->evaluated = (int64_t)fmax(-1, fmin(real_or(o, "evaluated", -1), (double)p->step));
    p->has_best = dg_json_get(o, "best") && dg_json_get(o, "best")->kind == DG_JSON_NUMBER;
    if (p->has_best) {
        p->best = real_or(o, "best", 0);
        DG_TRY(need_int(o, "best_step", &p->best_step, d));
        DG_TRY(need_int(o, "best_epoch", &p->best_epoch, d));
        p->best_minutes = real_or(o, "best_minutes", 0);
    }
out:
    return rc;
}

/* ---- does it continue the same run? ------------------------------------------------------------------------ */

static const char anew[] =
    "begin a new run, with pretrained= where its weights are wanted, or restore what it was made with";

static int differs(const dg_json *o, const char *key, int64_t now, const char *what, dg_diag *d)
{
    int64_t then = 0;
    int     rc = need_int(o, key, &then, d);

    if (rc < 0 || then == now)
        return rc;
    dg_fail(d, DG_EINPUT, o->at, "resume-differs",
            "%s was %lld when the checkpoint was written and is %lld now: its place in the epoch means nothing any more",
            what, (long long)then, (long long)now);
    dg_help(d, "%s", anew);
    return -DG_EINPUT;
}

static void warn_text(const dg_json *o, const char *key, const char *now, const char *what, dg_diag *d)
{
    const dg_json *v = dg_json_get(o, key);

    if (v && v->kind == DG_JSON_STRING && strcmp(v->text, now) != 0)
        dg_warn(d, o->at, "resume-rounding",
                "%s was \"%s\" and is \"%s\" now: the run continues, but not bit for bit as if it had never stopped", what,
                v->text, now);
}

static void warn_number(const dg_json *o, const char *key, double other, int now, dg_diag *d)
{
    if (real_or(o, key, other) != now)
        dg_warn(d, o->at, "resume-rounding",
                "the number of %s was %.0f and is %d now: the run continues, but not bit for bit as if it had never stopped", key,
                real_or(o, key, other), now);
}

static int check_identity(const dg_json *o, const dg_identity *now, dg_diag *d)
{
    uint64_t seed, pipeline, data;
    int      rc;

    DG_TRY(need_hex(o, "seed", &seed, d));
    DG_TRY(need_hex(o, "pipeline", &pipeline, d));
    DG_TRY(need_hex(o, "data", &data, d));
    if (seed != now->seed) {
        dg_fail(d, DG_EINPUT, o->at, "resume-seed", "the checkpoint's seed is %llu, this run's %llu",
                (unsigned long long)seed, (unsigned long long)now->seed);
        dg_help(d, "--seed %llu continues it", (unsigned long long)seed);
        return -DG_EINPUT;
    }
    if (data != now->data) {
        dg_fail(d, DG_EINPUT, o->at, "resume-data",
                "the training data are not those of the checkpoint (digest %016llx, now %016llx)",
                (unsigned long long)data, (unsigned long long)now->data);
        dg_help(d, "%s", anew);
        return -DG_EINPUT;
    }
    DG_TRY(differs(o, "batch_size", now->batch, "the batch size", d));
    DG_TRY(differs(o, "accumulate", now->accumulate, "accumulate", d));
    DG_TRY(differs(o, "batches_per_epoch", now->per_epoch, "the number of batches of an epoch", d));
    if (now->by_ranks)
        DG_TRY(differs(o, "ranks", now->ranks, "the number of ranks, each of which plans for itself,", d));
    if (pipeline != now->pipeline)
        dg_warn(d, o->at, "resume-pipeline",
                "the pipeline was changed since the checkpoint was written: from here on the new one holds");
    warn_text(o, "precision", now->precision, "the precision", d);
    warn_text(o, "cpu", now->cpu, "the CPU", d);
    warn_text(o, "versions", now->versions, "the software", d);
    warn_number(o, "threads", 0, now->threads, d);
    warn_number(o, "ranks", 1, now->ranks, d);
out:
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------------------- */

static int read_part(dg_arena *a, const char *folder, int part, dg_store *s, dg_space space, const char *prefix, dg_diag *d)
{
    dg_archive *file;
    int         rc = dg_archive_open(&file, dg_path_join(a, folder, parts[part]), d);

    if (rc == 0)
        rc = dg_weights_load(s, space, file, prefix, d);
    dg_archive_close(&file);
    return rc;
}

int dg_checkpoint_read(const char *folder, dg_store *s, dg_progress *progress, const dg_identity *identity, dg_diag *d)
{
    dg_arena      *a = dg_arena_open();
    const dg_json *state;
    int            rc;

    DG_TRY(dg_json_read(&state, a, dg_path_join(a, folder, parts[STATE]), d));
    DG_TRY(read_progress(state, progress, d));
    DG_TRY(check_identity(state, identity, d));
    DG_TRY(read_part(a, folder, MODEL, s, DG_WEIGHTS, "", d));
    if (s->space[DG_EMA])
        DG_TRY(read_part(a, folder, EMA, s, DG_EMA, "", d));
    DG_TRY(read_part(a, folder, OPTIMIZER, s, DG_MOMENT1, "moment1.", d));
    DG_TRY(read_part(a, folder, OPTIMIZER, s, DG_MOMENT2, "moment2.", d));
    s->counter = progress->batch;
out:
    dg_arena_close(&a);
    return rc;
}

/* "step-000123" -> 123; -1 for any other name. */
static int64_t step_of(const char *name)
{
    int64_t n;

    return strncmp(name, "step-", 5) == 0 && name[5] >= '0' && name[5] <= '9' && dg_parse_i64(name + 5, &n) ? n : -1;
}

static int by_step_down(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x < y) - (x > y);
}

/* Steps of all checkpoints of a run, the newest first. */
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

/* Are its files there and sound in form? */
static bool complete(dg_arena *a, const char *folder, dg_diag *d)
{
    const dg_json *state;
    dg_progress    p;

    if (dg_json_read(&state, a, dg_path_join(a, folder, parts[STATE]), d) < 0 || read_progress(state, &p, d) < 0)
        return false;
    for (int i = MODEL; i < STATE; i++) {
        const char *path = dg_path_join(a, folder, parts[i]);
        dg_archive *file = NULL;
        int         rc = i == EMA && !dg_exists(path) ? 0 : dg_archive_open(&file, path, d);

        dg_archive_close(&file);
        if (rc < 0)
            return false;
    }
    return true;
}

const char *dg_checkpoint_newest(dg_arena *a, const char *out, const dg_env *env)
{
    const char *checkpoints = dg_path_join(a, out, "checkpoints"), *found = NULL;
    int64_t    *steps;
    int         n = list_steps(a, checkpoints, &steps);
    dg_diag    *d = dg_diag_open();

    for (int i = 0; i < n && !found; i++) {
        const char *folder = folder_of(a, checkpoints, steps[i]);

        dg_diag_clear(d);
        if (complete(a, folder, d))
            found = folder;
        else
            dg_log_line(env, DG_WARN, "%s is passed over: %s", folder, dg_diag_at(d, 0)->text);
    }
    dg_diag_close(&d);
    return found;
}

/* ---- writing --------------------------------------------------------------------------------------------- */

static int os_failed(dg_diag *d, const char *path, const char *what)
{
    char  buf[128];
    char *reason = strerror_r(errno, buf, sizeof buf);

    return dg_fail(d, DG_EIO, (dg_where){ .file = path }, "checkpoint-write", "%s: %s", what, reason);
}

/* Removes a checkpoint's folder with the files that it may hold. */
static void remove_folder(dg_arena *a, const char *folder)
{
    DIR *dir = opendir(folder);

    for (struct dirent *e; dir && (e = readdir(dir));)
        for (int i = 0; i < N_PARTS; i++)
            if (strncmp(e->d_name, parts[i], strlen(parts[i])) == 0) /* also what a crash left: model.safetensors.tmp-123 */
                unlink(dg_path_join(a, folder, e->d_name));
    if (dir)
        closedir(dir);
    rmdir(folder);
}

static int write_parts(dg_arena *a, const char *folder, const dg_checkpoint_args *c, dg_diag *d)
{
    char              step[24];
    const char *const meta[] = { "format", "pt", "step", step, NULL };
    dg_str            state = { 0 };
    int               rc;

    snprintf(step, sizeof step, "%lld", (long long)c->progress->step);
    DG_TRY(dg_weights_save(c->store, DG_WEIGHTS, dg_path_join(a, folder, parts[MODEL]), meta, d));
    if (c->store->space[DG_EMA])
        DG_TRY(dg_weights_save(c->store, DG_EMA, dg_path_join(a, folder, parts[EMA]), meta, d));
    DG_TRY(dg_moments_save(c->store, dg_path_join(a, folder, parts[OPTIMIZER]), d));
    state_text(&state, c->progress, c->identity);
    DG_TRY(dg_file_write(dg_path_join(a, folder, parts[STATE]), state.s, state.n, d));
out:
    dg_str_free(&state);
    return rc;
}

/* OUT/model.safetensors becomes another name of the checkpoint's file: no byte is written twice. File systems
 * without such links get a symbolic one. */
static int publish(dg_arena *a, const dg_checkpoint_args *c, const char *folder, int part, dg_diag *d)
{
    const char *from = dg_path_join(a, folder, parts[part]), *to = dg_path_join(a, c->out, parts[part]);
    const char *beside = dg_printf(a, "%s.tmp-%ld", to, (long)getpid());
    const char *relative = dg_printf(a, "checkpoints/%s/%s", dg_path_name(folder), parts[part]);

    unlink(beside);
    if (link(from, beside) && symlink(relative, beside))
        return os_failed(d, to, "cannot link the weights into the run's folder");
    return rename(beside, to) ? os_failed(d, to, "cannot put the weights into the run's folder") : 0;
}

static int point(dg_arena *a, const char *checkpoints, const char *name, int64_t step, dg_diag *d)
{
    const char *to = dg_path_join(a, checkpoints, name), *beside = dg_printf(a, "%s.tmp-%ld", to, (long)getpid());

    unlink(beside);
    if (symlink(dg_path_name(folder_of(a, checkpoints, step)), beside) || rename(beside, to))
        return os_failed(d, to, "cannot point to the checkpoint");
    return 0;
}

/* One rename; where the same step was saved before (an evaluation after a save, a run that was resumed), one
 * exchange, so that there is no moment without it. */
static int put_into_place(dg_arena *a, const char *beside, const char *folder, dg_diag *d)
{
    bool again = dg_is_folder(folder);
    int  fd;

    if (renameat2(AT_FDCWD, beside, AT_FDCWD, folder, again ? RENAME_EXCHANGE : 0)) {
        remove_folder(a, folder); /* this file system cannot exchange */
        if (rename(beside, folder))
            return os_failed(d, folder, "cannot put the checkpoint into its place");
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
    int      n = list_steps(a, checkpoints, &steps);
    int      newer = 0; /* what a run left behind that could not be read: no part of this count */

    while (newer < n && steps[newer] > c->progress->step)
        newer++;
    for (int i = newer + (c->keep > 1 ? (int)c->keep : 1); i < n; i++)
        if (!c->progress->has_best || steps[i] != c->progress->best_step)
            remove_folder(a, folder_of(a, checkpoints, steps[i]));
}

int dg_checkpoint_later(const char *out, int64_t step)
{
    dg_arena *a = dg_arena_open();
    int64_t  *steps;
    int       n = list_steps(a, dg_path_join(a, out, "checkpoints"), &steps), later = 0;

    while (later < n && steps[later] > step)
        later++;
    dg_arena_close(&a);
    return later;
}

void dg_checkpoint_drop(const char *out, int64_t step)
{
    dg_arena   *a = dg_arena_open();
    const char *checkpoints = dg_path_join(a, out, "checkpoints");
    int64_t    *steps;
    int         n = list_steps(a, checkpoints, &steps);

    for (int i = 0; i < n && steps[i] > step; i++)
        remove_folder(a, folder_of(a, checkpoints, steps[i]));
    if (step < 0) {
        unlink(dg_path_join(a, checkpoints, "last"));
        unlink(dg_path_join(a, checkpoints, "best"));
        rmdir(checkpoints);
    }
    dg_arena_close(&a);
}

/* "model.safetensors.tmp-4711", as writers call what will be renamed. */
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
        else if (step_of(dg_strndup(a, e->d_name, n > 4 ? n - 4 : 0)) >= 0 && strcmp(e->d_name + n - 4, ".tmp") == 0)
            remove_folder(a, dg_path_join(a, folder, e->d_name));
    }
    if (dir)
        closedir(dir);
}

void dg_checkpoint_sweep(const char *out)
{
    dg_arena *a = dg_arena_open();

    sweep(a, out);
    sweep(a, dg_path_join(a, out, "checkpoints"));
    dg_arena_close(&a);
}

int dg_checkpoint_write(const dg_checkpoint_args *c, dg_diag *d)
{
    dg_arena   *a = dg_arena_open();
    const char *checkpoints = dg_path_join(a, c->out, "checkpoints");
    const char *folder = folder_of(a, checkpoints, c->progress->step), *beside = dg_printf(a, "%s.tmp", folder);
    int         rc;

    DG_TRY(dg_mkdirs(checkpoints, d));
    remove_folder(a, beside);
    DG_TRY(dg_mkdirs(beside, d));
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
