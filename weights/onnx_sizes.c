/* onnx_sizes.c: what follows the size of images, where the file leaves it free. The shapes of a
 * program are numbers, so the evaluation is lowered at several sizes. With h and w, height and
 * width in units of 32 pixels, a number that differs between these programs is taken for
 *
 *     c0 + c1 h + c2 w + c3 h w
 *
 * The first four programs determine the factors; the last must agree with them. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "nodes/decoder/anchors.h"
#include "tensor/passes.h"
#include "weights/onnx_emit.h"

/* FROM: here and beyond, some anchors lie at the border, so that the mask of those that do not is
 * in the program; smaller images may have none, and then the mask is all ones. */
enum { UNIT = 32, FROM = 20, N_PROGRAMS = 5, DETERMINE = 4 };

static const struct {
    int h, w;
} sizes[N_PROGRAMS] = {
    { FROM, FROM },         { FROM + 1, FROM },     { FROM, FROM + 1 },
    { FROM + 1, FROM + 1 }, { FROM + 3, FROM + 6 },
};

struct dg_onnx_sizes {
    dg_program *at[N_PROGRAMS];
    dg_map *names;     /* of the numbers that the file computes, by their factors */
    const char *h, *w; /* i64 [1]; NULL until needed */
};

typedef struct factors {
    int64_t c[4];
} factors;

/* False: v is no such function. */
static bool solve(const int64_t v[N_PROGRAMS], factors *f)
{
    const int64_t hw = v[3] - v[2] - v[1] + v[0];
    const int64_t h = v[1] - v[0] - hw * FROM, w = v[2] - v[0] - hw * FROM;

    *f = (factors){ { v[0] - (h + w + hw * FROM) * FROM, h, w, hw } };
    for (int i = DETERMINE; i < N_PROGRAMS; i++)
        if (v[i] != f->c[0] + h * sizes[i].h + w * sizes[i].w + hw * sizes[i].h * sizes[i].w)
            return false;
    return true;
}

/* ---- programs that are one, but for their sizes ---------------------------------------------- */

static int refuse_size(const dg_onnx *o, dg_where where, const char *what)
{
    dg_fail(o->d, DG_EUNSUPPORTED, where, "onnx-size", "%s, so it has no ONNX form for all sizes",
            what);
    dg_help(o->d, "export without --free-size; --set may choose another size");
    return -DG_EUNSUPPORTED;
}

static bool may_differ(const dg_op *op)
{
    static const char *const ops[] = { "reshape", "reshape_i32", "expand", "deform_attention" };

    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (strcmp(ops[i], op->name) == 0)
            return true;
    return false;
}

static bool same_form(const dg_instr *a, const dg_instr *b)
{
    return a->op == b->op && a->n_in == b->n_in && a->guard == b->guard &&
           memcmp(a->v, b->v, (size_t)(a->n_in + a->n_out) * sizeof *a->v) == 0 &&
           (may_differ(a->op) || memcmp(a->attr, b->attr, a->op->attr_bytes) == 0);
}

static bool same_constant(const dg_value *a, const dg_value *b)
{
    if (!a->constant || !b->constant || a->maps)
        return !a->constant == !b->constant && !a->maps == !b->maps;
    return dg_shape_equal(a->shape, b->shape) &&
           memcmp(a->constant, b->constant,
                  (size_t)dg_shape_elements(a->shape) *
                      (a->dtype == DG_I32 ? sizeof(int32_t) : sizeof(double))) == 0;
}

static bool dims_follow(const dg_onnx_sizes *s, int32_t v)
{
    const int rank = s->at[0]->values.items[v].shape.rank;
    factors f;

    for (int axis = 0; axis < rank; axis++) {
        int64_t n[N_PROGRAMS];

        for (int i = 0; i < N_PROGRAMS; i++)
            n[i] = s->at[i]->values.items[v].shape.d[axis];
        if (!solve(n, &f))
            return false;
    }
    return true;
}

