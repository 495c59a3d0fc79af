/* item.c: tests nodes with `item` (augmentations): passes random pictures with random boxes
 * through, on several threads, between guard zones. */
#include "check/check_internal.h"

#include <string.h>

enum { GUARD = 64, GUARD_BYTE = 0xA5, MOST_OBJECTS = 8, THREADS = 4 };

/* One sample, before and after the node. */
typedef struct passage {
    const dg_trial *t;
    dg_scratch *scratch;
    dg_sample sample, before;
    unsigned char *rgb, *objects; /* as given, between guard zones */
    size_t rgb_bytes, object_bytes;
    dg_further further;
    bool took; /* a further image */
    dg_diag *d;
    int rc;
} passage;

static void *guarded(dg_arena *a, size_t bytes)
{
    char *room = dg_alloc(a, bytes + 2 * GUARD);

    memset(room, GUARD_BYTE, GUARD);
    memset(room + GUARD + bytes, GUARD_BYTE, GUARD);
    return room + GUARD;
}

static bool is_intact(const unsigned char *at, size_t bytes)
{
    for (int i = 0; i < GUARD; i++)
        if (at[i - GUARD] != GUARD_BYTE || at[bytes + (size_t)i] != GUARD_BYTE)
            return false;
    return true;
}

static void draw_objects(dg_sample *sm, dg_rng *r)
{
    dg_object *out = sm->objects;

    for (int i = 0; i < sm->n_objects; i++) {
        double w = sm->image.w, h = sm->image.h;
        double x = dg_rng_range(r, 0, w), y = dg_rng_range(r, 0, h);

        out[i].box = (dg_box){ x, y, dg_rng_range(r, x, w), dg_rng_range(r, y, h) };
        out[i].label = (int)dg_rng_below(r, DG_DRAWN_CLASSES);
        out[i].area = (out[i].box.x2 - x) * (out[i].box.y2 - y);
    }
}

/* A further image: like the first, but all of it hangs on the node's draw. */
static int draw_further(void *self, dg_sample *out, dg_draw *draw, dg_diag *d)
{
    passage *p = self;
    dg_rng r =
        dg_rng_begin(dg_rng_named((uint64_t)dg_draw_below(draw, INT64_MAX), "further"), 0, 0);
    int rc;

    p->took = true;
    *out = p->before;
    out->item = 1 + (int)dg_rng_below(&r, 4);
    out->n_objects = p->before.n_objects;
    out->objects = dg_scratch_alloc(p->scratch, MOST_OBJECTS * sizeof *out->objects);
    if (!out->objects)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for objects");
    rc = dg_image_new(&out->image, p->scratch, 1 + (int)dg_rng_below(&r, 96),
                      1 + (int)dg_rng_below(&r, 96), d);
    for (int i = 0; rc == 0 && i < 3 * out->image.w * out->image.h; i++)
        out->image.rgb[i] = (uint8_t)dg_rng_u32(&r);
    draw_objects(out, &r);
    return rc;
}

static passage passage_open(dg_trial *t)
{
    dg_rng r = dg_rng_begin(dg_rng_named(t->seed, "sample"), 0, 0);
    bool least = t->kind == DG_TRIAL_SMALLEST;
    passage p = { .t = t, .scratch = dg_scratch_open(0), .d = dg_diag_open() };
    int w = least ? 1 : 1 + (int)dg_rng_below(&r, 96),
        h = least ? 1 : 1 + (int)dg_rng_below(&r, 96);

    p.sample = (dg_sample){ .size = sizeof(dg_sample),
                            .index = t->seed,
                            .item = 5,
                            .image_id = 17,
                            .path = "drawn.jpg",
                            .orig_w = w,
                            .orig_h = h,
                            .image = { w, h, NULL },
                            .n_objects = least ? 0 : (int)dg_rng_below(&r, MOST_OBJECTS),
                            .scratch = p.scratch };
    p.rgb_bytes = 3 * (size_t)w * (size_t)h;
    p.object_bytes = MOST_OBJECTS * sizeof(dg_object);
    p.rgb = guarded(t->arena, p.rgb_bytes);
    p.objects = guarded(t->arena, p.object_bytes);
    for (size_t i = 0; i < p.rgb_bytes; i++)
        p.rgb[i] = (uint8_t)dg_rng_u32(&r);
    p.sample.image.rgb = p.rgb;
    p.sample.objects = (dg_object *)(void *)p.objects;
    draw_objects(&p.sample, &r);
    p.before = p.sample;
    if (!t->dims.n)
        dg_str_fmt(&t->dims, "an image of %dx%d and %d object%s", w, h, p.sample.n_objects,
                   dg_plural(p.sample.n_objects, "s"));
    return p;
}

