/* join.c: brings together instructions whose launches a device takes as one (kernels/backend.h).
 *
 * Such an instruction waits until something needs its result. It is then placed together with all
 * instructions of its op whose operands exist, those that come later in the program included. Only
 * small ones move; those that wait keep a limited number of bytes alive, and those that are placed
 * early as much as they have. */
#include <string.h>

#include "tensor/ops.h"
#include "tensor/passes.h"

enum { MOST_BYTES = 8 << 20 /* of an instruction that moves */, HELD_BYTES = 96 << 20 };

typedef struct pass {
    dg_program *p;
    dg_join *kind;  /* per instruction; DG_JOIN_NONE: it stays where it is */
    int64_t *bytes; /* per instruction: of its operands */
    bool *done;     /* per instruction: it has its new place */
    int at;         /* the instruction that is being looked at */
    int *waiting, n_waiting;
    int64_t held;
    DG_VEC(dg_instr) out;
} pass;

static const dg_instr *instr(const pass *s, int i)
{
    return &s->p->instrs.items[i];
}

/* A space as a whole, or a gradient that batches are added to: what states write. */
static bool is_written_in_place(const pass *s, int32_t v)
{
    const dg_value *x = &s->p->values.items[v];

    return v && x->producer == -1 && x->space >= DG_WEIGHTS && x->space <= DG_EMA &&
           (x->param < 0 || x->space != DG_WEIGHTS);
}

static bool reads_written(const pass *s, const dg_instr *in)
{
    for (int k = 0; k < in->n_in; k++)
        if (is_written_in_place(s, in->v[k]))
            return true;
    return false;
}

static bool updates_state(const dg_instr *in)
{
    return in->op->effect == DG_STATE && in->op != DG_OP(accumulate);
}

static void look(pass *s, int i, dg_backend *backend)
{
    const dg_instr *in = instr(s, i);
    dg_tensor t[DG_MAX_OPERANDS];
    int n = in->n_in + in->n_out;

    if (in->op->effect != DG_PURE || in->phase == DG_RECOMPUTE || n > DG_MAX_OPERANDS ||
        dg_program_is_alias(s->p, i) || reads_written(s, in))
        return;
    for (int k = 0; k < n; k++) {
        const dg_value *x = &s->p->values.items[in->v[k]];

        t[k] = in->v[k] ? (dg_tensor){ x->dtype, x->shape, NULL } : (dg_tensor){ .shape.rank = -1 };
        if (in->v[k])
            s->bytes[i] += dg_shape_elements(x->shape) * (int64_t)dg_dtype_size(x->dtype);
    }
    if (s->bytes[i] <= MOST_BYTES)
        s->kind[i] = backend->joins(backend, in->op, t, n);
}

/* The instruction that v waits for; -1: none. */
static int missing(const pass *s, int32_t v)
{
    int producer = v ? s->p->values.items[v].producer : -1;

    return producer >= 0 && !s->done[producer] ? producer : -1;
}

static bool is_ready(const pass *s, int i)
{
    const dg_instr *in = instr(s, i);
    bool ready = missing(s, in->guard) < 0;

    for (int k = 0; k < in->n_in && ready; k++)
        ready = missing(s, in->v[k]) < 0;
    return ready;
}

static void place(pass *s, int i)
{
    s->done[i] = true;
    DG_PUSH(s->p->arena, s->out, *instr(s, i));
}

static void stop_waiting(pass *s)
{
    int n = 0;

    s->held = 0;
    for (int k = 0; k < s->n_waiting; k++)
        if (!s->done[s->waiting[k]]) {
            s->held += s->bytes[s->waiting[k]];
            s->waiting[n++] = s->waiting[k];
        }
    s->n_waiting = n;
}

static bool goes_with(const pass *s, int i, int other)
{
    return !s->done[other] && s->kind[other] == s->kind[i] &&
           instr(s, other)->op == instr(s, i)->op &&
           instr(s, other)->segment == instr(s, i)->segment && is_ready(s, other);
}

/* Of those that wait and those that come later, up to the next update of a state. */
static bool place_kin(pass *s, int i)
{
    bool any = false;

    for (int k = 0; k < s->n_waiting; k++)
        if (goes_with(s, i, s->waiting[k])) {
            place(s, s->waiting[k]);
            any = true;
        }
    for (int k = s->at; k < s->p->instrs.n && !updates_state(instr(s, k)); k++)
        if (goes_with(s, i, k)) {
            place(s, k);
            any = true;
        }
    return any;
}

/* Reshapes that share the memory of what has just been placed. */
static void place_aliases(pass *s)
{
    for (int k = 0; k < s->n_waiting; k++) {
        int i = s->waiting[k];

        if (!s->done[i] && s->kind[i] == DG_JOIN_NONE && is_ready(s, i))
            place(s, i);
    }
    stop_waiting(s);
}

static void place_now(pass *s, int i)
{
    const dg_instr *in = instr(s, i);

    for (int k = 0; k < in->n_in; k++)
        if (missing(s, in->v[k]) >= 0)
            place_now(s, missing(s, in->v[k]));
    if (missing(s, in->guard) >= 0)
        place_now(s, missing(s, in->guard));
    if (s->done[i])
        return;
    place(s, i);
    if (s->kind[i] == DG_JOIN_NONE)
        return;
    while (place_kin(s, i) && s->kind[i] == DG_JOIN_TURN)
        ;
    place_aliases(s);
}

static void place_all(pass *s)
{
    while (s->n_waiting) {
        place_now(s, s->waiting[0]);
        stop_waiting(s);
    }
}

static void wait_for_readers(pass *s, int i)
{
    s->waiting[s->n_waiting++] = i;
    s->held += s->bytes[i];
    while (s->held > HELD_BYTES) {
        place_now(s, s->waiting[0]);
        stop_waiting(s);
    }
}

void dg_pass_join(dg_program *p, dg_backend *backend)
{
    dg_arena *scratch;
    pass s = { .p = p };

    if (!backend || !backend->joins)
        return;
    scratch = dg_arena_open();
    s.kind = DG_NEW_N(scratch, p->instrs.n + 1, dg_join);
    s.bytes = DG_NEW_N(scratch, p->instrs.n + 1, int64_t);
    s.done = DG_NEW_N(scratch, p->instrs.n + 1, bool);
    s.waiting = DG_NEW_N(scratch, p->instrs.n + 1, int);
    for (int i = 0; i < p->instrs.n; i++)
        look(&s, i, backend);
    for (s.at = 0; s.at < p->instrs.n; s.at++) {
        const dg_instr *in = instr(&s, s.at);

        if (updates_state(in) || reads_written(&s, in) ||
            (s.at && in->segment != instr(&s, s.at - 1)->segment))
            place_all(&s);
        if (s.done[s.at])
            continue;
        if (s.kind[s.at] != DG_JOIN_NONE || (dg_program_is_alias(p, s.at) && !is_ready(&s, s.at)))
            wait_for_readers(&s, s.at);
        else
            place_now(&s, s.at);
    }
    place_all(&s);
    p->instrs.items = s.out.items;
    p->instrs.n = s.out.n;
    p->instrs.cap = s.out.cap;
    dg_program_renumber(p);
    dg_arena_close(&scratch);
}
