/* expand.c: expands <include> with parameters and <stack>.
 *
 * The number of elements and turns of stacks is bounded, because nested stacks could otherwise grow
 * exponentially ("billion laughs"). */
#include "graph/expand.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "graph/let.h"

enum {
    MAX_ITEMS = 100000,
    MAX_INCLUDES = 16, /* depth of nesting */
    MAX_REPEAT = 1000,
};

bool dg_is_name(const char *s)
{
    static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789-";

    return *s && memchr(more, *s, 52) && s[strspn(s, more)] == '\0';
}

const dg_item_attr *dg_item_find(const dg_item *item, const char *name)
{
    for (int i = 0; i < item->n_attrs; i++)
        if (strcmp(item->attrs[i].name, name) == 0)
            return &item->attrs[i];
    return NULL;
}

bool dg_item_whole(const dg_item *item)
{
    for (int i = 0; i < item->n_attrs; i++)
        if (item->attrs[i].bad)
            return false;
    return true;
}

bool dg_item_id_ok(dg_load_errors *r, const dg_frame *frame, const dg_item_attr *id)
{
    r->holes |= id->bad;
    if (!id->bad && !dg_is_name(id->value))
        dg_load_error(r, frame, id->value_at, "id-syntax",
                      "id=\"%s\": an id has letters, digits, _ and -, and begins with a letter",
                      id->value);
    return !id->bad && dg_is_name(id->value);
}

/* ---- elements -------------------------------------------------------------------------------- */

static void expand_children(dg_expander *x, const dg_expansion *p, dg_item *into, const dg_xml *e,
                            const dg_var *env, const dg_parameters *given);

static void append(dg_item *into, dg_item *item)
{
    if (into->last)
        into->last = into->last->next = item;
    else
        into->first = into->last = item;
}

static void close_frame(dg_expander *x, dg_item *into, dg_frame *frame)
{
    dg_item *mark = DG_NEW(x->arena, dg_item);

    mark->at = frame->at;
    mark->frame = frame;
    append(into, mark);
}

/* Counts an element, or a turn of a <stack>, which needs memory even if it is empty; false at the
 * bound. */
static bool count_item(dg_expander *x, const dg_expansion *p, const dg_xml *e)
{
    if (++x->n_items <= MAX_ITEMS && x->n_attrs <= DG_EXPAND_MAX_ATTRS)
        return true;
    if (!x->full)
        dg_load_error(x->report, p->frame, e->at, "expand-too-many",
                      "the pipeline becomes larger than %d elements or %d attributes", MAX_ITEMS,
                      DG_EXPAND_MAX_ATTRS);
    x->full = true;
    return false;
}

/* Makes the element with $names replaced in its attributes; NULL at the bound. */
static dg_item *make_item(dg_expander *x, const dg_expansion *p, const dg_xml *e, const dg_var *env)
{
    dg_item *item;

    x->n_attrs += e->n_attrs;
    if (!count_item(x, p, e))
        return NULL;
    item = DG_NEW(x->arena, dg_item);
    item->name = e->name;
    item->at = e->at;
    item->frame = p->frame;
    item->n_attrs = e->n_attrs;
    item->attrs = DG_NEW_N(x->arena, e->n_attrs, dg_item_attr);
    for (int i = 0; i < e->n_attrs; i++) {
        const dg_xml_attr *a = &e->attrs[i];

        item->attrs[i] = (dg_item_attr){ .name = a->name, .at = a->at, .value_at = a->value_at };
        item->attrs[i].value = dg_let_replace(x, p, env, a->value, a->value_at,
                                              &item->attrs[i].folder, &item->attrs[i].bad);
    }
    return item;
}

/* ---- include --------------------------------------------------------------------------------- */

char *dg_part_place(dg_arena *a, const char *folder, const char *file)
{
    const size_t n = strcmp(folder, ".") == 0 ? 0 : strlen(folder);
    const bool slash = n > 0 && folder[n - 1] != '/'; /* stands between them */
    char *place, *rest = NULL;

    if (strncmp(file, folder, n) != 0 || (file[n] == '/') != slash)
        return NULL;
    place = dg_strdup(a, "");
    for (char *w = strtok_r(dg_strdup(a, file + n), "/", &rest); w; w = strtok_r(NULL, "/", &rest))
        place = dg_path_join(a, place, strcmp(w, "..") == 0 ? "above" : w);
    return place;
}

