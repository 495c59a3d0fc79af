/* rank.c: a rank's ticket, and its control and data planes. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/cli.h"
#include "cli/launch.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "comm/shm.h"
#include "control/comm_recorded.h"
#include "control/launch.h"
#include "control/rank_processes.h"

static void on_over(void *ctx)
{
    dg_rank *r = ctx;
    dg_comm *comm = atomic_load(&r->open);

    if (comm)
        comm->abort(comm);
}

/* A signal to this process stops all ranks together. */
static void on_signal(void *ctx)
{
    dg_link_ask(ctx, "stop");
}

static int open_comm(dg_rank *r, const dg_ticket *t, dg_recorder *recorder, dg_diag *d)
{
    dg_comm *comm;
    int rc;

    if (r->world.ranks < 2)
        return 0;
    if (r->world.nodes > 1)
        rc = dg_machines_comm(&comm, r->world.link, t->coordinator, r->world.rank, r->world.ranks,
                              d);
    else
        rc = dg_comm_shm_open(&comm, (int)t->comm_fd, r->world.rank, r->world.ranks, d);
    if (rc < 0)
        return rc;
    r->world.comm = dg_comm_recorded(comm, recorder);
    atomic_store(&r->open, r->world.comm);
    if (dg_link_over(r->world.link)) /* the run ended before the communicator was opened */
        on_over(r);
    return 0;
}

int dg_rank_open(dg_rank **out, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_rank *r = DG_NEW(a, dg_rank);
    dg_recorder *recorder = NULL;
    dg_message m;
    const dg_ticket *t = &m.ticket;
    int rc;

    *out = r;
    r->arena = a;
    DG_TRY(dg_rank_processes_ticket(&m, getenv(dg_rank_processes_variable), a, d));
    unsetenv(dg_rank_processes_variable); /* processes started by this one are not ranks */
    r->attempt = m.attempt;
    r->out = t->out;
    r->threads = (int)t->threads;
    r->world = (dg_world){ .rank = (int)m.rank,
                           .ranks = (int)t->ranks,
                           .node = (int)t->node,
                           .nodes = (int)t->nodes,
                           .local_rank = (int)t->local_rank,
                           .local_ranks = (int)t->local_ranks };
    r->world.first_ranks = (int)t->first_ranks;
    r->world.machine_ranks = (int)t->machine_ranks;
    r->world.may_lose = (int)t->may_lose;
    DG_TRY(dg_recorder_open(&recorder, (int)t->recorder_fd, d));
    r->recorder = recorder;
    DG_TRY(dg_link_open(&r->world.link,
                        &(dg_link_conf){ .ticket = t,
                                         .rank = m.rank,
                                         .attempt = m.attempt,
                                         .recorder = recorder,
                                         .on_over = on_over,
                                         .ctx = r },
                        d));
    r->signals = dg_signals_open(on_signal, r->world.link);
    DG_TRY(open_comm(r, t, recorder, d));
out:
    if (rc < 0) {
        if (r->world.link)
            dg_rank_tell(r, d, rc);
        else
            dg_print_diag_files(d);
        dg_rank_close(out);
    }
    return rc;
}

/* True if the run was asked to stop and has saved: not an error. */
static bool was_asked(const dg_diag *d, int rc)
{
    return rc == -DG_ESTOP && dg_diag_n(d) > 0 &&
           strcmp(dg_diag_at(d, dg_diag_n(d) - 1)->id, "stopped") == 0;
}

void dg_rank_tell(dg_rank *r, const dg_diag *d, int rc)
{
    if (was_asked(d, rc)) {
        if (r->world.rank == 0)
            dg_say_error("%s\n", dg_diag_at(d, dg_diag_n(d) - 1)->text);
    } else if (rc < 0 && r->world.ranks > 1) {
        dg_link_fail(r->world.link, d, rc);
    } else if (rc != -DG_ESTOP) {
        dg_print_diag_files(d);
    }
    dg_link_bye(r->world.link);
}

void dg_rank_close(dg_rank **out)
{
    dg_rank *r = *out;
    dg_arena *a;

    if (!r)
        return;
    dg_signals_close(&r->signals);
    dg_link_close(&r->world.link); /* before the communicator, which it may abort */
    if (r->world.comm)
        r->world.comm->close(&r->world.comm);
    dg_recorder_close(&r->recorder);
    a = r->arena;
    dg_arena_close(&a);
    *out = NULL;
}
