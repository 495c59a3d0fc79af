/* index.c: a data set in memory: built, queried, closed. */
#include "media/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/pool.h"
#include "base/str.h"

enum { MAX_LIST = 1 << 20 };

dg_coco *dg_index_open(const char *path)
{
    dg_arena *a = dg_arena_open();
    dg_coco *c = DG_NEW(a, dg_coco);

    c->arena = a;
    c->path = dg_strdup(a, path);
    return c;
}

void dg_coco_close(dg_coco **c)
{
    if (!*c)
        return;
    dg_arena *a = (*c)->arena;

    if (!(*c)->lent)
        dg_free((*c)->annotations);
    dg_free((*c)->masks);
    dg_file_unmap(&(*c)->file);
    *c = NULL;
    dg_arena_close(&a);
}

/* ---- made of parts --------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool dg_index_nameless(const char *name)
{
    while (is_blank(*name))
        name++;
    return *name == '\0';
}

int dg_index_classes(dg_coco *c, const char *text, char separator, dg_where at, dg_diag *d)
{
    dg_map *names;
    int most = 1, entry = 0, hole = 0; /* the first empty one */

    text += dg_mark_bytes(text);
    for (const char *p = text; *p; p++)
        most += *p == separator;
    c->classes = DG_NEW_N(c->arena, most, dg_coco_class);
    names = dg_map_new(c->arena);
    for (const char *end = text; *end; text = end + (*end != '\0')) {
        const char *last;

        entry++;

        for (end = text; *end && *end != separator;)
            end++;
        for (last = end; last > text && is_blank(last[-1]);)
            last--;
        while (text < last && is_blank(*text))
            text++;
        if (text == last) {
            hole = hole ? hole : entry;
            continue;
        }
        if (hole) {
            at.line = separator == '\n' ? hole : at.line;
            dg_fail(d, DG_EINPUT, at, "class-nameless",
                    separator == '\n' ? "line %d is empty, and classes follow"
                                      : "class %d of the list has no name, and others follow",
                    hole);
            dg_help(d, "take it out, or name the class: labels are the places in this list");
            return -DG_EINPUT;
        }

        const char *name = dg_strndup(c->arena, text, (size_t)(last - text));

        if (!dg_is_utf8(name))
            return dg_fail(d, DG_EINPUT, at, "class-encoding",
                           "the class \"%s\" is not in UTF-8: save the list in that encoding",
                           name);
        if (dg_map_has(names, name))
            return dg_fail(d, DG_EINPUT, at, "class-twice", "the class \"%s\" is listed twice",
                           name);
        dg_map_set(names, name, NULL);
        c->classes[c->n_classes] = (dg_coco_class){ .id = c->n_classes + 1, .name = name };
        c->n_classes++;
    }
    if (c->n_classes == 0)
        return dg_fail(d, DG_EINPUT, at, "class-none", "no class is listed");
    return 0;
}

int dg_index_no_nul(const char *text, size_t n, const char *path, dg_diag *d)
{
    const char *nul = n ? memchr(text, '\0', n) : NULL;

    return nul ? dg_fail(d, DG_EINPUT, (dg_where){ .file = path }, "text-nul",
                         "byte %zu is NUL: a text file is expected, in UTF-8", (size_t)(nul - text))
               : 0;
}

int dg_index_text(char **text, size_t *n, const char *path, size_t max, dg_diag *d)
{
    int rc = dg_file_read(text, n, path, max, d);

    if (rc < 0)
        return rc;
    rc = dg_index_no_nul(*text, *n, path, d);
    if (rc < 0) {
        dg_free(*text);
        *text = NULL;
    }
    return rc;
}

int dg_index_classes_file(dg_coco *c, const char *path, dg_diag *d)
{
    char *text;
    size_t n;
    int rc = dg_index_text(&text, &n, path, MAX_LIST, d);

    if (rc == 0)
        rc = dg_index_classes(c, text, '\n', (dg_where){ .file = path }, d);
    dg_free(text);
    return rc;
}

