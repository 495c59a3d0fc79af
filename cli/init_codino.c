/* init_codino.c: what init writes for Co-DINO: the model with its three other heads, and its recipe
 * for a data set of any size.
 *
 * Images keep their proportions: a canvas has about the shape of the images, or one of three.
 * Training draws among five scales of it, and cuts half of the images, as the reference does. */
#include "cli/init_plan.h"

#include <math.h>

typedef dg_init_plan plan;

enum { LEAST = 64, STEP = 4, SCALES = 5, LARGE = 900, PUBLISHED_QUERIES = 900 };
static const double SMALLEST = 0.6;

/* Shapes of canvases, longer side first. All sizes have exactly one of them: a batch holds images
 * of one shape. */
typedef struct shape {
    int longer, shorter;
} shape;
static const shape shapes[] = { { 1, 1 }, { 5, 4 },  { 4, 3 }, { 3, 2 },
                                { 5, 3 }, { 16, 9 }, { 2, 1 }, { 3, 1 } };
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MIXED = 2 };

static shape shape_for(const plan *p)
{
    const double a = p->survey->advice.aspect, ratio = fmax(a, 1 / a);
    double off[N_SHAPES];
    int best = 0;

    if (!p->survey->advice.one_shape || !(a > 0))
        return shapes[MIXED];
    for (int i = 0; i < N_SHAPES; i++) {
        off[i] = fabs(log(ratio * shapes[i].shorter / shapes[i].longer));
        best = off[i] < off[best] ? i : best;
    }
    return shapes[best];
}

/* The nearest possible length of a canvas's longer side. */
static int whole(const plan *p, double side)
{
    const int unit = STEP * shape_for(p).longer;

    return unit * (int)fmax(ceil((double)LEAST / unit), floor(side / unit + 0.5));
}

/* The data's advice. A trained detector brings its queries. */
static void choose(plan *p)
{
    p->size = whole(p, p->size);
    if (p->whole_model)
        p->queries = PUBLISHED_QUERIES;
}

static void canvas(dg_str *out, int w, int h)
{
    dg_str_add(out, out->n ? "," : "");
    if (w == h)
        dg_str_fmt(out, "%d", w);
    else
        dg_str_fmt(out, "%dx%d", w, h);
}

static int short_side(const plan *p, int side)
{
    const shape s = shape_for(p);

    return side / s.longer * s.shorter;
}

/* The canvases whose longer side is `side`. */
static void canvases(dg_str *out, const plan *p, int side)
{
    const int shorter = short_side(p, side);

    if (!p->survey->advice.one_shape || p->survey->advice.aspect >= 1)
        canvas(out, side, shorter);
    if (!p->survey->advice.one_shape || p->survey->advice.aspect < 1)
        canvas(out, shorter, side);
    if (!p->survey->advice.one_shape)
        canvas(out, side, side);
}

static void lets(dg_str *out, const plan *p)
{
    const dg_codino *c = p->model->codino;
    dg_str size = { 0 }, sizes = { 0 };

    canvases(&size, p, p->size);
    for (int i = 0, last = 0; i < SCALES; i++) {
        int side = whole(p, p->size * (SMALLEST + (1 - SMALLEST) * i / (SCALES - 1)));

        if (side != last)
            canvases(&sizes, p, side);
        last = side;
    }
    dg_str_fmt(
        out,
        "  <!-- size: canvases in pixels, width x height; an image goes into the one whose "
        "shape is nearest to its own,\n"
        "       and keeps its proportions. sizes: those that training draws from. Half of both is "
        "about four times as fast\n"
        "       and sees smaller objects worse.\n"
        "       batch: images of a step on each rank, or auto; recompute: less memory, and more "
        "time.\n"
        "       queries: how many objects the network looks for, most of them in vain.\n"
        "       denoising: noisy copies of the truth that training looks for as well.\n"
        "       precision: bf16 is fast on new processors, f32 exact.\n"
        "       max_objects: room for the objects of an image; it has to be enough for the "
        "fullest one. -->\n"
        "  <let size=\"%s\" sizes=\"%s\"/>\n"
        "  <let batch=\"%s\" classes=\"%d\" max_objects=\"%d\" queries=\"%d\" denoising=\"%d\" "
        "recompute=\"%s\" precision=\"bf16\"/>\n",
        size.s, sizes.s, p->let, p->survey->n_classes, p->survey->advice.max_objects, p->queries,
        p->survey->advice.denoising, p->size > LARGE || (c->width > 128) ? "true" : "false");
    dg_str_free(&size);
    dg_str_free(&sizes);
}

static void backbone(dg_str *out, const plan *p)
{
    const dg_codino *c = p->model->codino;

    if (c->depth)
        dg_str_fmt(out,
                   "    <backbone.resnet    id=\"backbone\"  in=\"@images\" sizes=\"@sizes\" "
                   "depth=\"%d\"%s",
                   c->depth,
                   p->pretrained ? ""
                                 : " frozen_stages=\"-1\" freeze_norm=\"false\"\n"
                                   "                        norm=\"sync\"");
    else
        dg_str_fmt(out,
                   "    <backbone.swin      id=\"backbone\"  in=\"@images\" sizes=\"@sizes\" "
                   "width=\"%d\" depths=\"%s\" heads=\"%s\"\n"
                   "                        window=\"%s\" drop_path=\"%s\"",
                   c->width, c->depths, c->heads, c->window, c->drop_path);
    dg_str_fmt(out, " recompute=\"$recompute\"%s/>\n", dg_init_backbone_weights(p));
}

