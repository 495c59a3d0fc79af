/* survey.c: surveys the annotations of a data set: classes over all splits, boxes and their faults,
 * histograms, training advice. survey_images.c looks at the image files. */
#include "media/survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"
#include "base/map.h"
#include "media/box_form.h"

/* IoU from which two boxes count as one object drawn twice */
static const double twice = 0.9;

/* ---- splits and classes ---------------------------------------------------------------------- */

static void open_splits(dg_survey *s, const dg_survey_options *o)
{
    dg_diag *said = dg_diag_open();

    s->n_splits = s->layout.splits.n;
    s->splits = DG_NEW_N(s->arena, s->n_splits, dg_survey_split);
    for (int i = 0; i < s->n_splits; i++) {
        s->splits[i] = (dg_survey_split){ .split = &s->layout.splits.items[i],
                                          .name = s->layout.splits.items[i].name };
        if (o->progress)
            o->progress(o->ctx, "annotations", i, s->n_splits);
        s->faults.split = i;
        (void)!dg_layout_open(&s->splits[i].index, &s->layout, i, &s->faults, said);
        dg_fault_take(&s->faults, DG_FAULT_ANNOTATION, -1, said);
    }
    s->faults.split = -1;
    dg_diag_close(&said);
}

/* Notes splits that number the same classes differently; a run requires equal numbering. */
static void compare_classes(dg_survey *s, int first, int i)
{
    const dg_coco *a = s->splits[first].index, *b = s->splits[i].index;

    for (int k = 0; k < a->n_classes || k < b->n_classes; k++) {
        const char *x = k < a->n_classes ? a->classes[k].name : NULL,
                   *y = k < b->n_classes ? b->classes[k].name : NULL;

        if (x && y && strcmp(x, y) == 0)
            continue;
        s->faults.split = i;
        dg_fault_note(&s->faults, DG_FAULT_CLASSES_DIFFER, -1, (dg_where){ .file = b->path },
                      "class %d is %s%s%s, in %s %s%s%s", k, y ? "\"" : "", y ? y : "none",
                      y ? "\"" : "", s->splits[first].name, x ? "\"" : "", x ? x : "none",
                      x ? "\"" : "");
        s->faults.split = -1;
        return;
    }
}

static void join_classes(dg_survey *s)
{
    dg_map *known = dg_map_new(s->arena);
    int most = 0, first = -1, *numbers;

    for (int i = 0; i < s->n_splits; i++)
        most += s->splits[i].index ? s->splits[i].index->n_classes : 0;
    s->classes = DG_NEW_N(s->arena, most, const char *);
    numbers = DG_NEW_N(s->arena, most, int);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_classes; k++)
            if (!dg_map_has(known, c->classes[k].name)) {
                numbers[s->n_classes] = s->n_classes;
                dg_map_set(known, c->classes[k].name, &numbers[s->n_classes]);
                s->classes[s->n_classes++] = c->classes[k].name;
            }
        if (c && first >= 0)
            compare_classes(s, first, i);
        first = first < 0 && c ? i : first;
    }
    s->per_class = DG_NEW_N(s->arena, s->n_classes, int64_t);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        s->splits[i].per_class = DG_NEW_N(s->arena, s->n_classes, int64_t);
        for (int k = 0; c && k < c->n_classes; k++) {
            const int label = *(const int *)dg_map_get(known, c->classes[k].name);

            s->splits[i].per_class[label] += c->report.per_class[k];
            s->per_class[label] += c->report.per_class[k];
        }
    }
}

/* The name without its case, blanks, dashes and underscores. */
static const char *plain_name(dg_arena *a, const char *name)
{
    char *out = dg_strdup(a, name);
    size_t n = 0;

    for (const char *p = name; *p; p++)
        if (!strchr(" _-\t", *p))
            out[n++] = (char)(*p >= 'A' && *p <= 'Z' ? *p + ('a' - 'A') : *p);
    out[n] = '\0';
    return out;
}

static void note_alike(dg_survey *s)
{
    dg_map *known = dg_map_new(s->arena);

    for (int k = 0; k < s->n_classes; k++) {
        const char *plain = plain_name(s->arena, s->classes[k]);
        const int *first = dg_map_get(known, plain);

        if (first)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_ALIKE, -1, DG_NOWHERE,
                          "\"%s\" (%lld object%s) and \"%s\" (%lld)", s->classes[*first],
                          (long long)s->per_class[*first], dg_plural(s->per_class[*first], "s"),
                          s->classes[k], (long long)s->per_class[k]);
        else
            dg_map_set(known, plain, dg_memdup(s->arena, &k, sizeof k));
    }
}

