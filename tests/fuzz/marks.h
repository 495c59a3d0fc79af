/* marks.h: a fuzz target of a form of marks: FORM is a dg_marks_table, NAME a file's name. */
#ifndef DG_TESTS_FUZZ_MARKS_H
#define DG_TESTS_FUZZ_MARKS_H

#include "media/marks.h"

#include <string.h>

#include "base/diag.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const dg_data_source from = { .size = sizeof from, .root = "/nowhere" };
    dg_diag *d = dg_diag_open();
    dg_coco *c = NULL;
    dg_marks r;

    dg_marks_open(&r, &from, NULL, d);
    r.by_name = dg_map_new(r.arena);

    char *text = dg_alloc(r.arena, n + 1); /* a NUL follows, as behind a file's text */

    if (n > 0)
        memcpy(text, data, n);

    int rc = FORM.parse(&r, text, n, NAME, "/nowhere/" NAME);

    for (int i = 0; rc == 0 && i < r.entries.n; i++) {
        r.entries.items[i]->image = r.entries.items[i]->marks.file_name;
        DG_PUSH(r.arena, r.wanted, r.entries.items[i]);
    }
    if (rc == 0)
        rc = dg_marks_index(&r);
    if (rc < 0)
        (void)dg_diag_text(d);
    if (dg_marks_close(&r, rc, &c) == 0)
        dg_coco_close(&c);
    dg_diag_close(&d);
    return 0;
}

#endif
