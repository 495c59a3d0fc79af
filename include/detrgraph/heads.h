/* heads.h: ops for detectors with anchors and regions: boxes on grids, assignment of objects,
 * random samples of fixed capacity, suppression, features of regions, and their losses. Part of the
 * builder (op.h).
 *
 * Boxes are (cx, cy, w, h); here in pixels of the canvas. No size depends on the data: lists have a
 * fixed capacity, and unused entries are -1. */
#ifndef DETRGRAPH_HEADS_H
#define DETRGRAPH_HEADS_H

#include <detrgraph/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- boxes ----------------------------------------------------------------------------------- */

/* Boxes around the corners of cells: for each level, row, column, ratio (of height to width) and
 * octave one of the area (stride * base * 2^(octave / octaves))^2, with its centre at (column *
 * stride, row * stride). */
enum { DG_MAX_RATIOS = 3 };
typedef struct dg_anchor_attr {
    int64_t n_levels, h[DG_MAX_LEVELS], w[DG_MAX_LEVELS], stride[DG_MAX_LEVELS];
    int64_t ratios, octaves;
    double base, ratio[DG_MAX_RATIOS];
} dg_anchor_attr;
typedef struct dg_anchor_boxes {
    dg_val boxes; /* [N,4] */
    dg_val valid; /* i32 [B,N]: 1 where the cell is one of the image's own ceil(size / stride) */
} dg_anchor_boxes;
/* size i32 [B,2]: height and width of each image in the canvas. No gradient. */
DG_PUBLIC dg_anchor_boxes dg_anchor_grid(dg_build *b, dg_val size, const dg_anchor_attr *attr);

/* y = (cx + dx s w, cy + dy s w, w exp(clamp(t dw)), h exp(clamp(t dh))), clamped to +-limit */
typedef struct dg_delta_attr {
    double centre_std, side_std, limit; /* s, t and, by Girshick et al. 2014, log(1000 / 16) */
} dg_delta_attr;
/* deltas, boxes [..,4] -> [..,4]; gradient to the deltas alone, none where a side is clamped */
DG_PUBLIC dg_val dg_delta_decode(dg_build *b, dg_val deltas, dg_val boxes,
                                 const dg_delta_attr *attr);

/* ---- assignment: which object a box belongs to; no gradient ---------------------------------- */

/* Targets as in op.h, but boxes [B,M,4] in pixels. Results are i32 [B,N]: an object's number, or */
enum {
    DG_ASSIGNED_NONE = -1,   /* negative */
    DG_ASSIGNED_VOID = -2,   /* neither positive nor negative, or not a box */
    DG_ASSIGNED_ABSENT = -3, /* in lists of rows: past their end */
};

typedef struct dg_assign_attr {
    double positive, negative; /* IoU from which on a box is positive, below which negative */
    /* the boxes that overlap an object most are its own from this IoU on; above 1: never */
    double low_quality;
    double tie;       /* IoUs that differ by no more count as equal: targets are rounded */
    int64_t own_rows; /* 1: box j of the first M is object j itself, whatever it overlaps */
} dg_assign_attr;
/* boxes [N,4] or [B,N,4]; valid i32 [B,N] or DG_NONE. A box gets the object that it overlaps most,
 * on ties the first; a box that is the best one of several objects gets the last of them. */
DG_PUBLIC dg_val dg_iou_assign(dg_build *b, dg_val boxes, dg_val valid, dg_val tboxes, dg_val count,
                               const dg_assign_attr *attr);

typedef struct dg_atss_attr {
    int64_t n_levels, n[DG_MAX_LEVELS]; /* boxes of each level */
    int64_t nearest;                    /* candidates of each level, 9; at most 32 */
} dg_atss_attr;
typedef struct dg_atss {
    dg_val gt;         /* i32 [B,N] */
    dg_val threshold;  /* [B,M] IoU from which on a candidate is positive; 0: no object */
    dg_val centerness; /* [B,N] of the positives' centres in their objects; else 0 */
} dg_atss;
/* Zhang et al. 2020 (ATSS): candidates are the valid boxes whose centres are nearest to the
 * object's, ties by the lower number; the threshold is mean + unbiased deviation of their IoUs.
 * boxes [N,4], valid i32 [B,N]. */
DG_PUBLIC dg_atss dg_atss_assign(dg_build *b, dg_val boxes, dg_val valid, dg_val tboxes,
                                 dg_val count, const dg_atss_attr *attr);

/* ---- samples and lists; no gradient ---------------------------------------------------------- */

typedef struct dg_sample_attr {
    int64_t n;    /* rows wanted, positives and negatives */
    int64_t most; /* positives at most */
} dg_sample_attr;
typedef struct dg_row_list {
    dg_val row;   /* i32 [B,n] */
    dg_val count; /* i32 [B,2]: positives, negatives; of nms [B] */
} dg_row_list;
/* Of each image at most `most` positives (gt >= 0), and negatives (DG_ASSIGNED_NONE) up to n rows
 * in all: those with the least keys, [B,N] each. Listed by number: positives, negatives, -1. */
DG_PUBLIC dg_row_list dg_sample_rows(dg_build *b, dg_val gt, dg_val positive_key,
                                     dg_val negative_key, const dg_sample_attr *attr);

