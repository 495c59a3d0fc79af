/* launches: of how many pieces of work a step consists on a CUDA device, counted by op without
 * computing anything: the stand-in is idle. A step of RT-DETR stays below what is stated here, so
 * that a change that adds launches is noticed.
 *
 *     tests/cuda/launches PIPELINE [BATCH [SIZE [bf16|f32 [plain]]]]      counts another one
 *
 * plain: without a library of convolutions. */
#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec.h"
#include "graph/lower.h"
#include "nodes/builtin.h"
#include "tensor/ops.h"
#include "tensor/passes.h"

typedef struct counted {
    dg_diag *d;
    dg_arena *arena;
    dg_registry *registry;
    dg_graph *graph;
    dg_params *params;
    dg_program *program;
    dg_plan *plan;
    dg_backend *b;
    dg_exec *x;
    dg_spaces spaces;
    int64_t before, all;
    int64_t of_op[DG_N_OPS], instrs[DG_N_OPS];
} counted;

static void must(int rc, dg_diag *d)
{
    if (rc)
        fail_msg("%s", dg_diag_text(d));
}

static void open_device(counted *c, bool plain)
{
    const char *top = getenv("builddir");
    char name[4096];

    snprintf(name, sizeof name, "cuda:module=%s/tests/cuda/.libs/standin.so,idle=1%s",
             top ? top : ".", plain ? ",plain=1" : "");
    must(dg_backend_open(&c->b, name, c->d), c->d);
}

static void plan_step(counted *c, const char *path, const char *batch, int size, dg_dtype low)
{
    const dg_set sets[] = { { "batch", batch } };

    for (int i = 0; dg_builtin_nodes[i]; i++)
        must(dg_registry_add(c->registry, dg_builtin_nodes[i], c->d), c->d);
    must(dg_graph_load(&c->graph, path, sets, 1, c->registry, c->d), c->d);
    must(dg_graph_lower(&c->program, c->graph, c->graph->train, (dg_size){ size, size }, c->params,
                        c->d),
         c->d);
    must(dg_passes(c->program, DG_F32, low, c->b, 1, c->d), c->d);
    must(dg_plan_open(&c->plan, c->program, c->b, 1, c->d), c->d);
}

static void *device_memory(counted *c, int64_t bytes)
{
    void *p = c->b->alloc(c->b, (size_t)bytes);

    assert_non_null(p);
    return p;
}

static void bind_memory(counted *c)
{
    int64_t all = 4 * dg_params_elements(c->params);

    c->spaces.at[DG_SLAB] = device_memory(c, c->plan->slab_bytes);
    c->spaces.at[DG_IO] = device_memory(c, c->plan->io_bytes);
    c->spaces.at[DG_CONSTANTS] = device_memory(c, c->plan->constant_bytes);
    for (dg_space s = DG_WEIGHTS; s <= DG_EMA; s++)
        c->spaces.at[s] = device_memory(c, all);
    must(dg_exec_open(&c->x, c->plan, c->b, &c->spaces, NULL, c->d), c->d);
}

static void count_one(void *ctx, int instr, const dg_ran *how)
{
    counted *c = ctx;
    size_t op = (size_t)(c->program->instrs.items[instr].op - dg_ops);

    c->of_op[op] += how->pieces;
    c->instrs[op]++;
    c->all += how->pieces;
}

static void close_all(counted *c)
{
    dg_exec_close(&c->x);
    for (int s = 0; s < DG_N_SPACES; s++)
        if (c->spaces.at[s])
            c->b->free(c->b, c->spaces.at[s]);
    dg_plan_close(&c->plan);
    dg_program_close(&c->program);
    dg_params_close(&c->params);
    dg_graph_close(&c->graph);
    dg_registry_close(&c->registry);
    dg_backend_close(&c->b);
    dg_diag_close(&c->d);
    dg_arena_close(&c->arena);
}

static int64_t count(const char *path, const char *batch, int size, dg_dtype low, bool plain)
{
    const dg_control control = { .n_groups = 1 };
    counted c = { .d = dg_diag_open(),
                  .arena = dg_arena_open(),
                  .registry = dg_registry_open(),
                  .params = dg_params_open() };
    const dg_exec_observer observer = { .ctx = &c, .ran = count_one };
    int64_t all;

    open_device(&c, plain);
    plan_step(&c, path, batch, size, low);
    must(dg_plan_verify(c.plan, c.d), c.d);
    bind_memory(&c);
    dg_exec_observe(c.x, &observer);
    must(dg_exec_run(c.x, DG_SEG_BATCH, &control, c.d), c.d);
    must(dg_exec_run(c.x, DG_SEG_UPDATE, &control, c.d), c.d);
    all = c.all;
    print_message("# %s, batch %s: %lld pieces of work, %d instructions, slab %.0f MB\n", path,
                  batch, (long long)all, c.program->instrs.n, 1e-6 * (double)c.plan->slab_bytes);
    for (int64_t most = all; most > 0; most--)
        for (size_t op = 0; op < DG_N_OPS; op++)
            if (c.of_op[op] == most)
                print_message("#   %-24s %5lld of %lld instructions\n", dg_ops[op].name,
                              (long long)c.of_op[op], (long long)c.instrs[op]);
    close_all(&c);
    return all;
}

static void a_step_has_few_launches(void **state)
{
    static const struct {
        const char *preset;
        int64_t most;
    } known[] = { { "rtdetr_r18vd", 950 }, { "rtdetr_r50vd", 1200 } };
    const char *top = getenv("srcdir");
    char path[4096];

    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        snprintf(path, sizeof path, "%s/pipelines/%s_coco.xml", top ? top : ".", known[i].preset);
        assert_true(count(path, "4", 640, DG_BF16, false) < known[i].most);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_has_few_launches) };

    if (argc > 1) {
        count(argv[1], argc > 2 ? argv[2] : "4", argc > 3 ? atoi(argv[3]) : 640,
              argc > 4 && strcmp(argv[4], "f32") == 0 ? DG_F32 : DG_BF16, argc > 5);
        return 0;
    }
    return cmocka_run_group_tests_name("launches", tests, NULL, NULL);
}
