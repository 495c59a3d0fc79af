/* far_memory.c: device memory that only the worker can touch. Every block is a mapping of its own
 * that ends at a guard page, so that an overrun faults too. The worker opens all of it for a
 * stretch of work and closes it before anybody else goes on: once per item would cost 100 ms a
 * gigabyte in small pages and 0.3 ms in huge ones. */
#include "kernels/far/far_internal.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/arena.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { ALIGNMENT = 256, HUGE_PAGE = 2 << 20 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The block's pages between the guards. */
static int protect(dg_far_block *b, bool open)
{
    size_t page = page_bytes();

    if (b->kind != DG_FAR_DEVICE || b->open == open)
        return 0;
    if (mprotect(b->base + page, b->mapped - 2 * page, open ? PROT_READ | PROT_WRITE : PROT_NONE))
        return -DG_EMEMORY;
    b->open = open;
    return 0;
}

static bool map_device(dg_far_memory *m, dg_far_block *b)
{
    size_t page = page_bytes(), rounded, pages;

    if (b->bytes > SIZE_MAX / 2)
        return false;
    rounded = round_up(b->bytes ? b->bytes : 1, ALIGNMENT);
    if (m->limit && (rounded > (size_t)m->limit || m->used > m->limit - (int64_t)rounded))
        return false;
    pages = round_up(rounded, page);
    b->mapped = pages + 2 * page;
    b->base = mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->base == MAP_FAILED)
        return false;
    if (pages >= HUGE_PAGE)
        madvise(b->base + page, pages, MADV_HUGEPAGE);
    /* For who debugs: /proc/PID/maps. Older kernels do not know it. */
    prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, b->base, b->mapped, "detrgraph far device");
    b->p = b->base + page + pages - rounded;
    m->used += (int64_t)rounded;
    return true;
}

static void release(dg_far_memory *m, const dg_far_block *b)
{
    if (b->kind == DG_FAR_PINNED) {
        dg_free(b->p);
        return;
    }
    m->used -= (int64_t)round_up(b->bytes ? b->bytes : 1, ALIGNMENT);
    munmap(b->base, b->mapped);
}

void *dg_far_memory_new(dg_far_memory *m, dg_far_kind kind, size_t bytes)
{
    dg_far_block b = { .kind = kind, .bytes = bytes };

    if (m->n == m->cap) {
        int cap = m->cap ? 2 * m->cap : 16;
        dg_far_block *blocks = realloc(m->blocks, (size_t)cap * sizeof *blocks);

        if (!blocks)
            return NULL;
        m->blocks = blocks;
        m->cap = cap;
    }
    if (kind == DG_FAR_PINNED)
        b.p = dg_try_alloc(bytes ? bytes : 1);
    else if (!map_device(m, &b))
        b.p = NULL;
    if (b.p)
        m->blocks[m->n++] = b;
    return b.p;
}

const dg_far_block *dg_far_memory_at(const dg_far_memory *m, dg_far_kind kind, const void *p)
{
    for (int i = 0; i < m->n; i++)
        if (m->blocks[i].kind == kind && m->blocks[i].p == p)
            return &m->blocks[i];
    return NULL;
}

void dg_far_memory_drop(dg_far_memory *m, const dg_far_block *b)
{
    release(m, b);
    m->blocks[b - m->blocks] = m->blocks[--m->n];
}

void dg_far_memory_drop_all(dg_far_memory *m)
{
    for (int i = 0; i < m->n; i++)
        release(m, &m->blocks[i]);
    free(m->blocks);
    *m = (dg_far_memory){ .limit = m->limit };
}

dg_far_share dg_far_memory_share(const dg_far_memory *m, dg_far_kind kind, const void *p, size_t n)
{
    uintptr_t begin = (uintptr_t)p, end = begin + n;

    for (int i = 0; i < m->n; i++) {
        const dg_far_block *b = &m->blocks[i];
        uintptr_t from = (uintptr_t)b->p, to = from + b->bytes;

        if (b->kind != kind || end <= from || begin >= to)
            continue;
        return begin >= from && end <= to ? DG_FAR_ALL : DG_FAR_PART;
    }
    return DG_FAR_NONE;
}

int dg_far_memory_open(dg_far_memory *m)
{
    int rc = 0;

    for (int i = 0; i < m->n && rc == 0; i++)
        rc = protect(&m->blocks[i], true);
    return rc;
}

void dg_far_memory_close(dg_far_memory *m)
{
    for (int i = 0; i < m->n; i++)
        protect(&m->blocks[i], false);
}