static void network(dg_str *out, const plan *p)
{
    const char *all = dg_init_other_weights(p);

    dg_str_add(out, "  <model id=\"detr\">\n"
                    "    <input id=\"images\"/> <input id=\"sizes\"/> "
                    "<input id=\"targets\" optional=\"true\"/> "
                    "<input id=\"denoising\" optional=\"true\"/>\n");
    if (!p->pretrained)
        dg_str_add(out, "    <!-- Everything begins at random. Weights of a backbone that was "
                        "trained on ImageNet help small data\n"
                        "         sets most: init with the option pretrained. -->\n");
    backbone(out, p);
    dg_str_fmt(
        out,
        "    <neck.channels      id=\"neck\"      in=\"@backbone\" width=\"%d\" levels=\"5\"%s/>\n"
        "    <encoder.deformable id=\"encoder\"   in=\"@neck\" images=\"@images\" "
        "sizes=\"@sizes\" layers=\"%d\" ffn=\"%d\" levels=\"5\"\n"
        "                        recompute=\"$recompute\"%s/>\n"
        "    <!-- Detectors that train beside the decoder: what they find becomes its queries, "
        "too. "
        "-->\n"
        "    <neck.coarser       id=\"pyramid\"   in=\"@encoder\"%s/>\n"
        "    <head.rpn           id=\"rpn\"       memory=\"@pyramid\" targets=\"@targets\" "
        "sizes=\"@sizes\" axis=\"dp\"%s/>\n"
        "    <head.roi           id=\"roi\"       memory=\"@pyramid\" proposals=\"@rpn\" "
        "targets=\"@targets\" sizes=\"@sizes\"\n"
        "                        classes=\"$classes\" axis=\"dp\"%s/>\n",
        p->model->width, all, p->model->layers, p->model->ffn, all, all, all, all);
    dg_str_fmt(out,
               "    <head.atss          id=\"atss\"      memory=\"@pyramid\" targets=\"@targets\" "
               "sizes=\"@sizes\" classes=\"$classes\"\n"
               "                        axis=\"dp\"%s/>\n"
               "    <record             id=\"positives\" rcnn=\"@roi.positives\" "
               "atss=\"@atss.positives\"/>\n"
               "    <decoder.dino       id=\"decoder\"   memory=\"@encoder.out\" "
               "padding=\"@encoder.padding\" denoising=\"@denoising\"\n"
               "                        positives=\"@positives\" sets=\"2\" classes=\"$classes\" "
               "queries=\"$queries\"\n"
               "                        layers=\"%d\" ffn=\"%d\"%s/>\n"
               "    <record             id=\"all\"       predictions=\"@decoder\" "
               "rpn=\"@rpn.total\" roi=\"@roi.total\" atss=\"@atss.total\"/>\n"
               "  </model>\n\n",
               all, p->model->layers, p->model->ffn, all);
}

static void training(dg_str *out, const plan *p)
{
    const int side = short_side(p, p->size);

    dg_str_fmt(
        out,
        "    <sampler.bucket  id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"$sizes\" "
        "tail=\"%s\" axis=\"dp\"/>\n"
        "    <!-- What makes new pictures of old ones. Take flip out where left and right "
        "differ (letters, traffic signs). -->\n"
        "    <augment         id=\"aug\"  in=\"@pick\">\n"
        "      <flip        p=\"0.5\"/>\n"
        "      <resize_crop p=\"0.5\" sides=\"%d,%d,%d\" least=\"%d\" most=\"%d\" "
        "until=\"$still\"/>\n"
        "    </augment>\n"
        "    <batch           id=\"b\"    in=\"@aug\" max_objects=\"$max_objects\" fit=\"pad\"/>\n"
        "    <!-- Boxes of the truth with noise on them, which the decoder learns to mend; in "
        "training alone. -->\n"
        "    <denoising       id=\"dn\"   targets=\"@b.targets\" classes=\"$classes\" "
        "count=\"$denoising\" empty=\"none\"/>\n"
        "    <use             id=\"out\"  model=\"detr\" images=\"@b.images\" sizes=\"@b.sizes\" "
        "targets=\"@b.targets\" denoising=\"@dn\"/>\n"
        "    <loss.dino       id=\"dino\" predictions=\"@out.predictions\" "
        "targets=\"@b.targets\" axis=\"dp\"/>\n"
        "    <sum             id=\"loss\" dino=\"@dino.total\" rpn=\"@out.rpn\" roi=\"@out.roi\" "
        "atss=\"@out.atss\"/>\n",
        p->n_train < 64 ? "pad" : "drop", side / 2, side * 5 / 8, side * 3 / 4, side * 12 / 25,
        side * 3 / 4);
    dg_init_write_update(out,
                         &(dg_init_update){
                             .backward = "",
                             .total = "@loss",
                             .terms = "@dino.terms",
                             .groups = p->pretrained
                                           ? "      <group match=\"backbone\" lr_scale=\"0.1\"/>\n"
                                           : DG_NORM_GROUP,
                             .decay = p->steps < 5000 ? "0.997" : "0.9995",
                             .warmup = dg_init_warmup(p) });
}

const dg_init_family dg_init_codino = {
    .most_images = 2,
    .choose = choose,
    .lets = lets,
    .network = network,
    .training = training,
    .train = "",
    .batch = " fit=\"pad\"",
    .images = " sizes=\"@b.sizes\"",
    .detect = " in=\"@out.predictions\" soft_nms=\"0.8\"",
    .random_lr = "2e-4",
    .pretrained_lr = "1e-4",
    .short_lr = "1e-4",
};
