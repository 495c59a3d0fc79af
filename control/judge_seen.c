/* judge_seen.c: compares digests of values that are declared equal on all ranks, as they arrive. A
 * rank may be a batch ahead, and reports a batch in parts: for any two ranks, whatever both have
 * reported of the same batch is compared. */
#include "control/judge_internal.h"

#include <stdlib.h>
#include <string.h>

void dg_judge_keep_monitors(dg_judge *r, const dg_rows *facts)
{
    dg_row *v = DG_NEW_N(r->arena, facts->n + 1, dg_row);
    int n = 0;

    for (int i = 0; i < facts->n; i++)
        if (facts->v[i].tag == DG_ROW_MONITOR)
            v[n++] = (dg_row){ DG_ROW_MONITOR, dg_strdup(r->arena, facts->v[i].name),
                               dg_strdup(r->arena, facts->v[i].value) };
    if (n)
        r->monitors = (dg_rows){ n, v };
}

static bool same_batch(const dg_judge_sight *a, const dg_judge_sight *b)
{
    return a->digests && b->digests && a->scope == b->scope && a->step == b->step &&
           a->batch == b->batch;
}

/* The digests of rank i for that batch, or NULL. */
static const dg_judge_sight *sight_of(const dg_judge *r, int i, const dg_judge_sight *batch)
{
    for (int k = 0; k < 2; k++)
        if (same_batch(&r->ranks[i].seen[k], batch))
            return &r->ranks[i].seen[k];
    return NULL;
}

/* The first monitor that both have reported, with different digests; -1: none. */
static int find_difference(const dg_judge *r, const dg_judge_sight *a, const dg_judge_sight *b)
{
    for (int i = 0; b && i < r->monitors.n; i++)
        if (a->digests[i] && b->digests[i] && a->digests[i] != b->digests[i])
            return i;
    return -1;
}

static dg_judge_sight *keep_sight(dg_judge *r, dg_judge_rank *k, const dg_sight *s)
{
    dg_judge_sight *to = &k->seen[0];
    dg_judge_sight new = { s->scope, s->step, s->batch, k->seen[1].digests };

    if (!to->digests || to->scope != s->scope || to->step != s->step || to->batch != s->batch) {
        if (!new.digests)
            new.digests = DG_NEW_N(k->kept, r->monitors.n, uint64_t);
        memset(new.digests, 0, (size_t)r->monitors.n * sizeof *new.digests);
        k->seen[1] = *to;
        *to = new;
    }
    for (int i = 0; i < s->digests.n; i++)
        if (s->digests.v[i])
            to->digests[i] = s->digests.v[i];
    return to;
}

/* Keeps rank i's digest of the broken monitor; the first report counts. */
static void keep_digest(dg_judge *r, int i, const dg_judge_sight *s)
{
    if (s && !r->broken_digests[i])
        r->broken_digests[i] = s->digests[r->broken];
}

void dg_judge_take_seen(dg_judge *r, int i, const dg_sight *s, double now)
{
    const dg_judge_sight *mine;

    if (!s->digests.n || s->digests.n != r->monitors.n)
        return;
    mine = keep_sight(r, &r->ranks[i], s);
    if (r->broken >= 0) { /* further ranks help to tell which of the two is the odd one */
        keep_digest(r, i, same_batch(mine, &r->broken_in) ? mine : NULL);
        return;
    }
    for (int k = 0; k < r->conf.ranks && r->broken < 0; k++)
        r->broken = k == i ? -1 : find_difference(r, mine, sight_of(r, k, mine));
    if (r->broken < 0)
        return;
    r->differ_s = now + DG_SETTLE_S;
    r->broken_in = *mine;
    r->broken_digests = DG_NEW_N(r->arena, r->conf.ranks, uint64_t);
    for (int k = 0; k < r->conf.ranks; k++)
        keep_digest(r, k, sight_of(r, k, mine));
}

/* ---- the verdict ----------------------------------------------------------------------------- */

static int votes(const dg_judge *r, int i)
{
    int n = 0;

    for (int k = 0; k < r->conf.ranks; k++)
        n += r->broken_digests[k] == r->broken_digests[i];
    return n;
}

