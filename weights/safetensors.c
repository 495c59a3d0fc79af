/* safetensors.c: the safetensors format: u64 little-endian length of a JSON header, the header,
 * then the bytes of all tensors without gaps. Header: name -> {"dtype": "F32", "shape": [..],
 * "data_offsets": [b, e]}, and "__metadata__" with strings.
 * https://github.com/huggingface/safetensors
 *
 * Reading is strict: every offset, length and product is checked before use, tensors fill the
 * buffer exactly, and names are unique.
 *
 * Files written here carry a checksum of all of their bytes, its own digits taken as zeros, in
 * __metadata__, which other programs ignore. A second key says who wrote the file, so that a
 * flipped bit in the name of the first does not make it a file without a checksum. */
#include "weights/archive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/str.h"
#include "media/json.h"

enum { HEADER_MAX = 100 << 20, DIGITS = DG_CHECKSUM_TEXT - 1 };
static const char writer_key[] = "detrgraph.format", sum_key[] = "detrgraph.checksum",
                  zeros[] = "0000000000000000";

static int broken(const dg_archive *a, dg_diag *d, const char *what, const char *name)
{
    return dg_fail(d, DG_EINPUT, (dg_where){ .file = a->file }, "safetensors-broken",
                   "not a sound safetensors file: %s%s%s", what, name ? " of " : "",
                   name ? name : "");
}

/* Reads an integer in 0..most; false if it is not one. */
static bool whole(const dg_json *v, double most, int64_t *out)
{
    if (v->kind != DG_JSON_NUMBER || !(v->number >= 0) || v->number > most ||
        v->number != (double)(int64_t)v->number)
        return false;
    *out = (int64_t)v->number;
    return true;
}

static int read_shape(dg_archive *a, dg_entry *e, const dg_json *shape, dg_diag *d)
{
    if (shape->n > DG_MAX_DIMS)
        return dg_fail(d, DG_EUNSUPPORTED, (dg_where){ .file = a->file }, "weights-rank",
                       "%s has %d dimensions; %d at most are read here", e->name, shape->n,
                       DG_MAX_DIMS);
    e->shape.rank = shape->n;
    e->n = 1;
    for (int i = 0; i < shape->n; i++) {
        int64_t dim;

        if (!whole(&shape->items[i], 0x1p40, &dim) || __builtin_mul_overflow(e->n, dim, &e->n) ||
            e->n > INT64_C(1) << 48)
            return broken(a, d, "an impossible dimension in the shape", e->name);
        e->shape.d[i] = dim;
    }
    return 0;
}

static int read_entry(dg_archive *a, dg_entry *e, const dg_json *v, const uint8_t *buffer,
                      size_t size, dg_diag *d)
{
    const dg_json *type = dg_json_get(v, "dtype"), *shape = dg_json_get(v, "shape"),
                  *offsets = dg_json_get(v, "data_offsets");
    int64_t begin, end;

    if (!type || type->kind != DG_JSON_STRING || !shape || shape->kind != DG_JSON_ARRAY ||
        !offsets || offsets->kind != DG_JSON_ARRAY || offsets->n != 2)
        return broken(a, d, "dtype, shape or data_offsets is missing in the entry", e->name);
    if (!dg_stored_find(&e->type, type->text))
        return dg_fail(d, DG_EUNSUPPORTED, (dg_where){ .file = a->file }, "weights-type",
                       "%s has elements of type %s, which is not read here", e->name, type->text);
    int rc = read_shape(a, e, shape, d);

    if (rc < 0)
        return rc;
    if (!whole(&offsets->items[0], (double)size, &begin) ||
        !whole(&offsets->items[1], (double)size, &end) || begin > end)
        return broken(a, d, "was it cut short? data_offsets lie outside the file in the entry",
                      e->name);
    if (end - begin != e->n * (int64_t)dg_stored_size(e->type))
        return broken(a, d, "data_offsets do not agree with dtype and shape in the entry", e->name);
    e->data = buffer + begin;
    return 0;
}

static int by_place(const void *x, const void *y)
{
    const dg_entry *const *a = x, *const *b = y;
    const uint8_t *p = (*a)->data, *q = (*b)->data;

    return p != q ? (p < q ? -1 : 1) : ((*a)->n > (*b)->n) - ((*a)->n < (*b)->n);
}

/* Checks that the tensors, ordered by offset, fill the buffer without overlap or gap. */
static int check_tiling(dg_archive *a, const uint8_t *buffer, size_t size, dg_diag *d)
{
    const dg_entry **sorted = DG_NEW_N(a->arena, a->n ? a->n : 1, const dg_entry *);
    const uint8_t *at = buffer;

    for (int i = 0; i < a->n; i++)
        sorted[i] = &a->entries[i];
    qsort(sorted, (size_t)a->n, sizeof *sorted, by_place);
    for (int i = 0; i < a->n; i++) {
        if (sorted[i]->data != at)
            return broken(a, d, "bytes overlap or are left out before the tensor", sorted[i]->name);
        at += (size_t)sorted[i]->n * dg_stored_size(sorted[i]->type);
    }
    return at == buffer + size ? 0 : broken(a, d, "bytes are left over at the end", NULL);
}

