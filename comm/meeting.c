/* meeting.c: see meeting.h. */
#include "comm/meeting.h"

#include <stdio.h>

dg_meeting dg_meeting_of(const dg_comm *c, dg_meeting_kind kind, int a, int b, size_t n)
{
    return (dg_meeting){ (uint64_t)kind << 60 | (uint64_t)a << 48 | (uint64_t)b << 44 | (uint64_t)n,
                         c->place };
}

int64_t dg_meeting_bytes(const dg_comm *c, dg_meeting_kind kind, int a, dg_dtype type, size_t n)
{
    switch (kind) {
    case DG_MEET_REDUCE:
    case DG_MEET_REDUCE_PIECES:
        return (int64_t)(n * dg_dtype_size(type));
    case DG_MEET_BROADCAST:
        return c->rank == a ? (int64_t)n : 0;
    case DG_MEET_GATHER:
        return (int64_t)n / c->ranks;
    default:
        return 0;
    }
}

bool dg_meeting_same(const dg_meeting *a, const dg_meeting *b)
{
    return a->word == b->word && a->place.id == b->place.id;
}

static const char *print(char *buf, size_t size, const dg_meeting *m)
{
    static const char *const reductions[] = { "sum", "max", "min", "mean" };
    const uint64_t what = m->word;
    int a = (int)(what >> 48 & 0xfff);
    unsigned long long n = what & 0xfffffffffffULL;
    int len;

    switch ((dg_meeting_kind)(what >> 60)) {
    case DG_MEET_REDUCE:
    case DG_MEET_REDUCE_PIECES:
        len = snprintf(buf, size, "the %s of %llu %s%s", reductions[a & 3], n,
                       dg_dtype_name((dg_dtype)(what >> 44 & 0xf)),
                       what >> 60 == DG_MEET_REDUCE ? "" : " in the gradients");
        break;
    case DG_MEET_BROADCAST:
        len = snprintf(buf, size, "a broadcast of %llu bytes from rank %d", n, a);
        break;
    case DG_MEET_GATHER:
        len = snprintf(buf, size, "a gather of %llu bytes", n);
        break;
    case DG_MEET_BARRIER:
        len = snprintf(buf, size, "a barrier");
        break;
    default:
        len = snprintf(buf, size, "nothing known");
    }
    if (m->place.text[0] && len > 0 && (size_t)len < size)
        snprintf(buf + len, size - (size_t)len, " %.*s", DG_COMM_TEXT - 1, m->place.text);
    return buf;
}

void dg_meeting_print_both(char *out, size_t size, int rank, const dg_meeting *m, int other_rank,
                           const dg_meeting *other)
{
    char a[80 + DG_COMM_TEXT], b[80 + DG_COMM_TEXT];
    bool first = rank < other_rank;

    snprintf(out, size, "rank %d came to %s, rank %d to %s", first ? rank : other_rank,
             print(a, sizeof a, first ? m : other), first ? other_rank : rank,
             print(b, sizeof b, first ? other : m));
}
