/* attr.c: parses attribute values: numbers, words, moments, lists and paths. */
#include "graph/attr.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* Larger bounds are not printed: no attribute reaches them. */
#define UNBOUNDED 1e15

static const struct {
    const char *name;
    size_t bytes;
} kinds[] = {
    [DG_ATTR_NUM] = { "number", sizeof(double) },
    [DG_ATTR_INT] = { "integer", sizeof(int64_t) },
    [DG_ATTR_BOOL] = { "true or false", sizeof(bool) },
    [DG_ATTR_STR] = { "text", sizeof(const char *) },
    [DG_ATTR_PATH] = { "path", sizeof(const char *) },
    [DG_ATTR_ENUM] = { "word", sizeof(int64_t) },
    [DG_ATTR_WHEN] = { "moment", sizeof(dg_when) },
    [DG_ATTR_INTS] = { "integers", sizeof(dg_ints) },
    [DG_ATTR_SIZES] = { "sizes", sizeof(dg_sizes) },
};

size_t dg_attr_bytes(dg_attr_kind kind)
{
    return (size_t)kind < sizeof kinds / sizeof *kinds ? kinds[kind].bytes : 0;
}

const char *dg_attr_kind_name(dg_attr_kind kind)
{
    return kinds[kind].name;
}

int dg_attr_n(const dg_attr *table)
{
    int n = 0;

    while (table && table[n].name)
        n++;
    return n;
}

const dg_attr *dg_attr_find(const dg_attr *table, const char *name)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

int dg_attr_words(const char *const **words, const dg_attr *a, dg_arena *arena)
{
    int n = 1;

    for (const char *p = a->text; *p; p++)
        n += *p == '|';
    const char **list = DG_NEW_N(arena, n, const char *), *p = a->text;

    for (int i = 0; i < n; i++) {
        size_t len = strcspn(p, "|");

        list[i] = dg_strndup(arena, p, len);
        p += len + 1;
    }
    *words = list;
    return n;
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool read_word(const dg_attr *a, const char *text, int64_t *out, dg_arena *arena)
{
    const char *const *words;
    int n = dg_attr_words(&words, a, arena);

    for (int i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return true;
        }
    return false;
}

/* "55 %" or "55%" */
static bool read_share(char *text, dg_when *out)
{
    size_t n = strlen(text);
    double percent;

    text[--n] = '\0';
    if (n && text[n - 1] == ' ')
        text[n - 1] = '\0';
    if (!dg_parse_f64(text, &percent) || percent < 0 || percent > 100)
        return false;
    *out = (dg_when){ DG_SHARE, percent };
    return true;
}

/* "step 952", "epoch 71", "153 steps", "1 epoch", "10 min", "55 %", "never"; bare: also "153" */
static bool read_when(const char *text, bool bare, dg_when *out)
{
    static const struct {
        const char *word;
        dg_unit unit;
        bool first;
    } units[] = {
        { "step", DG_STEPS, true },    { "epoch", DG_EPOCHS, true },
        { "step", DG_STEPS, false },   { "steps", DG_STEPS, false },
        { "epoch", DG_EPOCHS, false }, { "epochs", DG_EPOCHS, false },
        { "min", DG_MINUTES, false },  { "minutes", DG_MINUTES, false },
    };
    char copy[64];
    char *space;
    double n;

    if (strcmp(text, "never") == 0) {
        *out = (dg_when){ DG_NEVER, 0 };
        return true;
    }
    if (strlen(text) >= sizeof copy)
        return false;
    memcpy(copy, text, strlen(text) + 1);
    if (*copy && copy[strlen(copy) - 1] == '%')
        return read_share(copy, out);
    if (bare && dg_parse_f64(copy, &n) && n >= 0 && n <= 1e9) {
        *out = (dg_when){ DG_STEPS, n };
        return true;
    }
    space = strchr(copy, ' ');
    if (!space)
        return false;
    *space = '\0';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const char *word = units[i].first ? copy : space + 1,
                   *number = units[i].first ? space + 1 : copy;

        if (strcmp(word, units[i].word) != 0 || !dg_parse_f64(number, &n))
            continue;
        if (n < 0 || n > 1e12 || (units[i].unit != DG_MINUTES && n != floor(n)) ||
            (n == 0 && !units[i].first))
            return false;
        *out = (dg_when){ units[i].unit, n };
        return true;
    }
    return false;
}

typedef struct list {
    int n;
    dg_size *v;
} list;

static bool add_range(list *l, int64_t first, int64_t last, int64_t step)
{
    if (step < 1 || step > INT32_MAX || last < first ||
        (last - first) / step >= DG_ATTR_MAX_LIST - l->n)
        return false;
    for (int64_t k = first; k <= last; k += step)
        l->v[l->n++] = (dg_size){ k, k };
    return true;
}

