/* shards.c: weights in several files, as Hugging Face transformers saves large ones:
 * model.safetensors.index.json, { "metadata": { ... }, "weight_map": { "TENSOR":
 * "model-00001-of-00003.safetensors", ... } }, and the files that it names. Index and files must
 * match: every tensor is in the file that the index names, and in no other. Files are opened by
 * name only, so that an index reaches nothing outside its folder.
 * https://huggingface.co/docs/transformers/big_models */
#include "weights/archive.h"

#include <string.h>

#include "media/json.h"

static int broken(dg_where at, dg_diag *d, const char *tensor, const char *what, const char *file)
{
    dg_fail(d, DG_EINPUT, at, "shards-broken", "%s %s %s", tensor, what, file);
    dg_help(d, "the index and its files are not of one save: take them all from one place again");
    return -DG_EINPUT;
}

static bool is_name(const dg_json *file)
{
    return file->kind == DG_JSON_STRING && file->text[0] && !strchr(file->text, '/') &&
           strcmp(file->text, ".") != 0 && strcmp(file->text, "..") != 0;
}

/* Opens the file that the index names for a tensor, unless it is open. */
static int open_shard(dg_archive *a, const dg_json *place, dg_diag *d)
{
    bool text = place->kind == DG_JSON_STRING;
    dg_archive *shard = NULL;
    int rc;

    if (!is_name(place))
        return dg_fail(
            d, DG_EINPUT, place->at, "shards-place",
            "the place of %s is %s, expected is the name of a file in the index's own folder",
            place->key,
            text ? dg_printf(a->arena, "\"%s\"", place->text) : dg_json_kind_name(place->kind));
    if (dg_map_has(a->shards, place->text))
        return 0;
    rc =
        dg_archive_open_file(&shard,
                             dg_path_join(a->arena, dg_path_folder(a->arena, a->file), place->text),
                             d);
    if (rc < 0) {
        dg_note(d, place->at, "the index places %s in it", place->key);
        return rc;
    }
    dg_map_set(a->shards, place->text, shard);
    return 0;
}

/* Takes all tensors of a file; the index must place each in it. */
static int take_shard(dg_archive *a, const dg_map *places, const char *file,
                      const dg_archive *shard, dg_diag *d)
{
    for (int i = 0; i < shard->n; i++) {
        dg_entry *e = &a->entries[a->n];
        const dg_json *place = dg_map_get(places, shard->entries[i].name);
        dg_where at = { .file = shard->file };

        *e = shard->entries[i];
        if (!place)
            return broken(at, d, e->name, "is in this file and nowhere in", dg_path_name(a->file));
        if (strcmp(place->text, file) != 0)
            return broken(at, d, e->name, "is in this file, and the index places it in",
                          place->text);
        dg_map_set(a->by_name, e->name, e);
        a->n++;
    }
    return 0;
}

int dg_shards_parse(dg_archive *a, dg_diag *d)
{
    const dg_json *root, *map;
    dg_map *places = dg_map_new(a->arena); /* name of a tensor -> its entry in the index */
    int rc;

    DG_TRY(dg_json_parse(&root, a->arena, (const char *)a->mapping.p, a->mapping.n, a->file, d));
    DG_TRY(dg_json_need(&map, root, "weight_map", DG_JSON_OBJECT, d));
    a->shards = dg_map_new(a->arena);
    a->entries = DG_NEW_N(a->arena, map->n + 1, dg_entry);
    for (int i = 0; i < map->n; i++) {
        const dg_json *place = &map->items[i];

        if (dg_map_has(places, place->key))
            return broken(place->at, d, place->key, "has two places, the second is",
                          dg_json_text(map, place->key));
        DG_TRY(open_shard(a, place, d));
        dg_map_set(places, place->key, (void *)(uintptr_t)place);
    }
    for (int i = 0; i < dg_map_n(a->shards); i++)
        DG_TRY(take_shard(a, places, dg_map_key(a->shards, i), dg_map_value(a->shards, i), d));
    for (int i = 0; i < map->n; i++)
        if (!dg_archive_find(a, map->items[i].key))
            return broken(map->items[i].at, d, map->items[i].key, "is missing in",
                          map->items[i].text);
out:
    return rc;
}
