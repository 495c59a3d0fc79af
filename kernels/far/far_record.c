/* far_record.c: work that is done again. A recording is a list of items; replay queues copies of
 * them. As on a GPU, a recording begins on one lane; another lane's work belongs to it from where
 * that lane waits for an event of the recording, and the first lane has to wait for its end. */
#include "kernels/far/far_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct dg_recording {
    uint64_t number;
    dg_lane lane;
    dg_far_item *first, *last;
    /* [a][b]: how many items of lane b have been done when lane a gets to its next item */
    uint64_t seen[DG_N_LANES][DG_N_LANES];
};

int dg_far_record_begin(dg_far *f, dg_lane lane)
{
    if (f->recording)
        return -DG_EUNSUPPORTED;
    f->recording = calloc(1, sizeof *f->recording);
    if (!f->recording)
        return -DG_EMEMORY;
    f->recording->number = ++f->n_recordings;
    f->recording->lane = lane;
    return 0;
}

static void note_order(dg_recording *r, const dg_far_item *it)
{
    uint64_t *seen = r->seen[it->lane];
    dg_event *e = it->event;

    assert(e || (it->work != DG_FAR_RECORD && it->work != DG_FAR_WAIT));
    seen[it->lane]++;
    if (it->work == DG_FAR_RECORD) {
        e->in = r->number;
        memcpy(e->seen, seen, sizeof e->seen);
    } else if (it->work == DG_FAR_WAIT && e->in == r->number) {
        for (int k = 0; k < DG_N_LANES; k++)
            if (seen[k] < e->seen[k])
                seen[k] = e->seen[k];
    }
}

int dg_far_record_put(dg_far *f, const dg_far_item *it)
{
    dg_recording *r = f->recording;
    bool enters = it->work == DG_FAR_WAIT && it->event->in == r->number;
    dg_far_item *copy;

    if (it->lane != r->lane && !r->seen[it->lane][r->lane] && !enters)
        return -DG_EUNSUPPORTED;
    copy = malloc(sizeof *copy);
    if (!copy)
        return -DG_EMEMORY;
    *copy = *it;
    if (it->work == DG_FAR_LAUNCH) {
        copy->recorded = true;
        copy->digest = dg_far_launch_digest(it->launch);
    }
    if (it->event)
        it->event->n_recordings++;
    if (r->last)
        r->last->next = copy;
    else
        r->first = copy;
    r->last = copy;
    note_order(r, copy);
    return 0;
}

int dg_far_record_end(dg_far *f, dg_recording **out)
{
    dg_recording *r = f->recording;

    *out = NULL;
    f->recording = NULL;
    if (!r)
        return -DG_EUNSUPPORTED;
    for (int k = 0; k < DG_N_LANES; k++)
        if (r->seen[r->lane][k] < r->seen[k][k]) { /* the lane does not wait for that one */
            dg_far_recording_free(r);
            return -DG_EUNSUPPORTED;
        }
    *out = r;
    return 0;
}

static bool is_stale(const dg_far_item *it)
{
    return (it->event && it->event->closed) ||
           (it->work == DG_FAR_LAUNCH && dg_far_launch_digest(it->launch) != it->digest);
}

static int replay_item(dg_far *f, const dg_far_item *recorded, dg_lane lane)
{
    dg_far_item it = *recorded;
    int rc;

    it.lane = lane;
    if (is_stale(&it))
        return dg_far_fault(f, -DG_EINTERNAL, it.mark, "recording is stale: %s",
                            it.event ? "an event of it was closed" : "a launch of it changed");
    if (it.work == DG_FAR_WAIT && !it.event->recorded)
        return 0;
    if (it.work == DG_FAR_WAIT)
        it.until = it.event->at;
    rc = dg_far_check(f, &it);
    if (rc == 0)
        rc = dg_far_put(f, &it);
    if (rc == 0 && it.work == DG_FAR_RECORD) {
        it.event->recorded = true;
        it.event->at = (dg_far_place){ lane, f->lanes[lane].queued - 1 };
    }
    return rc;
}

int dg_far_replay(dg_far *f, dg_lane lane, const dg_recording *r)
{
    int rc = 0;

    if (f->recording || (lane != r->lane && r->seen[lane][lane]))
        return -DG_EUNSUPPORTED;
    for (const dg_far_item *it = r->first; it && rc == 0; it = it->next)
        rc = replay_item(f, it, it->lane == r->lane ? lane : it->lane);
    return rc;
}

void dg_far_recording_free(dg_recording *r)
{
    while (r && r->first) {
        dg_far_item *it = r->first;

        r->first = it->next;
        if (it->event && --it->event->n_recordings == 0 && it->event->closed)
            free(it->event);
        free(it);
    }
    free(r);
}
