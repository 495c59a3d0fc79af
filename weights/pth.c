/* pth.c: reads files of torch.save: a zip archive with NAME/data.pkl and one entry NAME/data/KEY
 * per storage, or the format before PyTorch 1.6: five pickles, then the storages. Takes a state
 * dictionary: the averaged weights of a checkpoint of a reference (ema.module of RT-DETR's,
 * ema_model of RF-DETR's), else its weights (model), else the file's own dictionary. */
#include "weights/archive.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/str.h"
#include "weights/pickle.h"

enum { PICKLE_MAX = 64 << 20 };
static const uint64_t unpacked_max = UINT64_C(16) << 30;
/* torch.save does not compress; tools that do halve weights. What shrinks more is no weight, or
 * fills the memory on purpose. */
enum { MOST_RATIO = 32, RATIO_FROM = 1 << 20 };

typedef struct storage {
    dg_stored type;
    int64_t n;
    void *data;
} storage;

typedef struct reader {
    dg_archive *a;
    dg_diag *d;
    dg_map *storages;   /* key -> storage */
    zip_t *zip;         /* NULL: the old format; all storages are known */
    const char *prefix; /* "archive/" */
    uint64_t unpacked;
} reader;

static int broken(reader *r, const char *what, const char *name)
{
    return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = r->a->file }, "pth-broken",
                   "not a sound PyTorch checkpoint: %s%s%s", what, name ? " " : "",
                   name ? name : "");
}

/* ---- zip ------------------------------------------------------------------------------------- */

/* Reads a whole entry into heap memory owned by the archive. */
static int read_packed(reader *r, const char *name, uint64_t most, void **data, uint64_t *n)
{
    zip_stat_t st;
    zip_file_t *f;
    uint64_t got = 0;

    if (zip_stat(r->zip, name, 0, &st) || !(st.valid & ZIP_STAT_SIZE) ||
        !(st.valid & ZIP_STAT_COMP_SIZE))
        return broken(r, "the archive lacks", name);
    if (st.size > RATIO_FROM && st.size / MOST_RATIO > st.comp_size)
        return broken(r, "it is compressed beyond what weights can be:", name);
    if (st.size > most || (r->unpacked += st.size) > unpacked_max)
        return broken(r, "impossible size of", name);
    *n = st.size;
    *data = dg_archive_hold(r->a, st.size + 1);
    if (!*data)
        return dg_archive_no_memory(r->a, name, r->d);
    f = zip_fopen(r->zip, name, 0);
    while (f && got < st.size) {
        zip_int64_t k = zip_fread(f, (char *)*data + got, st.size - got);

        if (k <= 0)
            break;
        got += (uint64_t)k;
    }
    /* reading to the end verifies the checksum */
    bool ended = f && got == st.size && zip_fread(f, &(char){ 0 }, 1) == 0;

    if (f)
        zip_fclose(f);
    return ended ? 0 : broken(r, "truncated or damaged:", name);
}

/* *prefix = "archive/" from the only entry "archive/data.pkl". Of two, programs may read different
 * ones. */
static int find_prefix(reader *r, const char **prefix)
{
    zip_int64_t n = zip_get_num_entries(r->zip, 0);

    *prefix = NULL;

    for (zip_int64_t i = 0; i < n; i++) {
        const char *name = zip_get_name(r->zip, (zip_uint64_t)i, 0);
        size_t len = name ? strlen(name) : 0;

        if (len < 8 || strcmp(name + len - 8, "data.pkl") != 0 || (len > 8 && name[len - 9] != '/'))
            continue;
        if (*prefix)
            return broken(r, "a zip archive with two data.pkl", NULL);
        *prefix = dg_strndup(r->a->arena, name, len - 8);
    }
    return *prefix ? 0 : broken(r, "a zip archive without data.pkl", NULL);
}