/* The part, or the copy of it that belongs to the copy of a pipeline which is read. */
static const char *find_part(dg_expander *x, const char *path)
{
    const char *place = dg_part_place(x->arena, x->home, path);
    const char *copy = place ? dg_path_join(x->arena, x->home, place) : path;

    return strstr(path, "..") && dg_exists(copy) ? copy : path;
}

/* Returns the root of a file, parsing it once; NULL after an error. */
static dg_xml *open_file(dg_expander *x, const dg_expansion *p, const char *path, const char *real,
                         dg_where at)
{
    dg_xml *root = dg_map_get(x->files, real);
    char *text = NULL;
    size_t n;

    if (root && !dg_map_has(x->sources, path)) /* by another name */
        dg_map_set(x->sources, path, dg_map_get(x->sources, root->at.file));
    if (dg_map_has(x->files, real))
        return root; /* NULL: its errors were reported before */
    dg_diag *own = dg_diag_open();
    int rc = dg_file_read(&text, &n, path, DG_XML_MAX_BYTES, own);

    if (rc < 0) {
        dg_load_error(x->report, p->frame, at, "include-unreadable", "%s: %s", path,
                      dg_diag_at(own, 0)->text);
    } else {
        dg_source *source = DG_NEW(x->arena, dg_source);

        char *copy = dg_alloc(x->arena, n + 1); /* whole, also behind a NUL */

        memcpy(copy, text, n);
        *source = (dg_source){ copy, n };
        dg_map_set(x->sources, path, source);
        rc = dg_xml_parse(&root, x->arena, text, n, path, x->report->diag);
        if (rc < 0) {
            x->report->n++;
            dg_note(x->report->diag, at, "included here");
        }
    }
    dg_map_set(x->files, real, root);
    dg_free(text);
    dg_diag_close(&own);
    return root;
}

static bool includes_itself(dg_expander *x, const dg_expansion *p, const char *real, dg_where at,
                            const char *path)
{
    int depth = 0;

    for (const dg_expansion *k = p; k; k = k->up, depth++)
        if (strcmp(k->path, real) == 0) {
            dg_load_error(x->report, p->frame, at, "include-cycle", "%s includes itself", path);
            return true;
        }
    if (depth >= MAX_INCLUDES)
        dg_load_error(x->report, p->frame, at, "include-too-deep",
                      "files include each other more than %d deep", MAX_INCLUDES);
    return depth >= MAX_INCLUDES;
}

static const char *real_path(dg_arena *a, const char *path)
{
    char *real = realpath(path, NULL);
    const char *copy = dg_strdup(a, real ? real : path);

    free(real);
    return copy;
}

static void check_parameters(dg_expander *x, const dg_expansion *p, const dg_item *item,
                             dg_parameters given)
{
    for (; given.n > 0; given.n--, given.first = given.first->next)
        if (!*given.first->used) {
            const dg_item_attr *a = dg_item_find(item, given.first->name);

            dg_load_error(x->report, p->frame, a->at, "include-parameter",
                          "the included part never uses $%s", a->name);
        }
}

/* Checks an include's id and returns the prefix for ids inside; without an id that is the outer
 * prefix. */
static const char *frame_prefix(dg_expander *x, const dg_expansion *p, const dg_item_attr *id)
{
    const char *outer = p->frame ? p->frame->prefix : "";

    if (!id || !dg_item_id_ok(x->report, p->frame, id))
        return outer;
    return dg_printf(x->arena, "%s%s.", outer, id->value);
}

