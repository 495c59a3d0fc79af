/* fuzz_cases.c: reads a pipeline file: includes are put in, names of lets and of an include's
 * attributes are replaced. Enough for the files of tests/invariance/xml. */
#include "tests/invariance/fuzz_cases.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 1 << 16, VARS = 32, DEPTH = 4 };

typedef struct vars {
    int n;
    char name[VARS][FZ_ID], value[VARS][64];
} vars;

typedef struct expansion {
    char *out;
    size_t n;
    const char *folder;
} expansion;

static void put(expansion *e, const char *s, size_t n)
{
    if (e->n + n < ROOM) {
        memcpy(e->out + e->n, s, n);
        e->n += n;
        e->out[e->n] = 0;
    }
}

static char *load(const char *folder, const char *file)
{
    char path[512];
    FILE *f;
    char *text = calloc(1, ROOM);

    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", file);
    f = text ? fopen(path, "r") : NULL;
    if (!f) {
        free(text);
        return NULL;
    }
    text[fread(text, 1, ROOM - 1, f)] = 0;
    fclose(f);
    return text;
}

static const char *value_of(const vars *v, const char *name, size_t n)
{
    for (int i = 0; i < v->n; i++)
        if (strlen(v->name[i]) == n && strncmp(v->name[i], name, n) == 0)
            return v->value[i];
    return NULL;
}

static void put_replaced(expansion *e, const vars *v, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        bool brace = i + 1 < n && s[i] == '$' && s[i + 1] == '{';
        size_t from = i + 1 + brace, len;
        const char *value;

        if (s[i] != '$') {
            put(e, s + i++, 1);
            continue;
        }
        len = strspn(s + from, "abcdefghijklmnopqrstuvwxyz_0123456789");
        value = value_of(v, s + from, len);
        if (value)
            put(e, value, strlen(value));
        i = from + len + brace;
    }
}

/* The attributes of a tag that ends at `end`; those that are known already stay. */
static void read_pairs(vars *v, const vars *outer, const char *s, const char *end)
{
    while (s < end && v->n < VARS) {
        const char *equal = memchr(s, '=', (size_t)(end - s)), *name, *close;
        expansion value = { (char[ROOM]){ 0 }, 0, "" };

        if (!equal || equal[1] != '"')
            return;
        for (name = equal; name > s && !strchr(" \n\t", name[-1]);)
            name--;
        close = strchr(equal + 2, '"');
        put_replaced(&value, outer, equal + 2, (size_t)(close - equal) - 2);
        if (!value_of(v, name, (size_t)(equal - name))) {
            snprintf(v->name[v->n], FZ_ID, "%.*s", (int)(equal - name), name);
            snprintf(v->value[v->n++], sizeof *v->value, "%s", value.out);
        }
        s = close + 1;
    }
}

static bool starts(const char *s, const char *tag)
{
    size_t n = strlen(tag);

    return strncmp(s, tag, n) == 0 && strchr(" \n\t/>", s[n]);
}

static void expand(expansion *e, const char *text, vars *v, int depth)
{
    for (const char *s = text, *end; *s; s = end) {
        if (*s != '<') {
            end = s + strcspn(s, "<");
            put(e, s, (size_t)(end - s));
            continue;
        }
        if (strncmp(s, "<!--", 4) == 0 && strstr(s, "-->")) {
            end = strstr(s, "-->") + 3;
            continue;
        }
        end = s + strcspn(s, ">");
        end += *end == '>';
        if (starts(s, "<include") && depth < DEPTH) {
            vars *inside = calloc(1, sizeof *inside);
            const char *file;
            char *part;

            if (!inside)
                return;
            read_pairs(inside, v, s, end);
            file = value_of(inside, "file", 4);
            part = file ? load(e->folder, file) : NULL;
            if (part)
                expand(e, part, inside, depth + 1);
            else
                put(e, "<missing/>", 10);
            free(part);
            free(inside);
        } else if (starts(s, "<let")) {
            read_pairs(v, v, s, end);
        } else if (!starts(s, "<part") && !starts(s, "</part")) {
            put_replaced(e, v, s, (size_t)(end - s));
        }
    }
}

bool fz_read_file(fz_model *m, const char *file, char *why, size_t n)
{
    const char *slash = strrchr(file, '/');
    char folder[256];
    char *text = load("", file), *out = calloc(1, ROOM);
    vars *v = calloc(1, sizeof *v);
    bool ok = text && out && v;
    expansion e = { out, 0, folder };

    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file) : 0, file);
    snprintf(why, n, "%s", "no such file");
    if (ok) {
        expand(&e, text, v, 0);
        ok = fz_read(m, out, why, n);
    }
    free(text);
    free(out);
    free(v);
    return ok;
}

int fz_expected(const char *file, char *codes, size_t n)
{
    char *text = load("", file);
    const char *at = text ? strstr(text, "verdict: ") : NULL;
    int verdict = -1;

    if (at) {
        at += strlen("verdict: ");
        verdict = strncmp(at, "reject", 6) == 0;
        if (strstr(text, "<!-- alike: "))
            verdict = FZ_ALIKE;
        snprintf(codes, n, "%.*s", (int)strcspn(at, "\n") - 4, at);
    }
    free(text);
    return verdict;
}
