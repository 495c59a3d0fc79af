/* onnx.c: writes the file: ModelProto { GraphProto { NodeProto, TensorProto, ValueInfoProto } } of
 * onnx.proto, with its field numbers below. Tensors are written one by one, so that the file is
 * never in memory as a whole. */
#include "weights/onnx.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "weights/onnx_internal.h"
#include "tensor/passes.h"

enum {
    MODEL_IR = 1,
    MODEL_PRODUCER = 2,
    MODEL_VERSION = 3,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    MODEL_NOTE = 14
};
enum { NOTE_KEY = 1, NOTE_TEXT = 2 };
enum { OPSET_VERSION = 2 };
enum { GRAPH_NODE = 1, GRAPH_NAME = 2, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_TYPE = 4, NODE_ATTR = 5 };
enum { ATTR_NAME = 1, ATTR_F = 2, ATTR_I = 3, ATTR_S = 4, ATTR_INTS = 8, ATTR_TYPE = 20 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum {
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    ELEMENT_TYPE = 1,
    ELEMENT_SHAPE = 2,
    SHAPE_DIM = 1
};
enum { DIM_VALUE = 1, DIM_NAME = 2 };
enum { TYPE_F32 = 1, TYPE_I32 = 6, TYPE_I64 = 7, TYPE_F16 = 10 };
enum { IR_VERSION = 8 }; /* the first with opset 17 */

/* ---- nodes ----------------------------------------------------------------------------------- */

static void add_attr(dg_str *node, const dg_onnx_attr *a)
{
    dg_str s = { 0 };

    dg_proto_text(&s, ATTR_NAME, a->name);
    if (a->kind == DG_ONNX_INT)
        dg_proto_int(&s, ATTR_I, a->i);
    else if (a->kind == DG_ONNX_FLOAT)
        dg_proto_float(&s, ATTR_F, (float)a->f);
    else if (a->kind == DG_ONNX_TEXT)
        dg_proto_text(&s, ATTR_S, a->text);
    for (int i = 0; a->kind == DG_ONNX_INTS && i < a->n; i++)
        dg_proto_int(&s, ATTR_INTS, a->ints[i]);
    dg_proto_int(&s, ATTR_TYPE, a->kind);
    dg_proto_message(node, NODE_ATTR, &s);
}

void dg_onnx_add_n(dg_onnx *o, const char *type, const char *const in[], const dg_onnx_attr attrs[],
                   int n_out, const char *out[])
{
    const char *path = o->at && o->at->origin.where.node ? o->at->origin.where.node : "file";
    dg_str s = { 0 };
    int number = o->n_nodes++;

    for (int i = 0; in[i]; i++)
        dg_proto_text(&s, NODE_INPUT, in[i]);
    for (int i = 0; i < n_out; i++) {
        out[i] =
            i ? dg_printf(o->arena, "%%%d.%d", number, i) : dg_printf(o->arena, "%%%d", number);
        dg_proto_text(&s, NODE_OUTPUT, out[i]);
    }
    dg_proto_text(&s, NODE_NAME, dg_printf(o->arena, "%s/%s.%d", path, type, number));
    dg_proto_text(&s, NODE_TYPE, type);
    for (int i = 0; attrs && attrs[i].name; i++)
        add_attr(&s, &attrs[i]);
    dg_proto_message(&o->nodes, GRAPH_NODE, &s);
}

const char *dg_onnx_add(dg_onnx *o, const char *type, const char *const in[],
                        const dg_onnx_attr attrs[])
{
    const char *out;

    dg_onnx_add_n(o, type, in, attrs, 1, &out);
    return out;
}

/* ---- constants ------------------------------------------------------------------------------- */

/* Adds a tensor once: its name identifies its contents. */
static const char *add_tensor(dg_onnx *o, dg_onnx_tensor t)
{
    if (!dg_map_has(o->names, t.name)) {
        dg_map_set(o->names, t.name, o);
        DG_PUSH(o->arena, o->tensors, t);
    }
    return t.name;
}

const char *dg_onnx_integers(dg_onnx *o, int n, const int64_t v[])
{
    dg_str s = { 0 };
    const char *name;

    dg_str_add(&s, "[");
    for (int i = 0; i < n; i++)
        dg_str_fmt(&s, "%s%lld", i ? "," : "", (long long)v[i]);
    name = dg_printf(o->arena, "%s]", s.s);
    dg_str_free(&s);
    return add_tensor(o, (dg_onnx_tensor){ name, DG_SHAPE(n), -1,
                                           .integers =
                                               dg_memdup(o->arena, v, (size_t)n * sizeof *v) });
}

const char *dg_onnx_numbers(dg_onnx *o, int n, const double v[])
{
    dg_str s = { 0 };
    const char *name;

    for (int i = 0; i < n; i++)
        dg_str_fmt(&s, "%s%.9g", i ? "," : "[", v[i]);
    name = dg_printf(o->arena, "f32%s]", s.s);
    dg_str_free(&s);
    return add_tensor(o,
                      (dg_onnx_tensor){ name, DG_SHAPE(n), -1,
                                        .values = dg_memdup(o->arena, v, (size_t)n * sizeof *v) });
}

const char *dg_onnx_number(dg_onnx *o, double v)
{
    return add_tensor(o, (dg_onnx_tensor){ dg_printf(o->arena, "%.9g", v), DG_SCALAR, -1,
                                           .values = dg_memdup(o->arena, &v, sizeof v) });
}

const char *dg_onnx_images(dg_onnx *o)
{
    if (!o->n_name)
        o->n_name = dg_onnx_add(o, "Shape", DG_ONNX_IN(o->images),
                                DG_ONNX_ATTRS(DG_ONNX_I("start", 0), DG_ONNX_I("end", 1)));
    return o->n_name;
}

const char *dg_onnx_reshape(dg_onnx *o, const char *x, int n, const dg_onnx_size d[])
{
    return dg_onnx_add(o, "Reshape", DG_ONNX_IN(x, dg_onnx_list(o, n, d)), NULL);
}

const char *dg_onnx_transpose(dg_onnx *o, const char *x, int n, const int64_t axes[])
{
    return dg_onnx_add(o, "Transpose", DG_ONNX_IN(x), DG_ONNX_ATTRS(DG_ONNX_N("perm", axes, n)));
}

/* ---- values ---------------------------------------------------------------------------------- */

dg_shape dg_onnx_shape(const dg_onnx *o, int32_t v)
{
    return o->p->values.items[v].shape;
}

/* The name of a parameter or constant; adds it when it is first read. */
static const char *stored(dg_onnx *o, int32_t number)
{
    const dg_value *v = &o->p->values.items[number];
    int64_t n = dg_shape_elements(v->shape);

    if (v->maps && o->sizes)
        return dg_onnx_of_maps(o, number);
    if (v->param >= 0) {
        const char *name = dg_params_at(o->p->params, v->param)->name;

        add_tensor(o, (dg_onnx_tensor){ name, v->shape, .param = v->param, .half = o->half });
        return o->half ? dg_onnx_add(o, "Cast", DG_ONNX_IN(name),
                                     DG_ONNX_ATTRS(DG_ONNX_I("to", TYPE_F32)))
                       : name;
    }
    if (v->dtype == DG_I32) {
        int64_t *wide = DG_NEW_N(o->arena, n, int64_t);

        for (int64_t i = 0; i < n; i++)
            wide[i] = ((const int32_t *)v->constant)[i];
        const char *name =
            add_tensor(o, (dg_onnx_tensor){ dg_printf(o->arena, "constant.%d", number), v->shape,
                                            -1, .integers = wide });

        return dg_onnx_add(o, "Cast", DG_ONNX_IN(name), DG_ONNX_ATTRS(DG_ONNX_I("to", TYPE_I32)));
    }
    return add_tensor(o, (dg_onnx_tensor){ dg_printf(o->arena, "constant.%d", number), v->shape, -1,
                                           .values = v->constant });
}

const char *dg_onnx_plain(dg_onnx *o, int32_t v)
{
    dg_onnx_value *x = &o->values[v];

    if (!x->plain && x->chw)
        x->plain = dg_onnx_transpose(o, x->chw, 4, (const int64_t[]){ 0, 2, 3, 1 });
    else if (!x->plain)
        x->plain = stored(o, v);
    return x->plain;
}

const char *dg_onnx_chw(dg_onnx *o, int32_t v)
{
    dg_onnx_value *x = &o->values[v];

    if (!x->chw)
        x->chw = dg_onnx_transpose(o, dg_onnx_plain(o, v), 4, (const int64_t[]){ 0, 3, 1, 2 });
    return x->chw;
}

/* ---- inputs and outputs ---------------------------------------------------------------------- */

/* names: of the dimensions that are free; NULL at the others */
static void add_port(dg_onnx *o, int field, const char *name, int type, dg_shape s,
                     const char *const names[])
{

    dg_str shape = { 0 }, element = { 0 }, tensor = { 0 }, value = { 0 };

    for (int i = 0; i < s.rank; i++) {
        dg_str dim = { 0 };

        if (names[i])
            dg_proto_text(&dim, DIM_NAME, names[i]);
        else
            dg_proto_int(&dim, DIM_VALUE, s.d[i]);
        dg_proto_message(&shape, SHAPE_DIM, &dim);
    }
    dg_proto_int(&element, ELEMENT_TYPE, type);
    dg_proto_message(&element, ELEMENT_SHAPE, &shape);
    dg_proto_message(&tensor, TYPE_TENSOR, &element);
    dg_proto_text(&value, VALUE_NAME, name);
    dg_proto_message(&value, VALUE_TYPE, &tensor);
    dg_proto_message(&o->nodes, field, &value);
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot ? dot + 1 : name;
}

/* The instruction that reads a value; NULL: none does. */
static const dg_instr *reader_of(const dg_program *p, int32_t v)
{
    for (int i = 0; i < p->instrs.n; i++)
        for (int k = 0; k < p->instrs.items[i].n_in; k++)
            if (p->instrs.items[i].v[k] == v)
                return &p->instrs.items[i];
    return NULL;
}

/* A model of padded images reads the size of each, which the file's one input does not carry: it
 * would take padding for image, and find other things than detrgraph does. */
static int refuse_sizes(const dg_onnx *o)
{
    const dg_program *p = o->p;

    for (int i = 0; i < p->inputs.n; i++) {
        const dg_binding *b = &p->inputs.items[i];
        const dg_instr *reader =
            strcmp(last_part(b->name), "sizes") == 0 ? reader_of(p, b->value) : NULL;

        if (!reader)
            continue;
        dg_fail(o->d, DG_EUNSUPPORTED, reader->origin.where, "onnx-padding",
                "reads the size of each image in its canvas, and an exported model has no input "
                "but images: padding masks, and soft_nms of <detect>, have no form in ONNX here");
        dg_help(o->d, "detrgraph predict and serve, and detect.h and Python's Detector, run such a "
                      "model");
        return -DG_EUNSUPPORTED;
    }
    return 0;
}

static int open_input(dg_onnx *o, const dg_scope *scope)
{
    const char *names[DG_MAX_DIMS] = { "N", NULL, o->sizes ? "height" : NULL,
                                       o->sizes ? "width" : NULL };
    const dg_program *p = o->p;

    for (int i = 0; i < p->inputs.n; i++) {
        const dg_value *v = &p->values.items[p->inputs.items[i].value];

        if (v->shape.rank != 4)
            continue; /* targets, which evaluation does not use */
        o->images = last_part(p->inputs.items[i].name);
        o->batch = v->shape.d[0];
        o->values[p->inputs.items[i].value].chw = o->images;
        add_port(o, GRAPH_INPUT, o->images, TYPE_F32,
                 DG_SHAPE(v->shape.d[0], v->shape.d[3], v->shape.d[1], v->shape.d[2]), names);
        return 0;
    }
    return dg_fail(o->d, DG_EUNSUPPORTED, scope->where, "onnx-op", "<%s> feeds no images",
                   scope->id);
}

static void add_output(dg_onnx *o, dg_map *taken, int32_t v, const char *name)
{
    const char *names[DG_MAX_DIMS] = { "N" };
    dg_str s = { 0 };

    if (dg_map_has(taken, name))
        return;
    for (int i = 1; i < dg_onnx_shape(o, v).rank; i++)
        names[i] = dg_onnx_dim(o, v, i).value;
    dg_map_set(taken, name, o);
    dg_proto_text(&s, NODE_INPUT, dg_onnx_plain(o, v));
    dg_proto_text(&s, NODE_OUTPUT, name);
    dg_proto_text(&s, NODE_NAME, dg_printf(o->arena, "output/%s", name));
    dg_proto_text(&s, NODE_TYPE, "Identity");
    dg_proto_message(&o->nodes, GRAPH_NODE, &s);
    add_port(o, GRAPH_OUTPUT, name, o->p->values.items[v].dtype == DG_I32 ? TYPE_I32 : TYPE_F32,
             dg_onnx_shape(o, v), names);
}

static void add_outputs(dg_onnx *o)
{
    const dg_program *p = o->p;
    dg_map *taken = dg_map_new(o->arena);

    for (int i = 0; i < p->instrs.n; i++)
        if (strcmp(p->instrs.items[i].op->name, "detect") == 0) {
            add_output(o, taken, p->instrs.items[i].v[0], "logits");
            add_output(o, taken, p->instrs.items[i].v[1], "pred_boxes");
        }
    for (int i = 0; i < p->results.n; i++)
        add_output(o, taken, p->results.items[i].value, last_part(p->results.items[i].name));
}

/* ---- the file -------------------------------------------------------------------------------- */

static size_t element_bytes(const dg_onnx_tensor *t)
{
    return t->integers ? sizeof(int64_t) : t->half ? sizeof(uint16_t) : sizeof(float);
}

/* Appends a TensorProto, up to its bytes, as a field of the graph. */
static void add_tensor_head(dg_str *out, const dg_onnx_tensor *t, size_t *bytes)
{
    dg_str s = { 0 };

    *bytes = (size_t)dg_shape_elements(t->shape) * element_bytes(t);
    for (int i = 0; i < t->shape.rank; i++)
        dg_proto_int(&s, TENSOR_DIM, t->shape.d[i]);
    dg_proto_int(&s, TENSOR_TYPE, t->integers ? TYPE_I64 : t->half ? TYPE_F16 : TYPE_F32);
    dg_proto_text(&s, TENSOR_NAME, t->name);
    dg_proto_head(&s, TENSOR_RAW, *bytes);
    dg_proto_head(out, GRAPH_TENSOR, s.n + *bytes);
    dg_str_add_n(out, s.s, s.n);
    dg_str_free(&s);
}

/* The nearest IEEE half, ties to even; 0x7c00 and more: beyond the largest. */
static uint16_t half_of(double v)
{
    const uint16_t sign = signbit(v) ? 0x8000 : 0;
    int e = 0;

    if (!isfinite(v))
        return 0x7c00;
    (void)frexp(v, &e);
    if (v == 0 || e < -13) /* below the smallest normal one, 2^-14: steps of 2^-24 */
        return sign | (uint16_t)nearbyint(ldexp(fabs(v), 24));
    if (e > 16)
        return 0x7c00;
    /* 1024 to 2048; the latter carries into the exponent, as it should */
    return sign | (uint16_t)(((e + 14) << 10) + (int)nearbyint(ldexp(fabs(v), 11 - e)) - 1024);
}

/* n numbers at `from` become halves or floats at `to`. */
static int narrow(dg_onnx *o, const dg_onnx_tensor *t, void *to, const double *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (!t->half) {
            ((float *)to)[i] = (float)from[i];
            continue;
        }
        ((uint16_t *)to)[i] = half_of(from[i]);
        if ((((uint16_t *)to)[i] & 0x7fff) >= 0x7c00) {
            dg_fail(o->d, DG_EUNSUPPORTED, DG_NOWHERE, "onnx-half",
                    "%s holds %g, which a 16-bit float does not", t->name, from[i]);
            dg_help(o->d, "export without --half");
            return -DG_EUNSUPPORTED;
        }
    }
    return 0;
}

