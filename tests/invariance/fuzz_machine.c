/* fuzz_machine.c: see fuzz_machine.h. */
#include "tests/invariance/fuzz_machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/invariance/fuzz_ops.h"

enum { SUM, MAX, MIN, MEAN }; /* op= of a collective */

/* ---- collectives ----------------------------------------------------------------------------- */

static uint64_t fnv(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;

    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3u;
    return h;
}

static int axes_of(const fz_t_instr *in)
{
    static const char *const names[] = { "dp", "tp", "dp+tp", "tp+dp" };

    for (int i = 0; i < 4; i++)
        if ((long)fnv(names[i]) == in->axis)
            return i < 2 ? 1 << i : FZ_DP | FZ_TP;
    return FZ_DP | FZ_TP;
}

static fz_end collective(fz_rank *k, const fz_t_instr *in, const fz_datum *x)
{
    const fz_text *t = k->machine->text;
    const fz_t_value *v = &t->value[t->in[in->first_in]];

    if (in->traits & FZ_AWAITS) {
        bool under_way = false;

        for (int i = 0; i < k->machine->n_regions[FZ_P_GRADIENTS]; i++) {
            fz_region *r = &k->machine->region[FZ_P_GRADIENTS][i];

            under_way |= r->busy == in->bucket + 1;
            r->busy = r->busy == in->bucket + 1 ? 0 : r->busy;
        }
        if (!under_way)
            fz_part(k->sim, FZ_WAITS, "rank %d waits for bucket %ld, which was not begun", k->r,
                    in->bucket);
        return FZ_WENT_ON;
    }
    if (!k->answered) {
        k->ask = (fz_request){ .what = FZ_INSTR, .node = fz_node_at(k, in), .axis = axes_of(in) };
        k->ask.count = fz_mix(fz_mix(in->line, (uint64_t)v->elements), v->whole) | 1;
        k->ask.instr = in;
        k->ask.digest = x[0].digest;
        k->ask.number = x[0].number;
    }
    if (!fz_meet(k))
        return FZ_WAIT;
    if (!(in->traits & FZ_OF_SPACE))
        fz_put(k, in->out[0],
               t->value[in->out[0]].elements == 1 ? fz_single(k->ask.number)
                                                  : (fz_datum){ k->ask.digest, k->ask.number });
    return FZ_WENT_ON;
}

static void answer_space(fz_rank *const v[], int n, const fz_t_instr *in)
{
    fz_machine *first = v[0]->machine;

    for (int i = 0; i < first->n_regions[FZ_P_GRADIENTS]; i++) {
        const long offset = first->region[FZ_P_GRADIENTS][i].offset;
        uint64_t all = 0, some = 0;

        if (offset / 4 < in->begin || (in->end && offset / 4 >= in->end))
            continue;
        for (int r = 0; r < n; r++) {
            const uint64_t h = fz_region_at(v[r], FZ_P_GRADIENTS, offset)->digest;

            some |= h;
            all = fz_mix(all, h);
        }
        for (int r = 0; r < n; r++) {
            fz_region_at(v[r], FZ_P_GRADIENTS, offset)->digest = some ? all | 1 : 0;
            if (in->traits & FZ_BEGINS)
                fz_region_at(v[r], FZ_P_GRADIENTS, offset)->busy = (int)in->bucket + 1;
        }
    }
}

static double join(long how, double a, double b)
{
    return how == MAX ? fmax(a, b) : how == MIN ? fmin(a, b) : a + b;
}

void fz_answer_instr(fz_rank *const v[], int n)
{
    const fz_t_instr *in = v[0]->ask.instr;
    const bool to_one = in->traits & FZ_TO_ROOT, copies = in->traits & FZ_FROM_ROOT;
    const long how = in->traits & FZ_GATHERS ? SUM : in->how;
    uint64_t all = 0, some = 0;
    double number = v[0]->ask.number;

    if (in->traits & FZ_OF_SPACE)
        answer_space(v, n, in);
    for (int r = 0; r < n; r++) {
        all = fz_mix(all, v[r]->ask.digest);
        some |= v[r]->ask.digest;
        number = r ? join(how, number, v[r]->ask.number) : number;
    }
    number = how == MEAN ? number / n : number;
    if (copies) {
        all = some = v[in->root < n ? in->root : 0]->ask.digest;
        number = v[in->root < n ? in->root : 0]->ask.number;
    }
    for (int r = 0; r < n; r++) {
        v[r]->blocked = false;
        v[r]->answered = true;
        if (to_one && r != in->root)
            continue;
        v[r]->ask.digest = copies ? all : some ? all | 1 : 0;
        v[r]->ask.number = number;
    }
}