static void expand_include(dg_expander *x, const dg_expansion *p, dg_item *into, const dg_xml *e,
                           const dg_var *env)
{
    dg_item *item = make_item(x, p, e, env);
    const dg_item_attr *file = item ? dg_item_find(item, "file") : NULL,
                       *id = item ? dg_item_find(item, "id") : NULL;
    dg_parameters given = { 0 };

    if (!item)
        return;
    dg_no_children(x, p, e);
    x->report->holes |= !file || file->bad;
    if (!file)
        dg_load_error(x->report, p->frame, e->at, "attr-missing", "<include> needs file=\"...\"");
    if (!file || file->bad)
        return;
    const char *path =
        find_part(x,
                  dg_path_join(x->arena,
                               file->folder && strcmp(file->folder, ".") != 0 ? file->folder : "",
                               file->value));
    const char *real = real_path(x->arena, path);

    if (includes_itself(x, p, real, file->value_at, path)) {
        x->report->holes = true;
        return;
    }
    dg_xml *root = open_file(x, p, path, real, file->value_at);

    x->report->holes |= !root;
    if (!root)
        return;
    if (strcmp(root->name, "part") != 0) {
        x->report->holes = true;
        dg_load_error(x->report, p->frame, root->at, "include-root",
                      "an included file is a <part>, this one is a <%s>", root->name);
        dg_load_error_note(x->report, file->value_at, "included here");
        return;
    }
    for (int i = 0; i < root->n_attrs; i++)
        dg_load_error(x->report, p->frame, root->attrs[i].at, "attr-unknown",
                      "<part> has no attributes; its parameters are <let>s");
    for (int i = 0; i < item->n_attrs; i++)
        if (&item->attrs[i] != file && &item->attrs[i] != id) {
            env = dg_let_push(x, env,
                              (dg_var){ .name = item->attrs[i].name,
                                        .value = item->attrs[i].value,
                                        .folder = item->attrs[i].folder,
                                        .bad = item->attrs[i].bad,
                                        .given = &item->attrs[i] });
            given.n++;
        }
    given.first = env;
    dg_frame *frame = DG_NEW(x->arena, dg_frame);
    dg_expansion inside = { dg_path_folder(x->arena, path), real, frame, p };

    *frame = (dg_frame){ .up = p->frame,
                         .prefix = frame_prefix(x, p, id),
                         .id = id && !id->bad ? id->value : NULL,
                         .at = e->at };
    expand_children(x, &inside, into, root, env, &given);
    close_frame(x, into, frame);
    if (!x->full)
        check_parameters(x, p, item, given);
}

/* ---- stack ----------------------------------------------------------------------------------- */

static void expand_stack(dg_expander *x, const dg_expansion *p, dg_item *into, const dg_xml *e,
                         const dg_var *env)
{
    static const char *const names[] = { "id", "count", "in" };
    dg_item *item = make_item(x, p, e, env);
    const dg_item_attr *count = item ? dg_item_find(item, "count") : NULL,
                       *id = item ? dg_item_find(item, "id") : NULL;
    int64_t n = 0;

    if (!item)
        return;
    for (int i = 0; i < item->n_attrs; i++)
        if (strcmp(item->attrs[i].name, "id") != 0 && strcmp(item->attrs[i].name, "count") != 0 &&
            strcmp(item->attrs[i].name, "in") != 0) {
            dg_load_error(x->report, p->frame, item->attrs[i].at, "attr-unknown",
                          "<stack> has no attribute \"%s\"", item->attrs[i].name);
            dg_load_error_nearest(x->report, item->attrs[i].name, names, 3, "its attributes");
        }
    x->report->holes |= !id || !count;
    if (!id || !count) {
        dg_load_error(x->report, p->frame, e->at, "attr-missing", "<stack> needs %s=\"...\"",
                      id ? "count" : "id");
        return;
    }
    if (count->bad) {
        x->report->holes = true;
        return;
    }
    if (!dg_parse_i64(count->value, &n) || n < 1 || n > MAX_REPEAT) {
        x->report->holes = true;
        dg_load_error(x->report, p->frame, count->value_at, "attr-value",
                      "count=\"%s\": expected an integer from 1 to %d", count->value, MAX_REPEAT);
        return;
    }
    const char *prefix = frame_prefix(x, p, id);
    dg_frame *before = NULL;

    for (int64_t k = 0; k < n && !x->full && count_item(x, p, e); k++) {
        dg_frame *frame = DG_NEW(x->arena, dg_frame);
        dg_expansion inside = *p;
        const char *index = dg_printf(x->arena, "%lld", (long long)k);

        *frame = (dg_frame){
            .up = p->frame, .id = id->value, .at = e->at, .stack = true, .before = before
        };
        frame->prefix = dg_printf(x->arena, "%s%s.", prefix, index);
        frame->in = dg_item_find(item, "in");
        x->report->holes |= frame->in && frame->in->bad;
        inside.frame = frame;
        expand_children(x, &inside, into, e,
                        dg_let_push(x, env,
                                    (dg_var){
                                        .name = "index", .value = index, .folder = p->folder }),
                        NULL);
        before = frame;
    }
    if (before)
        close_frame(x, into, before);
}

