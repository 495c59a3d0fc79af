/* augment.c: the nodes augment.NAME, each alone: geometry of pixels, boxes and masks; draws that
 * depend on nothing but their key. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nodes/augment/family.h"
#include "nodes/builtin.h"
#include "tests/nodes/unit.h"

#include "tests/check.h"

enum { W = 40, H = 30 };

/* A sample of one colour with one object, and further ones of other colours. */
typedef struct rig {
    unit u;
    dg_scratch *scratch;
    dg_further further;
    int n_further, further_objects;
    dg_sample sm;
} rig;

/* An image of w x h pixels with n objects, each a box whose pixels are brighter by 100. */
static int fill_sample(dg_sample *out, rig *r, int w, int h, uint8_t gray, int n)
{
    *out = (dg_sample){ .size = sizeof *out,
                        .path = "drawn.png",
                        .image_id = gray,
                        .orig_w = w,
                        .orig_h = h,
                        .scratch = r->scratch,
                        .n_objects = n,
                        .further = &r->further };
    assert_int_equal(dg_image_new(&out->image, r->scratch, w, h, r->u.d), 0);
    memset(out->image.rgb, gray, (size_t)(3 * w * h));
    out->objects = dg_scratch_alloc(r->scratch, (size_t)(n + 1) * sizeof *out->objects);
    out->masks = dg_scratch_alloc(r->scratch, (size_t)(n + 1) * sizeof *out->masks);
    assert_true(out->objects && out->masks);
    for (int i = 0; i < n; i++) {
        dg_mask *m = &out->masks[i];

        out->objects[i] = (dg_object){ { 4 + 8 * i, 6, 10 + 8 * i, 16 }, i, false, 60 };
        *m = (dg_mask){ w, h, dg_scratch_alloc(r->scratch, (size_t)(w * h)) };
        assert_true(m->on != NULL);
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                m->on[y * w + x] = x >= 4 + 8 * i && x < 10 + 8 * i && y >= 6 && y < 16;
                if (m->on[y * w + x])
                    memset(out->image.rgb + 3 * (y * w + x), gray + 100, 3);
            }
    }
    return 0;
}

static int take(void *self, dg_sample *out, dg_draw *draw, dg_diag *d)
{
    rig *r = self;

    (void)d;
    (void)dg_draw_uniform(draw);
    r->n_further++;
    return fill_sample(out, r, 20, 30, (uint8_t)(20 * r->n_further), r->further_objects);
}

static void rig_open(rig *r, int n)
{
    *r = (rig){ .scratch = dg_scratch_open(0), .further_objects = 1 };
    unit_open(&r->u, 32, true);
    r->further = (dg_further){ sizeof r->further, 0, take, r };
    fill_sample(&r->sm, r, W, H, 10, n);
}

static void rig_close(rig *r)
{
    dg_scratch_close(&r->scratch);
    unit_close(&r->u);
}

static void apply(rig *r, const dg_node_class *class, void *conf, uint64_t key)
{
    dg_draw draw = dg_draw_begin(key, class->name, 0);
    const dg_clock clock = { 0 };

    unit_set(class, conf, "p", 1);
    if (class->item(conf, &r->sm, &draw, &clock, r->u.d) != 0)
        fail_msg("%s: %s", class->name, dg_diag_text(r->u.d));
}

static int gray_at(const dg_sample *sm, int x, int y)
{
    return sm->image.rgb[3 * (y * sm->image.w + x)];
}

static void is_box(dg_box b, double x1, double y1, double x2, double y2)
{
    if (fabs(b.x1 - x1) + fabs(b.y1 - y1) + fabs(b.x2 - x2) + fabs(b.y2 - y2) > 1e-9)
        fail_msg("the box is %g %g %g %g, expected %g %g %g %g", b.x1, b.y1, b.x2, b.y2, x1, y1, x2,
                 y2);
}

/* Boxes are inside, and each mask and the bright pixels are those of its box, but for `slack` of
 * them. */
