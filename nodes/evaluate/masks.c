/* masks.c: see masks.h. */
#include "nodes/evaluate/masks.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(dg_diag *d, int w, int h)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory",
                   "no memory for a mask of %d x %d pixels", w, h);
}

/* ---- pixels ---------------------------------------------------------------------------------- */

/* Where an output sample lies between two input samples. */
typedef struct between {
    int64_t left, right;
    double share; /* of right */
} between;

static between place(int i, int64_t from, int to)
{
    double at = (i + 0.5) * (double)from / to - 0.5;
    between b = { .left = at > 0 ? (int64_t)at : 0 };

    b.left = b.left < from - 1 ? b.left : from - 1;
    b.right = b.left + (b.left < from - 1);
    b.share = at > 0 ? at - (double)b.left : 0;
    return b;
}

static double value(const dg_tensor *t, int64_t i)
{
    return t->dtype == DG_F64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

/* The logit at a pixel of the result; the map begins at `at` and is w wide. */
static double lerp(const dg_tensor *t, int64_t at, int64_t w, const between *x, const between *y)
{
    double top = value(t, at + y->left * w + x->left) * (1 - x->share) +
                 value(t, at + y->left * w + x->right) * x->share,
           low = value(t, at + y->right * w + x->left) * (1 - x->share) +
                 value(t, at + y->right * w + x->right) * x->share;

    return top * (1 - y->share) + low * y->share;
}

int dg_detected_mask(dg_rle *out, const dg_tensor *logits, int64_t j, int w, int h, dg_diag *d)
{
    int64_t from_h = logits->shape.d[2], from_w = logits->shape.d[3], at = j * from_h * from_w;
    between *columns = malloc((size_t)w * sizeof *columns);
    dg_mask m = { w, h, malloc((size_t)w * (size_t)h) };
    int rc = columns && m.on ? 0 : no_memory(d, w, h);

    for (int x = 0; rc == 0 && x < w; x++)
        columns[x] = place(x, from_w, w);
    for (int y = 0; rc == 0 && y < h; y++) {
        between row = place(y, from_h, h);

        for (int x = 0; x < w; x++)
            m.on[(size_t)y * (size_t)w + (size_t)x] =
                lerp(logits, at, from_w, &columns[x], &row) > 0;
    }
    if (rc == 0)
        rc = dg_rle_make(out, &m, d);
    free(columns);
    free(m.on);
    return rc;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

typedef struct header {
    int64_t w, h, n;
} header;

size_t dg_masks_bytes(const dg_rle *masks, int64_t n)
{
    size_t bytes = 0;

    for (int64_t i = 0; i < n; i++)
        bytes += sizeof(header) + (size_t)masks[i].n * sizeof *masks[i].runs;
    return bytes;
}

void dg_masks_pack(char *to, const dg_rle *masks, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const header head = { masks[i].w, masks[i].h, masks[i].n };
        size_t bytes = (size_t)masks[i].n * sizeof *masks[i].runs;

        memcpy(to, &head, sizeof head);
        if (bytes)
            memcpy(to + sizeof head, masks[i].runs, bytes);
        to += sizeof head + bytes;
    }
}

int dg_mask_unpack(dg_rle *out, const char **from, dg_diag *d)
{
    header head;
    size_t bytes;

    memcpy(&head, *from, sizeof head);
    bytes = (size_t)head.n * sizeof(uint32_t);
    *out = (dg_rle){ (int)head.w, (int)head.h, head.n, malloc(bytes ? bytes : 1) };
    if (!out->runs)
        return no_memory(d, (int)head.w, (int)head.h);
    memcpy(out->runs, *from + sizeof head, bytes);
    *from += sizeof head + bytes;
    return 0;
}
