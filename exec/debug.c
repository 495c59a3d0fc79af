/* debug.c: runs an instruction and looks at it; see debug.h. */
#include "exec/debug.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/element.h"
#include "base/str.h"
#include "exec/exec_internal.h"
#include "tensor/ops.h"

int dg_debug_parse(unsigned *what, const char *list, dg_diag *d)
{
    static const char *const words[] = { "sync", "nan", "poison", "names" };
    enum { N = sizeof words / sizeof words[0] };

    *what = 0;
    for (const char *at = list;; at++) {
        size_t n = strcspn(at, ",");
        char word[32];
        int k = 0;

        snprintf(word, sizeof word, "%.*s", (int)n, at);
        while (k < N && (strlen(words[k]) != n || strncmp(words[k], at, n) != 0))
            k++;
        if (k == N) {
            const char *near = dg_nearest(word, words, N);

            dg_fail(d, DG_EINPUT, DG_NOWHERE, "debug-unknown", "--debug %s: there is no \"%s\"",
                    list, word);
            if (near)
                dg_help(d, "did you mean \"%s\"?", near);
            else
                dg_help(d, "any of sync,nan,poison,names");
            return -DG_EINPUT;
        }
        *what |= 1u << k;
        at += n;
        if (!*at)
            return 0;
    }
}

/* ---- lives of memory ------------------------------------------------------------------------- */

/* Per value: the first value in its memory (itself, unless it took that of an operand), and for
 * those the last instruction that uses the memory. */
struct dg_lives {
    int32_t *first;
    int *last;
};

static bool is_placed(const dg_exec *x, int32_t v)
{
    return v &&
           (x->p->values.items[v].space == DG_SLAB || x->p->values.items[v].space == DG_REPORT);
}

static bool same_place(const dg_exec *x, int32_t a, int32_t b)
{
    const dg_value *v = x->p->values.items;

    return is_placed(x, a) && is_placed(x, b) && v[a].space == v[b].space &&
           v[a].offset == v[b].offset;
}

static void find_lives(dg_exec *x)
{
    const dg_program *p = x->p;
    dg_lives *l = DG_NEW(x->arena, dg_lives);

    l->first = DG_NEW_N(x->arena, p->values.n, int32_t);
    l->last = DG_NEW_N(x->arena, p->values.n, int);
    for (int32_t v = 0; v < p->values.n; v++)
        l->first[v] = v;
    for (int i = 0; i < p->instrs.n; i++) {
        const dg_instr *in = &p->instrs.items[i];

        for (int k = in->n_in; k < in->n_in + in->n_out; k++)
            for (int o = 0; o < in->n_in; o++)
                if (same_place(x, in->v[o], in->v[k]))
                    l->first[in->v[k]] = l->first[in->v[o]];
        for (int k = 0; k < in->n_in + in->n_out; k++)
            l->last[l->first[in->v[k]]] = i;
        l->last[l->first[in->guard]] = i;
    }
    for (int i = 0; i < p->results.n; i++)
        l->last[l->first[p->results.items[i].value]] = p->instrs.n;
    for (int32_t v = 1; p->keep_names && v < p->values.n; v++)
        if (p->values.items[v].name)
            l->last[l->first[v]] = p->instrs.n;
    l->last[l->first[p->ok]] = l->last[l->first[p->ok_batch]] = p->instrs.n;
    x->lives = l;
}

void dg_exec_debug(dg_exec *x, const dg_debug *debug)
{
    x->debug = *debug;
    if (debug->what & DG_DEBUG_POISON && !x->lives)
        find_lives(x);
}

/* All bits set: NaN in every real type, -1 as an integer. */
static int poison(dg_exec *x, void *at, size_t bytes)
{
    enum { PIECE = 1 << 16 };
    unsigned char ones[PIECE];
    int rc = 0;

    memset(ones, 0xFF, sizeof ones);
    for (size_t done = 0; done < bytes && rc == 0; done += PIECE)
        rc = x->backend->upload(x->backend, DG_LANE_COMPUTE, (char *)at + done, ones,
                                bytes - done < PIECE ? bytes - done : PIECE);
    return rc;
}

