/* denoise.c: twin of kernels/ref/denoise.c, which has the formulas; in double, so that labels and
 * boxes are those of the reference. A thread has a query; the place of its pair follows from the
 * numbers of objects, so none waits for another. */
#include "kernels/cuda/device.h"

typedef struct denoising {
    const int32_t *labels, *count, *most;
    const real *boxes, *u_label, *u_class, *u_sign, *u_size;
    int32_t *to_labels, *dn, *query, *gt;
    real *to_boxes;
    int64_t batch, slots, n, wanted, classes;
    double label_noise, box_noise;
    bool on_empty;
} denoising;

DEVICE double clip01(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* box: NULL for padding; dummy: half of the image's size, a tenth wide. */
DEVICE void noisy_box(const denoising *p, const real *box, bool dummy, int64_t at, double at_least)
{
    const double none = (double)get(put(dummy ? (wide)0.5 : 0)),
                 size = (double)get(put(dummy ? (wide)0.1 : 0));
    real *to = p->to_boxes + at * 4;

    for (int axis = 0; axis < 2; axis++) {
        double centre = box ? (double)get(box[axis]) : none;
        double half = 0.5 * (box ? (double)get(box[axis + 2]) : size), c[2];

        for (int end = 0; end < 2; end++) {
            int64_t k = at * 4 + axis + 2 * end;
            double sign = get(p->u_sign[k]) < (wide)0.5 ? -1 : 1;
            double edge = end ? centre + half : centre - half;
            double amount = (double)get(p->u_size[k]) + at_least;

            c[end] = clip01(edge + sign * amount * half * p->box_noise);
        }
        to[axis] = put((float)(0.5 * (c[0] + c[1])));
        to[axis + 2] = put((float)(c[1] - c[0]));
    }
}

DEVICE int32_t noisy_label(const denoising *p, int64_t at, int32_t label)
{
    int32_t drawn;

    if (!((double)get(p->u_label[at]) < 0.5 * p->label_noise))
        return label;
    drawn = (int32_t)floor((double)get(p->u_class[at]) * (double)p->classes);
    return drawn < p->classes ? drawn : (int32_t)p->classes - 1;
}

KERNEL(denoise_kernel, denoising)
{
    int64_t most = *p->most, half = p->n / 2;
    bool empty = most < 1;
    int64_t m = empty ? p->on_empty : most < half ? most : half;
    int64_t groups = m == 0 ? 0 : empty || p->wanted < m ? 1 : p->wanted / m;
    int64_t live = 2 * m * groups;

    if (first() == 0) {
        p->dn[0] = (int32_t)m;
        p->dn[1] = (int32_t)groups;
        p->dn[2] = (int32_t)live;
        p->dn[3] = (int32_t)(2 * m);
    }
    for (int64_t at = first(); at < p->batch * p->n; at += step()) {
        int64_t b = at / p->n, q = at % p->n, j = m ? q % m : 0, group = m ? q / m / 2 : 0;
        int64_t count = p->count[b] < p->slots ? p->count[b] : p->slots;
        int64_t own = count < 0 ? 0 : count < m ? count : m; /* pairs of a group */
        bool negative = m && q / m % 2, slot = q < live && j < count;

        p->to_labels[at] =
            slot ? noisy_label(p, at, p->labels[b * p->slots + j]) : (int32_t)p->classes;
        noisy_box(p, slot ? p->boxes + (b * p->slots + j) * 4 : NULL, q < live && empty, at,
                  negative ? 1 : 0);
        if (slot && !negative) {
            p->query[b * half + group * own + j] = (int32_t)q;
            p->gt[b * half + group * own + j] = (int32_t)j;
        }
        if (q < half && q >= groups * own) /* places without a pair */
            p->query[b * half + q] = p->gt[b * half + q] = -1;
    }
}

static int denoise(const dg_cuda_call *c)
{
    const dg_args *a = c->a;
    const dg_denoise_attr *f = (const dg_denoise_attr *)a->attr;
    denoising p = { .labels = ints(a, DG_DENOISE_LABELS),
                    .count = ints(a, DG_DENOISE_COUNT),
                    .most = ints(a, DG_DENOISE_MOST),
                    .boxes = reals(a, DG_DENOISE_BOXES),
                    .u_label = reals(a, DG_DENOISE_U_LABEL),
                    .u_class = reals(a, DG_DENOISE_U_CLASS),
                    .u_sign = reals(a, DG_DENOISE_U_SIGN),
                    .u_size = reals(a, DG_DENOISE_U_SIZE),
                    .to_labels = ints(a, DG_DENOISE_DN_LABELS),
                    .dn = ints(a, DG_DENOISE_DN),
                    .query = ints(a, DG_DENOISE_QUERY),
                    .gt = ints(a, DG_DENOISE_GT),
                    .to_boxes = reals(a, DG_DENOISE_DN_BOXES),
                    .batch = dim(a, DG_DENOISE_LABELS, 0),
                    .slots = dim(a, DG_DENOISE_LABELS, 1),
                    .n = f->capacity,
                    .wanted = f->count,
                    .classes = f->classes,
                    .label_noise = f->label_noise,
                    .box_noise = f->box_noise,
                    .on_empty = f->on_empty != 0 };

    return LAUNCH(c, denoise_kernel, grid_of(p.batch * p.n), &p);
}

DG_CUDA(denoise, NULL, denoise);