static void expand_element(dg_expander *x, const dg_expansion *p, dg_item *into, const dg_xml *e,
                           const dg_var *env)
{
    if (strcmp(e->name, "include") == 0) {
        expand_include(x, p, into, e, env);
    } else if (strcmp(e->name, "stack") == 0) {
        expand_stack(x, p, into, e, env);
    } else {
        dg_item *item = make_item(x, p, e, env);

        if (!item)
            return;
        append(into, item);
        expand_children(x, p, item, e, env, NULL);
    }
}

static void expand_children(dg_expander *x, const dg_expansion *p, dg_item *into, const dg_xml *e,
                            const dg_var *env, const dg_parameters *given)
{
    const dg_var *outer = env;

    for (const dg_xml *k = e->first; k && !x->full; k = k->next)
        if (strcmp(k->name, "let") == 0)
            env = dg_let_read(x, p, k, env, outer, given);
        else
            expand_element(x, p, into, k, env);
}

/* ---- the document ---------------------------------------------------------------------------- */

static void warn_unused(dg_expander *x, const dg_xml *e)
{
    for (; e; e = e->next) {
        for (int i = 0; i < e->n_attrs && strcmp(e->name, "let") == 0; i++)
            if (!e->attrs[i].used && dg_is_name(e->attrs[i].name))
                dg_load_error_warn(x->report, NULL, e->attrs[i].at, "let-unused",
                                   "%s is defined, but $%s is never used", e->attrs[i].name,
                                   e->attrs[i].name);
        warn_unused(x, e->first);
    }
}

static void check_sets(dg_expander *x)
{
    for (int k = 0; k < x->n_sets; k++)
        if (!x->set_used[k]) {
            dg_load_error(x->report, NULL, DG_NOWHERE, "set-unknown",
                          "--set %s=%s: the pipeline has no <let %s=...> at its top level",
                          x->sets[k].name, x->sets[k].value, x->sets[k].name);
            dg_load_error_nearest(x->report, x->sets[k].name, x->top_lets.items, x->top_lets.n,
                                  "its lets");
        }
}

int dg_items_read(dg_item **root, dg_load_errors *r, const char *text, size_t n, const char *file,
                  const dg_set *sets, int n_sets, dg_map *sources, dg_open_batch *batch)
{
    dg_expander x = { .report = r,
                      .arena = r->arena,
                      .files = dg_map_new(r->arena),
                      .sources = sources,
                      .home = dg_path_folder(r->arena, file),
                      .sets = sets,
                      .n_sets = n_sets,
                      .batch = batch };
    dg_source *source = DG_NEW(r->arena, dg_source);
    dg_xml *xml;
    dg_expansion top = { x.home, real_path(r->arena, file), NULL, NULL };

    *root = NULL;
    x.set_used = DG_NEW_N(r->arena, n_sets, bool);
    if (n <= DG_XML_MAX_BYTES) {
        *source = (dg_source){ dg_memdup(r->arena, text, n), n };
        dg_map_set(sources, file, source);
    }
    int rc = dg_xml_parse(&xml, r->arena, text, n, dg_strdup(r->arena, file), r->diag);

    if (rc < 0) {
        r->n++;
        return rc;
    }
    *root = make_item(&x, &top, xml, NULL);
    expand_children(&x, &top, *root, xml, NULL, NULL);
    if (!x.full) {
        warn_unused(&x, xml);
        for (int i = 0; i < dg_map_n(x.files); i++)
            warn_unused(&x, dg_map_value(x.files, i));
        check_sets(&x);
    }
    return x.full ? -DG_EINPUT : 0;
}
