/* arena.c: a list of blocks, each cut from the front. A new block is as large as all earlier ones
 * together, within BLOCK_MIN..BLOCK_MAX: small arenas stay small, large ones call calloc rarely.
 * Under AddressSanitizer every allocation is its own block, so that a write past its end is
 * caught. */
#include "base/arena.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGN = 16, BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20, HEAP_ALIGN = 64 };

typedef struct block {
    struct block *next;
    size_t cap, used;
    _Alignas(ALIGN) unsigned char data[];
} block;

struct dg_arena {
    block *head;  /* the block that allocations are cut from; full and oversized blocks follow */
    size_t bytes; /* of all blocks: the size of the next */
};

_Noreturn void dg_oom(size_t bytes)
{
    char line[96];
    int n = snprintf(line, sizeof line, "detrgraph: out of memory (%zu bytes asked for)\n", bytes);

    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* standard error is closed: nothing more to do */
    }
    for (;;) {
        signal(SIGABRT, SIG_DFL);
        raise(SIGABRT);
    }
}

dg_arena *dg_arena_open(void)
{
    dg_arena *a = calloc(1, sizeof *a);

    if (!a)
        dg_oom(sizeof *a);
    a->bytes = sizeof *a;
    return a;
}

void dg_arena_close(dg_arena **a)
{
    if (!*a)
        return;
    for (block *b = (*a)->head, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(*a);
    *a = NULL;
}

static block *add_block(dg_arena *a, size_t cap, bool zeros)
{
    size_t size = cap < SIZE_MAX - sizeof(block) ? sizeof(block) + cap : SIZE_MAX;
    block *b = size == SIZE_MAX ? NULL : zeros ? calloc(1, size) : malloc(size);

    if (!b)
        dg_oom(cap);
    b->next = NULL;
    b->cap = cap;
    b->used = 0;
    a->bytes += size;
    return b;
}

/* A block for one allocation, behind the one that others are cut from. */
static void *add_own_block(dg_arena *a, size_t size, bool zeros)
{
    block *own = add_block(a, size, zeros);

    own->used = size;
    own->next = a->head ? a->head->next : NULL;
    *(a->head ? &a->head->next : &a->head) = own;
    return own->data;
}

void *dg_alloc(dg_arena *a, size_t bytes)
{
    size_t size = bytes ? bytes : 1;
    block *b = a->head;

    if (!DG_PIECEWISE) {
        if (size > SIZE_MAX - ALIGN)
            dg_oom(bytes);
        size = (size + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (DG_PIECEWISE || !b || b->cap - b->used < size) {
        size_t cap = a->bytes < BLOCK_MIN ? BLOCK_MIN : a->bytes > BLOCK_MAX ? BLOCK_MAX : a->bytes;

        if (DG_PIECEWISE || size > cap / 4)
            return add_own_block(a, size, true);
        b = add_block(a, cap, true);
        b->next = a->head;
        a->head = b;
    }
    b->used += size;
    return b->data + b->used - size;
}

void *dg_alloc_n(dg_arena *a, size_t n, size_t bytes_each)
{
    if (bytes_each && n > SIZE_MAX / bytes_each)
        dg_oom(SIZE_MAX);
    return dg_alloc(a, n * bytes_each);
}

char *dg_strndup(dg_arena *a, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = dg_alloc(a, len + 1);

    memcpy(copy, s, len);
    return copy;
}

char *dg_strdup(dg_arena *a, const char *s)
{
    return dg_strndup(a, s, strlen(s));
}

void *dg_memdup(dg_arena *a, const void *p, size_t bytes)
{
    void *copy = dg_alloc(a, bytes);

    if (bytes)
        memcpy(copy, p, bytes);
    return copy;
}

/* Most texts are short: they are printed once, and copied. */
char *dg_vprintf(dg_arena *a, const char *fmt, va_list ap)
{
    char text[256];
    va_list again;

    va_copy(again, ap);
    int n = vsnprintf(text, sizeof text, fmt, again);
    va_end(again);

    size_t len = n > 0 ? (size_t)n : 0;
    char *s = dg_alloc(a, len + 1);

    if (len < sizeof text)
        memcpy(s, text, len);
    else
        vsnprintf(s, len + 1, fmt, ap);
    return s;
}

char *dg_printf(dg_arena *a, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    char *s = dg_vprintf(a, fmt, ap);
    va_end(ap);
    return s;
}

/* what is pushed is written first: zeros would be for nothing */
void *dg_room(dg_arena *a, int n, size_t bytes_each)
{
    size_t size = (size_t)n * bytes_each;

    return size <= BLOCK_MIN || bytes_each > SIZE_MAX / (size_t)n
               ? dg_alloc_n(a, (size_t)n, bytes_each)
               : add_own_block(a, size, false);
}

void *dg_grow(dg_arena *a, const void *items, int *cap, size_t bytes_each)
{
    int old = *cap, grown = old < 8 ? 8 : old <= INT32_MAX / 2 ? 2 * old : INT32_MAX;

    if (grown == old)
        dg_oom(SIZE_MAX);
    void *p = dg_room(a, grown, bytes_each);

    if (old)
        memcpy(p, items, (size_t)old * bytes_each);
    *cap = grown;
    return p;
}

/* Uses calloc because it hands out untouched zero pages for large sizes; aligned_alloc + memset
 * would touch every page. The pointer to free is stored just before the aligned piece. Under
 * sanitizers posix_memalign gives the exact end instead. */
void *dg_try_alloc(size_t bytes)
{
    size_t size = bytes ? bytes : 1;
    void *p = NULL;

    if (DG_PIECEWISE) {
        if (posix_memalign(&p, HEAP_ALIGN, size))
            return NULL;
        return memset(p, 0, size);
    }
    if (size > PTRDIFF_MAX - 2 * HEAP_ALIGN)
        return NULL;
    char *raw = calloc(1, size + HEAP_ALIGN + sizeof(void *));

    if (!raw)
        return NULL;
    uintptr_t first = (uintptr_t)raw + sizeof(void *);
    char *piece = raw + sizeof(void *) + (HEAP_ALIGN - first % HEAP_ALIGN) % HEAP_ALIGN;

    memcpy(piece - sizeof raw, &raw, sizeof raw);
    return piece;
}

void dg_free(void *p)
{
    if (!DG_PIECEWISE && p)
        memcpy(&p, (char *)p - sizeof p, sizeof p);
    free(p);
}
