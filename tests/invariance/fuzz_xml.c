/* fuzz_xml.c: a model as the text of a pipeline, and back. The reader knows what the writer
 * writes and what people write by hand in that language; it says so when it meets anything else. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_model.h"

/* ---- writing --------------------------------------------------------------------------------- */

static bool has(const fz_attr *a, int op)
{
    return a->ops ? a->ops >> op & 1 : op != FZ_INPUT;
}

static void write_word(FILE *to, const char *words, int k)
{
    while (k-- > 0)
        words = strchr(words, '|') + 1;
    fprintf(to, "%.*s", (int)strcspn(words, "|"), words);
}

static const char *axis_text(int axis)
{
    return axis == FZ_DP ? "dp" : axis == FZ_TP ? "tp" : "dp+tp";
}

static void write_wire(FILE *to, const fz_model *m, const char *name, int len, fz_wire w)
{
    const fz_node *from = &m->node[w.node];
    const char *port;
    int n = fz_word(fz_classes[from->op].outs, w.port, &port);

    fprintf(to, " %.*s=\"@%s", len, name, from->id);
    if (w.key != FZ_NONE || strchr(fz_classes[from->op].outs, ' '))
        fprintf(to, ".%.*s", n, port);
    if (w.key != FZ_NONE)
        fprintf(to, ".%s", m->node[fz_record_of(m, w.node)].name[w.key]);
    fputc('"', to);
}

static void write_attr(FILE *to, const fz_attr *a, const fz_node *n)
{
    const void *field = (const char *)n + a->at;
    int word = *(const int *)field;

    if (a->kind == FZ_NUM) {
        if (!isnan(*(const double *)field))
            fprintf(to, " %s=\"%g\"", a->name, *(const double *)field);
        return;
    }
    if (word == FZ_NONE)
        return;
    fprintf(to, " %s=\"", a->name);
    switch (a->kind) {
    case FZ_WORD:
        write_word(to, a->words, word);
        break;
    case FZ_AXIS:
        fputs(axis_text(word), to);
        break;
    case FZ_SIZES:
        fputs(fz_sizes[word], to);
        break;
    case FZ_BUDGET:
        fprintf(to, "%d min", word);
        break;
    default:
        fprintf(to, "%d", word);
    }
    fputc('"', to);
}

/* What a class needs and no model changes. */
static const char *constant(int op)
{
    switch (op) {
    case FZ_LOADER:
        return " width=\"64\" height=\"64\"";
    case FZ_FILE:
        return " path=\"flag\"";
    case FZ_BATCH:
        return " max_objects=\"8\"";
    case FZ_DENOISING:
        return " classes=\"3\" count=\"4\"";
    case FZ_BACKBONE:
        return " depth=\"18\"";
    case FZ_ENCODER:
        return " width=\"16\" ffn=\"16\" heads=\"2\"";
    case FZ_DECODER:
        return " classes=\"3\" queries=\"4\" layers=\"1\" width=\"16\" ffn=\"16\" heads=\"2\"";
    case FZ_DETECT:
        return " most=\"4\"";
    default:
        return "";
    }
}

static void write_node(FILE *to, const fz_model *m, int i)
{
    const fz_node *n = &m->node[i];
    const char *name;

    fprintf(to, "    <%s", fz_classes[n->op].name);
    if (n->op != FZ_SKIP && n->op != FZ_STOP)
        fprintf(to, " id=\"%s\"", n->id);
    if (n->op == FZ_USE)
        fprintf(to, " model=\"%s\"", m->model_id[n->model]);
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k].node == FZ_NONE)
            continue;
        if (fz_classes[n->op].flags & FZ_ANY_NAMES) {
            write_wire(to, m, n->name[k], FZ_ID, n->in[k]);
        } else if (n->op == FZ_USE) {
            write_wire(to, m, m->node[fz_model_input(m, n->model, k)].id, FZ_ID, n->in[k]);
        } else {
            int len = fz_word(fz_classes[n->op].ins, k, &name);

            write_wire(to, m, name, len - (name[len - 1] == '?'), n->in[k]);
        }
    }
    if (n->when.node != FZ_NONE)
        write_wire(to, m, "when", 4, n->when);
    for (const fz_attr *a = fz_attrs; a->name; a++)
        if (has(a, n->op))
            write_attr(to, a, n);
    fprintf(to, "%s/>\n", constant(n->op));
}

static void write_scope(FILE *to, const fz_model *m, int scope)
{
    for (int i = 0; i < m->n_nodes; i++)
        if (m->node[i].scope == scope && !m->node[i].dead)
            write_node(to, m, i);
}

static void write_mesh(FILE *to, const fz_model *m)
{
    fprintf(to, "  <mesh dp=\"%d\"", m->dp);
    if (m->tp > 1)
        fprintf(to, " tp=\"%d\"", m->tp);
    fputs("/>\n", to);
}

