/* scratch.c: a bump allocator for pixels and object lists. A reset merges what the last sample
 * needed into one block, so that from the second sample on no system allocation happens. In
 * sanitizer builds every allocation is its own block, so that overruns are caught. */
#include "media/image.h"

#include <stdlib.h>

#include "base/arena.h"

enum { ALIGN = 64, BLOCK_MIN = 1 << 16, KEEP_MAX = 256 << 20 };

typedef struct block {
    struct block *next;
    uint8_t *p;
    size_t n, used;
} block;

struct dg_scratch {
    block *first; /* the block that allocations are cut from; older ones follow */
    size_t held, max;
};

dg_scratch *dg_scratch_open(size_t max_bytes)
{
    dg_scratch *s = calloc(1, sizeof *s);

    if (s)
        s->max = max_bytes;
    return s;
}

static void drop_blocks(dg_scratch *s)
{
    while (s->first) {
        block *b = s->first;

        s->first = b->next;
        free(b->p);
        free(b);
    }
    s->held = 0;
}

static bool add_block(dg_scratch *s, size_t bytes)
{
    block *b;

    if (s->max && (bytes > s->max || s->held > s->max - bytes))
        return false;
    b = calloc(1, sizeof *b);
    if (!b)
        return false;
    b->p = aligned_alloc(ALIGN, bytes);
    if (!b->p) {
        free(b);
        return false;
    }
    b->n = bytes;
    b->next = s->first;
    s->first = b;
    s->held += bytes;
    return true;
}

void dg_scratch_close(dg_scratch **s)
{
    if (!*s)
        return;
    drop_blocks(*s);
    free(*s);
    *s = NULL;
}

void dg_scratch_reset(dg_scratch *s)
{
    size_t held = s->held;

    if (!s->first)
        return;
    if (!DG_PIECEWISE && !s->first->next && held <= KEEP_MAX) {
        s->first->used = 0;
        return;
    }
    drop_blocks(s);
    if (!DG_PIECEWISE && held <= KEEP_MAX)
        (void)add_block(s, held); /* best effort: the next allocation tries again */
}

void *dg_scratch_alloc(dg_scratch *s, size_t bytes)
{
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    block *b = s->first;
    void *p;

    if (need < bytes)
        return NULL;
    if (need == 0)
        need = ALIGN;
    if (DG_PIECEWISE || !b || b->n - b->used < need) {
        size_t want = need > BLOCK_MIN || DG_PIECEWISE ? need : BLOCK_MIN;

        if (!add_block(s, want) && (want == need || !add_block(s, need)))
            return NULL;
        b = s->first;
    }
    p = b->p + b->used;
    b->used += need;
    return p;
}

size_t dg_scratch_bytes(const dg_scratch *s)
{
    return s->held;
}
