/* message.c: a table of fields per kind; one writer and one strict reader follow it. */
#include "control/message.h"

#include <string.h>

enum { HEADER = 20, ROWS_MAX = 1 << 16, DIGESTS_MAX = 1 << 16 };
static const char magic[4] = { 'D', 'G', 'C', 'P' };

/* i64 and u64 have the same encoding */
typedef enum field_type { WORD64, REAL, TEXT, ROWS, DIGESTS, RATES } field_type;

typedef struct field {
    field_type type;
    size_t offset;
} field;

#define AT(type, member) { type, offsetof(dg_message, member) }
#define N_FIELDS 20

static const struct kind {
    const char *name;
    int n;
    field fields[N_FIELDS];
} kinds[DG_SAY_END] = {
    [DG_SAY_TICKET] = { "ticket",
                        20,
                        {
                            AT(WORD64, ticket.ranks),       AT(WORD64, ticket.node),
                            AT(WORD64, ticket.nodes),       AT(WORD64, ticket.local_rank),
                            AT(WORD64, ticket.local_ranks), AT(WORD64, ticket.threads),
                            AT(WORD64, ticket.first_ranks), AT(WORD64, ticket.machine_ranks),
                            AT(WORD64, ticket.may_lose),    AT(WORD64, ticket.comm_fd),
                            AT(WORD64, ticket.recorder_fd), AT(WORD64, ticket.alive_fd),
                            AT(REAL, ticket.lost_after_s),  AT(TEXT, ticket.commands),
                            AT(TEXT, ticket.events),        AT(TEXT, ticket.server_public),
                            AT(TEXT, ticket.own_public),    AT(TEXT, ticket.own_secret),
                            AT(TEXT, ticket.coordinator),   AT(TEXT, ticket.out),
                        } },
    [DG_SAY_HELLO] = { "hello",
                       3,
                       { AT(TEXT, hello.host), AT(WORD64, hello.process),
                         AT(WORD64, hello.ranks) } },
    [DG_SAY_FOLDER] = { "folder", 1, { AT(TEXT, folder.path) } },
    [DG_SAY_MEET] = { "meet", 2, { AT(WORD64, meet.round), AT(ROWS, meet.facts) } },
    [DG_SAY_WORD] = { "word",
                      11,
                      {
                          AT(WORD64, word.step),
                          AT(WORD64, word.batch),
                          AT(WORD64, word.epoch),
                          AT(WORD64, word.index),
                          AT(WORD64, word.n_in_epoch),
                          AT(WORD64, word.schedule),
                          AT(WORD64, word.width),
                          AT(WORD64, word.height),
                          AT(WORD64, word.slots),
                          AT(WORD64, word.saved),
                          AT(DIGESTS, word.seen),
                      } },
    [DG_SAY_BEAT] = { "beat",
                      9,
                      {
                          AT(TEXT, beat.node),
                          AT(TEXT, beat.file),
                          AT(WORD64, beat.line),
                          AT(WORD64, beat.column),
                          AT(WORD64, beat.waits),
                          AT(WORD64, beat.step),
                          AT(WORD64, beat.saved),
                          AT(WORD64, beat.saving),
                          AT(REAL, beat.since_s),
                      } },
    [DG_SAY_FAIL] = { "fail",
                      9,
                      {
                          AT(WORD64, fail.code),
                          AT(WORD64, fail.more),
                          AT(TEXT, fail.id),
                          AT(TEXT, fail.text),
                          AT(TEXT, fail.node),
                          AT(TEXT, fail.file),
                          AT(WORD64, fail.line),
                          AT(WORD64, fail.column),
                          AT(ROWS, fail.remarks),
                      } },
    [DG_SAY_BYE] = { "bye", 0, { { 0 } } },
    [DG_SAY_STATE] = { "state",
                       8,
                       {
                           AT(WORD64, state.met),
                           AT(WORD64, state.confirmed),
                           AT(WORD64, state.stop_after),
                           AT(WORD64, state.save_after),
                           AT(RATES, state.rates),
                           AT(WORD64, state.over),
                           AT(WORD64, state.lost),
                           AT(TEXT, state.reason),
                       } },
    [DG_SAY_ASK] = { "ask", 2, { AT(TEXT, ask.verb), AT(TEXT, ask.text) } },
    [DG_SAY_ANSWER] = { "answer", 2, { AT(WORD64, answer.done), AT(TEXT, answer.text) } },
    [DG_SAY_JOIN] = { "join",
                      5,
                      {
                          AT(WORD64, join.node),
                          AT(WORD64, join.first),
                          AT(WORD64, join.ranks),
                          AT(WORD64, join.all),
                          AT(WORD64, join.machines),
                      } },
    [DG_SAY_GONE] = { "gone", 2, { AT(WORD64, gone.process), AT(WORD64, gone.status) } },
    [DG_SAY_PUT] = { "put", 2, { AT(TEXT, put.name), AT(TEXT, put.text) } },
    [DG_SAY_GET] = { "get", 2, { AT(TEXT, put.name), AT(TEXT, put.text) } },
    [DG_SAY_VALUE] = { "value", 2, { AT(TEXT, put.name), AT(TEXT, put.text) } },
    [DG_SAY_PROBE] = { "probe", 0, { { 0 } } },
    [DG_SAY_SEEN] = { "seen",
                      4,
                      { AT(WORD64, seen.scope), AT(WORD64, seen.step), AT(WORD64, seen.batch),
                        AT(DIGESTS, seen.digests) } },
};

