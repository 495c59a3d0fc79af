/* convert.c: writes a data set in another form, into a folder that is renamed when complete.
 *
 *   COCO   images/A.jpg              annotations/SPLIT.json
 *   VOC    JPEGImages/A.jpg          Annotations/A.xml  ImageSets/Main/SPLIT.txt  classes.txt
 *   YOLO   images/SPLIT/A.jpg        labels/SPLIT/A.txt data.yaml
 *
 * Numbers get enough digits to read back exactly. */
#include "media/convert.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/map.h"
#include "base/str.h"
#include "media/image.h"

typedef struct writing {
    const dg_convert_options *o;
    dg_converted *said;
    dg_arena *arena;
    const char *root; /* the folder being filled */
    dg_layout layout;
    dg_coco **index; /* one per split */
    dg_map **listed; /* one per split: image path -> its record */
    dg_map *names;   /* image path -> its new name */
    dg_map *taken;   /* stems of new names */
    dg_map *done;    /* files already written to the folder */
    dg_diag *d;
} writing;

static const char *split_name(const writing *w, int split)
{
    return w->layout.splits.items[split].name;
}

static int put(writing *w, const char *name, dg_str *text)
{
    int rc =
        dg_dir_put(dg_path_join(w->arena, w->root, name), text->s ? text->s : "", text->n, w->d);

    dg_str_free(text);
    return rc;
}

static int make_folders(writing *w, const char *const *names, int n)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++)
        rc = dg_mkdirs(dg_path_join(w->arena, w->root, names[i]), w->d);
    return rc;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* Makes a file name that every reader accepts: not hidden, valid UTF-8, with an image's extension;
 * without blanks for VOC, whose lists split at blanks. */
static const char *plain_name(const writing *w, const char *path)
{
    char *name = dg_strdup(w->arena, dg_path_name(path));
    dg_image_header header;
    dg_mapping m;
    dg_diag *quiet = dg_diag_open();

    if (*name == '.')
        *name = '_';
    for (char *p = name; *p; p++) {
        const size_t n = dg_utf8_bytes(p);

        if (n == 0 || (w->o->to == DG_FORM_VOC && (unsigned char)*p <= ' '))
            *p = '_';
        else
            p += n - 1;
    }
    if (!dg_image_named(name) && dg_file_map(&m, path, quiet) == 0) {
        if (dg_image_header_decode(&header, m.p, m.n, path, quiet) == 0)
            name = dg_printf(w->arena, "%s.%s", name, dg_image_ending(m.p, m.n));
        dg_file_unmap(&m);
    }
    dg_diag_close(&quiet);
    return name;
}

/* The image's file name in the new folder, with a unique stem. */
static const char *name_of(writing *w, const dg_coco *c, const dg_coco_image *im)
{
    const char *path = dg_path_join(w->arena, c->folder, im->file_name),
               *name = dg_map_get(w->names, path);
    const char *plain, *stem, *end;

    if (name)
        return name;
    name = plain = plain_name(w, path);
    stem = dg_path_stem(w->arena, plain);
    end = plain + strlen(stem);
    for (int i = 2; dg_map_has(w->taken, stem); i++) {
        stem = dg_printf(w->arena, "%.*s_%d", (int)(end - plain), plain, i);
        name = dg_printf(w->arena, "%s%s", stem, end);
    }
    w->said->n_renamed += strcmp(name, dg_path_name(im->file_name)) != 0;
    dg_map_set(w->taken, stem, w);
    name = dg_strdup(w->arena, name);
    dg_map_set(w->names, path, (void *)(uintptr_t)name);
    return name;
}

static int link_image(const char *from, const char *to, dg_diag *d)
{
    char *real = realpath(from, NULL);
    int error = !real || symlink(real, to) ? errno : 0;

    free(real);
    return error ? dg_fail_os(d, error, from, "convert-link", "cannot link to the image") : 0;
}

/* Copies or links only files that are images: annotations may name any file. */
static int place_image(writing *w, const dg_coco *c, const dg_coco_image *im, const char *to)
{
    const char *from = dg_path_join(w->arena, c->folder, im->file_name);
    dg_image_header header;
    dg_mapping m;
    int rc;

    if (dg_map_has(w->done, to))
        return 0;
    dg_map_set(w->done, to, w);
    to = dg_path_join(w->arena, w->root, to);
    rc = dg_file_map(&m, from, w->d);
    if (rc == 0)
        rc = dg_image_header_decode(&header, m.p, m.n, from, w->d);
    if (rc < 0)
        dg_help(w->d, "%s lists it: mend it, or take its entry out", c->path);
    if (rc == 0)
        rc = w->o->copy ? dg_dir_put(to, m.p, m.n, w->d) : link_image(from, to, w->d);
    dg_file_unmap(&m);
    return rc;
}

