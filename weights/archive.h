/* archive.h: named tensors in a file (safetensors, or the reference's .pth) or in several files
 * named by an index. Data stays as stored until dg_entry_read converts it to double. */
#ifndef DG_WEIGHTS_ARCHIVE_H
#define DG_WEIGHTS_ARCHIVE_H

#include "base/file.h"
#include "base/map.h"
#include <detrgraph/tensor.h>

/* Element types in files. */
typedef enum dg_stored {
    DG_ST_F64,
    DG_ST_F32,
    DG_ST_F16,
    DG_ST_BF16,
    DG_ST_I64,
    DG_ST_I32,
    DG_ST_I16,
    DG_ST_I8,
    DG_ST_U8,
    DG_ST_BOOL,
    DG_N_STORED,
} dg_stored;
size_t dg_stored_size(dg_stored t);
const char *dg_stored_name(dg_stored t); /* "F32", in safetensors' spelling */
bool dg_stored_find(dg_stored *t, const char *name);

typedef struct dg_entry {
    const char *name;
    dg_stored type;
    dg_shape shape;         /* foreign files may have dimensions of 0 */
    int64_t n;              /* elements */
    const void *data;       /* n elements, perhaps unaligned, little-endian; NULL if n is 0 */
    const int64_t *strides; /* in elements; NULL: dense, row-major */
} dg_entry;

typedef struct dg_archive {
    dg_arena *arena;
    const char *file;
    int n;
    dg_entry *entries;
    dg_map *by_name; /* -> dg_entry */
    /* which of a checkpoint's dictionaries it is: "ema.module"; NULL: the file's only one */
    const char *part;
    /* safetensors: __metadata__ or NULL, and the checksum that the file carries, if it does */
    const struct dg_json *meta;
    uint64_t checksum;
    bool has_checksum;
    dg_mapping mapping;
    /* for an index: file name -> dg_archive; NULL: this file contains the tensors */
    dg_map *shards;
    int n_heap, heap_cap; /* memory from dg_archive_hold */
    void **heap;
} dg_archive;

/* place itself or, for a folder (of a run, a checkpoint, or transformers), the file in it with its
 * weights or their index: averaged weights if present, unless `trained`. */
const char *dg_archive_place(dg_arena *a, const char *place, bool trained);
/* Opens a file by content, an index with all of its files, or what dg_archive_place finds in a
 * folder. Anything else, or a broken file, fails with -DG_EINPUT: nothing in it is trusted. */
int dg_archive_open(dg_archive **a, const char *place, dg_diag *d) DG_MUST_USE;
/* The same for a single file that contains its tensors. */
int dg_archive_open_file(dg_archive **a, const char *file, dg_diag *d) DG_MUST_USE;
void dg_archive_close(dg_archive **a);
const dg_entry *dg_archive_find(const dg_archive *a, const char *name);
/* Converts all n elements, in row-major order. */
void dg_entry_read(const dg_entry *e, double *out);
/* Copies all n elements in their stored type, in row-major order. */
void dg_entry_copy(const dg_entry *e, void *out);

/* Parsers of the formats. bytes must outlive the archive; the others read a->file, which is
 * mapped. */
int dg_safetensors_parse(dg_archive *a, const uint8_t *bytes, size_t n, dg_diag *d) DG_MUST_USE;
int dg_pth_parse(dg_archive *a, dg_diag *d) DG_MUST_USE;
int dg_shards_parse(dg_archive *a, dg_diag *d) DG_MUST_USE;

/* Memory that is freed with the archive, for tensors that are not stored contiguously; NULL: out of
 * memory. */
void *dg_archive_hold(dg_archive *a, size_t bytes) DG_MUST_USE;
/* Reports that there is no memory for an entry. */
int dg_archive_no_memory(const dg_archive *a, const char *entry, dg_diag *d);

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct dg_out_entry {
    const char *name;
    dg_stored type; /* F64, F32, I64 or BOOL */
    dg_shape shape;
    const void *data; /* elements of type `from` */
    dg_dtype from;    /* DG_F32, DG_F64 or DG_I64 */
} dg_out_entry;

/* Writes a safetensors file, which appears whole or not at all. meta: key, value, key, value, ...,
 * NULL; written as __metadata__, together with a checksum of the file, which readers compare;
 * *checksum (or NULL) receives it. */
int dg_safetensors_write(const char *file, const dg_out_entry *e, int n, const char *const *meta,
                         uint64_t *checksum, dg_diag *d) DG_MUST_USE;

#endif
