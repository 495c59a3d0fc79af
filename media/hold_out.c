/* hold_out.c: sets a share of a data set's images aside for evaluation.
 *
 * Each image gets a hash of its file name without folders, its lot; in the order of lots images are
 * set aside until every class, the rarest first, has its share of objects there, and then until
 * the share of images is reached. Files of the same content stay together. The choice is the same
 * on every machine, in every form of the data set and in any file order, and adding images moves
 * few others between the parts. */
#include "media/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "media/copies.h"

typedef struct lot {
    double drawn;
    const char *name;
    int image;
} lot;

/* How many objects of a class a group has. */
typedef struct portion {
    int group, label;
    int64_t n;
} portion;

/* Images of one content; groups are in the order of their first lots. */
typedef struct group {
    int images, first, n; /* first, n: its shares, by label */
    bool held;
} group;

typedef struct choice {
    const dg_coco *c;
    group *groups;
    portion *shares; /* by group */
    portion *by_label;
    int n_groups, n_shares;
    int64_t *total, *most, *held; /* objects of each class: all; at most held; held */
    int wanted, images;           /* images to hold out; held out */
} choice;

static int by_lot(const void *p, const void *q)
{
    const lot *a = p, *b = q;
    int order = (a->drawn > b->drawn) - (a->drawn < b->drawn);

    if (order == 0)
        order = strcmp(a->name, b->name);
    return order ? order : (a->image > b->image) - (a->image < b->image);
}

/* How many of n images are held out, if no two have the same content. */
static int n_held(int n, double share)
{
    const int held = (int)lrint(share * n);

    return share <= 0 || n < 2 ? 0 : held < 1 ? 1 : held >= n ? n - 1 : held;
}