static void count_losses(writing *w, const dg_coco_annotation *x)
{
    w->said->n_truncated += x->truncated && w->o->to != DG_FORM_VOC;
    w->said->n_areas +=
        w->o->to != DG_FORM_COCO && fabs(x->area - x->w * x->h) > 1e-6 * fabs(x->area) + 1e-9;
}

/* ---- COCO ------------------------------------------------------------------------------------ */

static void coco_box(dg_str *out, const dg_coco *c, const dg_coco_annotation *x)
{
    const double box[] = { x->x, x->y, x->w, x->h };

    dg_str_fmt(out, "{\"id\":%lld,\"image_id\":%lld,\"category_id\":%lld,\"bbox\":[",
               (long long)x->id, (long long)c->images[x->image].id,
               (long long)c->classes[x->label].id);
    for (int i = 0; i < 4; i++) {
        dg_str_add(out, i ? "," : "");
        dg_str_json_real(out, box[i]);
    }
    dg_str_add(out, "],\"area\":");
    dg_str_json_real(out, x->area);
    dg_str_fmt(out, ",\"iscrowd\":%d}", x->crowd);
}

static int write_coco(writing *w, int split)
{
    const dg_coco *c = w->index[split];
    dg_outfile *f = NULL;
    dg_str out = { 0 };
    int rc;

    DG_TRY(make_folders(w, (const char *const[]){ "images", "annotations" }, 2));
    DG_TRY(dg_outfile_open(&f,
                           dg_printf(w->arena, "%s/annotations/%s.json", w->root,
                                     split_name(w, split)),
                           w->d));
    dg_str_add(&out, "{\"categories\":[\n");
    for (int k = 0; k < c->n_classes; k++) {
        dg_str_fmt(&out, "%s{\"id\":%lld,\"name\":", k ? ",\n" : "", (long long)c->classes[k].id);
        dg_str_json(&out, c->classes[k].name);
        dg_str_add(&out, "}");
    }
    dg_str_add(&out, "],\n\"images\":[\n");
    for (int i = 0; i < c->n_images; i++) {
        const char *name = name_of(w, c, &c->images[i]);

        DG_TRY(place_image(w, c, &c->images[i], dg_path_join(w->arena, "images", name)));
        dg_str_fmt(&out, "%s{\"id\":%lld,\"width\":%d,\"height\":%d,\"file_name\":", i ? ",\n" : "",
                   (long long)c->images[i].id, c->images[i].w, c->images[i].h);
        dg_str_json(&out, name);
        dg_str_add(&out, "}");
    }
    dg_str_add(&out, "],\n\"annotations\":[\n");
    for (int64_t k = 0; k < c->n_annotations; k++) {
        dg_str_add(&out, k ? ",\n" : "");
        coco_box(&out, c, &c->annotations[k]);
        count_losses(w, &c->annotations[k]);
        if (out.n > 1 << 20) {
            DG_TRY(dg_outfile_write(f, out.s, out.n, w->d));
            out.n = 0;
        }
    }
    dg_str_add(&out, "]}\n");
    w->said->n_objects += c->n_annotations;
    DG_TRY(dg_outfile_write(f, out.s, out.n, w->d));
    DG_TRY(dg_outfile_commit(f, w->d));
out:
    dg_outfile_close(&f);
    dg_str_free(&out);
    return rc;
}

/* ---- VOC ------------------------------------------------------------------------------------- */

static void voc_number(dg_str *out, const char *name, double v)
{
    dg_str_fmt(out, "<%s>", name);
    dg_str_json_real(out, v);
    dg_str_fmt(out, "</%s>", name);
}

static void voc_file(dg_str *out, const dg_coco *c, const dg_coco_image *im, const char *name)
{
    dg_str_add(out, "<annotation>\n  <folder>JPEGImages</folder>\n  <filename>");
    dg_str_xml(out, name);
    dg_str_fmt(out,
               "</filename>\n  <size><width>%d</width><height>%d</height><depth>3</depth></size>\n",
               im->w, im->h);
    for (int k = 0; k < im->n; k++) {
        const dg_coco_annotation *x = &c->annotations[im->first + k];

        dg_str_add(out, "  <object>\n    <name>");
        dg_str_xml(out, c->classes[x->label].name);
        dg_str_fmt(out,
                   "</name>\n    <pose>Unspecified</pose>\n    <truncated>%d</truncated>\n    "
                   "<difficult>%d</difficult>\n    <bndbox>",
                   x->truncated, x->crowd);
        voc_number(out, "xmin", x->x);
        voc_number(out, "ymin", x->y);
        voc_number(out, "xmax", dg_index_round(x->x + x->w));
        voc_number(out, "ymax", dg_index_round(x->y + x->h));
        dg_str_add(out, "</bndbox>\n  </object>\n");
    }
    dg_str_add(out, "</annotation>\n");
}

