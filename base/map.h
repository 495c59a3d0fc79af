/* map.h: a map from string to pointer, in an arena. Iteration is in insertion order. */
#ifndef DG_BASE_MAP_H
#define DG_BASE_MAP_H

#include "base/arena.h"

typedef struct dg_map dg_map;

dg_map *dg_map_new(dg_arena *a);
void *dg_map_get(const dg_map *m, const char *key); /* NULL if absent */
bool dg_map_has(const dg_map *m, const char *key);
/* copies key; replaces an existing value */
void dg_map_set(dg_map *m, const char *key, void *value);
int dg_map_n(const dg_map *m);
const char *dg_map_key(const dg_map *m, int i); /* 0 <= i < n, in insertion order */
void *dg_map_value(const dg_map *m, int i);

#endif
