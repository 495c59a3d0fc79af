/* batch.c: tests nodes with `feeds` and `fill` (batches): fills tensors between guard zones with
 * drawn samples. */
#include "check/check_internal.h"

#include <string.h>

#include "feed/feeder.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5, THREADS = 4 };

/* The tensors of one batch. */
typedef struct tensors {
    dg_size size;
    int batch, n;
    dg_feed feeds[DG_MAX_FEEDS];
    void *data[DG_MAX_FEEDS];
    size_t bytes[DG_MAX_FEEDS];
} tensors;

static tensors tensors_of(dg_trial *t, uint8_t fill)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "batch"), 0, 0);
    tensors x = { .size = { 32 * (1 + (int64_t)dg_rng_below(&r, 3)),
                            32 * (1 + (int64_t)dg_rng_below(&r, 3)) },
                  .batch = 1 + (int)dg_rng_below(&r, 3) };

    x.n = t->class->feeds(t->node->conf, x.size, x.batch, x.feeds, DG_MAX_FEEDS);
    for (int i = 0; i < x.n && i < DG_MAX_FEEDS; i++) {
        char *room;

        x.bytes[i] = (size_t)dg_shape_elements(x.feeds[i].shape) * 4;
        room = dg_alloc(t->arena, x.bytes[i] + 2 * GUARD);
        memset(room, GUARD_BYTE, x.bytes[i] + 2 * GUARD);
        x.data[i] = memset(room + GUARD, fill, x.bytes[i]);
    }
    return x;
}

/* Fills a slot with an item of the drawn data, with exactly `objects` objects. */
static int fill_slot(dg_trial *t, const tensors *x, int slot, const dg_dataset *data, int item,
                     int objects, dg_scratch *scratch, dg_diag *d)
{
    dg_sample sm;
    int rc = data->sample(data->self, item, &sm, scratch, d);

    if (rc < 0)
        return rc;
    if (objects >= 0) {
        sm.objects = dg_scratch_alloc(scratch, ((size_t)objects + 1) * sizeof *sm.objects);
        for (int i = 0; i < objects; i++)
            sm.objects[i] = (dg_object){ { 0, 0, sm.image.w, sm.image.h },
                                         i % DG_DRAWN_CLASSES,
                                         false,
                                         sm.image.w * sm.image.h };
        sm.n_objects = objects;
    }
    return t->class->fill(t->node->conf, x->size, x->batch, slot, &sm, x->data, d);
}

/* A number of objects that every batch accepts. */
static int few_objects(const dg_trial *t)
{
    int64_t most = t->class->capacity ? t->class->capacity(t->node->conf) : 3;

    return most < 3 ? (int)most : 3;
}

