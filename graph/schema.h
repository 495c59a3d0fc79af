/* schema.h: prints the tables: as a reference (reference.c) and as a schema (schema.c). */
#ifndef DG_GRAPH_SCHEMA_H
#define DG_GRAPH_SCHEMA_H

#include "base/str.h"
#include "graph/registry.h"

/* All classes by role, one line each, and the language's elements. */
void dg_reference_list(dg_str *out, const dg_registry *r);
/* One class or element in full; false if unknown. */
bool dg_reference_print(dg_str *out, const dg_registry *r, const char *name);
/* The same as one JSON object. */
bool dg_reference_json(dg_str *out, const dg_registry *r, const char *name);
const char *dg_role_name(dg_role role); /* "loader" */
/* A RELAX NG schema of pipelines and parts, with all registered classes. */
void dg_schema_print(dg_str *out, const dg_registry *r);

#endif
