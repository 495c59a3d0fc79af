#include "tests/control/judge_rig.h"

#include <stdlib.h>
#include <string.h>

static void take_line(void *ctx, dg_level level, const char *line)
{
    (void)level;
    dg_str_fmt(&((fixture *)ctx)->log, "%s\n", line);
}

int roster_set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);

    f->env = (dg_env){ .log = take_line, .log_ctx = f, .threads = 1 };
    dg_str_add(&f->log, "");
    f->d = dg_diag_open();
    *state = f;
    return 0;
}

int roster_tear_down(void **state)
{
    fixture *f = *state;

    dg_judge_close(&f->r);
    dg_str_free(&f->log);
    dg_diag_close(&f->d);
    free(f);
    return 0;
}

void say(fixture *f, int rank, dg_message m, double now)
{
    m.rank = (uint32_t)rank;
    m.attempt = 5;
    dg_judge_take(f->r, &m, now);
}

dg_rows facts(const char *lr, const char *device)
{
    static dg_row rows[DG_MAX_RANKS][3];
    static int next;
    dg_row *v = rows[next++ % DG_MAX_RANKS];

    v[0] = (dg_row){ DG_ROW_SAME, "precision", "f32" };
    v[1] = (dg_row){ DG_ROW_SAME, "node train/opt", lr };
    v[2] = (dg_row){ DG_ROW_DISTINCT, "device", device };
    return (dg_rows){ 3, v };
}

/* The handshake: facts and three monitors. */
static dg_rows facts_and_watches(const char *device)
{
    static const dg_row watches[] = {
        { DG_ROW_MONITOR, "value of node \"train/flag\" port \"out\"",
          "declared the same on all ranks of dp (4 ranks)\np.xml:31:5" },
        { DG_ROW_MONITOR, "firing of node \"train/e\"",
          "proved to be on all ranks or on none of dp (4 ranks)\np.xml:33:5" },
        { DG_ROW_MONITOR, "count of node \"train/pick\" port \"out\"",
          "declared equal on all ranks of dp (4 ranks)\np.xml:12:5" },
    };
    static dg_row rows[DG_MAX_RANKS][6];
    static int next;
    dg_row *v = rows[next++ % DG_MAX_RANKS];

    memcpy(v, facts("lr=1", device).v, 3 * sizeof *v);
    memcpy(v + 3, watches, sizeof watches);
    return (dg_rows){ 6, v };
}

void begin(fixture *f, int ranks)
{
    static const char *const devices[] = { "a", "b", "c", "d" };

    f->ranks = ranks;
    f->r = dg_judge_open(&(dg_judge_conf){ .ranks = ranks,
                                           .attempt = 5,
                                           .lost_after_s = 2,
                                           .env = &f->env },
                         0);
    for (int i = 0; i < ranks; i++)
        say(f, i, (dg_message){ .kind = DG_SAY_HELLO, .hello = { "host", 100 + i, ranks } }, 0);
    for (int i = 0; i < ranks; i++)
        say(f, i, (dg_message){ .kind = DG_SAY_MEET, .meet = { 1, facts_and_watches(devices[i]) } },
            0);
}

const dg_state *state_of(const fixture *f)
{
    uint64_t changed;

    return dg_judge_state(f->r, &changed);
}

void word(fixture *f, int rank, int64_t batch, uint64_t schedule, double now)
{
    say(f, rank,
        (dg_message){ .kind = DG_SAY_WORD,
                      .word = { .step = batch,
                                .batch = batch,
                                .n_in_epoch = 9,
                                .schedule = schedule,
                                .saved = -1 } },
        now);
}

void beat(fixture *f, int rank, const char *node, bool waits, double since, double now)
{
    say(f, rank,
        (dg_message){ .kind = DG_SAY_BEAT,
                      .beat = { .node = node,
                                .file = "p.xml",
                                .line = 7,
                                .column = 3,
                                .waits = waits,
                                .step = 56,
                                .saved = 50,
                                .since_s = since } },
        now);
}

void failed(const fixture *f, const char *id, const char *a, const char *b, bool lost)
{
    const dg_diag *v = dg_judge_verdict(f->r);

    assert_int_equal(state_of(f)->over, DG_OVER_FAILED);
    assert_true(dg_diag_n(v) >= 1);
    assert_string_equal(dg_diag_at(v, 0)->id, id);
    if (!strstr(dg_diag_at(v, 0)->text, a) || !strstr(dg_diag_at(v, 0)->text, b))
        fail_msg("%s", dg_diag_at(v, 0)->text);
    assert_int_equal(dg_judge_lost(f->r), lost);
}
