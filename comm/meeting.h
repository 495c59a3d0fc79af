/* meeting.h: describes a rank's part in a collective: operation, type and number of elements, and
 * the node it is for. Ranks compare these before they touch the numbers, so that values of
 * different nodes are never combined. */
#ifndef DG_COMM_MEETING_H
#define DG_COMM_MEETING_H

#include "kernels/comm.h"

typedef struct dg_meeting {
    uint64_t word; /* kind, operator or root, type, elements or bytes */
    dg_comm_place place;
} dg_meeting;

/* a: dg_reduce, or the root; b: dg_dtype or 0; n: elements or bytes. For the caller's place. */
dg_meeting dg_meeting_of(const dg_comm *c, dg_meeting_kind kind, int a, int b, size_t n);
/* What this rank contributes to it, in bytes; equal parts of what is gathered. */
int64_t dg_meeting_bytes(const dg_comm *c, dg_meeting_kind kind, int a, dg_dtype type, size_t n);
bool dg_meeting_same(const dg_meeting *a, const dg_meeting *b);
/* "rank 0 came to the sum of 8 f32 of train/a (x.xml:8:5), rank 1 to ...": the lower rank first. */
void dg_meeting_print_both(char *out, size_t size, int rank, const dg_meeting *m, int other_rank,
                           const dg_meeting *other);

#endif
