/* onnx.h: exports a pipeline's evaluation as an ONNX file. */
#ifndef DG_WEIGHTS_ONNX_H
#define DG_WEIGHTS_ONNX_H

#include "exec/store.h"
#include "graph/graph.h"

enum { DG_ONNX_OPSET = 17 };

typedef struct dg_onnx_source {
    const dg_graph *graph;
    dg_program *program; /* of its first <evaluate>, at its largest image size; modified */
    dg_size size;        /* that size */
    dg_params *params;   /* of the programs, sealed */
    const dg_store *store;
    dg_space space;       /* the space to take weights from */
    const char *versions; /* versions of the exporting program */
    int n_names;          /* names of the classes; 0: unknown */
    const char *const *names;
    double threshold; /* proposed least score; negative: unknown */
    bool half;        /* store the parameters as 16-bit floats */
    bool free_size;   /* height and width of images are free, in multiples of 32 */
} dg_onnx_source;

/* Input: images [N,3,H,W], RGB from 0 to 1, any N. Outputs: the inputs of the evaluation (labels,
 * scores, boxes as cx, cy, w, h in fractions of the sides) and, from before <detect>, logits and
 * pred_boxes. Metadata: names, size, input, boxes, threshold. An op without a form in ONNX is an
 * error that names its node; so is, for half, a number beyond 65504 ("onnx-half"), for free_size a
 * model that is not the same for all sizes ("onnx-size"), and a pipeline without <evaluate>, for
 * which program may be NULL. */
int dg_onnx_write(const dg_onnx_source *from, const char *file, dg_diag *d) DG_MUST_USE;

#endif
