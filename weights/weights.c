/* weights.c: matches tensors of files with parameters of the run by name. Values that are not
 * finite are refused: one NaN weight would make every loss NaN, without a trace of its origin. */
#include "weights/weights.h"
#include "weights/rows.h"

#include <math.h>
#include <string.h>

static const char which_pipeline[] =
    "is the pipeline the one that these weights were trained with (classes, depth, width)?";

enum { NAMED = 10 }; /* names listed per kind of mismatch */

static bool in_space(const dg_param_info *p, dg_space space)
{
    return p->offset >= 0 && (p->kind == DG_TRAINABLE || space == DG_WEIGHTS || space == DG_EMA);
}

/* True if the shapes agree; a scalar may be stored as [1] and vice versa. */
static bool fits(const dg_entry *e, const dg_param_info *p)
{
    return dg_shape_equal(e->shape, p->shape) || (e->n == 1 && dg_shape_elements(p->shape) == 1);
}

static void mean_row(double *to, const double *v, size_t n, size_t row)
{
    for (size_t c = 0; c < row; c++) {
        to[c] = 0;
        for (size_t i = 0; i < n; i++)
            to[c] += v[i * row + c] / (double)n;
    }
}

/* rows: those of the entry that the parameter takes; NULL: all. */
static int load_one(dg_store *s, dg_space space, int param, const dg_archive *a, const dg_entry *e,
                    const int64_t *rows, dg_diag *d)
{
    const dg_param_info *p = dg_params_at(s->params, param);
    const size_t row = rows ? (size_t)(e->n / e->shape.d[0]) : 0;
    double *v = dg_try_alloc((size_t)e->n * sizeof *v),
           *taken = rows ? dg_try_alloc((size_t)p->shape.d[0] * row * sizeof *v) : NULL;
    int rc = 0;

    if (!v || (rows && !taken)) {
        dg_free(v);
        dg_free(taken);
        return dg_archive_no_memory(a, e->name, d);
    }
    dg_entry_read(e, v);
    for (int64_t i = 0; rc == 0 && i < e->n; i++)
        if (!isfinite(v[i]))
            rc = dg_fail(d, DG_ENUMERIC, (dg_where){ .file = a->file }, "weights-not-finite",
                         "%s holds %f at place %lld; weights must be finite", e->name, v[i],
                         (long long)i);
    for (int64_t i = 0; rows && i < p->shape.d[0]; i++)
        if (rows[i] == DG_ROW_MEAN)
            mean_row(taken + (size_t)i * row, v, (size_t)e->shape.d[0], row);
        else
            memcpy(taken + (size_t)i * row, v + (size_t)rows[i] * row, row * sizeof *v);
    if (rc == 0)
        rc = dg_store_set(s, space, param, taken ? taken : v, d);
    dg_free(v);
    dg_free(taken);
    return rc;
}

/* Appends to a list of names, which stops after a few. */
static void list(dg_str *s, int *n, const char *fmt, ...) DG_PRINTF(3, 4);
static void list(dg_str *s, int *n, const char *fmt, ...)
{
    va_list ap;

    if (++*n > NAMED)
        return;
    va_start(ap, fmt);
    dg_str_add(s, *n > 1 ? ", " : "");
    dg_str_vfmt(s, fmt, ap);
    va_end(ap);
}

static void end_list(dg_str *s, int n)
{
    if (n > NAMED)
        dg_str_fmt(s, " and %d more", n - NAMED);
}

static void list_shape(dg_str *s, int *n, const dg_entry *e, const dg_param_info *p)
{
    char file[64], here[64];

    list(s, n, "%s (file %s, model %s)", p->name, dg_shape_print(e->shape, file, sizeof file),
         dg_shape_print(p->shape, here, sizeof here));
}

