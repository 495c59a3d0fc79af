/* numbers.c: checks the values of my.node. Each of the pipeline's 6 images has one object: if all
 * 10 detections count, the error is 9; if none does, it is 1. */
#include <detrgraph/run.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static void report(void *ctx, const dg_run_report *r)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->names[i], "miscount") == 0)
            *(double *)ctx = r->values[i];
}

static int evaluate(double *miscount, const char *least, dg_diag *d)
{
    const char *sets[] = { least };
    const dg_run_options options = {
        .size = sizeof options, .file = "my_node.xml", .n_sets = 1, .sets = sets
    };
    dg_run *run = NULL;
    int rc;

    DG_TRY(dg_run_open(&run, &options, d));
    DG_TRY(dg_run_evaluate(run, NULL, false, report, miscount, d));
out:
    dg_run_close(&run);
    return rc;
}

int main(void)
{
    dg_diag *d = dg_diag_open();
    double all = -1, none = -1;
    int rc;

    DG_TRY(evaluate(&all, "least=0", d));
    DG_TRY(evaluate(&none, "least=1", d));
    printf("my.node: %g off where all count, %g where none does\n", all, none);
out:
    fputs(dg_diag_text(d), stderr);
    dg_diag_close(&d);
    return rc < 0 || fabs(all - 9) > 1e-9 || fabs(none - 1) > 1e-9;
}