/* ---- an iteration ---------------------------------------------------------------------------- */

/* Is it by a node whose kernels may differ in the last bit? */
static void disturb(fz_rank *k, const fz_t_instr *in)
{
    const int node = fz_node_at(k, in);

    if (node == FZ_NONE || k->m->node[node].exact != 0 || k->m->node[node].op == FZ_USE ||
        fz_classes[k->m->node[node].op].flags & FZ_COLLECTIVE)
        return;
    for (int i = 0; i < in->n_out; i++) {
        const fz_t_value *x = &k->machine->text->value[in->out[i]];
        fz_datum d = fz_get(k, in->out[i]);

        if (!in->out[i] || x->whole || fz_chance(&k->own, 50))
            continue;
        d.number += 0.125;
        d.digest =
            x->elements == 1 ? fz_digest_of(d.number) : fz_mix(d.digest, fz_roll(&k->own)) | 1;
        fz_put(k, in->out[i], d);
    }
}

static fz_end instruction(fz_rank *k, const fz_t_instr *in)
{
    const fz_text *t = k->machine->text;
    fz_datum x[64];
    fz_end end = FZ_WENT_ON;

    if (in->n_in > 64)
        abort();
    x[0] = (fz_datum){ 0, 0 };
    for (int i = 0; i < in->n_in; i++)
        x[i] = fz_get(k, t->in[in->first_in + i]);
    if (in->traits & FZ_LENGTH)
        x[0] = (fz_datum){ fz_whole(k, FZ_P_GRADIENTS, 0, 0), 1 };
    if (in->guard && fz_get(k, in->guard).number == 0) {
        for (int i = 0; i < in->n_out; i++)
            fz_put(k, in->out[i], in->otherwise ? fz_get(k, in->otherwise) : (fz_datum){ 0, 0 });
        return FZ_WENT_ON;
    }
    if (in->traits & FZ_MEETS)
        end = collective(k, in, x);
    else if (in->traits & FZ_UPDATES)
        fz_update(k, in, x);
    else
        fz_compute(k, in, x);
    if (end == FZ_WENT_ON)
        disturb(k, in);
    return end;
}

/* What the host writes before the program runs. */
static fz_datum input(fz_rank *k, const fz_t_value *x)
{
    const char *dot = strchr(x->name, '.'), *port = dot ? dot + 1 : "", *out;
    const fz_model *m = k->m;
    fz_val v;

    for (int i = 0; i < m->n_nodes; i++) {
        const fz_node *n = &m->node[i];

        if (!dot || n->dead || n->scope != k->scope ||
            strncmp(n->id, x->name, (size_t)(dot - x->name)) != 0 || n->id[dot - x->name])
            continue;
        if (fz_classes[n->op].flags & FZ_SCALAR)
            return fz_single(k->out[i][0].sum);
        for (int o = 0, len; (len = fz_word(fz_classes[n->op].outs, o, &out)) > 0; o++)
            if ((int)strlen(port) == len && strncmp(out, port, (size_t)len) == 0) {
                v = k->out[i][o];
                return (fz_datum){ v.sum != 0 || v.max != 0 || v.min != 0 ? fz_digest(&v) | 1 : 0,
                                   v.sum };
            }
        return (fz_datum){ fz_mix(fz_samples(k), fz_mix((uint64_t)k->w_px, (uint64_t)k->h_px)) | 1,
                           1 };
    }
    return (fz_datum){ fz_mix(fz_samples(k), (uint64_t)x->name[0]) | 1, 1 };
}