/* True for entries that the model declares, and counters of batches. */
static bool expected(const dg_params *params, const char *name)
{
    size_t n = strlen(name), m = strlen("num_batches_tracked");

    return dg_params_find(params, name) >= 0 ||
           (n >= m && strcmp(name + n - m, "num_batches_tracked") == 0);
}

static void warn_unexpected(const dg_store *s, const dg_archive *a, size_t skip, dg_diag *d)
{
    dg_str names = { 0 };
    int n = 0;

    for (int i = 0; i < a->n; i++)
        if (strlen(a->entries[i].name) >= skip && !expected(s->params, a->entries[i].name + skip))
            list(&names, &n, "%s", a->entries[i].name);
    end_list(&names, n);
    if (n)
        dg_warn(d, (dg_where){ .file = a->file }, "weights-unexpected",
                "%d of its tensors belong to nothing in this model: %s", n, names.s);
    dg_str_free(&names);
}

/* What is taken of a tensor of another shape. */
typedef enum row_choice {
    ALL_ROWS,  /* nothing: all rows must be there */
    SAME_ROWS, /* the rows of the same classes */
    OTHER_ROWS /* those of other classes, too */
} row_choice;

typedef struct tally {
    int n, n_missing, n_shapes;
    int n_class;                   /* of the shapes: those that depend on the number of classes */
    int64_t classes_file, classes; /* from a score head's bias; 0: unknown */
    dg_str missing, shapes;
    row_choice take;
    int n_rows[DG_N_ROWS_KINDS]; /* tensors of which some rows were taken, by kind */
} tally;

/* The rows of an entry that fit a parameter of another shape; NULL: none do. */
static const int64_t *rows_that_fit(const dg_archive *a, const dg_entry *e, const dg_param_info *p,
                                    row_choice take, int *n_rows, dg_arena *arena)
{
    int64_t *rows =
        take != ALL_ROWS && p->shape.rank ? DG_NEW_N(arena, p->shape.d[0], int64_t) : NULL;
    dg_rows_kind kind = rows ? dg_rows_of(a, e, p, rows) : DG_ROWS_AS_STORED;

    if (kind == DG_ROWS_AS_STORED || (kind >= DG_ROWS_TILED && take != OTHER_ROWS))
        return NULL;
    n_rows[kind]++;
    return rows;
}

/* "keeps its", "keep their", behind the number of tensors. */
static const char *keep(int n)
{
    return n == 1 ? " keeps its" : "s keep their";
}

static void report_rows(const int *n_rows, dg_where at, dg_diag *d)
{
    for (int k = 0; k < DG_N_ROWS_KINDS; k++)
        if (n_rows[k])
            dg_warn(d, at, "weights-rows", "%d tensor%s some rows of the file's: %s", n_rows[k],
                    n_rows[k] == 1 ? " takes" : "s take", dg_rows_name((dg_rows_kind)k));
}

/* Counts a tensor whose shape follows from the number of classes. */
static void count_class_tensor(tally *f, const dg_entry *e, const dg_param_info *p)
{
    const char *const heads[] = { "score_head", "class_embed" };

    for (int i = 0; i < 2; i++) {
        if (!strstr(p->name, heads[i]))
            continue;
        f->n_class++;
        if (e->shape.rank == 1 && p->shape.rank == 1) {
            f->classes_file = e->shape.d[0];
            f->classes = p->shape.d[0];
        }
    }
}

static int load_all(dg_store *s, dg_space space, const dg_archive *a, const char *prefix, tally *f,
                    dg_diag *d)
{
    dg_arena *names = dg_arena_open();
    int rc = 0;

    for (int i = 0; rc == 0 && i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        const dg_entry *e = dg_archive_find(a, dg_printf(names, "%s%s", prefix, p->name));
        const int64_t *rows = NULL;

        if (!in_space(p, space))
            continue;
        if (!e) {
            list(&f->missing, &f->n_missing, "%s", p->name);
        } else if (fits(e, p) || (rows = rows_that_fit(a, e, p, f->take, f->n_rows, names))) {
            rc = load_one(s, space, i, a, e, rows, d);
        } else {
            list_shape(&f->shapes, &f->n_shapes, e, p);
            count_class_tensor(f, e, p);
        }
        f->n += e && (fits(e, p) || rows);
    }
    end_list(&f->missing, f->n_missing);
    end_list(&f->shapes, f->n_shapes);
    dg_arena_close(&names);
    return rc;
}

