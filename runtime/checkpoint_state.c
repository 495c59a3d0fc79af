/* checkpoint_state.c: writes and reads state.json, and holds it against itself and the run. */
#include "runtime/checkpoint_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include <detrgraph/kernel.h>

/* Formats before FORMAT have no checksums. A flipped bit does not make one of the other. */
enum { WITHOUT_SUMS = 1, FORMAT = 2, STATE_MAX = 1 << 20 };
static const double MOST_MINUTES = 1e9;
static const char own_key[] = "  \"checksum\": \"";
static const char *const sum_keys[DG_N_PARTS] = { "model", "ema", "optimizer" };

/* ---- state.json ------------------------------------------------------------------------------ */

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

/* a JSON number would lose bits above 2^53 */
static void add_hex(dg_str *s, const char *key, uint64_t v)
{
    dg_str_fmt(s, "  \"%s\": \"%016llx\",\n", key, (unsigned long long)v);
}

void dg_checkpoint_state_text(dg_str *s, const dg_progress *p, const dg_identity *i,
                              const uint64_t sum[DG_N_PARTS], bool ema)
{
    size_t begin = s->n;

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
    for (int k = 0; k < DG_N_PARTS; k++)
        if (k != DG_PART_EMA || ema)
            add_hex(s, sum_keys[k], sum[k]);
    add_int(s, "format", FORMAT);
    dg_str_fmt(s, "%s%016llx\"\n}\n", own_key,
               (unsigned long long)dg_fnv1a(s->s + begin, s->n - begin));
}

static int need_number(const dg_json *o, const char *key, double least, double most, bool whole,
                       double *out, dg_diag *d)
{
    const dg_json *v;
    int rc = dg_json_need(&v, o, key, DG_JSON_NUMBER, d);

    if (rc < 0)
        return rc;
    *out = v->number;
    if (v->number >= least && v->number <= most && (!whole || v->number == floor(v->number)))
        return 0;
    if (whole)
        return dg_fail(d, DG_EINPUT, v->at, "checkpoint-state", "%s is %g; a count is expected",
                       key, v->number);
    return dg_fail(d, DG_EINPUT, v->at, "checkpoint-state",
                   "%s is %g; a number from %g to %g is expected", key, v->number, least, most);
}

static int need_int(const dg_json *o, const char *key, int64_t *out, dg_diag *d)
{
    double v = 0;
    int rc = need_number(o, key, 0, 0x1p53, true, &v, d);

    *out = rc < 0 ? 0 : (int64_t)v;
    return rc;
}

static int need_hex(const dg_json *o, const char *key, uint64_t *out, dg_diag *d)
{
    const dg_json *v;
    int rc = dg_json_need(&v, o, key, DG_JSON_STRING, d);

    if (rc < 0)
        return rc;
    if (strlen(v->text) != 16 || v->text[strspn(v->text, "0123456789abcdef")])
        return dg_fail(d, DG_EINPUT, v->at, "checkpoint-state",
                       "%s is \"%s\"; 16 hexadecimal digits are expected", key, v->text);
    *out = strtoull(v->text, NULL, 16);
    return 0;
}

static double real_or(const dg_json *o, const char *key, double other)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_NUMBER ? v->number : other;
}

static int differ(const dg_json *o, dg_diag *d, const char *fmt, ...) DG_PRINTF(3, 4);
static int differ(const dg_json *o, dg_diag *d, const char *fmt, ...)
{
    dg_str s = { 0 };
    va_list ap;

    va_start(ap, fmt);
    dg_str_vfmt(&s, fmt, ap);
    va_end(ap);
    dg_fail(d, DG_EINPUT, o->at, "checkpoint-state", "it contradicts itself: %s", s.s);
    dg_str_free(&s);
    return -DG_EINPUT;
}

