/* place.h: what every test of media has: a diagnostic collector, scratch memory, an arena, a
 * folder to write into, and the paths of its data. */
#ifndef DG_TESTS_MEDIA_PLACE_H
#define DG_TESTS_MEDIA_PLACE_H

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <detrgraph/data.h>

#include "base/file.h"

typedef struct place {
    dg_diag *d;
    dg_scratch *s;
    dg_arena *a;
    char folder[64];
} place;

static inline int set_up(void **state)
{
    place *p = calloc(1, sizeof *p);

    if (!p)
        return -1;
    snprintf(p->folder, sizeof p->folder, "/tmp/detrgraph-media-XXXXXX");
    if (!mkdtemp(p->folder)) {
        free(p);
        return -1;
    }
    p->d = dg_diag_open();
    p->s = dg_scratch_open(0);
    p->a = dg_arena_open();
    *state = p;
    return 0;
}

static inline int tear_down(void **state)
{
    place *p = *state;
    int rc = system(dg_printf(p->a, "rm -rf '%s'", p->folder));

    dg_diag_close(&p->d);
    dg_scratch_close(&p->s);
    dg_arena_close(&p->a);
    free(p);
    return rc;
}

/* A file of tests/media/data. */
static inline const char *data(place *p, const char *name)
{
    const char *top = getenv("srcdir");

    return dg_printf(p->a, "%s/tests/media/data/%s", top ? top : ".", name);
}

/* A file of the shared data sets, or NULL where they are absent. */
static inline const char *shared(place *p, const char *name)
{
    const char *top = getenv("srcdir"), *sets = getenv("DETRGRAPH_DATA");
    const char *path = sets ? dg_printf(p->a, "%s/%s", sets, name)
                            : dg_printf(p->a, "%s/../shared/data/%s", top ? top : ".", name);

    return dg_exists(path) ? path : NULL;
}

static inline const char *temporary(place *p, const char *name)
{
    return dg_printf(p->a, "%s/%s", p->folder, name);
}

static inline void no_diagnostics(place *p)
{
    dg_str text = { 0 };

    if (dg_diag_n(p->d)) {
        dg_diag_print(&text, p->d, NULL, NULL, false);
        print_message("# %s\n", text.s);
        dg_str_free(&text);
    }
    assert_int_equal(dg_diag_n(p->d), 0);
}

/* The only diagnostic has this id and its text contains `part`. */
static inline void check_says(place *p, const char *id, const char *part)
{
    assert_int_equal(dg_diag_n(p->d), 1);
    if (!strstr(dg_diag_at(p->d, 0)->text, part))
        fail_msg("\"%s\" does not say \"%s\"", dg_diag_at(p->d, 0)->text, part);
    check_only(p->d, id);
}

#endif