static int write_voc(writing *w, int split)
{
    const dg_coco *c = w->index[split];
    dg_str list = { 0 }, text = { 0 };
    int rc;

    DG_TRY(
        make_folders(w, (const char *const[]){ "JPEGImages", "Annotations", "ImageSets/Main" }, 3));
    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image *im = &c->images[i];
        const char *name = name_of(w, c, im), *stem = dg_path_stem(w->arena, name);
        const bool again = dg_map_has(w->done, dg_path_join(w->arena, "JPEGImages", name));

        DG_TRY(place_image(w, c, im, dg_path_join(w->arena, "JPEGImages", name)));
        dg_str_fmt(&list, "%s\n", stem);
        for (int k = 0; k < im->n; k++)
            count_losses(w, &c->annotations[im->first + k]);
        w->said->n_objects += im->n;
        if (again) /* written already for an earlier split */
            continue;
        voc_file(&text, c, im, name);
        DG_TRY(put(w, dg_printf(w->arena, "Annotations/%s.xml", stem), &text));
    }
    DG_TRY(put(w, dg_printf(w->arena, "ImageSets/Main/%s.txt", split_name(w, split)), &list));
    for (int k = 0; split == 0 && k < c->n_classes; k++)
        dg_str_fmt(&text, "%s\n", c->classes[k].name);
    if (split == 0)
        DG_TRY(put(w, "classes.txt", &text));
out:
    dg_str_free(&list);
    dg_str_free(&text);
    return rc;
}

/* ---- YOLO ------------------------------------------------------------------------------------ */

/* Centre and size as fractions of the image; false: readers would refuse them. */
static bool yolo_shares(double v[4], dg_box box, const dg_coco_image *im)
{
    v[0] = (box.x1 + box.x2) / 2 / im->w;
    v[1] = (box.y1 + box.y2) / 2 / im->h;
    v[2] = (box.x2 - box.x1) / im->w;
    v[3] = (box.y2 - box.y1) / im->h;
    for (int i = 0; i < 4; i++)
        if (v[i] < 0 || v[i] > 1)
            return false;
    return true;
}

/* Writes a box. One that reaches outside is kept uncut if its fractions allow. */
static void yolo_line(writing *w, dg_str *out, const dg_coco_annotation *x, const dg_coco_image *im)
{
    dg_box box;
    double v[4];
    int fault;

    count_losses(w, x);
    if (x->crowd) {
        w->said->n_crowd++;
        return;
    }
    if (!dg_coco_box(&box, &fault, x, im)) {
        w->said->n_dropped++;
        return;
    }
    if (!yolo_shares(v, (dg_box){ x->x, x->y, x->x + x->w, x->y + x->h }, im)) {
        w->said->n_cut++;
        (void)yolo_shares(v, box, im);
    }
    dg_str_fmt(out, "%d", x->label);
    for (int i = 0; i < 4; i++) {
        dg_str_add(out, " ");
        dg_str_json_real(out, v[i]);
    }
    dg_str_add(out, "\n");
    w->said->n_objects++;
}

enum { N_KEYS = 3 };
static const char *const keys[N_KEYS] = { "train", "val", "test" };

/* The key of data.yaml for a split; -1: none. A data set without splits is for training. */
static int key_of(const writing *w, int split)
{
    const dg_split *s = &w->layout.splits.items[split];

    for (int k = 0; k < N_KEYS; k++)
        if (dg_split_is(s, keys[k]))
            return k;
    return dg_split_is(s, "dev") ? 1 : w->layout.splits.n == 1 ? 0 : -1;
}

