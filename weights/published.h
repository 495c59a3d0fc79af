/* published.h: weights that others publish: where they are, and what takes them. */
#ifndef DG_WEIGHTS_PUBLISHED_H
#define DG_WEIGHTS_PUBLISHED_H

#include "base/arena.h"

typedef struct dg_published {
    const char *name;
    const char *url;
    const char *file;    /* its name in the cache */
    const char *licence; /* SPDX */
    double mib;          /* its size; 0: not known before it is fetched */
    double ap;           /* on COCO val2017, as published; 0: a backbone */
    const char *preset;  /* the pipeline that takes it, without .xml; or a node class */
} dg_published;

extern const dg_published dg_published_all[]; /* ends with a NULL name */

/* A name may lack its end, _coco; NULL: unknown. */
const dg_published *dg_published_find(const char *name);
const char *dg_published_near(const char *name); /* a similar name, or NULL */

/* Where a fetched file is kept: $XDG_CACHE_HOME/detrgraph/weights, else below ~/.cache. NULL: there
 * is no home. */
const char *dg_published_folder(dg_arena *a);
/* The file of a published name in the cache, whether it is there or not; NULL: no such name. */
const char *dg_published_place(dg_arena *a, const char *name);
/* The file that a person calls by a name: one that is there, or published weights in the cache. Any
 * other name stays as it is. Errors, with the way out: "weights-unfetched", "fetch-damaged". */
int dg_published_file(const char **path, const char *name, dg_arena *a, dg_diag *d) DG_MUST_USE;
/* The pipeline and the file of a published detector, of which dg_published_find knows the name.
 * Errors, with the way out: "weights-backbone" (it detects nothing), "weights-preset"
 * (its pipeline is neither beside the program or library nor installed), and those of
 * dg_published_file. */
int dg_published_detector(const char **pipeline, const char **weights, const char *name,
                          dg_arena *a, dg_diag *d) DG_MUST_USE;

#endif