static int try_fill(dg_trial *t, const tensors *x, int slot, int item, int objects, dg_diag *d)
{
    dg_scratch *scratch = dg_scratch_open(0);
    int rc = fill_slot(t, x, slot, dg_trial_data(t, item + 1, 0), item, objects, scratch, d);

    dg_scratch_close(&scratch);
    return rc;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The declared type of "targets.boxes" (key boxes of output targets); NULL: undeclared. */
static const dg_contract *declared_type(const dg_node *node, const char *key)
{
    size_t n = strcspn(key, ".");
    bool optional = false;

    for (int i = 0; i < node->n_out; i++)
        if (strlen(node->out_ports[i]->name) == n &&
            memcmp(node->out_ports[i]->name, key, n) == 0) {
            const dg_contract *record, *c = node->out_contracts[i];

            return key[n] ? dg_contract_key(c, key + n + 1, &record, &optional) : c;
        }
    return NULL;
}

static bool check_feed(dg_node_test *k, dg_trial *t, const dg_feed *f, int64_t *bound)
{
    const dg_contract *c = f->key ? declared_type(t->node, f->key) : NULL;
    dg_str type = { 0 };
    char found[96];
    bool fine;

    if (!c)
        return dg_test_miss(
            k, t, f->key,
            "keys are outputs, \"images\", or keys of one that is a record, \"targets.boxes\"",
            "`feeds` lists \"%s\", and no output has that", f->key ? f->key : "");
    if (f->dtype != DG_REAL && f->dtype != DG_I32)
        return dg_test_miss(k, t, f->key, "DG_REAL or DG_I32",
                            "`feeds` gives \"%s\" a type that is neither real nor i32", f->key);
    dg_contract_print(&type, &t->g->dims, c);
    fine = dg_contract_holds(&t->g->dims, c, f->dtype, f->shape, bound) ||
           dg_test_miss(k, t, f->key, "the port's type, or what `feeds` lists, has to change",
                        "output \"%s\" is declared as %s, and `feeds` lists %s%s", f->key, type.s,
                        f->dtype == DG_I32 ? "i32 " : "",
                        dg_shape_print(f->shape, found, sizeof found));
    dg_str_free(&type);
    return fine;
}

static bool is_fed(const tensors *x, const char *key)
{
    for (int i = 0; i < x->n; i++)
        if (strcmp(x->feeds[i].key, key) == 0)
            return true;
    return false;
}

static bool check_all_fed(dg_node_test *k, dg_trial *t, const tensors *x)
{
    for (int i = 0; i < t->node->n_out; i++) {
        const dg_contract *c = t->node->out_contracts[i];
        const char *port = t->node->out_ports[i]->name, *lacks = NULL;

        if (c->kind == DG_TYPE_TENSOR && !is_fed(x, port))
            lacks = port;
        for (int f = 0; c->kind == DG_TYPE_RECORD && f < c->n_fields && !lacks; f++) {
            const char *key = dg_printf(t->arena, "%s.%s", port, c->fields[f].key);

            lacks = c->fields[f].optional || c->fields[f].wildcard || is_fed(x, key) ? NULL : key;
        }
        if (lacks)
            return dg_test_miss(
                k, t, lacks, NULL,
                "\"%s\" is declared among the outputs, and `feeds` does not list it", lacks);
    }
    return true;
}

bool dg_test_feeds(dg_node_test *k, dg_trial *t)
{
    tensors x = tensors_of(t, 0);
    dg_feed one[2];
    dg_feed untouched;
    int64_t *bound = DG_NEW_N(t->arena, t->g->dims.vars.n + 1, int64_t);

    if (x.n < 1 || x.n > DG_MAX_FEEDS)
        return dg_test_miss(k, t, NULL, NULL, "`feeds` lists %d tensors: 1 to %d", x.n,
                            DG_MAX_FEEDS);
    memset(one, GUARD_BYTE, sizeof one);
    memcpy(&untouched, &one[1], sizeof untouched);
    if (t->class->feeds(t->node->conf, x.size, x.batch, one, 1) != x.n ||
        memcmp(&untouched, &one[1], sizeof untouched) != 0)
        return dg_test_miss(k, t, NULL, "it returns how many there are, and writes at most n",
                            "`feeds` with room for one tensor writes more, or counts others");
    for (int i = 0; i < x.n; i++)
        if (!check_feed(k, t, &x.feeds[i], bound))
            return false;
    dg_test_tally(k, x.n, "tensors", -1);
    return check_all_fed(k, t, &x);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static bool is_all(const uint8_t *p, size_t n, uint8_t byte)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != byte)
            return false;
    return true;
}

/* Checks that nothing outside the slot has changed. */
static bool check_beside(dg_node_test *k, dg_trial *t, const tensors *x, int slot, uint8_t before)
{
    for (int i = 0; i < x->n; i++) {
        const uint8_t *at = x->data[i];
        size_t part = x->bytes[i] / (size_t)x->batch, first = part * (size_t)slot;

        if (!is_all(at - GUARD, GUARD, GUARD_BYTE) || !is_all(at + x->bytes[i], GUARD, GUARD_BYTE))
            return dg_test_miss(k, t, x->feeds[i].key, NULL,
                                "`fill` of slot %d of %d writes beside the tensor \"%s\"", slot,
                                x->batch, x->feeds[i].key);
        if (x->feeds[i].shape.rank > 0 && x->feeds[i].shape.d[0] == x->batch &&
            (!is_all(at, first, before) ||
             !is_all(at + first + part, x->bytes[i] - first - part, before)))
            return dg_test_miss(k, t, x->feeds[i].key, "slots are filled one by one, in any order",
                                "`fill` of slot %d of %d writes into another slot of \"%s\"", slot,
                                x->batch, x->feeds[i].key);
    }
    return true;
}

