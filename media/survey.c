/* survey: annotations of a data set: classes over all splits, boxes and their faults, histograms,
 * and what suits a training. Files are looked at in survey_images.c. */
#include "media/survey.h"

#include <stdlib.h>
#include <string.h>

#include "base/diag.h"

static const double twice = 0.9; /* overlap (IoU) from which two boxes are one object drawn twice */

/* ---- splits and classes -------------------------------------------------------------------- */

static void open_splits(dg_survey *s, const dg_survey_options *o)
{
    dg_diag *said = dg_diag_open();

    s->n_splits = s->layout.splits.n;
    s->splits = DG_NEW_N(s->arena, s->n_splits, dg_survey_split);
    for (int i = 0; i < s->n_splits; i++) {
        s->splits[i] = (dg_survey_split){ .split = &s->layout.splits.items[i], .name = s->layout.splits.items[i].name };
        if (o->progress)
            o->progress(o->ctx, "annotations", i, s->n_splits);
        s->faults.split = i;
        if (dg_layout_open(&s->splits[i].index, &s->layout, i, &s->faults, said) < 0)
            dg_fault_take(&s->faults, DG_FAULT_ANNOTATION, -1, said);
        dg_diag_clear(said);
    }
    s->faults.split = -1;
    dg_diag_close(&said);
}

static int class_of(dg_survey *s, const char *name)
{
    for (int i = 0; i < s->n_classes; i++)
        if (strcmp(s->classes[i], name) == 0)
            return i;
    return -1;
}

/* Splits must number the same classes alike, as a run requires. */
static void compare_classes(dg_survey *s, int first, int i)
{
    const dg_coco *a = s->splits[first].index, *b = s->splits[i].index;

    for (int k = 0; k < a->n_classes || k < b->n_classes; k++) {
        const char *x = k < a->n_classes ? a->classes[k].name : NULL, *y = k < b->n_classes ? b->classes[k].name : NULL;

        if (x && y && strcmp(x, y) == 0)
            continue;
        s->faults.split = i;
        dg_fault_note(&s->faults, DG_FAULT_CLASSES_DIFFER, -1, (dg_where){ .file = b->path },
                      "class %d is %s%s%s, in %s %s%s%s", k, y ? "\"" : "", y ? y : "none", y ? "\"" : "",
                      s->splits[first].name, x ? "\"" : "", x ? x : "none", x ? "\"" : "");
        s->faults.split = -1;
        return;
    }
}

static void join_classes(dg_survey *s)
{
    int most = 0, first = -1;

    for (int i = 0; i < s->n_splits; i++)
        most += s->splits[i].index ? s->splits[i].index->n_classes : 0;
    s->classes = DG_NEW_N(s->arena, most, const char *);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        for (int k = 0; c && k < c->n_classes; k++)
            if (class_of(s, c->classes[k].name) < 0)
                s->classes[s->n_classes++] = c->classes[k].name;
        if (c && first >= 0)
            compare_classes(s, first, i);
        first = first < 0 && c ? i : first;
    }
    s->per_class = DG_NEW_N(s->arena, s->n_classes, int64_t);
    for (int i = 0; i < s->n_splits; i++) {
        const dg_coco *c = s->splits[i].index;

        s->splits[i].per_class = DG_NEW_N(s->arena, s->n_classes, int64_t);
        for (int k = 0; c && k < c->n_classes; k++) {
            int label = class_of(s, c->classes[k].name);

            s->splits[i].per_class[label] += c->report.per_class[k];
            s->per_class[label] += c->report.per_class[k];
        }
    }
}

static void note_classes(dg_survey *s)
{
    const dg_survey_split *first = s->n_splits ? &s->splits[0] : NULL;
    bool                   train = first && first->index && s->n_splits > 1 && dg_split_is(first->split, "train");

    for (int k = 0; k < s->n_classes; k++) {
        if (s->per_class[k] == 0)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_EMPTY, -1, DG_NOWHERE, "%s", s->classes[k]);
        else if (train && first->per_class[k] == 0)
            dg_fault_note(&s->faults, DG_FAULT_CLASS_UNTRAINED, -1, DG_NOWHERE, "%s: %lld objects, none in %s", s->classes[k],
                          (long long)s->per_class[k], first->name);
    }
}