/* Offset of the checksum's digits in a header that was written here; 0: not found. */
static size_t find_digits(const char *header, size_t n)
{
    dg_str key = { 0 };
    const char *at;
    size_t skip;

    dg_str_fmt(&key, "\"%s\":\"", sum_key);
    at = memmem(header, n, key.s, key.n);
    skip = key.n;
    dg_str_free(&key);
    return at && at + skip + DIGITS <= header + n ? (size_t)(at - header) + skip : 0;
}

static int damaged(const dg_archive *a, const char *said, const char *found, dg_diag *d)
{
    dg_fail(d, DG_EINPUT, (dg_where){ .file = a->file }, "weights-damaged",
            "its bytes are not those that were written: its checksum is %s, and the file says %s",
            found, said);
    dg_help(d, "take another copy; if another program changed it, have that one write a file "
               "without __metadata__");
    return -DG_EINPUT;
}

static const char *meta_text(const dg_archive *a, const char *key)
{
    return a->meta && a->meta->kind == DG_JSON_OBJECT && *dg_json_text(a->meta, key)
               ? dg_json_text(a->meta, key)
               : NULL;
}

static int check_sum(dg_archive *a, const uint8_t *bytes, size_t n, size_t header, dg_diag *d)
{
    const char *said = meta_text(a, sum_key);
    size_t at = find_digits((const char *)bytes + 8, header);
    dg_checksum c = { 0 };
    char found[DG_CHECKSUM_TEXT];

    if (!said && !at && !meta_text(a, writer_key))
        return 0; /* another program's, or an older version's */
    if (!said || !at)
        return damaged(a, "nothing about it", "missing", d);
    dg_checksum_add(&c, bytes, 8 + at);
    dg_checksum_add(&c, zeros, DIGITS);
    dg_checksum_add(&c, bytes + 8 + at + DIGITS, n - 8 - at - DIGITS);
    a->checksum = dg_checksum_end(&c);
    a->has_checksum = true;
    dg_checksum_print(a->checksum, found);
    return strcmp(said, found) == 0 ? 0 : damaged(a, said, found, d);
}

int dg_safetensors_parse(dg_archive *a, const uint8_t *bytes, size_t n, dg_diag *d)
{
    const dg_json *root;
    uint64_t length = 0;
    int rc;

    for (int i = 0; n >= 8 && i < 8; i++)
        length |= (uint64_t)bytes[i] << 8 * i;
    if (n < 8 || length < 2 || bytes[8 < n ? 8 : 0] != '{')
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = a->file }, "weights-format",
                       n ? "neither a safetensors file nor a PyTorch checkpoint"
                         : "the file is empty");
    if (length > HEADER_MAX || length > n - 8)
        return broken(a, d,
                      "its header is said to be longer than the file or 100 MB; was it cut short?",
                      NULL);
    DG_TRY(dg_json_parse(&root, a->arena, (const char *)bytes + 8, length, a->file, d));
    if (root->kind != DG_JSON_OBJECT)
        return broken(a, d, "its header is not an object", NULL);
    a->entries = DG_NEW_N(a->arena, root->n ? root->n : 1, dg_entry);
    for (int i = 0; i < root->n; i++) {
        const dg_json *v = &root->items[i];
        dg_entry *e = &a->entries[a->n];

        if (strcmp(v->key, "__metadata__") == 0) {
            if (a->meta || v->kind != DG_JSON_OBJECT)
                return broken(a, d, "its __metadata__ is not one object", NULL);
            a->meta = v;
            continue;
        }
        e->name = v->key;
        if (dg_map_has(a->by_name, v->key))
            return broken(a, d, "two entries have the name", v->key);
        DG_TRY(read_entry(a, e, v, bytes + 8 + length, n - 8 - length, d));
        dg_map_set(a->by_name, v->key, e);
        a->n++;
    }
    DG_TRY(check_tiling(a, bytes + 8 + length, n - 8 - length, d));
    DG_TRY(check_sum(a, bytes, n, length, d));
out:
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void add_header(dg_str *h, const dg_out_entry *e, int n, const char *const *meta)
{
    int64_t at = 0;

    dg_str_fmt(h, "{\"__metadata__\":{\"%s\":\"1\",\"%s\":\"%s\"", writer_key, sum_key, zeros);
    for (int i = 0; meta && meta[i]; i += 2) {
        dg_str_add(h, ",");
        dg_str_json(h, meta[i]);
        dg_str_add(h, ":");
        dg_str_json(h, meta[i + 1]);
    }
    dg_str_add(h, "}");
    for (int i = 0; i < n; i++) {
        int64_t bytes = dg_shape_elements(e[i].shape) * (int64_t)dg_stored_size(e[i].type);

        dg_str_add(h, ",");
        dg_str_json(h, e[i].name);
        dg_str_fmt(h, ":{\"dtype\":\"%s\",\"shape\":[", dg_stored_name(e[i].type));
        for (int k = 0; k < e[i].shape.rank; k++)
            dg_str_fmt(h, "%s%lld", k ? "," : "", (long long)e[i].shape.d[k]);
        dg_str_fmt(h, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)(at + bytes));
        at += bytes;
    }
    dg_str_add(h, "}");
    while (h->n % 8) /* aligns the tensors, as the format's own writer does */
        dg_str_add(h, " ");
}

