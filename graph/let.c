/* let.c: <let> and $name.
 *
 * Looks a name up among the parameters of the include, the lets of the file, the lets of the
 * including file, and so on outwards. Lets of lets could grow exponentially, so the length of each
 * value and of all values is bounded. */
#include "graph/let.h"

#include <string.h>

enum {
    MAX_VALUE = 64 << 10,
    MAX_VALUES = 16 << 20,
    MAX_LETS = 1024, /* visible at one place */
};

/* ---- $name ----------------------------------------------------------------------------------- */

static const dg_var *find(const dg_var *env, const char *name, size_t len)
{
    while (env && (strncmp(env->name, name, len) != 0 || env->name[len]))
        env = env->next;
    return env;
}

/* True if a parameter of the include, which its part does not use, is meant: says so. */
static bool is_misspelt_parameter(dg_expander *x, const dg_var *env, const char *name,
                                  const char *near)
{
    const dg_var *v = near ? find(env, near, strlen(near)) : NULL;

    if (!v || !v->given || *v->used)
        return false;
    *v->used = true; /* one error for both names */
    dg_load_error_help(x->report, "write %s=\"%s\" in place of %s=\"%s\" at %s:%d", name, v->value,
                       v->name, v->value, v->given->at.file, v->given->at.line);
    return true;
}

static void unknown_name(dg_expander *x, const dg_expansion *p, const dg_var *env, dg_where at,
                         const char *name)
{
    DG_VEC(const char *) names = { 0 };

    dg_load_error(x->report, p->frame, at, "let-unknown",
                  "$%s: there is no <let %s=...> before this place", name, name);
    if (x->report->muted)
        return;
    for (const dg_var *v = env; v; v = v->next)
        DG_PUSH(x->arena, names, v->name);
    if (is_misspelt_parameter(x, env, name, dg_nearest(name, names.items, names.n)))
        return;
    dg_load_error_nearest(x->report, name, names.items, names.n, "known names");
}

/* Parses the name after '$' at *s, moves *s past it and returns its variable; NULL after an
 * error. */
static const dg_var *take_name(dg_expander *x, const dg_expansion *p, const dg_var *env,
                               const char **s, dg_where at)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    bool braces = **s == '{';
    const char *name = *s + braces;
    size_t len = strspn(name, letters);
    const dg_var *v = len ? find(env, name, len) : NULL;

    *s = name + len;
    if (len == 0 || (braces && **s != '}')) {
        dg_load_error(x->report, p->frame, at, "let-syntax",
                      "a $ stands before a name: $name or ${name}");
        dg_load_error_help(x->report, "$$ is a dollar sign");
        return NULL;
    }
    *s += braces;
    if (!v)
        unknown_name(x, p, env, at, dg_strndup(x->arena, name, len));
    else
        *v->used = true;
    return v;
}

const char *dg_let_replace(dg_expander *x, const dg_expansion *p, const dg_var *env,
                           const char *text, dg_where at, const char **folder, bool *bad)
{
    dg_str out = { 0 };

    *folder = p->folder;
    *bad = false;
    if (!strchr(text, '$'))
        return text;
    for (const char *s = text; *s && out.n <= MAX_VALUE;) {
        size_t plain = strcspn(s, "$");
        dg_where here = at;

        dg_str_add_n(&out, s, plain);
        s += plain;
        here.column += (int)(s - text);
        if (s[0] == '$' && s[1] == '$') {
            dg_str_add(&out, "$");
            s += 2;
        } else if (*s == '$') {
            s++;
            const dg_var *v = take_name(x, p, env, &s, here);

            if (v && out.n == 0 && *v->value)
                *folder = v->folder;
            *bad |= !v || v->bad;
            dg_str_add(&out, v ? v->value : "");
        }
    }
    if (out.n > MAX_VALUE || (x->n_bytes += out.n) > MAX_VALUES) {
        if (!x->full)
            dg_load_error(x->report, p->frame, at, "expand-too-long",
                          "this text becomes too long when names are replaced (limit: %d KiB "
                          "here, %d MiB in all)",
                          MAX_VALUE >> 10, MAX_VALUES >> 20);
        x->full = true;
        *bad = true;
        out.n = 0;
    }
    const char *result = dg_strndup(x->arena, out.s ? out.s : "", out.n);

    dg_str_free(&out);
    return result;
}

