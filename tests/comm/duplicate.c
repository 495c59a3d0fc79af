/* duplicate.c: what holds for every kind of communicator: of its duplicate, of meetings that move
 * nothing, and of a look from another thread. */
#include "tests/comm/crew.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

enum { ROUNDS = 60 };

static int sum_over_ranks(dg_comm *c, int32_t *x)
{
    int64_t ticket;
    int rc = c->start(c, (dg_tensor){ DG_I32, DG_SCALAR, x }, DG_SUM, &ticket);

    return rc < 0 ? rc : c->wait(c, ticket);
}

void *crew_stop_soon(void *self)
{
    const crew_stop *s = self;

    (void)poll(NULL, 0, 50);
    s->c->abort(s->c);
    s->c->abort(s->c);
    sem_post(s->done);
    return NULL;
}

/* The lowest rank of a crew works on the duplicate first, the others last: one that shared its
 * numbering with the original would come to another collective there. */
static void *on_duplicate(void *self)
{
    dg_comm *c = self;

    for (int i = 0; i < ROUNDS; i++) {
        int32_t x = c->rank + i;

        if (c->rank)
            (void)poll(NULL, 0, i % 7 ? 0 : 1);
        if (sum_over_ranks(c, &x) < 0 || x != c->ranks * (c->ranks - 1) / 2 + c->ranks * i)
            return "a sum on the duplicate is wrong";
    }
    return NULL;
}

const char *crew_uses_duplicate(dg_comm *c, void *ctx)
{
    dg_comm *other = NULL;
    pthread_t thread;
    void *wrong;

    (void)ctx;
    WRONG_UNLESS(c->duplicate(c, &other) == 0 && other);
    WRONG_UNLESS(other->rank == c->rank && other->ranks == c->ranks && !other->duplicate);
    WRONG_UNLESS(pthread_create(&thread, NULL, on_duplicate, other) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t mine = 10 * c->rank + i, all[CREW_MOST];

        WRONG_UNLESS(c->gather(c, &mine, sizeof mine, all) == 0);
        for (int r = 0; r < c->ranks; r++)
            WRONG_UNLESS(all[r] == 10 * r + i);
    }
    pthread_join(thread, &wrong);
    other->close(&other);
    WRONG_UNLESS(c->barrier(c) == 0);
    return wrong;
}

/* Rank 0 never comes to the duplicate's collective. */
const char *crew_stops_duplicate(dg_comm *c, void *ctx)
{
    dg_comm *other = NULL;
    int32_t x = 0;

    (void)ctx;
    WRONG_UNLESS(c->duplicate(c, &other) == 0);
    WRONG_UNLESS(c->barrier(c) == 0); /* every rank has its duplicate */
    if (c->rank == 0)
        c->abort(c);
    /* over Gloo the other ranks learn it when this one closes */
    WRONG_UNLESS(sum_over_ranks(other, &x) == -DG_ESTOP || c->rank);
    WRONG_UNLESS(sum_over_ranks(other, &x) < 0);
    other->close(&other);
    return NULL;
}

/* Moves as much as crew_meets tells of, and counts it alike. */
static const char *counts_bytes(dg_comm *c)
{
    const int64_t before = c->cost.bytes;
    float x[100] = { 0 };
    char mine[40] = { 0 }, all[40 * CREW_MOST];
    size_t each[CREW_MOST] = { 7, 11 };
    int64_t ticket;

    WRONG_UNLESS(c->start(c, (dg_tensor){ DG_F32, DG_SHAPE(100), x }, DG_SUM, &ticket) == 0 &&
                 c->wait(c, ticket) == 0);
    WRONG_UNLESS(c->cost.bytes - before == 400);
    WRONG_UNLESS(c->broadcast(c, x, 100, 1) == 0);
    WRONG_UNLESS(c->cost.bytes - before == 400 + (c->rank == 1 ? 100 : 0));
    WRONG_UNLESS(c->gather(c, mine, 40, all) == 0);
    WRONG_UNLESS(c->cost.bytes - before == 440 + (c->rank == 1 ? 100 : 0));
    WRONG_UNLESS(c->gather_ragged(c, mine, each, all) == 0);
    WRONG_UNLESS(c->cost.bytes - before == 440 + (c->rank == 1 ? 100 : 0) + (int64_t)each[c->rank]);
    return NULL;
}

/* The same place and size: 0. Then each rank comes to another size. */
const char *crew_meets(dg_comm *c, void *ctx)
{
    const char *wrong = counts_bytes(c);
    const int64_t before = c->cost.bytes;
    char why[DG_COMM_WHY] = "";

    (void)ctx;
    if (wrong)
        return wrong;
    c->place = (dg_comm_place){ .id = 3, .text = "of train/a (x.xml:8:5)" };
    for (int i = 0; i < 5; i++)
        WRONG_UNLESS(c->meet(c, DG_MEET_REDUCE, DG_MEAN, DG_F32, 100) == 0);
    WRONG_UNLESS(c->meet(c, DG_MEET_BROADCAST, 1, DG_F32, 100) == 0);
    WRONG_UNLESS(c->meet(c, DG_MEET_GATHER, 0, DG_F32, 40 * (size_t)c->ranks) == 0);
    WRONG_UNLESS(c->cost.bytes - before == 5 * 400 + (c->rank == 1 ? 100 : 0) + 40);
    WRONG_UNLESS(c->look(c, false, why) == 0);
    WRONG_UNLESS(c->meet(c, DG_MEET_REDUCE, DG_MEAN, DG_F32, 8 + (size_t)c->rank) < 0);
    WRONG_UNLESS(strstr(c->why, "rank 0 came to the mean of 8 f32 of train/a (x.xml:8:5), rank 1 "
                                "to the mean of 9 f32") ||
                 c->rank > 1 || strcmp(c->name, "shm") != 0);
    WRONG_UNLESS(c->look(c, false, why) < 0 && *why);
    return NULL;
}
