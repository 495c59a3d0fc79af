/* probe: what a pipeline's first evaluation computes from given pixels, for comparison with other
 * programs:
 *     probe PIPELINE WEIGHTS SIZE IMAGES OUT [NAME=VALUE...]
 *     probe PIPELINE init OUT [NAME=VALUE...]                    its initial weights
 * SIZE: a side, or WxH. IMAGES: f32 [N,H,W,3], with N the batch of the evaluation. OUT receives
 * f32: the logits, then the boxes; OUT.masks, if there are masks: the boxes of what is detected,
 * then its masks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <detrgraph/run.h>

static void fail(const char *what)
{
    fprintf(stderr, "probe: %s\n", what);
    exit(1);
}

static void check(int rc, dg_diag *d)
{
    if (rc < 0)
        fail(dg_diag_text(d));
}

/* The last value whose name begins and ends so; -1: there is none. */
static int find(dg_run *run, const char *begin, const char *end)
{
    for (int i = dg_run_n_values(run) - 1; i >= 0; i--) {
        const char *name = dg_run_value_at(run, i).name;
        size_t n = strlen(name), m = strlen(end);

        if (strncmp(name, begin, strlen(begin)) == 0 && n > m && strcmp(name + n - m, end) == 0)
            return i;
    }
    return -1;
}

static void write_value(dg_run *run, const char *begin, const char *end, FILE *out, dg_diag *d)
{
    int at = find(run, begin, end);
    dg_run_tensor t;
    int64_t n;
    double *v;

    if (at < 0)
        fail("the evaluation has no such value");
    t = dg_run_value_at(run, at);
    n = dg_shape_elements(t.shape);
    v = calloc((size_t)n, sizeof *v);
    if (!v)
        fail("no memory");
    check(dg_run_read(run, t.name, v, n, d), d);
    for (int64_t k = 0; k < n; k++)
        if (fwrite(&(float){ (float)v[k] }, sizeof(float), 1, out) != 1)
            fail("cannot write");
    free(v);
}

/* Two values, one after the other. */
static void write_file(dg_run *run, const char *name, const char *begin, const char *first,
                       const char *second, dg_diag *d)
{
    FILE *f = fopen(name, "wb");

    if (!f)
        fail("OUT cannot be written");
    write_value(run, begin, first, f, d);
    write_value(run, begin, second, f, d);
    if (fclose(f))
        fail("OUT cannot be written");
}

int main(int argc, char **argv)
{
    dg_diag *d = dg_diag_open();
    dg_run *run;
    dg_run_options how = {
        .size = sizeof how, .precision = "f32", .no_pretrained = true, .keep_named = true
    };
    int w = 0, h = 0, n_sides;
    FILE *f;

    bool init = argc > 3 && strcmp(argv[2], "init") == 0;
    int used = init ? 4 : 6;

    if (argc < used)
        fail("PIPELINE WEIGHTS SIZE IMAGES OUT are expected");
    how.file = argv[1];
    how.n_sets = argc - used;
    how.sets = (const char *const *)argv + used;
    check(dg_run_open(&run, &how, d), d);
    if (init) {
        check(dg_run_save(run, DG_RUN_WEIGHTS, argv[3], d), d);
        dg_run_close(&run);
        dg_diag_close(&d);
        return 0;
    }
    check(dg_run_load(run, argv[2], d), d);
    n_sides = sscanf(argv[3], "%dx%d", &w, &h);
    check(dg_run_select(run, "evaluate", w, n_sides == 2 ? h : w, d), d);

    dg_run_tensor images = dg_run_input_at(run, 0);
    int64_t n = dg_shape_elements(images.shape);
    float *pixels = calloc((size_t)n, sizeof *pixels);
    double *wide = calloc((size_t)n, sizeof *wide);

    f = fopen(argv[4], "rb");
    if (!pixels || !wide || !f || fread(pixels, sizeof *pixels, (size_t)n, f) != (size_t)n ||
        fgetc(f) != EOF)
        fail("IMAGES do not fit the evaluation's batch and SIZE");
    fclose(f);
    for (int64_t i = 0; i < n; i++)
        wide[i] = (double)pixels[i];
    check(dg_run_feed(run, images.name, wide, n, d), d);
    check(dg_run_forward(run, false, d), d);
    write_file(run, argv[5], "dec.", ".logits", ".boxes", d);
    if (find(run, "detections.", "masks") >= 0) {
        char *name = calloc(strlen(argv[5]) + sizeof ".masks", 1);

        if (!name)
            fail("no memory");
        strcat(strcat(name, argv[5]), ".masks");
        write_file(run, name, "detections.", "boxes", "masks", d);
        free(name);
    }
    free(pixels);
    free(wide);
    dg_run_close(&run);
    dg_diag_close(&d);
    return 0;
}