static double source(const dg_out_entry *e, int64_t i)
{
    return e->from == DG_F32   ? (double)((const float *)e->data)[i]
           : e->from == DG_F64 ? ((const double *)e->data)[i]
                               : (double)((const int64_t *)e->data)[i];
}

static bool same_type(const dg_out_entry *e)
{
    return (e->from == DG_F32 && e->type == DG_ST_F32) ||
           (e->from == DG_F64 && e->type == DG_ST_F64) ||
           (e->from == DG_I64 && e->type == DG_ST_I64);
}

static size_t convert(const dg_out_entry *e, int64_t i, uint8_t *to)
{
    double v = source(e, i);
    float f32 = (float)v;
    int64_t i64;

    switch (e->type) {
    case DG_ST_F32:
        memcpy(to, &f32, sizeof f32);
        break;
    case DG_ST_I64:
        i64 = (int64_t)v;
        memcpy(to, &i64, sizeof i64);
        break;
    case DG_ST_BOOL:
        to[0] = v != 0;
        break;
    default:
        memcpy(to, &v, sizeof v);
        break;
    }
    return dg_stored_size(e->type);
}

/* Where the bytes of a file go. */
typedef struct sink {
    dg_outfile *file; /* or, if this is NULL: */
    dg_checksum *sum;
    dg_diag *d;
} sink;

static int put(const sink *to, const void *p, size_t n)
{
    if (to->file)
        return dg_outfile_write(to->file, p, n, to->d);
    dg_checksum_add(to->sum, p, n);
    return 0;
}

static int put_entry(const sink *to, const dg_out_entry *e)
{
    int64_t n = dg_shape_elements(e->shape);
    uint8_t buf[4096];
    size_t used = 0;
    int rc = 0;

    if (same_type(e))
        return put(to, e->data, (size_t)n * dg_stored_size(e->type));
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        used += convert(e, i, buf + used);
        if (used + 8 > sizeof buf || i + 1 == n) {
            rc = put(to, buf, used);
            used = 0;
        }
    }
    return rc;
}

typedef struct whole_file {
    const dg_out_entry *e;
    int n;
    dg_str header; /* with its length before it */
} whole_file;

static int put_all(const sink *to, const whole_file *w)
{
    int rc = put(to, w->header.s, w->header.n);

    for (int i = 0; rc == 0 && i < w->n; i++)
        rc = put_entry(to, &w->e[i]);
    return rc;
}

typedef struct summing {
    const whole_file *w;
    dg_checksum sum;
} summing;

static void *sum_all(void *ctx)
{
    summing *s = ctx;

    (void)put_all(&(sink){ .sum = &s->sum }, s->w);
    return NULL;
}

/* Writes the bytes while another thread adds them up, which takes a tenth of the time, and then the
 * checksum over its zeros; to a pipe the checksum goes first. */
static int write_all(dg_outfile *f, whole_file *w, uint64_t *checksum, dg_diag *d)
{
    summing s = { .w = w };
    const size_t digits = 8 + find_digits(w->header.s + 8, w->header.n - 8);
    const bool stream = dg_outfile_is_stream(f);
    char text[DG_CHECKSUM_TEXT];
    pthread_t thread;
    bool beside = !stream && pthread_create(&thread, NULL, sum_all, &s) == 0;
    int rc;

    if (!beside)
        sum_all(&s);
    if (stream)
        memcpy(w->header.s + digits, dg_checksum_print(dg_checksum_end(&s.sum), text), DIGITS);
    rc = put_all(&(sink){ .file = f, .d = d }, w);
    if (beside)
        pthread_join(thread, NULL);
    *checksum = dg_checksum_end(&s.sum);
    return rc < 0 || stream
               ? rc
               : dg_outfile_patch(f, digits, dg_checksum_print(*checksum, text), DIGITS, d);
}

int dg_safetensors_write(const char *file, const dg_out_entry *e, int n, const char *const *meta,
                         uint64_t *checksum, dg_diag *d)
{
    whole_file w = { .e = e, .n = n };
    dg_outfile *f = NULL;
    uint64_t unused;
    int rc;

    dg_str_add_n(&w.header, zeros, 8);
    add_header(&w.header, e, n, meta);
    for (int i = 0; i < 8; i++)
        w.header.s[i] = (char)(uint8_t)((w.header.n - 8) >> 8 * i);
    DG_TRY(dg_outfile_open(&f, file, d));
    DG_TRY(write_all(f, &w, checksum ? checksum : &unused, d));
    DG_TRY(dg_outfile_commit(f, d));
out:
    dg_outfile_close(&f);
    dg_str_free(&w.header);
    return rc;
}
