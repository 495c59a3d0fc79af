/* weight_names.h: names, and division into pieces, under which others store the parameters of our
 * models. Each dg_weight_names is a table of patterns against the names of RT-DETRv2's PyTorch
 * reference, through which any two can be translated. */
#ifndef DG_WEIGHTS_WEIGHT_NAMES_H
#define DG_WEIGHTS_WEIGHT_NAMES_H

#include "weights/archive.h"
#include "tensor/program.h"

typedef struct dg_weight_names dg_weight_names;

/* NULL-terminated; the first is the reference's own of each model, for RT-DETR version 2 */
extern const dg_weight_names *const dg_weight_names_all[];
const dg_weight_names *dg_weight_names_find(const char *name); /* "hf"; NULL: unknown */
const char *dg_weight_names_name(const dg_weight_names *l);
/* "the names of Hugging Face transformers"; of the reference's names whose reference it is, as the
 * tensors tell: "the names of Co-DETR's reference" */
const char *dg_weight_names_brief(const dg_weight_names *l, const dg_archive *a);
const char *dg_weight_names_brief_of_params(const dg_weight_names *l, const dg_params *p);

/* The names that most tensors match. */
const dg_weight_names *dg_weight_names_of_archive(const dg_archive *a);
const dg_weight_names *dg_weight_names_of_params(const dg_params *p);

/* How one tensor is stored: in n equal pieces along axis 0, each with a name. */
enum { DG_MOST_PIECES = 3 };
typedef struct dg_spelling {
    int n; /* 0: not stored */
    const char *names[DG_MOST_PIECES];
    int64_t layer; /* of the decoder; -1: none */
} dg_spelling;
dg_spelling dg_weight_names_spell(const dg_weight_names *to, const dg_weight_names *from,
                                  const char *name, dg_arena *a);

/* Renames the tensors of an archive, whose own names are recognised; pieces become one tensor.
 * Unknown names are kept. Only to the names of the reference. */
int dg_archive_translate(dg_archive *a, const dg_weight_names *to, dg_diag *d) DG_MUST_USE;

#endif
