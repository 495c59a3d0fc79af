/* standin_memory.c: device memory that only the stand-in's thread can touch. Every block is a
 * mapping of its own that ends at a guard page. */
#include "tests/cuda/standin.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 256, HUGE_PAGE = 2 << 20 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static bool map_device(standin *s, standin_block *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), rounded = round_up(b->bytes, ALIGNMENT), pages;

    if (b->bytes > SIZE_MAX / 2 ||
        (s->words.memory && s->used + (int64_t)rounded > s->words.memory))
        return false;
    pages = round_up(rounded, page);
    b->mapped = pages + 2 * page;
    b->base = mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->base == MAP_FAILED)
        return false;
    if (pages >= HUGE_PAGE) /* to open and close it costs a hundredth then */
        madvise(b->base + page, pages, MADV_HUGEPAGE);
    b->p = b->base + page + pages - rounded;
    s->used += (int64_t)rounded;
    return true;
}

void *standin_block_new(standin *s, size_t bytes, bool device)
{
    standin_block b = { .bytes = bytes, .device = device };

    if (s->n_blocks == s->cap_blocks) {
        int cap = s->cap_blocks ? 2 * s->cap_blocks : 16;
        standin_block *blocks = realloc(s->blocks, (size_t)cap * sizeof *blocks);

        if (!blocks)
            return NULL;
        s->blocks = blocks;
        s->cap_blocks = cap;
    }
    if (!device)
        b.p = aligned_alloc(ALIGNMENT, round_up(bytes, ALIGNMENT));
    else if (!map_device(s, &b))
        b.p = NULL;
    if (b.p)
        s->blocks[s->n_blocks++] = b;
    return b.p;
}

standin_block *standin_block_at(standin *s, const void *p)
{
    for (int i = 0; i < s->n_blocks; i++)
        if (s->blocks[i].p == p)
            return &s->blocks[i];
    return NULL;
}

void standin_block_drop(standin *s, standin_block *b)
{
    if (b->device) {
        s->used -= (int64_t)round_up(b->bytes, ALIGNMENT);
        munmap(b->base, b->mapped);
    } else if (!b->foreign) {
        free(b->p);
    }
    *b = s->blocks[--s->n_blocks];
}

static void protect(standin *s, bool open)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (int i = 0; i < s->n_blocks; i++) {
        standin_block *b = &s->blocks[i];

        if (!b->device || b->open == open)
            continue;
        if (mprotect(b->base + page, b->mapped - 2 * page,
                     open ? PROT_READ | PROT_WRITE : PROT_NONE))
            abort();
        b->open = open;
    }
}

void standin_memory_open(standin *s)
{
    protect(s, true);
}

void standin_memory_close(standin *s)
{
    protect(s, false);
}
