/* checksum.h: a checksum of bulk data that is written to disk, against flipped bits and torn files,
 * not against forgers. Any change within eight aligned bytes changes it; other changes do with a
 * probability of all but 2^-64. Splitting the bytes over several calls gives the same checksum. */
#ifndef DG_BASE_CHECKSUM_H
#define DG_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

enum { DG_CHECKSUM_LANES = 8, DG_CHECKSUM_TEXT = 17 };

/* Zero-initialise before use. */
typedef struct dg_checksum {
    uint64_t lane[DG_CHECKSUM_LANES], n; /* n: bytes so far */
    unsigned char rest[8 * DG_CHECKSUM_LANES];
} dg_checksum;

void dg_checksum_add(dg_checksum *c, const void *p, size_t n);
uint64_t dg_checksum_end(const dg_checksum *c);
/* As 16 hexadecimal digits, in text, which is returned. */
char *dg_checksum_print(uint64_t sum, char text[DG_CHECKSUM_TEXT]);

#endif
