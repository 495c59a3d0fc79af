/* check.h: includes cmocka after the headers it needs, and defines helpers used by every test. */
#ifndef DG_TESTS_CHECK_H
#define DG_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/diag.h"

/* Sanitizers reserve terabytes of address space, so tests that limit it are skipped under them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Asserts that d holds exactly one diagnostic, with this id, then clears d. */
static inline void check_only(dg_diag *d, const char *id)
{
    assert_int_equal(dg_diag_n(d), 1);
    assert_string_equal(dg_diag_at(d, 0)->id, id);
    dg_diag_clear(d);
}

#endif