/* Counts that belong together: every batch has as many samples, and every step as many batches. */
static int check_counts(const dg_json *o, const dg_progress *p, dg_diag *d)
{
    int64_t size, accumulate;
    int rc;

    DG_TRY(need_int(o, "batch_size", &size, d));
    DG_TRY(need_int(o, "accumulate", &accumulate, d));
    if ((double)p->sample != (double)p->batch * (double)size)
        return differ(o, d, "%lld batches of %lld are not %lld samples", (long long)p->batch,
                      (long long)size, (long long)p->sample);
    if ((double)p->batch < (double)p->step * (double)accumulate)
        return differ(o, d, "%lld steps of %lld batches need more than %lld batches",
                      (long long)p->step, (long long)accumulate, (long long)p->batch);
    if ((double)p->epoch + (double)p->index > (double)p->batch)
        return differ(o, d, "epoch %lld, batch %lld is not reached by %lld batches",
                      (long long)p->epoch, (long long)p->index, (long long)p->batch);
    if (p->has_best && (p->best_step > p->step || p->best_epoch > p->epoch))
        return differ(o, d, "the best result is of step %lld, epoch %lld, which is not reached",
                      (long long)p->best_step, (long long)p->best_epoch);
out:
    return rc;
}

static int read_progress(const dg_json *o, dg_progress *p, dg_diag *d)
{
    double evaluated = -1;
    int rc;

    *p = (dg_progress){ 0 };
    DG_TRY(need_int(o, "step", &p->step, d));
    DG_TRY(need_int(o, "batch", &p->batch, d));
    DG_TRY(need_int(o, "epoch", &p->epoch, d));
    DG_TRY(need_int(o, "index", &p->index, d));
    DG_TRY(need_int(o, "sample", &p->sample, d));
    DG_TRY(need_number(o, "minutes", 0, MOST_MINUTES, false, &p->minutes, d));
    if (dg_json_get(o, "lr"))
        DG_TRY(need_number(o, "lr", 0, DG_LR_MAX, false, &p->lr, d));
    if (dg_json_get(o, "evaluated"))
        DG_TRY(need_number(o, "evaluated", -1, (double)p->step, true, &evaluated, d));
    p->evaluated = (int64_t)evaluated;
    p->has_best = dg_json_get(o, "best") != NULL;
    if (p->has_best) {
        DG_TRY(need_number(o, "best", -1e300, 1e300, false, &p->best, d));
        DG_TRY(need_int(o, "best_step", &p->best_step, d));
        DG_TRY(need_int(o, "best_epoch", &p->best_epoch, d));
        DG_TRY(need_number(o, "best_minutes", 0, p->minutes, false, &p->best_minutes, d));
    }
    DG_TRY(check_counts(o, p, d));
out:
    return rc;
}

/* What the run was made with; a version without checksums did not write all of it. */
static int check_identity(const dg_json *o, bool all, dg_diag *d)
{
    static const char *const texts[] = { "precision", "cpu", "versions" }, *const counts[] = {
        "threads", "ranks"
    };
    const dg_json *text;
    int64_t count;
    int rc = 0;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (all || dg_json_get(o, texts[i]))
            DG_TRY(dg_json_need(&text, o, texts[i], DG_JSON_STRING, d));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (all || dg_json_get(o, counts[i]))
            DG_TRY(need_int(o, counts[i], &count, d));
out:
    return rc;
}

/* The state's checksum of itself is its last line, over everything before that. */
static int check_own_sum(const char *text, size_t n, const char *file, dg_diag *d)
{
    const size_t tail = strlen(own_key) + 16 + strlen("\"\n}\n");
    dg_str end = { 0 };
    bool same;

    if (n > tail)
        dg_str_fmt(&end, "%s%016llx\"\n}\n", own_key, (unsigned long long)dg_fnv1a(text, n - tail));
    same = n > tail && memcmp(text + n - tail, end.s, tail) == 0;
    dg_str_free(&end);
    return same ? 0
                : dg_fail(d, DG_EINPUT, (dg_where){ .file = file }, "checkpoint-damaged",
                          "it is not as it was written: its checksum is another");
}

