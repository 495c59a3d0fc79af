/* schedule.c: the factor on the learning rate at step t (from 0) of T.
 *
 *  warm-up    min(1, (t+first) / warmup)
 *  constant   1
 *  cosine     1 until hold = h; then to + (1 - to) (1 + cos(pi (t-h) / (T-h))) / 2
 *             Loshchilov & Hutter 2017
 *  multistep  gamma ^ (milestones reached), milestones in epochs; applies after the warm-up, as in
 *             the reference */
#include "nodes/optimizer/schedule.h"

#include <math.h>

enum { CONSTANT, COSINE, MULTISTEP };

const dg_attr dg_schedule_attrs[] = {
    DG_SPAN(dg_schedule_conf, warmup, "0", "linear warm-up: steps, or a share of the run"),
    DG_INT(dg_schedule_conf, first, 1, 0, 1, "warm-up: the first step's rate is first / warmup"),
    DG_ENUM(dg_schedule_conf, decay, CONSTANT, "constant|cosine|multistep",
            "shape after the warm-up"),
    DG_WHEN(dg_schedule_conf, hold, "step 0", "cosine: constant until this moment or share"),
    DG_NUM(dg_schedule_conf, to, 0, 0, 1, "cosine: factor at the end of the run"),
    DG_INTS(dg_schedule_conf, milestones, NULL, "multistep: epochs after which gamma applies"),
    DG_NUM(dg_schedule_conf, gamma, 0.1, 0, 1, "multistep: factor at each milestone"),
    { 0 },
};

/* Reports settings of another kind of decay. */
void dg_schedule_check(dg_check *k, const dg_schedule_conf *s)
{
    if (s->hold.unit == DG_NEVER || s->hold.unit == DG_MINUTES)
        dg_check_fail(k, NULL, "schedule-hold",
                      "hold of <schedule> is a step, an epoch or a share of the run, like "
                      "\"step 952\" or \"55 %%\"");
    else if (s->warmup.unit == DG_NEVER || s->warmup.unit == DG_MINUTES)
        dg_check_fail(
            k, NULL, "schedule-warmup",
            "warmup of <schedule> is steps, epochs or a share of the run, like \"200\" or "
            "\"5 %%\"");
    else if (s->decay != COSINE && s->hold.n > 0)
        dg_check_fail(k, NULL, "schedule-unused", "hold of <schedule> needs decay=\"cosine\"");
    if (s->first < 1 && !(s->warmup.n > 0))
        dg_check_fail(k, NULL, "schedule-unused", "first of <schedule> needs a warmup");
    if (s->decay != COSINE && s->to > 0)
        dg_check_fail(k, NULL, "schedule-unused", "to of <schedule> needs decay=\"cosine\"");
    if (s->decay != MULTISTEP && s->milestones.n)
        dg_check_fail(k, NULL, "schedule-unused",
                      "milestones of <schedule> need decay=\"multistep\"");
    if (s->decay == MULTISTEP && !s->milestones.n)
        dg_check_fail(k, NULL, "schedule-milestones",
                      "decay=\"multistep\" of <schedule> needs milestones, like \"40,55\"");
}

static double steps_of(const dg_when *w, const dg_clock *clock)
{
    return w->unit == DG_STEPS    ? w->n
           : w->unit == DG_EPOCHS ? w->n * (double)clock->steps_per_epoch
           : w->unit == DG_SHARE  ? w->n / 100 * (double)clock->n_steps
                                  : 0;
}

static double cosine(const dg_schedule_conf *s, const dg_clock *clock)
{
    static const double pi = 3.14159265358979323846;
    double from = steps_of(&s->hold, clock), end = (double)clock->n_steps, t = (double)clock->step;

    if (t < from || end <= from)
        return 1;
    return s->to + (1 - s->to) * 0.5 * (1 + cos(pi * fmin(1, (t - from) / (end - from))));
}

static double multistep(const dg_schedule_conf *s, const dg_clock *clock)
{
    double factor = 1;

    for (int i = 0; i < s->milestones.n; i++)
        if (clock->epoch >= s->milestones.v[i])
            factor *= s->gamma;
    return factor;
}

double dg_schedule_factor(const dg_schedule_conf *s, const dg_clock *clock)
{
    double warm, decay, warmup;

    if (!s)
        return 1;
    warmup = steps_of(&s->warmup, clock);
    warm = warmup > 0 ? fmin(1, (double)(clock->step + s->first) / warmup) : 1;
    decay = s->decay == COSINE                   ? cosine(s, clock)
            : s->decay == MULTISTEP && warm >= 1 ? multistep(s, clock)
                                                 : 1;
    return warm * decay;
}