static int poison_value(dg_exec *x, int32_t v)
{
    dg_tensor t = dg_exec_tensor(x, v);

    return poison(x, t.data, dg_exec_tensor_bytes(&t));
}

static int poison_before(dg_exec *x, int i)
{
    const dg_instr *in = &x->p->instrs.items[i];
    void *workspace = x->args[i].workspace;
    int rc = workspace ? poison(x, workspace, x->plan->instrs[i].workspace_bytes) : 0;

    for (int k = in->n_in; k < in->n_in + in->n_out && rc == 0; k++)
        if (is_placed(x, in->v[k]) && x->lives->first[in->v[k]] == in->v[k])
            rc = poison_value(x, in->v[k]);
    return rc;
}

static int poison_after(dg_exec *x, int i)
{
    const dg_instr *in = &x->p->instrs.items[i];
    int rc = 0;

    for (int k = 0; k < in->n_in + in->n_out && rc == 0; k++)
        if (is_placed(x, in->v[k]) && x->lives->last[x->lives->first[in->v[k]]] == i)
            rc = poison_value(x, in->v[k]);
    return rc;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void print_operand(dg_str *s, const dg_exec *x, const dg_signature *sig, const dg_instr *in,
                          int k)
{
    const dg_operand *o = dg_signature_at(sig, in->n_in, k);
    const dg_value *v = &x->p->values.items[in->v[k]];
    char shape[96];

    if (!in->v[k])
        return;
    dg_str_fmt(s, "%s%.*s %s%s", k == 0 || k == in->n_in ? "" : ", ", o->len, o->name,
               dg_dtype_name(v->dtype), dg_shape_print(v->shape, shape, sizeof shape));
    if (v->param >= 0)
        dg_str_fmt(s, " %s", dg_params_at(x->p->params, v->param)->name);
    else if (v->name)
        dg_str_fmt(s, " %s", v->name);
}

/* "instruction 12, exp (x f32[2] -> y f32[2]) of net, net.xml:3" */
static void print_instr(dg_str *s, const dg_exec *x, int i)
{
    const dg_instr *in = &x->p->instrs.items[i];
    const dg_where *at = &in->origin.where;
    dg_signature sig;

    dg_str_fmt(s, "instruction %d, %s (", i, in->op->name);
    for (int k = 0; dg_signature_parse(&sig, in->op->signature) == 0 && k < in->n_in + in->n_out;
         k++) {
        dg_str_add(s, k == in->n_in ? k ? " -> " : "-> " : "");
        print_operand(s, x, &sig, in, k);
    }
    dg_str_fmt(s, ") of %s", at->node ? at->node : "the pipeline");
    if (at->file)
        dg_str_fmt(s, ", %s:%d", at->file, at->line);
}

static void tell_name(const dg_exec *x, int i)
{
    dg_str s = { 0 };

    print_instr(&s, x, i);
    x->debug.tell(x->debug.ctx, s.s);
    dg_str_free(&s);
}

/* ---- numbers that are not finite ------------------------------------------------------------- */

typedef struct finding {
    int64_t nan, infinite; /* the first element of each; -1: none */
} finding;

static int look(dg_exec *x, int32_t v, finding *f, dg_diag *d)
{
    const dg_value *value = &x->p->values.items[v];
    const void *bytes;
    int rc;

    *f = (finding){ -1, -1 };
    if (!v || !dg_dtype_is_real(value->dtype))
        return 0;
    rc = dg_exec_peek(x, v, &bytes, d);
    for (int64_t i = 0, n = dg_shape_elements(value->shape); i < n && rc == 0 && f->nan < 0; i++) {
        double number = dg_element(bytes, value->dtype, i);

        if (isnan(number))
            f->nan = i;
        else if (isinf(number) && f->infinite < 0)
            f->infinite = i;
    }
    return rc;
}

static int found(dg_exec *x, int i, int k, int64_t element, const char *what, dg_diag *d)
{
    const dg_instr *in = &x->p->instrs.items[i];
    dg_str s = { 0 };
    dg_signature sig;
    int rc = dg_signature_parse(&sig, in->op->signature);
    const dg_operand *o = dg_signature_at(&sig, in->n_in, k);

    print_instr(&s, x, i);
    if (rc == 0)
        rc = dg_fail(d, DG_ENUMERIC, in->origin.where, "value-not-finite",
                     "%s: operand %.*s %s at element %lld of %lld", s.s, o->len, o->name, what,
                     (long long)element + 1,
                     (long long)dg_shape_elements(x->p->values.items[in->v[k]].shape));
    dg_str_free(&s);
    return rc;
}

/* NaN that comes in; *infinite: whether there is an input that is infinite. */
static int check_inputs(dg_exec *x, int i, bool *infinite, dg_diag *d)
{
    const dg_instr *in = &x->p->instrs.items[i];
    finding f;
    int rc = 0;

    *infinite = false;
    for (int k = 0; k < in->n_in && rc == 0; k++) {
        rc = look(x, in->v[k], &f, d);
        *infinite = *infinite || f.infinite >= 0;
        if (rc == 0 && f.nan >= 0)
            rc = found(x, i, k, f.nan, "comes in as NaN", d);
    }
    return rc;
}

/* What it made: outputs, and states that it updated. */
static int check_outputs(dg_exec *x, int i, bool infinite, dg_diag *d)
{
    const dg_instr *in = &x->p->instrs.items[i];
    dg_signature sig;
    finding f;
    int rc = dg_signature_parse(&sig, in->op->signature);

    for (int k = 0; k < in->n_in + in->n_out && rc == 0; k++) {
        if (k < in->n_in && !dg_signature_at(&sig, in->n_in, k)->state)
            continue;
        rc = look(x, in->v[k], &f, d);
        if (rc == 0 && f.nan >= 0)
            rc = found(x, i, k, f.nan, "is NaN, and no input is,", d);
        else if (rc == 0 && f.infinite >= 0 && !infinite)
            rc = found(x, i, k, f.infinite, "is infinite, and no input is,", d);
    }
    return rc;
}

/* ---- one instruction ------------------------------------------------------------------------- */

static int of_device(dg_exec *x, int i, int rc, dg_diag *d)
{
    return rc < 0 ? dg_exec_failed(x, i, rc, d) : 0;
}

static int await(dg_exec *x, int i, dg_diag *d)
{
    int rc = of_device(x, i, x->backend->finish(x->backend), d);
    dg_str s = { 0 };

    if (rc < 0) {
        print_instr(&s, x, i);
        dg_help(d, "--debug sync waited behind %s", s.s);
        dg_str_free(&s);
    }
    return rc;
}

static int is_skipped(dg_exec *x, int i, bool *skipped, dg_diag *d)
{
    int32_t guard = x->p->instrs.items[i].guard;
    double flag = 1;
    int rc = guard ? dg_exec_get(x, guard, &flag, d) : 0;

    *skipped = flag == 0;
    return rc;
}

int dg_debug_run(dg_exec *x, int i, dg_diag *d)
{
    const unsigned what = x->debug.what;
    bool infinite = false, skipped = false;
    int rc = 0;

    if (what & DG_DEBUG_NAMES)
        tell_name(x, i);
    if (what & DG_DEBUG_NAN)
        DG_TRY(is_skipped(x, i, &skipped, d));
    if (what & DG_DEBUG_NAN && !skipped)
        DG_TRY(check_inputs(x, i, &infinite, d));
    if (what & DG_DEBUG_POISON)
        DG_TRY(of_device(x, i, poison_before(x, i), d));
    DG_TRY(dg_exec_run_one(x, i, d));
    if (what & DG_DEBUG_SYNC)
        DG_TRY(await(x, i, d));
    if (what & DG_DEBUG_NAN && !skipped)
        DG_TRY(check_outputs(x, i, infinite, d));
    if (what & DG_DEBUG_POISON)
        DG_TRY(of_device(x, i, poison_after(x, i), d));
out:
    return rc;
}
