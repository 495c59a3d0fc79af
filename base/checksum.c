/* checksum.c: eight chains of dg_hash64, over every eighth word each, so that a CPU works on all of
 * them at once: one chain alone is bound by the latency of its multiplications. Each step is a
 * bijection of the chain for a given word and of the word for a given chain, so that one changed
 * word cannot go unnoticed. */
#include "base/checksum.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { LANES = DG_CHECKSUM_LANES, BLOCK = 8 * LANES };
#define PRIME UINT64_C(0x100000001b3) /* of FNV-1a */

static uint64_t mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * PRIME;
    return h ^ h >> 32;
}

static void add_blocks_plain(uint64_t *lane, const unsigned char *p, size_t n)
{
    uint64_t h[LANES];

    memcpy(h, lane, sizeof h);
    for (size_t i = 0; i < n; i++)
        for (int k = 0; k < LANES; k++) {
            uint64_t word;

            memcpy(&word, p + i * BLOCK + 8 * (size_t)k, sizeof word);
            h[k] = mix(h[k], word);
        }
    memcpy(lane, h, sizeof h);
}

#ifdef __x86_64__

/* All chains in one register: it multiplies words of 64 bits, which earlier ones do not. */
__attribute__((target("avx512f,avx512dq"))) static void add_blocks_avx512(uint64_t *lane,
                                                                          const unsigned char *p,
                                                                          size_t n)
{
    typedef uint64_t lanes __attribute__((vector_size(BLOCK)));
    lanes h, word;

    memcpy(&h, lane, sizeof h);
    for (size_t i = 0; i < n; i++) {
        memcpy(&word, p + i * BLOCK, sizeof word);
        h = (h ^ word) * PRIME;
        h ^= h >> 32;
    }
    memcpy(lane, &h, sizeof h);
}

#endif

static void add_blocks(dg_checksum *c, const unsigned char *p, size_t n)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512dq")) {
        add_blocks_avx512(c->lane, p, n);
        return;
    }
#endif
    add_blocks_plain(c->lane, p, n);
}

void dg_checksum_add(dg_checksum *c, const void *p, size_t n)
{
    const unsigned char *bytes = p;
    size_t used = c->n % BLOCK;

    c->n += n;
    if (used) {
        size_t room = BLOCK - used, k = n < room ? n : room;

        memcpy(c->rest + used, bytes, k);
        bytes += k;
        n -= k;
        if (k < room)
            return;
        add_blocks(c, c->rest, 1);
    }
    add_blocks(c, bytes, n / BLOCK);
    if (n % BLOCK)
        memcpy(c->rest, bytes + n / BLOCK * BLOCK, n % BLOCK);
}

uint64_t dg_checksum_end(const dg_checksum *c)
{
    /* the length, because zeros leave a chain of 0 as it is */
    return mix(dg_hash64(dg_hash64(0, c->lane, sizeof c->lane), c->rest, c->n % BLOCK), c->n);
}

char *dg_checksum_print(uint64_t sum, char text[DG_CHECKSUM_TEXT])
{
    snprintf(text, DG_CHECKSUM_TEXT, "%016llx", (unsigned long long)sum);
    return text;
}
