/* landing.c: see landing.h. */
#include <string.h>

#include "base/element.h"
#include "exec/exec_internal.h"

int dg_landing_open(dg_landing *l, dg_backend *backend, int64_t bytes, dg_diag *d)
{
    bool complete;

    *l = (dg_landing){ .backend = backend };
    l->device = backend->alloc(backend, (size_t)bytes);
    l->taken = backend->event_open(backend);
    complete = l->device && l->taken;
    for (int i = 0; i < DG_LANDING_SIDES && complete; i++) {
        l->pinned[i] = backend->alloc_pinned(backend, (size_t)bytes);
        l->copied[i] = backend->event_open(backend);
        complete = l->pinned[i] && l->copied[i];
    }
    if (complete)
        return 0;
    dg_landing_close(l);
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-plan", "no memory for the batch on its way");
}

/* What it has been given so far is on its way; nothing more comes from this side. */
static int end_side(dg_landing *l)
{
    dg_backend *b = l->backend;

    return l->owner ? b->event_record(b, l->copied[l->side], DG_LANE_COPY) : 0;
}

void dg_landing_close(dg_landing *l)
{
    dg_backend *b = l->backend;

    if (!b)
        return;
    (void)end_side(l); /* a fault has been said, or will be */
    for (int i = 0; i < DG_LANDING_SIDES; i++) {
        if (l->copied[i]) {
            (void)b->event_wait(b, l->copied[i]);
            b->event_close(b, &l->copied[i]);
        }
        b->free_pinned(b, l->pinned[i]);
    }
    if (l->taken)
        b->event_close(b, &l->taken);
    b->free(b, l->device);
    *l = (dg_landing){ 0 };
}

/* A batch begins. The side was last used two batches ago: its copy has been done since a result of
 * the batch before was read, so the host does not really wait. A batch that
 * was landed and not taken is dropped. */
static int begin(dg_exec *x, bool ahead, int64_t batch)
{
    dg_landing *l = x->spaces.landing;
    dg_backend *b = l->backend;
    int rc = end_side(l);

    l->owner = NULL;
    x->n_landed = 0;
    l->side = (l->side + 1) % DG_LANDING_SIDES;
    if (rc < 0)
        return rc;
    DG_TRY(b->event_wait(b, l->copied[l->side]));
    DG_TRY(b->lane_wait(b, DG_LANE_COPY, l->taken));
    l->owner = x;
    l->ahead = ahead;
    l->batch = batch;
out:
    return rc;
}

/* The same input twice: the first copy has to be done before its memory changes. */
static int note_input(dg_exec *x, int32_t input)
{
    dg_landing *l = x->spaces.landing;
    int rc;

    for (int i = 0; i < x->n_landed; i++) {
        if (x->landed[i] != input)
            continue;
        rc = end_side(l);
        return rc < 0 ? rc : l->backend->event_wait(l->backend, l->copied[l->side]);
    }
    x->landed[x->n_landed++] = input;
    return 0;
}

static int put(dg_exec *x, int32_t input, const dg_tensor *from)
{
    const dg_value *v = &x->p->values.items[input];
    dg_landing *l = x->spaces.landing;
    char *pinned = l->pinned[l->side] + v->offset;
    size_t bytes = dg_plan_value_bytes(x->p, input);
    int64_t n = dg_shape_elements(v->shape);
    int rc = note_input(x, input);

    if (rc < 0)
        return rc;
    dg_elements_convert(pinned, v->dtype, from->data, from->dtype, n);
    return l->backend->upload(l->backend, DG_LANE_COPY, l->device + v->offset, pinned, bytes);
}

int dg_landing_put(dg_exec *x, int32_t input, const dg_tensor *from)
{
    const dg_landing *l = x->spaces.landing;
    int rc = l->owner == x && !l->ahead ? 0 : begin(x, false, 0);

    return rc < 0 ? rc : put(x, input, from);
}

int dg_landing_put_ahead(dg_exec *x, int64_t batch, int32_t input, const dg_tensor *from)
{
    const dg_landing *l = x->spaces.landing;
    int rc = l->owner == x && l->ahead && l->batch == batch ? 0 : begin(x, true, batch);

    return rc < 0 ? rc : put(x, input, from);
}

bool dg_exec_take_ahead(dg_exec *x, int64_t batch)
{
    dg_landing *l = x->spaces.landing;
    bool here = l && l->owner == x && l->ahead && l->batch == batch;

    if (here)
        l->ahead = false;
    x->n.ahead += here;
    return here;
}

int dg_landing_take(dg_exec *x)
{
    dg_landing *l = x->spaces.landing;
    dg_backend *b = x->backend;
    int rc;

    if (!l || l->owner != x || l->ahead)
        return 0;
    rc = end_side(l);
    l->owner = NULL;
    if (rc == 0)
        rc = b->lane_wait(b, DG_LANE_COMPUTE, l->copied[l->side]);
    for (int i = 0; i < x->n_landed && rc == 0; i++) {
        dg_tensor io = dg_exec_tensor(x, x->landed[i]);

        rc =
            b->copy(b, DG_LANE_COMPUTE, io.data,
                    l->device + x->p->values.items[x->landed[i]].offset, dg_exec_tensor_bytes(&io));
    }
    return rc < 0 ? rc : b->event_record(b, l->taken, DG_LANE_COMPUTE);
}
