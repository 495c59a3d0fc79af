/* survey_images.c: surveys the image files of a data set: missing, unreadable, truncated, of
 * another size than annotated, duplicates, in two splits, in no split.
 *
 * Reads the header and the last bytes of every file (or all of it, to decode). Files are the same
 * if their bytes are: only files equal in length, size and last bytes are read whole for a
 * digest. */
#include "media/survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/pool.h"
#include "media/marks.h"

enum { CHUNK = 2048, TAIL = 4096, FINE = -1 };

typedef struct look {
    int split, image;
    int8_t fault; /* FINE, or a dg_fault_kind */
    bool same;    /* duplicate of an earlier one, by path or content */
    int64_t bytes;
    uint64_t tail, digest; /* hashes: of the last bytes; of all bytes, if needed */
} look;

typedef struct looking {
    dg_survey *s;
    look *v;
    int64_t n;
    int64_t *order; /* the looks to process */
    int64_t first;  /* start of the current chunk in order */
    bool decode;
} looking;

static const dg_coco *index_of(const looking *l, const look *x)
{
    return l->s->splits[x->split].index;
}

static const dg_coco_image *image_of(const looking *l, const look *x)
{
    return &index_of(l, x)->images[x->image];
}

static const char *path_of(const looking *l, const look *x, dg_arena *a)
{
    return dg_path_join(a, index_of(l, x)->folder, image_of(l, x)->file_name);
}

/* ---- one file -------------------------------------------------------------------------------- */

/* Offset past the headers of a JPEG: embedded thumbnails have end markers, too. */
static size_t jpeg_scan(const uint8_t *p, size_t n)
{
    size_t i = 2;

    while (i + 4 <= n && p[i] == 0xFF && p[i + 1] != 0xDA) {
        if (p[i + 1] == 0xFF) { /* fill byte */
            i++;
            continue;
        }
        i += 2 + ((size_t)p[i + 2] << 8 | p[i + 3]);
    }
    return i < n ? i : n;
}

/* True if the file contains the marker that ends an image, or as many bytes as its header needs;
 * some tools append other data. */
static bool is_whole(const uint8_t *p, size_t n)
{
    if (dg_is_bmp(p, n))
        return dg_bmp_is_whole(p, n);
    if (dg_is_webp(p, n))
        return dg_webp_is_whole(p, n);
    if (dg_is_tiff(p, n))
        return dg_tiff_is_whole(p, n);
    if (dg_is_png(p, n))
        return n >= 12 && memmem(p + n - (n < TAIL ? n : TAIL), n < TAIL ? n : TAIL,
                                 "IEND\xAE\x42\x60\x82", 8);
    if (n > TAIL && memmem(p + n - TAIL, TAIL, "\xFF\xD9", 2))
        return true;
    size_t scan = jpeg_scan(p, n);

    return memmem(p + scan, n - scan, "\xFF\xD9", 2) != NULL;
}

/* Checks one file: returns FINE or the fault, described in d. */
static int inspect(const looking *l, look *x, dg_scratch *scratch, dg_arena *a, dg_diag *d)
{
    const dg_coco_image *im = image_of(l, x);
    const char *path = path_of(l, x, a);
    dg_mapping m = { 0 };
    dg_image_header header;
    dg_image image;
    struct stat st;
    int kind = FINE, turn;

    if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "image-missing", "there is no such file");
        if (strchr(im->file_name, '\\'))
            dg_help(d, "folders are parted by / here, not by \\ as on Windows");
        return DG_FAULT_IMAGE_MISSING;
    }
    if (dg_file_map(&m, path, d) < 0)
        return DG_FAULT_IMAGE_UNREADABLE;
    x->bytes = (int64_t)m.n;
    x->tail = dg_fnv1a(m.p + (m.n > TAIL ? m.n - TAIL : 0), m.n > TAIL ? TAIL : m.n);
    if (dg_image_header_decode(&header, m.p, m.n, path, d) < 0) {
        kind = DG_FAULT_IMAGE_UNREADABLE;
    } else if (!is_whole(m.p, m.n)) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "image-cut",
                "the file ends before the image does (%zu bytes)", m.n);
        kind = DG_FAULT_IMAGE_CUT;
    } else if (l->s->layout.form != DG_FORM_PLAIN && im->w > 0 &&
               dg_coco_turn(&turn, &header, im, path, d) < 0) {
        kind = DG_FAULT_IMAGE_SIZE;
    } else if (l->decode) {
        dg_scratch_reset(scratch);
        if (dg_image_decode_as(&image, scratch, m.p, m.n, path, (dg_decode){ .stored = true }, d) <
            0)
            kind = DG_FAULT_IMAGE_UNREADABLE;
    }
    dg_file_unmap(&m);
    return kind;
}