/* Parses one item of a list: "480", "256:320:32", or, for sizes, "640x480". */
static bool read_piece(char *piece, list *l, bool sizes)
{
    char *colon = strchr(piece, ':'), *times = strchr(piece, 'x'),
         *second = colon ? strchr(colon + 1, ':') : NULL;
    int64_t a, b, step = 0;

    if (colon) {
        if (!second)
            return false;
        *colon = *second = '\0';
        return dg_parse_i64(piece, &a) && dg_parse_i64(colon + 1, &b) &&
               dg_parse_i64(second + 1, &step) && (!sizes || a > 0) && b <= INT32_MAX &&
               a >= INT32_MIN && add_range(l, a, b, step);
    }
    if (times && sizes)
        *times = '\0';
    if (!dg_parse_i64(piece, &a) || l->n >= DG_ATTR_MAX_LIST)
        return false;
    b = a;
    if (times && sizes && !dg_parse_i64(times + 1, &b))
        return false;
    if (sizes && (a < 1 || b < 1 || a > INT32_MAX || b > INT32_MAX))
        return false;
    l->v[l->n++] = (dg_size){ a, b };
    return true;
}

static bool read_list(const char *text, list *l, bool sizes, dg_arena *arena)
{
    size_t commas = 0;
    char *copy = dg_strdup(arena, text), *p = copy;
    dg_size room[DG_ATTR_MAX_LIST];
    bool fine = true;

    for (const char *c = text; *c; c++)
        commas += *c == ',';
    if (commas >= DG_ATTR_MAX_LIST)
        return false;
    l->v = room;
    for (bool more = true; fine && more;) {
        char *end;

        p += strspn(p, " ");
        end = p + strcspn(p, ", ");
        char *comma = end + strspn(end, " ");

        more = *comma == ',';
        fine = more || !*comma;
        *end = '\0';
        fine = fine && read_piece(p, l, sizes);
        p = comma + 1;
    }
    l->v = fine ? dg_memdup(arena, room, (size_t)l->n * sizeof *room) : NULL;
    return fine;
}

/* Makes a path absolute: relative to the folder of the file that contains it, or to the current
 * folder if there is none. */
static const char *read_path(const char *text, const char *folder, dg_arena *arena)
{
    char here[4096];
    const char *cwd = getcwd(here, sizeof here) ? here : ".";
    const char *plain = dg_path_join(arena, cwd, text);

    if (text[0] == '/' || !folder)
        return plain;
    const char *beside = strcmp(folder, ".") == 0
                             ? plain
                             : dg_path_join(arena, dg_path_join(arena, cwd, folder), text);

    return dg_exists(beside) || !dg_exists(plain) ? beside : plain;
}

bool dg_attr_read(const dg_attr *a, void *conf, const char *text, const char *folder,
                  dg_arena *arena)
{
    void *at = (char *)conf + a->offset;
    list l = { 0 };
    int64_t i;
    double x;

    switch (a->kind) {
    case DG_ATTR_NUM:
        if (!dg_parse_f64(text, &x) || x < a->lo || x > a->hi)
            return false;
        *(double *)at = x;
        return true;
    case DG_ATTR_INT:
        if (!dg_parse_i64(text, &i) || (double)i < a->lo || (double)i > a->hi)
            return false;
        *(int64_t *)at = i;
        return true;
    case DG_ATTR_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return false;
        *(bool *)at = text[0] == 't';
        return true;
    case DG_ATTR_STR:
        *(const char **)at = dg_strdup(arena, text);
        return true;
    case DG_ATTR_PATH:
        if (!*text)
            return false;
        *(const char **)at = read_path(text, folder, arena);
        return true;
    case DG_ATTR_ENUM:
        return read_word(a, text, at, arena);
    case DG_ATTR_WHEN:
        return read_when(text, a->def > 0, at);
    case DG_ATTR_INTS:
        if (!read_list(text, &l, false, arena))
            return false;
        int64_t *v = DG_NEW_N(arena, l.n, int64_t);

        for (int k = 0; k < l.n; k++)
            v[k] = l.v[k].w;
        *(dg_ints *)at = (dg_ints){ l.n, v };
        return true;
    case DG_ATTR_SIZES:
        if (!read_list(text, &l, true, arena))
            return false;
        *(dg_sizes *)at = (dg_sizes){ l.n, l.v };
        return true;
    }
    return false;
}

/* ---- descriptions of values ----------------------------------------------------------------- */

static void add_bounds(dg_str *out, const dg_attr *a)
{
    bool low = a->lo > -UNBOUNDED, high = a->hi < UNBOUNDED;

    if (low && high && a->lo == a->hi)
        dg_str_fmt(out, ", %.15g", a->lo);
    else if (low && high)
        dg_str_fmt(out, " from %.15g to %.15g", a->lo, a->hi);
    else if (low)
        dg_str_fmt(out, ", at least %.15g", a->lo);
    else if (high)
        dg_str_fmt(out, ", at most %.15g", a->hi);
}