static int check_order(reader *r)
{
    const char *name = dg_printf(r->a->arena, "%sbyteorder", r->prefix);
    void *data;
    uint64_t n;

    if (zip_name_locate(r->zip, name, 0) < 0)
        return 0; /* files older than this entry are little-endian */
    int rc = read_packed(r, name, 64, &data, &n);

    if (rc < 0)
        return rc;
    return n == 6 && memcmp(data, "little", 6) == 0
               ? 0
               : broken(r, "its numbers are not little-endian", NULL);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    dg_stored type;
} storage_types[] = {
    { "torch.DoubleStorage", DG_ST_F64 }, { "torch.FloatStorage", DG_ST_F32 },
    { "torch.HalfStorage", DG_ST_F16 },   { "torch.BFloat16Storage", DG_ST_BF16 },
    { "torch.LongStorage", DG_ST_I64 },   { "torch.IntStorage", DG_ST_I32 },
    { "torch.ShortStorage", DG_ST_I16 },  { "torch.CharStorage", DG_ST_I8 },
    { "torch.ByteStorage", DG_ST_U8 },    { "torch.BoolStorage", DG_ST_BOOL },
};

static bool storage_type(const dg_pickle *v, dg_stored *out)
{
    for (size_t i = 0; v->kind == DG_PK_NAME && i < sizeof storage_types / sizeof storage_types[0];
         i++)
        if (strcmp(storage_types[i].name, v->text) == 0) {
            *out = storage_types[i].type;
            return true;
        }
    return false;
}

/* id: ("storage", type, key, location, elements[, view]). */
static int find_storage(reader *r, const dg_pickle *id, storage **out)
{
    dg_stored type;

    if (id->kind != DG_PK_STORAGE || id->n < 5 || !storage_type(id->items[1], &type) ||
        id->items[2]->kind != DG_PK_TEXT || id->items[4]->kind != DG_PK_INT ||
        id->items[4]->integer < 0 || id->items[4]->integer > INT64_C(1) << 40)
        return broken(r, "a tensor without a storage of a known type", NULL);
    const char *key = id->items[2]->text;
    int64_t n = id->items[4]->integer;
    storage *s = dg_map_get(r->storages, key);

    *out = s;
    if (s)
        return s->type == type && s->n == n ? 0 : broken(r, "two descriptions of the storage", key);
    if (!r->zip)
        return broken(r, "it lacks the storage", key);
    uint64_t bytes = 0;

    s = *out = DG_NEW(r->a->arena, storage);
    s->type = type;
    s->n = n;
    int rc = read_packed(r, dg_printf(r->a->arena, "%sdata/%s", r->prefix, key),
                         (uint64_t)n * dg_stored_size(type), &s->data, &bytes);

    if (rc == 0 && bytes != (uint64_t)n * dg_stored_size(type))
        rc = broken(r, "wrong size of the storage", key);
    dg_map_set(r->storages, key, s);
    return rc;
}

