/* stored_rfdetr_model.c: the entries of data/ops_rfdetr.json about backbone, projector and the
 * sizes that images are brought to. */
#include "tests/ops/stored.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <detrgraph/data.h>

#include "base/file.h"
#include "nodes/backbone/resample.h"
#include "nodes/projector/c2f.h"
#include "nodes/sampler/python.h"

/* ---- backbone -------------------------------------------------------------------------------- */

static void position(model *m, int64_t from, int64_t to)
{
    dg_val x = model_input(m, "x", false), y;
    int64_t width = dg_dim(m->b, x, 1);

    y = dg_resample_grid(m->b, x, from, width, to, to);
    y = dg_reshape(m->b, y, DG_SHAPE(to * to, width));
    model_loss(m, y, false);
    model_run(m);
    model_check(m, y, model_at(m, "out"), false, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), false, 1, "grad x");
}

RFDETR_CASE(position_resize_24_8)
{
    position(m, 24, 8);
}

RFDETR_CASE(position_resize_24_14)
{
    position(m, 24, 14);
}

RFDETR_CASE(position_resize_24_34)
{
    position(m, 24, 34);
}

RFDETR_CASE(position_resize_37_12)
{
    position(m, 37, 12);
}

RFDETR_CASE(position_resize_36_10)
{
    position(m, 36, 10);
}

/* ---- projector ------------------------------------------------------------------------------- */

/* The model's parameters get the formula's values under their own names. */
static void fill_parameters(model *m)
{
    for (int i = 0; i < dg_params_n(m->params); i++) {
        const dg_param_info *p = dg_params_at(m->params, i);

        if (!dg_json_get(model_at(m, "inputs"), p->name) && strncmp(p->name, "input.", 6) != 0)
            (void)model_param(m, p->name, p->shape);
    }
}

static void module(model *m, dg_val x, dg_val y)
{
    fill_parameters(m);
    model_loss(m, y, true);
    model_run(m);
    model_check(m, y, model_at(m, "out"), true, "out");
    model_check_gradient(m, x, model_at(m, "grad/x"), true, 1, "grad x");
    model_check_parameters(m);
}

RFDETR_CASE(channel_layernorm)
{
    dg_param_path_of at = { .b = m->b };
    dg_val x = model_input(m, "x", true);

    module(m, x, dg_c2f_norm(&at, x));
}

RFDETR_CASE(c2f)
{
    dg_param_path_of at = { .b = m->b };
    dg_val x = model_input(m, "x", true);

    /* the reference's own f32 is off by 1.8e-5: norms over four channels */
    m->loose = 20;
    module(m, x, dg_c2f(&at, x, 8, 3));
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void batch(model *m)
{
    const dg_json *stored = model_at(m, "out/data"), *shape = model_at(m, "out/shape");
    dg_shape in;
    double *x = model_numbers(m, "x", true, &in);
    int64_t n = dg_shape_elements(in), to = (int64_t)shape->items[3].number, channels = in.d[3];
    float *from = DG_NEW_N(m->arena, n, float), *out = DG_NEW_N(m->arena, stored->n, float);

    if (m->bits == 64) /* images are f32 in every precision */
        return;
    for (int64_t i = 0; i < n; i++)
        from[i] = (float)x[i];
    dg_resize_f32(out, (int)to, (int)to, from, (int)in.d[2], (int)in.d[1], (int)channels);
    for (int64_t i = 0; i < stored->n; i++)
        model_check_number(m, (double)out[(i % (to * to)) * channels + i / (to * to)],
                           stored->items[i].number, 1, "out");
}

RFDETR_CASE(batch_resize_24_10)
{
    batch(m);
}

RFDETR_CASE(batch_resize_16_24)
{
    batch(m);
}

RFDETR_CASE(batch_resize_18_12)
{
    batch(m);
}

/* "sizes" and "largest" of a preset's pipeline: FIRST:LAST:STEP and LAST. */
static void check_preset(model *m, const char *name, const dg_json *sizes)
{
    const char *top = getenv("srcdir");
    char *path = dg_printf(m->arena, "%s/pipelines/rfdetr_%s_coco.xml", top ? top : ".", name);
    int first = (int)sizes->items[0].number, last = (int)sizes->items[sizes->n - 1].number,
        step = (int)sizes->items[1].number - first;
    char *text;
    size_t n;

    assert_int_equal(dg_file_read(&text, &n, path, 1 << 20, m->d), 0);
    if (!strstr(text,
                dg_printf(m->arena, "sizes=\"%d:%d:%d\" largest=\"%d\"", first, last, step, last)))
        fail_msg("%s does not have the sizes %d:%d:%d", path, first, last, step);
    dg_free(text);
}

RFDETR_CASE(multi_scale)
{
    const dg_json *presets = model_at(m, "presets");

    for (int i = 0; i < presets->n; i++) {
        const dg_json *p = &presets->items[i], *sizes = dg_json_get(p, "sizes"),
                      *chosen = dg_json_get(p, "chosen_it0_31");

        check_preset(m, p->key, sizes);
        assert_int_equal(chosen->n, 32);
        for (int it = 0; it < chosen->n; it++)
            assert_true(sizes->items[dg_python_choice((uint64_t)it, sizes->n)].number ==
                        chosen->items[it].number);
    }
}
