/* yaml.h: reads the YAML that data sets use: mappings, lists, scalars. */
#ifndef DG_MEDIA_YAML_H
#define DG_MEDIA_YAML_H

#include "media/json.h"

/* Parses one document as a tree of json.h, in arena a. A scalar keeps its text as written; its kind
 * is DG_JSON_NUMBER for an unquoted number, DG_JSON_NULL if empty, else DG_JSON_STRING. Aliases,
 * tags and several documents are not supported. Fails with "yaml-syntax", "yaml-alias",
 * "yaml-depth", "yaml-size". */
int dg_yaml_parse(const dg_json **out, dg_arena *a, const char *text, size_t n, const char *file,
                  dg_diag *d) DG_MUST_USE;
int dg_yaml_read(const dg_json **out, dg_arena *a, const char *path, dg_diag *d) DG_MUST_USE;

#endif
