/* best.c: is there a score of the name that <checkpoint best="@coco.AP"> chooses by? Early stopping
 * waits for the same one. A class that lists its numbers is held to the list; of others only a run
 * knows. */
#include "proof/proof.h"

#include <string.h>

#include "graph/edit.h"
#include "graph/rule.h"

/* program: NULL: it could not be made, and whatever may come counts as there. */
static bool takes_key(const dg_program *program, const dg_node *node, const char *key)
{
    for (int i = 0; program && i < program->results.n; i++) {
        const dg_binding *r = &program->results.items[i];
        const char *dot = r->key ? strchr(r->key, '.') : NULL;

        if (r->kind == DG_RESULT_TAKEN && r->index == node->number && dot &&
            strcmp(dot + 1, key) == 0)
            return true;
    }
    return !program;
}

static bool row_holds(const dg_program *program, const dg_node *node, const dg_metric_row *row)
{
    return dg_rule_holds(node, false, &(dg_rule){ .when = row->when }) &&
           (!row->key || takes_key(program, node, row->key));
}

/* Adds a row to the list that people read: "AP/NAME" for "AP/?". */
static void add_row(dg_str *list, const dg_metric_row *row)
{
    dg_str_add(list, list->n ? ", " : "");
    for (const char *s = row->names; *s; s++)
        if (*s == '?')
            dg_str_add(list, "NAME");
        else
            dg_str_fmt(list, *s == ' ' ? ",%c" : "%c", *s);
}

/* Adds the names of one row for dg_nearest; those of categories have none of their own. */
static int add_names(dg_arena *a, const dg_metric_row *row, const char *names[], int n, int most)
{
    for (const char *s = row->names; *s && n < most;) {
        size_t len = strcspn(s, " ");

        if (len && s[len - 1] != '?')
            names[n++] = dg_strndup(a, s, len);
        s += len;
        s += strspn(s, " ");
    }
    return n;
}

/* Why a name that the class lists is no number of this pipeline. */
static void note_missing(const dg_node *node, const dg_metric_row *row, dg_diag *d)
{
    if (!dg_rule_holds(node, false, &(dg_rule){ .when = row->when }))
        dg_note(d, node->where, "it would with %s", row->when);
    else
        dg_note(d, node->where, "it would if what it reads had \"%s\"", row->key);
}

int dg_best_check(const dg_graph *g, const dg_program *program, dg_diag *d)
{
    enum { MOST = 128 };
    const dg_checkpoint_conf *c = &g->checkpoint;
    const dg_node *node = c->best;
    const char *names[MOST], *near;
    dg_str list = { 0 };
    const dg_metric_row *missing = NULL;
    int n = 0, rc;

    if (!node || !node->class->metrics)
        return 0;
    for (const dg_metric_row *row = node->class->metrics; row->names; row++) {
        bool in = dg_metric_listed(row, c->best_key);

        if (!row_holds(program, node, row)) {
            missing = in ? row : missing;
            continue;
        }
        if (in) {
            dg_str_free(&list);
            return 0;
        }
        add_row(&list, row);
        n = add_names(g->arena, row, names, n, MOST);
    }
    rc = dg_fail(d, DG_EINPUT, c->best_attr->value_at, "best-score",
                 "best=\"%s\": %s gives no number \"%s\"", c->best_attr->value,
                 dg_node_called(g->arena, node), c->best_key);
    if (missing)
        note_missing(node, missing, d);
    if (list.n)
        dg_note(d, missing ? DG_NOWHERE : node->where, "it gives %s", list.s);
    near = dg_nearest(c->best_key, names, n);
    if (n)
        dg_help(d, "%s",
                dg_edit_instead(g, c->best_attr,
                                dg_printf(g->arena, "@%s.%s", node->id, near ? near : names[0])));
    dg_str_free(&list);
    return rc;
}
