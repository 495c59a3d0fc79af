/* defects: plants defects into the programs of accepted pipelines and counts how many the second
 * look finds: in a program that all ranks run, and in one that only one of two ranks runs. What
 * makes ranks part must always be found; a reduction that is left out must be where it decides
 * anything. */
#include "tests/proof/loaded.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tensor/ops.h"

enum { SITES = 3 }; /* most places of one kind in one program */

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_collective(const dg_instr *in)
{
    return in->op->effect == DG_COLLECTIVE;
}

static bool has_reduce_attr(const dg_instr *in)
{
    return is_collective(in) && in->op != DG_OP(reduce_begin) && in->op != DG_OP(reduce_end);
}

static bool has_root(const dg_instr *in)
{
    return in->op == DG_OP(broadcast) || in->op == DG_OP(broadcast_i32) ||
           in->op == DG_OP(reduce_to) || in->op == DG_OP(reduce_to_i32);
}

static bool has_result(const dg_instr *in)
{
    return is_collective(in) && in->n_out;
}

static bool begins(const dg_instr *in)
{
    return in->op == DG_OP(reduce_begin);
}

static bool ends(const dg_instr *in)
{
    return in->op == DG_OP(reduce_end);
}

static bool updates(const dg_instr *in)
{
    return in->op == DG_OP(adamw) || in->op == DG_OP(ema) || in->op == DG_OP(stat_update);
}

static dg_instr *place(dg_program *p, bool (*fits)(const dg_instr *), int site)
{
    for (int i = 0; i < p->instrs.n; i++)
        if (fits(&p->instrs.items[i]) && site-- == 0)
            return &p->instrs.items[i];
    return NULL;
}

/* A number that the host feeds, and that no node answers for. */
static int32_t stray(dg_program *p, dg_dtype dtype, dg_shape shape)
{
    return dg_program_value(p, (dg_value){ .dtype = dtype,
                                           .shape = shape,
                                           .space = DG_IO,
                                           .producer = -1,
                                           .param = -1 });
}

static void leave_out(dg_program *p, const dg_instr *in)
{
    bool *keep = DG_NEW_N(p->arena, p->instrs.n + 1, bool);

    for (int i = 0; i < p->instrs.n; i++)
        keep[i] = &p->instrs.items[i] != in;
    dg_program_compact(p, keep);
}

/* ---- defects: each returns false if the program has no such place -----------------------------
 */

static bool own_guard(dg_program *p, int site)
{
    dg_instr *in = place(p, is_collective, site);

    if (in)
        in->guard = stray(p, DG_I32, DG_SCALAR);
    return in;
}

static bool own_update(dg_program *p, int site)
{
    dg_instr *in = place(p, updates, site);

    if (in)
        in->guard = stray(p, DG_I32, DG_SCALAR);
    return in;
}

static bool own_operand(dg_program *p, int site)
{
    dg_instr *in = place(p, updates, site);
    int k = in ? in->n_in - 1 : 0; /* ok */

    if (in)
        in->v[k] = stray(p, p->values.items[in->v[k]].dtype, p->values.items[in->v[k]].shape);
    return in;
}

static bool no_such_root(dg_program *p, int site)
{
    dg_instr *in = place(p, has_root, site);

    if (in)
        ((reduce_attr *)in->attr)->root = ((reduce_attr *)in->attr)->ranks;
    return in;
}

static bool more_ranks(dg_program *p, int site)
{
    dg_instr *in = place(p, has_reduce_attr, site);

    if (in)
        ((reduce_attr *)in->attr)->ranks++;
    return in;
}

static bool no_such_axis(dg_program *p, int site)
{
    dg_instr *in = place(p, is_collective, site);

    if (in)
        *(has_reduce_attr(in) ? &((reduce_attr *)in->attr)->axis
                              : &((bucket_attr *)in->attr)->axis) = 1;
    return in;
}

static bool no_such_reduction(dg_program *p, int site)
{
    dg_instr *in = place(p, has_reduce_attr, site);

    if (in)
        ((reduce_attr *)in->attr)->op = 9;
    return in;
}