static void note_classes(dg_survey *s)
{
    const dg_survey_split *first = s->n_splits ? &s->splits[0] : NULL;
    bool train = first && first->index && s->n_splits > 1 && dg_split_is(first->split, "train");

    for (int k = 0; k < s->n_classes; k++) {
        if (s->per_class[k] == 0)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_EMPTY, -1, DG_NOWHERE, "%s", s->classes[k]);
        else if (train && first->per_class[k] == 0)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_UNTRAINED, -1, DG_NOWHERE,
                          "%s: %lld object%s, none in %s", s->classes[k],
                          (long long)s->per_class[k], dg_plural(s->per_class[k], "s"), first->name);
    }
}

double dg_survey_imbalance(const dg_survey *s)
{
    int64_t most = 0, least = INT64_MAX;
    int n = 0;

    for (int k = 0; k < s->n_classes; k++) {
        if (!s->per_class[k])
            continue;
        n++;
        most = s->per_class[k] > most ? s->per_class[k] : most;
        least = s->per_class[k] < least ? s->per_class[k] : least;
    }
    return n > 1 ? (double)most / (double)least : 0;
}

/* ---- boxes ----------------------------------------------------------------------------------- */

static dg_where in_image(const dg_coco_image *im)
{
    return (dg_where){ .file = im->file_name };
}

static dg_box box_of(const dg_coco_annotation *x)
{
    return (dg_box){ x->x, x->y, x->x + x->w, x->y + x->h };
}

static void compare_boxes(dg_survey *s, const dg_coco *c, int i, const dg_coco_annotation *x,
                          const dg_coco_annotation *y)
{
    double iou;

    if (x->crowd || y->crowd || x->x > y->x + y->w || y->x > x->x + x->w)
        return;
    iou = dg_box_iou(box_of(x), box_of(y));
    if (iou >= twice)
        dg_fault_note(&s->faults, DG_FAULT_BOX_TWICE, i, in_image(&c->images[i]),
                      "%s and %s, boxes %lld and %lld, overlap by %.2f", c->classes[y->label].name,
                      c->classes[x->label].name, (long long)y->id, (long long)x->id, iou);
}

static int by_place(const void *a, const void *b)
{
    const dg_coco_annotation *x = *(dg_coco_annotation *const *)a,
                             *y = *(dg_coco_annotation *const *)b;

    return x->x != y->x ? (x->x > y->x) - (x->x < y->x) : (x->y > y->y) - (x->y < y->y);
}

/* Compares all pairs of boxes of an image. Of very many boxes, which are no photograph's, each is
 * compared with the next ones from left to right: boxes drawn twice begin side by side. */
static void note_twice(dg_survey *s, const dg_coco *c, int i)
{
    enum { ALL = 2000, NEXT = 32 };
    const dg_coco_image *im = &c->images[i];
    const dg_coco_annotation *a = &c->annotations[im->first], **sorted;

    if (im->n <= ALL) {
        for (int p = 0; p < im->n; p++)
            for (int q = 0; q < p; q++)
                compare_boxes(s, c, i, &a[p], &a[q]);
        return;
    }
    sorted = dg_try_alloc((size_t)im->n * sizeof *sorted);
    for (int p = 0; sorted && p < im->n; p++)
        sorted[p] = &a[p];
    if (sorted)
        qsort(sorted, (size_t)im->n, sizeof *sorted, by_place);
    for (int p = 0; sorted && p < im->n; p++)
        for (int q = p + 1; q < im->n && q <= p + NEXT; q++)
            compare_boxes(s, c, i, sorted[q], sorted[p]);
    dg_free(sorted);
}

