/* far.h: a far device with a little memory, and a kernel that notes when it ran. */
#ifndef DG_TESTS_KERNELS_FAR_H
#define DG_TESTS_KERNELS_FAR_H

#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"

enum { N = 4, BYTES = N * sizeof(float) };

typedef struct far {
    dg_backend *b;
    float *x, *y, *z; /* device, N numbers each */
    float *pinned;    /* N numbers */
    uint32_t word;    /* for signs */
    int ran;          /* jobs and calls so far */
} far;

/* Nothing begins by itself: what a busy machine delays is late all the same. */
static inline void far_open(far *f, const char *options)
{
    dg_diag *d = dg_diag_open();
    char device[96];

    snprintf(device, sizeof device, "far:patience=3600000%s%s", *options ? "," : "", options);
    *f = (far){ 0 };
    if (dg_backend_open(&f->b, device, d) < 0)
        fail_msg("%s", dg_diag_text(d));
    dg_diag_close(&d);
    f->x = f->b->alloc(f->b, BYTES);
    f->y = f->b->alloc(f->b, BYTES);
    f->z = f->b->alloc(f->b, BYTES);
    f->pinned = f->b->alloc_pinned(f->b, BYTES);
    assert_true(f->x && f->y && f->z && f->pinned);
}

static inline int far_ran(far *f)
{
    return __atomic_load_n(&f->ran, __ATOMIC_ACQUIRE);
}

/* The device says why it failed; then it is closed. */
static inline void far_close(far *f, const char *why)
{
    char text[320];

    f->b->describe(f->b, text, sizeof text);
    if (why && !strstr(text, why))
        fail_msg("\"%s\" does not say \"%s\"", text, why);
    if (!why)
        assert_string_equal(text, "far device for tests: host kernels, late");
    dg_backend_close(&f->b);
    assert_null(f->b);
}

/* out = in + add, a launch with the mark 100 + add. */
typedef struct job {
    far *f;
    float add;
    int status; /* what its kernel returns */
    dg_tensor t[2];
    dg_args args;
    dg_launch launch;
} job;

static inline int job_run(const dg_args *a)
{
    const job *j = a->attr;
    const float *in = a->t[0].data;
    float *out = a->t[1].data;

    __atomic_add_fetch(&j->f->ran, 1, __ATOMIC_ACQ_REL);
    for (int i = 0; i < N; i++)
        out[i] = in[i] + j->add;
    return j->status;
}

static inline void job_set(job *j, far *f, float *out, float *in, float add)
{
    static const dg_kernel kernel = { .run = job_run };

    *j = (job){ .f = f, .add = add };
    j->t[0] = (dg_tensor){ DG_F32, DG_SHAPE(N), in };
    j->t[1] = (dg_tensor){ DG_F32, DG_SHAPE(N), out };
    j->args = (dg_args){ .t = j->t, .n = 2, .attr = j, .threads = 1 };
    j->launch = (dg_launch){
        .kernel = &kernel, .args = &j->args, .otherwise = -1, .n_in = 1, .mark = 100 + (int)add
    };
}

static inline void job_queue(job *j, dg_lane lane)
{
    assert_int_equal(j->f->b->launch(j->f->b, lane, &j->launch), 0);
}

/* All of x's elements, which are the same; waits for nothing but that lane. */
static inline float far_read(far *f, dg_lane lane, const float *x)
{
    float got[N];

    assert_int_equal(f->b->download(f->b, lane, got, x, BYTES), 0);
    for (int i = 1; i < N; i++)
        assert_true(got[i] == got[0]);
    return got[0];
}

static inline void fill(float *x, float v)
{
    for (int i = 0; i < N; i++)
        x[i] = v;
}

/* x = v, at once. */
static inline void far_write(far *f, float *x, float v)
{
    float from[N];

    fill(from, v);
    assert_int_equal(f->b->upload(f->b, DG_LANE_COMPUTE, x, from, BYTES), 0);
    assert_int_equal(f->b->finish(f->b), 0);
}

#endif