/* ---- many files ------------------------------------------------------------------------------ */

static void inspect_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    looking *l = ctx;
    dg_scratch *scratch = dg_scratch_open(0);
    dg_diag *d = dg_diag_open();

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        dg_arena *a = dg_arena_open();
        look *x = &l->v[l->order[l->first + i]];

        x->fault = (int8_t)inspect(l, x, scratch, a, d);
        dg_diag_clear(d);
        dg_arena_close(&a);
    }
    dg_diag_close(&d);
    dg_scratch_close(&scratch);
}

static void digest_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    looking *l = ctx;
    dg_diag *d = dg_diag_open();

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        dg_arena *a = dg_arena_open();
        look *x = &l->v[l->order[l->first + i]];
        dg_mapping m = { 0 };

        if (dg_file_map(&m, path_of(l, x, a), d) == 0)
            x->digest = dg_fnv1a(m.p, m.n);
        dg_file_unmap(&m);
        dg_diag_clear(d);
        dg_arena_close(&a);
    }
    dg_diag_close(&d);
}

/* Runs body over n items in chunks, to report progress between them. */
static void run_in_chunks(looking *l, const dg_survey_options *o, const char *what, int64_t n,
                          dg_range_fn *body)
{
    for (l->first = 0; l->first < n; l->first += CHUNK) {
        if (o->progress)
            o->progress(o->ctx, what, l->first, n);
        dg_parallel_for(o->threads, n - l->first < CHUNK ? n - l->first : CHUNK, body, l);
    }
    if (o->progress)
        o->progress(o->ctx, what, n, n);
}

/* Inspects faulty files again to get their messages, up to DG_FAULTS_KEPT per kind. */
static void name_faults(looking *l)
{
    dg_faults *f = &l->s->faults;
    dg_scratch *scratch = dg_scratch_open(0);
    dg_diag *d = dg_diag_open();

    for (int64_t i = 0; i < l->n; i++) {
        look *x = &l->v[i];
        dg_arena *a;

        if (x->fault == FINE || x->same)
            continue;
        f->split = x->split;
        if (f->of[x->fault].kept.n == DG_FAULTS_KEPT) {
            f->of[x->fault].n++;
            continue;
        }
        a = dg_arena_open();
        (void)inspect(l, x, scratch, a, d);
        dg_fault_take(f, (dg_fault_kind)x->fault, x->image, d);
        dg_arena_close(&a);
    }
    f->split = -1;
    dg_diag_close(&d);
    dg_scratch_close(&scratch);
}

/* ---- the same twice -------------------------------------------------------------------------- */

static void note_same(looking *l, const look *first, look *x, bool path)
{
    dg_faults *f = &l->s->faults;
    const char *name = image_of(l, x)->file_name, *other = image_of(l, first)->file_name;
    dg_where at = { .file = name };
    const char *in = l->s->splits[first->split].name;

    x->same = true;
    f->split = x->split;
    if (first->split != x->split && path)
        dg_fault_note(f, DG_FAULT_LEAK, x->image, at, "is in %s and in %s", in,
                      l->s->splits[x->split].name);
    else if (first->split != x->split)
        dg_fault_note(f, DG_FAULT_LEAK, x->image, at, "in %s has the content of %s in %s",
                      l->s->splits[x->split].name, other, in);
    else if (path)
        dg_fault_note(f, DG_FAULT_IMAGE_TWICE, x->image, at,
                      "is listed twice, as image %lld and %lld", (long long)image_of(l, first)->id,
                      (long long)image_of(l, x)->id);
    else
        dg_fault_note(f, DG_FAULT_IMAGE_COPY, x->image, at, "has the content of %s", other);
    f->split = -1;
}