int dg_index_no_split(const char *root, const dg_listing *has, dg_diag *d, const char *what)
{
    dg_str names = { 0 };

    for (int i = 0; i < has->n; i++)
        dg_str_fmt(&names, "%s\"%s\"", i ? ", " : "", has->v[i]);
    dg_fail(d, DG_EINPUT, (dg_where){ .file = root }, "data-split", "%s", what);
    if (has->n)
        dg_help(d, "it has the split%s %s", has->n > 1 ? "s" : "", names.s);
    dg_str_free(&names);
    return -DG_EINPUT;
}

int dg_index_label(const dg_coco *c, const char *name)
{
    for (int i = 0; i < c->n_classes; i++)
        if (strcmp(c->classes[i].name, name) == 0)
            return i;
    return -1;
}

int dg_index_size(dg_coco *c, int *w, int *h, const char *path, int n, bool replace, dg_diag *d)
{
    dg_diag *quiet = replace ? dg_diag_open() : NULL;
    int rc = dg_image_size(w, h, path, replace ? quiet : d);

    if (rc < 0) {
        *w = *h = 0;
        c->n_unsized++;
        c->n_lost += n;
    }
    if (rc < 0 && !replace)
        dg_help(d, "objects are marked in it: mend or remove both, or let a loader take another in "
                   "its place: "
                   "on_error=\"replace\"");
    dg_diag_close(&quiet);
    return replace ? 0 : rc;
}

double dg_index_round(double pixels)
{
    return fabs(pixels) < 1e6 ? rint(pixels * 1e9) / 1e9 : pixels;
}

/* ---- many files ------------------------------------------------------------------------------ */

typedef struct pass {
    dg_index_files *f;
    bool *refused; /* per file */
} pass;

static void read_range(void *ctx, int64_t begin, int64_t end, int thread)
{
    pass *p = ctx;
    dg_diag *d = dg_diag_open();

    for (int64_t i = begin; i < end; i++) {
        p->refused[i] = p->f->read(p->f->ctx, i, p->f->arenas[thread], d) < 0;
        dg_diag_clear(d);
    }
    dg_diag_close(&d);
}

/* Reads all files in parallel, then rereads the refused ones in order, so that their errors come in
 * file order. */
int dg_index_files_read(dg_index_files *f, int64_t n, dg_faults *faults, dg_diag *d)
{
    int threads = dg_threads_available();
    pass p = { .f = f };

    for (int i = 0; i < DG_INDEX_THREADS; i++)
        f->arenas[i] = dg_arena_open();
    p.refused = DG_NEW_N(f->arenas[0], n, bool);
    dg_parallel_for(threads < DG_INDEX_THREADS ? threads : DG_INDEX_THREADS, n, read_range, &p);
    for (int64_t i = 0; i < n; i++) {
        int rc = p.refused[i] ? f->read(f->ctx, i, f->arenas[0], d) : 0;

        if (rc < 0 && !faults)
            return rc;
        if (rc < 0) {
            dg_fault_take(faults, DG_FAULT_ANNOTATION, -1, d);
            f->drop(f->ctx, i);
        }
    }
    return 0;
}

void dg_index_files_close(dg_index_files *f)
{
    for (int i = 0; i < DG_INDEX_THREADS; i++)
        dg_arena_close(&f->arenas[i]);
}

