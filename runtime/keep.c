/* keep.c: checkpoints, and what becomes of a run whose disk is full or whose folder is gone: it
 * says so at once, keeps what it has, goes on, and tries again. Only rank 0 writes; all ranks learn
 * whether it could, so that all know which steps are saved: after the save, or, where the run goes
 * on meanwhile, before the next one. */
#include "runtime/train.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "runtime/control_hooks.h"
#include "runtime/data_report.h"
#include "runtime/metrics_out.h"
#include "runtime/replicas.h"
#include "runtime/run_json.h"

/* ---- room ------------------------------------------------------------------------------------ */

static dg_checkpoint_args checkpoint_of(const dg_train *t)
{
    return (dg_checkpoint_args){
        .out = t->out,
        .store = t->programs->store,
        .progress = t->progress,
        .identity = &t->identity,
        .keep = t->conf->present && t->conf->keep > 0 ? t->conf->keep : 1,
    };
}

/* Bytes that a user may write where the run's folder is; negative: not known. */
static double free_bytes(const dg_train *t)
{
    struct statvfs v;

    return statvfs(t->out, &v) == 0 ? (double)v.f_bavail * (double)v.f_frsize : -1;
}

/* "a checkpoint takes 132 MB, and 40 MB are free: 92 MB are missing" */
static void add_room(dg_str *s, const dg_train *t)
{
    const dg_checkpoint_args args = checkpoint_of(t);
    double takes = (double)dg_checkpoint_bytes(&args), has = free_bytes(t);
    struct rlimit file;
    char a[32], b[32];

    dg_str_fmt(s, "a checkpoint takes %s", dg_human_bytes(takes, a, sizeof a));
    if (has >= 0)
        dg_str_fmt(s, ", and %s are free", dg_human_bytes(has, b, sizeof b));
    if (has >= 0 && has < takes)
        dg_str_fmt(s, ": %s are missing", dg_human_bytes(takes - has, a, sizeof a));
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur != RLIM_INFINITY &&
        (double)file.rlim_cur < takes)
        dg_str_fmt(s, ", and a file may have %s (ulimit -f)",
                   dg_human_bytes((double)file.rlim_cur, a, sizeof a));
}

