/* fuzz_cover.c: counts in how many accepted and rejected pipelines each class, each word of an
 * attribute, each use of a guard and each code was seen. */
#include "tests/invariance/fuzz_cover.h"

#include <math.h>
#include <string.h>

enum { ACCEPTED = 1, REJECTED = 2, BOTH = 3 };

static void see(fz_cover *c, const fz_opinion *o, int sides, bool there, const char *name)
{
    if (c->at == (int)(sizeof c->row / sizeof *c->row))
        return;
    if (c->at == c->n) {
        snprintf(c->row[c->n].name, sizeof c->row->name, "%s", name);
        c->row[c->n++].sides = sides;
    }
    c->row[c->at++].seen[o->codes != 0] += there;
}

static void see_classes(fz_cover *c, const fz_model *m, const fz_opinion *o)
{
    bool there[FZ_N_OPS] = { false };

    for (int i = 0; i < m->n_nodes; i++)
        there[m->node[i].op] |= !m->node[i].dead;
    for (int op = 0; op < FZ_N_OPS; op++)
        see(c, o, BOTH, there[op], fz_classes[op].name);
}

/* Does a live node give the attribute, and (word not FZ_NONE) as this word? */
static bool given(const fz_model *m, const fz_attr *a, int word)
{
    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];
        const void *field = (const char *)n + a->at;

        if (n->dead || (a->ops ? !(a->ops >> n->op & 1) : n->op == FZ_INPUT))
            continue;
        if (a->kind == FZ_NUM ? !isnan(*(const double *)field)
            : word == FZ_NONE ? *(const int *)field != FZ_NONE
                              : *(const int *)field == word)
            return true;
    }
    return false;
}

static void see_words(fz_cover *c, const fz_model *m, const fz_opinion *o)
{
    static const char *const axes[] = { "", "dp", "tp", "dp+tp" };
    char name[48];

    for (const fz_attr *a = fz_attrs; a->name; a++) {
        const char *word = a->kind == FZ_WORD ? a->words : "";

        if (strcmp(a->name, "freeze_norm") == 0)
            continue; /* needs a file of weights */
        for (int k = 0; *word; k++, word += strcspn(word, "|"), word += *word == '|') {
            snprintf(name, sizeof name, "%s=%.*s", a->name, (int)strcspn(word, "|"), word);
            see(c, o, BOTH, given(m, a, k), name);
        }
        for (int axis = FZ_DP; a->kind == FZ_AXIS && axis <= (FZ_DP | FZ_TP); axis++) {
            snprintf(name, sizeof name, "%s=%s", a->name, axes[axis]);
            see(c, o, BOTH, given(m, a, axis), name);
        }
        if (a->kind != FZ_WORD && a->kind != FZ_AXIS)
            see(c, o, BOTH, given(m, a, FZ_NONE), a->name);
    }
}

typedef enum kind { STREAM, NUMBER, LAYER, COLLECTIVE, GRADIENT, STATE, CONTROL, SINK, KINDS } kind;
static const char *const kinds[KINDS] = { "data",      "a number", "a layer", "a collective",
                                          "gradients", "state",    "control", "a sink" };

static kind kind_of(const fz_node *n)
{
    uint32_t flags = fz_classes[n->op].flags;

    return flags & FZ_DATA                                             ? STREAM
           : flags & FZ_COLLECTIVE                                     ? COLLECTIVE
           : flags & FZ_SCALAR                                         ? NUMBER
           : flags & FZ_TENSOR_OP                                      ? LAYER
           : n->op == FZ_BACKWARD                                      ? GRADIENT
           : n->op == FZ_ADAMW || n->op == FZ_EMA                      ? STATE
           : n->op == FZ_LOG || n->op == FZ_METRIC || n->op == FZ_COCO ? SINK
                                                                       : CONTROL;
}

