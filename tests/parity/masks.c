/* masks.c: what segmentation fixtures add: target masks, which are ellipses in the boxes, and
 * random points. */
#include <stdlib.h>
#include <string.h>

#include "tests/parity/fixture.h"
#include "tests/parity/formula.h"

enum { PLANE = 32 /* objects of a plane of masks */ };

static bool find_input(const fixture *f, const char *tail, dg_run_tensor *found)
{
    size_t n = strlen(tail);

    for (int i = 0; i < dg_run_n_inputs(f->run); i++) {
        *found = dg_run_input_at(f->run, i);
        if (strlen(found->name) >= n && strcmp(found->name + strlen(found->name) - n, tail) == 0)
            return true;
    }
    return false;
}

static int no_input(const fixture *f, const char *name)
{
    return dg_fail(f->d, DG_EINTERNAL, DG_NOWHERE, "fixture-value", "the run has no input %s",
                   name);
}

/* ---- target masks ---------------------------------------------------------------------------- */

/* Sets bit `bit` of the pixels inside the ellipse; returns their number. */
static int64_t draw_ellipse(int32_t *plane, int64_t h, int64_t w, const dg_json *box, int bit)
{
    double v[4];
    int64_t n = 0;

    for (int k = 0; k < 4; k++)
        v[k] = box->items[k].number;
    for (int64_t i = 0; i < h * w; i++) {
        double x = (((double)(i % w) + 0.5) / (double)w - v[0]) / (v[2] / 2),
               y = (((double)(i / w) + 0.5) / (double)h - v[1]) / (v[3] / 2);

        if (x * x + y * y > 1)
            continue;
        plane[i] |= (int32_t)(1u << bit);
        n++;
    }
    return n;
}

int fixture_feed_masks(fixture *f, const dg_json *targets)
{
    const dg_json *pixels = dg_json_get(f->root, "mask_pixels");
    dg_run_tensor in;

    if (!find_input(f, "targets.masks", &in))
        return no_input(f, "targets.masks");
    int64_t layers = in.shape.d[1], area = f->h * f->w, n = f->batch * layers * area;
    int32_t *masks = DG_NEW_N(f->arena, n, int32_t);

    for (int64_t b = 0; b < f->batch; b++) {
        const dg_json *boxes = dg_json_get(&targets->items[b], "boxes");

        for (int j = 0; j < boxes->n; j++) {
            int64_t on = draw_ellipse(masks + (b * layers + j / PLANE) * area, f->h, f->w,
                                      &boxes->items[j], j % PLANE);

            report_fact(f->report, "pixels of target masks",
                        !pixels || (double)on == pixels->items[b].items[j].number, "targets.masks");
        }
    }
    return dg_run_feed(f->run, in.name, masks, n, f->d);
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Draws of a fixture, in its order; per_group: queries of a group in the set. */
typedef struct draws {
    fixture *f;
    int next; /* number of the name rand@n */
    int64_t groups, per_group;
} draws;

static const char *next_name(draws *d)
{
    return dg_printf(d->f->arena, "rand@%d", d->next++);
}

/* The points of matching: one list, for all images. */
static int feed_shared(draws *d, const char *tail)
{
    fixture *f = d->f;
    const char *name = next_name(d);
    dg_run_tensor in;

    if (!find_input(f, tail, &in))
        return no_input(f, tail);
    int64_t n = dg_shape_elements(in.shape), each = n / f->batch;
    double *v = DG_NEW_N(f->arena, n, double);

    for (int64_t i = 0; i < n; i++)
        v[i] = (double)formula_draw(name, i % each);
    return dg_run_feed(f->run, in.name, v, n, f->d);
}

/* Points of pairs, which the fixture has by image, then as they are matched, go where the pair of
 * that group and target stands with us: [B,groups*M,n,2]. Others are 0. */
static int feed_pairs(draws *d, const char *tail, const dg_json *images)
{
    fixture *f = d->f;
    const char *name = next_name(d);
    int64_t from = 0;
    dg_run_tensor in;

    if (!find_input(f, tail, &in))
        return no_input(f, tail);
    int64_t pairs = in.shape.d[1], each = 2 * in.shape.d[2], all = dg_shape_elements(in.shape);
    double *v = DG_NEW_N(f->arena, all, double);

    for (int64_t b = 0; b < f->batch; b++) {
        const dg_json *query = dg_json_get(&images->items[b], "query"),
                      *gt = dg_json_get(&images->items[b], "gt");

        for (int i = 0; i < query->n; i++, from++) {
            int64_t group = (int64_t)query->items[i].number / d->per_group;
            int64_t to = b * pairs + group * (pairs / d->groups) + (int64_t)gt->items[i].number;

            for (int64_t k = 0; k < each; k++)
                v[to * each + k] = (double)formula_draw(name, from * each + k);
        }
    }
    return dg_run_feed(f->run, in.name, v, all, f->d);
}

int fixture_feed_points(fixture *f, const dg_json *matches)
{
    const dg_json *preset = dg_json_get(f->root, "preset"), *k = dg_json_get(f->root, "k");
    draws d = { .f = f, .groups = (int64_t)dg_json_get(preset, "groups")->number };
    int rc = 0;

    for (int i = 0; i < matches->n; i++) {
        const char *key = matches->items[i].key,
                   *suffix = fixture_match_name(f, key) + strlen("match");

        d.per_group = strcmp(key, "enc") == 0 ? (int64_t)k->number : f->n_queries;
        DG_TRY(feed_shared(&d, dg_printf(f->arena, "/match_points%s", suffix)));
        DG_TRY(feed_pairs(&d, dg_printf(f->arena, "/candidates%s", suffix), &matches->items[i]));
        DG_TRY(feed_pairs(&d, dg_printf(f->arena, "/points%s", suffix), &matches->items[i]));
    }
out:
    return rc;
}