static void passage_close(passage *p)
{
    dg_scratch_close(&p->scratch);
    dg_diag_close(&p->d);
}

static void *pass(void *ctx)
{
    passage *p = ctx;
    dg_draw draw = dg_draw_begin(p->t->seed, "check", p->sample.index);
    dg_clock clock = {
        .step = (int64_t)(p->t->seed % 5), .n_steps = 100, .n_epochs = 10, .steps_per_epoch = 10
    };

    p->further = (dg_further){ sizeof p->further, 0, draw_further, p };
    p->sample.further = &p->further;
    p->rc = p->t->class->item(p->t->node->conf, &p->sample, &draw, &clock, p->d);
    return NULL;
}

static bool declares(const dg_node_class *c, uint32_t flag)
{
    for (const dg_port *p = c->ports; p && p->name; p++)
        if (p->flags & DG_PORT_OUT && p->flags & flag)
            return true;
    return false;
}

static bool check_passage(dg_node_test *k, dg_trial *t, const passage *p)
{
    const dg_sample *s = &p->sample, *b = &p->before;

    if (!is_intact(p->rgb, p->rgb_bytes))
        return dg_test_miss(k, t, "image", NULL,
                            "it writes beside the image of %dx%d that it was given", b->image.w,
                            b->image.h);
    if (!is_intact(p->objects, p->object_bytes))
        return dg_test_miss(k, t, "objects",
                            "more objects need a new array: dg_scratch_alloc(sm->scratch, ...)",
                            "it writes beside the list of objects");
    if (p->rc < 0)
        return dg_test_miss(k, t, NULL, NULL, "it fails: %s", dg_test_why(t->arena, p->d));
    if (p->rc > 0 && !declares(t->class, DG_PORT_DROPS))
        return dg_test_miss(k, t, NULL,
                            "declare the output with DG_PORT_DROPS: the proof has to know of it",
                            "it drops a sample, and no output is declared to drop any");
    if (p->took && !declares(t->class, DG_PORT_FURTHER))
        return dg_test_miss(k, t, NULL,
                            "declare the output with DG_PORT_FURTHER: so many nodes that take them "
                            "may follow one another",
                            "it takes a further image, and no output is declared to hold any");
    if (p->rc > 0)
        return true;
    if (s->image.w < 1 || s->image.h < 1 || !s->image.rgb)
        return dg_test_miss(k, t, "image", NULL, "it leaves an image of %dx%d", s->image.w,
                            s->image.h);
    if (s->n_objects < 0 || s->item != b->item || s->index != b->index ||
        s->image_id != b->image_id || s->orig_w != b->orig_w || s->orig_h != b->orig_h)
        return dg_test_miss(k, t, NULL,
                            "index, item, image_id, orig_w and orig_h belong to the data set",
                            "it changes what says which sample this is");
    return dg_test_objects(k, t, s, DG_DRAWN_CLASSES);
}

bool dg_test_item(dg_node_test *k, dg_trial *t)
{
    passage p = passage_open(t);
    bool fine;

    pass(&p);
    fine = check_passage(k, t, &p);
    passage_close(&p);
    return fine;
}

static bool same_sample(const dg_sample *a, const dg_sample *b)
{
    if (a->image.w != b->image.w || a->image.h != b->image.h || a->n_objects != b->n_objects ||
        memcmp(a->image.rgb, b->image.rgb, 3 * (size_t)a->image.w * (size_t)a->image.h) != 0)
        return false;
    for (int i = 0; i < a->n_objects; i++)
        if (memcmp(&a->objects[i].box, &b->objects[i].box, sizeof(dg_box)) != 0 ||
            a->objects[i].label != b->objects[i].label)
            return false;
    return true;
}

/* The same sample on several threads at once. */
bool dg_test_item_repeat(dg_node_test *k, dg_trial *t)
{
    passage p[THREADS];
    bool fine = true;

    for (int i = 0; i < THREADS; i++)
        p[i] = passage_open(t);
    dg_test_at_once(pass, p, sizeof *p, THREADS);
    for (int i = 1; i < THREADS && fine; i++)
        if (p[i].rc != p[0].rc || (p[0].rc == 0 && !same_sample(&p[0].sample, &p[i].sample)))
            fine = dg_test_miss(
                k, t, NULL,
                "draw from the dg_draw that it is given alone, and keep nothing between calls",
                "the same sample with the same draws came out in two ways, on threads side by "
                "side");
    for (int i = 0; i < THREADS; i++)
        passage_close(&p[i]);
    return fine;
}