static int write_tensor(dg_onnx *o, dg_outfile *f, const dg_onnx_tensor *t)
{
    dg_str head = { 0 };
    int64_t n = dg_shape_elements(t->shape);
    size_t bytes;
    void *stored_as = NULL;
    double *read = NULL;
    int rc;

    add_tensor_head(&head, t, &bytes);
    DG_TRY(dg_outfile_write(f, head.s, head.n, o->d));
    if (t->integers) {
        DG_TRY(dg_outfile_write(f, t->integers, bytes, o->d));
        goto out;
    }
    stored_as = dg_try_alloc(bytes);
    read = t->param >= 0 ? dg_try_alloc((size_t)n * sizeof *read) : NULL;
    if (!stored_as || (t->param >= 0 && !read)) {
        rc = dg_fail(o->d, DG_EMEMORY, DG_NOWHERE, "memory-parameters", "no memory to write %s",
                     t->name);
        goto out;
    }
    if (read)
        DG_TRY(dg_store_get(o->store, o->space, t->param, read, o->d));
    DG_TRY(narrow(o, t, stored_as, read ? read : t->values, n));
    DG_TRY(dg_outfile_write(f, stored_as, bytes, o->d));
out:
    dg_free(stored_as);
    dg_free(read);
    dg_str_free(&head);
    return rc;
}

