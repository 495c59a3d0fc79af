/* progress.c: a progress line that is rewritten on a terminal; elsewhere a line every ten
 * seconds. */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"

/* characters: most and least of the bar; of what follows it */
enum { BAR = 24, BAR_LEAST = 6, NUMBERS = 50 };
static const double every_s = 10;

dg_bar dg_bar_begin(void)
{
    struct winsize w = { 0 };
    bool terminal = dg_rewrites(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0;

    return (dg_bar){ .terminal = terminal, .columns = w.ws_col > 20 ? w.ws_col : 80, .last_s = -1 };
}

void dg_bar_clear(dg_bar *b)
{
    if (b->shown)
        dg_line_clear(STDOUT_FILENO);
    b->shown = false;
    fflush(stdout);
}

void dg_bar_log(void *ctx, int level, const char *line)
{
    dg_bar *b = ctx;

    if ((level == DG_DEBUG && !b->verbose) || (level != DG_WARN && b->quiet))
        return;
    dg_bar_clear(b);
    dg_say("%s%s\n", level == DG_WARN ? "warning: " : "", line);
    fflush(stdout);
}

void dg_log_warning(void *ctx, int level, const char *line)
{
    (void)ctx;
    if (level == DG_WARN)
        dg_say_error("warning: %s\n", line);
}

static void add_numbers(dg_str *s, const dg_bar *b, const dg_run_report *r)
{
    char left[48];

    dg_str_fmt(s, "epoch %lld", (long long)r->epoch + 1);
    if (r->n_epochs > 0)
        dg_str_fmt(s, "/%lld", (long long)r->n_epochs);
    dg_str_fmt(s, "  loss %.4g", r->loss);
    if (b->scored)
        dg_str_fmt(s, "  AP %.3f", b->ap);
    dg_str_fmt(s, "  %.1f img/s", r->images_per_s);
    if (r->left_s > 0)
        dg_str_fmt(s, "  %s left", dg_human_time(r->left_s, left, sizeof left));
}

static void draw_bar(dg_bar *b, const dg_run_report *r)
{
    dg_str s = { 0 }, numbers = { 0 };
    int width, room;
    int64_t full;

    dg_str_fmt(&s, "%lld", (long long)r->step);
    if (r->n_steps > 0)
        dg_str_fmt(&s, "/%lld", (long long)r->n_steps);
    dg_str_add(&numbers, " ");
    add_numbers(&numbers, b, r);
    room = b->columns - 1 - (int)s.n - (numbers.n > NUMBERS ? (int)numbers.n : NUMBERS) -
           (int)strlen(" []");
    width = room < BAR ? room : BAR;
    full = r->n_steps > 0 ? width * r->step / r->n_steps : 0;
    if (width >= BAR_LEAST) {
        dg_str_add(&s, " [");
        for (int i = 0; i < width; i++)
            dg_str_add(&s, i < full ? "=" : i == full ? ">" : " ");
        dg_str_add(&s, "]");
    }
    dg_str_add(&s, numbers.s);
    dg_line_clear(STDOUT_FILENO);
    dg_say("%.*s", b->columns - 1, s.s);
    fflush(stdout);
    b->shown = true;
    dg_str_free(&s);
    dg_str_free(&numbers);
}

static void report_step(dg_bar *b, const dg_run_report *r)
{
    double now = dg_monotonic_s();
    dg_str s = { 0 };

    if (b->quiet)
        return;
    if (b->terminal && !b->verbose) {
        draw_bar(b, r);
        return;
    }
    if (!b->verbose && b->last_s >= 0 && now - b->last_s < every_s && r->step != r->n_steps)
        return;
    b->last_s = now;
    add_numbers(&s, b, r);
    dg_say("step %lld%s%.0lld  %s\n", (long long)r->step, r->n_steps > 0 ? "/" : "",
           (long long)r->n_steps, s.s);
    fflush(stdout);
    dg_str_free(&s);
}

void dg_bar_report(void *ctx, const dg_run_report *r)
{
    dg_bar *b = ctx;

    if (!r->scope) {
        report_step(b, r);
        return;
    }
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->names[i], "AP") == 0 && r->values[i] >= 0) {
            b->scored = true;
            b->ap = r->values[i];
        }
    if (b->quiet)
        return;
    dg_bar_clear(b);
    dg_say("%s at step %lld (%.1f img/s):", r->scope, (long long)r->step, r->images_per_s);
    for (int i = 0; i < r->n && i < 12;
         /* the 12 numbers; metrics.jsonl has those per class */
         i++) {
        char number[32];

        snprintf(number, sizeof number, "%.3f", r->values[i]);
        /* -1: undefined, because there is no object */
        dg_say("%s%s %s", i % 6 ? "  " : "\n  ", r->names[i], r->values[i] == -1 ? "-" : number);
    }
    dg_say("\n");
    for (int i = 0; i < r->n_notes; i++)
        dg_say("  %s\n", r->notes[i]);
    fflush(stdout);
}

/* ---- errors with their lines ----------------------------------------------------------------- */

enum { SOURCE_MAX = 4 << 20 };

static const char *source(void *ctx, const char *file, size_t *n)
{
    dg_diag *ignored = dg_diag_open();
    char *text = NULL;
    const char *kept = NULL;

    /* a pipeline, not a tensor file, of which a copy would end at its first NUL */
    if (dg_file_read(&text, n, file, SOURCE_MAX, ignored) == 0 && memchr(text, '<', *n) &&
        !memchr(text, '\0', *n))
        kept = dg_strndup(ctx, text, *n);
    dg_free(text);
    dg_diag_close(&ignored);
    return kept;
}

void dg_print_diag_files(const dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_str out = { 0 };

    dg_diag_print(&out, d, source, a, dg_colour(STDERR_FILENO));
    if (out.s)
        dg_say_painted(STDERR_FILENO, out.s);
    dg_str_free(&out);
    dg_arena_close(&a);
}
