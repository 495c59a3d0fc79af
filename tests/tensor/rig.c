#include "tests/tensor/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "tensor/params.h"

rig rig_open(bool training)
{
    const char *asked = getenv("DETRGRAPH_DEVICE");
    char far[64] = "ref";

    if (asked && strncmp(asked, "far", 3) == 0)
        snprintf(far, sizeof far, "%s%sref", asked, strchr(asked, ':') ? "," : ":");
    return rig_open_on(training, far);
}

rig rig_open_on(bool training, const char *device)
{
    rig r = { .d = dg_diag_open(), .params = dg_params_open() };

    if (dg_backend_open(&r.backend, device, r.d) < 0)
        fail();
    r.p = dg_program_open(r.params, training);
    r.b = dg_build_open(r.p, r.d);
    r.control = (dg_control){
        .seed = 7,
        .bias1 = 0.1,
        .bias2 = 0.001,
        .ema_decay = 0.5,
        .n_groups = 1,
        .lr = { 1e-2, 1e-3 },
    };
    rig_node(&r, 0, "net", false);
    return r;
}

void rig_close(rig *r)
{
    dg_exec_close(&r->x);
    dg_plan_close(&r->plan);
    for (int s = 0; s < DG_N_SPACES; s++)
        r->backend->free(r->backend, r->spaces.at[s]);
    dg_build_close(&r->b);
    dg_program_close(&r->p);
    dg_params_close(&r->params);
    dg_backend_close(&r->backend);
    dg_diag_close(&r->d);
}

void rig_node(rig *r, int number, const char *path, bool recompute)
{
    dg_build_enter(r->b, (dg_origin){ { "net.xml", 3 + number, 5, path }, number, recompute, 0 },
                   path, path);
}

static void check(const rig *r, int rc)
{
    if (rc < 0)
        fail_msg("%s: %s", dg_diag_at(r->d, 0)->id, dg_diag_at(r->d, 0)->text);
}

/* What nobody wrote must not be read. */
static void fill_with_nan(rig *r, void *device, size_t bytes)
{
    void *nan = dg_try_alloc(bytes);

    memset(nan, 0xFF, bytes);
    check(r, r->backend->upload(r->backend, DG_LANE_COMPUTE, device, nan, bytes));
    dg_free(nan);
}

void rig_spaces(rig *r, size_t bytes_each)
{
    for (int s = 0; s < DG_N_SPACES; s++)
        r->spaces.at[s] = r->backend->alloc(r->backend, bytes_each);
}

void rig_compile(rig *r, dg_dtype base)
{
    rig_compile_rank(r, base, NULL);
}

void rig_compile_rank(rig *r, dg_dtype base, dg_comm *comm)
{
    size_t each = dg_dtype_size(base);
    int64_t bytes[DG_N_SPACES] = { 0 };
    double *values;

    r->base = base;
    check(r, -dg_diag_errors(r->d));
    check(r, dg_passes(r->p, base, r->low ? r->low : base, r->backend->joins ? r->backend : NULL,
                       comm ? comm->ranks : 1, r->d));
    check(r, dg_plan_open(&r->plan, r->p, r->backend, 1, r->d));
    check(r, dg_plan_verify(r->plan, r->d));
    for (int s = 0; s < DG_N_SPACES; s++)
        bytes[s] = (int64_t)each * dg_params_elements(r->params);
    bytes[DG_SLAB] = r->plan->slab_bytes;
    bytes[DG_IO] = r->plan->io_bytes;
    bytes[DG_CONSTANTS] = r->plan->constant_bytes;
    for (int s = 0; s < DG_N_SPACES; s++)
        r->spaces.at[s] = r->backend->alloc(r->backend, (size_t)bytes[s]);
    fill_with_nan(r, r->spaces.at[DG_SLAB], (size_t)bytes[DG_SLAB]);
    check(r, dg_exec_open(&r->x, r->plan, r->backend, &r->spaces, comm, r->d));
    values = malloc(((size_t)dg_params_elements(r->params) + 1) * sizeof *values);
    for (int i = 0; i < dg_params_n(r->params); i++) {
        const dg_param_info *info = dg_params_at(r->params, i);

        if (info->offset < 0)
            continue;
        dg_params_init(r->params, i, 7, values);
        rig_set(r, DG_WEIGHTS, info->path, values);
        rig_set(r, DG_EMA, info->path, values);
    }
    free(values);
}

void rig_batch(rig *r)
{
    check(r, dg_exec_run(r->x, DG_SEG_BATCH, &r->control, r->d));
}

void rig_update(rig *r)
{
    check(r, dg_exec_run(r->x, DG_SEG_UPDATE, &r->control, r->d));
}

void rig_input(rig *r, const char *name, const double *values)
{
    check(r, dg_exec_set(r->x, dg_program_input(r->p, name), values, r->d));
}

double rig_result(rig *r, const char *name)
{
    double v = 0;

    check(r, dg_exec_read(r->x, name, &v, r->d));
    return v;
}

static void copy(rig *r, dg_space s, const char *path, double *out, const double *in)
{
    const dg_param_info *info = dg_params_at(r->params, dg_params_find_path(r->params, path));
    void *device = (char *)r->spaces.at[s] + (size_t)info->offset * dg_dtype_size(r->base);
    int64_t n = dg_shape_elements(info->shape);
    size_t bytes = (size_t)n * dg_dtype_size(r->base);
    void *at = dg_try_alloc(bytes);

    if (out)
        check(r, r->backend->download(r->backend, DG_LANE_COMPUTE, at, device, bytes));
    for (int64_t i = 0; i < n; i++) {
        if (in && r->base == DG_F64)
            ((double *)at)[i] = in[i];
        else if (in)
            ((float *)at)[i] = (float)in[i];
        else
            out[i] = r->base == DG_F64 ? ((double *)at)[i] : (double)((float *)at)[i];
    }
    if (in)
        check(r, r->backend->upload(r->backend, DG_LANE_COMPUTE, device, at, bytes));
    dg_free(at);
}

void *rig_copy(rig *r, dg_space s, size_t bytes)
{
    void *to = dg_try_alloc(bytes);

    check(r, r->backend->download(r->backend, DG_LANE_COMPUTE, to, r->spaces.at[s], bytes));
    return to;
}

void rig_get(rig *r, dg_space s, const char *path, double *out)
{
    copy(r, s, path, out, NULL);
}

void rig_set(rig *r, dg_space s, const char *path, const double *in)
{
    copy(r, s, path, NULL, in);
}

int rig_count(const rig *r, const dg_op *op)
{
    int n = 0;

    for (int i = 0; i < r->p->instrs.n; i++)
        n += r->p->instrs.items[i].op == op;
    return n;
}

const dg_instr *rig_find(const rig *r, const dg_op *op)
{
    for (int i = 0; i < r->p->instrs.n; i++)
        if (r->p->instrs.items[i].op == op)
            return &r->p->instrs.items[i];
    return NULL;
}

void rig_stored(const char *name, const char *text)
{
    const char *top = getenv("srcdir");
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    char *path = dg_printf(a, "%s/tests/tensor/data/%s", top ? top : ".", name), *stored = NULL;
    size_t n = 0;

    if (getenv("DG_RECORD"))
        assert_int_equal(dg_file_write(path, text, strlen(text), d), 0);
    assert_int_equal(dg_file_read(&stored, &n, path, 0, d), 0);
    assert_string_equal(text, stored);
    dg_free(stored);
    dg_diag_close(&d);
    dg_arena_close(&a);
}