/* Samples, the numbers of this iteration, and the image size; then the program that they need. */
static fz_end begin(fz_rank *k)
{
    fz_machine *m = k->machine;
    bool batch = false;

    k->w_px = k->batch.n && !k->w_px ? 64 : k->w_px;
    for (int i = 0; i < k->n_order; i++) {
        const fz_node *n = &k->m->node[k->order[i]];

        if (fz_classes[n->op].flags & FZ_SCALAR)
            fz_number(k, k->order[i]);
        else if (n->op == FZ_BROADCAST && n->in[0].node != FZ_NONE &&
                 fz_classes[k->m->node[n->in[0].node].op].flags & FZ_SCALAR)
            fz_number_of(k, k->order[i], n->in[0].node, fz_given(n->root, 0));
        else if (n->op == FZ_BATCH)
            fz_stream_batch(k, k->order[i]);
        else if (fz_is_stream(n) && fz_fire(k, k->order[i]) == FZ_LOST_BATCH)
            return FZ_LOST_BATCH;
        batch |= n->op == FZ_BATCH;
    }
    m->text = fz_texts_of(k->sim->texts, k->scope == FZ_IN_TRAIN, k->r, batch ? k->w_px : 0,
                          batch ? k->h_px : 0);
    if (!m->text) {
        k->sim->work = 1 << 30; /* no program, no verdict */
        return FZ_LOST_BATCH;
    }
    if (m->n_values < m->text->n_values) {
        m->n_values = m->text->n_values;
        m->digest = fz_grown(m->digest, (size_t)m->n_values * sizeof *m->digest);
        m->number = fz_grown(m->number, (size_t)m->n_values * sizeof *m->number);
    }
    for (int v = 1; v < m->text->n_values; v++) {
        const fz_t_value *x = &m->text->value[v];
        fz_datum d = { 0, 0 };

        if (x->space == FZ_P_CONSTANTS)
            d = x->elements == 1 ? fz_single(x->number) : (fz_datum){ x->content, x->number };
        else if (x->space == FZ_P_IO && x->name[0])
            d = input(k, x);
        m->digest[v] = d.digest;
        m->number[v] = d.number;
    }
    return FZ_WENT_ON;
}

/* A sink's score takes what the program gave it; stops end the loop. */
static fz_end finish(fz_rank *k, int node)
{
    const fz_text *t = k->machine->text;
    const fz_node *n = &k->m->node[node];
    const bool stop = n->op == FZ_STOP, score = n->op == FZ_METRIC || n->op == FZ_COCO;
    bool fired = !stop;
    double x = 0;

    if (!stop && !score)
        return FZ_WENT_ON;
    for (int i = 0; i < t->n_results; i++) {
        const char *name = t->result[i].name, *slash = strchr(name, '/'), *dot = strchr(name, '.');
        const fz_datum d = fz_get(k, t->result[i].value);

        if (stop && strncmp(name, "stop/", 5) == 0)
            fired |= d.number != 0;
        if (slash && strncmp(name, "fired/", 6) == 0 && strcmp(slash + 1, n->id) == 0)
            fired &= d.number != 0;
        if (dot && strncmp(name, n->id, (size_t)(dot - name)) == 0 && !n->id[dot - name])
            x = fz_unit(d.digest);
    }
    if (stop && fired)
        *(k->scope == FZ_IN_TRAIN ? &k->stopped : &k->ended) = true;
    return score && fired ? fz_score(k, node, x) : FZ_WENT_ON;
}

/* Before the last batch of an update, its instructions and the buckets wait. i < 0: a value that no
 * instruction makes. */
static bool waits_for_update(const fz_rank *k, int i)
{
    const fz_text *t = k->machine->text;

    return t->accumulate > 1 && k->accumulated + 1 < t->accumulate &&
           (i >= t->update || (i >= 0 && t->instr[i].traits & FZ_BEGINS));
}

/* ---- monitors -------------------------------------------------------------------------------- */

/* What the ranks of a group told of one batch: equal, or absent on some. */
static void compare_sights(fz_sim *s, const fz_rank *k, int i, const fz_t_monitor *m,
                           uint64_t moment)
{
    const struct fz_sight *mine = &s->sight[k->r][moment % FZ_MOMENTS];

    for (int r = 0; r < s->n_ranks; r++) {
        const struct fz_sight *other = &s->sight[r][moment % FZ_MOMENTS];

        if (other->moment == moment && fz_mates(k, &s->rank[r], m->axes) && mine->seen[i] &&
            other->seen[i] && mine->seen[i] != other->seen[i])
            fz_part(s, FZ_FALSE_ALARM, "ranks %d and %d: monitor %d: %s of %s differs at step %d",
                    r, k->r, i, m->what, m->path, k->step);
    }
}

