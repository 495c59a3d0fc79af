/* python.c: see python.h. The generator: Matsumoto and Nishimura 1998, MT19937, seeded by an array
 * of words (2002). CPython takes the highest bits of a word, as many as n has, until they are below
 * n. */
#include "nodes/sampler/python.h"

#include <assert.h>

enum { N = 624, M = 397 };

typedef struct twister {
    uint32_t v[N];
    int at;
} twister;

static void begin(twister *t, uint32_t seed)
{
    t->v[0] = seed;
    for (int i = 1; i < N; i++)
        t->v[i] = UINT32_C(1812433253) * (t->v[i - 1] ^ (t->v[i - 1] >> 30)) + (uint32_t)i;
    t->at = N;
}

static void begin_with(twister *t, const uint32_t *key, int n)
{
    int i = 1;

    begin(t, 19650218);
    for (int k = 0; k < N; k++, i++) { /* n < N */
        if (i == N) {
            t->v[0] = t->v[N - 1];
            i = 1;
        }
        t->v[i] = (t->v[i] ^ ((t->v[i - 1] ^ (t->v[i - 1] >> 30)) * UINT32_C(1664525))) +
                  key[k % n] + (uint32_t)(k % n);
    }
    for (int k = 0; k < N - 1; k++, i++) {
        if (i == N) {
            t->v[0] = t->v[N - 1];
            i = 1;
        }
        t->v[i] =
            (t->v[i] ^ ((t->v[i - 1] ^ (t->v[i - 1] >> 30)) * UINT32_C(1566083941))) - (uint32_t)i;
    }
    t->v[0] = UINT32_C(0x80000000);
}

static void refill(twister *t)
{
    for (int i = 0; i < N; i++) {
        uint32_t y = (t->v[i] & UINT32_C(0x80000000)) | (t->v[(i + 1) % N] & UINT32_C(0x7fffffff));

        t->v[i] = t->v[(i + M) % N] ^ (y >> 1) ^ (y & 1 ? UINT32_C(0x9908b0df) : 0);
    }
    t->at = 0;
}

static uint32_t next_word(twister *t)
{
    uint32_t y;

    if (t->at == N)
        refill(t);
    y = t->v[t->at++];
    y ^= y >> 11;
    y ^= (y << 7) & UINT32_C(0x9d2c5680);
    y ^= (y << 15) & UINT32_C(0xefc60000);
    return y ^ (y >> 18);
}

int dg_python_choice(uint64_t seed, int n)
{
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    int bits = 0;
    uint32_t r;
    twister t;

    assert(n > 0);
    while (n >> bits)
        bits++;
    begin_with(&t, key, key[1] ? 2 : 1);
    do
        r = next_word(&t) >> (32 - bits);
    while (r >= (uint32_t)n);
    return (int)r;
}
