/* init_rfdetr.c: what init writes for RF-DETR: the model, and its recipe for a data set of any
 * size.
 *
 * Images become a square that windows of patches divide. Multi-scale training draws from eleven
 * such sizes around it, as the reference does, but from none with fewer tokens than queries: there
 * the reference's groups of queries mix. */
#include "cli/init_plan.h"

enum { AROUND = 5, FEWER = 100 };

static int unit(const dg_rfdetr *v)
{
    return v->patch * v->windows;
}

static bool has_tokens(const dg_rfdetr *v, int size, int queries)
{
    return (size / v->patch) * (size / v->patch) >= queries;
}

/* The data's advice, but not more than the size that the model was made for. */
static void choose(dg_init_plan *p)
{
    const dg_rfdetr *v = p->model->vit;
    int u = unit(v);

    p->size = p->survey->advice.size / u * u;
    if (p->size > v->size)
        p->size = v->size;
    if (p->size < 4 * u)
        p->size = 4 * u;
    p->queries = has_tokens(v, p->size, v->queries) ? v->queries
                 : has_tokens(v, p->size, FEWER)    ? FEWER
                                                    : 16;
}

static void lets(dg_str *out, const dg_init_plan *p)
{
    const dg_rfdetr *v = p->model->vit;
    int u = unit(v), first = p->size - AROUND * u, last = p->size + AROUND * u;

    while (first < 2 * u || !has_tokens(v, first, p->queries))
        first += u;
    dg_str_fmt(
        out,
        "  <!-- size: pixels of a side, a multiple of %d; half of it is about four times as "
        "fast and sees smaller\n"
        "       objects worse. sizes: those that training draws from, around it; the largest "
        "again as largest.\n"
        "       batch: images in memory at once on each rank, or auto; accumulate: batches of "
        "an update.\n"
        "       queries: how many objects the network looks for; a size has (size / %d)^2 "
        "tokens to choose them from.\n"
        "       precision: bf16 is fast on new processors, f32 exact.\n"
        "       max_objects: room for the objects of an image; it has to be enough for the "
        "fullest one. -->\n"
        "  <let size=\"%d\" sizes=\"%d:%d:%d\" largest=\"%d\"/>\n"
        "  <let batch=\"%s\" accumulate=\"%d\" classes=\"%d\" max_objects=\"%d\" "
        "queries=\"%d\" precision=\"bf16\"/>\n",
        u, v->patch, p->size, first, last, u, last, p->let, p->batch / p->at_once,
        p->survey->n_classes, p->survey->advice.max_objects, p->queries);
}

static void network(dg_str *out, const dg_init_plan *p)
{
    const dg_rfdetr *v = p->model->vit;
    const char *all = dg_init_backbone_weights(p), *head = dg_init_other_weights(p);

    dg_str_add(out, "  <model id=\"detr\">\n    <input id=\"images\"/>\n");
    if (!p->pretrained)
        dg_str_add(out, "    <!-- Everything begins at random, and transformers learn slowly from "
                        "nothing: init with the option\n"
                        "         pretrained takes a published checkpoint. -->\n");
    dg_str_fmt(out,
               "    <backbone.dinov2      id=\"backbone\"  in=\"@images\" width=\"%d\" "
               "heads=\"%d\" patch=\"%d\" windows=\"%d\"\n"
               "                          positions=\"%d\" features=\"%s\"%s/>\n"
               "    <projector.multiscale id=\"projector\" in=\"@backbone\" width=\"%d\" "
               "levels=\"%s\"%s/>\n"
               "    <decoder.lwdetr       id=\"decoder\"   memory=\"@projector\" "
               "classes=\"$classes\" queries=\"$queries\" groups=\"13\"\n"
               "                          layers=\"%d\" heads=\"%d\" self_heads=\"%d\" "
               "points=\"%d\"%s/>\n",
               v->vit_width, v->vit_heads, v->patch, v->windows, v->positions, v->features, all,
               p->model->width, v->levels, head, p->model->layers, v->heads, v->self_heads,
               v->points, head);
    if (v->masks)
        dg_str_fmt(out,
                   "    <decoder.masks        id=\"masks\"     in=\"@decoder\" "
                   "map=\"@projector\" images=\"@images\" layers=\"%d\"%s/>\n",
                   p->model->layers, head);
    dg_str_add(out, "  </model>\n\n");
}

/* Rates of a pretrained model as shares of lr: lower from layer to layer towards the images. */
static void groups(dg_str *out, const dg_rfdetr *v)
{
    dg_str_fmt(out,
               "      <group match=\"^backbone\\.0\\.encoder.*embeddings\" lr_scale=\"%s\" "
               "weight_decay=\"0\"/>\n"
               "      <group match=\"^backbone\\.0\\.encoder.*\\.layer\\.#\\..*(norm|bias)\" "
               "layers=\"%d\" lr_scale=\"0.4704\" decay=\"0.8\" weight_decay=\"0\"/>\n"
               "      <group match=\"^backbone\\.0\\.encoder.*\\.layer\\.#\\.\" "
               "unless=\"norm|bias\" layers=\"%d\" lr_scale=\"%s\" decay=\"0.8\"/>\n"
               "      <group match=\"^backbone\\.0\\.encoder.*\\.layernorm\" lr_scale=\"0.735\" "
               "weight_decay=\"0\"/>\n"
               "      <group match=\"^transformer\\.decoder\" lr_scale=\"0.7\"/>\n",
               v->embed, v->trained, v->trained, v->top);
}

static void training(dg_str *out, const dg_init_plan *p)
{
    const bool masks = p->model->vit->masks;
    dg_str rates = { 0 };

    dg_str_fmt(
        out,
        "    <sampler.bucket  id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"$sizes\" "
        "alike=\"$accumulate\" tail=\"drop\" axis=\"dp\"/>\n"
        "    <!-- What makes new pictures of old ones. Take flip out where left and right differ "
        "(letters, traffic signs). -->\n"
        "    <augment         id=\"aug\"  in=\"@pick\">\n"
        "      <flip        p=\"0.5\"/>\n"
        "      <resize_crop p=\"0.5\" until=\"$still\"/>\n"
        "    </augment>\n"
        "    <batch           id=\"b\"    in=\"@aug\" max_objects=\"$max_objects\" "
        "base=\"$largest\" second=\"bilinear\"%s/>\n"
        "    <use             id=\"out\"  model=\"detr\" images=\"@b.images\"/>\n"
        "    <loss.rfdetr     id=\"loss\" predictions=\"@out\" targets=\"@b.targets\" "
        "axis=\"dp\"%s/>\n",
        masks ? " masks=\"true\"" : "", masks ? " class_weight=\"5\"" : "");
    if (p->pretrained)
        groups(&rates, p->model->vit);
    dg_init_write_update(out, &(dg_init_update){ .backward = " batches=\"mean\"",
                                                 .total = "@loss.total",
                                                 .terms = "@loss.terms",
                                                 .groups = rates.n ? rates.s : DG_NORM_GROUP,
                                                 .decay = "0.993",
                                                 .warmup = 100 });
    dg_str_free(&rates);
}

const dg_init_family dg_init_rfdetr = {
    .most_images = 16,
    .most_at_once = 4,
    .choose = choose,
    .lets = lets,
    .network = network,
    .training = training,
    .train = " accumulate=\"$accumulate\"",
    .batch = "",
    .images = "",
    .detect = " in=\"@out\"",
    .random_lr = "1e-4",
    .pretrained_lr = "1e-4",
    .short_lr = "1e-4",
};
