/* switch.h: stacks to switch between. A fiber starts with makecontext and is switched with the
 * compiler's own setjmp, which keeps three words and lets the compiler save what it needs; with
 * _setjmp on other CPUs; with swapcontext where a sanitizer has to know its stack. Include it
 * first. */
#ifndef DG_TESTS_CUDA_SWITCH_H
#define DG_TESTS_CUDA_SWITCH_H

#undef _FORTIFY_SOURCE /* its longjmp takes a jump to another stack for an error */

#include "tests/check.h"

#include <stdlib.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ADDRESSES 1
#endif
#endif
#ifndef ADDRESSES
#define ADDRESSES 0
#endif
#if ADDRESSES
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
typedef void *fiber_place[5];
#define FIBER_KEEP(at) __builtin_setjmp(at)
#define FIBER_JUMP(at) __builtin_longjmp(at, 1)
#else
typedef jmp_buf fiber_place;
#define FIBER_KEEP(at) _setjmp(at)
#define FIBER_JUMP(at) _longjmp(at, 1)
#endif

typedef struct fiber {
    fiber_place at;
    char *stack;
    size_t size;
    bool begun;
    ucontext_t context; /* to begin with */
} fiber;

#if SANITIZED
/* On a stack again, from the caller's if from_main. */
static inline void fiber_arrive(fiber *main, void *fake, bool from_main)
{
#if ADDRESSES
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (from_main) {
        main->stack = (char *)(uintptr_t)bottom;
        main->size = size;
    }
#else
    (void)main;
    (void)fake;
    (void)from_main;
#endif
}

/* main: the stack of who has the fibers. */
static inline void fiber_switch(fiber *main, fiber *from, fiber *to)
{
    void *fake = NULL;

#if ADDRESSES
    __sanitizer_start_switch_fiber(&fake, to->stack, to->size);
#endif
    swapcontext(&from->context, &to->context);
    fiber_arrive(main, fake, from != main);
}
#else
static inline void fiber_arrive(fiber *main, void *fake, bool from_main)
{
    (void)main;
    (void)fake;
    (void)from_main;
}

/* Not in the function that keeps its own place, as the compiler demands. */
static __attribute__((noinline, noreturn)) void fiber_go(fiber *to)
{
    if (to->begun)
        FIBER_JUMP(to->at);
    to->begun = true;
    setcontext(&to->context);
    abort();
}

static __attribute__((noinline)) void fiber_switch(fiber *main, fiber *from, fiber *to)
{
    (void)main;
    if (!FIBER_KEEP(from->at))
        fiber_go(to);
}
#endif

/* Has not begun; `live` runs on its stack. */
static inline void fiber_make(fiber *f, void (*live)(void))
{
    f->begun = false;
    getcontext(&f->context);
    f->context.uc_stack = (stack_t){ .ss_sp = f->stack, .ss_size = f->size };
    makecontext(&f->context, live, 0);
}

#endif
