/* contract.c: the port type language of node.h: parses, prints and unifies types.
 *
 *     type  = ("f" | "i") "[" [dim {"," dim}] "]" | "{" field {"," field} "}" | word
 *     dim   = term | term "<=" term | "..."        term = number | Letter {letter | digit | "_"}
 *     field = key ["?" | "*"] ":" type
 * Variables are unified with Tarjan's union-find, without ranks, because there are few. */
#include "graph/contract.h"

#include <ctype.h>
#include <string.h>

enum { MAX_DEPTH = 8, MAX_FIELDS = 64, MAX_KEY = 63 };

const dg_contract dg_contract_any = { .kind = DG_TYPE_ANY, .ellipsis = -1 };

static const struct {
    const char *word;
    dg_type_kind kind;
} words[] = {
    { "any", DG_TYPE_ANY },
    { "dataset", DG_TYPE_DATASET },
    { "picks", DG_TYPE_PICKS },
    { "samples", DG_TYPE_SAMPLES },
    { "stream", DG_TYPE_STREAM },
    { "batch", DG_TYPE_BATCH },
    { "gradients", DG_TYPE_GRADIENTS },
    { "parameters", DG_TYPE_PARAMETERS },
    { "metrics", DG_TYPE_METRICS },
};
enum { N_WORDS = sizeof words / sizeof *words };

/* ---- variables ------------------------------------------------------------------------------- */

static int root_of(const dg_dims *d, int var)
{
    while (d->vars.items[var].parent >= 0)
        var = d->vars.items[var].parent;
    return var;
}

static int new_var(dg_dims *d, const char *name)
{
    DG_PUSH(d->arena, d->vars, ((struct dg_dim_var){ .parent = -1, .name = name }));
    return d->vars.n - 1;
}

static int64_t known(const dg_dims *d, dg_dim_term t)
{
    return t.n ? t.n : d->vars.items[root_of(d, t.var)].n;
}