void fz_write(FILE *to, const fz_model *m)
{
    static const char *const fail[] = { "abort", "vote" };

    fputs("<pipeline version=\"1\">\n", to);
    write_mesh(to, m);
    for (int k = 0; k < m->n_models; k++) {
        fprintf(to, "  <model id=\"%s\">\n", m->model_id[k]);
        write_scope(to, m, FZ_IN_MODEL + k);
        fputs("  </model>\n", to);
    }
    fprintf(to, "  <train %s=\"%d\"", m->steps ? "steps" : "epochs",
            m->steps ? m->steps : m->epochs);
    if (m->accumulate > 1)
        fprintf(to, " accumulate=\"%d\"", m->accumulate);
    if (m->on_fail != FZ_NONE)
        fprintf(to, " on_fail=\"%s\"", fail[m->on_fail]);
    if (m->patience)
        fprintf(to, " patience=\"%d epoch\"", m->patience);
    else if (m->patience_minutes)
        fprintf(to, " patience=\"%d min\"", m->patience_minutes);
    fputs(">\n", to);
    write_scope(to, m, FZ_IN_TRAIN);
    fputs("  </train>\n", to);
    if (m->evaluates) {
        fprintf(to, "  <evaluate");
        if (m->every_minutes)
            fprintf(to, " every=\"%d min\"", m->every_minutes);
        else if (m->every_steps)
            fprintf(to, " every=\"%d steps\"", m->every_steps);
        else
            fprintf(to, " every=\"%d epoch\"", m->every_epochs);
        if (m->eval_on != FZ_NONE)
            fprintf(to, " on=\"%d\"", m->eval_on);
        if (m->eval_budget)
            fprintf(to, " budget=\"%d min\"", m->eval_budget);
        fputs(">\n", to);
        write_scope(to, m, FZ_IN_EVALUATE);
        fputs("  </evaluate>\n", to);
    }
    if (m->best.node != FZ_NONE)
        fprintf(to, "  <checkpoint every=\"1 epoch\" best=\"@%s.%s\"/>\n", m->node[m->best.node].id,
                m->node[m->best.node].op == FZ_COCO ? "AP" : "score");
    fputs("</pipeline>\n", to);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    fz_model *m;
    const char *at;
    char *why;
    size_t n;
    bool bad;
    int scope, skip;   /* skip: depth inside an element whose children mean nothing here */
    char later[FZ_ID]; /* of best="@id.key" */
} reader;

typedef struct pair {
    char name[FZ_ID], value[64];
} pair;
typedef struct tag {
    char name[32];
    int n;
    pair a[16];
    bool closes, empty;
} tag;

static void refuse(reader *r, const char *what, const char *which)
{
    if (!r->bad)
        snprintf(r->why, r->n, "%s: %.60s", what, which);
    r->bad = true;
}

static void take(char *to, size_t n, const char *from, size_t len)
{
    snprintf(to, n, "%.*s", (int)len, from);
}

/* The next tag; false at the end. */
static bool next(reader *r, tag *t)
{
    const char *p = r->at;

    memset(t, 0, sizeof *t);
    for (;; p = strstr(p, "-->") + 3) {
        p = strchr(p, '<');
        if (!p)
            return false;
        if (strncmp(p, "<!--", 4) != 0 || !strstr(p, "-->"))
            break;
    }
    p++;
    t->closes = *p == '/';
    p += t->closes;
    take(t->name, sizeof t->name, p, strcspn(p, " \n\t/>"));
    for (p += strcspn(p, " \n\t/>"); *p && *p != '>';) {
        size_t name, value;

        p += strspn(p, " \n\t");
        if (*p == '/') {
            t->empty = true;
            p++;
            continue;
        }
        name = strcspn(p, "=\n\t >");
        if (p[name] != '=' || p[name + 1] != '"' || t->n == 16)
            break;
        value = strcspn(p + name + 2, "\"");
        take(t->a[t->n].name, FZ_ID, p, name);
        take(t->a[t->n++].value, sizeof t->a->value, p + name + 2, value);
        p += name + 2 + value;
        p += *p == '"';
    }
    r->at = *p ? p + 1 : p;
    return true;
}

static int number_of(const char *words, const char *value)
{
    size_t n = strlen(value);

    for (int k = 0;; k++) {
        size_t len = strcspn(words, "|");

        if (len == n && strncmp(words, value, n) == 0)
            return k;
        if (!words[len])
            return FZ_NONE;
        words += len + 1;
    }
}

static int axis_of(const char *v)
{
    return strcmp(v, "dp") == 0 ? FZ_DP : strcmp(v, "tp") == 0 ? FZ_TP : FZ_DP | FZ_TP;
}