void dg_keep_room(const dg_train *t)
{
    const dg_checkpoint_args args = checkpoint_of(t);
    dg_str s = { 0 };
    double has = t->out ? free_bytes(t) : -1;

    if (has < 0 || has >= (double)dg_checkpoint_bytes(&args))
        return;
    add_room(&s, t);
    dg_log_line(t->env, DG_WARN, "%s: no room to save: %s; the run goes on and tries at each save",
                t->out, s.s);
    dg_str_free(&s);
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* Says what was not saved, and what stays. */
static void warn_unsaved(const dg_train *t, int64_t step, const dg_diag *why)
{
    const dg_err *e = dg_diag_at(why, 0);
    dg_str s = { 0 };

    dg_str_fmt(&s, "step %lld is not saved: %s%s%s; ", (long long)step,
               e->at.file ? e->at.file : "", e->at.file ? ": " : "", e->text);
    add_room(&s, t);
    if (t->kept_step >= 0)
        dg_str_fmt(&s, "; the checkpoint of step %lld stays", (long long)t->kept_step);
    dg_log_line(t->env, DG_WARN, "%s; the run goes on, and the next save tries again", s.s);
    dg_str_free(&s);
}

/* Adds to the error of the last save what can be done about it. */
static void help_unsaved(const dg_train *t, dg_diag *d)
{
    dg_str s = { 0 };

    add_room(&s, t);
    if (t->kept_step >= 0)
        dg_help(d,
                "%s; --resume with --out %s continues after step %lld, whose checkpoint is whole",
                s.s, dg_shell(t->arena, t->out), (long long)t->kept_step);
    else
        dg_help(d, "%s; nothing of this run is saved", s.s);
    dg_str_free(&s);
}

static int write_checkpoint(dg_train *t, bool last, dg_diag *d)
{
    const dg_checkpoint_args args = checkpoint_of(t);
    dg_diag *own = dg_diag_open();
    int rc = t->homeless ? dg_fail(own, DG_EIO, (dg_where){ .file = t->out }, "folder-gone",
                                   "the run's folder is gone, and could not be made again")
                         : dg_checkpoint_write(&args, own);

    if (rc == 0) {
        t->kept_step = t->progress->step;
        dg_control_hooks_saved(t->world->link, t->kept_step);
    } else if (last) {
        dg_diag_merge(d, own);
        help_unsaved(t, d);
    } else {
        warn_unsaved(t, t->progress->step, own);
    }
    dg_diag_close(&own);
    return rc;
}

/* ---- beside the run -------------------------------------------------------------------------- */

/* Begins to save, or saves. */
static void begin_checkpoint(dg_train *t)
{
    const dg_checkpoint_args args = checkpoint_of(t);
    dg_diag *own = dg_diag_open();

    if (!t->saver && !t->homeless)
        t->saver = dg_saver_open(t->programs->store);
    if (!t->saver || t->homeless)
        t->unsaved = write_checkpoint(t, false, own) < 0;
    else if ((t->unsaved = dg_saver_begin(t->saver, &args, own) < 0))
        warn_unsaved(t, args.progress->step, own);
    else
        dg_control_hooks_saving(t->world->link, args.progress->step);
    dg_diag_close(&own);
}

/* What has become of the save beside the run, if it has ended or is waited for. */
static void end_checkpoint(dg_train *t, bool wait)
{
    const int64_t step = dg_saver_step(t->saver);
    dg_diag *own;

    if (step < 0 || !(dg_saver_ready(t->saver) || wait))
        return;
    own = dg_diag_open();
    t->unsaved = dg_saver_finish(t->saver, own) < 0;
    dg_control_hooks_saving(t->world->link, 0);
    if (t->unsaved) {
        warn_unsaved(t, step, own);
    } else {
        t->kept_step = step;
        dg_control_hooks_saved(t->world->link, step);
    }
    dg_diag_close(&own);
}

/* All ranks learn whether the latest save beside the run could be written. */
static int agree_on_saved(dg_train *t, dg_diag *d)
{
    bool failed;
    int rc = 0;

    if (!t->saves_beside)
        return 0;
    t->saves_beside = false;
    end_checkpoint(t, true);
    DG_TRY(dg_world_any(t->world, t->unsaved, &failed, "saved a checkpoint", d));
    if (failed)
        t->saved_step = -1;
out:
    return rc;
}

void dg_keep_close(dg_train *t)
{
    end_checkpoint(t, true);
    dg_saver_close(&t->saver);
}

/* ---- saving ---------------------------------------------------------------------------------- */

typedef enum way {
    BESIDE, /* the run goes on meanwhile, where the device lets it */
    NOW,
    LAST /* and failure is an error */
} way;

static int save(dg_train *t, way how, dg_diag *d)
{
    const bool last = how == LAST, beside = how == BESIDE && !t->programs->conf.backend->immediate;
    bool failed;
    int rc, wrote = 0;

    DG_TRY(agree_on_saved(t, d));
    if (t->saved_step == t->progress->step)
        return 0;
    DG_TRY(dg_train_tick(t, d));
    DG_TRY(dg_replicas_compare(t->world, t->programs->store,
                               dg_printf(t->arena, "after step %lld", (long long)t->progress->step),
                               d));
    dg_control_hooks_at(t->world->link, &t->conf->where, "checkpoint");
    t->saved_minutes = t->progress->minutes;
    if (beside) {
        t->unsaved = false;
        if (t->out)
            begin_checkpoint(t);
        t->saves_beside = true;
        t->saved_step = t->progress->step;
        return 0;
    }
    if (t->out)
        wrote = write_checkpoint(t, last, d);
    if (last && wrote < 0)
        return wrote;
    DG_TRY(dg_world_any(t->world, wrote < 0, &failed, "saved a checkpoint", d));
    if (!failed)
        t->saved_step = t->progress->step;
out:
    return rc;
}

int dg_keep_save(dg_train *t, dg_diag *d)
{
    return save(t, BESIDE, d);
}

int dg_keep_save_now(dg_train *t, dg_diag *d)
{
    return save(t, NOW, d);
}

int dg_keep_save_last(dg_train *t, dg_diag *d)
{
    int rc = save(t, LAST, d), numbers = dg_metrics_out_finish(t, rc < 0 ? NULL : d);

    return rc < 0 ? rc : numbers;
}

/* Other ranks wait inside their step and cannot help to save. */
int dg_keep_trained(dg_train *t, int64_t batch, int rc, dg_diag *d)
{
    const dg_progress *p = t->progress;

    if (!t->no_data || !t->out || t->world->ranks > 1 || p->batch != batch ||
        p->step == t->first_step || agree_on_saved(t, d) < 0 || t->saved_step == p->step)
        return rc;
    if (dg_keep_save_now(t, d) == 0 && t->saved_step == p->step)
        dg_help(d, "what was trained up to step %lld is saved: --resume with --out %s continues",
                (long long)p->step, dg_shell(t->arena, t->out));
    return rc;
}

/* ---- the folder ------------------------------------------------------------------------------ */

void dg_keep_data(const dg_train *t)
{
    dg_diag *d = dg_diag_open();

    if (t->out && dg_data_report_write(dg_path_join(t->arena, t->out, "data.json"),
                                       dg_run_data_sets(t->run), t->world->ranks, d) < 0)
        dg_log_line(t->env, DG_WARN, "no data report: %s", dg_diag_at(d, 0)->text);
    dg_diag_close(&d);
}

void dg_keep_pictures(dg_train *t)
{
    const char *path = dg_path_join(t->arena, t->out, "first-batches.jpg");
    dg_diag *d = dg_diag_open();

    if (dg_pictures_write(t->first_pictures, path, d) < 0)
        dg_log_line(t->env, DG_WARN, "no pictures of the first batches: %s: %s", path,
                    dg_diag_at(d, 0)->text);
    dg_pictures_close(&t->first_pictures);
    dg_diag_close(&d);
}

static int restore(dg_train *t, dg_diag *d)
{
    int rc;

    end_checkpoint(t, true);
    t->kept_step = -1;
    DG_TRY(dg_folder_again(t, d));
    DG_TRY(dg_metrics_out_again(t, d));
    t->homeless = false;
    dg_run_json_write(t, "running", "");
    dg_keep_data(t);
    (void)write_checkpoint(t, false, d); /* reported */
out:
    return rc;
}

/* The folder is there, and metrics.jsonl was deleted in it: nothing else is touched. */
static void restore_numbers(dg_train *t)
{
    dg_diag *own = dg_diag_open();
    const char *path = dg_path_join(t->arena, t->out, "metrics.jsonl");
    bool gone = dg_metrics_jsonl_again(t->jsonl, own) < 0;

    if (!gone)
        dg_log_line(t->env, DG_WARN, "%s was deleted: it is written again, with the numbers so far",
                    path);
    else if (!t->numbers_gone)
        dg_log_line(t->env, DG_WARN,
                    "%s was deleted, and cannot be written again: %s [%s]; the run goes on, and "
                    "tries again",
                    path, dg_diag_at(own, 0)->text, dg_diag_at(own, 0)->id);
    t->numbers_gone = gone;
    dg_diag_close(&own);
}

void dg_keep_folder(dg_train *t)
{
    dg_diag *own;
    int rc;

    if (!t->out)
        return;
    end_checkpoint(t, false);
    if (dg_folder_is_home(t)) {
        t->homeless = false; /* it may have been moved back */
        if (dg_metrics_jsonl_is_gone(t->jsonl))
            restore_numbers(t);
        return;
    }
    own = dg_diag_open();
    if (!t->homeless)
        dg_log_line(t->env, DG_WARN,
                    "%s: the run's folder was deleted, moved or emptied: the run makes it again, "
                    "with the log and the numbers so far; earlier checkpoints are not in it",
                    t->out);
    rc = restore(t, own);
    if (rc < 0 && !t->homeless && dg_diag_n(own))
        dg_log_line(t->env, DG_WARN, "%s: %s [%s]; the run goes on, and tries again",
                    dg_diag_at(own, 0)->at.file ? dg_diag_at(own, 0)->at.file : t->out,
                    dg_diag_at(own, 0)->text, dg_diag_at(own, 0)->id);
    t->homeless = rc < 0;
    dg_diag_close(&own);
}
