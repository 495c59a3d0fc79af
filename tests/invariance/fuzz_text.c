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

static uint32_t traits_of(const char *op)
{
    static const struct {
        uint32_t trait;
        const char *names;
    } known[] = {
        { FZ_TRUTH, "truth truth_i32" },
        { FZ_COPY, "real cast reshape reshape_i32 sum sum_i32 expand" },
        { FZ_ADD, "add" },
        { FZ_SUB, "sub" },
        { FZ_MUL, "mul" },
        { FZ_LARGER, "max2" },
        { FZ_SMALLER, "min2" },
        { FZ_AT_LEAST, "greater_equal" },
        { FZ_SCALE, "scale" },
        { FZ_SUMS, "sum sum_i32 reshape reshape_i32 real cast" },
        { FZ_PRODUCT, "mul matmul" },
        { FZ_VANISHES, "sum sum_i32 reduce_max reduce_max_i32 reshape reshape_i32 permute slice "
                       "expand cast real "
                       "gather add sub concat relu abs" },
        { FZ_RESHAPE, "reshape reshape_i32" },
        { FZ_FINITE_OP, "finite" },
        { FZ_DRAW, "uniform" },
        { FZ_LENGTH, "grad_norm" },
        { FZ_UPDATES, "adamw ema accumulate stat_update" },
        { FZ_MEETS, "all_reduce all_reduce_i32 broadcast broadcast_i32 reduce_to reduce_to_i32 "
                    "all_gather all_gather_i32 all_reduce_space reduce_begin reduce_end" },
        { FZ_OF_SPACE, "reduce_begin all_reduce_space" },
        { FZ_BEGINS, "reduce_begin" },
        { FZ_AWAITS, "reduce_end" },
        { FZ_TO_ROOT, "reduce_to reduce_to_i32" },
        { FZ_FROM_ROOT, "broadcast broadcast_i32" },
        { FZ_GATHERS, "all_gather all_gather_i32" },
    };
    uint32_t traits = strncmp(op, "toy_", 4) == 0 ? FZ_OF_TOY : 0;
    const char *word;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        for (int k = 0, n; (n = fz_word(known[i].names, k, &word)) > 0; k++)
            if ((int)strlen(op) == n && strncmp(op, word, (size_t)n) == 0)
                traits |= known[i].trait;
    return traits;
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
    in->traits = traits_of(in->op);
    in->at = FZ_T_UNKNOWN;
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
    const char *value, *name = r->at;
    fz_t_result *x;

    t->result = fz_grown(t->result, (size_t)(t->n_results + 1) * sizeof *t->result);
    value = strstr(name, " %");
    if (!value)
        give_up(r);
    snprintf(t->result[t->n_results].name, FZ_T_NAME, "%.*s", (int)(value - name), name);
    x = &t->result[t->n_results++];
    x->value = atoi(value + 2);
    x->made = -1;
    x->kind = strncmp(name, "there/", 6) == 0   ? FZ_T_THERE
              : strncmp(name, "watch/", 6) == 0 ? FZ_T_WATCH
              : strncmp(name, "fires/", 6) == 0 ? FZ_T_FIRES
                                                : FZ_T_NAMED;
    x->index = x->kind ? atoi(name + 6) : 0;
    x->there = 0;
    for (int i = 0; i < t->n_results && x->kind == FZ_T_WATCH; i++)
        if (t->result[i].kind == FZ_T_THERE && t->result[i].index == x->index)
            x->there = t->result[i].value;
    for (int i = 0; i < t->n_instrs && x->kind; i++)
        for (int k = 0; k < t->instr[i].n_out; k++)
            if (t->instr[i].out[k] == x->value)
                x->made = i;
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
    r.t->accumulate = 1;
    for (next(&r); *r.line == ' ' || strncmp(r.line, "once for ", 9) == 0; next(&r))
        if (*r.line == ' ') {
            instruction(&r);
        } else {
            r.t->accumulate = atoi(r.line + 9);
            r.t->update = r.t->n_instrs;
        }
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
    bool train, shared;
    int rank, w, h;
    char *program; /* as it is listed; NULL: there is none, or another has it */
    fz_text *text;
} known;
struct fz_texts {
    const fz_printer *print;
    void *ctx;
    int n;
    known *known;
    bool listed;
    int n_monitors;
    fz_t_monitor *monitor;
};

fz_texts *fz_texts_open(const fz_printer *print, void *ctx)
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
    for (int i = 0; i < (*t)->n; i++) {
        if (!(*t)->known[i].shared)
            fz_text_free(&(*t)->known[i].text);
        free((*t)->known[i].program);
    }
    free((*t)->known);
    free((*t)->monitor);
    free(*t);
    *t = NULL;
}

/* "fuzz.xml:9:5: train/pick.out: count: declared equal on all ranks of dp (2 ranks) and tp ..." */
static void monitor(fz_texts *t, const char *line)
{
    const char *end = line + strcspn(line, "\n"), *path = strstr(line, ": "), *what, *of;
    fz_t_monitor *m;

    t->monitor = fz_grown(t->monitor, (size_t)(t->n_monitors + 1) * sizeof *m);
    m = &t->monitor[t->n_monitors++];
    *m = (fz_t_monitor){ .axes = 0 };
    what = path ? strstr(path + 2, ": ") : NULL;
    if (!what || what > end) {
        fprintf(stderr, "not understood: %.*s\n", (int)(end - line), line);
        abort();
    }
    snprintf(m->path, sizeof m->path, "%.*s", (int)(what - path - 2), path + 2);
    snprintf(m->what, sizeof m->what, "%.*s", (int)strcspn(what + 2, ":"), what + 2);
    of = strstr(what, " of ");
    if (of && of < end) {
        m->axes |= strncmp(of, " of dp (", 8) == 0 ? FZ_DP : FZ_TP;
        of = strstr(of, " and tp (");
        m->axes |= of && of < end ? FZ_TP : 0;
    }
}

bool fz_texts_monitor(fz_texts *t, int i, fz_t_monitor *out)
{
    char *list = t->listed ? NULL : t->print->monitors(t->ctx);

    t->listed = true;
    for (const char *p = list; p && *p; p += strcspn(p, "\n") + (p[strcspn(p, "\n")] == '\n'))
        monitor(t, p);
    free(list);
    if (i < t->n_monitors)
        *out = t->monitor[i];
    return i < t->n_monitors;
}

/* A rank whose program has the same listing as another's has the same plan. */
static bool is_shared(fz_texts *t, known *k)
{
    for (int i = 0; i < t->n && k->program; i++) {
        const known *o = &t->known[i];

        if (o->program && o->train == k->train && o->w == k->w && o->h == k->h &&
            strcmp(o->program, k->program) == 0) {
            k->text = o->text;
            k->shared = true;
            return true;
        }
    }
    return false;
}

const fz_text *fz_texts_of(fz_texts *t, bool train, int rank, int w, int h)
{
    known k = { .train = train, .rank = rank, .w = w, .h = h };
    char *plan;

    for (int i = 0; i < t->n; i++) {
        const known *o = &t->known[i];

        if (o->train == train && o->rank == rank && o->w == w && o->h == h)
            return o->text;
    }
    k.program = t->print->program(t->ctx, train, rank, w, h);
    if (is_shared(t, &k)) {
        free(k.program);
        k.program = NULL;
    } else if (k.program && (plan = t->print->plan(t->ctx))) {
        k.text = fz_text_read(plan, k.program);
        free(plan);
    }
    t->known = fz_grown(t->known, (size_t)(t->n + 1) * sizeof *t->known);
    t->known[t->n++] = k;
    return k.text;
}