int dg_checkpoint_state_read(dg_checkpoint_state *s, dg_arena *a, const char *file, dg_diag *d)
{
    int64_t format = 0;
    char *text = NULL;
    size_t n;
    int rc;

    *s = (dg_checkpoint_state){ 0 };
    DG_TRY(dg_file_read(&text, &n, file, STATE_MAX, d));
    DG_TRY(dg_json_parse(&s->json, a, text, n, file, d));
    DG_TRY(need_int(s->json, "format", &format, d));
    if (format != FORMAT && format != WITHOUT_SUMS)
        rc = dg_fail(d, DG_EUNSUPPORTED, s->json->at, "checkpoint-format",
                     "checkpoint format %lld; this version of detrgraph reads formats up to %d",
                     (long long)format, FORMAT);
    if (rc < 0)
        goto out;
    s->has_sums = format == FORMAT;
    if (s->has_sums || dg_json_get(s->json, "checksum")) /* an edited number of the format, too */
        DG_TRY(check_own_sum(text, n, file, d));
    DG_TRY(read_progress(s->json, &s->progress, d));
    DG_TRY(check_identity(s->json, s->has_sums, d));
    s->has_ema = dg_json_get(s->json, sum_keys[DG_PART_EMA]) != NULL;
    for (int k = 0; s->has_sums && k < DG_N_PARTS; k++)
        if (k != DG_PART_EMA || s->has_ema)
            DG_TRY(need_hex(s->json, sum_keys[k], &s->sum[k], d));
out:
    dg_free(text);
    return rc;
}

/* ---- is it the same run? --------------------------------------------------------------------- */

static const char anew[] = "begin a new run, with pretrained= where its weights are wanted, or "
                           "restore what it was made with";

static int differs(const dg_json *o, const char *key, int64_t now, const char *what, dg_diag *d)
{
    int64_t then = 0;
    int rc = need_int(o, key, &then, d);

    if (rc < 0 || then == now)
        return rc;
    dg_fail(d, DG_EINPUT, o->at, "resume-differs",
            "%s was %lld when the checkpoint was written and is %lld now: its place in the epoch "
            "means nothing any more",
            what, (long long)then, (long long)now);
    dg_help(d, "%s", anew);
    return -DG_EINPUT;
}

static void warn_text(const dg_json *o, const char *key, const char *now, const char *what,
                      dg_diag *d)
{
    const dg_json *v = dg_json_get(o, key);

    if (v && v->kind == DG_JSON_STRING && strcmp(v->text, now) != 0)
        dg_warn(d, o->at, "resume-rounding",
                "%s was \"%s\" and is \"%s\" now: the run continues, but not bit for bit as if it "
                "had never stopped",
                what, v->text, now);
}

static void warn_number(const dg_json *o, const char *key, double other, int now, dg_diag *d)
{
    if (real_or(o, key, other) != now)
        dg_warn(d, o->at, "resume-rounding",
                "the number of %s was %.0f and is %d now: the run continues, but not bit for bit "
                "as if it had never stopped",
                key, real_or(o, key, other), now);
}

int dg_checkpoint_state_compare(const dg_checkpoint_state *s, const dg_identity *now,
                                bool *same_pipeline, dg_diag *d)
{
    const dg_json *o = s->json;
    uint64_t seed, pipeline, data;
    int rc;

    DG_TRY(need_hex(o, "seed", &seed, d));
    DG_TRY(need_hex(o, "pipeline", &pipeline, d));
    DG_TRY(need_hex(o, "data", &data, d));
    if (seed != now->seed) {
        dg_fail(d, DG_EINPUT, o->at, "resume-seed",
                "the checkpoint's seed is %llu, this run's %llu", (unsigned long long)seed,
                (unsigned long long)now->seed);
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
        DG_TRY(differs(o, "ranks", now->ranks,
                       "the number of ranks, each of which plans for itself,", d));
    *same_pipeline = pipeline == now->pipeline;
    if (!*same_pipeline)
        dg_warn(d, o->at, "resume-pipeline",
                "the pipeline was changed since the checkpoint was written: from here on the new "
                "one holds");
    warn_text(o, "precision", now->precision, "the precision", d);
    warn_text(o, "cpu", now->cpu, "the CPU", d);
    warn_text(o, "versions", now->versions, "the software", d);
    warn_number(o, "threads", 0, now->threads, d);
    warn_number(o, "ranks", 1, now->ranks, d);
out:
    return rc;
}