/* Guards by what they guard, collectives by their operand. */
static void see_uses(fz_cover *c, const fz_model *m, const fz_opinion *o)
{
    bool guarded[KINDS] = { false }, joined[KINDS] = { false };
    bool key = false, record = false, again = false;
    char name[48];
    int used[4] = { 0 };

    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (n->dead)
            continue;
        guarded[kind_of(n)] |= n->when.node != FZ_NONE;
        again |= n->op == FZ_USE && n->scope == FZ_IN_TRAIN && used[n->model]++;
        for (int k = 0; k < n->n_in; k++) {
            if (n->in[k].node == FZ_NONE)
                continue;
            key |= n->in[k].key != FZ_NONE;
            if (fz_classes[n->op].flags & FZ_COLLECTIVE) {
                const fz_node *from = &m->node[n->in[k].node];

                joined[from->op == FZ_BATCH ? LAYER : kind_of(from)] = true;
                record |= m->node[n->in[k].node].op == FZ_RECORD;
            }
        }
    }
    for (int k = 0; k < KINDS; k++) {
        snprintf(name, sizeof name, "when, on %s", kinds[k]);
        see(c, o, BOTH, guarded[k], name);
    }
    for (int k = STREAM; k <= GRADIENT; k++) {
        snprintf(name, sizeof name, "a collective of %s", kinds[k]);
        see(c, o, k == STREAM ? REJECTED : BOTH, joined[k], name);
    }
    see(c, o, BOTH, record, "a collective of a record");
    see(c, o, BOTH, key, "a key of a record");
    see(c, o, BOTH, again, "a model used twice");
}

static void see_pipeline(fz_cover *c, const fz_model *m, const fz_opinion *o)
{
    see(c, o, ACCEPTED, m->dp == 1, "mesh dp=1");
    see(c, o, BOTH, m->dp == 3, "mesh dp=3");
    see(c, o, BOTH, m->dp == 4, "mesh dp=4");
    see(c, o, BOTH, m->tp == 2, "mesh tp=2");
    see(c, o, BOTH, m->tp == 3, "mesh tp=3");
    see(c, o, BOTH, m->dp * m->tp > 4, "mesh of 6 or 8 ranks");
    see(c, o, BOTH, m->accumulate > 1, "train accumulate");
    see(c, o, ACCEPTED, m->peer == FZ_REWRITTEN, "the same graph in two files");
    see(c, o, REJECTED, m->peer >= 0, "another graph on one rank");
    see(c, o, BOTH, m->steps > 0, "train steps");
    see(c, o, BOTH, m->steps == 0, "train epochs");
    see(c, o, BOTH, m->on_fail == FZ_ABORT, "train on_fail=abort");
    see(c, o, BOTH, m->on_fail == FZ_VOTE, "train on_fail=vote");
    see(c, o, BOTH, m->patience > 0, "train patience, in epochs");
    see(c, o, BOTH, m->patience_minutes > 0, "train patience, in minutes");
    see(c, o, BOTH, m->evaluates && m->every_epochs, "evaluate every, in epochs");
    see(c, o, BOTH, m->evaluates && m->every_steps, "evaluate every, in steps");
    see(c, o, BOTH, m->evaluates && m->every_minutes, "evaluate every, in minutes");
    see(c, o, BOTH, m->evaluates && m->eval_on != FZ_NONE, "evaluate on");
    see(c, o, BOTH, m->best.node != FZ_NONE, "checkpoint best");
}

void fz_cover_count(fz_cover *c, const fz_model *m, const fz_opinion *o)
{
    c->at = 0;
    see_classes(c, m, o);
    see_words(c, m, o);
    see_uses(c, m, o);
    see_pipeline(c, m, o);
    for (int i = 0; i < FZ_CODES; i++)
        see(c, o, REJECTED, o->codes >> i & 1, fz_codes[i]);
    for (int i = 0; i < FZ_WARNINGS; i++)
        see(c, o, ACCEPTED, o->warnings >> i & 1, fz_warnings[i]);
}

bool fz_cover_print(const fz_cover *c)
{
    bool all = true;

    printf("# %-30s %8s %8s\n", "drawn", "accepted", "rejected");
    for (int i = 0; i < c->n; i++) {
        bool lacks = (c->row[i].sides & ACCEPTED && !c->row[i].seen[0]) ||
                     (c->row[i].sides & REJECTED && !c->row[i].seen[1]);

        printf("# %-30s %8d %8d%s\n", c->row[i].name, c->row[i].seen[0], c->row[i].seen[1],
               lacks ? "  never" : "");
        all &= !lacks;
    }
    return all;
}