static int refuse(const dg_archive *a, const tally *f, dg_diag *d)
{
    if (f->n_missing) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = a->file }, "weights-missing",
                "it lacks %d tensor%s of this model: %s", f->n_missing,
                dg_plural(f->n_missing, "s"), f->missing.s);
        dg_note(d, DG_NOWHERE, "it holds %d tensor%s%s%s", a->n, dg_plural(a->n, "s"),
                a->n ? ", the first is " : "", a->n ? a->entries[0].name : "");
        dg_help(d, "%s", which_pipeline);
    }
    if (f->n_shapes && f->n_shapes == f->n_class && f->classes) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = a->file }, "weights-classes",
                "it was trained for %lld class%s, this pipeline has %lld: %d tensor%s not fit",
                (long long)f->classes_file, dg_plural(f->classes_file, "es"), (long long)f->classes,
                f->n_shapes, f->n_shapes == 1 ? " does" : "s do");
        dg_str file = { 0 };

        dg_str_shell(&file, a->file);
        dg_help(d,
                "detrgraph init --data DIR --pretrained %s writes a pipeline that keeps "
                "everything else of it for your classes",
                file.s);
        dg_str_free(&file);
    } else if (f->n_shapes) {
        dg_fail(d, DG_EINPUT, (dg_where){ .file = a->file }, "weights-shape",
                "%d tensor%s another shape than in this model: %s", f->n_shapes,
                f->n_shapes == 1 ? " has" : "s have", f->shapes.s);
        dg_help(d, "%s", which_pipeline);
    }
    return f->n_missing || f->n_shapes ? -DG_EINPUT : 0;
}

static void free_tally(tally *f)
{
    dg_str_free(&f->missing);
    dg_str_free(&f->shapes);
}

int dg_weights_load(dg_store *s, dg_space space, const dg_archive *a, const char *prefix,
                    dg_diag *d)
{
    tally f = { 0 };
    int rc = load_all(s, space, a, prefix, &f, d);

    if (rc == 0)
        rc = refuse(a, &f, d);
    if (rc == 0)
        warn_unexpected(s, a, strlen(prefix), d);
    free_tally(&f);
    return rc;
}

/* Accepts a part of the model, but not nothing. */
static int accept_part(const dg_archive *a, const tally *f, dg_diag *d)
{
    dg_where at = { .file = a->file };

    if (!f->n)
        return refuse(a, f, d);
    if (f->n_missing)
        dg_warn(d, at, "weights-missing", "%d tensor%s initial values, missing in the file: %s",
                f->n_missing, keep(f->n_missing), f->missing.s);
    if (f->n_shapes)
        dg_warn(d, at, "weights-shape", "%d tensor%s initial values, the shape differs: %s",
                f->n_shapes, keep(f->n_shapes), f->shapes.s);
    return 0;
}

/* The number of training batches, which checkpoints repeat for every norm. */
static int64_t counter_of(const dg_store *s, const dg_archive *a)
{
    for (int i = 0; i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        const dg_entry *e = p->kind == DG_EXPORT_COUNTER ? dg_archive_find(a, p->name) : NULL;
        double v;

        if (!e || e->n != 1)
            continue;
        dg_entry_read(e, &v);
        return v >= 0 && v < 0x1p53 ? (int64_t)v : 0;
    }
    return 0;
}