/* Parses the position after the line break: "train.xml:31:5". */
static dg_where place_of(dg_judge *r, const dg_row *row)
{
    const char *text = strchr(row->value, '\n'), *node = strchr(row->name, '"');
    dg_where at = DG_NOWHERE;
    char *file, *colon;

    if (!text || !node)
        return at;
    file = dg_strdup(r->arena, text + 1);
    at.node = dg_strndup(r->arena, node + 1, strcspn(node + 1, "\""));
    for (int i = 0; i < 2 && (colon = strrchr(file, ':')); i++) {
        *colon = '\0';
        *(i ? &at.line : &at.column) = atoi(colon + 1);
    }
    at.file = file;
    return at;
}

static const char *way_out(const dg_row *row)
{
    static const char *const ways[][2] = {
        { "value ",
          "the tables of its class do not say that it may differ: say so there (DG_PORT_VARIES, a "
          "row DG_RULE_VALUE), and "
          "validate shows what then goes wrong; or make it alike with <broadcast> or <agree>" },
        { "count ", "the tables of its class do not say that the number of its items may differ: "
                    "say so there (a row DG_RULE_RATE), and "
                    "validate shows what then goes wrong; or make them equal with <equalize>" },
        { "size ", "the tables of its class do not say that sizes may differ: say so there (a row "
                   "DG_RULE_DIMS), and validate shows "
                   "what then goes wrong" },
    };

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strncmp(row->name, ways[i][0], strlen(ways[i][0])) == 0)
            return ways[i][1];
    return "its guard hangs on something that differs, and that the proof took for alike: "
           "detrgraph plan FILE --monitors lists what is "
           "taken on trust";
}

void dg_judge_compare_seen(dg_judge *r)
{
    const dg_row *row = &r->monitors.v[r->broken];
    int odd = -1, other = 0;
    char name[160], other_name[160];
    dg_str s = { 0 };
    bool tie;

    for (int i = r->conf.ranks - 1; i >= 0; i--)
        if (r->broken_digests[i] && (odd < 0 || votes(r, i) < votes(r, odd)))
            odd = i;
    while (other < r->conf.ranks - 1 &&
           (!r->broken_digests[other] || r->broken_digests[other] == r->broken_digests[odd]))
        other++; /* exists, because two different digests were kept */
    tie = votes(r, odd) == votes(r, other);
    dg_str_fmt(&s, "%s", dg_judge_name(r, odd, name, sizeof name));
    if (tie)
        dg_str_fmt(&s, " or %s", dg_judge_name(r, other, other_name, sizeof other_name));
    dg_str_fmt(&s, " broke a contract %s %lld: %s %s, %.*s",
               r->broken_in.scope ? "in an evaluation after step" : "at step",
               (long long)r->broken_in.step + !r->broken_in.scope, row->name,
               tie ? "differs between them"
                   : dg_printf(r->arena, "is not what it is on rank %d", other),
               (int)strcspn(row->value, "\n"), row->value);
    dg_judge_add_saved(r, &s);
    dg_fail(r->verdict, DG_EINTERNAL, place_of(r, row), "contract-differs", "%s", s.s);
    dg_judge_note_peers(r, -1);
    dg_help(r->verdict, "%s", way_out(row));
    dg_judge_fail(r, false);
    dg_str_free(&s);
}

/* Adds "ranks 0-2 at step 12 in node "train/sync", waiting for other ranks", ... */
void dg_judge_note_peers(dg_judge *r, int who)
{
    dg_str all = { 0 }, own = { 0 }, next = { 0 };
    int first = 0;

    for (int i = 0; i < r->conf.ranks; i++)
        dg_judge_look(r, i);
    for (int i = 0; i <= r->conf.ranks; i++) {
        next.n = 0;
        dg_str_add(&next, "");
        if (i < r->conf.ranks)
            dg_judge_add_where(&next, &r->ranks[i]);
        if (i > first && (i == r->conf.ranks || i == who || strcmp(next.s, own.s) != 0)) {
            dg_str_fmt(&all, "%srank%s %d", all.n ? ", " : "", i - first > 1 ? "s" : "", first);
            if (i - first > 1)
                dg_str_fmt(&all, "-%d", i - 1);
            dg_str_add(&all, own.n ? own.s : " not in a node");
            first = i;
        }
        if (i == who)
            first = i + 1;
        if (i == first) {
            own.n = 0;
            dg_str_add(&own, next.s);
        }
    }
    if (who >= 0) /* otherwise the error itself has it */
        dg_judge_add_saved(r, &all);
    if (all.n)
        dg_note(r->verdict, DG_NOWHERE, "stopped: %s", all.s);
    dg_str_free(&all);
    dg_str_free(&own);
    dg_str_free(&next);
}
