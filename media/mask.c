/* mask.c: see mask.h. */
#include "media/mask.h"

#include <stddef.h>
#include <string.h>

int dg_mask_alloc(dg_mask *out, dg_scratch *s, int w, int h, dg_diag *d)
{
    uint8_t *on = dg_scratch_alloc(s, (size_t)w * (size_t)h);

    if (!on)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                       "no memory for a mask of %d x %d pixels", w, h);
    *out = (dg_mask){ w, h, on };
    return 0;
}

dg_mask *dg_sample_masks(const dg_sample *sm)
{
    return sm->size > offsetof(dg_sample, masks) ? sm->masks : NULL;
}

int dg_mask_resize(dg_mask *out, dg_scratch *s, const dg_mask *in, int w, int h, dg_diag *d)
{
    dg_mask done;
    int rc = dg_mask_alloc(&done, s, w, h, d);

    for (int y = 0; rc == 0 && y < h; y++) {
        const uint8_t *from = in->on + (size_t)dg_nearest_index(y, in->h, h) * (size_t)in->w;
        uint8_t *to = done.on + (size_t)y * (size_t)w;

        for (int x = 0; x < w; x++)
            to[x] = from[dg_nearest_index(x, in->w, w)];
    }
    if (rc == 0)
        *out = done;
    return rc;
}

int dg_mask_crop(dg_mask *out, dg_scratch *s, const dg_mask *in, int x, int y, int w, int h,
                 dg_diag *d)
{
    dg_mask done;
    int rc = dg_mask_alloc(&done, s, w, h, d);

    for (int row = 0; rc == 0 && row < h; row++)
        memcpy(done.on + (size_t)row * (size_t)w,
               in->on + (size_t)(y + row) * (size_t)in->w + (size_t)x, (size_t)w);
    if (rc == 0)
        *out = done;
    return rc;
}

int dg_mask_paste(dg_mask *out, dg_scratch *s, const dg_mask *in, int w, int h, int x, int y,
                  dg_diag *d)
{
    dg_mask done;
    int rc = dg_mask_alloc(&done, s, w, h, d);

    if (rc)
        return rc;
    memset(done.on, 0, (size_t)w * (size_t)h);
    for (int row = 0; row < in->h; row++)
        memcpy(done.on + (size_t)(y + row) * (size_t)w + (size_t)x,
               in->on + (size_t)row * (size_t)in->w, (size_t)in->w);
    *out = done;
    return 0;
}

void dg_mask_flip(dg_mask *m, int w)
{
    for (int y = 0; y < m->h; y++) {
        uint8_t *a = m->on + (size_t)y * (size_t)m->w, *b = a + w - 1;

        for (; a < b; a++, b--) {
            uint8_t t = *a;

            *a = *b;
            *b = t;
        }
    }
}