static void add_note(dg_str *out, const char *key, const char *text)
{
    dg_str s = { 0 };

    dg_proto_text(&s, NOTE_KEY, key);
    dg_proto_text(&s, NOTE_TEXT, text);
    dg_proto_message(out, MODEL_NOTE, &s);
}

/* What a program needs besides the graph: the classes, and how pixels become input. */
static void add_notes(dg_str *out, const dg_onnx *o, const dg_onnx_source *from)
{
    dg_str names = { 0 };

    for (int i = 0; i < from->n_names; i++) {
        dg_str_fmt(&names, "%s\"%d\":", i ? "," : "{", i);
        dg_str_json(&names, from->names[i]);
    }
    if (from->n_names) {
        dg_str_add(&names, "}");
        add_note(out, "names", names.s);
    }
    add_note(out, "size",
             dg_printf(o->arena, "[%lld,%lld]", (long long)from->size.w, (long long)from->size.h));
    if (o->sizes)
        add_note(out, "sizes", "any width and height that are multiples of 32");
    add_note(out, "input",
             "RGB, bytes / 255, NCHW; resized to size (width, height) bilinearly with "
             "antialiasing, without keeping the aspect");
    if (from->threshold >= 0)
        add_note(out, "threshold", dg_printf(o->arena, "%.4g", from->threshold));
    add_note(out, "boxes", "cx, cy, w, h in shares of the image's width and height");
    dg_str_free(&names);
}

