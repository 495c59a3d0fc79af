/* plane.c: see plane.h. */
#include "control/plane.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "control/address.h"

/* A pair of endpoints to listen at. */
typedef struct ends {
    const char *commands, *events;
} ends;

/* also: further endpoints, or NULLs */
static int listen_at(dg_plane *p, const dg_plane_conf *conf, ends at, ends also, dg_diag *d)
{
    const dg_coordinator_conf c = { .commands = at.commands,
                                    .events = at.events,
                                    .asks = p->asks,
                                    .also_commands = also.commands,
                                    .also_events = also.events,
                                    .server = &p->server,
                                    .rank_key = p->rank_key.public_key,
                                    .ctl_key = p->ctl_key.public_key,
                                    .lost_after_s = p->c->lost_after_s,
                                    .nodes = p->c->nodes,
                                    .ranks = p->c->ranks,
                                    .env = p->c->env,
                                    .look = conf->look,
                                    .ctx = conf->ctx };

    return dg_coordinator_open(&p->coordinator, &c, d);
}

/* The endpoints that ranks of this machine use. */
static void give_ranks(dg_plane *p, ends e)
{
    p->commands = e.commands;
    p->events = e.events;
}

/* One machine: a local address, and keys made for this run. */
static int open_here(dg_plane *p, const dg_plane_conf *conf, dg_arena *a, dg_diag *d)
{
    ends here;
    int rc;

    DG_TRY(dg_key_make(&p->server, d));
    DG_TRY(dg_key_make(&p->rank_key, d));
    here.commands =
        dg_printf(a, "ipc://@detrgraph-%ld-%.8s", (long)getpid(), p->ctl_key.public_key);
    here.events = dg_printf(a, "%s-events", here.commands);
    give_ranks(p, here);
    DG_TRY(listen_at(p, conf, here, (ends){ 0 }, d));
out:
    return rc;
}

static ends ends_at(dg_arena *a, const char *host, int port)
{
    return (ends){ dg_printf(a, "tcp://%s:%d", host, port),
                   dg_printf(a, "tcp://%s:%d", host, port + 1) };
}

/* Listens at the address that other machines use, and at the loopback for this machine's ranks; or
 * at all addresses. */
static int open_first(dg_plane *p, const dg_plane_conf *conf, const dg_address *at, dg_arena *a,
                      dg_diag *d)
{
    const ends loopback = ends_at(a, "127.0.0.1", at->port), none = { 0 };

    give_ranks(p, loopback);
    if (!at->ours) {
        if (!at->names_itself)
            dg_log_line(p->c->env, DG_WARN,
                        "%s is no address of this machine: it listens at all of them", at->number);
        return listen_at(p, conf, ends_at(a, "*", at->port), none, d);
    }
    return listen_at(p, conf, loopback,
                     strcmp(at->number, "127.0.0.1") == 0 ? none : ends_at(a, at->number, at->port),
                     d);
}

/* Several machines: the address and the keys that all launchers are given. */
static int open_among_machines(dg_plane *p, const dg_plane_conf *conf, dg_arena *a, dg_diag *d)
{
    dg_address at;
    int rc;

    DG_TRY(dg_address_read(&at, p->c->coordinator, a, d));
    DG_TRY(dg_key_file_read(p->c->key, &p->server, &p->rank_key, d));
    p->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->c->node == 0)
        DG_TRY(open_first(p, conf, &at, a, d));
    else
        give_ranks(p, ends_at(a, at.host, at.port));
out:
    return rc;
}

int dg_plane_open(dg_plane *p, const dg_plane_conf *conf, dg_arena *a, dg_diag *d)
{
    int rc;

    *p = (dg_plane){ .c = conf->launch, .over_fd = -1 };
    DG_TRY(dg_key_make(&p->ctl_key, d));
    p->asks = dg_printf(a, "ipc://@detrgraph-%ld-%.8s-ctl", (long)getpid(), p->ctl_key.public_key);
    DG_TRY(p->c->nodes > 1 ? open_among_machines(p, conf, a, d) : open_here(p, conf, a, d));
out:
    return rc;
}

/* Called by the link's thread when the run is over. */
static void on_over(void *ctx)
{
    uint64_t one = 1;
    ssize_t ignored = write(((dg_plane *)ctx)->over_fd, &one, sizeof one);

    (void)ignored;
}

int dg_plane_link(dg_plane *p, const dg_seat *seat, uint32_t attempt, dg_diag *d)
{
    const dg_ticket t = { .ranks = seat->all,
                          .alive_fd = -1,
                          .lost_after_s = p->c->lost_after_s,
                          .commands = p->commands,
                          .events = p->events,
                          .server_public = p->server.public_key,
                          .own_public = p->rank_key.public_key,
                          .own_secret = p->rank_key.secret_key };
    const dg_link_conf conf = { .ticket = &t,
                                .rank = (uint32_t)seat->first,
                                .attempt = attempt,
                                .launcher = true,
                                .on_over = on_over,
                                .ctx = p };

    if (p->coordinator)
        return 0;
    dg_link_close(&p->link);
    return dg_link_open(&p->link, &conf, d);
}

void dg_plane_close(dg_plane *p)
{
    dg_link_close(&p->link);
    dg_coordinator_close(&p->coordinator);
    if (p->over_fd >= 0)
        close(p->over_fd);
    p->over_fd = -1;
    explicit_bzero(&p->server, sizeof p->server);
    explicit_bzero(&p->rank_key, sizeof p->rank_key);
    explicit_bzero(&p->ctl_key, sizeof p->ctl_key);
}
