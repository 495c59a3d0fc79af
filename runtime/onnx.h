/* onnx.h: a pipeline's evaluation as an ONNX file that other programs run. */
#ifndef DG_RUNTIME_ONNX_H
#define DG_RUNTIME_ONNX_H

#include "runtime/session.h"

enum { DG_ONNX_OPSET = 17 };

/* The program of the first <evaluate> at its largest image size, with the weights of space. Input: images
 * [N,3,H,W], RGB from 0 to 1, any number N of them. Outputs: what the evaluation takes (labels, scores, boxes as cx, cy,
 * w, h over the sides) and, from before <detect>, logits and pred_boxes. An op without a form in ONNX is an error that
 * names its node. Ends the use of run: its program has been changed. */
int dg_onnx_write(dg_run *run, dg_space space, const char *file, dg_diag *d) DG_MUST_USE;

#endif
