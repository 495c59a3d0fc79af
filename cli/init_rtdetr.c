/* init_rtdetr.c: what init writes for RT-DETR: the preset's model, and a recipe for a data set of
 * any size. */
#include "cli/init_plan.h"

typedef dg_init_plan plan;

static void lets(dg_str *out, const plan *p)
{
    dg_str_fmt(
        out,
        "  <!-- size: pixels of a side, a multiple of 32; half of it is about four times as "
        "fast and sees smaller\n"
        "       objects worse. batch: images of a step on each rank; auto: as many as fit into "
        "memory.\n"
        "       queries: how many objects the network looks for, most of them in vain; tiny "
        "sizes have room for "
        "fewer.\n"
        "       denoising: noisy copies of the truth that training looks for as well.\n"
        "       precision: bf16 is fast on new processors, f32 exact.\n"
        "       max_objects: room for the objects of an image; it has to be enough for the "
        "fullest one. -->\n"
        "  <let size=\"%d\" batch=\"%s\" classes=\"%d\" max_objects=\"%d\" queries=\"%d\" "
        "denoising=\"%d\" precision=\"bf16\"/>\n",
        p->size, p->let, p->survey->n_classes, p->survey->advice.max_objects, p->queries,
        p->survey->advice.denoising);
}

static void network(dg_str *out, const plan *p)
{
    const dg_model *m = p->model;
    const char *head = dg_init_other_weights(p);

    dg_str_fmt(out, "  <model id=\"detr\">\n    <input id=\"images\"/> <input id=\"denoising\" "
                    "optional=\"true\"/>\n");
    if (!p->pretrained)
        dg_str_add(out, "    <!-- Everything begins at random. Weights of a backbone that was "
                        "trained on ImageNet "
                        "help small data\n"
                        "         sets most: init with the option pretrained. -->\n");
    dg_str_fmt(out, "    <backbone.presnet id=\"backbone\" in=\"@images\" depth=\"%d\"%s%s/>\n",
               m->depth,
               p->pretrained && m->freeze ? " freeze_at=\"0\" freeze_norm=\"true\""
                                          : " norm=\"sync\"",
               dg_init_backbone_weights(p));
    dg_str_fmt(
        out,
        "    <encoder.hybrid   id=\"encoder\"  s8=\"@backbone.s8\" s16=\"@backbone.s16\" "
        "s32=\"@backbone.s32\" version=\"%d\"\n"
        "                      width=\"%d\" ffn=\"%d\" expansion=\"%s\" norm=\"sync\"%s/>\n"
        "    <decoder.rtdetr   id=\"decoder\"  memory=\"@encoder.out\" denoising=\"@denoising\" "
        "version=\"%d\" classes=\"$classes\"\n"
        "                      queries=\"$queries\" layers=\"%d\" eval_idx=\"%d\" "
        "eval_size=\"$size\" "
        "norm=\"sync\"%s/>\n"
        "  </model>\n\n",
        m->version, m->width, m->ffn, m->expansion, head, m->version, m->layers, m->eval_idx, head);
}

static void training(dg_str *out, const plan *p)
{
    static const char heads[] =
        "      <!-- The heads for classes begin alike, with the mean of the file's, whose classes "
        "are others: they learn as\n"
        "           fast as in a network without weights. -->\n"
        "      <group match=\"(score_head|class_embed).*weight\" lr_scale=\"%d\"/>\n";
    /* pictures that are seen a few times need no new versions, which are harder */
    const bool varies = p->epochs >= 5;
    const double zoom = varies ? dg_survey_zoom(p->survey, p->size) : 1;
    dg_str groups = { 0 };

    dg_str_fmt(out,
               "    <sampler.bucket  id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"$size\" "
               "tail=\"%s\" axis=\"dp\"/>\n"
               "    <!-- What makes new pictures of old ones. Take flip out where left and right "
               "differ (letters, traffic\n"
               "         signs), photometric where colours tell classes apart. -->\n"
               "    <augment         id=\"aug\"  in=\"@pick\">\n"
               "      <photometric p=\"0.5\" until=\"$still\"/>\n",
               p->n_train < 64 ? "pad" : "drop");
    if (zoom > 1.1)
        dg_str_fmt(out, "      <zoom_out    p=\"0.5\" most=\"%g\" until=\"$still\"/>\n", zoom);
    if (varies)
        dg_str_add(out, "      <iou_crop    p=\"0.8\" until=\"$still\"/>\n");
    dg_str_add(out,
               "      <flip        p=\"0.5\"/>\n"
               "    </augment>\n"
               "    <batch           id=\"b\"    in=\"@aug\" max_objects=\"$max_objects\"/>\n");
    dg_str_add(
        out,
        "    <!-- Boxes of the truth with noise on them, which the decoder learns to mend; in "
        "training alone. -->\n"
        "    <denoising       id=\"dn\"   targets=\"@b.targets\" classes=\"$classes\" "
        "count=\"$denoising\" "
        "empty=\"pad\" axis=\"dp\"/>\n"
        "    <use             id=\"out\"  model=\"detr\" images=\"@b.images\" denoising=\"@dn\"/>\n"
        "    <loss.rtdetr     id=\"loss\" predictions=\"@out\" targets=\"@b.targets\" "
        "axis=\"dp\"/>\n");
    if (p->whole_model && p->new_classes) /* with 4e-4 in all */
        dg_str_fmt(&groups, heads, dg_init_is_short(p) ? 2 : 4);
    dg_str_add(&groups, p->pretrained ? p->model->groups : DG_NORM_GROUP);
    dg_init_write_update(out, &(dg_init_update){ .backward = "",
                                                 .total = "@loss.total",
                                                 .terms = "@loss.terms",
                                                 .groups = groups.s,
                                                 .decay = p->steps < 5000    ? "0.997"
                                                          : p->steps < 50000 ? "0.9995"
                                                                             : "0.9999",
                                                 .warmup = dg_init_warmup(p) });
    dg_str_free(&groups);
}

const dg_init_family dg_init_rtdetr = {
    .most_images = 16,
    .any_size = true,
    .lets = lets,
    .network = network,
    .training = training,
    .train = "",
    .batch = "",
    .images = "",
    .detect = " in=\"@out\"",
    .random_lr = "4e-4",
    .pretrained_lr = "1e-4",
    .short_lr = "2e-4",
};
