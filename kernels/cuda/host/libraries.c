/* libraries.c: puts products and convolutions of the vendor's libraries on a lane. A plan belongs
 * to a description, is made when that is first seen, and stays until the device is closed. */
#include <string.h>

#include "kernels/cuda/host/internal.h"

/* The workspace is one: work of other lanes would share it at the same time. */
static bool may_plan(const dg_cuda *c, const dg_cuda_lane *lane)
{
    return lane == &c->lanes[DG_LANE_COMPUTE] && !c->collecting;
}

/* A library's kernels do not say which launch they belong to. If they are all that a launch does, a
 * failure in them shows the mark of the kernel before, and its text says so; a kernel for the mark
 * alone would be one for every third of a step. */
static void note_unmarked(dg_cuda *c, const dg_cuda_lane *lane)
{
    int at = lane->before + 1;

    c->table.n_put++;
    if (lane->marked || lane->mark == DG_NO_MARK)
        return;
    if (at >= c->n_followed) {
        int n = c->n_followed;
        uint8_t *more = dg_cuda_room(c->followed, at, &c->n_followed, 1);

        if (!more)
            return; /* the text says less */
        memset(more + n, 0, (size_t)(c->n_followed - n));
        c->followed = more;
    }
    c->followed[at] = 1;
}

/* ---- products -------------------------------------------------------------------------------- */

static int find_plan(dg_cuda *c, const dg_cuda_product *p, int mark, dg_cuda_plan **plan)
{
    dg_cuda_planned *plans;
    int rc;

    for (int i = 0; i < c->n_plans; i++)
        if (memcmp(&c->plans[i].product, p, sizeof *p) == 0) {
            *plan = c->plans[i].plan;
            return 0;
        }
    if (c->recording) /* a plan may load code */
        return -DG_EUNSUPPORTED;
    plans = dg_cuda_room(c->plans, c->n_plans, &c->cap_plans, sizeof *plans);
    if (!plans)
        return -DG_EMEMORY;
    c->plans = plans;
    rc = dg_cuda_check(c, c->r->plan_open(c->r, plan, p), mark, "the plan of a product");
    if (rc == 0)
        plans[c->n_plans++] = (dg_cuda_planned){ *p, *plan };
    return rc;
}

/* The largest power of two that divides all addresses, at most what alloc gives. */
static int64_t alignment_of(const dg_cuda_multiplied *at)
{
    uintptr_t all = (uintptr_t)at->a | (uintptr_t)at->b | (uintptr_t)at->bias | (uintptr_t)at->res |
                    (uintptr_t)at->y | 256;

    return (int64_t)(all & (~all + 1));
}

int dg_cuda_put_product(dg_cuda_queue *q, const dg_cuda_product *p, const dg_cuda_multiplied *at)
{
    dg_cuda_lane *lane = (dg_cuda_lane *)q;
    dg_cuda *c = lane->owner;
    dg_cuda_plan *plan = NULL;
    dg_cuda_product full = *p;
    int rc;

    full.alignment = alignment_of(at);
    full.tf32 = c->tf32 && p->type == DG_F32;
    rc = may_plan(c, lane) ? find_plan(c, &full, lane->mark, &plan) : -DG_EUNSUPPORTED;
    if (rc < 0)
        return rc;
    note_unmarked(c, lane);
    return dg_cuda_check(c, c->r->plan_run(c->r, lane->stream, plan, at, c->workspace), lane->mark,
                         "a product");
}

/* ---- convolutions ---------------------------------------------------------------------------- */

static int find_conv_plan(dg_cuda *c, const dg_cuda_convolution *p, int mark,
                          dg_cuda_conv_plan **plan)
{
    dg_cuda_conv_planned *plans;
    int rc;

    for (int i = 0; i < c->n_conv_plans; i++)
        if (memcmp(&c->conv_plans[i].what, p, sizeof *p) == 0) {
            *plan = c->conv_plans[i].plan;
            return 0;
        }
    if (c->recording) /* a plan may load code */
        return -DG_EUNSUPPORTED;
    plans = dg_cuda_room(c->conv_plans, c->n_conv_plans, &c->cap_conv_plans, sizeof *plans);
    if (!plans)
        return -DG_EMEMORY;
    c->conv_plans = plans;
    rc = dg_cuda_check(c, c->r->conv_open(c->r, plan, p), mark, "the plan of a convolution");
    if (rc == 0)
        plans[c->n_conv_plans++] = (dg_cuda_conv_planned){ *p, *plan };
    return rc;
}

static bool is_aligned(const dg_cuda_convolved *at)
{
    uintptr_t all = (uintptr_t)at->x | (uintptr_t)at->kernel | (uintptr_t)at->y |
                    (uintptr_t)at->bias | (uintptr_t)at->residual | (uintptr_t)at->to;

    return all % DG_CUDA_CONVOLVED == 0;
}

int dg_cuda_put_convolution(dg_cuda_queue *q, const dg_cuda_convolution *p,
                            const dg_cuda_convolved *at)
{
    dg_cuda_lane *lane = (dg_cuda_lane *)q;
    dg_cuda *c = lane->owner;
    dg_cuda_conv_plan *plan = NULL;
    dg_cuda_convolution full = *p;
    int rc;

    if (!c->r->conv_open || !is_aligned(at))
        return DG_CUDA_NO_PLAN;
    full.tf32 = c->tf32 && p->type == DG_F32;
    rc = may_plan(c, lane) ? find_conv_plan(c, &full, lane->mark, &plan) : -DG_EUNSUPPORTED;
    if (rc == 0 && !plan)
        return DG_CUDA_NO_PLAN;
    if (rc < 0)
        return rc;
    note_unmarked(c, lane);
    return dg_cuda_check(c, c->r->conv_run(c->r, lane->stream, plan, at, c->workspace), lane->mark,
                         "a convolution");
}