/* Several splits under one key (train2014, train2017) become a list. */
static int write_yaml(writing *w, const dg_coco *c)
{
    dg_str text = { 0 };

    for (int key = 0; key < N_KEYS; key++) {
        int n = 0;

        for (int i = 0; i < w->layout.splits.n; i++) {
            if (key_of(w, i) != key)
                continue;
            if (n++ == 0)
                dg_str_fmt(&text, "%s:\n", keys[key]);
            dg_str_add(&text, "  - ");
            /* JSON quoting is valid YAML */
            dg_str_json(&text, dg_printf(w->arena, "images/%s", split_name(w, i)));
            dg_str_add(&text, "\n");
        }
    }
    dg_str_add(&text, "names:\n");
    for (int k = 0; k < c->n_classes; k++) {
        dg_str_fmt(&text, "  %d: ", k);
        dg_str_json(&text, c->classes[k].name);
        dg_str_add(&text, "\n");
    }
    return put(w, "data.yaml", &text);
}

static int write_yolo(writing *w, int split)
{
    const dg_coco *c = w->index[split];
    const char *images = dg_printf(w->arena, "images/%s", split_name(w, split));
    const char *labels = dg_printf(w->arena, "labels/%s", split_name(w, split));
    dg_str text = { 0 };
    int rc;

    DG_TRY(make_folders(w, (const char *const[]){ images, labels }, 2));
    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image *im = &c->images[i];
        const char *name = name_of(w, c, im);

        DG_TRY(place_image(w, c, im, dg_path_join(w->arena, images, name)));
        for (int k = 0; k < im->n; k++)
            yolo_line(w, &text, &c->annotations[im->first + k], im);
        DG_TRY(
            put(w, dg_printf(w->arena, "%s/%s.txt", labels, dg_path_stem(w->arena, name)), &text));
    }
    if (split == 0)
        DG_TRY(write_yaml(w, c));
out:
    dg_str_free(&text);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* VOC and YOLO have one list of classes for all splits. */
static int check_classes(const writing *w, int split)
{
    const dg_coco *a = w->index[0], *b = w->index[split];

    for (int k = 0; k < a->n_classes || k < b->n_classes; k++)
        if (k >= a->n_classes || k >= b->n_classes ||
            strcmp(a->classes[k].name, b->classes[k].name) != 0)
            return dg_fail(w->d, DG_EINPUT, (dg_where){ .file = b->path }, "convert-classes",
                           "its classes are not those of %s; splits need the same list", a->path);
    return 0;
}

static bool same_objects(const dg_coco *a, const dg_coco_image *x, const dg_coco *b,
                         const dg_coco_image *y)
{
    for (int k = 0; k < x->n && x->n == y->n; k++) {
        const dg_coco_annotation *p = &a->annotations[x->first + k],
                                 *q = &b->annotations[y->first + k];

        if (p->label != q->label || p->crowd != q->crowd || p->truncated != q->truncated ||
            memcmp(&p->x, &q->x, 4 * sizeof p->x) != 0)
            return false;
    }
    return x->n == y->n;
}

/* Refuses images with two lists of objects: VOC has one label file per image over all splits, YOLO
 * one per split. */
static int check_images(writing *w, int split)
{
    const dg_coco *c = w->index[split];
    dg_map *here = dg_map_new(w->arena);

    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image *im = &c->images[i];
        const char *path = dg_path_join(w->arena, c->folder, im->file_name);

        if (dg_map_has(here, path))
            return dg_fail(w->d, DG_EINPUT, (dg_where){ .file = c->path }, "convert-twice",
                           "%s is listed twice; keep one of the entries, with all of its objects",
                           im->file_name);
        dg_map_set(here, path, (void *)(uintptr_t)im);
        for (int k = 0; w->o->to == DG_FORM_VOC && k < split; k++) {
            const dg_coco_image *other = dg_map_get(w->listed[k], path);

            if (other && !same_objects(w->index[k], other, c, im))
                return dg_fail(w->d, DG_EINPUT, (dg_where){ .file = c->path }, "convert-twice",
                               "%s is in %s, too, with other objects; VOC has one list of objects "
                               "for an image",
                               im->file_name, w->index[k]->path);
        }
    }
    w->listed[split] = here;
    return 0;
}

static bool is_wild(const char *name)
{
    const size_t n = strlen(name);
    bool wild = n == 0 || name[0] == ' ' || name[n - 1] == ' ';

    for (size_t i = 0; i < n && !wild; i++)
        wild = (unsigned char)name[i] < ' ';
    return wild;
}

