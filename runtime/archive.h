/* archive.h: named tensors in a file: safetensors, and the reference's .pth; or in several, which an index names. What is
 * read stays as stored until dg_entry_read makes doubles of it. */
#ifndef DG_RUNTIME_ARCHIVE_H
#define DG_RUNTIME_ARCHIVE_H

#include "base/file.h"
#include "base/map.h"
#include <detrgraph/tensor.h>

/* Element types of files. */
typedef enum dg_stored {
    DG_ST_F64, DG_ST_F32, DG_ST_F16, DG_ST_BF16, DG_ST_I64, DG_ST_I32, DG_ST_I16, DG_ST_I8, DG_ST_U8, DG_ST_BOOL,
    DG_N_STORED,
} dg_stored;
size_t      dg_stored_size(dg_stored t);
const char *dg_stored_name(dg_stored t);             /* "F32", as safetensors spells it */
bool        dg_stored_find(dg_stored *t, const char *name);

typedef struct dg_entry {
    const char *name;
    dg_stored   type;
    dg_shape    shape;  /* a dimension of 0 is possible in files of others */
    int64_t     n;      /* elements */
    const void *data;   /* n elements, perhaps unaligned, little-endian; NULL if n is 0 */
    const int64_t *strides; /* in elements; NULL: dense, row-major */
} dg_entry;

typedef struct dg_archive {
    dg_arena   *arena;
    const char *file;
    int         n;
    dg_entry   *entries;
    dg_map     *by_name; /* -> dg_entry */
    const char *part;    /* which of a checkpoint's dictionaries this is: "ema.module"; NULL: the file has one */
    dg_mapping  mapping;
    dg_map     *shards;  /* name -> dg_archive, those of an index; NULL: this file holds the tensors itself */
    int         n_heap, heap_cap; /* dg_archive_hold */
    void      **heap;
} dg_archive;

/* place, or where it is a folder (a run's, a checkpoint's, one of transformers) the file in it that holds its weights or
 * their index: the averaged ones if there are any, unless trained. */
const char *dg_archive_place(dg_arena *a, const char *place, bool trained);
/* Opens by content a file, an index with all of its files, or what dg_archive_place finds in a folder. Fails with
 * -DG_EINPUT where it is none of them, or broken: nothing of it is trusted. */
int  dg_archive_open(dg_archive **a, const char *place, dg_diag *d) DG_MUST_USE;
/* The same for one file that holds its tensors itself. */
int  dg_archive_open_file(dg_archive **a, const char *file, dg_diag *d) DG_MUST_USE;
void dg_archive_close(dg_archive **a);
const dg_entry *dg_archive_find(const dg_archive *a, const char *name);
/* All n elements in row-major order. */
void dg_entry_read(const dg_entry *e, double *out);
/* The same as they are stored. */
void dg_entry_copy(const dg_entry *e, void *out);

/* The formats. bytes must outlive the archive; the others read a->file, which is mapped. */
int dg_safetensors_parse(dg_archive *a, const uint8_t *bytes, size_t n, dg_diag *d) DG_MUST_USE;
int dg_pth_parse(dg_archive *a, dg_diag *d) DG_MUST_USE;
int dg_shards_parse(dg_archive *a, dg_diag *d) DG_MUST_USE;

/* An archive without entries, for the parsers. */
dg_archive *dg_archive_new(const char *file);
/* Memory that closes with the archive, for tensors that are not in the file as they are; NULL: there is none. */
void *dg_archive_hold(dg_archive *a, size_t bytes) DG_MUST_USE;

/* ---- writing ------------------------------------------------------------------------------------------- */

typedef struct dg_out_entry {
    const char  *name;
    dg_stored    type;  /* F64, F32, I64 or BOOL */
    dg_shape     shape;
    const void  *data;  /* of type `from` */
    dg_dtype     from;  /* DG_F32, DG_F64 or DG_I64 */
} dg_out_entry;

/* One safetensors file, whole or not at all. meta: key, value, key, value, ..., NULL; written as __metadata__. */
int dg_safetensors_write(const char *file, const dg_out_entry *e, int n, const char *const *meta, dg_diag *d) DG_MUST_USE;

#endif