static int node_by_id(const reader *r, const char *id, size_t n)
{
    for (int i = r->m->n_nodes - 1; i >= 0; i--)
        if (r->m->node[i].scope == r->scope && strlen(r->m->node[i].id) == n &&
            strncmp(r->m->node[i].id, id, n) == 0)
            return i;
    return FZ_NONE;
}

static fz_wire wire_of(reader *r, const char *value)
{
    fz_wire w = { FZ_NONE, 0, FZ_NONE };
    size_t n = strcspn(value + 1, ".");
    const char *rest = value + 1 + n, *port, *key;
    int len, record;

    w.node = node_by_id(r, value + 1, n);
    if (w.node == FZ_NONE) {
        refuse(r, "no such wire", value);
        return w;
    }
    rest += *rest == '.';
    /* the longest port name that fits; what follows is a key */
    for (int k = 0, best = 0;
         *rest && (len = fz_word(fz_classes[r->m->node[w.node].op].outs, k, &port)); k++)
        if (len > best && strncmp(rest, port, (size_t)len) == 0 &&
            (!rest[len] || rest[len] == '.')) {
            w.port = k;
            best = len;
        }
    if (*rest) {
        len = fz_word(fz_classes[r->m->node[w.node].op].outs, w.port, &port);
        key = strncmp(rest, port, (size_t)len) == 0 && (!rest[len] || rest[len] == '.') ? rest + len
                                                                                        : rest;
        key += *key == '.';
        if (*key) {
            record = fz_record_of(r->m, w.node);
            for (int k = 0; record != FZ_NONE && k < r->m->node[record].n_in; k++)
                if (strcmp(r->m->node[record].name[k], key) == 0)
                    w.key = k;
            if (w.key == FZ_NONE)
                refuse(r, "no such key", value);
        }
    }
    return w;
}

static bool ignored(const char *name)
{
    static const char *const known[] = {
        "width",     "height",    "path",    "max_objects", "classes", "count", "depth",
        "ffn",       "heads",     "queries", "layers",      "most",    "lr",    "weight_decay",
        "clip",      "decay",     "warmup",  "eval_size",   "root",    "split", "min_objects",
        "per_class", "freeze_at", "points",  "seed",        NULL
    };

    for (int i = 0; known[i]; i++)
        if (strcmp(known[i], name) == 0)
            return true;
    return false;
}

static bool read_word(reader *r, fz_node *n, const pair *p)
{
    for (const fz_attr *a = fz_attrs; a->name; a++) {
        void *field = (char *)n + a->at;
        int k = FZ_NONE;

        if (strcmp(a->name, p->name) != 0 || !has(a, n->op))
            continue;
        switch (a->kind) {
        case FZ_NUM:
            *(double *)field = atof(p->value);
            return true;
        case FZ_WORD:
            k = number_of(a->words, p->value);
            break;
        case FZ_AXIS:
            k = axis_of(p->value);
            break;
        case FZ_SIZES:
            for (int s = 0; s < 4; s++)
                if (strcmp(fz_sizes[s], p->value) == 0)
                    k = s;
            if (k == FZ_NONE)
                k = strchr(p->value, 'x') ? 2 : strpbrk(p->value, ",:") ? 1 : 0;
            break;
        default:
            k = atoi(p->value);
        }
        if (k == FZ_NONE)
            refuse(r, a->name, p->value);
        *(int *)field = k;
        return true;
    }
    return false;
}

static void read_input(reader *r, fz_node *n, const pair *p)
{
    int k = FZ_NONE;

    if (strcmp(p->name, "when") == 0) {
        n->when = wire_of(r, p->value);
        return;
    }
    if (fz_classes[n->op].flags & FZ_ANY_NAMES) {
        if (n->n_in == FZ_IN) {
            refuse(r, "too many inputs", n->id);
            return;
        }
        k = n->n_in++;
        take(n->name[k], FZ_ID, p->name, FZ_ID - 1);
    } else if (n->op == FZ_USE) {
        for (int i = 0, at; (at = fz_model_input(r->m, n->model, i)) != FZ_NONE; i++)
            if (strcmp(r->m->node[at].id, p->name) == 0)
                k = i;
    } else {
        k = fz_input_named(n->op, p->name);
    }
    if (k == FZ_NONE)
        refuse(r, "no such input", p->name);
    else
        n->in[k] = wire_of(r, p->value);
}

static const char *get(const tag *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->a[i].name, name) == 0)
            return t->a[i].value;
    return NULL;
}

