/* roster_self.h: the roster from the inside, for roster.c and roster_seen.c, which judge, roster_time.c, which waits, and
 * roster_ask.c, which answers. */
#ifndef DG_RUNTIME_ROSTER_SELF_H
#define DG_RUNTIME_ROSTER_SELF_H

#include "runtime/roster.h"

/* What a rank has seen in one batch, by monitor. */
typedef struct dg_roster_sight {
    int64_t   scope, step, batch;
    uint64_t *digests; /* NULL: nothing yet */
} dg_roster_sight;

typedef struct dg_roster_rank {
    dg_arena *arena;    /* of what it said last: beat and host have an arena each */
    dg_arena *kept;
    const char *host;
    int64_t   process;
    bool      hello, left, gone, failed, quiet, closed, lost; /* closed: its connection */
    int64_t   left_code;
    int       status, worth; /* worth: of its errors, as a witness */
    dg_diag  *errors;
    double    heard_s, gone_s, slow_told_s;
    dg_beat   beat;
    bool      has_word;
    dg_word   word;
    int64_t   round; /* of the facts */
    dg_rows   facts;
    dg_roster_sight seen[2]; /* in its last batch, and in the one before */
} dg_roster_rank;

struct dg_roster {
    dg_arena      *arena;
    dg_roster_conf conf;
    dg_roster_rank *ranks;
    dg_state       state;
    uint64_t       changed;
    dg_diag       *verdict;
    double         judge_s;              /* when errors of ranks are judged; 0: there are none */
    double         differ_s;             /* when words differ, or what was seen */
    dg_rows        watches;              /* monitors by number */
    int            broken;               /* the first of which two ranks have not seen the same; -1 */
    dg_roster_sight broken_in;           /* its batch */
    uint64_t       *broken_as;           /* and what each rank has seen of it there, as ranks go on to other batches; 0: nothing yet */
    const char    *folder;
    int64_t        saved, first;         /* first: number of the first word, -1 */
};

bool dg_roster_over(const dg_roster *r);
/* "rank 2 (host, process 4711)", or its number alone while nothing is known of it. */
const char *dg_roster_name(const dg_roster *r, int i, char *buf, size_t n);
/* Evidence is collected for a moment before it is judged. */
#define DG_SETTLE_S 0.05
/* Four beats that did not come. */
#define DG_MISSED_S 0.4

/* ---- roster.c */
void dg_roster_look(dg_roster *r, int i); /* where is it now? */
void dg_roster_add_saved(const dg_roster *r, dg_str *s);
void dg_roster_fail(dg_roster *r, bool lost); /* for what is now the verdict's last error */

dg_where dg_roster_where_is(const dg_roster_rank *k);

/* ---- roster_time.c */
/* A rank that was not heard of for so long, while others speak, or whose connection is closed, is lost; the first of them, or -1. */
int  dg_roster_lose_silent(dg_roster *r, double silent_s, double now);
void dg_roster_tick_silence(dg_roster *r, int i, double now);
void dg_roster_tick_slow(dg_roster *r, int i);
void dg_roster_tick_stall(dg_roster *r);

/* ---- roster_seen.c */
void dg_roster_keep_watches(dg_roster *r, const dg_rows *facts);
void dg_roster_take_seen(dg_roster *r, int i, const dg_sight *s, double now);
void dg_roster_judge_seen(dg_roster *r); /* of r->broken */
void dg_roster_note_peers(dg_roster *r, int who); /* to the verdict's last error: where the others were */

/* " at step 12 in node "x", waiting for other ranks", as far as it has told. */
void dg_roster_add_where(dg_str *s, const dg_roster_rank *k);

#endif