static void look_at_boxes(dg_survey *s, dg_survey_split *split)
{
    static const dg_fault_kind kinds[] = { [DG_BOX_EMPTY] = DG_FAULT_BOX_EMPTY,
                                           [DG_BOX_OUTSIDE] = DG_FAULT_BOX_OUTSIDE,
                                           [DG_BOX_CUT] = DG_FAULT_BOX_CUT };
    const dg_coco *c = split->index;
    dg_box_forms forms = { .written = dg_box_form_of(s->form) };
    dg_box_verdict v;

    s->faults.split = (int)(split - s->splits);
    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image *im = &c->images[i];

        for (int k = 0; k < im->n; k++) {
            const dg_coco_annotation *x = &c->annotations[im->first + k];
            dg_box box;
            int fault;

            split->n_truncated += x->truncated;
            if (x->crowd || im->w < 1)
                continue;
            dg_box_forms_add(&forms, x, im->w, im->h);
            (void)dg_coco_box(&box, &fault, x, im);
            if (fault >= 0)
                dg_fault_note(
                    &s->faults, kinds[fault], i, in_image(im),
                    "%s, box %lld: left %g, top %g, width %g, height %g in an image of %d x %d",
                    c->classes[x->label].name, (long long)x->id, x->x, x->y, x->w, x->h, im->w,
                    im->h);
        }
        note_twice(s, c, i);
    }
    v = dg_box_forms_judge(&forms, s->arena);
    if (v.text)
        dg_fault_note(&s->faults, v.normalized ? DG_FAULT_BOX_NORMALIZED : DG_FAULT_BOX_FORM, -1,
                      (dg_where){ .file = c->path }, "%s", v.text);
    s->faults.split = -1;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void sum_up(dg_survey *s)
{
    for (int i = 0; i < s->n_splits; i++) {
        dg_survey_split *x = &s->splits[i];
        const dg_coco *c = x->index;

        if (!c)
            continue;
        x->readable = true;
        x->path = c->path;
        s->n_images += x->n_images = c->n_images;
        s->n_objects += x->n_objects = c->report.n_objects;
        s->n_crowd += x->n_crowd = c->report.n_crowd;
        s->n_empty += x->n_empty = c->report.n_empty;
        s->n_truncated += x->n_truncated;
        x->most_objects = c->report.most_objects;
        if (x->most_objects > s->most_objects) {
            s->most_objects = x->most_objects;
            s->most_image = c->images[c->report.most_objects_image].file_name;
        }
    }
}

/* Surveys the annotations alone. */
static void look_at_annotations(dg_survey *s)
{
    join_classes(s);
    for (int i = 0; i < s->n_splits; i++)
        if (s->splits[i].index)
            look_at_boxes(s, &s->splits[i]);
    note_classes(s);
    note_alike(s);
    sum_up(s);
    if (s->n_images > 0 && s->n_objects == 0 && s->layout.form != DG_FORM_PLAIN)
        dg_fault_note(&s->faults, DG_FAULT_NO_OBJECTS, -1, (dg_where){ .file = s->root },
                      "none of %lld image%s has an object", (long long)s->n_images,
                      dg_plural(s->n_images, "s"));
    dg_survey_shapes(s);
}

static dg_survey *new_survey(void)
{
    dg_arena *a = dg_arena_open();
    dg_survey *s = DG_NEW(a, dg_survey);

    s->arena = a;
    s->faults.arena = a;
    s->faults.split = -1;
    return s;
}

int dg_survey_open(dg_survey **out, const char *path, const dg_survey_options *o, dg_diag *d)
{
    dg_survey *s = new_survey();
    int rc;

    DG_TRY(dg_layout_find(&s->layout, s->arena, path, o->splits, d));
    s->form = dg_form_name(s->layout.form);
    s->root = s->layout.root;
    open_splits(s, o);
    look_at_annotations(s);
    DG_TRY(dg_survey_images(s, o, d));
    *out = s;
out:
    if (rc < 0)
        dg_survey_close(&s);
    return rc;
}

static void take_faults(dg_survey *s, const dg_faults *found, int split)
{
    for (int kind = 0; kind < DG_N_FAULTS; kind++) {
        for (int i = 0; i < found->of[kind].kept.n; i++) {
            dg_fault x = found->of[kind].kept.items[i];

            x.split = split;
            if (s->faults.of[kind].kept.n < DG_FAULTS_KEPT)
                DG_PUSH(s->arena, s->faults.of[kind].kept, x);
        }
        s->faults.of[kind].n += found->of[kind].n;
    }
}

dg_survey *dg_survey_of(const char *form, const char *root, const dg_survey_source *sources, int n)
{
    dg_survey *s = new_survey();
    dg_split *splits = DG_NEW_N(s->arena, n + 1, dg_split);

    s->form = dg_strdup(s->arena, form);
    s->root = dg_strdup(s->arena, root);
    s->n_splits = n;
    s->splits = DG_NEW_N(s->arena, n + 1, dg_survey_split);
    for (int i = 0; i < n; i++) {
        splits[i].name = dg_strdup(s->arena, sources[i].name);
        s->splits[i] = (dg_survey_split){ .split = &splits[i],
                                          .name = splits[i].name,
                                          .index = sources[i].index };
        if (sources[i].found)
            take_faults(s, sources[i].found, i);
    }
    look_at_annotations(s);
    return s;
}

void dg_survey_close(dg_survey **s)
{
    if (!*s)
        return;
    dg_arena *a = (*s)->arena;

    for (int i = 0; i < (*s)->n_splits; i++)
        dg_coco_close(&(*s)->splits[i].index);
    *s = NULL;
    dg_arena_close(&a);
}