const char *dg_message_name(dg_message_kind kind)
{
    return kind > 0 && kind < DG_SAY_END ? kinds[kind].name : NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Bytes of the UTF-8 character at p, at most n; 0: malformed, or a control character that messages
 * may not contain. */
static size_t text_bytes(const char *p, size_t n)
{
    size_t k = dg_utf8_within(p, n);
    unsigned char c = (unsigned char)p[0];

    if (k == 1)
        return (c >= 0x20 && c != 0x7F) || c == '\n' || c == '\t';
    return k == 2 && c == 0xC2 && (unsigned char)p[1] < 0xA0 ? 0 : k;
}

static bool is_text(const char *p, size_t n)
{
    for (size_t i = 0, k; i < n; i += k)
        if ((k = text_bytes(p + i, n - i)) == 0)
            return false;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_little(dg_str *out, uint64_t v, int bytes)
{
    char b[8];

    for (int i = 0; i < bytes; i++)
        b[i] = (char)(v >> 8 * i & 0xFF);
    dg_str_add_n(out, b, (size_t)bytes);
}

static void put_text(dg_str *out, const char *text)
{
    const char *p = text ? text : "";
    size_t n = strlen(p);

    put_little(out, n, 4);
    for (size_t i = 0, k; i < n; i += k) {
        k = text_bytes(p + i, n - i);
        dg_str_add_n(out, k ? p + i : "?", k ? k : 1);
        k += k == 0;
    }
}

static void put_rows(dg_str *out, const dg_rows *rows)
{
    put_little(out, (uint64_t)rows->n, 4);
    for (int i = 0; i < rows->n; i++) {
        put_little(out, rows->v[i].tag, 1);
        put_text(out, rows->v[i].name);
        put_text(out, rows->v[i].value);
    }
}

static void put_digests(dg_str *out, const dg_digests *digests)
{
    put_little(out, (uint64_t)digests->n, 4);
    for (int i = 0; i < digests->n; i++)
        put_little(out, digests->v[i], 8);
}

static void put_rates(dg_str *out, const dg_rates *rates)
{
    uint64_t bits;

    put_little(out, (uint64_t)rates->n, 4);
    for (int i = 0; i < rates->n; i++) {
        memcpy(&bits, &rates->v[i].lr, sizeof bits);
        put_little(out, (uint64_t)rates->v[i].from, 8);
        put_little(out, bits, 8);
    }
}

static void put_field(dg_str *out, const dg_message *m, const field *f)
{
    const void *p = (const char *)m + f->offset;
    uint64_t bits;

    switch (f->type) {
    case WORD64:
    case REAL:
        memcpy(&bits, p, sizeof bits);
        put_little(out, bits, 8);
        break;
    case TEXT:
        put_text(out, *(const char *const *)p);
        break;
    case ROWS:
        put_rows(out, p);
        break;
    case DIGESTS:
        put_digests(out, p);
        break;
    case RATES:
        put_rates(out, p);
    }
}

void dg_message_write(dg_str *out, const dg_message *m)
{
    const struct kind *k = &kinds[m->kind];
    dg_str body = { 0 };

    for (int i = 0; i < k->n; i++)
        put_field(&body, m, &k->fields[i]);
    dg_str_add_n(out, magic, sizeof magic);
    put_little(out, DG_FRAME_VERSION, 2);
    put_little(out, m->kind, 2);
    put_little(out, m->attempt, 4);
    put_little(out, m->rank, 4);
    put_little(out, body.n, 4);
    if (body.n)
        dg_str_add_n(out, body.s, body.n);
    dg_str_free(&body);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct reader {
    const unsigned char *p;
    size_t n; /* remaining bytes */
    dg_arena *a;
    const char *fault; /* the first one found */
} reader;

static uint64_t take_little(reader *r, size_t bytes)
{
    uint64_t v = 0;

    if (r->n < bytes) {
        r->fault = r->fault ? r->fault : "it ends in the middle of a field";
        r->n = 0;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++)
        v |= (uint64_t)r->p[i] << 8 * i;
    r->p += bytes;
    r->n -= bytes;
    return v;
}

static const char *take_text(reader *r)
{
    size_t n = (size_t)take_little(r, 4);
    const char *text;

    if (r->fault || n > r->n || !is_text((const char *)r->p, n)) {
        r->fault = r->fault   ? r->fault
                   : n > r->n ? "a text is longer than the frame"
                              : "a text is not clean UTF-8";
        return "";
    }
    text = dg_strndup(r->a, (const char *)r->p, n);
    r->p += n;
    r->n -= n;
    return text;
}

static void take_rows(reader *r, dg_rows *rows)
{
    size_t n = (size_t)take_little(r, 4);
    dg_row *v;

    if (r->fault || n > r->n / 9 || n > ROWS_MAX) { /* a row has at least 9 bytes */
        r->fault = r->fault ? r->fault : "it counts more rows than it holds";
        return;
    }
    v = DG_NEW_N(r->a, n + 1, dg_row);
    for (size_t i = 0; i < n && !r->fault; i++) {
        uint64_t tag = take_little(r, 1);

        if (tag >= DG_N_ROW_TAGS)
            r->fault = r->fault ? r->fault : "a row is of a kind that there is not";
        v[i].tag = (dg_row_tag)tag;
        v[i].name = take_text(r);
        v[i].value = take_text(r);
    }
    *rows = (dg_rows){ (int)n, v };
}

static void take_digests(reader *r, dg_digests *digests)
{
    size_t n = (size_t)take_little(r, 4);
    uint64_t *v;

    if (r->fault || n > r->n / 8 || n > DIGESTS_MAX) {
        r->fault = r->fault ? r->fault : "it counts more digests than it holds";
        return;
    }
    v = DG_NEW_N(r->a, n + 1, uint64_t);
    for (size_t i = 0; i < n; i++)
        v[i] = take_little(r, 8);
    *digests = (dg_digests){ (int)n, v };
}

static void take_rates(reader *r, dg_rates *rates)
{
    size_t n = (size_t)take_little(r, 4);

    if (r->fault || n > r->n / 16 || n > DG_RATES_MAX) {
        r->fault = r->fault ? r->fault : "it counts more learning rates than it holds";
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t from = take_little(r, 8), bits = take_little(r, 8);

        memcpy(&rates->v[i].from, &from, sizeof from);
        memcpy(&rates->v[i].lr, &bits, sizeof bits);
    }
    rates->n = (int)n;
}

static void take_field(reader *r, dg_message *m, const field *f)
{
    void *p = (char *)m + f->offset;
    uint64_t bits;

    switch (f->type) {
    case WORD64:
    case REAL:
        bits = take_little(r, 8);
        memcpy(p, &bits, sizeof bits);
        break;
    case TEXT:
        *(const char **)p = take_text(r);
        break;
    case ROWS:
        take_rows(r, p);
        break;
    case DIGESTS:
        take_digests(r, p);
        break;
    case RATES:
        take_rates(r, p);
    }
}

static const char *read_header(reader *r, dg_message *m)
{
    uint64_t version, kind, n;

    if (r->n < HEADER || r->n > DG_FRAME_MAX)
        return r->n < HEADER ? "it is shorter than a header" : "it is longer than any message";
    if (memcmp(r->p, magic, sizeof magic) != 0)
        return "it does not begin as a message does";
    take_little(r, sizeof magic);
    version = take_little(r, 2);
    kind = take_little(r, 2);
    m->attempt = (uint32_t)take_little(r, 4);
    m->rank = (uint32_t)take_little(r, 4);
    n = take_little(r, 4);
    if (version != DG_FRAME_VERSION)
        return "it is of another version of the protocol";
    if (!dg_message_name((dg_message_kind)kind))
        return "it is of a kind that there is not";
    if (m->rank >= DG_MAX_RANKS)
        return "its rank is beyond all ranks";
    m->kind = (dg_message_kind)kind;
    return n == r->n ? NULL : "its length is not the one that it states";
}

int dg_message_read(dg_message *m, dg_arena *a, const void *frame, size_t n, dg_diag *d)
{
    reader r = { .p = frame, .n = n, .a = a };
    const struct kind *k;

    memset(m, 0, sizeof *m);
    r.fault = read_header(&r, m);
    if (!r.fault) {
        k = &kinds[m->kind];
        for (int i = 0; i < k->n && !r.fault; i++)
            take_field(&r, m, &k->fields[i]);
        if (!r.fault && r.n)
            r.fault = "something follows its last field";
    }
    if (!r.fault)
        return 0;
    memset(m, 0, sizeof *m);
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "message-malformed",
                   "a control message of %zu bytes cannot be read: %s", n, r.fault);
}