void dg_attr_expected(dg_str *out, const dg_attr *a)
{
    const char *comma = "";

    switch (a->kind) {
    case DG_ATTR_NUM:
        dg_str_add(out, "a number");
        add_bounds(out, a);
        return;
    case DG_ATTR_INT:
        dg_str_add(out, "an integer");
        add_bounds(out, a);
        return;
    case DG_ATTR_BOOL:
        dg_str_add(out, "true or false");
        return;
    case DG_ATTR_ENUM:
        for (const char *p = a->text; *p;
             p += strcspn(p, "|") + (p[strcspn(p, "|")] == '|'), comma = ", ") {
            bool last = !p[strcspn(p, "|")];

            dg_str_fmt(out, "%s%.*s", last && *comma ? " or " : comma, (int)strcspn(p, "|"), p);
        }
        return;
    case DG_ATTR_WHEN:
        dg_str_add(out, a->def > 0
                            ? "a number of steps from 0 to 1000000000, or \"3 epochs\" or \"5 %\" "
                              "of the run"
                            : "a moment: \"step 952\", \"epoch 71\", \"153 steps\", \"1 epoch\", "
                              "\"10 min\" or \"55 %\" of the run");
        return;
    case DG_ATTR_INTS:
        dg_str_add(out, "integers, like \"4,8\" or \"256:320:32\"");
        return;
    case DG_ATTR_SIZES:
        dg_str_add(out, "sizes in pixels, like \"640\", \"640x480\" or \"480:800:32\"");
        return;
    case DG_ATTR_STR:
    case DG_ATTR_PATH:
        dg_str_add(out, a->kind == DG_ATTR_PATH ? "a path" : "text");
        return;
    }
}

/* Attributes that the engine reads. Classes built before flags existed are recognised by these
 * names. */
static const struct {
    unsigned flag;
    dg_attr_kind kind;
    const char *name;
} engine_reads[] = {
    { DG_ATTR_AXES, DG_ATTR_STR, "axis" },
    { DG_ATTR_BATCH, DG_ATTR_INT, "batch" },
    { DG_ATTR_REDUCTION, DG_ATTR_ENUM, "op" },
    { DG_ATTR_ROOT, DG_ATTR_INT, "root" },
};
enum { N_READ = sizeof engine_reads / sizeof *engine_reads };

bool dg_attr_flags_fit(const dg_attr *a)
{
    unsigned known = 0;

    for (int i = 0; i < N_READ; i++)
        if (a->flags & engine_reads[i].flag && a->kind == engine_reads[i].kind)
            known |= engine_reads[i].flag;
    return known == a->flags;
}

static const dg_attr *find_unflagged(const dg_attr *table, unsigned flag)
{
    int i = 0;
    const dg_attr *a;

    while (i < N_READ && engine_reads[i].flag != flag)
        i++;
    a = i < N_READ ? dg_attr_find(table, engine_reads[i].name) : NULL;
    return a && a->kind == engine_reads[i].kind ? a : NULL;
}

const dg_attr *dg_attr_flagged(const dg_attr *table, unsigned flag)
{
    unsigned any = 0;

    for (const dg_attr *a = table; a && a->name; a++) {
        if (a->flags & flag)
            return a;
        any |= a->flags;
    }
    return any ? NULL : find_unflagged(table, flag);
}

void dg_attr_defaults(const dg_attr *table, void *conf, dg_arena *arena)
{
    for (const dg_attr *a = table; a && a->name; a++) {
        void *at = (char *)conf + a->offset;

        if (a->kind == DG_ATTR_NUM)
            *(double *)at = a->def;
        else if (a->kind == DG_ATTR_INT || a->kind == DG_ATTR_ENUM)
            *(int64_t *)at = (int64_t)a->def;
        else if (a->kind == DG_ATTR_BOOL)
            *(bool *)at = a->def != 0;
        else if (a->text && !dg_attr_read(a, conf, a->text, NULL, arena))
            continue; /* the registry rejects such tables */
    }
}

bool dg_attr_default_text(dg_str *out, const dg_attr *a)
{
    const char *p = a->text;

    if (a->required)
        return false;
    switch (a->kind) {
    case DG_ATTR_NUM:
    case DG_ATTR_INT:
        dg_str_fmt(out, "%.15g", a->def);
        return true;
    case DG_ATTR_BOOL:
        dg_str_add(out, a->def != 0 ? "true" : "false");
        return true;
    case DG_ATTR_ENUM:
        for (int i = 0; i < (int)a->def; i++)
            p += strcspn(p, "|") + 1;
        dg_str_add_n(out, p, strcspn(p, "|"));
        return true;
    default:
        if (p)
            dg_str_add(out, p);
        return p != NULL;
    }
}