static void masks_agree(const dg_sample *sm, double slack)
{
    for (int i = 0; i < sm->n_objects; i++) {
        const dg_box b = sm->objects[i].box;
        const dg_mask *m = &sm->masks[i];
        int apart = 0;

        assert_true(b.x1 >= 0 && b.y1 >= 0 && b.x2 <= sm->image.w && b.y2 <= sm->image.h);
        assert_true(m->w == sm->image.w && m->h == sm->image.h);
        for (int y = 0; y < m->h; y++)
            for (int x = 0; x < m->w; x++) {
                bool in = x + 0.5 > b.x1 && x + 0.5 < b.x2 && y + 0.5 > b.y1 && y + 0.5 < b.y2;

                apart += in != (bool)m->on[y * m->w + x];
            }
        assert_true(apart <= slack * (b.x2 - b.x1) * (b.y2 - b.y1));
    }
}

static void test_vflip(void **state)
{
    rig r;

    (void)state;
    rig_open(&r, 1);
    apply(&r, &dg_node_augment_vflip, unit_conf(&r.u, &dg_node_augment_vflip), 1);
    is_box(r.sm.objects[0].box, 4, H - 16, 10, H - 6);
    assert_int_equal(gray_at(&r.sm, 4, H - 16), 110);
    assert_int_equal(gray_at(&r.sm, 4, H - 17), 10);
    masks_agree(&r.sm, 0);
    rig_close(&r);
}

/* A quarter turn only moves pixels, whichever it is. */
static void test_quarters(void **state)
{
    int seen[3] = { 0 };

    (void)state;
    for (uint64_t key = 0; key < 12; key++) {
        rig r;

        rig_open(&r, 1);
        void *conf = unit_conf(&r.u, &dg_node_augment_rotate);

        unit_set(&dg_node_augment_rotate, conf, "quarters", 1);
        apply(&r, &dg_node_augment_rotate, conf, key);
        const dg_box b = r.sm.objects[0].box;

        if (r.sm.image.w == W) { /* by half */
            is_box(b, W - 10, H - 16, W - 4, H - 6);
            seen[0]++;
        } else if (b.x1 > H / 2.0 - 2) { /* clockwise: what was above is at the right */
            assert_int_equal(r.sm.image.w, H);
            is_box(b, H - 16, 4, H - 6, 10);
            seen[1]++;
        } else {
            is_box(b, 6, W - 10, 16, W - 4);
            seen[2]++;
        }
        for (int i = 0; i < W * H; i++)
            assert_int_equal(r.sm.image.rgb[3 * i], r.sm.masks[0].on[i] ? 110 : 10);
        masks_agree(&r.sm, 0);
        rig_close(&r);
    }
    assert_true(seen[0] && seen[1] && seen[2]);
}

static void test_rotate(void **state)
{
    double area[2];

    (void)state;
    for (int ellipse = 0; ellipse < 2; ellipse++) {
        rig r;

        rig_open(&r, 1);
        r.sm.masks = NULL;
        r.sm.objects[0].box = (dg_box){ W / 2.0 - 6, H / 2.0 - 3, W / 2.0 + 6, H / 2.0 + 3 };
        void *conf = unit_conf(&r.u, &dg_node_augment_rotate);

        unit_set(&dg_node_augment_rotate, conf, "degrees", 45);
        unit_set(&dg_node_augment_rotate, conf, "box", ellipse);
        apply(&r, &dg_node_augment_rotate, conf, 5);
        const dg_box b = r.sm.objects[0].box;

        assert_true(fabs(b.x1 + b.x2 - W) < 1e-9 && fabs(b.y1 + b.y2 - H) < 1e-9);
        area[ellipse] = (b.x2 - b.x1) * (b.y2 - b.y1);
        assert_int_equal(gray_at(&r.sm, 0, 0), 114); /* there is nothing at the corner */
        rig_close(&r);
    }
    assert_true(area[1] < area[0] && area[1] > 12 * 6);
}

/* With masks the box is that of the turned mask. */
static void test_rotate_mask(void **state)
{
    rig r;

    (void)state;
    rig_open(&r, 2);
    apply(&r, &dg_node_augment_rotate, unit_conf(&r.u, &dg_node_augment_rotate), 3);
    assert_int_equal(r.sm.n_objects, 2);
    masks_agree(&r.sm, 0.5);
    rig_close(&r);
}

