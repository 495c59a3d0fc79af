/* vflip.c: <augment.vflip>: mirrors top and bottom, for pictures without an up: from above, through
 * a microscope. */
#include "nodes/augment/family.h"

#include <string.h>

typedef struct conf {
    DG_AUGMENT_FIELDS;
} conf;

static const dg_attr attrs[] = {
    DG_AUGMENT_ATTRS(conf, 0.5),
    { 0 },
};

static void check(dg_check *k, const void *self)
{
    dg_augment_check(k, &((const conf *)self)->until, NULL);
}

/* Rows of n bytes in the opposite order. */
static void turn_rows(uint8_t *rows, size_t n, int h)
{
    for (int y = 0; y < h / 2; y++) {
        uint8_t *a = rows + (size_t)y * n, *b = rows + (size_t)(h - 1 - y) * n;

        for (size_t i = 0; i < n; i++) {
            uint8_t t = a[i];

            a[i] = b[i];
            b[i] = t;
        }
    }
}

static int item(const void *self, dg_sample *sm, dg_draw *r, const dg_clock *clock, dg_diag *d)
{
    const conf *c = self;
    const dg_mask *masks = dg_augment_masks(sm);
    int w, h;

    (void)d;
    if (!DG_AUGMENT_ON(c, r, clock))
        return 0;
    dg_sample_part(sm, &w, &h); /* it stays in its corner */
    turn_rows(sm->image.rgb, 3 * (size_t)sm->image.w, h);
    for (int i = 0; i < sm->n_objects; i++) {
        dg_box *b = &sm->objects[i].box;

        *b = (dg_box){ b->x1, h - b->y2, b->x2, h - b->y1 };
        if (masks)
            turn_rows(masks[i].on, (size_t)masks[i].w, h);
    }
    return 0;
}

const dg_node_class dg_node_augment_vflip = {
    DG_AUGMENT_CLASS(conf, dg_augment_ports),
    .name = "augment.vflip",
    .brief = "Mirrors top and bottom.",
};