static bool unite(dg_dims *d, dg_dim_term a, dg_dim_term b)
{
    int64_t na = known(d, a), nb = known(d, b);

    if (na && nb)
        return na == nb;
    if (a.n || b.n) {
        d->vars.items[root_of(d, a.n ? b.var : a.var)].n = a.n ? a.n : b.n;
        return true;
    }
    int ra = root_of(d, a.var), rb = root_of(d, b.var);

    if (ra != rb) {
        d->vars.items[rb].parent = ra; /* keep the producer's letter as the name */
        d->vars.items[ra].n = na ? na : nb;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct scanner {
    dg_letters *letters;
    dg_arena *arena;
    const char *text, *p, *why;
    uint32_t flags;
} scanner;

static bool wrong(scanner *s, const char *why)
{
    if (!s->why)
        s->why = why;
    return false;
}

static bool take(scanner *s, const char *what)
{
    size_t n = strlen(what);

    if (strncmp(s->p, what, n) != 0)
        return false;
    s->p += n;
    return true;
}

static bool read_term(scanner *s, dg_dim_term *t)
{
    const char *begin = s->p;

    *t = (dg_dim_term){ 0 };
    if (isdigit((unsigned char)*s->p)) {
        for (; isdigit((unsigned char)*s->p); s->p++)
            if ((t->n = 10 * t->n + (*s->p - '0')) > INT32_MAX)
                return wrong(s, "the number is too large");
        return t->n > 0 || wrong(s, "a dimension is at least 1");
    }
    if (!isupper((unsigned char)*s->p))
        return wrong(s,
                     "expected a dimension: a number or a name that begins with a capital letter");
    while (isalnum((unsigned char)*s->p) || *s->p == '_')
        s->p++;
    size_t len = (size_t)(s->p - begin);
    dg_dims *d = s->letters->dims;

    for (int i = 0; i < s->letters->n; i++) {
        const char *name = d->vars.items[s->letters->vars[i]].name;

        if (strncmp(name, begin, len) == 0 && !name[len]) {
            t->var = s->letters->vars[i];
            return true;
        }
    }
    if (s->letters->n == (int)(sizeof s->letters->vars / sizeof *s->letters->vars))
        return wrong(s, "too many different dimensions");
    t->var = s->letters->vars[s->letters->n++] = new_var(d, dg_strndup(s->arena, begin, len));
    return true;
}

static bool read_dims(scanner *s, dg_contract *c)
{
    if (take(s, "]"))
        return true;
    do {
        dg_dim_type *dim = &c->dims[c->n_dims];

        if (take(s, "...")) {
            if (c->ellipsis >= 0)
                return wrong(s, "... stands at most once");
            c->ellipsis = c->n_dims;
            continue;
        }
        if (c->n_dims == DG_MAX_DIMS)
            return wrong(s, "more than 6 dimensions");
        if (!read_term(s, &dim->size))
            return false;
        if (take(s, "<=")) {
            dim->capacity = true;
            dim->live = dim->size;
            if (!read_term(s, &dim->size))
                return false;
        }
        c->n_dims++;
    } while (take(s, ","));
    return take(s, "]") || wrong(s, "expected , or ]");
}

static const dg_contract *read_type(scanner *s, int depth);

static bool read_field(scanner *s, dg_field_type *f, const dg_field_type *before, int n, int depth)
{
    const char *begin = s->p;

    while (islower((unsigned char)*s->p) || isdigit((unsigned char)*s->p) || *s->p == '_')
        s->p++;
    size_t len = (size_t)(s->p - begin);

    if (len == 0 || len > MAX_KEY)
        return wrong(s, "expected a key: small letters, digits and _");
    f->key = dg_strndup(s->arena, begin, len);
    for (int i = 0; i < n; i++)
        if (strcmp(before[i].key, f->key) == 0)
            return wrong(s, "this key stands twice");
    f->wildcard = take(s, "*");
    f->optional = !f->wildcard && take(s, "?");
    if (!take(s, ":"))
        return wrong(s, "expected : and a type");
    f->type = read_type(s, depth + 1);
    return f->type != NULL;
}

static bool read_fields(scanner *s, dg_contract *c, int depth)
{
    dg_field_type fields[MAX_FIELDS];

    do {
        if (c->n_fields == MAX_FIELDS)
            return wrong(s, "too many keys");
        if (!read_field(s, &fields[c->n_fields], fields, c->n_fields, depth))
            return false;
        c->n_fields++;
    } while (take(s, ","));
    c->fields = dg_memdup(s->arena, fields, (size_t)c->n_fields * sizeof *fields);
    return take(s, "}") || wrong(s, "expected , or }");
}

static const dg_contract *read_type(scanner *s, int depth)
{
    dg_contract *c = DG_NEW(s->arena, dg_contract);

    c->flags = s->flags;
    c->ellipsis = -1;
    if (depth > MAX_DEPTH) {
        wrong(s, "records are nested too deep");
        return NULL;
    }
    if ((s->p[0] == 'f' || s->p[0] == 'i') && s->p[1] == '[') {
        c->kind = DG_TYPE_TENSOR;
        c->dtype = s->p[0] == 'f' ? DG_REAL : DG_I32;
        s->p += 2;
        return read_dims(s, c) ? c : NULL;
    }
    if (take(s, "{")) {
        c->kind = DG_TYPE_RECORD;
        return read_fields(s, c, depth) ? c : NULL;
    }
    for (int i = 0; i < N_WORDS; i++) {
        size_t n = strlen(words[i].word);

        if (strncmp(s->p, words[i].word, n) == 0 && !isalnum((unsigned char)s->p[n]) &&
            s->p[n] != '_') {
            s->p += n;
            c->kind = words[i].kind;
            return c;
        }
    }
    wrong(s, "expected f[..], i[..], {..}, any, dataset, picks, samples, batch, gradients, "
             "parameters or metrics");
    return NULL;
}

const dg_contract *dg_contract_parse(dg_letters *letters, const char *text, uint32_t flags, int *at,
                                     const char **why)
{
    scanner s = { letters, letters->dims->arena, text, text, NULL, flags };
    const dg_contract *c = read_type(&s, 0);

    if (c && *s.p) {
        wrong(&s, "expected the end");
        c = NULL;
    }
    *at = (int)(s.p - text);
    *why = s.why;
    return c;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void print_term(dg_str *out, const dg_dims *d, dg_dim_term t)
{
    int64_t n = known(d, t);

    if (n)
        dg_str_fmt(out, "%lld", (long long)n);
    else
        dg_str_add(out, d->vars.items[root_of(d, t.var)].name);
}

void dg_contract_print(dg_str *out, const dg_dims *dims, const dg_contract *c)
{
    switch (c->kind) {
    case DG_TYPE_TENSOR:
        dg_str_add(out, c->dtype == DG_I32 ? "i[" : "f[");
        for (int i = 0; i <= c->n_dims; i++) {
            if (i == c->ellipsis)
                dg_str_fmt(out, "%s...%s", i ? "," : "", i < c->n_dims && i == 0 ? "," : "");
            if (i == c->n_dims)
                break;
            if (i && !(i == c->ellipsis && i == 0))
                dg_str_add(out, ",");
            if (c->dims[i].capacity) {
                print_term(out, dims, c->dims[i].live);
                dg_str_add(out, "<=");
            }
            print_term(out, dims, c->dims[i].size);
        }
        dg_str_add(out, "]");
        return;
    case DG_TYPE_RECORD:
        for (int i = 0; i < c->n_fields; i++) {
            const dg_field_type *f = &c->fields[i];

            dg_str_fmt(out, "%s%s%s:", i ? "," : "{", f->key,
                       f->wildcard   ? "*"
                       : f->optional ? "?"
                                     : "");
            dg_contract_print(out, dims, f->type);
        }
        dg_str_add(out, "}");
        return;
    default:
        for (int i = 0; i < N_WORDS; i++)
            if (words[i].kind == c->kind)
                dg_str_add(out, words[i].word);
    }
}

/* ---- agreement ------------------------------------------------------------------------------- */

static void explain(dg_str *why, const dg_dims *d, const dg_contract *from, const dg_contract *to)
{
    dg_str_add(why, "it is ");
    dg_contract_print(why, d, from);
    dg_str_add(why, ", and ");
    dg_contract_print(why, d, to);
    dg_str_add(why, " is expected");
}

/* Dimension i, from the left if i >= 0, else from the right (-1: the last). */
static const dg_dim_type *dim_at(const dg_contract *c, int i)
{
    return &c->dims[i >= 0 ? i : c->n_dims + i];
}

static bool unify_dim(dg_dims *d, const dg_contract *from, const dg_contract *to, int i,
                      dg_str *why)
{
    const dg_dim_type *a = dim_at(from, i), *b = dim_at(to, i);
    int64_t na = known(d, a->size), nb = known(d, b->size);

    if (unite(d, a->size, b->size) && (!a->capacity || !b->capacity || unite(d, a->live, b->live)))
        return true;
    explain(why, d, from, to);
    dg_str_fmt(why, ": dimension %d is %lld, not %lld", i >= 0 ? i + 1 : from->n_dims + i + 1,
               (long long)na, (long long)nb);
    return false;
}

static bool unify_tensor(dg_dims *d, const dg_contract *from, const dg_contract *to, dg_str *why)
{
    int least = from->n_dims > to->n_dims ? from->n_dims : to->n_dims;
    bool open = from->ellipsis >= 0 || to->ellipsis >= 0;

    if (from->dtype != to->dtype || (from->ellipsis < 0 && least > from->n_dims) ||
        (to->ellipsis < 0 && least > to->n_dims)) {
        explain(why, d, from, to);
        return false;
    }
    int left = open ? 0 : from->n_dims, right = 0;

    if (open) { /* compare what is left and right of both ellipses */
        int la = from->ellipsis >= 0 ? from->ellipsis : from->n_dims,
            lb = to->ellipsis >= 0 ? to->ellipsis : to->n_dims;

        left = la < lb ? la : lb;
        la = from->ellipsis >= 0 ? from->n_dims - from->ellipsis : from->n_dims - left;
        lb = to->ellipsis >= 0 ? to->n_dims - to->ellipsis : to->n_dims - left;
        right = la < lb ? la : lb;
    }
    for (int i = 0; i < left; i++)
        if (!unify_dim(d, from, to, i, why))
            return false;
    for (int i = 1; i <= right; i++)
        if (!unify_dim(d, from, to, -i, why))
            return false;
    return true;
}

static const dg_field_type *find_field(const dg_contract *c, const char *key, size_t len)
{
    for (int i = 0; i < c->n_fields; i++) {
        const dg_field_type *f = &c->fields[i];

        if (f->wildcard ? len >= strlen(f->key) && strncmp(f->key, key, strlen(f->key)) == 0
                        : strlen(f->key) == len && memcmp(f->key, key, len) == 0)
            return f;
    }
    return NULL;
}

static bool unify_record(dg_dims *d, const dg_contract *from, const dg_contract *to, dg_str *why)
{
    for (int i = 0; i < to->n_fields; i++) {
        const dg_field_type *want = &to->fields[i],
                            *have = find_field(from, want->key, strlen(want->key));

        if (want->wildcard || (!have && want->optional))
            continue;
        if (!have || (have->optional && !want->optional)) {
            dg_str_fmt(why, "it has no key \"%s\"%s: ", want->key, have ? " on some steps" : "");
            explain(why, d, from, to);
            return false;
        }
        size_t before = why->n;

        if (!dg_contract_unify(d, have->type, want->type, why)) {
            dg_str inner = { 0 };

            dg_str_add(&inner, why->s + before);
            why->n = before;
            dg_str_fmt(why, "key \"%s\": %s", want->key, inner.s);
            dg_str_free(&inner);
            return false;
        }
    }
    return true;
}

static bool on_its_way(dg_type_kind kind)
{
    /* a pick is a sample that is not loaded yet */
    return kind == DG_TYPE_PICKS || kind == DG_TYPE_SAMPLES;
}

bool dg_contract_flows(const dg_contract *c)
{
    return c->kind < DG_TYPE_DATASET || c->kind == DG_TYPE_GRADIENTS ||
           c->kind == DG_TYPE_PARAMETERS;
}

bool dg_contract_is_stream(const dg_contract *c)
{
    return c->kind == DG_TYPE_DATASET || on_its_way(c->kind) || c->kind == DG_TYPE_STREAM;
}

bool dg_contract_unify(dg_dims *dims, const dg_contract *from, const dg_contract *to, dg_str *why)
{
    if (from->kind == DG_TYPE_ANY || to->kind == DG_TYPE_ANY ||
        (on_its_way(from->kind) && on_its_way(to->kind)) ||
        (to->kind == DG_TYPE_STREAM && dg_contract_is_stream(from)))
        return true;
    if (from->kind != to->kind) {
        explain(why, dims, from, to);
        return false;
    }
    if (from->kind == DG_TYPE_TENSOR)
        return unify_tensor(dims, from, to, why);
    return from->kind != DG_TYPE_RECORD || unify_record(dims, from, to, why);
}

static dg_dim_term copy_term(dg_dims *d, dg_dim_term t, dg_renaming *map)
{
    int64_t n = known(d, t);
    int r = n ? -1 : root_of(d, t.var);

    if (n)
        return (dg_dim_term){ n, 0 };
    for (int i = 0; i < map->n; i++)
        if (map->items[i].from == r)
            return (dg_dim_term){ 0, map->items[i].to };
    DG_PUSH(d->arena, *map, ((dg_renamed){ r, new_var(d, d->vars.items[r].name) }));
    return (dg_dim_term){ 0, map->items[map->n - 1].to };
}

const dg_contract *dg_contract_copy(dg_dims *dims, const dg_contract *c, dg_renaming *map)
{
    dg_contract *copy = dg_memdup(dims->arena, c, sizeof *c);
    dg_field_type *fields =
        c->n_fields ? dg_memdup(dims->arena, c->fields, (size_t)c->n_fields * sizeof *fields)
                    : NULL;

    for (int i = 0; i < c->n_dims; i++) {
        copy->dims[i].size = copy_term(dims, c->dims[i].size, map);
        if (c->dims[i].capacity)
            copy->dims[i].live = copy_term(dims, c->dims[i].live, map);
    }
    for (int i = 0; i < c->n_fields; i++)
        fields[i].type = dg_contract_copy(dims, c->fields[i].type, map);
    copy->fields = fields;
    return copy;
}

const dg_contract *dg_contract_key(const dg_contract *c, const char *key,
                                   const dg_contract **record, bool *optional)
{
    for (;;) {
        size_t len = strcspn(key, ".");
        const dg_field_type *f;

        *record = c;
        if (c->kind == DG_TYPE_ANY)
            return c;
        f = c->kind == DG_TYPE_RECORD ? find_field(c, key, len) : NULL;
        if (!f)
            return NULL;
        *optional |= f->optional;
        c = f->type;
        if (!key[len])
            return c;
        key += len + 1;
    }
}

static bool holds_term(const dg_dims *d, dg_dim_term t, int64_t n, int64_t *bound)
{
    if (t.n)
        return t.n == n;
    const int root = root_of(d, t.var);

    if (!bound[root])
        bound[root] = d->vars.items[root].n ? d->vars.items[root].n : n;
    return bound[root] == n;
}

bool dg_contract_holds(const dg_dims *dims, const dg_contract *c, dg_dtype dtype, dg_shape shape,
                       int64_t *bound)
{
    int left = c->ellipsis >= 0 ? c->ellipsis : c->n_dims;

    if (c->kind == DG_TYPE_ANY)
        return true;
    if (c->kind != DG_TYPE_TENSOR || (c->dtype == DG_I32) != (dtype == DG_I32) ||
        shape.rank < c->n_dims || (c->ellipsis < 0 && shape.rank > c->n_dims))
        return false;
    for (int i = 0; i < c->n_dims; i++)
        if (!holds_term(dims, c->dims[i].size, shape.d[i < left ? i : shape.rank - c->n_dims + i],
                        bound))
            return false;
    return true;
}

void dg_contract_unbind(const dg_dims *dims, const dg_contract *c, int64_t *bound)
{
    for (int i = 0; i < c->n_dims; i++)
        if (!c->dims[i].size.n)
            bound[root_of(dims, c->dims[i].size.var)] = 0;
    for (int i = 0; i < c->n_fields; i++)
        dg_contract_unbind(dims, c->fields[i].type, bound);
}