/* Refuses what is read or made at instruction i, if it is not one for all sizes. */
static int check_instr(const dg_onnx *o, int i)
{
    const dg_onnx_sizes *s = o->sizes;
    const dg_instr *at = &s->at[0]->instrs.items[i];

    for (int k = 1; k < N_PROGRAMS; k++)
        if (i >= s->at[k]->instrs.n || !same_form(at, &s->at[k]->instrs.items[i]))
            return refuse_size(o, at->origin.where, "computes otherwise at another size of images");
    for (int k = 0; k < at->n_in; k++)
        for (int j = 1; j < N_PROGRAMS; j++)
            if (!same_constant(&s->at[0]->values.items[at->v[k]],
                               &s->at[j]->values.items[at->v[k]]))
                return refuse_size(o, at->origin.where,
                                   "reads a constant that follows the size of images");
    for (int k = at->n_in; k < at->n_in + at->n_out; k++)
        if (!dims_follow(s, at->v[k]))
            return refuse_size(o, at->origin.where,
                               "has a dimension that is no product of the sides of images");
    return 0;
}

int dg_onnx_sizes_open(dg_onnx *o, const dg_graph *g, dg_params *params)
{
    dg_onnx_sizes *s = o->sizes = DG_NEW(o->arena, dg_onnx_sizes);
    int rc;

    s->names = dg_map_new(o->arena);
    for (int i = 0; i < N_PROGRAMS; i++) {
        const dg_size size = { .w = sizes[i].w * UNIT, .h = sizes[i].h * UNIT };

        rc = dg_graph_lower(&s->at[i], g, g->evaluates[0], size, params, o->d);
        if (rc < 0) {
            refuse_size(o, g->evaluates[0]->where,
                        dg_printf(o->arena, "does not take images of %dx%d", sizes[i].w * UNIT,
                                  sizes[i].h * UNIT));
            return rc;
        }
        dg_pass_dead(s->at[i]);
    }
    for (int i = 0; i < s->at[0]->instrs.n; i++)
        DG_TRY(check_instr(o, i));
    o->p = s->at[0];
out:
    return rc;
}