/* After a batch that was not lost: what this rank's monitors tell, as the program prints them and
 * as its streams stand. */
static void watch(fz_rank *k)
{
    const fz_text *t = k->machine->text;
    const uint64_t moment =
        1 + (k->scope == FZ_IN_TRAIN
                 ? (uint64_t)k->batches
                 : UINT64_C(1000) * (uint64_t)(1 + k->evaluation) + (uint64_t)k->iteration);
    struct fz_sight *now = &k->sim->sight[k->r][moment % FZ_MOMENTS];
    fz_t_monitor m;

    if (!fz_texts_monitor(k->sim->texts, 0, &m))
        return;
    if (fz_texts_monitor(k->sim->texts, FZ_MONITORS, &m)) {
        fprintf(stderr, "more than %d monitors, of which %s is one\n", FZ_MONITORS, m.path);
        abort();
    }
    *now = (struct fz_sight){ .moment = moment };
    for (int i = 0; i < t->n_results; i++) {
        const fz_t_result *r = &t->result[i];
        const bool fires = r->kind == FZ_T_FIRES;
        fz_datum d;

        if ((!fires && r->kind != FZ_T_WATCH) || waits_for_update(k, r->made) ||
            (r->there && fz_get(k, r->there).number == 0))
            continue;
        d = fz_get(k, r->value);
        now->seen[r->index] =
            fz_mix(now->seen[r->index], fires ? (uint64_t)(d.number != 0) : fz_mix(d.digest, 1)) |
            1;
    }
    for (int i = 0; fz_texts_monitor(k->sim->texts, i, &m); i++) {
        if (strcmp(m.what, "size") == 0 && fz_node_of(k, m.path) != FZ_NONE &&
            k->m->node[fz_node_of(k, m.path)].scope == k->scope)
            now->seen[i] = fz_mix((uint64_t)k->batch.item[0].w, (uint64_t)k->batch.item[0].h) | 1;
        compare_sights(k->sim, k, i, &m, moment);
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

bool fz_execute(fz_rank *k)
{
    fz_machine *m = k->machine;
    fz_end end = FZ_WENT_ON;

    if (!m->begun)
        end = begin(k);
    if (end == FZ_LOST_BATCH) {
        k->lost = true;
        return true;
    }
    m->begun = true;
    for (; k->pos < m->text->n_instrs + k->n_order; k->pos++) {
        const int node = k->pos - m->text->n_instrs;

        k->sim->work += k->pos % 16 == 0;
        if (node < 0 && waits_for_update(k, k->pos))
            continue;
        end = node < 0 ? instruction(k, &m->text->instr[k->pos]) : finish(k, k->order[node]);
        if (end == FZ_WAIT)
            return false;
        if (k->sim->fault->kind != FZ_SAME)
            break;
    }
    m->begun = false;
    watch(k);
    return true;
}

void fz_compare_spaces(fz_sim *s, const fz_rank *a, const fz_rank *b)
{
    static const char *const names[] = { [FZ_P_WEIGHTS] = "weights",
                                         [FZ_P_MOMENT1] = "moment1",
                                         [FZ_P_MOMENT2] = "moment2",
                                         [FZ_P_EMA] = "ema" };

    for (int i = FZ_P_WEIGHTS; i <= FZ_P_EMA; i++)
        for (int r = 0; i != FZ_P_GRADIENTS && r < a->machine->n_regions[i]; r++) {
            const fz_region *x = &a->machine->region[i][r];

            if (fz_region_at((fz_rank *)b, (fz_space)i, x->offset)->digest != x->digest)
                fz_part(s, FZ_OTHER_STATE, "%s+%ld differs between ranks %d and %d", names[i],
                        x->offset, a->r, b->r);
        }
}

fz_machine *fz_machine_open(void)
{
    fz_machine *x = fz_grown(NULL, sizeof *x);

    memset(x, 0, offsetof(fz_machine, region)); /* regions are made when they are first used */
    return x;
}

void fz_machine_free(fz_machine **x)
{
    if (!*x)
        return;
    free((*x)->digest);
    free((*x)->number);
    free(*x);
    *x = NULL;
}
