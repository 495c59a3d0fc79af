/* message.h: frames of the control protocol between launchers, ranks and `detrgraph ctl`.
 *
 * A frame is one ZeroMQ part (a ticket: the content of a descriptor), little-endian:
 *     "DGCP" u16 version u16 kind u32 attempt u32 rank u32 n      then n bytes of fields
 * Fields stand in the order of the kind's table in message.c, nothing between and nothing after them:
 *     i64 u64 f64    8 bytes
 *     text           u32 length, then UTF-8 without control characters but newline and tab
 *     rows           u32 count, then of each: u8 tag, text, text
 *     digests        u32 count, then of each: u64
 * The reader believes no length, no count and no number that it has not compared with what is there. */
#ifndef DG_RUNTIME_MESSAGE_H
#define DG_RUNTIME_MESSAGE_H

#include "base/arena.h"
#include "base/str.h"
#include "runtime/rates.h"

enum { DG_FRAME_VERSION = 1, DG_FRAME_MAX = 16 << 20, DG_MAX_RANKS = 1024 };

typedef enum dg_message_kind {
    DG_SAY_TICKET = 1, /* launcher to its rank, by descriptor: who it is, and every secret */
    DG_SAY_HELLO,      /* rank: I live */
    DG_SAY_FOLDER,     /* rank 0: where the run's files go */
    DG_SAY_MEET,       /* rank: what must agree before the first step */
    DG_SAY_WORD,       /* rank: the step that it begins */
    DG_SAY_BEAT,       /* rank, ten times a second: alive, where, since when */
    DG_SAY_FAIL,       /* rank: an error ends it */
    DG_SAY_BYE,        /* rank: it is done and leaves */
    DG_SAY_STATE,      /* coordinator to all: everything they go by; a later one replaces all earlier */
    DG_SAY_ASK,        /* ctl: status, save, stop, set */
    DG_SAY_ANSWER,     /* coordinator to ctl */
    DG_SAY_JOIN,       /* a further machine's launcher: here I am; the coordinator's answer: these ranks are yours */
    DG_SAY_GONE,       /* a second machine's launcher: a rank's process has ended */
    DG_SAY_PUT,        /* rank: keep this for the others */
    DG_SAY_GET,        /* rank: what did another keep under this name? */
    DG_SAY_VALUE,      /* coordinator: this */
    DG_SAY_SEEN,       /* rank: what it has seen of values that are declared alike */
    DG_SAY_PROBE,      /* coordinator to a rank that is silent: nothing; that it can be sent is the point */
    DG_SAY_END
} dg_message_kind;

/* What a row of a message is. */
typedef enum dg_row_tag {
    DG_ROW_SAME,     /* meet: the value must be the same on every rank */
    DG_ROW_DISTINCT, /* meet: no two ranks may have the same value */
    DG_ROW_NOTE,     /* fail: value is a note about the place name, "file:3:7" or "" */
    DG_ROW_HELP,     /* fail: value is the way out */
    DG_ROW_WATCH,    /* meet: a monitor: name is what it watches, value what is declared of it; same on every rank */
    DG_N_ROW_TAGS
} dg_row_tag;
typedef struct dg_row {
    dg_row_tag  tag;
    const char *name, *value;
} dg_row;
typedef struct dg_rows {
    int           n;
    const dg_row *v;
} dg_rows;

/* By the number of the monitor; 0: nothing was seen of it. */
typedef struct dg_digests {
    int             n;
    const uint64_t *v;
} dg_digests;

typedef enum dg_over { /* has the run ended? */
    DG_OVER_NO,
    DG_OVER_FAILED, /* leave your collectives, write nothing, go */
    DG_OVER_AT_ONCE /* the same, because somebody asked */
} dg_over;

/* One message. Texts are never NULL after reading; NULL is written as "". */
typedef struct dg_message {
    dg_message_kind kind;
    uint32_t        attempt; /* how often the run was restarted before */
    uint32_t        rank;    /* of the sender, where it is one; of the receiver of a ticket */
    union {
        struct dg_ticket {
            int64_t     ranks, node, nodes, local_rank, local_ranks, threads;
            int64_t     first_ranks, machine_ranks;     /* of the first attempt: all, and of each machine */
            int64_t     may_lose;                       /* so often a rank or a machine may be lost for good */
            int64_t     comm_fd, recorder_fd, alive_fd; /* -1: none */
            double      lost_after_s;
            const char *commands, *events;              /* endpoints; "": no control plane */
            const char *server_public, *own_public, *own_secret;
            const char *coordinator;                    /* several machines: "HOST:PORT"; else "" */
            const char *out;                            /* of earlier attempts: the run's folder, or "" */
        } ticket;
        struct { const char *host; int64_t process; } hello;
        struct { const char *path; } folder;
        struct { int64_t round; dg_rows facts; } meet; /* rounds count from 1 */
        struct dg_word {
            int64_t  step, batch, epoch, index, n_in_epoch; /* that it begins, from 0 */
            uint64_t schedule;                /* hash of what it will reduce: operations, types, dimensions */
            int64_t  width, height, slots;    /* of its batch; told, not compared */
            int64_t  saved;                   /* last step on disk, -1: none */
            dg_digests seen;                  /* of values that the host has made for this batch */
        } word;
        struct dg_beat {
            const char *node, *file;          /* where it is: "train/backbone"; "" outside nodes */
            int64_t     line, column, waits;  /* waits: for other ranks, in a collective */
            int64_t     step, saved;
            double      since_s;
        } beat;
        struct dg_rank_fault {
            int64_t     code;                 /* dg_code */
            int64_t     more;                 /* further errors that follow in messages of their own */
            const char *id, *text, *node, *file;
            int64_t     line, column;
            dg_rows     remarks;
        } fail;
        struct { int64_t code; } bye;         /* 0, or the dg_code that it ends with */
        struct dg_state {
            int64_t     met;                  /* in so many rounds all ranks agreed */
            int64_t     confirmed;            /* every rank has begun this step, and alike; -1: none */
            int64_t     stop_after, save_after; /* steps done when that is due; -1: not asked */
            dg_rates    rates;                /* that people have set */
            int64_t     over;                 /* dg_over */
            int64_t     lost;                 /* over because a rank was lost: again may help */
            const char *reason;
        } state;
        struct { const char *verb, *text; } ask;
        struct { int64_t done; const char *text; } answer;
        struct { int64_t node, first, ranks, all, machines; } join; /* as dg_seat has them */
        struct { int64_t process, status; } gone; /* status as wait has it */
        struct { const char *name, *text; } put;  /* also get (text "") and value */
        struct dg_sight {
            int64_t    scope, step, batch;    /* scope: 0 <train>, else the number of the <evaluate> */
            dg_digests digests;               /* of this batch, as far as it has come */
        } seen;
    };
} dg_message;

typedef struct dg_ticket     dg_ticket;
typedef struct dg_word       dg_word;
typedef struct dg_beat       dg_beat;
typedef struct dg_rank_fault dg_rank_fault;
typedef struct dg_state      dg_state;
typedef struct dg_sight      dg_sight;

/* Appends m's frame to out. A text that a frame may not hold is cleaned: bad bytes become '?'. */
void dg_message_write(dg_str *out, const dg_message *m);
/* Reads a frame of n bytes; texts and rows go to the arena. Whatever the bytes: a message or an error. */
int  dg_message_read(dg_message *m, dg_arena *a, const void *frame, size_t n, dg_diag *d) DG_MUST_USE;
const char *dg_message_name(dg_message_kind kind); /* "word"; NULL: there is no such kind */

#endif
