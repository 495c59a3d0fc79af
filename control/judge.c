/* judge.c: see judge.h. Evidence is collected for DG_SETTLE_S before it is judged: an error has
 * several messages, and one rank's fault often reaches others as a failed wait. */
#include "control/judge.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "control/facts.h"
#include "control/judge_internal.h"
#include "control/limits.h"

static const double SETTLE_S = DG_SETTLE_S, SECOND_HAND_S = 0.5, LAST_WORDS_S = 0.5;

enum { SECOND_HAND = 1, UNPLACED, PLACED }; /* how much a rank's errors explain */

const char *dg_judge_name(const dg_judge *r, int i, char *buf, size_t n)
{
    const dg_judge_rank *k = &r->ranks[i];

    if (k->host && *k->host)
        snprintf(buf, n, "rank %d (%s, process %lld)", i, k->host, (long long)k->process);
    else
        snprintf(buf, n, "rank %d", i);
    return buf;
}

dg_judge *dg_judge_open(const dg_judge_conf *c, double now)
{
    dg_arena *a = dg_arena_open();
    dg_judge *r = DG_NEW(a, dg_judge);

    r->arena = a;
    r->conf = *c;
    r->ranks = DG_NEW_N(a, c->ranks, dg_judge_rank);
    r->state = (dg_state){
        .confirmed = -1, .stop_after = -1, .save_after = -1, .rates = c->rates, .reason = ""
    };
    r->verdict = dg_diag_open();
    r->folder = "";
    r->saved = r->first = r->broken = -1;
    for (int i = 0; i < c->ranks; i++) {
        r->ranks[i].heard_s = now;
        r->ranks[i].kept = dg_arena_open();
        r->ranks[i].arena = dg_arena_open();
        r->ranks[i].errors = dg_diag_open();
        r->ranks[i].beat = (dg_beat){ .node = "", .file = "", .step = -1, .saved = -1 };
    }
    return r;
}

void dg_judge_close(dg_judge **r)
{
    dg_arena *a = *r ? (*r)->arena : NULL;

    if (!a)
        return;
    for (int i = 0; i < (*r)->conf.ranks; i++) {
        dg_arena_close(&(*r)->ranks[i].kept);
        dg_arena_close(&(*r)->ranks[i].arena);
        dg_diag_close(&(*r)->ranks[i].errors);
    }
    dg_diag_close(&(*r)->verdict);
    dg_arena_close(&a);
    *r = NULL;
}

bool dg_judge_over(const dg_judge *r)
{
    return r->state.over != DG_OVER_NO;
}

static void end(dg_judge *r, dg_over how, const char *reason)
{
    if (dg_judge_over(r))
        return;
    r->state.over = how;
    r->state.reason = dg_strdup(r->arena, reason);
    r->changed++;
}

void dg_judge_end(dg_judge *r, const char *reason)
{
    end(r, DG_OVER_AT_ONCE, reason);
}

/* A rank's position, from its latest beat. */
dg_where dg_judge_where_is(const dg_judge_rank *k)
{
    return *k->beat.node ? (dg_where){ *k->beat.file ? k->beat.file : NULL, (int)k->beat.line,
                                       (int)k->beat.column, k->beat.node }
                         : DG_NOWHERE;
}

void dg_judge_add_where(dg_str *s, const dg_judge_rank *k)
{
    if (k->beat.step >= 0)
        dg_str_fmt(s, " at step %lld", (long long)k->beat.step + 1);
    if (*k->beat.node)
        dg_str_fmt(s, " in node \"%s\"%s", k->beat.node,
                   k->beat.waits ? ", waiting for other ranks" : "");
}

void dg_judge_add_saved(dg_judge *r, dg_str *s)
{
    int64_t saving;

    dg_judge_look(r, 0); /* it writes the checkpoints */
    saving = r->ranks[0].beat.saving;
    if (r->saved >= 0)
        dg_str_fmt(s, "; nothing was written after step %lld", (long long)r->saved);
    if (saving > 0 && saving > r->saved)
        dg_str_fmt(s, "%s step %lld was being saved", r->saved >= 0 ? "," : ";", (long long)saving);
}

void dg_judge_fail(dg_judge *r, bool lost)
{
    r->state.lost = lost;
    if (lost)
        dg_help(
            r->verdict,
            "--resume auto continues from the last checkpoint; --max-restarts K does so by itself");
    end(r, DG_OVER_FAILED, dg_diag_at(r->verdict, 0)->text);
}

/* ---- what ranks say -------------------------------------------------------------------------- */

