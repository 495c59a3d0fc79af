/* replay.c: work that a device does again without being told each instruction. A segment falls
 * into pieces: what stands between two instructions that the host takes part in. The first run of
 * a piece walks, so that a program that runs once is not recorded and kernels set themselves up;
 * the second one records; from then on the piece is replayed.
 *
 * A recording holds addresses, so it lives as long as they do: binding drops it. It need not know
 * the batch's place in an accumulation: kernels read that from the control struct, and whether
 * gradients are exchanged is decided between pieces. */
#include "exec/exec_internal.h"

bool dg_replay_possible(const dg_exec *x)
{
    return x->pieces && !x->timed && !x->host_places && !x->debug.what;
}

/* The host takes part: it waits for other ranks, computes, or brings numbers of its own. */
static bool is_between_pieces(const dg_exec *x, int i)
{
    return x->p->instrs.items[i].op->effect == DG_COLLECTIVE || x->plan->instrs[i].staged ||
           x->draws[i].values;
}

int dg_replay_end(const dg_exec *x, int begin, dg_segment segment)
{
    int i = begin;

    while (i < x->p->instrs.n &&
           (x->p->instrs.items[i].segment != segment || !is_between_pieces(x, i)))
        i++;
    return i;
}

static int record(dg_exec *x, int begin, int end, dg_segment segment, dg_recording **r)
{
    dg_backend *b = x->backend;
    int before = -1, rc = b->record_begin(b, DG_LANE_COMPUTE), ended;

    if (rc < 0)
        return rc;
    for (int i = begin; i < end && rc == 0; i++) {
        if (x->p->instrs.items[i].segment != segment)
            continue;
        dg_observe_place(x, i, before);
        before = i;
        if (dg_exec_has_work(x, i))
            rc = dg_exec_launch(x, i);
    }
    ended = b->record_end(b, r);
    x->n.recordings++;
    return rc < 0 ? rc : ended;
}

int dg_replay(dg_exec *x, int begin, int end, dg_segment segment, bool *done)
{
    dg_piece *piece = &x->pieces[begin];
    dg_backend *b = x->backend;
    int rc = 0;

    *done = false;
    if (!piece->seen || piece->refused) {
        piece->seen = true;
        return 0;
    }
    if (!piece->recording)
        rc = record(x, begin, end, segment, &piece->recording);
    if (rc == -DG_EUNSUPPORTED && b->fault(b) == DG_NO_MARK) {
        if (piece->recording)
            b->recording_close(b, &piece->recording);
        piece->refused = true;
        return 0;
    }
    if (rc == 0)
        rc = b->replay(b, DG_LANE_COMPUTE, piece->recording);
    x->n.replays++;
    x->settled = false;
    *done = rc == 0;
    return rc;
}

void dg_replay_forget(dg_exec *x)
{
    for (int i = 0; x->pieces && i < x->p->instrs.n; i++) {
        if (x->pieces[i].recording)
            x->backend->recording_close(x->backend, &x->pieces[i].recording);
        x->pieces[i] = (dg_piece){ 0 };
    }
}
