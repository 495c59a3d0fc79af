/* update.c: updates of whole parameter spaces: sum of gradients, its norm, check that all is
 * finite, AdamW (Loshchilov & Hutter 2019) and the moving average of the weights.
 *
 *     g' = g * min(1, clip / (norm + 1e-6))
 *     w  <- w - lr * weight_decay * w
 *     m  <- beta1 m + (1 - beta1) g'          v <- beta2 v + (1 - beta2) g'^2
 *     w  <- w - lr / bias1 * m / (sqrt(v / bias2) + eps)       bias = 1 - beta^t, from control
 *     e  <- decay e + (1 - decay) w                                  control.ema_decay
 *
 * Nothing is written unless ok: a step that is not finite changes nothing. */
#include <math.h>

#include "kernels/ref/ref.h"

/* g:u x: adds the batch's gradient to g; the first batch of an update overwrites g. */
static int accumulate(const dg_args *a)
{
    for (int64_t n = 0; n < elements(a, DG_ACCUMULATE_G); n++)
        out(a, DG_ACCUMULATE_G)[n] =
            (real)((a->control->accumulated ? (double)out(a, DG_ACCUMULATE_G)[n] : 0) +
                   in(a, DG_ACCUMULATE_X)[n]);
    return 0;
}

/* g -> norm, summed in fixed blocks, in order. */
static int grad_norm(const dg_args *a)
{
    enum { BLOCK = 4096 };
    double total = 0;

    for (int64_t first = 0; first < elements(a, DG_GRAD_NORM_G); first += BLOCK) {
        int64_t last = first + BLOCK < elements(a, DG_GRAD_NORM_G) ? first + BLOCK
                                                                   : elements(a, DG_GRAD_NORM_G);
        double sum = 0;

        for (int64_t n = first; n < last; n++)
            sum += (double)in(a, DG_GRAD_NORM_G)[n] * in(a, DG_GRAD_NORM_G)[n];
        total += sum;
    }
    out(a, DG_GRAD_NORM_NORM)[0] = (real)sqrt(total);
    return 0;
}

/* x* -> ok */
static int all_finite(const dg_args *a)
{
    int32_t ok = 1;

    for (int i = 0; i < a->n - 1; i++)
        for (int64_t n = 0; n < elements(a, i); n++)
            ok = ok && isfinite(in(a, i)[n]);
    out_i32(a, a->n - 1)[0] = ok;
    return 0;
}

/* w:u g m:u v:u e?:u norm? ok */
static int adamw(const dg_args *a)
{
    const adamw_attr *f = a->attr;
    const dg_control *c = a->control;
    const real *g = in(a, DG_ADAMW_G);
    real *w = out(a, DG_ADAMW_W), *m = out(a, DG_ADAMW_M), *v = out(a, DG_ADAMW_V),
         *e = out(a, DG_ADAMW_E);
    double clip =
        f->clip > 0 && has(a, DG_ADAMW_NORM) ? f->clip / (in(a, DG_ADAMW_NORM)[0] + 1e-6) : 1;

    if (!in_i32(a, DG_ADAMW_OK)[0])
        return 0;
    clip = clip < 1 ? clip : 1;
    for (const adamw_range *r = f->ranges; r < f->ranges + f->n_ranges; r++)
        for (int64_t n = r->begin; n < r->end; n++) {
            double lr = c->lr[r->group], grad = g[n] * clip;
            double decayed = w[n] * (1 - lr * r->weight_decay);
            double mean = f->beta1 * m[n] + (1 - f->beta1) * grad;
            double square = f->beta2 * v[n] + (1 - f->beta2) * grad * grad;

            m[n] = (real)mean;
            v[n] = (real)square;
            w[n] = (real)(decayed - lr / c->bias1 * mean / (sqrt(square / c->bias2) + f->eps));
            if (e)
                e[n] = (real)(c->ema_decay * e[n] + (1 - c->ema_decay) * w[n]);
        }
    return 0;
}

/* e:u w ok, over elements begin..end-1 of both; end 0: to the last */
static int ema(const dg_args *a)
{
    const ema_attr *f = a->attr;
    int64_t end = f->end ? f->end : elements(a, DG_EMA_E);
    double decay = a->control->ema_decay;

    if (!in_i32(a, DG_EMA_OK)[0])
        return 0;
    for (int64_t n = f->begin; n < end; n++)
        out(a, DG_EMA_E)[n] =
            (real)(decay * out(a, DG_EMA_E)[n] + (1 - decay) * in(a, DG_EMA_W)[n]);
    return 0;
}

/* numpy.linspace(before, last, steps), and after behind it */
static int ramp(const dg_args *a)
{
    const ramp_attr *f = a->attr;
    int64_t step = a->control->step;
    double y = f->after;

    if (step < f->steps - 1)
        y = f->before + (double)step * ((f->last - f->before) / (double)(f->steps - 1));
    else if (step < f->steps)
        y = f->steps == 1 ? f->before : f->last;
    out(a, DG_RAMP_Y)[0] = (real)y;
    return 0;
}

DG_REF(ramp, NULL, ramp);
DG_REF(accumulate, NULL, accumulate);
DG_REF(grad_norm, NULL, grad_norm);
DG_REF(finite, NULL, all_finite);
DG_REF(adamw, NULL, adamw);
DG_REF(ema, NULL, ema);
