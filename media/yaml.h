/* yaml.h: YAML in, as far as data sets use it: mappings, lists, scalars. */
#ifndef DG_MEDIA_YAML_H
#define DG_MEDIA_YAML_H

#include "media/json.h"

/* One document as a tree of json.h. A scalar has its text as written; its kind is DG_JSON_NUMBER
 * where that is a number and not quoted, DG_JSON_NULL where there is none, else DG_JSON_STRING.
 * Everything lives in a. Aliases, tags' meanings and several documents are not read. Fails with
 * "yaml-syntax", "yaml-alias", "yaml-depth", "yaml-size". */
int dg_yaml_parse(const dg_json **out, dg_arena *a, const char *text, size_t n, const char *file,
                  dg_diag *d) DG_MUST_USE;
int dg_yaml_read(const dg_json **out, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;

#endif
