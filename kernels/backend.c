/* backend.c: the table of backends, and what a guarded launch does on the host. */
#include "kernels/backend.h"

#include <stdio.h>
#include <string.h>

#include "base/diag.h"
#include "base/str.h"
#include "kernels/cuda/host/host.h"
#include "kernels/far/far.h"
#include "kernels/host/host.h"

static const struct {
    const char *name;
    int (*open)(dg_backend **b, const char *device, dg_diag *d);
} devices[] = {
    { "cpu", dg_host_open },
    { "ref", dg_host_open },
    { "far", dg_far_open },
    { "cuda", dg_cuda_open },
};
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

/* "cpu, ref, far, cuda" */
static const char *name_all(char *buf, size_t n)
{
    size_t at = 0;

    for (int i = 0; i < N_DEVICES && at < n; i++)
        at += (size_t)snprintf(buf + at, n - at, "%s%s", i ? ", " : "", devices[i].name);
    return buf;
}

/* "far:seed=7" names the device before the colon. */
int dg_backend_open(dg_backend **b, const char *device, dg_diag *d)
{
    size_t n = strcspn(device, ":");
    const char *names[N_DEVICES], *near;
    char word[32], list[128];

    *b = NULL;
    for (int i = 0; i < N_DEVICES; i++) {
        names[i] = devices[i].name;
        if (strlen(devices[i].name) == n && strncmp(devices[i].name, device, n) == 0)
            return devices[i].open(b, device, d);
    }
    snprintf(word, sizeof word, "%.*s", (int)n, device);
    near = dg_nearest(word, names, N_DEVICES);
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-unknown", "there is no device \"%s\"", device);
    if (near)
        dg_help(d, "did you mean \"%s\"?", near);
    else
        dg_help(d, "this build has %s", name_all(list, sizeof list));
    return -DG_EINPUT;
}

void dg_backend_close(dg_backend **b)
{
    if (*b)
        (*b)->close(b);
    *b = NULL;
}

int dg_backend_tf32(dg_backend *b, dg_where where, dg_diag *d)
{
    char text[DG_BACKEND_WHY];

    if (b->allow_tf32 && b->allow_tf32(b))
        return 0;
    dg_fail(d, DG_EUNSUPPORTED, where, "precision-tf32",
            "precision \"tf32\": the device \"%s\" cannot multiply so (%s)", b->name,
            b->describe(b, text, sizeof text));
    dg_help(d, "NVIDIA's GPUs can from sm_80 on with --device cuda; elsewhere write f32, which is "
               "exact, or bf16, which is fast");
    return -DG_EUNSUPPORTED;
}

static size_t bytes_of(const dg_tensor *t)
{
    return (size_t)dg_shape_elements(t->shape) * dg_dtype_size(t->dtype);
}

static void write_skipped_outputs(const dg_launch *l)
{
    const dg_tensor *t = l->args->t;

    if (l->otherwise >= 0) {
        if (t[l->otherwise].data != t[l->n_in].data)
            memcpy(t[l->n_in].data, t[l->otherwise].data, bytes_of(&t[l->n_in]));
        return;
    }
    for (int k = 0; k < l->args->n - l->n_in; k++)
        if (l->zero_outputs >> k & 1)
            memset(t[l->n_in + k].data, 0, bytes_of(&t[l->n_in + k]));
}

int dg_launch_now(const dg_launch *l)
{
    if (!l->guard || *l->guard)
        return l->kernel ? l->kernel->run(l->args) : 0;
    write_skipped_outputs(l);
    return 0;
}