int dg_weights_adopt(dg_store *s, dg_archive *a, bool partial, int64_t *n, dg_diag *d)
{
    tally f = { .take = partial ? OTHER_ROWS : SAME_ROWS };
    int rc;

    DG_TRY(dg_archive_translate(a, dg_weight_names_of_params(s->params), d));
    DG_TRY(load_all(s, DG_WEIGHTS, a, "", &f, d));
    DG_TRY(partial ? accept_part(a, &f, d) : refuse(a, &f, d));
    report_rows(f.n_rows, (dg_where){ .file = a->file }, d);
    warn_unexpected(s, a, 0, d);
    s->counter = counter_of(s, a);
    if (n)
        *n = f.n;
out:
    free_tally(&f);
    return rc;
}

/* ---- pretrained ------------------------------------------------------------------------------ */

/* Finds a parameter by its full name, or without the class's part: the reference's backbone files
 * omit "backbone.". */
static const dg_entry *find_entry(const dg_archive *a, const dg_node *node, const char *name)
{
    const char *part = node->class->reference;
    size_t n = part ? strlen(part) : 0;
    const dg_entry *e = dg_archive_find(a, name);

    return e || !n || strncmp(name, part, n) != 0 || name[n] != '.'
               ? e
               : dg_archive_find(a, name + n + 1);
}

typedef struct mismatch {
    int n, loaded, missing, shapes, frozen, rows[DG_N_ROWS_KINDS];
    dg_str missing_names, shape_names, frozen_names;
} mismatch;

static int load_part(dg_store *s, const dg_node *node, const dg_archive *a, mismatch *c, dg_diag *d)
{
    dg_arena *arena = dg_arena_open();
    int rc = 0;

    for (int i = 0; rc == 0 && i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        const int64_t *rows = NULL;

        if (p->offset < 0 || !p->where.node || strcmp(p->where.node, node->path) != 0)
            continue;
        const dg_entry *e = find_entry(a, node, p->name);
        bool fit = e && (fits(e, p) ||
                         (rows = rows_that_fit(a, e, p, OTHER_ROWS, c->rows, arena)) != NULL);

        c->n++;
        c->loaded += fit;
        if (!e)
            list(&c->missing_names, &c->missing, "%s", p->name);
        else if (!fit)
            list_shape(&c->shape_names, &c->shapes, e, p);
        if (fit)
            rc = load_one(s, DG_WEIGHTS, i, a, e, rows, d);
        else if (p->kind == DG_FROZEN)
            list(&c->frozen_names, &c->frozen, "%s", p->name);
    }
    end_list(&c->missing_names, c->missing);
    end_list(&c->shape_names, c->shapes);
    end_list(&c->frozen_names, c->frozen);
    dg_arena_close(&arena);
    return rc;
}

/* Reports mismatches: as an error if the node cannot work with them, else as a warning. */
static int report_mismatch(const dg_node *node, const dg_archive *a, const mismatch *c, dg_diag *d)
{
    if (c->loaded == 0) {
        dg_fail(d, DG_EINPUT, node->pretrained_where, "pretrained-nothing",
                "none of the %d tensor%s of <%s id=\"%s\"> is in %s", c->n, dg_plural(c->n, "s"),
                node->class->name, node->id, a->file);
        dg_note(d, DG_NOWHERE, "it holds %d tensor%s%s%s", a->n, dg_plural(a->n, "s"),
                a->n ? ", the first is " : "", a->n ? a->entries[0].name : "");
        dg_help(d, "names are those of the reference, with or without their first part \"%s.\"",
                node->class->reference ? node->class->reference : "");
        return -DG_EINPUT;
    }
    if (c->frozen) {
        dg_fail(d, DG_EINPUT, node->pretrained_where, "pretrained-frozen",
                "%d frozen tensor%s not in %s and would keep random values for ever: %s", c->frozen,
                c->frozen == 1 ? " is" : "s are", a->file, c->frozen_names.s);
        dg_help(d, "take weights of this model, or freeze less");
        return -DG_EINPUT;
    }
    if (c->shapes)
        dg_warn(d, node->pretrained_where, "pretrained-shape",
                "%d tensor%s initial values, the shape differs: %s", c->shapes, keep(c->shapes),
                c->shape_names.s);
    report_rows(c->rows, node->pretrained_where, d);
    if (c->missing)
        dg_warn(d, node->pretrained_where, "pretrained-missing",
                "%d tensor%s initial values, missing in %s: %s", c->missing, keep(c->missing),
                a->file, c->missing_names.s);
    return 0;
}

