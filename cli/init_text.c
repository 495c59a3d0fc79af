/* init_text.c: the text of init's pipelines: what all families of models have alike. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "cli/init_plan.h"
#include "cli/init_refuse.h"

typedef dg_init_plan plan;

/* Appends text as an attribute's value, escaping `$` and a leading `@`. */
static void value(dg_str *out, const char *text)
{
    dg_str literal = { 0 };

    if (*text == '@')
        dg_str_add(&literal, "@");
    for (; *text; text++)
        dg_str_fmt(&literal, *text == '$' ? "$%c" : "%c", *text);
    dg_str_xml(out, literal.s ? literal.s : "");
    dg_str_free(&literal);
}

/* Appends text inside a comment: without its end mark and control characters. */
static void remark(dg_str *out, const char *text)
{
    for (size_t n; *text; text += n ? n : 1) {
        const bool bad = (n = dg_utf8_bytes(text)) == 0 || (unsigned char)*text < ' ' ||
                         (*text == '-' && text[1] == '-');

        dg_str_add_n(out, bad ? "_" : text, bad ? 1 : n);
    }
}

static void loader(dg_str *out, const plan *p, const dg_split *s, const char *part)
{
    const dg_survey *v = p->survey;

    assert(s);
    dg_str_fmt(out, "    <loader.%-8s id=\"data\" root=\"$data\"", dg_form_name(v->layout.form));
    if (v->layout.form == DG_FORM_COCO && !(s->split && strcmp(s->images, "images") == 0)) {
        dg_str_add(out, " annotations=\"");
        value(out, s->annotations);
        dg_str_add(out, "\" images=\"");
        value(out, s->images);
        dg_str_add(out, "\"");
    } else if (s->split) {
        dg_str_add(out, " split=\"");
        value(out, s->split);
        dg_str_add(out, "\"");
    }
    if (dg_model_has_masks(p->model))
        dg_str_add(out, " masks=\"true\"");
    if (p->hold_out > 0)
        dg_str_fmt(out, " hold_out=\"$hold_out\" part=\"%s\"", part);
    dg_str_add(
        out,
        dg_init_broken(v)
            ? " on_error=\"replace\"/> <!-- some images cannot be read: data check names them -->\n"
            : "/>\n");
}

static void head(dg_str *out, const plan *p)
{
    const dg_survey *v = p->survey;

    dg_str_fmt(out, "<!-- %s on ", p->model->name);
    remark(out, p->root);
    dg_str_fmt(out, ":\n     %lld image%s to train on, %d class%s (", (long long)p->n_train,
               dg_plural(p->n_train, "s"), v->n_classes, dg_plural(v->n_classes, "es"));
    for (int k = 0; k < v->n_classes && k < 10; k++) {
        dg_str_add(out, k ? ", " : "");
        remark(out, v->classes[k]);
    }
    dg_str_fmt(
        out,
        "%s), at most %d object%s in one.\n     Written by detrgraph init. The option set of "
        "detrgraph run replaces "
        "what stands in <let>, as in set epochs=10. -->\n",
        v->n_classes > 10 ? ", ..." : "", (int)v->most_objects, dg_plural(v->most_objects, "s"));
    dg_str_fmt(out, "<pipeline version=\"1\" name=\"%s_%s\" seed=\"0\">\n", p->model->name,
               dg_form_name(v->layout.form));
    dg_str_add(out, "  <let data=\"");
    value(out, p->root);
    dg_str_add(out, "\"/>\n");
    if (p->pretrained) {
        dg_str_add(out, "  <let pretrained=\"");
        value(out, p->pretrained);
        dg_str_add(out, "\"/>\n");
    }
    if (p->hold_out > 0)
        dg_str_fmt(out,
                   "  <!-- There is no split for validation: this share of the images and of each "
                   "class's objects is kept from training\n"
                   "       and evaluated on. Copies stay together. Other pictures of one scene "
                   "that come to both parts make the "
                   "scores too good:\n"
                   "       where there are such, deal them out into splits yourself. -->\n"
                   "  <let hold_out=\"%g\"/>\n",
                   p->hold_out);
    p->family->lets(out, p);
    dg_str_fmt(
        out,
        "  <!-- epochs: how often all images are gone through, here in %lld steps. Shares of "
        "the run: for `warmup` of it the\n"
        "       learning rate rises, from `hold` on it falls, from `still` on images come as "
        "they are; if the score has not\n"
        "       risen for `patience`, the run ends. -->\n"
        "  <let epochs=\"%d\" warmup=\"%.2g %%\" hold=\"55 %%\" still=\"90 %%\" "
        "patience=\"%s\"/>\n"
        "  <!-- lr: the first number to try others of. -->\n"
        "  <let lr=\"%s\"/>\n"
        "  <mesh dp=\"ranks\"/>\n\n",
        (long long)p->steps, p->epochs,
        fmin(100.0 * (double)dg_init_warmup(p) / (double)p->steps, 20),
        dg_init_is_short(p) ? "never" : "30 %", /* less than from one evaluation to the next */
        !p->pretrained                          ? p->family->random_lr
        : p->whole_model && dg_init_is_short(p) ? p->family->short_lr
                                                : p->family->pretrained_lr);
}