void dg_onnx_sizes_close(dg_onnx_sizes **s)
{
    for (int i = 0; *s && i < N_PROGRAMS; i++)
        dg_program_close(&(*s)->at[i]);
    *s = NULL;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A side of the images in units, i64 [1]; axis: of images. */
static const char *side(dg_onnx *o, const char **name, int axis)
{
    if (!*name)
        *name =
            binary(o, "Div",
                   dg_onnx_add(o, "Shape", DG_ONNX_IN(o->images),
                               DG_ONNX_ATTRS(DG_ONNX_I("start", axis), DG_ONNX_I("end", axis + 1))),
                   integer(o, UNIT));
    return *name;
}

dg_onnx_size dg_onnx_plus(dg_onnx *o, dg_onnx_size a, dg_onnx_size b)
{
    if (!a.value && !b.value)
        return dg_onnx_fixed(a.n + b.n);
    if (!a.value && a.n == 0)
        return b;
    return (dg_onnx_size){ .value =
                               binary(o, "Add", dg_onnx_list(o, 1, &a), dg_onnx_list(o, 1, &b)) };
}

dg_onnx_size dg_onnx_times(dg_onnx *o, dg_onnx_size a, dg_onnx_size b)
{
    if (!a.value && !b.value)
        return dg_onnx_fixed(a.n * b.n);
    return (dg_onnx_size){ .value =
                               binary(o, "Mul", dg_onnx_list(o, 1, &a), dg_onnx_list(o, 1, &b)) };
}

static dg_onnx_size size_of(dg_onnx *o, const int64_t v[N_PROGRAMS])
{
    dg_onnx_sizes *s = o->sizes;
    dg_onnx_size sum = dg_onnx_fixed(0);
    const char *key;
    factors f;

    const bool follows = solve(v, &f);

    assert(follows); /* levels are the dimensions of maps, which were checked */
    (void)follows;
    if (!f.c[1] && !f.c[2] && !f.c[3])
        return dg_onnx_fixed(f.c[0]);
    key = dg_printf(o->arena, "%lld %lld %lld %lld", (long long)f.c[0], (long long)f.c[1],
                    (long long)f.c[2], (long long)f.c[3]);
    if (!dg_map_has(s->names, key)) {
        const dg_onnx_size h = { .value = side(o, &s->h, 2) }, w = { .value = side(o, &s->w, 3) };
        const dg_onnx_size parts[] = { N(1), h, w, f.c[3] ? dg_onnx_times(o, h, w) : N(0) };

        for (int i = 0; i < 4; i++)
            if (f.c[i])
                sum = dg_onnx_plus(o, sum, dg_onnx_times(o, parts[i], N(f.c[i])));
        dg_map_set(s->names, key, dg_strdup(o->arena, sum.value));
    }
    return (dg_onnx_size){ .value = dg_map_get(s->names, key) };
}

dg_onnx_size dg_onnx_dim(dg_onnx *o, int32_t v, int axis)
{
    int64_t n[N_PROGRAMS];

    if (!o->sizes)
        return dg_onnx_fixed(dg_onnx_shape(o, v).d[axis]);
    for (int i = 0; i < N_PROGRAMS; i++)
        n[i] = o->sizes->at[i]->values.items[v].shape.d[axis];
    return size_of(o, n);
}

void dg_onnx_level(dg_onnx *o, int l, dg_onnx_size *h, dg_onnx_size *w)
{
    const deform_attr *a = o->at->attr;
    int64_t hs[N_PROGRAMS], ws[N_PROGRAMS];

    *h = dg_onnx_fixed(a->h[l]);
    *w = dg_onnx_fixed(a->w[l]);
    if (!o->sizes)
        return;
    for (int i = 0; i < N_PROGRAMS; i++) {
        const dg_program *p = o->sizes->at[i];

        a = p->instrs.items[o->at - o->p->instrs.items].attr;
        hs[i] = a->h[l];
        ws[i] = a->w[l];
    }
    *h = size_of(o, hs);
    *w = size_of(o, ws);
}

const char *dg_onnx_list(dg_onnx *o, int n, const dg_onnx_size v[])
{
    const char *parts[DG_MAX_DIMS + 1] = { NULL };
    int64_t fixed[DG_MAX_DIMS];
    int n_parts = 0;

    for (int i = 0, k; i < n; i = k) {
        for (k = i; k < n && !v[k].value; k++)
            fixed[k - i] = v[k].n;
        parts[n_parts++] = k > i ? dg_onnx_integers(o, k - i, fixed) : v[k++].value;
    }
    return n_parts == 1 ? parts[0]
                        : dg_onnx_add(o, "Concat", parts, DG_ONNX_ATTRS(DG_ONNX_I("axis", 0)));
}

/* ---- constants of the sizes of maps ---------------------------------------------------------- */

/* 0 to n-1: i64 [n,1] */
static const char *count(dg_onnx *o, dg_onnx_size n)
{
    const char *end = binary(o, "Squeeze", dg_onnx_list(o, 1, &n), integer(o, 0));
    const char *zero = binary(o, "Squeeze", integer(o, 0), integer(o, 0)),
               *one = binary(o, "Squeeze", integer(o, 1), integer(o, 0));

    return binary(o, "Unsqueeze", dg_onnx_add(o, "Range", DG_ONNX_IN(zero, end, one), NULL),
                  integer(o, 1));
}

static const char *joined(dg_onnx *o, const char *const parts[], int64_t axis)
{
    return dg_onnx_add(o, "Concat", parts, DG_ONNX_ATTRS(DG_ONNX_I("axis", axis)));
}

static const char *sines(dg_onnx *o, dg_onnx_size h, dg_onnx_size w, int64_t width)
{
    const int64_t n = width / 4;
    double *by = DG_NEW_N(o->arena, n, double);
    const char *i = count(o, dg_onnx_times(o, h, w)), *rows = dg_onnx_list(o, 1, &h), *x, *y;

    for (int64_t k = 0; k < n; k++)
        by[k] = pow(10000, -(double)k / (double)n);
    x = binary(o, "Mul", cast(o, binary(o, "Div", i, rows), TO_F32),
               dg_onnx_numbers(o, (int)n, by));
    y = binary(o, "Mul", cast(o, binary(o, "Mod", i, rows), TO_F32),
               dg_onnx_numbers(o, (int)n, by));
    return joined(o,
                  DG_ONNX_IN(unary(o, "Sin", x), unary(o, "Cos", x), unary(o, "Sin", y),
                             unary(o, "Cos", y)),
                  1);
}

/* (index + 1/2) / n */
static const char *centre(dg_onnx *o, const char *index, const char *n)
{
    return binary(o, "Div", binary(o, "Add", cast(o, index, TO_F32), dg_onnx_number(o, 0.5)),
                  cast(o, n, TO_F32));
}

/* The four numbers of the anchors of a level, f32 [hw,4]. */
static const char *anchors(dg_onnx *o, int l, dg_onnx_size h, dg_onnx_size w)
{
    const double side_of[2] = { ldexp(DG_ANCHOR_SIDE, l), ldexp(DG_ANCHOR_SIDE, l) };
    const dg_onnx_size n = dg_onnx_times(o, h, w), pairs[] = { n, N(2) };
    const char *i = count(o, n), *columns = dg_onnx_list(o, 1, &w);
    const char *x = centre(o, binary(o, "Mod", i, columns), columns),
               *y = centre(o, binary(o, "Div", i, columns), dg_onnx_list(o, 1, &h));
    const char *sides =
        binary(o, "Expand", dg_onnx_numbers(o, 2, side_of), dg_onnx_list(o, 2, pairs));

    return joined(o, DG_ONNX_IN(x, y, sides), 1);
}

/* Whether none of the four is at the border: bool [S,1] */
static const char *inside(dg_onnx *o, const char *box)
{
    const char *low = binary(o, "Greater", box, dg_onnx_number(o, DG_ANCHOR_MARGIN)),
               *high = binary(o, "Less", box, dg_onnx_number(o, 1 - DG_ANCHOR_MARGIN));
    const char *both = cast(o, binary(o, "And", low, high), TO_F32);

    return cast(o,
                dg_onnx_add(o, "ReduceMin", DG_ONNX_IN(both),
                            DG_ONNX_ATTRS(DG_ONNX_N("axes", (const int64_t[]){ 1 }, 1),
                                          DG_ONNX_I("keepdims", 1))),
                TO_BOOL);
}

static const char *logits(dg_onnx *o, const char *box)
{
    const char *rest = binary(o, "Sub", dg_onnx_number(o, 1), box);

    return dg_onnx_add(o, "Where",
                       DG_ONNX_IN(inside(o, box), unary(o, "Log", binary(o, "Div", box, rest)),
                                  dg_onnx_number(o, (double)INFINITY)),
                       NULL);
}

const char *dg_onnx_of_maps(dg_onnx *o, int32_t v)
{
    const dg_value *x = &o->p->values.items[v];
    const char *levels[DG_MAX_LEVELS + 1] = { NULL }, *y = NULL;

    for (int l = 0; l < x->maps->levels.n; l++) {
        int64_t hs[N_PROGRAMS], ws[N_PROGRAMS];
        dg_onnx_size h, w;

        for (int i = 0; i < N_PROGRAMS; i++) {
            const dg_levels *at = &o->sizes->at[i]->values.items[v].maps->levels;

            hs[i] = at->h[l];
            ws[i] = at->w[l];
        }
        h = size_of(o, hs);
        w = size_of(o, ws);
        levels[l] =
            x->maps->rule == DG_MAPS_SINES ? sines(o, h, w, x->shape.d[2]) : anchors(o, l, h, w);
    }
    y = joined(o, levels, 0);
    if (x->maps->rule == DG_MAPS_ANCHORS)
        y = logits(o, y);
    else if (x->maps->rule == DG_MAPS_INSIDE)
        y = cast(o, inside(o, y), TO_F32);
    return binary(o, "Unsqueeze", y, integer(o, 0));
}