static void read_node(reader *r, const tag *t, int op)
{
    fz_node *n = fz_model_add(r->m, op, r->scope);
    const char *v;

    if (!n) {
        refuse(r, "too many nodes", t->name);
        return;
    }
    if ((v = get(t, "id")))
        take(n->id, FZ_ID, v, FZ_ID - 1);
    if ((v = get(t, "model")))
        for (int k = 0; k < r->m->n_models; k++)
            if (strcmp(r->m->model_id[k], v) == 0)
                n->model = k;
    if (op == FZ_USE && n->model == FZ_NONE) {
        refuse(r, "no such model", t->name);
        return;
    }
    for (int i = 0; i < t->n; i++) {
        const pair *p = &t->a[i];

        if (strcmp(p->name, "id") == 0 || strcmp(p->name, "model") == 0)
            continue;
        if (p->value[0] == '@')
            read_input(r, n, p);
        else if (!read_word(r, n, p) && !ignored(p->name))
            refuse(r, "unknown attribute", p->name);
    }
    if (!t->empty)
        r->skip = 1;
}

static void read_mesh(reader *r, const tag *t)
{
    fz_model *m = r->m;
    const char *v;

    m->dp = (v = get(t, "dp")) && strcmp(v, "ranks") != 0 ? atoi(v) : 2;
    m->tp = (v = get(t, "tp")) ? atoi(v) : 1;
    if (get(t, "order") || get(t, "devices") || get(t, "share_gpu"))
        refuse(r, "a word that is left out", t->name);
}

static void read_scope(reader *r, const tag *t)
{
    fz_model *m = r->m;
    const char *v;

    if (strcmp(t->name, "model") == 0) {
        if (m->n_models == 4) {
            refuse(r, "too many models", "");
            return;
        }
        r->scope = FZ_IN_MODEL + m->n_models;
        take(m->model_id[m->n_models++], FZ_ID, get(t, "id"), FZ_ID - 1);
    } else if (strcmp(t->name, "train") == 0) {
        r->scope = FZ_IN_TRAIN;
        /* a model has few items: a few steps show what many would */
        if ((v = get(t, "steps")))
            m->steps = atoi(v) < 12 ? atoi(v) : 12;
        m->epochs = (v = get(t, "epochs")) && atoi(v) < 3 ? atoi(v) : 3;
        if ((v = get(t, "accumulate")))
            m->accumulate = atoi(v) < 4 ? atoi(v) : 4;
        if ((v = get(t, "on_fail")))
            m->on_fail = number_of("abort|vote", v);
        if ((v && m->on_fail == FZ_NONE) || get(t, "capture"))
            refuse(r, "a word that is left out", t->name);
        if ((v = get(t, "patience"))) {
            *(strstr(v, "min") ? &m->patience_minutes : &m->patience) = 1;
            m->epochs = 5;
            m->steps = m->steps ? 30 : 0;
        }
    } else {
        r->scope = FZ_IN_EVALUATE;
        if (m->evaluates++)
            refuse(r, "more than one", t->name);
        v = get(t, "every");
        m->every_minutes = v && strstr(v, "min") ? 1 : 0;
        m->every_steps = v && strstr(v, "step") ? 2 : 0;
        m->every_epochs = 1;
        if ((v = get(t, "on")))
            m->eval_on = atoi(v);
        if (m->eval_on != FZ_NONE && (m->patience || m->patience_minutes))
            refuse(r, "scores that one rank tells the others", "patience");
        m->eval_budget = get(t, "budget") != NULL;
    }
}

static void read_tag(reader *r, const tag *t)
{
    const char *v;

    if (strcmp(t->name, "mesh") == 0) {
        read_mesh(r, t);
    } else if (strcmp(t->name, "checkpoint") == 0) {
        if ((v = get(t, "best")))
            take(r->later, FZ_ID, v + 1, strcspn(v + 1, "."));
    } else if (strcmp(t->name, "model") == 0 || strcmp(t->name, "train") == 0 ||
               strcmp(t->name, "evaluate") == 0) {
        read_scope(r, t);
    } else if (strcmp(t->name, "loader.coco") == 0) {
        read_node(r, t, FZ_LOADER);
    } else if (strcmp(t->name, "pipeline") != 0) {
        for (int op = 0; op < FZ_N_OPS; op++)
            if (strcmp(fz_classes[op].name, t->name) == 0) {
                read_node(r, t, op);
                return;
            }
        refuse(r, "unknown element", t->name);
    }
}

bool fz_read(fz_model *m, const char *text, char *why, size_t n)
{
    reader r = { m, text, why, n, false, FZ_IN_TRAIN, 0, "" };
    tag t;

    fz_model_clear(m);
    m->dp = 1;
    while (!r.bad && next(&r, &t)) {
        if (r.skip)
            r.skip += t.closes ? -1 : !t.empty;
        else if (!t.closes)
            read_tag(&r, &t);
    }
    r.scope = FZ_IN_EVALUATE;
    if (r.later[0])
        m->best.node = node_by_id(&r, r.later, strlen(r.later));
    return !r.bad;
}
