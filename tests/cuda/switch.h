/* switch.h: stacks to switch between. A fiber starts with makecontext and is switched with _setjmp
 * and _longjmp, which make no system call; with swapcontext where a sanitizer has to know its
 * stack. Include it first. */
#ifndef DG_TESTS_CUDA_SWITCH_H
#define DG_TESTS_CUDA_SWITCH_H

#undef _FORTIFY_SOURCE /* its longjmp takes a jump to another stack for an error */

#include "tests/check.h"

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

typedef struct fiber {
    ucontext_t context;
    jmp_buf at;
    char *stack;
    size_t size;
    bool begun;
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

static inline void fiber_switch(fiber *main, fiber *from, fiber *to)
{
    (void)main;
    if (_setjmp(from->at))
        return;
    if (to->begun)
        _longjmp(to->at, 1);
    to->begun = true;
    setcontext(&to->context);
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
