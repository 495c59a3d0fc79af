/* published.h: weights that others publish: where they are, and what takes them. */
#ifndef DG_CLI_PUBLISHED_H
#define DG_CLI_PUBLISHED_H

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
/* The file of a preset's pipeline: beside the program, or installed; NULL: not found. */
const char *dg_published_pipeline(dg_arena *a, const char *preset);

#endif