bool dg_test_fill(dg_node_test *k, dg_trial *t)
{
    const uint8_t before = 0x5A;
    bool fine = true;

    for (int slot = 0, slots = 1; fine && slot < slots; slot++) {
        tensors x = tensors_of(t, before);

        slots = x.batch;
        if (try_fill(t, &x, slot, slot, few_objects(t), t->d) < 0)
            return dg_test_miss(k, t, NULL, NULL, "`fill` fails on an image with %d objects: %s",
                                few_objects(t), dg_test_why(t->arena, t->d));
        fine = check_beside(k, t, &x, slot, before);
        for (int i = 0; fine && i < x.n; i++) { /* feeds that are not wanted have no memory */
            x.data[i] = NULL;
            if (try_fill(t, &x, slot, slot, few_objects(t), t->d) < 0)
                fine = dg_test_miss(k, t, x.feeds[i].key, NULL,
                                    "`fill` fails when \"%s\" is not wanted (data[%d] is NULL): %s",
                                    x.feeds[i].key, i, dg_test_why(t->arena, t->d));
        }
        dg_test_tally(k, 1, "slots", -1);
    }
    return fine;
}

typedef struct filling {
    dg_trial *t;
    tensors x;
    const dg_dataset *data;
    int rc;
} filling;

static void *fill_slots(void *ctx)
{
    filling *f = ctx;
    dg_diag *d = dg_diag_open();
    dg_scratch *scratch = dg_scratch_open(0);

    for (int slot = 0; slot < f->x.batch && f->rc >= 0; slot++)
        f->rc = fill_slot(f->t, &f->x, slot, f->data, slot, few_objects(f->t), scratch, d);
    dg_scratch_close(&scratch);
    dg_diag_close(&d);
    return NULL;
}

bool dg_test_fill_repeat(dg_node_test *k, dg_trial *t)
{
    filling f[THREADS];

    for (int i = 0; i < THREADS; i++)
        f[i] = (filling){ t, tensors_of(t, 0), dg_trial_data(t, 3, 0), 0 };
    dg_test_at_once(fill_slots, f, sizeof *f, THREADS);
    for (int i = 1; i < THREADS; i++)
        for (int n = 0; n < f[0].x.n; n++)
            if (memcmp(f[0].x.data[n], f[i].x.data[n], f[0].x.bytes[n]) != 0)
                return dg_test_miss(
                    k, t, f[0].x.feeds[n].key,
                    "`fill` is a function of the sample: keep nothing between calls",
                    "the same samples came out as two tensors \"%s\", on threads side by side",
                    f[0].x.feeds[n].key);
    return true;
}

bool dg_test_capacity(dg_node_test *k, dg_trial *t)
{
    int64_t most = t->class->capacity ? t->class->capacity(t->node->conf) : 0;
    tensors x = tensors_of(t, 0);

    if (try_fill(t, &x, 0, 0, 0, t->d) < 0)
        return dg_test_miss(k, t, NULL, "images without objects are part of a data set",
                            "`fill` fails on an image without objects: %s",
                            dg_test_why(t->arena, t->d));
    if (most < 1 || most > 100000)
        return true;
    if (try_fill(t, &x, 0, 0, (int)most, t->d) < 0)
        return dg_test_miss(k, t, NULL, NULL,
                            "`capacity` says %lld objects, and `fill` fails on so many: %s",
                            (long long)most, dg_test_why(t->arena, t->d));
    if (!check_beside(k, t, &x, 0, 0))
        return false;
    return try_fill(t, &x, 0, 0, (int)most + 1, t->d) < 0 ||
           dg_test_miss(
               k, t, NULL,
               "targets that are cut are wrong targets: fail, and say what attribute to change",
               "`capacity` says %lld objects, and `fill` takes an image with %lld without a word",
               (long long)most, (long long)most + 1);
}