static void take_beat(dg_judge *r, dg_judge_rank *k, const dg_beat *b)
{
    dg_arena *a = dg_arena_open();

    k->beat = *b;
    k->beat.node = dg_strdup(a, b->node);
    k->beat.file = dg_strdup(a, b->file);
    dg_arena_close(&k->arena);
    k->arena = a;
    if (b->saved > r->saved)
        r->saved = b->saved;
}

/* Refreshes rank i's position from its flight recorder, if readable: the latest beat may be
 * outdated. */
void dg_judge_look(dg_judge *r, int i)
{
    dg_arena *a = dg_arena_open();
    dg_beat b = { 0 };

    if (r->conf.look && r->conf.look(r->conf.ctx, i, a, &b)) {
        b.since_s = r->ranks[i].beat.since_s;
        take_beat(r, &r->ranks[i], &b);
    }
    dg_arena_close(&a);
}

static dg_rows keep_rows(dg_arena *a, const dg_rows *rows)
{
    dg_row *v = DG_NEW_N(a, rows->n + 1, dg_row);

    for (int i = 0; i < rows->n; i++)
        v[i] = (dg_row){ rows->v[i].tag, dg_strdup(a, rows->v[i].name),
                         dg_strdup(a, rows->v[i].value) };
    return (dg_rows){ rows->n, v };
}

static void take_meet(dg_judge *r, dg_judge_rank *k, int64_t round, const dg_rows *facts)
{
    const char *hosts[DG_MAX_RANKS];
    dg_rows all[DG_MAX_RANKS];

    if (round <= k->round) /* said twice */
        return;
    k->facts = keep_rows(k->kept, facts);
    k->round = round;
    for (int i = 0; i < r->conf.ranks; i++) {
        if (r->ranks[i].round != round)
            return;
        all[i] = r->ranks[i].facts;
        hosts[i] = r->ranks[i].host ? r->ranks[i].host : "";
    }
    if (dg_facts_compare(all, r->conf.ranks, hosts, r->verdict) < 0) {
        dg_judge_fail(r, false);
        return;
    }
    dg_judge_keep_monitors(r, &r->ranks[0].facts);
    r->state.met = round;
    r->changed++;
}

static bool same_word(const dg_word *a, const dg_word *b)
{
    return a->step == b->step && a->batch == b->batch && a->epoch == b->epoch &&
           a->index == b->index && a->n_in_epoch == b->n_in_epoch && a->schedule == b->schedule;
}

static int votes(const dg_judge *r, int i)
{
    int n = 0;

    for (int k = 0; k < r->conf.ranks; k++)
        n += r->ranks[k].has_word && same_word(&r->ranks[k].word, &r->ranks[i].word);
    return n;
}

static void add_word(dg_str *s, const dg_word *w)
{
    dg_str_fmt(s,
               "begins step %lld with batch %lld, number %lld of the %lld of epoch %lld, %lldx%lld "
               "pixels, schedule %016llx",
               (long long)w->step + 1, (long long)w->batch + 1, (long long)w->index + 1,
               (long long)w->n_in_epoch, (long long)w->epoch + 1, (long long)w->width,
               (long long)w->height, (unsigned long long)w->schedule);
}

/* Judges differing step words. The odd one out is the rank that the fewest agree with; the first
 * rank that differs from it represents the rest. */
static void judge_words(dg_judge *r)
{
    char name[160], other_name[160];
    int odd = -1, other = 0;
    dg_str s = { 0 };

    for (int i = r->conf.ranks - 1; i >= 0; i--)
        if (r->ranks[i].has_word && (odd < 0 || votes(r, i) < votes(r, odd)))
            odd = i;
    while (other < r->conf.ranks &&
           (!r->ranks[other].has_word || same_word(&r->ranks[other].word, &r->ranks[odd].word)))
        other++;
    r->differ_s = 0;
    if (other == r->conf.ranks)
        return; /* it has sent another word since */
    dg_str_fmt(&s, "%s %s ", dg_judge_name(r, odd, name, sizeof name),
               "left the common schedule: it");
    add_word(&s, &r->ranks[odd].word);
    dg_str_fmt(&s, "; %s ", dg_judge_name(r, other, other_name, sizeof other_name));
    add_word(&s, &r->ranks[other].word);
    dg_judge_add_saved(r, &s);
    dg_fail(r->verdict, DG_EINTERNAL, dg_judge_where_is(&r->ranks[odd]), "words-differ", "%s", s.s);
    dg_help(r->verdict, "detrgraph doctor OUT compares what the ranks did before");
    dg_judge_fail(r, false);
    dg_str_free(&s);
}