static int read_part(dg_archive **a, dg_store *s, const dg_node *node, mismatch *c, dg_diag *d)
{
    int rc;

    DG_TRY(dg_archive_open(a, node->pretrained, d));
    DG_TRY(dg_archive_translate(*a, dg_weight_names_of_params(s->params), d));
    DG_TRY(load_part(s, node, *a, c, d));
out:
    return rc;
}

int dg_weights_pretrained(dg_store *s, const dg_node *node, const dg_env *env, dg_diag *d)
{
    dg_archive *a = NULL;
    mismatch c = { 0 };
    int rc = read_part(&a, s, node, &c, d), unused;

    if (rc < 0) {
        dg_note(d, node->pretrained_where, "<%s id=\"%s\"> asks for it", node->class->name,
                node->id);
        goto out;
    }
    unused = a->n;
    for (int i = 0; i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);

        if (p->where.node && strcmp(p->where.node, node->path) == 0 && find_entry(a, node, p->name))
            unused--;
    }
    dg_log_line(
        env, DG_INFO,
        "%s: %d of %d tensor%s from %s%s%s; %d missing, %d of another shape, %d of the file unused",
        node->path, c.loaded, c.n, dg_plural(c.n, "s"), node->pretrained, a->part ? ", its " : "",
        a->part ? a->part : "", c.missing, c.shapes, unused);
    DG_TRY(report_mismatch(node, a, &c, d));
out:
    dg_str_free(&c.missing_names);
    dg_str_free(&c.shape_names);
    dg_str_free(&c.frozen_names);
    dg_archive_close(&a);
    return rc;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* A view of the space for the host: the memory itself, or a copy from the device. */
static int host_view(const dg_store *s, dg_space space, const void **view, void **copy, dg_diag *d)
{
    int64_t n = space == DG_WEIGHTS || space == DG_EMA ? dg_params_elements(s->params)
                                                       : dg_params_trainable(s->params);
    size_t bytes = (size_t)n * dg_dtype_size(s->base);
    int rc;

    *copy = NULL;
    *view = s->space[space];
    if (s->backend->immediate)
        return 0;
    *view = *copy = dg_try_alloc(bytes);
    if (!*copy)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "memory-parameters",
                       "no memory to copy %s from the device", dg_space_name(space));
    rc = s->backend->download(s->backend, DG_LANE_COMPUTE, *copy, s->space[space], bytes);
    return rc < 0 ? dg_fail(d, (dg_code)-rc, DG_NOWHERE, "device-copy",
                            "the device refused to copy %s", dg_space_name(space))
                  : 0;
}

static dg_out_entry entry_of(const dg_store *s, const dg_param_info *p, const void *view)
{
    return (dg_out_entry){
        .name = p->name,
        .type = s->base == DG_F64 ? DG_ST_F64 : DG_ST_F32,
        .shape = p->shape,
        .data = (const char *)view + (size_t)p->offset * dg_dtype_size(s->base),
        .from = s->base,
    };
}