static bool longer_result(dg_program *p, int site)
{
    dg_instr *in = place(p, has_result, site);

    if (in)
        p->values.items[in->v[in->n_in]].shape = DG_SHAPE(123457);
    return in;
}

static bool begun_twice(dg_program *p, int site)
{
    dg_instr *in = place(p, ends, site);

    if (in)
        in->op = DG_OP(reduce_begin);
    return in;
}

static bool not_begun(dg_program *p, int site)
{
    dg_instr *in = place(p, begins, site);

    if (in)
        leave_out(p, in);
    return in;
}

static bool not_awaited(dg_program *p, int site)
{
    dg_instr *in = place(p, ends, site);

    if (in)
        leave_out(p, in);
    return in;
}

static bool shorter_wait(dg_program *p, int site)
{
    dg_instr *in = place(p, ends, site);

    if (in)
        ((bucket_attr *)in->attr)->end--;
    return in;
}

/* Begun before backward. */
static bool too_early(dg_program *p, int site)
{
    dg_instr *in = place(p, begins, site), it;

    if (!in)
        return false;
    it = *in;
    memmove(&p->instrs.items[1], &p->instrs.items[0], (size_t)(in - p->instrs.items) * sizeof *in);
    p->instrs.items[0] = it;
    dg_program_renumber(p);
    return true;
}

static bool own_stop(dg_program *p, int site)
{
    int32_t flag = 0;

    for (int i = 0; i < p->results.n; i++)
        if (p->results.items[i].kind == DG_RESULT_STOP && place(p, is_collective, 0) && site-- == 0)
            p->results.items[i].value = flag = stray(p, DG_I32, DG_SCALAR);
    return flag;
}

/* Who read the result reads the operand: it decides nothing, or the ranks part. */
static bool not_reduced(dg_program *p, int site)
{
    dg_instr *in = place(p, has_result, site);
    int32_t from, to;

    if (!in ||
        !dg_shape_equal(p->values.items[in->v[0]].shape, p->values.items[in->v[in->n_in]].shape))
        return false;
    from = in->v[in->n_in];
    to = in->v[0];
    for (int i = 0; i < p->instrs.n; i++) {
        dg_instr *x = &p->instrs.items[i];

        for (int k = 0; k < x->n_in; k++)
            x->v[k] = x->v[k] == from ? to : x->v[k];
        x->guard = x->guard == from ? to : x->guard;
    }
    for (int i = 0; i < p->results.n; i++)
        p->results.items[i].value =
            p->results.items[i].value == from ? to : p->results.items[i].value;
    return true;
}

/* ---- defects of one rank's program ------------------------------------------------------------
 */

static bool lacks_one(dg_program *p, int site)
{
    dg_instr *in = place(p, is_collective, site);

    if (in)
        leave_out(p, in);
    return in;
}

static bool other_order(dg_program *p, int site)
{
    dg_instr *a = place(p, is_collective, site), *b = place(p, is_collective, site + 1), it;

    if (!b || (a->op == b->op && a->origin.node == b->origin.node))
        return false;
    it = *a;
    *a = *b;
    *b = it;
    return true;
}

static bool other_root(dg_program *p, int site)
{
    dg_instr *in = place(p, has_root, site);

    if (in)
        ((reduce_attr *)in->attr)->root ^= 1;
    return in;
}

static bool other_reduction(dg_program *p, int site)
{
    dg_instr *in = place(p, has_reduce_attr, site);

    if (in)
        ((reduce_attr *)in->attr)->op ^= 1;
    return in;
}

static bool other_count(dg_program *p, int site)
{
    dg_instr *in = place(p, has_reduce_attr, site);

    if (in)
        in->v[0] = stray(p, p->values.items[in->v[0]].dtype, DG_SHAPE(123457));
    return in;
}

static bool other_type(dg_program *p, int site)
{
    dg_instr *in = place(p, has_reduce_attr, site);

    if (in)
        in->v[0] = stray(p, p->values.items[in->v[0]].dtype == DG_F64 ? DG_F32 : DG_F64,
                         p->values.items[in->v[0]].shape);
    return in;
}

static bool other_node(dg_program *p, int site)
{
    dg_instr *in = place(p, is_collective, site);

    if (in)
        in->origin.node++;
    return in;
}