/* Fails if a rank has left: it will not enter this step. One that has left may have been in it:
 * words of different ranks may arrive in any order. */
static bool check_left(dg_judge *r, int i, const dg_word *w)
{
    char name[160], other[160];

    for (int k = 0; k < r->conf.ranks; k++)
        if (r->ranks[k].left && !r->ranks[k].failed &&
            !(r->ranks[k].has_word && r->ranks[k].word.batch >= w->batch)) {
            dg_fail(r->verdict, DG_EINTERNAL, DG_NOWHERE, "rank-left",
                    "%s was done after step %lld, and %s begins step %lld",
                    dg_judge_name(r, k, name, sizeof name), (long long)r->ranks[k].word.step + 1,
                    dg_judge_name(r, i, other, sizeof other), (long long)w->step + 1);
            dg_judge_fail(r, false);
            return true;
        }
    return false;
}

static void take_word(dg_judge *r, int i, const dg_word *w, double now)
{
    const dg_judge_rank *mine = &r->ranks[i];
    bool all = true;

    /* said twice, or late: that batch is behind it */
    if (mine->has_word && w->batch < mine->word.batch && w->batch <= r->state.confirmed)
        return;

    /* a rank begins a batch once the one before is confirmed: this one cannot come from it */
    if (r->state.confirmed >= 0 && w->batch > r->state.confirmed + 1)
        return;
    if (w->saved > r->saved)
        r->saved = w->saved;
    dg_judge_take_seen(r, i, &(dg_sight){ 0, w->step, w->batch, w->seen }, now);
    r->ranks[i].word = *w;
    r->ranks[i].word.seen = (dg_digests){ 0 }; /* points into the message: do not keep it */
    r->ranks[i].has_word = true;
    if (check_left(r, i, w))
        return;
    for (int k = 0; k < r->conf.ranks; k++) {
        const dg_judge_rank *o = &r->ranks[k];

        /* an already confirmed word belongs to an older step, which that rank is still in */
        if (!o->has_word || (o->word.batch == r->state.confirmed && w->batch != r->state.confirmed))
            all = false;
        else if (!same_word(&o->word, w) && r->differ_s <= 0)
            r->differ_s = now + SETTLE_S;
    }
    if (!all || r->differ_s > 0)
        return;
    r->state.confirmed = w->batch;
    r->changed++;
}

/* True if the error is a consequence: a failed collective, unless the ranks' collectives
 * differed. */
static bool is_second_hand(const dg_rank_fault *f)
{
    return f->code == DG_ESTOP ||
           (f->code != DG_EINTERNAL && strcmp(f->id, "collective-failed") == 0);
}

/* Records a rank's error. Diagnostics copy text; id and position go to the arena, which lives as
 * long. */
static void take_fail(dg_judge *r, dg_judge_rank *k, const dg_rank_fault *f, double now)
{
    dg_where at = { .file = *f->file ? dg_strdup(r->arena, f->file) : NULL,
                    .line = (int)f->line,
                    .column = (int)f->column,
                    .node = *f->node ? dg_strdup(r->arena, f->node) : NULL };
    double wait_s = is_second_hand(f) ? SECOND_HAND_S : r->state.met ? SETTLE_S : 4 * SETTLE_S;

    for (int i = 0; i < dg_diag_n(k->errors); i++)
        if (strcmp(dg_diag_at(k->errors, i)->id, f->id) == 0 &&
            strcmp(dg_diag_at(k->errors, i)->text, f->text) == 0)
            return; /* said twice */
    if (!k->failed)
        k->worth = is_second_hand(f) ? SECOND_HAND : f->line > 0 ? PLACED : UNPLACED;
    k->failed = true;
    dg_fail(k->errors, f->code > 0 && f->code <= DG_EINTERNAL ? (dg_code)f->code : DG_EINTERNAL, at,
            dg_strdup(r->arena, f->id), "%s", f->text);
    for (int i = 0; i < f->remarks.n; i++)
        if (f->remarks.v[i].tag == DG_ROW_HELP)
            dg_help(k->errors, "%s", f->remarks.v[i].value);
        else
            dg_note(k->errors, DG_NOWHERE, "%s%s%s", f->remarks.v[i].name,
                    *f->remarks.v[i].name ? ": " : "", f->remarks.v[i].value);
    if (r->judge_s <= 0 || now + wait_s < r->judge_s)
        r->judge_s = now + wait_s;
}

/* The rank whose errors explain most: a cause before a failed wait, an error with a position before
 * one without. */
