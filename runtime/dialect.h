/* dialect.h: under which names, and in how many pieces, others store the parameters of our models. A dialect is a
 * table of patterns against the names of RT-DETRv2's PyTorch reference, through which any two are translated. */
#ifndef DG_RUNTIME_DIALECT_H
#define DG_RUNTIME_DIALECT_H

#include "runtime/archive.h"
#include "tensor/program.h"

typedef struct dg_dialect dg_dialect;

extern const dg_dialect *const dg_dialects[]; /* NULL at the end; the first is the reference's, version 2 */
const dg_dialect *dg_dialect_find(const char *name); /* "hf"; NULL: there is none */
const char       *dg_dialect_name(const dg_dialect *l);
const char       *dg_dialect_brief(const dg_dialect *l); /* "the names of Hugging Face transformers" */

/* The one that most names are of. */
const dg_dialect *dg_dialect_of_archive(const dg_archive *a);
const dg_dialect *dg_dialect_of_params(const dg_params *p);

/* How one tensor is stored: in n equal pieces along axis 0, one name each. */
enum { DG_MOST_PIECES = 3 };
typedef struct dg_spelling {
    int         n; /* 0: not at all */
    const char *names[DG_MOST_PIECES];
    int64_t     layer; /* of the decoder; -1: of no layer */
} dg_spelling;
dg_spelling dg_dialect_spell(const dg_dialect *to, const dg_dialect *from, const char *name, dg_arena *a);

/* Gives the tensors of an archive, whose dialect is found out, the names of another; what is stored in pieces becomes
 * one. What no pattern knows keeps its name. Only to the dialects of the reference. */
int dg_archive_translate(dg_archive *a, const dg_dialect *to, dg_diag *d) DG_MUST_USE;

#endif
