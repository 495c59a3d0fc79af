/* parity.c: compares a run with numbers of the PyTorch reference:
 *
 *     tests/parity/parity [--precision f32|f64|bf16] [--reference] [--threads N] [--pipelines
 *     DIR] [--parts] [-v] FIXTURE.json...
 *
 * For each file (see the fixtures' description) it opens the shipped preset through the public
 * session, replaces
 * weights, images and denoising draws, and prints the largest error of each group beside its
 * bound. The last line is
 * PASS or FAIL. bf16 is shown, not judged. --parts: the file holds values of
 * the forward pass of a part of the model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/codetr.h"

static int compare(fixture *f, const settings *set, const char *file, dg_diag *d)
{
    const char *mode;
    int rc = fixture_open(f, set, file, d);

    if (rc)
        return rc;
    mode = dg_json_get(f->root, "mode")->text;
    if (strcmp(mode, "train_step") == 0)
        return f->codetr ? codetr_train_step(f) : fixture_train_step(f);
    if (strcmp(mode, "eval") == 0)
        return f->codetr ? codetr_eval(f) : fixture_eval(f);
    if (strcmp(mode, "trace") == 0)
        return f->codetr ? codetr_trace(f) : fixture_trace(f);
    return dg_fail(d, DG_EINPUT, DG_NOWHERE, "fixture-mode",
                   "%s: mode \"%s\", expected train_step, eval or trace", file, mode);
}

static bool run_file(const settings *set, const char *file)
{
    dg_diag *d = dg_diag_open();
    fixture f;
    bool good;

    printf("%s\n", file);
    fflush(stdout);
    if (compare(&f, set, file, d) == 0) {
        good = report_print(f.report, stdout);
    } else {
        printf("%s\n", dg_diag_text(d));
        good = false;
    }
    printf("  %s %s\n", good ? "PASS" : "FAIL", file);
    fflush(stdout);
    fixture_close(&f);
    dg_diag_close(&d);
    return good;
}

static int usage(void)
{
    fprintf(stderr, "usage: parity [--precision f32|f64|bf16] [--reference] [--threads N] "
                    "[--pipelines DIR] [--parts] [-v] FIXTURE.json...\n");
    return 2;
}

static bool parse_precision(const char *word, precision *out)
{
    static const char *const words[] = { [F32] = "f32", [F64] = "f64", [BF16] = "bf16" };

    for (int i = 0; word && i < 3; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (precision)i;
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    static char default_pipelines[4096];
    const char *srcdir = getenv("srcdir");
    settings set = { .pipelines = default_pipelines };
    bool good = true;
    int i = 1;

    snprintf(default_pipelines, sizeof default_pipelines, "%s/pipelines", srcdir ? srcdir : ".");
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--reference") == 0)
            set.reference = true;
        else if (strcmp(argv[i], "--parts") == 0)
            set.parts = true;
        else if (strcmp(argv[i], "-v") == 0)
            set.verbose = true;
        else if (strcmp(argv[i], "--precision") == 0 && i + 1 < argc &&
                 parse_precision(argv[i + 1], &set.precision))
            i++;
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            set.threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--pipelines") == 0 && i + 1 < argc)
            set.pipelines = argv[++i];
        else
            return usage();
    }
    if (i == argc)
        return usage();
    for (; i < argc; i++)
        good = run_file(&set, argv[i]) && good;
    printf("%s\n", good ? "PASS" : "FAIL");
    return good ? 0 : 1;
}