static void test_erase(void **state)
{
    rig r;
    int erased = 0;

    (void)state;
    rig_open(&r, 2);
    void *conf = unit_conf(&r.u, &dg_node_augment_erase);

    unit_set(&dg_node_augment_erase, conf, "least", 0.25);
    unit_set(&dg_node_augment_erase, conf, "most", 0.25);
    unit_set(&dg_node_augment_erase, conf, "visible", 0);
    apply(&r, &dg_node_augment_erase, conf, 2);
    for (int i = 0; i < W * H; i++) {
        erased += r.sm.image.rgb[3 * i] == 114;
        if (r.sm.image.rgb[3 * i] == 114)
            assert_false(r.sm.masks[0].on[i] || r.sm.masks[1].on[i]);
    }
    assert_true(erased > W * H / 5 && erased < W * H * 3 / 10);
    assert_int_equal(r.sm.n_objects, 2);
    unit_set(&dg_node_augment_erase, conf, "least", 1);
    unit_set(&dg_node_augment_erase, conf, "most", 1);
    unit_set(&dg_node_augment_erase, conf, "aspect", 1);
    unit_set(&dg_node_augment_erase, conf, "count", 5);
    unit_set(&dg_node_augment_erase, conf, "visible", 0.3);
    apply(&r, &dg_node_augment_erase, conf, 2);
    assert_int_equal(r.sm.n_objects, 0);
    rig_close(&r);
}

/* Each of the four images touches the crossing with its corner. */
static void test_mosaic(void **state)
{
    rig r;
    int n = 0;

    (void)state;
    rig_open(&r, 1);
    void *conf = unit_conf(&r.u, &dg_node_augment_mosaic);

    unit_set(&dg_node_augment_mosaic, conf, "size", 40);
    unit_set(&dg_node_augment_mosaic, conf, "centre", 1);
    apply(&r, &dg_node_augment_mosaic, conf, 2);
    assert_int_equal(r.n_further, 3);
    assert_int_equal(r.sm.image.w, 80);
    assert_int_equal(r.sm.image.h, 80);
    assert_int_equal(gray_at(&r.sm, 39, 39), 10);
    assert_int_equal(gray_at(&r.sm, 40, 39), 20);
    assert_int_equal(gray_at(&r.sm, 39, 40), 40);
    assert_int_equal(gray_at(&r.sm, 40, 40), 60);
    assert_int_equal(gray_at(&r.sm, 0, 0), 114);
    assert_int_equal(r.sm.n_objects, 4);
    is_box(r.sm.objects[0].box, 4, 16, 10, 26); /* 40 x 30 as it is, its lower right at 40, 40 */
    is_box(r.sm.objects[1].box, 40 + 4 * 27 / 20.0, 8, 40 + 10 * 27 / 20.0, 40 * 16 / 30.0);
    for (int i = 0; i < 4; i++)
        n += r.sm.objects[i].label == 0;
    assert_int_equal(n, 4);
    masks_agree(&r.sm, 0.4); /* nearest pixels of a small mask */
    rig_close(&r);
}

/* The batch takes three objects: a mosaic of four is not made. */
static void test_capacity(void **state)
{
    rig r;

    (void)state;
    rig_open(&r, 1);
    r.further.most_objects = 3;
    void *conf = unit_conf(&r.u, &dg_node_augment_mosaic);

    apply(&r, &dg_node_augment_mosaic, conf, 2);
    assert_int_equal(r.sm.image.w, W);
    is_box(r.sm.objects[0].box, 4, 6, 10, 16);
    r.further.most_objects = 1;
    apply(&r, &dg_node_augment_mixup, unit_conf(&r.u, &dg_node_augment_mixup), 2);
    apply(&r, &dg_node_augment_copypaste, unit_conf(&r.u, &dg_node_augment_copypaste), 2);
    assert_int_equal(r.sm.n_objects, 1);
    assert_int_equal(gray_at(&r.sm, 5, 7), 110);
    rig_close(&r);
}

