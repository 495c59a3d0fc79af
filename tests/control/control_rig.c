/* control_rig.c: see control_rig.h. */
#include "tests/control/control_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void take_line(void *ctx, dg_level level, const char *line)
{
    fixture *f = ctx;

    (void)level;
    pthread_mutex_lock(&f->lock);
    dg_str_fmt(&f->log, "%s\n", line);
    pthread_mutex_unlock(&f->lock);
}

bool logged(fixture *f, const char *text)
{
    bool found = false;

    for (int i = 0; i < PATIENCE && !found; i++) {
        pthread_mutex_lock(&f->lock);
        found = f->log.s && strstr(f->log.s, text);
        pthread_mutex_unlock(&f->lock);
        if (!found)
            usleep(10000);
    }
    return found;
}

int control_set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    dg_coordinator_conf conf;

    f->a = dg_arena_open();
    f->d = dg_diag_open();
    pthread_mutex_init(&f->lock, NULL);
    f->env = (dg_env){ .log = take_line, .log_ctx = f, .now_s = dg_monotonic_s, .threads = 1 };
    snprintf(f->folder, sizeof f->folder, "/tmp/detrgraph-control-XXXXXX");
    if (!mkdtemp(f->folder) || dg_key_make(&f->server, f->d) < 0 ||
        dg_key_make(&f->rank_key, f->d) < 0 || dg_key_make(&f->ctl_key, f->d) < 0)
        return -1;
    conf = (dg_coordinator_conf){ .commands = "tcp://127.0.0.1:*",
                                  .asks = "tcp://127.0.0.1:*",
                                  .events = dg_printf(f->a, "ipc://@dg-test-%ld", (long)getpid()),
                                  .server = &f->server,
                                  .rank_key = f->rank_key.public_key,
                                  .ctl_key = f->ctl_key.public_key,
                                  .lost_after_s = 20,
                                  .nodes = 2,
                                  .ranks = 1,
                                  .env = &f->env };
    if (dg_coordinator_open(&f->c, &conf, f->d) < 0)
        return -1;
    dg_coordinator_begin(f->c, RANKS, 0);
    f->ticket = (dg_ticket){ .ranks = RANKS,
                             .alive_fd = -1,
                             .lost_after_s = 20,
                             .commands = dg_coordinator_commands(f->c),
                             .events = dg_coordinator_events(f->c),
                             .server_public = f->server.public_key,
                             .own_public = f->rank_key.public_key,
                             .own_secret = f->rank_key.secret_key };
    *state = f;
    return 0;
}

int control_tear_down(void **state)
{
    fixture *f = *state;

    dg_coordinator_close(&f->c);
    dg_control_file_remove(f->folder);
    rmdir(f->folder);
    pthread_mutex_destroy(&f->lock);
    dg_str_free(&f->log);
    dg_diag_close(&f->d);
    dg_arena_close(&f->a);
    free(f);
    return 0;
}

dg_view look(fixture *f)
{
    dg_view v;

    dg_coordinator_look(f->c, &v, f->d);
    return v;
}

void failed_with(fixture *f, const char *id, const char *text)
{
    for (int i = 0; i < PATIENCE && dg_diag_n(f->d) == 0; i++) {
        (void)look(f);
        usleep(10000);
    }
    assert_int_equal(dg_diag_n(f->d), 1);
    if (!strstr(dg_diag_at(f->d, 0)->text, text))
        fail_msg("%s", dg_diag_at(f->d, 0)->text);
    check_only(f->d, id);
}
