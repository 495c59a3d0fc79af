/* hold_out.c: sets a share of a data set's images aside for evaluation.
 *
 * Each image gets a hash of its file name without folders; those with the smallest hashes are set
 * aside. The choice is therefore the same on every machine, in every form of the data set and in
 * any file order, and adding images moves few others between the parts. */
#include "media/index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"

typedef struct lot {
    double drawn;
    const char *name;
    int image;
} lot;

static int by_lot(const void *p, const void *q)
{
    const lot *a = p, *b = q;
    int order = (a->drawn > b->drawn) - (a->drawn < b->drawn);

    if (order == 0)
        order = strcmp(a->name, b->name);
    return order ? order : (a->image > b->image) - (a->image < b->image);
}

int dg_coco_n_held(int n, double share)
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

int dg_coco_hold_out(dg_coco *c, double share, bool held, dg_diag *d)
{
    const int n = c->n_images, n_held = dg_coco_n_held(n, share);
    lot *lots;
    bool *wanted;

    if (n_held == 0)
        return dg_fail(d, DG_EINPUT, (dg_where){ .file = c->path }, "data-hold-out",
                       "hold_out=\"%g\" of %d image%s leaves none for one of the two parts", share,
                       n, n == 1 ? "" : "s");
    lots = DG_NEW_N(c->arena, n, lot);
    wanted = DG_NEW_N(c->arena, n, bool);
    for (int i = 0; i < n; i++) {
        dg_rng r = dg_rng_begin(dg_rng_named(0, dg_path_name(c->images[i].file_name)), 0, 0);

        lots[i] = (lot){ dg_rng_uniform(&r), c->images[i].file_name, i };
    }
    qsort(lots, (size_t)n, sizeof *lots, by_lot);
    for (int i = 0; i < n; i++)
        wanted[lots[i].image] = held == (i < n_held);
    keep_wanted(c, wanted);
    c->path = dg_printf(c->arena, held ? "%s (%d held out)" : "%s (without %d held out)", c->path,
                        n_held);
    dg_index_count(c);
    return 0;
}