static void test_mixup(void **state)
{
    rig r;
    double sum = 0, squares = 0;
    const int n = 60;

    (void)state;
    for (int key = 0; key < n; key++) {
        rig_open(&r, 1);
        apply(&r, &dg_node_augment_mixup, unit_conf(&r.u, &dg_node_augment_mixup), (uint64_t)key);
        assert_int_equal(r.sm.n_objects, 2);
        assert_int_equal(r.sm.image.w, W);
        const dg_box b = r.sm.objects[1].box; /* of an image of 20 x 30, at a drawn place */
        const int x = (int)(b.x1 - 4);
        const double share = (20 - gray_at(&r.sm, x, 0)) / 10.0;

        assert_true(x >= 0 && x <= W - 20);
        is_box(b, x + 4, 6, x + 10, 16);
        masks_agree(&r.sm, 0);
        sum += share;
        squares += share * share;
        rig_close(&r);
    }
    sum /= n;
    assert_true(fabs(sum - 0.5) < 0.04);
    squares = sqrt(squares / n - sum * sum); /* of Beta(32, 32): 0.062 */
    assert_true(squares > 0.03 && squares < 0.1);
}

static void test_copypaste(void **state)
{
    int pasted = 0;

    (void)state;
    for (uint64_t key = 0; key < 20; key++) {
        rig r;

        rig_open(&r, 1);
        void *conf = unit_conf(&r.u, &dg_node_augment_copypaste);

        unit_set(&dg_node_augment_copypaste, conf, "share", 1);
        unit_set(&dg_node_augment_copypaste, conf, "least", 1);
        unit_set(&dg_node_augment_copypaste, conf, "larger", 1);
        unit_set(&dg_node_augment_copypaste, conf, "cover", 0);
        apply(&r, &dg_node_augment_copypaste, conf, key);
        masks_agree(&r.sm, 0);
        for (int i = 1; i < r.sm.n_objects; i++, pasted++) {
            const dg_box b = r.sm.objects[i].box;

            is_box((dg_box){ 0, 0, b.x2 - b.x1, b.y2 - b.y1 }, 0, 0, 6, 10);
            assert_int_equal(gray_at(&r.sm, (int)b.x1, (int)b.y1), 120);
            assert_true(dg_box_iou(b, r.sm.objects[0].box) <= 0);
        }
        assert_int_equal(gray_at(&r.sm, 4, 6), 110);
        rig_close(&r);
    }
    assert_int_equal(pasted, 20);
}

static double covered(rig *r, int x, int y, int w, int h)
{
    const dg_patch p = { x, y, w, h, NULL };

    return dg_augment_covered(&r->sm, 0, &p);
}

/* Shares of a mask are counted in its box alone, as far as that is in the image. */
static void test_covered(void **state)
{
    rig r;

    (void)state;
    rig_open(&r, 1); /* the box is 4 6 10 16 */
    r.sm.masks[0].on[20 * W + 30] = 1;
    for (int masked = 1; masked >= 0; masked--) {
        r.sm.masks = masked ? r.sm.masks : NULL;
        assert_true(covered(&r, 29, 19, 4, 4) <= 0);
        assert_true(covered(&r, 10, 6, 5, 5) <= 0); /* beside it */
        assert_true(fabs(covered(&r, 0, 0, 7, H) - 0.5) < 1e-9);
        assert_true(fabs(covered(&r, 0, 0, W, H) - 1) < 1e-9);
    }
    rig_close(&r);
    rig_open(&r, 1);
    r.sm.objects[0].box = (dg_box){ -20, -10, 2e9, H + 50.5 };
    assert_true(fabs(covered(&r, 0, 0, 7, H) - 0.5) < 1e-9);
    rig_close(&r);
}

