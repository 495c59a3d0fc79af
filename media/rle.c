/* rle.c: masks as run lengths, COCO's form, and from polygons. The order of pixels is column by
 * column; runs are of 0 and 1 in turn, and the first is of 0.
 *
 * A polygon's pixels are those of the official tools: the boundary is drawn five times as fine,
 * as in Bresenham's algorithm; where it steps from one column's centre to the next it crosses a
 * row, and between two crossings of a column, in ascending order, pixels are inside. */
#include "media/rle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* ---- run lengths ----------------------------------------------------------------------------- */

static int no_memory_for_mask(dg_diag *d, int w, int h)
{
    return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "image-memory",
                   "no memory for a mask of %d x %d pixels", w, h);
}

void dg_rle_free(dg_rle *r)
{
    free(r->runs);
    *r = (dg_rle){ 0 };
}

int dg_columns_encode(dg_rle *out, const dg_columns *c, dg_diag *d)
{
    const size_t all = (size_t)c->w * (size_t)c->h;
    int64_t n = 1;

    for (size_t i = 0; i < all; i++)
        n += c->on[i] != (i ? c->on[i - 1] : 0);
    *out = (dg_rle){ c->w, c->h, n, malloc((size_t)n * sizeof(uint32_t)) };
    if (!out->runs)
        return no_memory_for_mask(d, c->w, c->h);
    n = 0;
    for (size_t i = 0, begin = 0; i <= all; i++)
        if (i == all || c->on[i] != (i ? c->on[i - 1] : 0)) {
            out->runs[n++] = (uint32_t)(i - begin);
            begin = i;
        }
    return 0;
}

int dg_rle_make(dg_rle *out, const dg_mask *m, dg_diag *d)
{
    dg_columns c;
    int rc;

    if (!dg_columns_open(&c, m->w, m->h))
        return no_memory_for_mask(d, m->w, m->h);
    for (int y = 0; y < m->h; y++)
        for (int x = 0; x < m->w; x++)
            c.on[(size_t)x * (size_t)m->h + (size_t)y] =
                m->on[(size_t)y * (size_t)m->w + (size_t)x] != 0;
    rc = dg_columns_encode(out, &c, d);
    dg_columns_close(&c);
    return rc;
}

void dg_rle_draw(dg_mask *out, const dg_rle *r)
{
    size_t at = 0;

    for (int64_t k = 0; k < r->n; k++)
        for (size_t end = at + r->runs[k]; at < end; at++)
            out->on[at % (size_t)r->h * (size_t)r->w + at / (size_t)r->h] = (uint8_t)(k & 1);
}

double dg_rle_area(const dg_rle *r)
{
    double n = 0;

    for (int64_t k = 1; k < r->n; k += 2)
        n += r->runs[k];
    return n;
}

double dg_rle_iou(const dg_rle *a, const dg_rle *b, bool crowd)
{
    int64_t i = 0, j = 0;
    uint32_t left_a = a->n ? a->runs[0] : 0, left_b = b->n ? b->runs[0] : 0;
    double both = 0, own = dg_rle_area(a), all = own + dg_rle_area(b);

    while (i < a->n && j < b->n) {
        uint32_t step = left_a < left_b ? left_a : left_b;

        both += i & j & 1 ? step : 0;
        left_a -= step;
        left_b -= step;
        if (!left_a && ++i < a->n)
            left_a = a->runs[i];
        if (!left_b && ++j < b->n)
            left_b = b->runs[j];
    }
    return both == 0 ? 0 : both / (crowd ? own : all - both);
}

bool dg_rle_parse(dg_rle *out, const char *text, int w, int h, bool *no_memory)
{
    const int64_t area = (int64_t)w * h;
    const size_t most = strlen(text);
    int64_t sum = 0, run = 0;
    int shift = 0;

    *out = (dg_rle){ w, h, 0, malloc((most + 1) * sizeof(uint32_t)) };
    *no_memory = !out->runs;
    for (; out->runs && *text; text++) {
        const int c = *text - '0';

        if (c < 0 || c > 63 || shift > 35)
            break;
        run |= (int64_t)(c & 31) << shift;
        shift += 5;
        if (c & 32)
            continue;
        if (c & 16)
            run -= (int64_t)1 << shift;
        if (out->n > 2)
            run += out->runs[out->n - 2];
        if (run < 0 || run > area - sum)
            break;
        out->runs[out->n++] = (uint32_t)run;
        sum += run;
        run = shift = 0;
    }
    if (out->runs && !*text && sum == area && shift == 0)
        return true;
    dg_rle_free(out);
    return false;
}