static dg_out_entry export_of(const dg_param_info *p, const int64_t *counter)
{
    static const dg_stored types[DG_N_DTYPES] = {
        [DG_REAL] = DG_ST_F32,
        [DG_F32] = DG_ST_F32,
        [DG_F64] = DG_ST_F64,
        [DG_I64] = DG_ST_I64,
        /* the reference's only bytes are masks */
        [DG_I32] = DG_ST_I64,
        [DG_BF16] = DG_ST_F32,
        [DG_U8] = DG_ST_BOOL,
    };

    if (p->kind == DG_EXPORT_COUNTER)
        return (dg_out_entry){
            .name = p->name, .type = DG_ST_I64, .shape = p->shape, .data = counter, .from = DG_I64
        };
    return (dg_out_entry){ .name = p->name,
                           .type = types[p->stored],
                           .shape = p->shape,
                           .data = p->values,
                           .from = DG_F64 };
}

/* Piece k of n of a tensor along axis 0, which is contiguous. */
static dg_out_entry piece_of(const dg_out_entry *e, const char *name, int k, int n)
{
    dg_out_entry p = *e;
    size_t bytes = (size_t)dg_shape_elements(e->shape) * dg_dtype_size(e->from);

    p.name = name;
    if (n > 1) {
        p.shape.d[0] /= n;
        p.data = (const char *)e->data + bytes / (size_t)n * (size_t)k;
    }
    return p;
}

int dg_weights_export(const dg_store *s, dg_space space, const char *file, dg_export *how,
                      dg_diag *d)
{
    const dg_weight_names *own = dg_weight_names_of_params(s->params);
    dg_arena *a = dg_arena_open();
    dg_out_entry *e = DG_NEW_N(a, dg_params_n(s->params) * DG_MOST_PIECES + 1, dg_out_entry);
    int64_t counter = space == DG_WEIGHTS ? s->counter : 0;
    const void *view;
    void *copy = NULL;
    int n = 0, rc;

    how->n_left = 0;
    DG_TRY(host_view(s, space, &view, &copy, d));
    for (int i = 0; i < dg_params_n(s->params); i++) {
        const dg_param_info *p = dg_params_at(s->params, i);
        dg_spelling said = dg_weight_names_spell(how->to, own, p->name, a);
        dg_out_entry one = p->offset >= 0 ? entry_of(s, p, view) : export_of(p, &counter);

        if (!said.n || (how->n_layers >= 0 && said.layer >= how->n_layers)) {
            how->n_left++;
            continue;
        }
        for (int k = 0; k < said.n; k++)
            e[n++] = piece_of(&one, said.names[k], k, said.n);
    }
    DG_TRY(dg_safetensors_write(file, e, n, how->meta, &how->checksum, d));
out:
    dg_free(copy);
    dg_arena_close(&a);
    return rc;
}

int dg_weights_save(const dg_store *s, dg_space space, const char *file, const char *const *meta,
                    uint64_t *checksum, dg_diag *d)
{
    dg_export how = { .to = dg_weight_names_of_params(s->params), .n_layers = -1, .meta = meta };
    int rc = dg_weights_export(s, space, file, &how, d);

    if (checksum)
        *checksum = how.checksum;
    return rc;
}

int dg_moments_save(const dg_store *s, const char *file, uint64_t *checksum, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_out_entry *e = DG_NEW_N(a, 2 * dg_params_n(s->params) + 1, dg_out_entry);
    const void *view[2];
    void *copy[2] = { NULL, NULL };
    int n = 0, rc;

    for (int k = 0; k < 2; k++)
        DG_TRY(host_view(s, k ? DG_MOMENT2 : DG_MOMENT1, &view[k], &copy[k], d));
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < dg_params_n(s->params); i++) {
            const dg_param_info *p = dg_params_at(s->params, i);

            if (p->kind != DG_TRAINABLE)
                continue;
            e[n] = entry_of(s, p, view[k]);
            e[n++].name = dg_printf(a, "moment%d.%s", k + 1, p->name);
        }
    DG_TRY(dg_safetensors_write(file, e, n, NULL, checksum, d));
out:
    dg_free(copy[0]);
    dg_free(copy[1]);
    dg_arena_close(&a);
    return rc;
}
