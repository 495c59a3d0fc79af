/* long_sums.c: see long_sums.h. The library adds a sum's terms one by one, so its rounding error
 * grows with the root of their number. Behind the eight convolutions of RF-DETR's projector, each
 * of which is normalised, the error was 1.9e-6 of the result, twice that of PyTorch; it is 1.1e-6
 * with sums of at least SHORT terms, which take half as long again, and MOST_PARTS times the
 * result's bytes as workspace. */
#include "kernels/host/long_sums.h"

#include <stdlib.h>

#include "kernels/attrs.h"
#include "kernels/host/host.h"
#include "kernels/host/taps.h"

enum {
    X,
    WEIGHT,
    BIAS,
    Y,
    N,
    SHORT = 128, /* terms that are few enough for one sum */
    MOST_PARTS = 8,
    LANES = 16, /* channels of a part are a multiple: the library's blocks */
    ALIGN = 64,
};

typedef struct split {
    void *handle; /* of dg_host_whole_conv2d */
    int64_t parts;
    size_t at; /* of the parts in the workspace */
} split;

static int64_t parts_of(const dg_prepare *p)
{
    const int64_t *w = p->t[WEIGHT].shape.d;
    int64_t parts = 1;

    if (!((const conv_attr *)p->attr)->exact || p->t[X].dtype != DG_F32 || p->t[Y].dtype != DG_F32)
        return 1;
    while (parts < MOST_PARTS && w[1] % (2 * parts * LANES) == 0 &&
           w[1] / (2 * parts) * w[2] * w[3] >= SHORT)
        parts *= 2;
    return parts;
}

static void release(void *handle)
{
    split *s = handle;

    if (s)
        dg_host_whole_conv2d.release(s->handle);
    free(s);
}

static int prepare(dg_prepare *p)
{
    split *s = calloc(1, sizeof *s);
    dg_tensor t[N] = { p->t[X], p->t[WEIGHT], p->t[BIAS], p->t[Y] };
    dg_prepare whole = *p;
    size_t bytes = 0;
    int rc;

    if (!s)
        return -DG_EMEMORY;
    s->parts = parts_of(p);
    if (s->parts > 1) {
        t[BIAS].shape.rank = -1;
        t[Y].shape.d[3] *= s->parts;
        whole.t = t;
        bytes = (size_t)dg_shape_elements(t[Y].shape) * sizeof(float);
    }
    rc = dg_host_whole_conv2d.prepare(&whole);
    s->handle = whole.handle;
    s->at = (whole.workspace_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (rc < 0) {
        release(s);
        return rc;
    }
    p->handle = s;
    p->workspace_bytes = s->at + bytes;
    return 0;
}

static int run(const dg_args *a)
{
    const split *s = a->handle;
    dg_tensor t[N] = { a->t[X], a->t[WEIGHT], a->t[BIAS], a->t[Y] };
    int64_t width = t[Y].shape.d[3];
    dg_args whole = *a;
    int rc;

    whole.handle = s->handle;
    if (s->parts == 1)
        return dg_host_whole_conv2d.run(&whole);
    t[Y].data = (char *)a->workspace + s->at;
    t[Y].shape.d[3] *= s->parts;
    whole.t = t;
    rc = dg_host_whole_conv2d.run(&whole);
    if (rc == 0)
        dg_host_add_parts(a->t[Y].data, t[Y].data, a->t[BIAS].data,
                          dg_shape_elements(a->t[Y].shape) / width, width, s->parts, a->threads);
    return rc;
}

const dg_kernel dg_host_conv2d = { prepare, run, release };