static int best_source(const dg_judge *r)
{
    int best = -1;

    for (int i = 0; i < r->conf.ranks; i++)
        if (r->ranks[i].failed && (best < 0 || r->ranks[i].worth > r->ranks[best].worth))
            best = i;
    return best;
}

/* Rank i is silent, and a collective of rank `source` has failed: its machine went down with its
 * launcher. */
static void judge_silent(dg_judge *r, int i, int source, double now)
{
    char name[160];
    dg_str s = { 0 };

    dg_judge_look(r, i);
    dg_str_fmt(&s, "%s has been silent for %.1f s", dg_judge_name(r, i, name, sizeof name),
               now - r->ranks[i].heard_s);
    dg_judge_add_where(&s, &r->ranks[i]);
    dg_judge_add_saved(r, &s);
    dg_fail(r->verdict, DG_EIO, dg_judge_where_is(&r->ranks[i]), "rank-lost",
            "%s: it counts as lost, because rank %d says: %s", s.s, source,
            dg_diag_at(r->ranks[source].errors, 0)->text);
    dg_judge_fail(r, true);
    dg_str_free(&s);
}

static void describe_end(dg_str *s, int status)
{
    if (WIFSIGNALED(status))
        dg_str_fmt(s, " was ended by signal %d (SIG%s)", WTERMSIG(status),
                   sigabbrev_np(WTERMSIG(status)) ? sigabbrev_np(WTERMSIG(status)) : "?");
    else
        dg_str_fmt(s, " ended with status %d without a word",
                   WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void judge_gone(dg_judge *r, int i)
{
    dg_judge_rank *k = &r->ranks[i];
    char name[160];
    dg_str s = { 0 };

    k->lost = true;
    dg_str_add(&s, dg_judge_name(r, i, name, sizeof name));
    describe_end(&s, k->status);
    dg_judge_add_where(&s, k);
    dg_judge_add_saved(r, &s);
    dg_fail(r->verdict, DG_EIO, dg_judge_where_is(k), "rank-died", "%s", s.s);
    if (WIFSIGNALED(k->status))
        dg_limits_help(r->verdict, WTERMSIG(k->status));
    if (WIFSIGNALED(k->status) && WTERMSIG(k->status) == SIGKILL)
        dg_help(r->verdict, "if no person or script killed it, memory ran out and the kernel "
                            "did (see dmesg): make the batch smaller");
    dg_judge_fail(r, true);
    dg_str_free(&s);
}

/* A rank whose process has ended and that left no word, or -1. */
static int ended_rank(const dg_judge *r)
{
    for (int i = 0; i < r->conf.ranks; i++)
        if (r->ranks[i].gone && !r->ranks[i].left && !r->ranks[i].failed)
            return i;
    return -1;
}

static void judge_errors(dg_judge *r, double now)
{
    int who = best_source(r), same = 0, silent = -1, ended = ended_rank(r);
    const dg_judge_rank *k = &r->ranks[who];
    const char *text = dg_diag_at(k->errors, 0)->text;
    bool early = !r->state.met; /* before the ranks have met, all may report the same error */

    if (k->worth == SECOND_HAND && ended >= 0) {
        judge_gone(r, ended);
        return;
    }
    if (k->worth == SECOND_HAND)
        silent = dg_judge_lose_silent(r, DG_MISSED_S, now);
    if (silent >= 0) {
        judge_silent(r, silent, who, now);
        return;
    }
    for (int i = 0; i < r->conf.ranks; i++)
        same += r->ranks[i].failed && strcmp(dg_diag_at(r->ranks[i].errors, 0)->text, text) == 0;
    for (int i = 0; i < dg_diag_n(k->errors); i++) {
        const dg_err *e = dg_diag_at(k->errors, i);

        if (early && same == r->conf.ranks)
            dg_fail(r->verdict, e->code, e->at, e->id, "%s", e->text);
        else
            dg_fail(r->verdict, e->code, e->at, e->id, "rank %d of %d: %s", who, r->conf.ranks,
                    e->text);
        for (int n = 0; n < e->n_remarks; n++)
            if (e->remarks[n].help)
                dg_help(r->verdict, "%s", e->remarks[n].text);
            else
                dg_note(r->verdict, e->remarks[n].at, "%s", e->remarks[n].text);
        if (r->state.met && strncmp(e->id, "contract-", 9) == 0)
            dg_judge_note_peers(r, who);
    }
    end(r, DG_OVER_FAILED, dg_diag_at(r->verdict, 0)->text);
}

void dg_judge_take(dg_judge *r, const dg_message *m, double now)
{
    dg_judge_rank *k = m->rank < (uint32_t)r->conf.ranks ? &r->ranks[m->rank] : NULL;

    if (!k || m->attempt != r->conf.attempt)
        return;
    k->heard_s = now;
    k->closed = false;
    if (k->quiet) {
        dg_log_line(r->conf.env, DG_WARN, "rank %u is heard again", m->rank);
        k->quiet = false;
    }
    if (dg_judge_over(r) && m->kind != DG_SAY_BYE)
        return;
    switch (m->kind) {
    case DG_SAY_HELLO:
        if (k->hello) /* a rank introduces itself once: the first name stays */
            break;
        k->hello = true;
        k->host = dg_strdup(k->kept, m->hello.host);
        k->process = m->hello.process;
        break;
    case DG_SAY_FOLDER:
        r->folder = dg_strdup(r->arena, m->folder.path);
        r->changed++;
        break;
    case DG_SAY_MEET:
        take_meet(r, k, m->meet.round, &m->meet.facts);
        break;
    case DG_SAY_WORD:
        take_word(r, (int)m->rank, &m->word, now);
        break;
    case DG_SAY_SEEN:
        dg_judge_take_seen(r, (int)m->rank, &m->seen, now);
        break;
    case DG_SAY_BEAT:
        take_beat(r, k, &m->beat);
        break;
    case DG_SAY_FAIL:
        take_fail(r, k, &m->fail, now);
        break;
    case DG_SAY_BYE:
        k->left = true;
        break;
    default:
        break;
    }
}

bool dg_judge_is_taken(const dg_judge *r, const dg_message *m, char *buf, size_t size)
{
    const dg_judge_rank *k = m->rank < (uint32_t)r->conf.ranks ? &r->ranks[m->rank] : NULL;

    if (!k || !k->hello || (k->process == m->hello.process && strcmp(k->host, m->hello.host) == 0))
        return false;
    dg_judge_name(r, (int)m->rank, buf, size);
    return true;
}

/* ---- what happens to ranks ------------------------------------------------------------------- */

void dg_judge_gone(dg_judge *r, int i, int status, double now)
{
    dg_judge_rank *k = i >= 0 && i < r->conf.ranks ? &r->ranks[i] : NULL;

    if (!k || k->gone)
        return;
    k->gone = true;
    k->gone_s = now;
    if (!dg_judge_over(r))
        dg_judge_look(r, i);
    k->status = status;
    if (WIFSIGNALED(status) && !dg_judge_over(r) && !k->left && !k->failed)
        judge_gone(r, i);
}

/* ---- time ------------------------------------------------------------------------------------ */

void dg_judge_tick(dg_judge *r, double now)
{
    if (dg_judge_over(r))
        return;
    if (r->broken >= 0 && now >= r->differ_s) /* consequences come after the verdict */
        dg_judge_compare_seen(r);
    else if (r->judge_s > 0 && now >= r->judge_s)
        judge_errors(r, now);
    else if (r->differ_s > 0 && now >= r->differ_s)
        judge_words(r);
    for (int i = 0; i < r->conf.ranks && !dg_judge_over(r); i++) {
        const dg_judge_rank *k = &r->ranks[i];

        /* a busy machine needs a moment to deliver its last messages */
        if (k->gone && !k->left && !k->failed && now > k->gone_s + LAST_WORDS_S)
            judge_gone(r, i);
        else if (!k->gone && !k->left) {
            dg_judge_tick_silence(r, i, now);
            dg_judge_tick_slow(r, i);
        }
    }
    if (!dg_judge_over(r))
        dg_judge_tick_stall(r);
}

/* ---- results --------------------------------------------------------------------------------- */

const dg_state *dg_judge_state(const dg_judge *r, uint64_t *changed)
{
    *changed = r->changed;
    return &r->state;
}

const dg_diag *dg_judge_verdict(const dg_judge *r)
{
    return r->verdict;
}

bool dg_judge_lost(const dg_judge *r)
{
    return r->state.lost != 0;
}

bool dg_judge_lost_rank(const dg_judge *r, int i)
{
    return i >= 0 && i < r->conf.ranks && r->ranks[i].lost;
}

const char *dg_judge_folder(const dg_judge *r)
{
    return r->folder;
}

int64_t dg_judge_saved(const dg_judge *r)
{
    return r->saved;
}

int dg_judge_left(const dg_judge *r)
{
    int n = 0;

    for (int i = 0; i < r->conf.ranks; i++)
        n += r->ranks[i].left;
    return n;
}

bool dg_judge_is_judging(const dg_judge *r)
{
    return !dg_judge_over(r) && (r->judge_s > 0 || r->differ_s > 0);
}