int dg_index_join(dg_coco *c, const dg_coco_annotation *const *lists, const int *n, dg_diag *d)
{
    int64_t all = 0;

    for (int i = 0; i < c->n_images; i++)
        all += n[i];
    c->annotations = dg_try_alloc((size_t)(all ? all : 1) * sizeof *c->annotations);
    if (!c->annotations)
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = c->path }, "coco-memory",
                       "no memory for its index of %d images and %lld annotations", c->n_images,
                       (long long)all);
    for (int i = 0; i < c->n_images; i++) {
        c->images[i].first = c->n_annotations;
        c->images[i].n = n[i];
        for (int k = 0; k < n[i]; k++) {
            dg_coco_annotation *x = &c->annotations[c->n_annotations++];

            *x = lists[i][k];
            x->id = c->n_annotations;
            x->image = i;
        }
    }
    dg_index_count(c);
    if (c->n_unsized)
        dg_warn(
            d, (dg_where){ .file = c->path }, "data-unsized",
            "images that cannot be read: %lld; objects marked in them, which are left out: %lld",
            (long long)c->n_unsized, (long long)c->n_lost);
    return 0;
}

bool dg_index_over(dg_coco *c, const dg_coco_annotation *truths, int64_t n)
{
    bool sorted = true;
    int64_t *next;

    for (int64_t i = 0; i < n; i++) {
        c->images[truths[i].image].n++;
        sorted &= i == 0 || truths[i - 1].image <= truths[i].image;
    }
    for (int i = 0; i < c->n_images; i++)
        c->images[i].first = i ? c->images[i - 1].first + c->images[i - 1].n : 0;
    c->n_annotations = n;
    c->lent = sorted;
    if (sorted) {
        c->annotations = (dg_coco_annotation *)(uintptr_t)truths;
    } else {
        c->annotations = dg_try_alloc((size_t)n * sizeof *c->annotations);
        next = DG_NEW_N(c->arena, c->n_images, int64_t);
        if (!c->annotations)
            return false;
        for (int64_t i = 0; i < n; i++)
            c->annotations[c->images[truths[i].image].first + next[truths[i].image]++] = truths[i];
    }
    dg_index_count(c);
    return true;
}

void dg_index_count(dg_coco *c)
{
    c->per_class = DG_NEW_N(c->arena, c->n_classes, int64_t);
    dg_coco_count(&c->report, c->per_class, c);
}

/* ---- looking --------------------------------------------------------------------------------- */

const char *dg_coco_path(const dg_coco *c)
{
    return c->path;
}

const char *dg_coco_folder(const dg_coco *c)
{
    return c->folder;
}

int dg_coco_n_images(const dg_coco *c)
{
    return c->n_images;
}

int dg_coco_n_classes(const dg_coco *c)
{
    return c->n_classes;
}

int64_t dg_coco_n_annotations(const dg_coco *c)
{
    return c->n_annotations;
}

const dg_coco_image *dg_coco_image_at(const dg_coco *c, int i)
{
    return &c->images[i];
}

const dg_coco_class *dg_coco_class_at(const dg_coco *c, int label)
{
    return &c->classes[label];
}

const dg_coco_annotation *dg_coco_annotation_at(const dg_coco *c, int64_t i)
{
    return &c->annotations[i];
}

const dg_coco_annotation *dg_coco_annotations(const dg_coco *c)
{
    return c->annotations;
}

const dg_data_report *dg_coco_report(const dg_coco *c)
{
    return &c->report;
}

static int by_id(const void *p, const void *q)
{
    int64_t a, b; /* id is the first member of images and of classes */

    memcpy(&a, p, sizeof a);
    memcpy(&b, q, sizeof b);
    return (a > b) - (a < b);
}

/* Index of id among n items of `bytes` each that begin with their ids, ascending; -1 if absent. */
static int find(const void *items, int n, size_t bytes, int64_t id)
{
    const uint8_t *found = bsearch(&id, items, (size_t)n, bytes, by_id);

    return found ? (int)((size_t)(found - (const uint8_t *)items) / bytes) : -1;
}

int dg_coco_find_image(const dg_coco *c, int64_t id)
{
    return find(c->images, c->n_images, sizeof *c->images, id);
}

int dg_coco_find_class(const dg_coco *c, int64_t id)
{
    return find(c->classes, c->n_classes, sizeof *c->classes, id);
}
