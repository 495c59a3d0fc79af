/* judge_internal.h: the judge's state, for judge.c and judge_seen.c, which judge, judge_time.c,
 * which watches time, and judge_ask.c, which answers requests. */
#ifndef DG_CONTROL_JUDGE_INTERNAL_H
#define DG_CONTROL_JUDGE_INTERNAL_H

#include "control/judge.h"

/* Digests that a rank has reported for one batch, by monitor. */
typedef struct dg_judge_sight {
    int64_t scope, step, batch;
    uint64_t *digests; /* 0: not reported; NULL: none yet */
} dg_judge_sight;

typedef struct dg_judge_rank {
    dg_arena *arena; /* of its latest beat; `kept`: of its host name */
    dg_arena *kept;
    const char *host;
    int64_t process;
    bool hello, left, gone, failed, quiet, closed, lost; /* closed: its connection */
    int status, worth;                                   /* worth: how much its errors explain */
    dg_diag *errors;
    double heard_s, gone_s, slow_logged_s;
    dg_beat beat;
    bool has_word;
    dg_word word;
    int64_t round; /* of meet */
    dg_rows facts;
    dg_judge_sight seen[2]; /* of its latest batch and the one before */
} dg_judge_rank;

struct dg_judge {
    dg_arena *arena;
    dg_judge_conf conf;
    dg_judge_rank *ranks;
    dg_state state;
    uint64_t changed;
    dg_diag *verdict;
    double judge_s;           /* when to judge the ranks' errors; 0: there are none */
    double differ_s;          /* when to judge differing words or digests */
    dg_rows monitors;         /* the monitors, by number */
    int broken;               /* the first monitor on whose digest two ranks differ; -1: none */
    dg_judge_sight broken_in; /* the batch in question */
    /* its digest on each rank, kept while ranks go on; 0: not reported */
    uint64_t *broken_digests;
    const char *folder;
    int64_t saved, first; /* first: number of the first word; -1: none yet */
};

bool dg_judge_over(const dg_judge *r);
/* "rank 2 (host, process 4711)", or only its number until more is known. */
const char *dg_judge_name(const dg_judge *r, int i, char *buf, size_t n);
/* How long evidence is collected before it is judged. */
#define DG_SETTLE_S 0.05
/* Four missed beats. */
#define DG_MISSED_S 0.4

/* ---- judge.c */
void dg_judge_look(dg_judge *r, int i); /* refresh its position */
void dg_judge_add_saved(dg_judge *r, dg_str *s);
void dg_judge_fail(dg_judge *r, bool lost); /* ends the run for the verdict's latest error */

dg_where dg_judge_where_is(const dg_judge_rank *k);

/* ---- judge_time.c */
/* Fails for ranks not heard of for silent_s while others speak, or whose connection is closed;
 * returns the first of them, or -1. */
int dg_judge_lose_silent(dg_judge *r, double silent_s, double now);
void dg_judge_tick_silence(dg_judge *r, int i, double now);
void dg_judge_tick_slow(dg_judge *r, int i);
void dg_judge_tick_stall(dg_judge *r);

/* ---- judge_seen.c */
void dg_judge_keep_monitors(dg_judge *r, const dg_rows *facts);
void dg_judge_take_seen(dg_judge *r, int i, const dg_sight *s, double now);
void dg_judge_compare_seen(dg_judge *r); /* judges r->broken */
/* adds to the verdict's latest error where the other ranks were */
void dg_judge_note_peers(dg_judge *r, int who);

/* Appends " at step 12 in node "x", waiting for other ranks", as far as known. */
void dg_judge_add_where(dg_str *s, const dg_judge_rank *k);

#endif
