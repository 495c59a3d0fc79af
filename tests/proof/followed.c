/* followed.c: see followed.h. */
#include "tests/proof/followed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/str.h"
#include "proof/proof.h"

void prove(loaded *x, const char *text, const char *file)
{
    load(x, text, file);
    if (x->g)
        (void)!dg_graph_validate(x->g, x->d);
}

/* An error and its path, without positions: edits move what stands behind them. */
static char *gist(const dg_err *e)
{
    dg_str s = { 0 };
    char *text, *to;

    dg_str_fmt(&s, "%s %s", e->id, e->text);
    for (int i = 0; i < e->n_remarks; i++)
        if (!e->remarks[i].help && strncmp(e->remarks[i].text, "the same cause", 14) != 0)
            dg_str_fmt(&s, "; %s", e->remarks[i].text);
    text = strdup(s.s);
    dg_str_free(&s);
    for (char *from = to = text; (*to = *from); from++) /* "(line 7)" too */
        to += !(*from >= '0' && *from <= '9');
    return text;
}

static int times_said(const loaded *x, const char *what)
{
    int n = 0;

    for (int i = 0; i < dg_diag_n(x->d); i++) {
        char *other = dg_diag_at(x->d, i)->folded ? NULL : gist(dg_diag_at(x->d, i));

        n += other && strcmp(other, what) == 0;
        free(other);
    }
    return n;
}

/* ---- one line of help ------------------------------------------------------------------------ */

static bool try(const files *all, const loaded *before, const dg_err *e, const char *help,
                counts *sum)
{
    const char *file = all->name[0];
    files f = { 0 };
    char why[256], *what = gist(e);
    loaded x;
    bool fine, left;

    for (int i = 0; i < all->n; i++)
        files_add(&f, all->name[i], all->text[i]);
    sum->lines++;
    fine = follow(&f, file, help, why);
    if (!fine) {
        print_message("# %s: %s: the help of %s %s\n", file, help, e->id, why);
    } else {
        files_write(&f);
        prove(&x, files_text(&f, file), file);
        left = times_said(&x, what) >= times_said(before, what);
        fine = !left;
        sum->accepted += dg_diag_errors(x.d) == 0 && !left;
        sum->next += dg_diag_errors(x.d) > 0 && !left;
        if (left)
            print_message("# %s: %s stays, although \"%s\":\n%s", file, e->id, help,
                          dg_diag_text(x.d));
        unload(&x);
        files_write(all);
    }
    files_close(&f);
    free(what);
    return fine;
}

static bool is_excused(const char *text, const dg_err *e)
{
    char words[128];

    snprintf(words, sizeof words, "<!-- no-advice: %s ", e->id);
    return strstr(text, words) != NULL;
}

bool follow_all(const files *all, counts *sum)
{
    const char *file = all->name[0];
    bool fine = true;
    loaded x;

    files_write(all);
    prove(&x, all->text[0], file);
    sum->cases++;
    for (int i = 0; i < dg_diag_n(x.d); i++) {
        const dg_err *e = dg_diag_at(x.d, i);
        int n = 0;

        if (e->folded)
            continue;
        sum->errors++;
        if (is_excused(all->text[0], e)) {
            sum->excused++;
            continue;
        }
        for (int k = 0; k < e->n_remarks; k++)
            if (e->remarks[k].help) {
                n++;
                fine &= try(all, &x, e, e->remarks[k].text, sum);
            }
        if (n == 0) {
            print_message("# %s: %s has no help:\n%s", file, e->id, dg_diag_text(x.d));
            fine = false;
        }
    }
    unload(&x);
    return fine;
}