static void find_paths_twice(looking *l)
{
    dg_arena *a = dg_arena_open();
    dg_map *paths = dg_map_new(a);

    for (int64_t i = 0; i < l->n; i++) {
        const char *path = path_of(l, &l->v[i], a);
        look *first = dg_map_get(paths, path);

        if (first)
            note_same(l, first, &l->v[i], true);
        else
            dg_map_set(paths, path, &l->v[i]);
    }
    dg_arena_close(&a);
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_ends(const void *p, const void *q, void *ctx)
{
    const looking *l = ctx;
    const int64_t i = *(const int64_t *)p, k = *(const int64_t *)q;
    const look *a = &l->v[i], *b = &l->v[k];
    int order = compare(a->bytes, b->bytes);

    if (order == 0)
        order = (a->tail > b->tail) - (a->tail < b->tail);
    return order ? order : compare(i, k);
}

static int by_digest(const void *p, const void *q, void *ctx)
{
    const looking *l = ctx;
    const int64_t i = *(const int64_t *)p, k = *(const int64_t *)q;
    const look *a = &l->v[i], *b = &l->v[k];
    int order = compare(a->bytes, b->bytes);

    if (order == 0)
        order = (a->digest > b->digest) - (a->digest < b->digest);
    return order ? order : compare(i, k);
}

static bool same_ends(const looking *l, int64_t i, int64_t k)
{
    const look *a = &l->v[i], *b = &l->v[k];

    return a->bytes == b->bytes && a->tail == b->tail;
}

/* Keeps the items of order[0..n-1] that share length and last bytes with another; returns their
 * number. */
static int64_t keep_suspects(looking *l, int64_t n)
{
    int64_t kept = 0;

    qsort_r(l->order, (size_t)n, sizeof *l->order, by_ends, l);
    for (int64_t i = 0; i < n;) {
        int64_t k = i + 1;

        while (k < n && same_ends(l, l->order[i], l->order[k]))
            k++;
        for (int64_t j = i; k - i > 1 && j < k; j++)
            l->order[kept++] = l->order[j];
        i = k;
    }
    return kept;
}

static void find_copies(looking *l, const dg_survey_options *o)
{
    int64_t n = 0;

    for (int64_t i = 0; i < l->n; i++)
        if (!l->v[i].same && l->v[i].bytes > 0)
            l->order[n++] = i;
    n = keep_suspects(l, n);
    if (n == 0)
        return;
    run_in_chunks(l, o, "files of equal length", n, digest_range);
    qsort_r(l->order, (size_t)n, sizeof *l->order, by_digest, l);
    for (int64_t i = 1, first = 0; i < n; i++) {
        look *a = &l->v[l->order[first]], *x = &l->v[l->order[i]];

        if (a->bytes == x->bytes && a->digest == x->digest)
            note_same(l, a, x, false);
        else
            first = i;
    }
}

/* ---- in no split ----------------------------------------------------------------------------- */

static void note_unlisted(dg_survey *s, const char *path, const char *what)
{
    dg_fault_note(&s->faults, DG_FAULT_UNLISTED, -1, (dg_where){ .file = path }, "%s", what);
}

/* "a/images/b" -> "a/labels/b"; NULL if the path has no "images" folder. */
static const char *labels_beside(dg_arena *a, const char *folder)
{
    const char *at = NULL, *path = dg_printf(a, "%s/", folder);

    for (const char *p = path; (p = strstr(p, "/images/")); p++)
        at = p;
    return at ? dg_printf(a, "%.*s/labels/%s", (int)(at - path), path, at + strlen("/images/"))
              : NULL;
}

/* Notes labels without an image; name: the folder's key in stems. */
static void find_lonely_labels(dg_survey *s, dg_arena *a, const char *folder, const char *name,
                               const dg_map *stems)
{
    const char *labels = labels_beside(a, folder);
    dg_diag *quiet = dg_diag_open();
    dg_listing files = { 0 };

    if (labels && dg_is_folder(labels))
        (void)!dg_dir_list(&files, NULL, a, labels, quiet);
    for (int i = 0; i < files.n; i++)
        if (dg_path_ends(files.v[i], ".txt") && strcmp(files.v[i], "classes.txt") != 0 &&
            !dg_map_has(stems, dg_path_join(a, name, dg_path_stem(a, files.v[i]))))
            note_unlisted(s, dg_path_join(a, labels, files.v[i]), "labels without an image");
    dg_diag_close(&quiet);
}

/* The canonical path of a folder; `real` caches the answers. */
static const char *real_folder(dg_map *real, dg_arena *a, const char *folder)
{
    const char *name = dg_map_get(real, folder);

    if (!name) {
        char *found = realpath(folder, NULL);

        name = dg_strdup(a, found ? found : folder);
        free(found);
        dg_map_set(real, folder, (void *)(uintptr_t)name);
    }
    return name;
}

/* Notes .csv files that are no tables of boxes: one may have been meant as a split. */
static void find_other_tables(dg_survey *s, dg_arena *a)
{
    dg_listing files;

    dg_marks_table_others(&files, a, &dg_csv_form, s->layout.root);
    for (int i = 0; i < files.n; i++)
        note_unlisted(s, dg_path_join(a, s->layout.root, files.v[i]),
                      "a table whose first line does not name the columns of boxes");
}

/* Notes images that no split lists in folders of listed ones; only when all splits were
 * surveyed. */
static void find_unlisted(looking *l, bool all_splits)
{
    dg_survey *s = l->s;
    dg_arena *a = dg_arena_open();
    dg_map *listed = dg_map_new(a), *folders = dg_map_new(a), *stems = dg_map_new(a),
           *real = dg_map_new(a);
    dg_diag *quiet = dg_diag_open();

    for (int64_t i = 0; i < l->n; i++) {
        const char *path = path_of(l, &l->v[i], a), *folder = dg_path_folder(a, path),
                   *name = real_folder(real, a, folder);

        path = dg_path_join(a, name, dg_path_name(path));
        dg_map_set(listed, path, s);
        dg_map_set(stems, dg_path_stem(a, path), s);
        if (!dg_map_has(folders, name))
            dg_map_set(folders, name, (void *)(uintptr_t)folder);
    }
    for (int i = 0; all_splits && i < dg_map_n(folders); i++) {
        const char *name = dg_map_key(folders, i), *folder = dg_map_value(folders, i);
        dg_listing files = { 0 };

        if (dg_is_folder(folder))
            (void)!dg_dir_list(&files, NULL, a, folder, quiet);
        for (int k = 0; k < files.n; k++)
            if (dg_image_named(files.v[k]) &&
                !dg_map_has(listed, dg_path_join(a, name, files.v[k])))
                note_unlisted(s, dg_path_join(a, folder, files.v[k]),
                              s->layout.form == DG_FORM_VOC
                                  ? "an image that no split lists, or without an .xml file"
                              : s->layout.form == DG_FORM_LABELME
                                  ? "an image that no split lists, or without a .json file"
                                  : "an image that no split lists");
        if (s->layout.form == DG_FORM_YOLO)
            find_lonely_labels(s, a, folder, name, stems);
    }
    if (all_splits && (s->layout.form == DG_FORM_CSV || s->layout.form == DG_FORM_PLAIN))
        find_other_tables(s, a);
    dg_diag_close(&quiet);
    dg_arena_close(&a);
}

/* ---- all of it ------------------------------------------------------------------------------- */

int dg_survey_images(dg_survey *s, const dg_survey_options *o, dg_diag *d)
{
    looking l = { .s = s, .decode = o->decode };
    int64_t n = 0;

    l.v = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *l.v);
    l.order = dg_try_alloc((size_t)(s->n_images + 1) * sizeof *l.order);
    if (!l.v || !l.order) {
        dg_free(l.v);
        dg_free(l.order);
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = s->layout.root }, "out-of-memory",
                       "no memory to look at %lld images", (long long)s->n_images);
    }
    for (int i = 0; i < s->n_splits; i++)
        for (int k = 0; s->splits[i].index && k < s->splits[i].index->n_images; k++)
            l.v[l.n++] = (look){ .split = i, .image = k, .fault = FINE };
    find_paths_twice(&l);
    for (int64_t i = 0; i < l.n && !o->no_images; i++)
        if (!l.v[i].same)
            l.order[n++] = i;
    if (n) {
        run_in_chunks(&l, o, "images", n, inspect_range);
        name_faults(&l);
        find_copies(&l, o);
        find_unlisted(&l, !o->splits && s->layout.others.n == 0);
        s->n_read = n;
        s->decoded = o->decode;
    }
    for (int64_t i = 0; i < l.n; i++)
        s->n_bytes += l.v[i].bytes;
    dg_free(l.v);
    dg_free(l.order);
    return 0;
}
