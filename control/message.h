/* message.h: frames of the control protocol between launchers, ranks and `detrgraph ctl`.
 *
 * A frame is one ZeroMQ part (a ticket: the content of a descriptor), little-endian:
 *     "DGCP" u16 version u16 kind u32 attempt u32 rank u32 n      then n bytes of fields
 * The fields are those of the kind's table in message.c, in order, without gaps:
 *    i64 u64 f64    8 bytes
 *    text           u32 length, then UTF-8 without control characters but newline and tab
 *    rows           u32 count, then for each: u8 tag, text, text
 *    digests        u32 count, then for each: u64
 * The reader checks every length, count and number against the bytes that are there. */
#ifndef DG_CONTROL_MESSAGE_H
#define DG_CONTROL_MESSAGE_H

#include "base/arena.h"
#include "base/str.h"
#include "control/rates.h"

enum { DG_FRAME_VERSION = 4, DG_FRAME_MAX = 16 << 20, DG_MAX_RANKS = 1024 };

typedef enum dg_message_kind {
    DG_SAY_TICKET = 1, /* launcher to its rank, by descriptor: identity and secrets */
    DG_SAY_HELLO,      /* rank: has started */
    DG_SAY_FOLDER,     /* rank 0: where the run's files go */
    DG_SAY_MEET,       /* rank: facts that must agree before the first step */
    DG_SAY_WORD,       /* rank: the step that it begins */
    DG_SAY_BEAT,       /* rank, ten times a second: alive, position, since when */
    DG_SAY_FAIL,       /* rank: ended by an error */
    DG_SAY_BYE,        /* rank: done */
    DG_SAY_STATE,      /* coordinator to all: the complete state; replaces all earlier ones */
    DG_SAY_ASK,        /* ctl: status, save, stop, set */
    DG_SAY_ANSWER,     /* coordinator to ctl */
    DG_SAY_JOIN,  /* a further machine's launcher: joins; the coordinator answers with its ranks */
    DG_SAY_GONE,  /* a further machine's launcher: a rank's process has ended */
    DG_SAY_PUT,   /* rank: stores a value for the others */
    DG_SAY_GET,   /* rank: asks for a stored value */
    DG_SAY_VALUE, /* coordinator: the value */
    DG_SAY_SEEN,  /* rank: digests of values declared equal on all ranks */
    DG_SAY_PROBE, /* coordinator to a silent rank: empty; it matters only whether it can be sent */
    DG_SAY_END
} dg_message_kind;

/* Meaning of a row. */
typedef enum dg_row_tag {
    DG_ROW_SAME,     /* meet: the value must be the same on every rank */
    DG_ROW_DISTINCT, /* meet: no two ranks may have the same value */
    DG_ROW_NOTE,     /* fail: value is a note about the place name, "file:3:7" or "" */
    DG_ROW_HELP,     /* fail: value is a help line */
    /* meet: a monitor: name is what it monitors, value its declaration; equal on every rank */
    DG_ROW_MONITOR,
    DG_N_ROW_TAGS
} dg_row_tag;
typedef struct dg_row {
    dg_row_tag tag;
    const char *name, *value;
} dg_row;
typedef struct dg_rows {
    int n;
    const dg_row *v;
} dg_rows;

/* Indexed by monitor; 0: not reported. */
typedef struct dg_digests {
    int n;
    const uint64_t *v;
} dg_digests;

/* Has the run ended? */
typedef enum dg_over {
    DG_OVER_NO,
    DG_OVER_FAILED, /* leave the collectives, write nothing, exit */
    DG_OVER_AT_ONCE /* the same, at a person's request */
} dg_over;

/* One message. Texts are never NULL after reading; NULL is written as "". */
typedef struct dg_message {
    dg_message_kind kind;
    uint32_t attempt; /* number of restarts before */
    uint32_t rank;    /* of the sender, if it is a rank; of a ticket's receiver */
    union {
        struct dg_ticket {
            int64_t ranks, node, nodes, local_rank, local_ranks, threads;
            int64_t first_ranks, machine_ranks; /* of the first attempt: total, and per machine */
            /* how many losses of a rank or machine the run survives with fewer ranks */
            int64_t may_lose;
            int64_t comm_fd, recorder_fd, alive_fd; /* -1: none */
            double lost_after_s;
            const char *commands, *events; /* endpoints; "": no control plane */
            const char *server_public, *own_public, *own_secret;
            const char *coordinator; /* several machines: "HOST:PORT"; else "" */
            const char *out;         /* of earlier attempts: the run's folder; else "" */
        } ticket;
        struct {
            const char *host;
            int64_t process, ranks; /* ranks: of the run, as it was started on that machine */
        } hello;
        struct {
            const char *path;
        } folder;
        struct {
            int64_t round;
            dg_rows facts;
        } meet; /* rounds count from 1 */
        struct dg_word {
            int64_t step, batch, epoch, index, n_in_epoch; /* the step that begins, from 0 */
            uint64_t schedule; /* hash of its collectives: operations, types, dimensions */
            int64_t width, height, slots; /* of its batch; reported, not compared */
            int64_t saved;                /* last step on disk, -1: none */
            dg_digests seen;              /* of values that the host made for this batch */
        } word;
        struct dg_beat {
            const char *node, *file;     /* position: "train/backbone"; "" outside nodes */
            int64_t line, column, waits; /* waits: in a collective, for other ranks */
            int64_t step, saved;
            int64_t saving; /* the step whose checkpoint is being written; 0: none */
            double since_s;
        } beat;
        struct dg_rank_fault {
            int64_t code; /* dg_code */
            int64_t more; /* number of further errors, each in its own message */
            const char *id, *text, *node, *file;
            int64_t line, column;
            dg_rows remarks;
        } fail;
        struct dg_state {
            int64_t met;       /* rounds in which all ranks agreed */
            int64_t confirmed; /* every rank has begun this batch with the same word; -1: none */
            /* number of finished steps at which it is due; -1: not asked for */
            int64_t stop_after, save_after;
            dg_rates rates; /* set by people */
            int64_t over;   /* dg_over */
            int64_t lost;   /* over because a rank was lost: a restart may help */
            const char *reason;
        } state;
        struct {
            const char *verb, *text;
        } ask;
        struct {
            int64_t done;
            const char *text;
        } answer;
        struct {
            int64_t node, first, ranks, all, machines;
        } join; /* as in dg_seat */
        struct {
            int64_t process, status;
        } gone; /* status as from wait */
        struct {
            const char *name, *text;
        } put; /* also get (text "") and value */
        struct dg_sight {
            int64_t scope, step, batch; /* scope: 0 <train>, else the number of the <evaluate> */
            dg_digests digests;         /* of this batch, so far */
        } seen;
    };
} dg_message;

typedef struct dg_ticket dg_ticket;
typedef struct dg_word dg_word;
typedef struct dg_beat dg_beat;
typedef struct dg_rank_fault dg_rank_fault;
typedef struct dg_state dg_state;
typedef struct dg_sight dg_sight;

/* Appends m's frame to out. Invalid bytes in texts become '?'. */
void dg_message_write(dg_str *out, const dg_message *m);
/* Reads a frame of n bytes; texts and rows go to the arena. Any bytes give a message or an
 * error. */
int dg_message_read(dg_message *m, dg_arena *a, const void *frame, size_t n, dg_diag *d)
    DG_MUST_USE;
const char *dg_message_name(dg_message_kind kind); /* "word"; NULL: unknown kind */

#endif