/* ---- let ------------------------------------------------------------------------------------- */

const dg_var *dg_let_push(dg_expander *x, const dg_var *env, dg_var v)
{
    v.next = env;
    v.depth = env ? env->depth + 1 : 1;
    if (!v.used)
        v.used = DG_NEW(x->arena, bool);
    return dg_memdup(x->arena, &v, sizeof v);
}

void dg_no_children(dg_expander *x, const dg_expansion *p, const dg_xml *e)
{
    if (e->first)
        dg_load_error(x->report, p->frame, e->first->at, "element-misplaced",
                      "<%s> has no elements inside", e->name);
}

static bool shadowed(const dg_parameters *given, const char *name)
{
    const dg_var *v = given ? given->first : NULL;

    for (int n = given ? given->n : 0; n > 0; n--, v = v->next)
        if (strcmp(v->name, name) == 0)
            return true;
    return false;
}

/* An earlier let of that name in the same element; NULL: none. */
static const dg_var *find_twin(const dg_var *env, const dg_var *outer, const char *name)
{
    const dg_var *other = find(env, name, strlen(name));

    for (; env && env != outer; env = env->next)
        if (env == other)
            return other;
    return NULL;
}

/* "auto" and "auto:64", which the let `batch` may say: the number that stands for it here; else
 * value. */
static const char *open_batch(dg_expander *x, const dg_expansion *p, const char *value, dg_where at)
{
    enum { USUAL_MOST = 16, MOST = 65536 };
    int64_t most = USUAL_MOST;

    if (strncmp(value, "auto", 4) != 0 || (value[4] && value[4] != ':'))
        return value;
    if (value[4] && (!dg_parse_i64(value + 5, &most) || most < 1 || most > MOST)) {
        dg_load_error(x->report, p->frame, at, "batch-auto",
                      "batch=\"%s\": behind auto: stands the largest batch to take, from 1 to %d",
                      value, MOST);
        dg_load_error_help(x->report, "\"auto\" alone takes at most %d", USUAL_MOST);
    }
    *x->batch = (dg_open_batch){ at, (int)most };
    return "1";
}

/* outer: the names visible before the enclosing element. */
const dg_var *dg_let_read(dg_expander *x, const dg_expansion *p, const dg_xml *e, const dg_var *env,
                          const dg_var *outer, const dg_parameters *given)
{
    bool top = !p->up && e->parent && !e->parent->parent;

    dg_no_children(x, p, e);
    for (int i = 0; i < e->n_attrs && !x->full; i++) {
        dg_xml_attr *a = &e->attrs[i];
        const dg_var *twin = find_twin(env, outer, a->name);
        dg_var v = { .name = a->name, .attr = a, .used = &a->used };

        if (!dg_is_name(a->name) || strchr(a->name, '-')) {
            dg_load_error(
                x->report, p->frame, a->at, "let-name",
                "\"%s\" is no name for a let: letters, digits and _, beginning with a letter",
                a->name);
            a->used = true;
            continue;
        }
        if (shadowed(given, a->name)) {
            a->used = true;
            continue;
        }
        if (twin) {
            dg_load_error(x->report, p->frame, a->at, "let-twice", "%s is defined twice", a->name);
            if (twin->attr)
                dg_load_error_note(x->report, twin->attr->at, "first defined here");
        }
        v.value = dg_let_replace(x, p, env, a->value, a->value_at, &v.folder, &v.bad);
        for (int k = 0; top && k < x->n_sets; k++)
            if (strcmp(x->sets[k].name, a->name) == 0) {
                v.value = x->sets[k].value;
                v.folder = NULL;
                v.bad = false;
                x->set_used[k] = true;
            }
        if (top && strcmp(a->name, "batch") == 0)
            v.value = open_batch(x, p, v.value, a->value_at);
        if (top)
            DG_PUSH(x->arena, x->top_lets, a->name);
        if (++x->n_attrs > DG_EXPAND_MAX_ATTRS || (env && env->depth >= MAX_LETS)) {
            dg_load_error(x->report, p->frame, a->at, "expand-too-many",
                          "more than %d names are known here, or %d lets and attributes in all",
                          MAX_LETS, DG_EXPAND_MAX_ATTRS);
            x->full = true;
        }
        env = dg_let_push(x, env, v);
    }
    return env;
}