/* Fills shape and strides; checks that every element is inside the storage. */
static int layout(reader *r, dg_entry *e, const dg_pickle *v, const storage *s)
{
    const dg_pickle *size = v->items[2], *stride = v->items[3];
    int64_t dense = 1, last = v->items[1]->integer,
            *strides = DG_NEW_N(r->a->arena, DG_MAX_DIMS, int64_t);
    bool is_dense = true;

    if (size->n > DG_MAX_DIMS)
        return dg_fail(r->d, DG_EUNSUPPORTED, (dg_where){ .file = r->a->file }, "weights-rank",
                       "%s has %d dimensions; %d at most are read here", e->name, size->n,
                       DG_MAX_DIMS);
    e->shape.rank = size->n;
    for (int k = size->n - 1; k >= 0; k--) {
        int64_t dim = size->items[k]->integer, by = stride->items[k]->integer, reach;

        if (size->items[k]->kind != DG_PK_INT || stride->items[k]->kind != DG_PK_INT || dim < 0 ||
            by < 0 || dim > INT64_C(1) << 40 || __builtin_mul_overflow(dense, dim, &dense) ||
            __builtin_mul_overflow(dim > 0 ? dim - 1 : 0, by, &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return broken(r, "impossible shape of", e->name);
        is_dense = is_dense && (dim == 1 || by == dense / (dim ? dim : 1));
        e->shape.d[k] = dim;
        strides[k] = by;
    }
    e->n = dense;
    /* With a stride of 0 a few bytes could represent any number of elements. */
    if (dense > s->n || (dense > 0 && last >= s->n))
        return broken(r, "its storage is too small for", e->name);
    e->strides = is_dense ? NULL : strides;
    return 0;
}

/* v: (storage, offset, size, stride, ...). */
static int add_tensor(reader *r, const char *name, const dg_pickle *v)
{
    dg_entry *e = &r->a->entries[r->a->n];
    storage *s = NULL;

    e->name = name;
    if (dg_map_has(r->a->by_name, name))
        return broken(r, "two entries have the name", name);
    if (v->n < 4 || v->items[1]->kind != DG_PK_INT || v->items[1]->integer < 0 ||
        v->items[2]->kind != DG_PK_TUPLE || v->items[3]->kind != DG_PK_TUPLE ||
        v->items[2]->n != v->items[3]->n)
        return broken(r, "an impossible description of", name);
    int rc = find_storage(r, v->items[0], &s);

    if (rc < 0)
        return rc;
    assert(s);
    e->type = s->type;
    rc = layout(r, e, v, s);
    if (rc < 0)
        return rc;
    e->data =
        e->n ? (const uint8_t *)s->data + (size_t)v->items[1]->integer * dg_stored_size(s->type)
             : NULL;
    dg_map_set(r->a->by_name, name, e);
    r->a->n++;
    return 0;
}

/* The state dictionary of a checkpoint, and its name in *part. */
static const dg_pickle *state_of(const dg_pickle *root, const char **part)
{
    static const char *const parts[] = { "ema_model", "model", "state_dict" };
    const dg_pickle *ema = dg_pickle_get(dg_pickle_get(root, "ema"), "module");

    if (ema && ema->kind == DG_PK_DICT) {
        *part = "ema.module";
        return ema;
    }
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const dg_pickle *v = dg_pickle_get(root, parts[i]);

        if (v && v->kind == DG_PK_DICT) {
            *part = parts[i];
            return v;
        }
    }
    return root;
}

static int no_tensor(reader *r, const dg_pickle *state)
{
    dg_str keys = { 0 };

    for (int i = 0; i < state->n && i < 20; i += 2)
        if (state->items[i]->kind == DG_PK_TEXT)
            dg_str_fmt(&keys, "%s%s", keys.n ? ", " : "", state->items[i]->text);
    dg_fail(r->d, DG_EINPUT, (dg_where){ .file = r->a->file }, "pth-no-state",
            "its dictionary%s%s holds no tensor", r->a->part ? " " : "",
            r->a->part ? r->a->part : "");
    if (keys.n)
        dg_note(
            r->d, DG_NOWHERE,
            "it holds %s; tensors are looked for in itself and in ema.module, ema_model, model and "
            "state_dict",
            keys.s);
    dg_str_free(&keys);
    return -DG_EINPUT;
}

static int add_state(reader *r, const dg_pickle *root)
{
    const dg_pickle *state = state_of(root, &r->a->part);
    int rc = 0;

    if (state->kind != DG_PK_DICT)
        return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = r->a->file }, "pth-no-state",
                       "a dictionary of tensors is expected, this file holds %s",
                       dg_pickle_kind_name(state->kind));
    r->a->entries = DG_NEW_N(r->a->arena, state->n / 2 + 1, dg_entry);
    for (int i = 0; rc == 0 && i < state->n; i += 2)
        if (state->items[i]->kind == DG_PK_TEXT && state->items[i + 1]->kind == DG_PK_TENSOR)
            rc = add_tensor(r, state->items[i]->text, state->items[i + 1]);
    return rc == 0 && r->a->n == 0 ? no_tensor(r, state) : rc;
}

