/* yaml.c: builds a tree from libyaml's events; no other file uses libyaml. */
#include "media/yaml.h"

#include <string.h>

#include <yaml.h>

#include "base/file.h"
#include "base/map.h"
#include "base/str.h"

enum { MAX_DEPTH = 32, MAX_VALUES = 1 << 17, MAX_BYTES = 4 << 20 };

typedef struct reader {
    yaml_parser_t parser;
    yaml_event_t event;
    dg_arena *arena;
    const char *file;
    int depth, n_values;
    dg_diag *d;
} reader;

static dg_where at(const reader *r, yaml_mark_t mark)
{
    return (dg_where){ r->file, (int)mark.line + 1, (int)mark.column + 1, NULL };
}

/* Replaces the current event by the next one. */
static int next_event(reader *r)
{
    yaml_event_delete(&r->event);
    memset(&r->event, 0, sizeof r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return 0;
    if (r->parser.error == YAML_MEMORY_ERROR)
        return dg_fail(r->d, DG_EMEMORY, (dg_where){ .file = r->file }, "out-of-memory",
                       "no memory to read it");
    return dg_fail(r->d, DG_EINPUT, at(r, r->parser.problem_mark), "yaml-syntax",
                   "not valid YAML: %s",
                   r->parser.problem ? r->parser.problem : "it cannot be read");
}

static void take_scalar(reader *r, dg_json *v)
{
    const char *text = (const char *)r->event.data.scalar.value;
    const bool plain = r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    v->text = dg_strndup(r->arena, text, r->event.data.scalar.length);
    v->kind = DG_JSON_STRING;
    if (plain && dg_parse_f64(v->text, &v->number))
        v->kind = DG_JSON_NUMBER;
    else if (plain && (!*v->text || strcmp(v->text, "~") == 0 || strcmp(v->text, "null") == 0))
        v->kind = DG_JSON_NULL;
}

static int take_value(reader *r, dg_json *v);

static int take_items(reader *r, dg_json *v, yaml_event_type_t end)
{
    DG_VEC(dg_json) items = { 0 };
    dg_map *keys = v->kind == DG_JSON_OBJECT ? dg_map_new(r->arena) : NULL;
    int rc = 0;

    if (++r->depth > MAX_DEPTH)
        return dg_fail(r->d, DG_EINPUT, v->at, "yaml-depth", "nested more than %d deep", MAX_DEPTH);
    for (;;) {
        dg_json item = { 0 };

        DG_TRY(next_event(r));
        if (r->event.type == end)
            break;
        if (keys) {
            if (r->event.type != YAML_SCALAR_EVENT)
                return dg_fail(r->d, DG_EINPUT, at(r, r->event.start_mark), "yaml-syntax",
                               "a key must be a single word");
            item.key = dg_strndup(r->arena, (const char *)r->event.data.scalar.value,
                                  r->event.data.scalar.length);
            if (dg_map_has(keys, item.key))
                return dg_fail(r->d, DG_EINPUT, at(r, r->event.start_mark), "yaml-twice",
                               "%s stands here twice", item.key);
            dg_map_set(keys, item.key, NULL);
            DG_TRY(next_event(r));
        }
        DG_TRY(take_value(r, &item));
        DG_PUSH(r->arena, items, item);
    }
    r->depth--;
    v->items = items.items;
    v->n = items.n;
out:
    return rc;
}

/* Reads the value that begins with the current event. */
static int take_value(reader *r, dg_json *v)
{
    v->at = at(r, r->event.start_mark);
    if (++r->n_values > MAX_VALUES)
        return dg_fail(r->d, DG_EINPUT, v->at, "yaml-size", "more than %d values", MAX_VALUES);
    switch (r->event.type) {
    case YAML_SCALAR_EVENT:
        take_scalar(r, v);
        return 0;
    case YAML_SEQUENCE_START_EVENT:
        v->kind = DG_JSON_ARRAY;
        return take_items(r, v, YAML_SEQUENCE_END_EVENT);
    case YAML_MAPPING_START_EVENT:
        v->kind = DG_JSON_OBJECT;
        return take_items(r, v, YAML_MAPPING_END_EVENT);
    case YAML_ALIAS_EVENT:
        return dg_fail(r->d, DG_EINPUT, v->at, "yaml-alias",
                       "*%s: references are not read here; write the value itself",
                       (const char *)r->event.data.alias.anchor);
    default:
        return dg_fail(r->d, DG_EINPUT, v->at, "yaml-syntax", "the file holds no value");
    }
}

int dg_yaml_parse(const dg_json **out, dg_arena *a, const char *text, size_t n, const char *file,
                  dg_diag *d)
{
    reader r = { .arena = a, .file = file, .d = d };
    dg_json *root = DG_NEW(a, dg_json);
    int rc = 0;

    if (!yaml_parser_initialize(&r.parser))
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = file }, "out-of-memory",
                       "no memory to read it");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
    do
        DG_TRY(next_event(&r));
    while (r.event.type == YAML_STREAM_START_EVENT || r.event.type == YAML_DOCUMENT_START_EVENT);
    DG_TRY(take_value(&r, root));
    *out = root;
out:
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return rc;
}

int dg_yaml_read(const dg_json **out, dg_arena *a, const char *path, dg_diag *d)
{
    char *text = NULL;
    size_t n;
    int rc;

    DG_TRY(dg_file_read(&text, &n, path, MAX_BYTES, d));
    DG_TRY(dg_yaml_parse(out, a, text, n, path, d));
out:
    dg_free(text);
    return rc;
}
