/* record.c: recordings are captured graphs. A capture begins on one stream; another one belongs to
 * it from where it waits for an event of the capture, and the first has to wait for its end. */
#include <stdlib.h>

#include "kernels/cuda/host/internal.h"

bool dg_cuda_may_put(const dg_cuda *c, dg_lane lane)
{
    return !c->recording || (c->recording->lanes >> lane & 1);
}

int dg_cuda_record_begin(dg_cuda *c, dg_lane lane)
{
    dg_recording *r = c->recording ? NULL : calloc(1, sizeof *r);
    int rc;

    if (!r)
        return c->recording ? -DG_EUNSUPPORTED : -DG_EMEMORY;
    rc = dg_cuda_check(c, c->r->capture_begin(c->r, c->lanes[lane].stream), DG_NO_MARK,
                       "the begin of a recording");
    if (rc < 0) {
        free(r);
        return rc;
    }
    r->number = ++c->n_recordings;
    r->lane = lane;
    r->lanes = 1u << lane;
    c->recording = r;
    return 0;
}

static int note_use(dg_recording *r, dg_event *e, bool awaited)
{
    dg_cuda_use *uses = dg_cuda_room(r->uses, r->n_uses, &r->cap_uses, sizeof *uses);

    if (!uses)
        return -DG_EMEMORY;
    r->uses = uses;
    r->uses[r->n_uses++] = (dg_cuda_use){ e, awaited };
    e->n_users++;
    return 0;
}

int dg_cuda_record_event(dg_cuda *c, dg_event *e, dg_lane lane)
{
    int rc = note_use(c->recording, e, false);

    if (rc < 0)
        return rc;
    e->in = c->recording->number;
    return dg_cuda_check(c, c->r->event_record(c->r, e->inner, c->lanes[lane].stream), DG_NO_MARK,
                         "an event of a recording");
}

int dg_cuda_record_wait(dg_cuda *c, dg_lane lane, dg_event *e)
{
    int rc;

    if (e->in != c->recording->number)
        return dg_cuda_may_put(c, lane) ? note_use(c->recording, e, true) : -DG_EUNSUPPORTED;
    rc = c->r->event_order(c->r, c->lanes[lane].stream, e->inner);
    if (rc == 0)
        c->recording->lanes |= 1u << lane;
    return dg_cuda_check(c, rc, DG_NO_MARK, "an event of a recording");
}

int dg_cuda_record_end(dg_cuda *c, dg_recording **out)
{
    dg_recording *r = c->recording;
    int rc;

    *out = NULL;
    c->recording = NULL;
    if (!r)
        return -DG_EUNSUPPORTED;
    rc = dg_cuda_check(c, c->r->capture_end(c->r, c->lanes[r->lane].stream, &r->graph), DG_NO_MARK,
                       "the end of a recording");
    if (rc < 0)
        dg_cuda_recording_close(c, r);
    else
        *out = r;
    return rc;
}

/* `to` waits for what is on `from` now. */
static int order(dg_cuda *c, dg_cuda_stream *to, dg_cuda_stream *from)
{
    int rc = c->r->event_record(c->r, c->order->inner, from);

    return rc ? rc : c->r->event_order(c->r, to, c->order->inner);
}

/* The graph runs on one lane. Others that it uses wait for it, and it waits for them: their work
 * before and behind the replay stays where the caller put it. */
int dg_cuda_replay(dg_cuda *c, dg_lane lane, const dg_recording *r)
{
    dg_cuda_stream *on = c->lanes[lane].stream;
    int rc = 0;

    if (c->recording || (lane != r->lane && (r->lanes >> lane & 1)))
        return -DG_EUNSUPPORTED;
    for (int k = 0; k < DG_N_LANES && rc == 0; k++)
        if (k != (int)r->lane && (r->lanes >> k & 1))
            rc = order(c, on, c->lanes[k].stream);
    for (int i = 0; i < r->n_uses && rc == 0; i++)
        if (r->uses[i].awaited)
            rc = c->r->event_order(c->r, on, r->uses[i].event->outer);
    rc = rc ? rc : c->r->graph_launch(c->r, r->graph, on);
    for (int i = 0; i < r->n_uses && rc == 0; i++)
        if (!r->uses[i].awaited)
            rc = c->r->event_record(c->r, r->uses[i].event->outer, on);
    for (int k = 0; k < DG_N_LANES && rc == 0; k++)
        if (k != (int)r->lane && (r->lanes >> k & 1))
            rc = order(c, c->lanes[k].stream, on);
    return dg_cuda_check(c, rc, DG_NO_MARK, "a replay");
}

static void close_jobs(dg_cuda *c, uint64_t number)
{
    dg_cuda_job *next;

    pthread_mutex_lock(&c->jobs_lock);
    for (dg_cuda_job *j = c->jobs; j; j = next) {
        next = j->next;
        if (!j->recorded || j->recording != number)
            continue;
        *j->at = j->next;
        if (j->next)
            j->next->at = j->at;
        free(j);
    }
    pthread_mutex_unlock(&c->jobs_lock);
}

void dg_cuda_recording_close(dg_cuda *c, dg_recording *r)
{
    if (!r)
        return;
    if (r->graph)
        c->r->graph_close(c->r, r->graph);
    close_jobs(c, r->number);
    for (int i = 0; i < r->n_uses; i++)
        if (--r->uses[i].event->n_users == 0 && r->uses[i].event->closed)
            dg_cuda_event_free(c, r->uses[i].event);
    free(r->uses);
    free(r);
}
