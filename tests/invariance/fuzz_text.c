/* fuzz_text.c: see fuzz_text.h. */
#include "tests/invariance/fuzz_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_model.h"

typedef struct reader {
    fz_text *t;
    const char *at, *line;
} reader;

void *fz_grown(void *old, size_t bytes)
{
    void *grown = realloc(old, bytes);

    if (!grown)
        abort();
    return grown;
}

static void give_up(const reader *r)
{
    fprintf(stderr, "not understood: %.*s\n", (int)strcspn(r->line, "\n"), r->line);
    abort();
}

static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t h = 1;

    for (size_t i = 0; i < n; i++)
        h = fz_mix(h, (unsigned char)text[i]);
    return h | 1;
}

static bool take(reader *r, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

static fz_space space_named(reader *r)
{
    static const char *const names[] = {
        [FZ_P_SLAB] = "slab",       [FZ_P_WEIGHTS] = "weights", [FZ_P_GRADIENTS] = "gradients",
        [FZ_P_MOMENT1] = "moment1", [FZ_P_MOMENT2] = "moment2", [FZ_P_EMA] = "ema",
        [FZ_P_SPACES] = "report",   [FZ_P_IO] = "io",           [FZ_P_CONSTANTS] = "constants",
    };

    for (int i = 0; i <= FZ_P_CONSTANTS; i++)
        if (take(r, names[i]))
            return i == FZ_P_SPACES ? FZ_P_SLAB : (fz_space)i;
    give_up(r);
    return FZ_P_SLAB;
}

static fz_t_value *value_at(reader *r, int v)
{
    fz_text *t = r->t;

    if (v >= t->n_values) {
        int n = v + 256;

        t->value = fz_grown(t->value, (size_t)n * sizeof *t->value);
        memset(t->value + t->n_values, 0, (size_t)(n - t->n_values) * sizeof *t->value);
        t->n_values = n;
    }
    return &t->value[v];
}

/* "%20:f32[4,3]'name'@weights+256", as much of it as there is, or "-": 0. */
static int value(reader *r)
{
    fz_t_value *x;
    int v;

    if (take(r, "-"))
        return 0;
    if (!take(r, "%"))
        give_up(r);
    v = (int)strtol(r->at, (char **)&r->at, 10);
    x = value_at(r, v);
    if (take(r, ":")) {
        x->whole = *r->at == 'i';
        r->at += strcspn(r->at, "[");
        x->elements = 1;
        for (r->at++; *r->at != ']'; r->at += *r->at == ',')
            x->elements *= strtol(r->at, (char **)&r->at, 10);
        r->at++;
        if (take(r, "'"))
            r->at += strcspn(r->at, "'") + 1;
    }
    if (take(r, "@")) {
        x->space = space_named(r);
        x->offset = strtol(r->at, (char **)&r->at, 10);
    }
    return v;
}

static void attribute(fz_t_instr *in, const char *at)
{
    static const struct {
        const char *name;
        size_t at;
    } longs[] = {
        { "op", offsetof(fz_t_instr, how) },        { "axis", offsetof(fz_t_instr, axis) },
        { "root", offsetof(fz_t_instr, root) },     { "ranks", offsetof(fz_t_instr, ranks) },
        { "begin", offsetof(fz_t_instr, begin) },   { "end", offsetof(fz_t_instr, end) },
        { "bucket", offsetof(fz_t_instr, bucket) }, { "negate", offsetof(fz_t_instr, negate) },
    };
    size_t n = strcspn(at, "=");

    if (strncmp(at, "a=", 2) == 0)
        in->a = atof(at + 2);
    if (strncmp(at, "c=", 2) == 0)
        in->c = atof(at + 2);
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        if (strlen(longs[i].name) == n && strncmp(at, longs[i].name, n) == 0)
            *(long *)((char *)in + longs[i].at) = strtol(at + n + 1, NULL, 10);
}

static void operands(reader *r, fz_t_instr *in)
{
    fz_text *t = r->t;

    in->first_in = t->n_ins;
    while (strncmp(r->at, " %", 2) == 0 || strncmp(r->at, " - ", 3) == 0 ||
           strncmp(r->at, " -\n", 3) == 0) {
        int v;

        r->at++;
        v = value(r);
        t->in = fz_grown(t->in, (size_t)(t->n_ins + 1) * sizeof *t->in);
        t->in[t->n_ins++] = v;
        in->n_in++;
    }
}

/* "   26  %48:f32[2,4]@slab+0 = all_reduce %44 {op=0 ...} if %35 else %2 ...  ; net/b FILE:3:84" */
static void instruction(reader *r)
{
    fz_text *t = r->t;
    const char *end = r->line + strcspn(r->line, "\n"), *equals, *op, *node;
    fz_t_instr *in;

    t->instr = fz_grown(t->instr, (size_t)(t->n_instrs + 1) * sizeof *t->instr);
    in = &t->instr[t->n_instrs++];
    memset(in, 0, sizeof *in);
    (void)strtol(r->at, (char **)&r->at, 10);
    r->at += strspn(r->at, " ");
    equals = strstr(r->at, " = ");
    while (equals && equals < end && r->at < equals) {
        int v = value(r);

        if (in->n_out == FZ_T_OUTS)
            give_up(r);
        in->out[in->n_out++] = v;
        take(r, ", ");
    }
    r->at += equals && equals < end ? 3 : 0;
    op = r->at;
    r->at += strcspn(r->at, " \n");
    snprintf(in->op, sizeof in->op, "%.*s", (int)(r->at - op), op);
    in->what = hash_of(op, (size_t)(r->at - op));
    operands(r, in);
    if (take(r, " {")) {
        size_t n = strcspn(r->at, "}");

        in->what = fz_mix(in->what, hash_of(r->at, n));
        for (const char *p = r->at; p < r->at + n; p += strcspn(p, " }") + 1)
            attribute(in, p);
        r->at += n + 1;
    }
    if (take(r, " if %"))
        in->guard = (int)strtol(r->at, (char **)&r->at, 10);
    if (take(r, " else %"))
        in->otherwise = (int)strtol(r->at, (char **)&r->at, 10);
    node = strstr(r->at, "  ; ");
    in->line = in->what;
    if (node && node < end) {
        node += 4;
        snprintf(in->node, sizeof in->node, "%.*s", (int)strcspn(node, " \n"), node);
        in->line = fz_mix(in->what, hash_of(node, (size_t)(end - node)));
    }
}

/* "%6:i32[] = io me.out", "%7:i32[4] = constants 0 0 1 1", "%3:f32[4] = weights net.b.bias" */
static void source(reader *r)
{
    int v = value(r);
    fz_t_value *x = value_at(r, v);

    if (!take(r, " = "))
        give_up(r);
    x->space = space_named(r);
    r->at += *r->at == ' ';
    if (x->space == FZ_P_IO)
        snprintf(x->name, sizeof x->name, "%.*s", (int)strcspn(r->at, "\n"), r->at);
    if (x->space == FZ_P_CONSTANTS) {
        size_t n = strcspn(r->at, "\n");

        x->content = hash_of(r->at, n);
        x->number = atof(r->at);
    }
}

static void result(reader *r)
{
    fz_text *t = r->t;
    const char *value = strrchr(r->at, '%'), *name = r->at;

    t->result = fz_grown(t->result, (size_t)(t->n_results + 1) * sizeof *t->result);
    value = strstr(name, " %");
    if (!value)
        give_up(r);
    snprintf(t->result[t->n_results].name, FZ_T_NAME, "%.*s", (int)(value - name), name);
    t->result[t->n_results++].value = atoi(value + 2);
}

static void next(reader *r)
{
    r->line += strcspn(r->line, "\n");
    r->line += *r->line == '\n';
    r->at = r->line;
}

fz_text *fz_text_read(const char *plan, const char *program)
{
    reader r = { .t = calloc(1, sizeof *r.t), .at = plan, .line = plan };

    if (!r.t)
        abort();
    value_at(&r, 1);
    for (next(&r); *r.line == ' '; next(&r))
        instruction(&r);
    r.at = r.line = program;
    for (next(&r); *r.line == '%' && strstr(r.line, " = ") && *r.line != '-'; next(&r))
        source(&r);
    for (; *r.line; next(&r))
        if (take(&r, "result "))
            result(&r);
    return r.t;
}

void fz_text_free(fz_text **t)
{
    if (!*t)
        return;
    free((*t)->value);
    free((*t)->instr);
    free((*t)->in);
    free((*t)->result);
    free(*t);
    *t = NULL;
}

/* ---- all texts of a pipeline ----------------------------------------------------------------- */

typedef struct known {
    bool train;
    int rank, w, h;
    fz_text *text;
} known;
struct fz_texts {
    fz_print_fn *print;
    void *ctx;
    int n;
    known *known;
};

fz_texts *fz_texts_open(fz_print_fn *print, void *ctx)
{
    fz_texts *t = calloc(1, sizeof *t);

    if (!t)
        abort();
    t->print = print;
    t->ctx = ctx;
    return t;
}

void fz_texts_close(fz_texts **t)
{
    if (!*t)
        return;
    for (int i = 0; i < (*t)->n; i++)
        fz_text_free(&(*t)->known[i].text);
    free((*t)->known);
    free(*t);
    *t = NULL;
}

const fz_text *fz_texts_of(fz_texts *t, bool train, int rank, int w, int h)
{
    char *plan, *program = NULL;
    known *k;

    for (int i = 0; i < t->n; i++) {
        k = &t->known[i];
        if (k->train == train && k->rank == rank && k->w == w && k->h == h)
            return k->text;
    }
    t->known = fz_grown(t->known, (size_t)(t->n + 1) * sizeof *t->known);
    plan = t->print(t->ctx, train, rank, w, h, &program);
    k = &t->known[t->n++];
    *k = (known){ train, rank, w, h, plan ? fz_text_read(plan, program) : NULL };
    free(plan);
    free(program);
    return k->text;
}
