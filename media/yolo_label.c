/* yolo_label.c: parses the lines of a label file.
 *
 *   CLASS CX CY W H                  fractions of the image's width and height
 *   CLASS X1 Y1 X2 Y2 X3 Y3 ...      a polygon; its bounding box is taken
 *   CLASS CX CY W H X1 Y1 V1 ...     with n_points keypoint numbers, skipped */
#include "media/yolo.h"

#include <math.h>
#include <string.h>

#include "base/str.h"

enum { WORD_MAX = 63, FAR = 10 }; /* coordinates beyond FAR image sides must be pixels */

typedef struct line {
    const char *name;
    int number, n, n_points; /* n: coordinates read so far */
    double first[4], lo[2], hi[2];
    DG_VEC(double) xy; /* in the caller's arena */
    dg_diag *d;
} line;

static int refuse(const line *l, const char *fmt, ...) DG_PRINTF(2, 3);
static int refuse(const line *l, const char *fmt, ...)
{
    dg_str text = { 0 };
    va_list ap;
    int rc;

    va_start(ap, fmt);
    dg_str_vfmt(&text, fmt, ap);
    va_end(ap);
    rc = dg_fail(l->d, DG_EINPUT, (dg_where){ l->name, l->number, 0, NULL }, "yolo-label", "%s",
                 text.s);
    dg_str_free(&text);
    return rc;
}

/* Reads the next word of p as a number; the remainder in *rest. */
static int take_number(const line *l, double *out, const char *p, const char *end,
                       const char **rest)
{
    char word[WORD_MAX + 1];
    size_t n = 0;

    while (p < end && !memchr(" \t\r", *p, 3)) {
        if (n < WORD_MAX)
            word[n++] = *p;
        p++;
    }
    word[n] = '\0';
    while (p < end && memchr(" \t\r", *p, 3))
        p++;
    *rest = p;
    if (!dg_parse_f64(word, out) || !isfinite(*out))
        return refuse(l, "\"%s\" is no number", word);
    return 0;
}

static int take_coordinate(dg_arena *a, line *l, double v)
{
    int axis = l->n % 2;

    if (fabs(v) > FAR) {
        refuse(l, "the coordinate %g is not a share of the image's side", v);
        dg_help(l->d, "these are pixels: divide them by the image's width and height");
        return -DG_EINPUT;
    }
    if (l->n < 4)
        l->first[l->n] = v;
    l->lo[axis] = l->n < 2 ? v : fmin(l->lo[axis], v);
    l->hi[axis] = l->n < 2 ? v : fmax(l->hi[axis], v);
    l->n++;
    DG_PUSH(a, l->xy, v);
    return 0;
}

/* Reads one line that is not empty. */
static int take_line(dg_yolo_labels *out, dg_arena *a, line *l, const char *p, const char *end)
{
    dg_yolo_label x = { .line = l->number };
    double v;
    int rc;

    DG_TRY(take_number(l, &v, p, end, &p));
    if (v != floor(v) || v < 0 || v > INT16_MAX)
        return refuse(l, "the class is %g, expected its number, from 0", v);
    x.label = (int)v;
    l->xy.n = 0;
    for (l->n = 0; p < end;) {
        DG_TRY(take_number(l, &v, p, end, &p));
        if (l->n_points && l->n >= 4) /* a keypoint's number */
            l->n++;
        else
            DG_TRY(take_coordinate(a, l, v));
    }
    if (l->n_points && l->n != 4 + l->n_points)
        return refuse(
            l, "%d number%s behind the class, expected 4 (centre and sides) and %d of keypoints",
            l->n, dg_plural(l->n, "s"), l->n_points);
    if (l->n == 4 + l->n_points) {
        x.cx = l->first[0];
        x.cy = l->first[1];
        x.w = l->first[2];
        x.h = l->first[3];
    } else if (l->n >= 6 && l->n % 2 == 0) {
        x.cx = (l->lo[0] + l->hi[0]) / 2;
        x.cy = (l->lo[1] + l->hi[1]) / 2;
        x.w = l->hi[0] - l->lo[0];
        x.h = l->hi[1] - l->lo[1];
        x.n_points = l->n / 2;
        x.xy = dg_memdup(a, l->xy.items, (size_t)l->n * sizeof *x.xy);
    } else {
        return refuse(
            l, "%d number%s behind the class, expected 4 (centre and sides), or 3 or more points",
            l->n, dg_plural(l->n, "s"));
    }
    DG_PUSH(a, out->of, x);
out:
    return rc;
}

int dg_yolo_parse(dg_yolo_labels *out, dg_arena *a, const char *text, size_t n, int n_points,
                  const char *name, dg_diag *d)
{
    const char *end = text + n;
    line l = { .name = name, .n_points = n_points, .d = d };
    int rc = 0;

    *out = (dg_yolo_labels){ 0 };
    if (n >= 3)
        text += dg_mark_bytes(text);
    while (text < end && rc == 0) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        const char *last = stop ? stop : end;

        l.number++;
        while (text < last && memchr(" \t\r", *text, 3))
            text++;
        if (text < last)
            rc = take_line(out, a, &l, text, last);
        text = last + 1;
    }
    return rc;
}