/* Refuses names that the new form cannot express. */
static int check_names(const writing *w, int split)
{
    const dg_coco *c = w->index[split];
    const dg_where at = { .file = c->path };

    if (w->o->to == DG_FORM_YOLO && key_of(w, split) < 0)
        return dg_fail(w->d, DG_EINPUT, at, "convert-split",
                       "YOLO has train, val and test, and \"%s\" is none of them; rename it, or "
                       "choose others with --split",
                       split_name(w, split));
    for (int k = 0; w->o->to != DG_FORM_COCO && k < c->n_classes; k++) {
        const char *name = c->classes[k].name;
        const bool twice = dg_index_label(c, name) != k;
        dg_str quoted = { 0 };
        int rc;

        if (!twice && !(w->o->to == DG_FORM_VOC && is_wild(name)))
            continue;
        dg_str_json(&quoted, name);
        rc = twice ? dg_fail(w->d, DG_EINPUT, at, "convert-class",
                             "two classes have the name %s, by which the new form tells them apart",
                             quoted.s)
                   : dg_fail(w->d, DG_EINPUT, at, "convert-class",
                             "VOC cannot hold the class name %s: no blanks around it, no control "
                             "characters; rename it",
                             quoted.s);
        dg_str_free(&quoted);
        return rc;
    }
    return 0;
}

static int write_splits(writing *w)
{
    static int (*const write[])(writing *, int) = {
        [DG_FORM_COCO] = write_coco, [DG_FORM_VOC] = write_voc, [DG_FORM_YOLO] = write_yolo
    };
    int rc = 0;

    for (int i = 0; i < w->layout.splits.n && rc == 0; i++) {
        if (w->o->progress)
            w->o->progress(w->o->ctx, "splits written", i, w->layout.splits.n);
        rc = write[w->o->to](w, i);
        w->said->n_images += w->index[i]->n_images;
    }
    return rc;
}

/* Makes two splits of the only one, the second for what is held out. */
static int divide(writing *w)
{
    dg_layout *l = &w->layout;
    dg_split val;

    if (l->splits.n != 1)
        return dg_fail(w->d, DG_EINPUT, (dg_where){ .file = l->root }, "convert-hold-out",
                       "it has %d splits already: %s, %s%s; images are held out of a single one, "
                       "which --split chooses",
                       l->splits.n, split_name(w, 0), split_name(w, 1),
                       l->splits.n > 2 ? ", ..." : "");
    val = l->splits.items[0];
    val.name = "val";
    l->splits.items[0].name = "train";
    DG_PUSH(w->arena, l->splits, val);
    return 0;
}

/* Opens split i and refuses what cannot be written. */
static int open_split(writing *w, int i)
{
    dg_split *split = &w->layout.splits.items[i];
    int rc;

    if (strcmp(split->name, "all") == 0)
        split->name = "train";
    rc = dg_layout_open(&w->index[i], &w->layout, i, NULL, w->d);
    if (rc < 0 && w->layout.splits.n > 1)
        dg_help(w->d, "or leave this split out: --split names the others");
    if (rc < 0)
        return rc;
    if (w->o->hold_out > 0)
        DG_TRY(dg_coco_hold_out(w->index[i], w->o->hold_out, i == 1, w->d));
    DG_TRY(check_classes(w, i));
    DG_TRY(check_names(w, i));
    DG_TRY(check_images(w, i));
    w->said->has_val |= dg_split_is(split, "val") || dg_split_is(split, "test");
out:
    return rc;
}

int dg_convert(dg_converted *out, const char *from, const char *to, const dg_convert_options *o,
               dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    writing w = { .o = o,
                  .said = out,
                  .arena = a,
                  .names = dg_map_new(a),
                  .taken = dg_map_new(a),
                  .done = dg_map_new(a),
                  .d = d };
    char *partial = NULL;
    int rc;

    *out = (dg_converted){ 0 };
    DG_TRY(dg_layout_find(&w.layout, a, from, o->splits, d));
    if (w.layout.form == DG_FORM_PLAIN) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = from }, "convert-plain",
                     "these images have no labels to convert");
        goto out;
    }
    if (o->hold_out > 0)
        DG_TRY(divide(&w));
    out->from = w.layout.form;
    out->n_splits = w.layout.splits.n;
    w.index = DG_NEW_N(a, w.layout.splits.n, dg_coco *);
    w.listed = DG_NEW_N(a, w.layout.splits.n, dg_map *);
    for (int i = 0; i < w.layout.splits.n; i++)
        DG_TRY(open_split(&w, i));
    DG_TRY(dg_dir_begin(&partial, a, to, d));
    w.root = partial;
    DG_TRY(write_splits(&w));
    DG_TRY(dg_dir_commit(partial, to, d));
out:
    if (rc < 0 && partial)
        dg_dir_remove(partial);
    for (int i = 0; w.index && i < w.layout.splits.n; i++)
        dg_coco_close(&w.index[i]);
    dg_arena_close(&a);
    return rc;
}