static const struct {
    const char *name;
    bool (*plant)(dg_program *p, int site);
    bool one, may; /* of one rank's program; may stay unfound */
} defects[] = {
    { "a collective where a rank says so", own_guard, false, false },
    { "an update where a rank says so", own_update, false, false },
    { "an update by a number of a rank's own", own_operand, false, false },
    { "a root that is no rank", no_such_root, false, false },
    { "a collective of more ranks", more_ranks, false, false },
    { "a collective over no axis", no_such_axis, false, false },
    { "no reduction", no_such_reduction, false, false },
    { "a result of another size", longer_result, false, false },
    { "a bucket begun twice", begun_twice, false, false },
    { "a bucket not begun", not_begun, false, false },
    { "a bucket not awaited", not_awaited, false, false },
    { "a bucket awaited in part", shorter_wait, false, false },
    { "a bucket begun before its gradients", too_early, false, false },
    { "an end that a rank decides", own_stop, false, false },
    { "a result not reduced", not_reduced, false, true },
    { "one collective less on a rank", lacks_one, true, false },
    { "two in another order", other_order, true, false },
    { "another root", other_root, true, false },
    { "another reduction", other_reduction, true, false },
    { "another count", other_count, true, false },
    { "another type", other_type, true, false },
    { "another node", other_node, true, false },
};
enum { N = sizeof defects / sizeof *defects };

typedef struct tally {
    int planted[N], found[N], programs;
} tally;

/* Plants defect k at a site of the scope's program; false: there is no such site. */
static bool plant(loaded *x, const dg_scope *s, const dg_second_host *h, int k, int site, tally *t,
                  const char *file)
{
    dg_program *p = lowered(x, s, 0), *intact = defects[k].one ? lowered(x, s, 0) : NULL;
    dg_diag *d = dg_diag_open();
    bool there = defects[k].plant(p, site), found;

    if (there) {
        found = (intact ? dg_second_meet(intact, p, h->live, h, d) : dg_second_look(p, h, d)) < 0;
        t->planted[k]++;
        t->found[k] += found;
        if (!found && !defects[k].may)
            fail_msg("%s, %s %d: not found", file, defects[k].name, site);
    }
    dg_program_close(&p);
    dg_program_close(&intact);
    dg_diag_close(&d);
    return there;
}

static void plant_all(loaded *x, tally *t, const char *file)
{
    const dg_scope *s;

    for (int i = 0; (s = scope_of(x, i)); i++) {
        dg_second_host *h = dg_second_host_make(x->g, s, x->a);
        dg_program *p = lowered(x, s, 0);
        dg_diag *d = dg_diag_open();
        bool clean = p && h->live && dg_second_look(p, h, d) == 0;

        dg_diag_close(&d);
        dg_program_close(&p);
        t->programs += clean;
        for (int k = 0; k < N && clean; k++)
            for (int site = 0; site < SITES; site++)
                if (!plant(x, s, h, k, site, t, file))
                    break;
    }
}

static int choose(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return n > 4 && strcmp(e->d_name + n - 4, ".xml") == 0;
}

static void planted(void **state)
{
    tally t = { .programs = 0 };
    int sum = 0, found = 0;
    struct dirent **files;
    int n_files = scandir(".", &files, choose, alphasort);

    (void)state;
    for (int i = 0; i < n_files; i++) {
        char *text = read_file(files[i]->d_name);

        if (strstr(text, "verdict: accept")) {
            loaded x;

            load(&x, text, files[i]->d_name);
            if (x.g)
                plant_all(&x, &t, files[i]->d_name);
            unload(&x);
        }
        dg_free(text);
        free(files[i]);
    }
    free(files);
    for (int k = 0; k < N; k++) {
        print_message("# %-40s %4d planted, %4d found\n", defects[k].name, t.planted[k],
                      t.found[k]);
        assert_true(t.planted[k] > 0);
        sum += t.planted[k];
        found += t.found[k];
    }
    print_message("# %d programs: %d defects, %d found\n", t.programs, sum, found);
    assert_true(sum >= 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(planted) };

    return enter_cases() ? 1 : cmocka_run_group_tests_name("defects", tests, NULL, NULL);
}