static void add_model(dg_str *out, const dg_onnx *o, const dg_onnx_source *from, size_t graph_bytes)
{
    dg_str opset = { 0 };

    dg_proto_int(out, MODEL_IR, IR_VERSION);
    dg_proto_text(out, MODEL_PRODUCER, "detrgraph");
    dg_proto_text(out, MODEL_VERSION, from->versions);
    dg_proto_int(&opset, OPSET_VERSION, DG_ONNX_OPSET);
    dg_proto_message(out, MODEL_OPSET, &opset);
    add_notes(out, o, from);
    dg_proto_head(out, MODEL_GRAPH, graph_bytes);
}

static int write_file(dg_onnx *o, const dg_onnx_source *from, const char *file)
{
    dg_outfile *f = NULL;
    dg_str model = { 0 }, head = { 0 };
    size_t total, bytes;
    int rc;

    dg_proto_text(&o->nodes, GRAPH_NAME, from->graph->name ? from->graph->name : "detrgraph");
    total = o->nodes.n;
    for (int i = 0; i < o->tensors.n; i++) {
        add_tensor_head(&head, &o->tensors.items[i], &bytes);
        total += head.n + bytes;
        dg_str_free(&head);
    }
    add_model(&model, o, from, total);
    DG_TRY(dg_outfile_open(&f, file, o->d));
    DG_TRY(dg_outfile_write(f, model.s, model.n, o->d));
    DG_TRY(dg_outfile_write(f, o->nodes.s, o->nodes.n, o->d));
    for (int i = 0; i < o->tensors.n; i++)
        DG_TRY(write_tensor(o, f, &o->tensors.items[i]));
    DG_TRY(dg_outfile_commit(f, o->d));
out:
    dg_outfile_close(&f);
    dg_str_free(&model);
    return rc;
}