static void test_lsj(void **state)
{
    rig r;

    (void)state;
    rig_open(&r, 1);
    void *conf = unit_conf(&r.u, &dg_node_augment_lsj);

    unit_set(&dg_node_augment_lsj, conf, "size", 80);
    unit_set(&dg_node_augment_lsj, conf, "least", 0.5);
    unit_set(&dg_node_augment_lsj, conf, "most", 0.5);
    apply(&r, &dg_node_augment_lsj, conf, 1); /* 40 x 30 on 80 x 80 */
    assert_true(r.sm.image.w == 80 && r.sm.image.h == 80);
    is_box(r.sm.objects[0].box, 4, 6, 10, 16);
    assert_int_equal(gray_at(&r.sm, 39, 29), 10);
    assert_int_equal(gray_at(&r.sm, 40, 29), 114);
    assert_int_equal(gray_at(&r.sm, 39, 30), 114);
    masks_agree(&r.sm, 0);
    rig_close(&r);
    rig_open(&r, 1);
    conf = unit_conf(&r.u, &dg_node_augment_lsj);
    unit_set(&dg_node_augment_lsj, conf, "size", 20);
    unit_set(&dg_node_augment_lsj, conf, "least", 2);
    unit_set(&dg_node_augment_lsj, conf, "most", 2);
    apply(&r, &dg_node_augment_lsj, conf, 1); /* a part of 20 x 20 of 40 x 30 */
    assert_true(r.sm.image.w == 20 && r.sm.image.h == 20);
    masks_agree(&r.sm, 0);
    rig_close(&r);
}

/* What a batch says of one sample. */
typedef struct seen {
    float images[40 * 40 * 3], boxes[2 * 4];
    int32_t labels[2], count, sizes[2];
} seen;

static void batch_of(rig *r, bool pad, seen *v)
{
    void *const data[] = { v->images, v->labels, v->boxes, &v->count, v->sizes, NULL };
    void *conf = unit_conf(&r->u, &dg_node_batch);

    unit_set(&dg_node_batch, conf, "max_objects", 2);
    unit_set(&dg_node_batch, conf, "fit", pad);
    if (dg_node_batch.fill(conf, (dg_size){ 40, 40 }, 1, 0, &r->sm, data, r->u.d) != 0)
        fail_msg("batch: %s", dg_diag_text(r->u.d));
}

static void is_target(const seen *v, double w, double h, double x1, double y1, double x2, double y2)
{
    const double want[4] = { (x1 + x2) / 2 / w, (y1 + y2) / 2 / h, (x2 - x1) / w, (y2 - y1) / h };

    assert_int_equal(v->count, 1);
    assert_true(v->sizes[0] == (int32_t)h && v->sizes[1] == (int32_t)w);
    for (int k = 0; k < 4; k++)
        assert_true(fabs(v->boxes[k] - want[k]) < 1e-6);
}

static void jitter(rig *r)
{
    void *conf;

    rig_close(r);
    rig_open(r, 1);
    conf = unit_conf(&r->u, &dg_node_augment_lsj);
    unit_set(&dg_node_augment_lsj, conf, "size", 80);
    unit_set(&dg_node_augment_lsj, conf, "least", 0.5);
    unit_set(&dg_node_augment_lsj, conf, "most", 0.5);
    apply(r, &dg_node_augment_lsj, conf, 1); /* 40 x 30 on 80 x 80, which the batch halves */
}

/* The gray of lsj is padding for a batch that pads, also behind nodes that move it. */
static void test_filling(void **state)
{
    seen v;
    rig r;

    (void)state;
    rig_open(&r, 1);
    jitter(&r);
    batch_of(&r, true, &v);
    is_target(&v, 20, 15, 2, 3, 5, 8);
    jitter(&r);
    batch_of(&r, false, &v); /* stretched, all of it counts */
    is_target(&v, 40, 40, 2, 3, 5, 8);
    jitter(&r);
    dg_sample_flip(&r.sm);
    masks_agree(&r.sm, 0);
    is_box(r.sm.objects[0].box, 30, 6, 36, 16);
    apply(&r, &dg_node_augment_vflip, unit_conf(&r.u, &dg_node_augment_vflip), 1);
    masks_agree(&r.sm, 0);
    assert_int_equal(gray_at(&r.sm, 39, 29), 10);
    assert_int_equal(gray_at(&r.sm, 40, 0), 114);
    batch_of(&r, true, &v);
    is_target(&v, 20, 15, 15, 7, 18, 12);
    jitter(&r);
    assert_int_equal(dg_sample_crop(&r.sm, 4, 2, 60, 60, r.u.d), 0);
    int w, h;
    dg_sample_part(&r.sm, &w, &h);
    assert_true(w == 36 && h == 28);
    rig_close(&r);
}

