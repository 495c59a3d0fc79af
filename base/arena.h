/* arena.h: memory that is freed all at once. Each graph, program, plan and step's scratch owns an
 * arena. */
#ifndef DG_BASE_ARENA_H
#define DG_BASE_ARENA_H

#include <detrgraph/core.h>

/* 1: every allocation is its own block, so that AddressSanitizer sees overruns inside arenas */
#if defined(__SANITIZE_ADDRESS__)
#define DG_PIECEWISE 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DG_PIECEWISE 1
#endif
#endif
#ifndef DG_PIECEWISE
#define DG_PIECEWISE 0
#endif

typedef struct dg_arena dg_arena;

/* Metadata allocation never returns NULL; out of memory ends the process (dg_oom). Sizes that come
 * from a user's file (images, slabs, indices) use dg_try_alloc instead. */
dg_arena *dg_arena_open(void);
void dg_arena_close(dg_arena **a);         /* frees everything, sets *a to NULL; *a may be NULL */
void *dg_alloc(dg_arena *a, size_t bytes); /* zeroed, aligned to 16 */
/* zeroed; n * bytes_each overflowing also ends in dg_oom */
void *dg_alloc_n(dg_arena *a, size_t n, size_t bytes_each);
char *dg_strdup(dg_arena *a, const char *s);
char *dg_strndup(dg_arena *a, const char *s, size_t n);
char *dg_printf(dg_arena *a, const char *fmt, ...) DG_PRINTF(2, 3);
char *dg_vprintf(dg_arena *a, const char *fmt, va_list ap) DG_PRINTF(2, 0);
void *dg_memdup(dg_arena *a, const void *p, size_t bytes);

#define DG_NEW(arena, type) ((type *)dg_alloc((arena), sizeof(type)))
#define DG_NEW_N(arena, n, type) ((type *)dg_alloc_n((arena), (size_t)(n), sizeof(type)))

/* Heap memory whose size comes from outside: zeroed, aligned to 64; NULL if out of memory. */
void *dg_try_alloc(size_t bytes) DG_MUST_USE;
void dg_free(void *p);

/* Appends value to a DG_VEC; grows it inside the arena. */
#define DG_PUSH(arena, vec, value)                                                         \
    do {                                                                                   \
        if ((vec).n == (vec).cap)                                                          \
            (vec).items = dg_grow((arena), (vec).items, &(vec).cap, sizeof(*(vec).items)); \
        (vec).items[(vec).n++] = (value);                                                  \
    } while (0)
/* Gives an empty DG_VEC room for its first items. room: at least 1. */
#define DG_RESERVE(arena, vec, room)                                     \
    do {                                                                 \
        (vec).cap = (room);                                              \
        (vec).items = dg_room((arena), (vec).cap, sizeof(*(vec).items)); \
    } while (0)
/* A growing array inside an arena. Capacity doubles; the old block stays until the arena closes. */
#define DG_VEC(type) \
    struct {         \
        type *items; \
        int n, cap;  \
    }
/* An array of n items, n at least 1, which are not set. */
void *dg_room(dg_arena *a, int n, size_t bytes_each);
/* A larger array that begins with the old one's items; the rest is not set. */
void *dg_grow(dg_arena *a, const void *items, int *cap, size_t bytes_each);

_Noreturn void dg_oom(size_t bytes); /* writes one line to standard error, then raises SIGABRT */

#endif