int dg_onnx_write(const dg_onnx_source *from, const char *file, dg_diag *d)
{
    const dg_graph *g = from->graph;
    dg_onnx o = { .p = from->program,
                  .store = from->store,
                  .space = from->space,
                  .half = from->half,
                  .d = d,
                  .arena = dg_arena_open() };
    int rc;

    if (!g->n_evaluates) {
        rc = dg_fail(d, DG_EINPUT, (dg_where){ .file = g->file }, "pipeline-without-evaluate",
                     "the pipeline has no <evaluate>");
        goto out;
    }
    dg_pass_dead(from->program);
    DG_TRY(refuse_sizes(&o));
    if (from->free_size)
        DG_TRY(dg_onnx_sizes_open(&o, g, from->params));
    o.values = DG_NEW_N(o.arena, o.p->values.n, dg_onnx_value);
    o.names = dg_map_new(o.arena);
    DG_TRY(open_input(&o, g->evaluates[0]));
    for (int i = 0; i < o.p->instrs.n; i++) {
        o.at = &o.p->instrs.items[i];
        DG_TRY(dg_onnx_op(&o));
    }
    o.at = NULL;
    add_outputs(&o);
    DG_TRY(write_file(&o, from, file));
out:
    dg_str_free(&o.nodes);
    dg_onnx_sizes_close(&o.sizes);
    dg_arena_close(&o.arena);
    return rc;
}
