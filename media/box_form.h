/* box_form.h: recognizes boxes whose four numbers mean something else than the reader took them
 * for: shares of the image, corners, a centre. */
#ifndef DG_MEDIA_BOX_FORM_H
#define DG_MEDIA_BOX_FORM_H

#include "base/arena.h"
#include "media/coco.h"

typedef enum dg_box_form {
    DG_BOX_LEFT_TOP, /* left, top, width, height: COCO */
    DG_BOX_CENTRE,   /* centre x, centre y, width, height: YOLO */
    DG_BOX_CORNERS,  /* left, top, right, bottom: VOC */
    DG_N_BOX_FORMS
} dg_box_form;

/* Counts of boxes, crowd regions left out. */
typedef struct dg_box_forms {
    dg_box_form written;          /* the form that the file is defined to have */
    int64_t n;                    /* boxes */
    int64_t tiny;                 /* below 1.5 px at all sides, in images of 8 px and more */
    int64_t fits[DG_N_BOX_FORMS]; /* boxes inside their image if they are read like this */
} dg_box_forms;

/* Counts a box as it was read; w, h: the image's size, nothing is counted below 1. */
void dg_box_forms_add(dg_box_forms *f, const dg_coco_annotation *x, int w, int h);

/* What files of this form ("coco", "loader.yolo") are defined to have. */
dg_box_form dg_box_form_of(const char *form);

typedef struct dg_box_verdict {
    bool normalized;  /* all boxes are tiny */
    const char *text; /* "17 of 28 boxes reach outside ...", NULL: the form is what it should be */
} dg_box_verdict;

/* The text lies in the arena. Boxes look like another form if a fifth or more of them reach outside
 * their images by more than a pixel, and read like that at most one in fifty does. */
dg_box_verdict dg_box_forms_judge(const dg_box_forms *f, dg_arena *a);

#endif