char *dg_rle_text(const dg_rle *r)
{
    enum { LONGEST = 7 }; /* characters of 33 bits */
    char *text = dg_try_alloc((size_t)r->n * LONGEST + 1), *p = text;

    for (int64_t k = 0; text && k < r->n; k++) {
        int64_t v = (int64_t)r->runs[k] - (k > 2 ? (int64_t)r->runs[k - 2] : 0);
        bool more = true;

        while (more) {
            int c = (int)(v & 31);

            v >>= 5; /* keeps the sign */
            more = c & 16 ? v != -1 : v != 0;
            *p++ = (char)((more ? c | 32 : c) + '0');
        }
    }
    if (text)
        *p = '\0';
    return text;
}

/* ---- polygons -------------------------------------------------------------------------------- */

bool dg_columns_open(dg_columns *c, int w, int h)
{
    *c = (dg_columns){ w, h, dg_try_alloc((size_t)w * (size_t)h) };
    if (c->on)
        memset(c->on, 0, (size_t)w * (size_t)h);
    return c->on != NULL;
}

void dg_columns_close(dg_columns *c)
{
    dg_free(c->on);
    c->on = NULL;
}

enum { FINE = 5 };

typedef struct outline {
    const dg_columns *c;
    dg_arena *arena;
    DG_VEC(int64_t) crossings; /* pixels, by column */
    bool begun;
    int u, v; /* the last point of the fine boundary */
} outline;

static double coarse(int fine)
{
    return (fine + 0.5) / FINE - 0.5;
}

static void add_point(outline *o, int u, int v)
{
    if (o->begun && u != o->u) {
        double x = coarse(u < o->u ? u : u - 1), y = coarse(v < o->v ? v : o->v);

        y = y < 0 ? 0 : y > o->c->h ? o->c->h : ceil(y);
        if (floor(x) == x && x >= 0 && x <= o->c->w - 1)
            DG_PUSH(o->arena, o->crossings, (int64_t)x * o->c->h + (int64_t)y);
    }
    o->begun = true;
    o->u = u;
    o->v = v;
}

/* Both ends belong to an edge; it is drawn from its lower coordinate on, whatever its direction. */
static void add_edge(outline *o, int x0, int y0, int x1, int y1)
{
    const int dx = abs(x1 - x0), dy = abs(y1 - y0), n = dx >= dy ? dx : dy;
    const bool back = dx >= dy ? x0 > x1 : y0 > y1;
    const int x = back ? x1 : x0, y = back ? y1 : y0;
    const double slope = n == 0     ? 0
                         : dx >= dy ? (double)(back ? y0 - y1 : y1 - y0) / dx
                                    : (double)(back ? x0 - x1 : x1 - x0) / dy;

    for (int i = 0; i <= n; i++) {
        const int t = back ? n - i : i;

        if (dx >= dy)
            add_point(o, x + t, (int)(y + slope * t + 0.5));
        else
            add_point(o, (int)(x + slope * t + 0.5), y + t);
    }
}

static int ascending(const void *p, const void *q)
{
    int64_t a, b;

    memcpy(&a, p, sizeof a);
    memcpy(&b, q, sizeof b);
    return (a > b) - (a < b);
}

void dg_columns_polygon(dg_columns *c, const double *xy, int n)
{
    outline o = { .c = c, .arena = dg_arena_open() };
    const int64_t all = (int64_t)c->w * c->h;

    for (int i = 0; i < n; i++) {
        const double *p = xy + 2 * i, *q = xy + 2 * ((i + 1) % n);

        add_edge(&o, (int)(FINE * p[0] + 0.5), (int)(FINE * p[1] + 0.5), (int)(FINE * q[0] + 0.5),
                 (int)(FINE * q[1] + 0.5));
    }
    if (o.crossings.n)
        qsort(o.crossings.items, (size_t)o.crossings.n, sizeof *o.crossings.items, ascending);
    for (int64_t i = 0; i < o.crossings.n; i += 2) {
        const int64_t from = o.crossings.items[i],
                      to = i + 1 < o.crossings.n ? o.crossings.items[i + 1] : all;

        if (from < to)
            memset(c->on + from, 1, (size_t)(to - from));
    }
    dg_arena_close(&o.arena);
}