typedef struct dg_query_attr {
    int64_t capacity, least;
} dg_query_attr;
typedef struct dg_query_rows_of {
    dg_val row;       /* i32 [B,capacity] */
    dg_val query, gt; /* i32 [B,capacity]: pairs as in op.h; -1 for fillers */
    dg_val dn;        /* i32 [4]: n, 1, n, capacity: one group, for dg_attention */
} dg_query_rows_of;
/* Rows of gt [B,R] as decoder queries: n is the largest number of positives of an image, at least
 * `least` and at most `capacity`. An image lists its positives by number (if there are more than n:
 * the n with the least keys, by key), then others by key. An image's rows end before its first
 * DG_ASSIGNED_ABSENT; of every image only as many rows take part as the shortest has. */
DG_PUBLIC dg_query_rows_of dg_query_rows(dg_build *b, dg_val gt, dg_val positive_key,
                                         dg_val other_key, const dg_query_attr *attr);

typedef struct dg_level_topk_attr {
    int64_t n_levels, n[DG_MAX_LEVELS], k;
} dg_level_topk_attr;
/* x [B, sum of n] -> i32 [B, sum of min(n, k)]: for each level the k largest, descending, ties by
 * the lower index, NaN last */
DG_PUBLIC dg_val dg_level_topk(dg_build *b, dg_val x, const dg_level_topk_attr *attr);

/* x i32 [B,S], index i32 [B,Q] -> [B,Q]. `missing` where an index is -1, or S or more; an index
 * below -1 is copied, so labels of void rows stay negative. */
DG_PUBLIC dg_val dg_pick_i32(dg_build *b, dg_val x, dg_val index, int64_t missing);

typedef struct dg_nms_attr {
    int64_t n;    /* rows to keep */
    double iou;   /* hard: drop what overlaps a better box more; soft: lower from here on */
    double least; /* soft: drop lower scores */
} dg_nms_attr;
/* Greedy suppression among boxes [B,N,4] of one group (i32 [B,N], a class or a level) by score
 * [B,N], descending, ties by the lower number. Boxes with a score of minus infinity or NaN, or
 * without an area, are ignored. */
DG_PUBLIC dg_row_list dg_nms(dg_build *b, dg_val boxes, dg_val score, dg_val group,
                             const dg_nms_attr *attr);
typedef struct dg_soft_rows {
    dg_val row, score; /* i32 [B,n], [B,n]; -1, 0 past the count */
    dg_val count;      /* i32 [B] */
} dg_soft_rows;
/* Bodla et al. 2017, linear: the best box is kept, and the others of its group that overlap it by
 * `iou` or more have their scores multiplied by 1 - IoU; this repeats until n are kept. Boxes
 * without an area are not ignored here. */
DG_PUBLIC dg_soft_rows dg_soft_nms(dg_build *b, dg_val boxes, dg_val score, dg_val group,
                                   const dg_nms_attr *attr);

/* ---- features of regions --------------------------------------------------------------------- */

typedef struct dg_roi_attr {
    int64_t size;  /* cells of a side, 7 */
    double finest; /* regions of this side are on the border of levels 0 and 1 */
    int64_t n_levels, stride[DG_MAX_LEVELS];
    int64_t level, h, w; /* of a gradient; else 0 */
} dg_roi_attr;
/* RoIAlign (He et al. 2017), shifted by half a pixel: rois [B,R,4], maps [B,H,W,C] of all levels ->
 * [B,R,C*size*size], in the order channel, row, column. A region is taken from the level
 * floor(log2(sqrt(area) / finest + 1e-6)), clamped; a cell averages ceil(side / size) samples along
 * each axis. A region without an area gives zeros. Gradient to the maps. */
DG_PUBLIC dg_val dg_roi_align(dg_build *b, dg_val rois, int n, const dg_val maps[],
                              const dg_roi_attr *attr);

/* ---- losses: sums, [] ------------------------------------------------------------------------ */

typedef struct dg_focal_attr {
    double alpha, gamma;
} dg_focal_attr;
/* Focal loss (Lin et al. 2017) of every logit: logits [..,C], label i32 [..]; a label of C or more
 * has no class, a row with a negative one is void. */
DG_PUBLIC dg_val dg_focal_loss(dg_build *b, dg_val logits, dg_val label, const dg_focal_attr *attr);
/* sum w (-t log sigmoid(x) - (1-t) log(1 - sigmoid(x))), all of one shape; gradient to x alone */
DG_PUBLIC dg_val dg_logistic_loss(dg_build *b, dg_val x, dg_val t, dg_val w);
typedef struct dg_entropy {
    dg_val loss;
    dg_val right; /* i32 []: rows whose largest logit is the label's */
} dg_entropy;
/* -log softmax(logits)[label]: logits [..,C], label i32 [..]; rows with another label are void */
DG_PUBLIC dg_entropy dg_cross_entropy(dg_build *b, dg_val logits, dg_val label);
/* sum w (1 - GIoU) of boxes and targets [..,4] with w [..]; areas of union and hull are at least
 * eps. Gradient to the boxes alone. */
DG_PUBLIC dg_val dg_giou_loss(dg_build *b, dg_val boxes, dg_val tboxes, dg_val w, double eps);

#ifdef __cplusplus
}
#endif
#endif
