/* fixture.h: a parity fixture and the run that is compared with it. */
#ifndef TESTS_PARITY_FIXTURE_H
#define TESTS_PARITY_FIXTURE_H

#include "base/arena.h"
#include "media/json.h"
#include "tests/parity/report.h"
#include <detrgraph/run.h>

typedef enum precision { F32, F64, BF16 } precision;

typedef struct settings {
    const char *pipelines; /* folder */
    precision precision;
    bool reference; /* reference kernels */
    int threads;
    bool parts; /* the file holds a part of the forward pass */
    bool verbose;
} settings;

typedef struct fixture {
    const settings *set;
    dg_arena *arena;
    const dg_json *root;
    report *report;
    dg_diag *d;
    dg_run *run;
    int64_t batch, h, w, classes, n_queries;
    bool
        normalized; /* RF-DETR: images are as its network wants them, the backbone must not do it */
    bool codetr;
    bool other_order;            /* Co-DETR: of regions, because proposals changed places */
    int64_t slots;               /* Co-DETR: of objects in an image */
    int64_t n_dn, capacity;      /* live denoising queries, and room for them */
    int64_t n_groups_of_queries; /* RF-DETR */
    int64_t *
        rank; /* [B,Q]: our place of the query that the fixture has at this place; NULL: the same */
    int n_groups; /* learning rates to use; 0: the pipeline's own */
    int n_own;    /* of the pipeline */
    double lr[DG_MAX_GROUPS], own_lr[DG_MAX_GROUPS];
    double rate; /* the pipeline's own rates times this; 0: as they are */
} fixture;

/* Opens the preset that the fixture names, sized for it, with the formula's weights and
 * statistics. */
int fixture_open(fixture *f, const settings *set, const char *file, dg_diag *d) DG_MUST_USE;
void fixture_close(fixture *f);

/* A bound of the fixture's precision: f64, f32; bf16 is not judged. */
double fixture_bound(const fixture *f, double f64, double f32);

/* Inputs; draws: "label_mask", "new_label", "sign", "mag" of the denoising node. */
/* The one batch's images. RT-DETR's have one name, RF-DETR's a name each. */
int fixture_feed_images(fixture *f, const dg_json *names) DG_MUST_USE;
/* The same of size f->h x f->w, resized to the program's square side: bilinear, without
 * antialiasing. */
int fixture_feed_resized(fixture *f, const dg_json *names, int64_t side) DG_MUST_USE;
const dg_json *fixture_images(const fixture *f);
int fixture_feed_targets(fixture *f, const dg_json *targets) DG_MUST_USE;
/* Segmentation: the ellipses that are target masks; checks their pixels against mask_pixels. */
int fixture_feed_masks(fixture *f, const dg_json *targets) DG_MUST_USE;
/* Segmentation: the formula's points, in the places that the fixture's pairs have with us. */
int fixture_feed_points(fixture *f, const dg_json *matches) DG_MUST_USE;
/* Name of the run's assignment of a set: "main", "aux_0" and "enc" are match, match_0 and
 * match_enc. */
const char *fixture_match_name(const fixture *f, const char *key);
/* The formula's draws; boxes: and the fixture's own boxes, which are rounded to single
 * precision. */
int fixture_feed_draws(fixture *f, const dg_json *denoising, bool boxes) DG_MUST_USE;
/* Compares labels, boxes and pairs of the queries that were made. */
int fixture_check_denoising(fixture *f, const dg_json *denoising) DG_MUST_USE;

/* Where the fixture has one image: imitates what its library got wrong there (misread.c). */
void fixture_misread(fixture *f);

/* A value of the current program by name, or NULL; belongs to the arena. */
double *fixture_read(fixture *f, const char *name, dg_shape *shape);
int32_t *fixture_read_i32(fixture *f, const char *name, dg_shape *shape);

/* How our layout differs from the fixture's: not at all (parameters); maps are channels-last
 * (other values keep their
 * layout); rows of selected queries stand at `rank`; denoising rows have void ones behind them;
 * both kinds in one. */
typedef enum layout { AS_STORED, MAPS, SELECTED, DENOISING, QUERIES } layout;
/* Compares the norm and the samples of a summary with ours: errors over l2 / sqrt(n). */
void fixture_compare(fixture *f, const char *group, const char *name, const dg_json *expected,
                     const double *ours, dg_shape shape, layout kind, double bound);
/* What is read until fixture_forget is forgotten then. */
dg_arena *fixture_remember(fixture *f);
void fixture_forget(fixture *f, dg_arena *all);
/* Makes rank from enc_topk_indices or topk_first8 and reports tokens that differ. Tokens whose
 * anchor lies outside are all alike: one may stand for another. */
int fixture_match_ranks(fixture *f, const dg_json *expected) DG_MUST_USE;
/* moved: how many assignments differ, in part perhaps only by neighbours in rank that changed
 * places. */
int fixture_check_matches(fixture *f, const dg_json *matches, const dg_json *tokens, int *moved)
    DG_MUST_USE;
/* The same of RF-DETR, whose queries are in groups and must have the fixture's order. */
int fixture_check_groups(fixture *f, const dg_json *expected) DG_MUST_USE;
int fixture_check_group_matches(fixture *f, const dg_json *matches) DG_MUST_USE;
/* fixture_read of what a run has under another name, or in parts. */
double *fixture_read_named(fixture *f, const char *name, dg_shape *shape);
/* True for values that the engine does not compute in a step: the reference needs not either. */
bool fixture_lacks(const fixture *f, const char *name, bool training);
int fixture_check_losses(fixture *f, const dg_json *step, double total_bound, double term_bound)
    DG_MUST_USE;
/* The terms alone. */
void fixture_check_terms(fixture *f, const dg_json *losses, double bound);
double fixture_relative(double ours, double want);

int fixture_train_step(fixture *f) DG_MUST_USE;
int fixture_eval(fixture *f) DG_MUST_USE;
int fixture_trace(fixture *f) DG_MUST_USE;
int fixture_trace_groups(fixture *f) DG_MUST_USE; /* RF-DETR's */

#endif
