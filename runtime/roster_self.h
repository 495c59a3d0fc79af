/* roster_self.h: the roster from the inside, for roster.c, which judges, and roster_ask.c, which answers. */
#ifndef DG_RUNTIME_ROSTER_SELF_H
#define DG_RUNTIME_ROSTER_SELF_H

#include "runtime/roster.h"

typedef struct dg_roster_rank {
    dg_arena *arena;    /* of what it said last: beat and host have an arena each */
    dg_arena *kept;
    const char *host;
    int64_t   process;
    bool      hello, left, gone, failed, quiet, lost;
    int64_t   left_code;
    int       status, worth; /* worth: of its errors, as a witness */
    dg_diag  *errors;
    double    heard_s, gone_s, slow_told_s;
    dg_beat   beat;
    bool      has_word;
    dg_word   word;
    int64_t   round; /* of the facts */
    dg_rows   facts;
} dg_roster_rank;

struct dg_roster {
    dg_arena      *arena;
    dg_roster_conf conf;
    dg_roster_rank *ranks;
    dg_state       state;
    uint64_t       changed;
    dg_diag       *verdict;
    double         judge_s;              /* when errors of ranks are judged; 0: there are none */
    double         differ_s;             /* when words differ */
    const char    *folder;
    int64_t        saved, first;         /* first: number of the first word, -1 */
};

bool dg_roster_over(const dg_roster *r);
/* "rank 2 (host, process 4711)", or its number alone while nothing is known of it. */
const char *dg_roster_name(const dg_roster *r, int i, char *buf, size_t n);
/* " at step 12 in node "x", waiting for other ranks", as far as it has told. */
void dg_roster_add_where(dg_str *s, const dg_roster_rank *k);

#endif
