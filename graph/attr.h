/* attr.h: attribute text -> member of a conf struct, by a table of node.h. */
#ifndef DG_GRAPH_ATTR_H
#define DG_GRAPH_ATTR_H

#include "base/arena.h"
#include "base/str.h"
#include <detrgraph/node.h>

enum { DG_ATTR_MAX_LIST = 256 }; /* numbers or sizes in one attribute */

/* Writes text's value into conf. folder: what a relative path is relative to; NULL: the current
 * folder. False where the text is no such value: dg_attr_expected says what would be. */
bool dg_attr_read(const dg_attr *a, void *conf, const char *text, const char *folder,
                  dg_arena *arena);
/* "an integer from 1 to 300"; one noun phrase. */
void dg_attr_expected(dg_str *out, const dg_attr *a);
/* All defaults of a table; text defaults are parsed. */
void dg_attr_defaults(const dg_attr *table, void *conf, dg_arena *arena);
/* The default as one would write it; false if the attribute has none. */
bool dg_attr_default_text(dg_str *out, const dg_attr *a);
/* Words of an ENUM, in the arena; returns how many. */
int            dg_attr_words(const char *const **words, const dg_attr *a, dg_arena *arena);
size_t         dg_attr_bytes(dg_attr_kind kind);     /* size of the member */
const char    *dg_attr_kind_name(dg_attr_kind kind); /* "integer" */
int            dg_attr_n(const dg_attr *table);
const dg_attr *dg_attr_find(const dg_attr *table, const char *name); /* NULL; table may be NULL */

#endif
