/* report.c: the largest error of each group of numbers, beside its bound. */
#include "tests/parity/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_GROUPS = 128, TEXT = 96 };

typedef struct group {
    char name[TEXT], where[TEXT];
    double error, bound;
    long n, beyond;
    bool fact;
} group;

struct report {
    int n;
    group v[MOST_GROUPS];
};

report *report_open(void)
{
    return calloc(1, sizeof(report));
}

void report_close(report **r)
{
    free(*r);
    *r = NULL;
}

static group *find(report *r, const char *name)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->v[i].name, name) == 0)
            return &r->v[i];
    if (r->n < MOST_GROUPS)
        r->n++;
    snprintf(r->v[r->n - 1].name, TEXT, "%s", name);
    r->v[r->n - 1].error = -1;
    return &r->v[r->n - 1];
}

void report_add(report *r, const char *name, double error, double bound, const char *where)
{
    group *g = find(r, name);
    double now = bound > 0 ? error / bound : error,
           before = g->bound > 0 ? g->error / g->bound : g->error;

    g->n++;
    g->beyond += bound >= 0 && !(error <= bound);
    if (g->error < 0 || isnan(error) || now > before) {
        g->error = error;
        g->bound = bound;
        snprintf(g->where, TEXT, "%s", where);
    }
}

void report_fact(report *r, const char *name, bool right, const char *where)
{
    report_add(r, name, right ? 0 : 1, 0.5, where);
    find(r, name)->fact = true;
}

static void print_group(const group *g, FILE *to)
{
    const char *verdict = g->bound < 0 ? "" : g->beyond ? "FAIL" : "ok";

    if (g->fact)
        fprintf(to, "  %-34s %ld of %ld equal%*s%-5s%s\n", g->name, g->n - g->beyond, g->n, 14, "",
                verdict, g->beyond ? g->where : "");
    else if (g->bound < 0)
        fprintf(to, "  %-34s %9.2e of %-9s %5ld %-5s%s\n", g->name, g->error, "-", g->n, verdict,
                g->where);
    else
        fprintf(to, "  %-34s %9.2e of %-9.1e %5ld %-5s%s\n", g->name, g->error, g->bound, g->n,
                verdict, g->where);
}

bool report_print(const report *r, FILE *to)
{
    bool good = r->n > 0;

    for (int i = 0; i < r->n; i++) {
        print_group(&r->v[i], to);
        good = good && !r->v[i].beyond;
    }
    return good;
}