static void training(dg_str *out, const plan *p)
{
    dg_str_fmt(out,
               "  <train epochs=\"$epochs\"%s precision=\"$precision\" "
               "patience=\"$patience\">\n",
               p->family->train);
    loader(out, p, p->train, "rest");
    p->family->training(out, p);
}

static void evaluation(dg_str *out, const plan *p)
{
    if (!p->val && p->hold_out <= 0)
        dg_str_add(out, "  <!-- There is no split for validation: these numbers say how well the "
                        "training images are "
                        "known by heart,\n"
                        "       not how well others will be. Set some images aside. -->\n");
    dg_str_fmt(out, "  <evaluate every=\"%d epoch%s\" weights=\"@ema\">\n", p->every,
               dg_plural(p->every, "s"));
    loader(out, p, p->val ? p->val : p->train, "held");
    dg_str_add(out, "    <sampler.bucket  id=\"pick\" in=\"@data\" batch=\"$batch\" "
                    "sizes=\"$size\" shuffle=\"false\" "
                    "tail=\"pad\" axis=\"dp\"/>\n"
                    "    <batch           id=\"b\"    in=\"@pick\" max_objects=\"$max_objects\"");
    dg_str_fmt(out,
               "%s/>\n"
               "    <use             id=\"out\"  model=\"detr\" images=\"@b.images\"%s/>\n"
               "    <detect          id=\"found\"%s most=\"300\"/>\n",
               p->family->batch, p->family->images, p->family->detect);
    dg_str_add(out, "    <evaluate.coco   id=\"coco\" in=\"@found\" axis=\"dp\"/>\n"
                    "  </evaluate>\n"
                    "  <!-- to: the run's folder, below the one where detrgraph is started. best: "
                    "the weights with this number at its\n"
                    "       highest are kept as checkpoints/best. -->\n"
                    "  <checkpoint to=\"");
    value(out, p->folder);
    dg_str_fmt(out, "\" every=\"%d epoch%s\" best=\"@coco.AP\" keep=\"3\"/>\n</pipeline>\n",
               p->every, dg_plural(p->every, "s"));
}

void dg_init_write(dg_str *out, const plan *p)
{
    head(out, p);
    p->family->network(out, p);
    training(out, p);
    evaluation(out, p);
}

/* ---- what families write alike --------------------------------------------------------------- */

const char *dg_init_backbone_weights(const plan *p)
{
    return p->pretrained ? " pretrained=\"$pretrained\"" : "";
}

const char *dg_init_other_weights(const plan *p)
{
    return p->whole_model ? " pretrained=\"$pretrained\"" : "";
}

int64_t dg_init_warmup(const plan *p)
{
    return p->steps < 5000 ? 200 : p->steps < 50000 ? 1000 : 2000;
}

bool dg_init_is_short(const plan *p)
{
    return p->steps < 1000;
}

void dg_init_write_update(dg_str *out, const dg_init_update *u)
{
    dg_str_fmt(
        out,
        "    <backward        id=\"grad\" loss=\"%s\"%s/>\n"
        "    <allreduce       id=\"sync\" in=\"@grad\" axis=\"dp\" op=\"mean\"/>\n"
        "    <allreduce       id=\"terms\" in=\"%s\" axis=\"dp\" op=\"mean\"/>\n"
        "    <log             in=\"@terms\"/>\n"
        "    <!-- lr rises for `warmup` of the run, stays, and falls to `to` of itself;\n"
        "         clip bounds the length of an update's gradient. -->\n"
        "    <optimizer.adamw id=\"opt\"  gradients=\"@sync\" lr=\"$lr\" weight_decay=\"1e-4\" "
        "clip=\"0.1\">\n%s"
        "      <schedule warmup=\"$warmup\" hold=\"$hold\" decay=\"cosine\" to=\"0.02\"/>\n"
        "    </optimizer.adamw>\n"
        "    <!-- An average of the weights over their last steps, which is what is evaluated. "
        "-->\n"
        "    <ema id=\"ema\" of=\"@opt\" decay=\"%s\" warmup=\"%lld\"/>\n"
        "  </train>\n\n",
        u->total, u->backward, u->terms, u->groups, u->decay, (long long)u->warmup);
}