double dg_survey_imbalance(const dg_survey *s)
{
    int64_t most = 0, least = INT64_MAX;
    int     n = 0;

    for (int k = 0; k < s->n_classes; k++) {
        if (!s->per_class[k])
            continue;
        n++;
        most = s->per_class[k] > most ? s->per_class[k] : most;
        least = s->per_class[k] < least ? s->per_class[k] : least;
    }
    return n > 1 ? (double)most / (double)least : 0;
}

/* ---- boxes --------------------------------------------------------------------------------- */

static dg_where in_image(const dg_coco_image *im)
{
    return (dg_where){ .file = im->file_name };
}

static dg_box box_of(const dg_coco_annotation *x)
{
    return (dg_box){ x->x, x->y, x->x + x->w, x->y + x->h };
}

/* Every pair of an image: objects are few in each. */
static void note_twice(dg_survey *s, const dg_coco *c, int i)
{
    const dg_coco_image      *im = &c->images[i];
    const dg_coco_annotation *a = &c->annotations[im->first];

    for (int p = 0; p < im->n; p++)
        for (int q = 0; q < p; q++) {
            double iou;

            if (a[p].crowd || a[q].crowd || a[p].x > a[q].x + a[q].w || a[q].x > a[p].x + a[p].w)
                continue;
            iou = dg_box_iou(box_of(&a[p]), box_of(&a[q]));
            if (iou < twice)
                continue;
            dg_fault_note(&s->faults, DG_FAULT_BOX_TWICE, i, in_image(im), "%s and %s, boxes %lld and %lld, overlap by %.2f",
                          c->classes[a[q].label].name, c->classes[a[p].label].name, (long long)a[q].id, (long long)a[p].id, iou);
        }
}

static void look_at_boxes(dg_survey *s, dg_survey_split *split)
{
    static const dg_fault_kind kinds[] = { [DG_BOX_EMPTY] = DG_FAULT_BOX_EMPTY,
                                           [DG_BOX_OUTSIDE] = DG_FAULT_BOX_OUTSIDE,
                                           [DG_BOX_CUT] = DG_FAULT_BOX_CUT };
    const dg_coco *c = split->index;

    s->faults.split = (int)(split - s->splits);
    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image *im = &c->images[i];

        for (int k = 0; k < im->n; k++) {
            const dg_coco_annotation *x = &c->annotations[im->first + k];
            dg_box                    box;
            int                       fault;

            split->n_truncated += x->truncated;
            if (x->crowd || im->w < 1)
                continue;
            (void)dg_coco_box(&box, &fault, x, im);
            if (fault >= 0)
                dg_fault_note(&s->faults, kinds[fault], i, in_image(im),
                              "%s, box %lld: left %g, top %g, width %g, height %g in an image of %d x %d",
                              c->classes[x->label].name, (long long)x->id, x->x, x->y, x->w, x->h, im->w, im->h);
        }
        note_twice(s, c, i);
    }
    s->faults.split = -1;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static void sum_up(dg_survey *s)
{
    for (int i = 0; i < s->n_splits; i++) {
        dg_survey_split *x = &s->splits[i];
        const dg_coco   *c = x->index;

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

/* What the annotations say. */
static void look_at_annotations(dg_survey *s)
{
    join_classes(s);
    for (int i = 0; i < s->n_splits; i++)
        if (s->splits[i].index)
            look_at_boxes(s, &s->splits[i]);
    note_classes(s);
    sum_up(s);
    dg_survey_shapes(s);
}

static dg_survey *new_survey(void)
{
    dg_arena  *a = dg_arena_open();
    dg_survey *s = DG_NEW(a, dg_survey);

    s->arena = a;
    s->faults.arena = a;
    s->faults.split = -1;
    return s;
}

int dg_survey_open(dg_survey **out, const char *path, const dg_survey_options *o, dg_diag *d)
{
    dg_survey *s = new_survey();
    int        rc;

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
    dg_split  *splits = DG_NEW_N(s->arena, n + 1, dg_split);

    s->form = dg_strdup(s->arena, form);
    s->root = dg_strdup(s->arena, root);
    s->n_splits = n;
    s->splits = DG_NEW_N(s->arena, n + 1, dg_survey_split);
    for (int i = 0; i < n; i++) {
        splits[i].name = dg_strdup(s->arena, sources[i].name);
        s->splits[i] = (dg_survey_split){ .split = &splits[i], .name = splits[i].name, .index = sources[i].index };
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
