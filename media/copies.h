/* copies.h: files of the same content among many. */
#ifndef DG_MEDIA_COPIES_H
#define DG_MEDIA_COPIES_H

#include "base/arena.h"

/* For each of n files the number of the first one with the same bytes, its own if it is the first.
 * Only files of equal length and equal last bytes are read whole. A file that cannot be read is
 * like no other. The result lives in a. */
int *dg_copies_find(dg_arena *a, const char *const *paths, int n);

#endif
