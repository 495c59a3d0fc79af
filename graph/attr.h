/* attr.h: converts attribute text to members of a conf struct, by a table of node.h. */
#ifndef DG_GRAPH_ATTR_H
#define DG_GRAPH_ATTR_H

#include "base/arena.h"
#include "base/str.h"
#include <detrgraph/node.h>

enum { DG_ATTR_MAX_LIST = 256 }; /* most numbers or sizes in one attribute */

/* Parses text and writes the value into conf. folder: for relative paths; NULL: the current folder.
 * False if text is not such a value; dg_attr_expected describes one. */
bool dg_attr_read(const dg_attr *a, void *conf, const char *text, const char *folder,
                  dg_arena *arena);
/* Appends a noun phrase such as "an integer from 1 to 300". */
void dg_attr_expected(dg_str *out, const dg_attr *a);
/* Writes all defaults of a table into conf. */
void dg_attr_defaults(const dg_attr *table, void *conf, dg_arena *arena);
/* Appends the default as a user would write it; false if there is none. */
bool dg_attr_default_text(dg_str *out, const dg_attr *a);
/* The words of an ENUM, in the arena; returns their number. */
int dg_attr_words(const char *const **words, const dg_attr *a, dg_arena *arena);
size_t dg_attr_bytes(dg_attr_kind kind);          /* size of the conf member */
const char *dg_attr_kind_name(dg_attr_kind kind); /* "integer" */
bool dg_attr_flags_fit(const dg_attr *a);         /* its flags are known and fit its kind */
int dg_attr_n(const dg_attr *table);
/* The attribute with this flag (DG_ATTR_AXES, ...) and the kind that the flag requires; NULL:
 * none. */
const dg_attr *dg_attr_flagged(const dg_attr *table, unsigned flag);
/* NULL if unknown; table may be NULL */
const dg_attr *dg_attr_find(const dg_attr *table, const char *name);

#endif
