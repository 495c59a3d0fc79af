/* box_form.c: see box_form.h. */
#include "media/box_form.h"

#include <string.h>

#include "base/str.h"

static const double small = 1.5; /* px */
static const double slack = 1;   /* px that a box may reach outside its image */
enum { LEAST_SIDE = 8, LEAST_BOXES = 4, MANY_OUTSIDE = 8 };

static bool fits(double left, double top, double right, double bottom, int w, int h)
{
    return left >= -slack && top >= -slack && right <= w + slack && bottom <= h + slack &&
           right > left && bottom > top;
}

dg_box_form dg_box_form_of(const char *form)
{
    const char *name = strrchr(form, '.');

    name = name ? name + 1 : form;
    if (strcmp(name, "yolo") == 0)
        return DG_BOX_CENTRE;
    return strcmp(name, "voc") == 0 || strcmp(name, "labelme") == 0 || strcmp(name, "cvat") == 0
               ? DG_BOX_CORNERS
               : DG_BOX_LEFT_TOP; /* of a .csv file the names of the columns say it */
}

void dg_box_forms_add(dg_box_forms *f, const dg_coco_annotation *x, int w, int h)
{
    /* the four numbers of the file */
    double a = x->x, b = x->y, c = x->w, d = x->h;

    if (x->crowd || w < 1 || h < 1)
        return;
    if (f->written == DG_BOX_CENTRE) {
        a += c / 2;
        b += d / 2;
    } else if (f->written == DG_BOX_CORNERS) {
        c += a;
        d += b;
    }
    f->n++;
    f->tiny +=
        w >= LEAST_SIDE && h >= LEAST_SIDE && a < small && b < small && c < small && d < small;
    f->fits[DG_BOX_LEFT_TOP] += fits(a, b, a + c, b + d, w, h);
    f->fits[DG_BOX_CENTRE] += fits(a - c / 2, b - d / 2, a + c / 2, b + d / 2, w, h);
    f->fits[DG_BOX_CORNERS] += fits(a, b, c, d, w, h);
}

dg_box_verdict dg_box_forms_judge(const dg_box_forms *f, dg_arena *a)
{
    static const char *const names[DG_N_BOX_FORMS] = {
        [DG_BOX_LEFT_TOP] = "left, top, width, height",
        [DG_BOX_CENTRE] = "centre x, centre y, width, height",
        [DG_BOX_CORNERS] = "left, top, right, bottom",
    };
    int64_t outside = f->n - f->fits[f->written];
    dg_box_form like = f->written;
    dg_box_verdict v = { 0 };

    if (f->n > 0 && f->tiny == f->n) {
        v.normalized = true;
        v.text = dg_printf(a,
                           "%lld of %lld boxes are below %g px at every side: they look like "
                           "shares of the image",
                           (long long)f->tiny, (long long)f->n, small);
        return v;
    }
    /* objects in the middle of their images stay inside in other forms, too: many tell more */
    if (f->n < LEAST_BOXES || outside * (outside < MANY_OUTSIDE ? 5 : 10) < f->n)
        return v;
    for (int k = 0; k < DG_N_BOX_FORMS; k++)
        if (f->fits[k] > f->fits[like])
            like = (dg_box_form)k;
    if (like != f->written && f->fits[like] * 50 >= f->n * 49)
        v.text = dg_printf(a,
                           "%lld of %lld boxes reach outside their image; read as %s, %lld do: "
                           "write %s",
                           (long long)outside, (long long)f->n, names[like],
                           (long long)(f->n - f->fits[like]), names[f->written]);
    return v;
}