/* ---- the format before 1.6 ------------------------------------------------------------------- */

static int next_pickle(reader *r, size_t *at, dg_pickle **out, dg_pickle *storages)
{
    const dg_mapping *m = &r->a->mapping;
    size_t used = 0;
    int rc = dg_pickle_parse(out, r->a->arena, m->p + *at, m->n - *at, &used, storages, r->a->file,
                             r->d);

    *at += used;
    return rc;
}

/* Notes the contents of every storage, needed or not: their bytes follow each other. */
static int find_types(reader *r, const dg_pickle *storages)
{
    for (int i = 0; i < storages->n; i++) {
        const dg_pickle *id = storages->items[i];
        dg_stored type;

        if (id->n < 5 || !storage_type(id->items[1], &type) || id->items[2]->kind != DG_PK_TEXT ||
            id->items[4]->kind != DG_PK_INT)
            return broken(r, "a tensor without a storage of a known type", NULL);
        storage *s = DG_NEW(r->a->arena, storage);

        s->type = type;
        s->n = id->items[4]->integer;
        dg_map_set(r->storages, id->items[2]->text, s);
    }
    return 0;
}

static int parse_old(reader *r)
{
    const dg_mapping *m = &r->a->mapping;
    dg_pickle *ignored, *root, *keys, storages;
    size_t at = 0;
    int rc = 0;

    for (int i = 0; i < 3; i++) /* magic number, protocol, machine */
        DG_TRY(next_pickle(r, &at, &ignored, NULL));
    DG_TRY(next_pickle(r, &at, &root, &storages));
    DG_TRY(next_pickle(r, &at, &keys, NULL));
    if (keys->kind != DG_PK_LIST)
        return broken(r, "its list of storages is missing", NULL);
    DG_TRY(find_types(r, &storages));
    for (int i = 0; i < keys->n; i++) {
        storage *s = keys->items[i]->kind == DG_PK_TEXT
                         ? dg_map_get(r->storages, keys->items[i]->text)
                         : NULL;
        int64_t n;

        if (!s)
            return broken(r, "its list of storages has one that no tensor is in", NULL);
        if (m->n - at < 8)
            return broken(r, "it ends before the storage", keys->items[i]->text);
        memcpy(&n, m->p + at, 8);
        at += 8;
        if (n < 0 || n != s->n || (uint64_t)n > (m->n - at) / dg_stored_size(s->type))
            return broken(r, "it ends inside of the storage", keys->items[i]->text);
        s->data = (void *)(uintptr_t)(m->p + at);
        at += (size_t)n * dg_stored_size(s->type);
    }
    for (int i = 0; i < dg_map_n(r->storages); i++)
        if (!((storage *)dg_map_value(r->storages, i))->data)
            return broken(r, "it lacks the storage", dg_map_key(r->storages, i));
    return add_state(r, root);
out:
    return rc;
}

int dg_pth_parse(dg_archive *a, dg_diag *d)
{
    reader r = { .a = a, .d = d, .storages = dg_map_new(a->arena) };
    dg_pickle *root;
    void *bytes;
    uint64_t n;
    int rc, code = 0;

    if (a->mapping.n && a->mapping.p[0] == 0x80)
        return parse_old(&r);
    r.zip = zip_open(a->file, ZIP_RDONLY, &code);
    if (!r.zip)
        return broken(&r, "its zip directory cannot be read; was it cut short?", NULL);
    DG_TRY(find_prefix(&r, &r.prefix));
    DG_TRY(check_order(&r));
    DG_TRY(read_packed(&r, dg_printf(a->arena, "%sdata.pkl", r.prefix), PICKLE_MAX, &bytes, &n));
    DG_TRY(dg_pickle_parse(&root, a->arena, bytes, n, NULL, NULL, a->file, d));
    DG_TRY(add_state(&r, root));
out:
    zip_discard(r.zip);
    return rc;
}
