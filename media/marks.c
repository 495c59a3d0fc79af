/* marks.c: see marks.h. */
#include "media/marks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"

void dg_marks_open(dg_marks *r, const dg_data_source *from, dg_faults *faults, dg_diag *d)
{
    *r = (dg_marks){ .from = from, .faults = faults, .d = d, .arena = dg_arena_open() };
    r->c = dg_index_open(from->split ? dg_printf(r->arena, "%s (%s)", from->root, from->split)
                                     : from->root);
    r->c->folder = dg_strdup(r->c->arena, from->root);
}

int dg_marks_close(dg_marks *r, int rc, dg_coco **out)
{
    if (rc < 0)
        dg_coco_close(&r->c);
    else
        *out = r->c;
    dg_arena_close(&r->arena);
    return rc;
}

const char *dg_marks_path(dg_marks *r, const char *relative)
{
    return *relative ? dg_path_join(r->arena, r->from->root, relative) : r->from->root;
}

int dg_marks_classes(dg_marks *r)
{
    const char *file = dg_marks_path(r, "classes.txt");

    if (r->from->classes)
        return dg_index_classes(r->c, r->from->classes, ',', (dg_where){ .file = r->from->root },
                                r->d);
    return dg_exists(file) ? dg_index_classes_file(r->c, file, r->d) : 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(((const dg_coco_class *)a)->name, ((const dg_coco_class *)b)->name);
}

static void found_classes(dg_marks *r)
{
    dg_map *names = dg_map_new(r->arena);
    int n;

    for (int i = 0; i < r->entries.n; i++)
        for (int k = 0; r->entries.items[i]->read && k < r->entries.items[i]->marks.objects.n; k++)
            if (!dg_index_nameless(r->entries.items[i]->marks.objects.items[k].name))
                dg_map_set(names, r->entries.items[i]->marks.objects.items[k].name, NULL);
    n = dg_map_n(names);
    r->c->classes = DG_NEW_N(r->c->arena, n, dg_coco_class);
    for (int i = 0; i < n; i++)
        r->c->classes[i].name = dg_strdup(r->c->arena, dg_map_key(names, i));
    qsort(r->c->classes, (size_t)n, sizeof *r->c->classes, by_bytes);
    for (int i = 0; i < n; i++)
        r->c->classes[i].id = i + 1;
    r->c->n_classes = n;
}

/* "nut, bolt, ..." */
static const char *listed_names(const dg_marks *r)
{
    enum { SHOWN = 8 };
    const char *text = "";

    for (int k = 0; k < r->c->n_classes && k < SHOWN; k++)
        text = dg_printf(r->arena, "%s%s%s", text, k ? ", " : "", r->c->classes[k].name);
    return r->c->n_classes > SHOWN ? dg_printf(r->arena, "%s, ...", text) : text;
}

/* Converts the objects of one file to annotations; returns their number. */
static int annotate(dg_marks *r, const dg_marks_entry *e, dg_coco_annotation *out)
{
    const double first = r->from->from_one ? 1 : 0;
    int n = 0;

    for (int k = 0; k < e->marks.objects.n; k++) {
        const dg_marked_object *x = &e->marks.objects.items[k];
        int label = dg_index_label(r->c, x->name);
        dg_where at = { dg_marks_path(r, e->file), x->line, 0, NULL };

        if (dg_index_nameless(x->name)) {
            int rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_ANNOTATION, at, "class-nameless",
                                      "the class of this object is an empty text");

            if (rc < 0)
                return rc;
            continue;
        }
        if (label < 0) {
            int rc = dg_fault_or_fail(r->faults, r->d, DG_FAULT_CLASS_UNKNOWN, at, "mark-class",
                                      "the class \"%s\" is not among the %d that %s: %s", x->name,
                                      r->c->n_classes,
                                      r->from->classes ? "classes=\"...\" lists"
                                                       : dg_printf(r->arena, "%s lists",
                                                                   dg_marks_path(r, "classes.txt")),
                                      listed_names(r));

            if (rc < 0)
                return rc;
            continue;
        }
        out[n] = (dg_coco_annotation){
            .label = label,
            .x = x->x1 - first,
            .y = x->y1 - first,
            .w = dg_index_round(x->x2 - x->x1 + first),
            .h = dg_index_round(x->y2 - x->y1 + first),
            .crowd = x->difficult != 0 && !r->from->difficult,
            .truncated = x->truncated != 0,
        };
        out[n].area = fabs(out[n].w * out[n].h);
        n++;
    }
    return n;
}

static int by_image(const void *a, const void *b)
{
    return strcmp((*(dg_marks_entry *const *)a)->image, (*(dg_marks_entry *const *)b)->image);
}

int dg_marks_index(dg_marks *r)
{
    const dg_coco_annotation **lists =
        DG_NEW_N(r->arena, r->wanted.n + 1, const dg_coco_annotation *);
    int *n = DG_NEW_N(r->arena, r->wanted.n + 1, int);
    dg_coco *c = r->c;
    const int all = r->wanted.n;

    if (!c->n_classes)
        found_classes(r);

    if (all == 0)
        return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = c->path }, "mark-empty",
                       "no image stands in it");
    qsort(r->wanted.items, (size_t)all, sizeof *r->wanted.items, by_image);
    c->images = DG_NEW_N(c->arena, all, dg_coco_image);
    for (int i = 0; i < all; i++) {
        const dg_marks_entry *e = r->wanted.items[i];
        dg_coco_annotation *list = DG_NEW_N(r->arena, e->marks.objects.n + 1, dg_coco_annotation);
        int w = (int)e->marks.w, h = (int)e->marks.h, rc = 0;

        if ((w < 1 || h < 1) && e->marks.objects.n && !r->faults)
            rc = dg_index_size(c, &w, &h, dg_marks_path(r, e->image), e->marks.objects.n,
                               r->from->replace, r->d);
        if (rc < 0)
            return rc;

        const bool sized = w >= 1 && h >= 1;

        c->images[i] = (dg_coco_image){ .id = i + 1,
                                        .file_name = dg_strdup(c->arena, e->image),
                                        .w = sized ? w : 1,
                                        .h = sized ? h : 1 };
        n[i] = sized ? annotate(r, e, list) : 0;
        if (n[i] < 0)
            return n[i];
        lists[i] = list;
    }
    if (c->n_classes == 0)
        return dg_fail(r->d, DG_EINPUT, (dg_where){ .file = c->path }, "class-none",
                       "no object names a class, and none is listed");
    c->n_images = all;
    return dg_index_join(c, lists, n, r->d);
}