/* Drops images that are not wanted, and their annotations. */
static void keep_wanted(dg_coco *c, const bool *wanted)
{
    int64_t n = 0;
    int kept = 0;

    for (int i = 0; i < c->n_images; i++) {
        const dg_coco_image im = c->images[i];

        if (!wanted[i])
            continue;
        /* moves towards the front, so a source is not overwritten before it is read */
        for (int k = 0; k < im.n; k++) {
            c->annotations[n + k] = c->annotations[im.first + k];
            c->annotations[n + k].image = kept;
            if (c->masks)
                c->masks[n + k] = c->masks[im.first + k];
        }
        c->images[kept] = im;
        c->images[kept++].first = n;
        n += im.n;
    }
    c->n_images = kept;
    c->n_annotations = n;
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* Draws the lots of all images, in their order. */
static lot *draw_lots(const dg_coco *c)
{
    lot *lots = DG_NEW_N(c->arena, c->n_images + 1, lot);

    for (int i = 0; i < c->n_images; i++) {
        dg_rng r = dg_rng_begin(dg_rng_named(0, dg_path_name(c->images[i].file_name)), 0, 0);

        lots[i] = (lot){ dg_rng_uniform(&r), c->images[i].file_name, i };
    }
    qsort(lots, (size_t)c->n_images, sizeof *lots, by_lot);
    return lots;
}

static int by_group(const void *p, const void *q)
{
    const portion *a = p, *b = q;

    return a->group != b->group ? a->group - b->group : a->label - b->label;
}

static int by_label(const void *p, const void *q)
{
    const portion *a = p, *b = q;

    return a->label != b->label ? a->label - b->label : a->group - b->group;
}

/* Counts the objects of each group by class. */
static void count_shares(choice *x, const int *group_of)
{
    const dg_coco *c = x->c;
    int n = 0;

    x->shares = DG_NEW_N(c->arena, c->n_annotations + 1, portion);
    for (int i = 0; i < c->n_images; i++)
        for (int k = 0; k < c->images[i].n; k++) {
            const dg_coco_annotation *a = &c->annotations[c->images[i].first + k];

            if (!a->crowd)
                x->shares[n++] = (portion){ group_of[i], a->label, 1 };
        }
    if (n)
        qsort(x->shares, (size_t)n, sizeof *x->shares, by_group);
    for (int i = 0; i < n; i++) {
        portion *last = x->n_shares ? &x->shares[x->n_shares - 1] : NULL;

        x->total[x->shares[i].label]++;
        if (last && by_group(last, &x->shares[i]) == 0)
            last->n++;
        else
            x->shares[x->n_shares++] = x->shares[i];
    }
    for (int i = x->n_shares; i-- > 0;) {
        x->groups[x->shares[i].group].first = i;
        x->groups[x->shares[i].group].n++;
    }
    x->by_label = DG_NEW_N(c->arena, x->n_shares + 1, portion);
    memcpy(x->by_label, x->shares, (size_t)x->n_shares * sizeof *x->shares);
    if (x->n_shares)
        qsort(x->by_label, (size_t)x->n_shares, sizeof *x->by_label, by_label);
}

/* Fills group_of, by image. folder NULL: files are not compared. */
static void make_groups(choice *x, int *group_of, const char *folder)
{
    const dg_coco *c = x->c;
    const lot *lots = draw_lots(c);
    const char **paths = DG_NEW_N(c->arena, c->n_images + 1, const char *);
    int *first = NULL;

    for (int i = 0; folder && i < c->n_images; i++)
        paths[i] = dg_path_join(c->arena, folder, lots[i].name);
    if (folder)
        first = dg_copies_find(c->arena, paths, c->n_images);
    x->groups = DG_NEW_N(c->arena, c->n_images + 1, group);
    for (int i = 0; i < c->n_images; i++) {
        const bool copy = first && first[i] != i;
        const int g = copy ? group_of[lots[first[i]].image] : x->n_groups++;

        group_of[lots[i].image] = g;
        x->groups[g].images++;
    }
    count_shares(x, group_of);
}

/* ---- choosing -------------------------------------------------------------------------------- */

enum { ALL_CLASSES_FIT, NO_CLASS_ENDS, ANY };

static bool may_hold(const choice *x, const group *g, int how)
{
    if (g->held || x->images + g->images > x->wanted)
        return false;
    for (int i = g->first; how != ANY && i < g->first + g->n; i++) {
        const portion *s = &x->shares[i];
        const int64_t then = x->held[s->label] + s->n;

        if (how == ALL_CLASSES_FIT ? then > x->most[s->label] : then >= x->total[s->label])
            return false;
    }
    return true;
}

static void hold(choice *x, group *g)
{
    g->held = true;
    x->images += g->images;
    for (int i = g->first; i < g->first + g->n; i++)
        x->held[x->shares[i].label] += x->shares[i].n;
}

/* Holds out groups of a class until it has its share. */
static void hold_class(choice *x, int label, double part)
{
    int lo = 0, hi = x->n_shares;
    int64_t goal = llrint(part * (double)x->total[label]);

    while (lo < hi) { /* the first share of the label */
        const int mid = (lo + hi) / 2;

        if (x->by_label[mid].label < label)
            lo = mid + 1;
        else
            hi = mid;
    }
    goal = goal < 1 ? 1 : goal;
    for (; lo < x->n_shares && x->by_label[lo].label == label && x->held[label] < goal; lo++) {
        group *g = &x->groups[x->by_label[lo].group];

        if (may_hold(x, g, ALL_CLASSES_FIT))
            hold(x, g);
    }
}

typedef struct rarity {
    int64_t total;
    const char *name;
    int label;
} rarity;

static int by_rarity(const void *p, const void *q)
{
    const rarity *a = p, *b = q;

    if (a->total != b->total)
        return a->total < b->total ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void choose(choice *x, double part)
{
    const dg_coco *c = x->c;
    rarity *order = DG_NEW_N(c->arena, c->n_classes + 1, rarity);
    int empty = 0, smallest = -1;

    for (int k = 0; k < c->n_classes; k++) {
        order[k] = (rarity){ x->total[k], c->classes[k].name, k };
        x->most[k] = (int64_t)ceil(part * (double)x->total[k] - 1e-9);
        x->most[k] = x->most[k] < x->total[k] ? x->most[k] : x->total[k] - 1;
    }
    if (c->n_classes)
        qsort(order, (size_t)c->n_classes, sizeof *order, by_rarity);
    for (int k = 0; k < c->n_classes; k++)
        if (order[k].total > 0)
            hold_class(x, order[k].label, part);
    for (int g = 0; g < x->n_groups; g++)
        empty += x->groups[g].n ? 0 : x->groups[g].images;
    empty = (int)lrint(part * empty);
    for (int g = 0; g < x->n_groups && empty > 0; g++)
        if (x->groups[g].n == 0 && may_hold(x, &x->groups[g], ANY)) {
            empty -= x->groups[g].images;
            hold(x, &x->groups[g]);
        }
    for (int how = ALL_CLASSES_FIT; how <= ANY; how++)
        for (int g = 0; g < x->n_groups && x->images < x->wanted; g++)
            if (may_hold(x, &x->groups[g], how))
                hold(x, &x->groups[g]);
    for (int g = 0; g < x->n_groups; g++)
        if (smallest < 0 || x->groups[g].images < x->groups[smallest].images)
            smallest = g;
    if (x->images == 0 && x->n_groups > 1) /* all groups are larger than what is wanted */
        hold(x, &x->groups[smallest]);
}

int dg_coco_hold_out_in(dg_coco *c, const char *folder, double part, bool held, dg_diag *d)
{
    const int n = c->n_images;
    choice x = { .c = c,
                 .wanted = n_held(n, part),
                 .total = DG_NEW_N(c->arena, c->n_classes + 1, int64_t),
                 .most = DG_NEW_N(c->arena, c->n_classes + 1, int64_t),
                 .held = DG_NEW_N(c->arena, c->n_classes + 1, int64_t) };
    int *group_of = DG_NEW_N(c->arena, n + 1, int);
    bool *wanted = DG_NEW_N(c->arena, n + 1, bool);

    if (x.wanted == 0)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = c->path }, "data-hold-out",
                       "hold_out=\"%g\" of %d image%s leaves none for one of the two parts", part,
                       n, dg_plural(n, "s"));
    make_groups(&x, group_of, folder);
    choose(&x, part);
    if (x.images == 0)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = c->path }, "data-hold-out",
                       "hold_out=\"%g\" of %d images leaves none for one of the two parts: all of "
                       "them have the same content",
                       part, n);
    for (int i = 0; i < n; i++)
        wanted[i] = held == x.groups[group_of[i]].held;
    keep_wanted(c, wanted);
    c->path = dg_printf(c->arena, held ? "%s (%d held out)" : "%s (without %d held out)", c->path,
                        x.images);
    dg_index_count(c);
    return 0;
}

int dg_coco_hold_out(dg_coco *c, double part, bool held, dg_diag *d)
{
    return dg_coco_hold_out_in(c, c->folder, part, held, d);
}
