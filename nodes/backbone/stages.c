/* stages.c: see stages.h. */
#include "nodes/backbone/stages.h"

const char *const dg_stages_keys[DG_STAGES] = { "c2", "c3", "c4", "c5" };

const dg_port dg_stages_ports[] = {
    DG_IN("in", "f[B,H,W,3]", "images, RGB from 0 to 1"),
    DG_IN_OPTIONAL("sizes", "i[B,2]",
                   "height and width of each image in its canvas, in pixels; if omitted, images "
                   "fill it"),
    DG_OUT("out", "{c2:f[B,H4,W4,C2],c3:f[B,H8,W8,C3],c4:f[B,H16,W16,C4],c5:f[B,H32,W32,C5]}",
           "features of the four stages, at strides 4, 8, 16 and 32"),
    { 0 },
};
