/* diff.c: compares two texts by line, by their longest common subsequence. */
#include "report/page.h"

#include <string.h>

enum { LINES = 2000, AROUND = 3 };

typedef struct text {
    const char **line;
    int n;
    bool cut; /* further lines were dropped */
} text;

static text split(dg_arena *a, const char *s)
{
    text t = { .line = DG_NEW_N(a, LINES, const char *) };

    while (s && *s && t.n < LINES) {
        size_t len = strcspn(s, "\n");

        t.line[t.n++] = dg_strndup(a, s, len);
        s += len + (s[len] == '\n');
    }
    t.cut = s && *s;
    return t;
}

/* length[i * (b.n + 1) + j]: longest common subsequence of the texts from line i of a and line j of
 * b on. */
static int *measure(dg_arena *arena, text a, text b)
{
    int *length = DG_NEW_N(arena, ((int64_t)a.n + 1) * (b.n + 1), int), w = b.n + 1;

    for (int i = a.n; i-- > 0;)
        for (int j = b.n; j-- > 0;) {
            int down = length[(i + 1) * w + j], right = length[i * w + j + 1];

            length[i * w + j] = strcmp(a.line[i], b.line[j]) == 0 ? length[(i + 1) * w + j + 1] + 1
                                : down > right                    ? down
                                                                  : right;
        }
    return length;
}

typedef struct change {
    char kind; /* ' ', '-', '+' */
    const char *line;
} change;

static int walk(change *out, text a, text b, const int *length)
{
    int i = 0, j = 0, n = 0, w = b.n + 1;

    while (i < a.n || j < b.n)
        if (i < a.n && j < b.n && strcmp(a.line[i], b.line[j]) == 0) {
            out[n++] = (change){ ' ', a.line[i] };
            i++, j++;
        } else if (i < a.n && (j == b.n || length[(i + 1) * w + j] >= length[i * w + j + 1])) {
            out[n++] = (change){ '-', a.line[i++] };
        } else {
            out[n++] = (change){ '+', b.line[j++] };
        }
    return n;
}

static bool near_change(const change *c, int n, int i)
{
    for (int k = i - AROUND; k <= i + AROUND; k++)
        if (k >= 0 && k < n && c[k].kind != ' ')
            return true;
    return false;
}

bool dg_report_diff(dg_page *p, const char *a, const char *b)
{
    if (strcmp(a, b) == 0)
        return false;

    text x = split(p->arena, a), y = split(p->arena, b);
    change *c = DG_NEW_N(p->arena, x.n + y.n + 1, change);
    int n = walk(c, x, y, measure(p->arena, x, y)), shown = -1;

    for (int i = 0; i < n; i++) {
        if (!near_change(c, n, i))
            continue;
        dg_str_add(p->out, shown < 0 ? "<pre>" : shown < i - 1 ? "…\n" : "");
        shown = i;
        dg_str_add(p->out, c[i].kind == '+' ? "<ins>+ " : c[i].kind == '-' ? "<del>- " : "  ");
        dg_page_text(p, "%s", c[i].line);
        dg_str_add(p->out, c[i].kind == '+' ? "</ins>" : c[i].kind == '-' ? "</del>" : "\n");
    }
    if (shown >= 0)
        dg_str_add(p->out, "</pre>\n");
    if (x.cut || y.cut)
        dg_str_fmt(p->out,
                   "<p class=\"note\">The files differ. Their first %d lines are compared, what "
                   "follows is not.</p>\n",
                   LINES);
    return shown >= 0 || x.cut || y.cut;
}