/* Nothing is pasted into the filling; what covers it, or turns the image, makes it a part of it. */
static void test_over_filling(void **state)
{
    static const struct {
        const dg_node_class *node;
        int w, h;
    } cases[] = { { &dg_node_augment_copypaste, 40, 30 },
                  { &dg_node_augment_mixup, 80, 80 },
                  { &dg_node_augment_mosaic, 640, 640 },
                  { &dg_node_augment_rotate, 80, 80 } };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t key = 0; key < 8; key++) {
            rig r;
            int w, h;

            rig_open(&r, 1);
            jitter(&r);
            apply(&r, cases[i].node, unit_conf(&r.u, cases[i].node), key);
            dg_sample_part(&r.sm, &w, &h);
            assert_int_equal(w, cases[i].w);
            assert_int_equal(h, cases[i].h);
            for (int k = 0; k < r.sm.n_objects; k++)
                assert_true(r.sm.objects[k].box.x2 <= w && r.sm.objects[k].box.y2 <= h);
            rig_close(&r);
        }
}

static const dg_node_class *const family[] = {
    &dg_node_augment_mosaic, &dg_node_augment_mixup, &dg_node_augment_copypaste,
    &dg_node_augment_rotate, &dg_node_augment_vflip, &dg_node_augment_erase,
    &dg_node_augment_lsj,
};
enum { FAMILY = sizeof family / sizeof *family };

/* p="0" and a moment that has passed change nothing; so does an image without objects and masks
 * go through all of them. */
static void test_off(void **state)
{
    (void)state;
    for (int i = 0; i < FAMILY; i++) {
        dg_draw draw = dg_draw_begin(1, "off", 0);
        const dg_clock clock = { .step = 7 };
        rig r;

        rig_open(&r, 1);
        void *conf = unit_conf(&r.u, family[i]);
        dg_when *until = NULL;

        for (const dg_attr *a = family[i]->attrs; a->name; a++)
            if (strcmp(a->name, "until") == 0)
                until = (dg_when *)(void *)((char *)conf + a->offset);
        assert_non_null(until);
        unit_set(family[i], conf, "p", 0);
        assert_int_equal(family[i]->item(conf, &r.sm, &draw, &clock, r.u.d), 0);
        unit_set(family[i], conf, "p", 1);
        *until = (dg_when){ DG_STEPS, 7 };
        assert_int_equal(family[i]->item(conf, &r.sm, &draw, &clock, r.u.d), 0);
        assert_int_equal(r.sm.image.w, W);
        is_box(r.sm.objects[0].box, 4, 6, 10, 16);
        assert_int_equal(r.n_further, 0);
        *until = (dg_when){ DG_NEVER, 0 };
        r.sm.n_objects = r.further_objects = 0;
        r.sm.masks = NULL;
        assert_int_equal(family[i]->item(conf, &r.sm, &draw, &clock, r.u.d), 0);
        assert_int_equal(r.sm.n_objects, 0);
        rig_close(&r);
    }
}

/* An image outside of any data set, as predict has it. */
static void test_none(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        dg_draw draw = dg_draw_begin(1, "none", 0);
        const dg_clock clock = { 0 };
        rig r;

        rig_open(&r, 1);
        void *conf = unit_conf(&r.u, family[i]);

        unit_set(family[i], conf, "p", 1);
        r.sm.further = NULL;
        assert_int_equal(family[i]->item(conf, &r.sm, &draw, &clock, r.u.d), -DG_EINPUT);
        check_only(r.u.d, "further-none");
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vflip),     cmocka_unit_test(test_quarters),
        cmocka_unit_test(test_rotate),    cmocka_unit_test(test_rotate_mask),
        cmocka_unit_test(test_erase),     cmocka_unit_test(test_mosaic),
        cmocka_unit_test(test_capacity),  cmocka_unit_test(test_mixup),
        cmocka_unit_test(test_copypaste), cmocka_unit_test(test_covered),
        cmocka_unit_test(test_lsj),       cmocka_unit_test(test_off),
        cmocka_unit_test(test_filling),   cmocka_unit_test(test_over_filling),
        cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
