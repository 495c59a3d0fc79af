/* crew.c: see crew.h. */
#include "tests/comm/crew.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

typedef struct member {
    int fd, rank, ranks;
    crew_fn *fn;
    void *ctx;
    const char *wrong;
} member;

static void *work(void *self)
{
    member *m = self;
    dg_diag *d = dg_diag_open();
    dg_comm *c;

    m->wrong =
        dg_comm_shm_open(&c, m->fd, m->rank, m->ranks, d) < 0 ? "cannot open" : m->fn(c, m->ctx);
    if (c)
        c->close(&c);
    dg_diag_close(&d);
    return NULL;
}

void crew_run(int ranks, crew_fn *fn, void *ctx)
{
    dg_diag *d = dg_diag_open();
    pthread_t threads[CREW_MOST];
    member members[CREW_MOST];
    int fd;

    assert_int_equal(dg_comm_shm_make(&fd, d), 0);
    for (int r = 0; r < ranks; r++) {
        members[r] = (member){ fcntl(fd, F_DUPFD_CLOEXEC, 0), r, ranks, fn, ctx, NULL };
        assert_int_equal(pthread_create(&threads[r], NULL, work, &members[r]), 0);
    }
    for (int r = 0; r < ranks; r++)
        pthread_join(threads[r], NULL);
    close(fd);
    dg_diag_close(&d);
    for (int r = 0; r < ranks; r++)
        if (members[r].wrong)
            fail_msg("rank %d of %d: %s", r, ranks, members[r].wrong);
}
