/* facts.c: see facts.h. */
#include "control/facts.h"

#include <string.h>

const char dg_fact_rate[] = "learning rate that was set";

static size_t compared_bytes(const char *value)
{
    return strcspn(value, "\n");
}

static bool values_equal(const dg_row *a, const dg_row *b)
{
    size_t n = compared_bytes(a->value);

    return strcmp(a->name, b->name) == 0 && n == compared_bytes(b->value) &&
           memcmp(a->value, b->value, n) == 0;
}

/* " (b.xml:20:5)", or "" */
static const char *place_text(dg_arena *a, const char *value)
{
    const char *p = strchr(value, '\n');

    return p ? dg_printf(a, " (%s)", p + 1) : "";
}

static int report_difference(int i, const char *const *hosts, const dg_row *mine,
                             const dg_row *first, dg_diag *d)
{
    static const dg_row nothing = { DG_ROW_SAME, "nothing", "" };
    dg_arena *a = dg_arena_open();
    int rc;

    mine = mine ? mine : &nothing;
    first = first ? first : &nothing;
    if (strcmp(mine->name, first->name) != 0)
        rc =
            dg_fail(d, DG_EINPUT, DG_NOWHERE, "DG-DIGEST",
                    "rank %d (%s) has %s%s where rank 0 (%s) has %s%s", i, hosts[i], mine->name,
                    place_text(a, mine->value), hosts[0], first->name, place_text(a, first->value));
    else
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "DG-DIGEST",
                     "%s: rank %d (%s) has %.*s%s, rank 0 (%s) has %.*s%s", mine->name, i, hosts[i],
                     (int)compared_bytes(mine->value), mine->value, place_text(a, mine->value),
                     hosts[0], (int)compared_bytes(first->value), first->value,
                     place_text(a, first->value));
    dg_help(d,
            "every rank needs the same program, pipeline, data and options; nothing was trained");
    dg_arena_close(&a);
    return rc;
}

static int check_distinct(const dg_rows *facts, int ranks, int row, const char *const *hosts,
                          dg_diag *d)
{
    for (int i = 1; i < ranks; i++)
        for (int k = 0; k < i; k++)
            if (row < facts[i].n && row < facts[k].n &&
                values_equal(&facts[i].v[row], &facts[k].v[row]))
                return dg_fail(d, DG_EINPUT, DG_NOWHERE, "DG-DEVICE",
                               "ranks %d (%s) and %d (%s) have the same %s: %s", k, hosts[k], i,
                               hosts[i], facts[i].v[row].name, facts[i].v[row].value);
    return 0;
}

int dg_facts_compare(const dg_rows *facts, int ranks, const char *const *hosts, dg_diag *d)
{
    int most = 0, rc = 0;

    for (int i = 0; i < ranks; i++)
        most = facts[i].n > most ? facts[i].n : most;
    for (int row = 0; row < most && rc == 0; row++) {
        const dg_row *first = row < facts[0].n ? &facts[0].v[row] : NULL;

        if (first && first->tag == DG_ROW_DISTINCT) {
            rc = check_distinct(facts, ranks, row, hosts, d);
            continue;
        }
        for (int i = 1; i < ranks && rc == 0; i++) {
            const dg_row *mine = row < facts[i].n ? &facts[i].v[row] : NULL;

            if (!mine || !first || !values_equal(mine, first))
                rc = report_difference(i, hosts, mine, first, d);
        }
    }
    return rc;
}
