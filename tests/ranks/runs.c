/* runs: drawn pipelines that the proof accepts, trained on 1, 2 and 3 ranks with the same images in
 * each step: all end, and every step's loss is one rank's within rounding.
 *
 *     tests/ranks/runs [COUNT [FIRST]]    3 and 1; tests/long/runs draws more
 *
 * Drawn is only what is the same for any number of ranks: votes about all images, no number of a
 * rank's own. What is refused is counted, and shown with DG_SHOW=1. */
#include "tests/ranks/toy_rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

/* eps of the optimizer is large: where a gradient is 0 but for rounding, as of a bias before a
 * norm, AdamW would make steps of the rounding. With large steps a deep net magnifies rounding. */
enum { COUNT = 3, IMAGES = 6, MOST_RANKS = 3, MOST_TERMS = 3 };

enum { LAYERS, TOY, RTDETR, RFDETR, CODETR }; /* kinds of models */

static int n_pipelines = COUNT, first_seed = 1;

/* ---- dice ------------------------------------------------------------------------------------ */

typedef struct draw {
    dg_str s;
    uint64_t state;
    int kind;
    bool accumulates;
    const char *flag; /* of a vote, or NULL */
} draw;

static int below(draw *d, int n)
{
    d->state = d->state * 6364136223846793005U + 1442695040888963407U;
    return (int)((d->state >> 33) % (uint64_t)n);
}

static bool chance(draw *d, int percent)
{
    return below(d, 100) < percent;
}

static const char *one_of(draw *d, const char *const *words, int n)
{
    return words[below(d, n)];
}

#define ONE_OF(d, ...)                              \
    one_of(d, (const char *const[]){ __VA_ARGS__ }, \
           (int)(sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *)))

/* ---- parts of a pipeline --------------------------------------------------------------------- */

#define MAPS "s8=\"@backbone.s8\" s16=\"@backbone.s16\" s32=\"@backbone.s32\""
#define BACKBONE                                                                     \
    "    <backbone.presnet id=\"backbone\" in=\"@images\" depth=\"18\" width=\"4\" " \
    "norm=\"sync\"/>\n"

/* Small ones of the three systems, with the losses that count objects over all ranks. */
static const char *const models[] = {
    [RTDETR] = "    <input id=\"denoising\" optional=\"true\"/>\n" BACKBONE
               "    <encoder.hybrid id=\"encoder\" " MAPS
               " width=\"16\" ffn=\"16\" heads=\"2\" norm=\"sync\"/>\n"
               "    <decoder.rtdetr id=\"decoder\" memory=\"@encoder.out\" classes=\"2\" "
               "denoising=\"@denoising\" queries=\"6\" layers=\"2\" width=\"16\" ffn=\"16\" "
               "heads=\"2\" norm=\"sync\"/>\n",
    [RFDETR] = BACKBONE "    <record id=\"maps\" p5=\"@backbone.s32\"/>\n"
                        "    <decoder.lwdetr id=\"decoder\" memory=\"@maps\" classes=\"2\" "
                        "queries=\"4\" groups=\"3\" layers=\"2\" heads=\"2\" self_heads=\"2\" "
                        "ffn=\"8\"/>\n",
    [CODETR] = BACKBONE "    <record id=\"maps\" " MAPS "/>\n"
                        "    <neck.channels id=\"neck\" in=\"@maps\" width=\"16\" levels=\"3\" "
                        "groups=\"4\"/>\n"
                        "    <decoder.dino id=\"decoder\" memory=\"@neck\" classes=\"2\" "
                        "queries=\"8\" layers=\"2\" heads=\"2\" ffn=\"8\"/>\n",
};
static const char *const uses[] = {
    [LAYERS] = "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
               "    <loss.mean id=\"base\" in=\"@out.b\"/>\n",
    [TOY] = "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
            "    <toy.loss id=\"base\" predictions=\"@out\" targets=\"@b.targets\"/>\n",
    [RTDETR] =
        "    <denoising id=\"dn\" targets=\"@b.targets\" classes=\"2\" count=\"4\" axis=\"dp\" "
        "empty=\"pad\"/>\n"
        "    <use id=\"out\" model=\"m\" images=\"@b.images\" denoising=\"@dn\"/>\n"
        "    <loss.rtdetr id=\"base\" predictions=\"@out\" targets=\"@b.targets\" axis=\"dp\"/>\n",
    [RFDETR] =
        "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
        "    <loss.rfdetr id=\"base\" predictions=\"@out\" targets=\"@b.targets\" axis=\"dp\"/>\n",
    [CODETR] =
        "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
        "    <loss.dino id=\"base\" predictions=\"@out\" targets=\"@b.targets\" axis=\"dp\"/>\n",
};

static const char *recompute(draw *d)
{
    return chance(d, 30) ? " recompute=\"true\"" : "";
}

static void add_layers(draw *d)
{
    dg_str_fmt(&d->s, "    <layer.linear id=\"first\" in=\"@images\" width=\"%d\"/>\n",
               2 + below(d, 5));
    if (chance(d, 40))
        dg_str_fmt(&d->s, "    <layer.norm id=\"norm\" in=\"@first\" norm=\"sync\"%s/>\n",
                   recompute(d));
    else
        dg_str_add(&d->s, "    <sum id=\"norm\" in=\"@first\"/>\n");
    dg_str_fmt(&d->s,
               "    <layer.linear id=\"second\" in=\"@norm\" width=\"%d\"%s/>\n"
               "    <record id=\"all\" a=\"@first\" b=\"@second\"/>\n",
               1 + below(d, 4), recompute(d));
}

static void add_model(draw *d)
{
    dg_str_add(&d->s, "  <model id=\"m\"><input id=\"images\"/>\n");
    if (d->kind == LAYERS)
        add_layers(d);
    else if (d->kind == TOY)
        dg_str_fmt(&d->s,
                   "    <toy.net id=\"net\" images=\"@images\" width=\"%d\" fixed=\"true\"%s/>\n",
                   4 + below(d, 5), recompute(d));
    else
        dg_str_add(&d->s, models[d->kind]);
    dg_str_add(&d->s, "  </model>\n");
}

static void add_data(draw *d)
{
    static const char *const augments[] = { "<flip p=\"0.5\"/>", "<photometric p=\"0.7\"/>",
                                            "<zoom_out p=\"0.5\" most=\"2\"/>",
                                            "<iou_crop p=\"0.6\"/>" };
    const char *from = "data";
    bool plain = chance(d, 25), small = d->kind < RTDETR,
         resized = small && !plain && chance(d, 30);

    dg_str_fmt(&d->s,
               "    <loader.synthetic id=\"data\" images=\"%d\" width=\"32\" height=\"32\" "
               "classes=\"2\" max_objects=\"3\" seed=\"%d\"/>\n",
               36 + 6 * below(d, 3), 1 + below(d, 9));
    if (chance(d, 25)) {
        dg_str_add(&d->s, "    <filter id=\"kept\" in=\"@data\" min_objects=\"1\"/>\n");
        from = "kept";
    }
    dg_str_fmt(&d->s,
               "    <sampler.%s id=\"pick\" in=\"@%s\" batch=\"$batch\" %s tail=\"drop\" "
               "shuffle=\"%s\"%s axis=\"dp\"/>\n",
               plain ? "plain" : "bucket", from,
               plain     ? small ? "size=\"32\"" : "size=\"64\""
               : !small  ? "sizes=\"64\""
               : resized ? "sizes=\"32,48\""
                         : "sizes=\"32\"",
               ONE_OF(d, "true", "false"), chance(d, 20) ? " repeat=\"true\"" : "");
    from = "pick";
    if (chance(d, 60)) {
        dg_str_fmt(&d->s, "    <augment id=\"aug\" in=\"@pick\">%s%s</augment>\n",
                   ONE_OF(d, augments[0], augments[1], augments[2], augments[3]),
                   chance(d, 40) ? augments[0] : "");
        from = "aug";
    }
    if (resized) {
        dg_str_fmt(&d->s,
                   "    <source.random id=\"side\" seed=\"%s\" low=\"0\" high=\"2\"/>\n"
                   "    <resize id=\"sized\" in=\"@%s\" size=\"@side\" sizes=\"32,48\"/>\n",
                   "shared", from);
        from = "sized";
    }
    dg_str_fmt(&d->s, "    <batch id=\"b\" in=\"@%s\" max_objects=\"4\"/>\n", from);
}

/* A flag that all ranks have alike, whatever their number. */
static void add_flag(draw *d)
{
    static const char *const flags[] = {
        "    <source.step id=\"now\"/>\n"
        "    <test id=\"flag\" in=\"@now\" is=\"above\" than=\"2\"/>\n",
        "    <source.random id=\"luck\" seed=\"shared\"/>\n"
        "    <test id=\"flag\" in=\"@luck\" is=\"above\" than=\"0.4\"/>\n",
        "    <source.random id=\"luck\" seed=\"rank\"/>\n"
        "    <broadcast id=\"heard\" in=\"@luck\" axis=\"dp\"/>\n"
        "    <test id=\"flag\" in=\"@heard\" is=\"above\" than=\"0.4\"/>\n",
        "    <test id=\"some\" in=\"@b.targets.count\" is=\"above\" than=\"2\"/>\n"
        "    <agree id=\"flag\" in=\"@some\" op=\"any\" axis=\"dp\"/>\n",
        "    <test id=\"few\" in=\"@b.targets.count\" is=\"below\" than=\"2\"/>\n"
        "    <agree id=\"flag\" in=\"@few\" op=\"any\" axis=\"dp\"/>\n",
        "    <test id=\"fine\" in=\"@b.images\" is=\"finite\"/>\n"
        "    <agree id=\"flag\" in=\"@fine\" op=\"all\" axis=\"dp\"/>\n",
        "    <agree id=\"most\" in=\"@b.targets.count\" op=\"max\" axis=\"dp\"/>\n"
        "    <test id=\"flag\" in=\"@most\" is=\"above\" than=\"2\"/>\n",
        "    <source.clock id=\"time\"/>\n"
        "    <broadcast id=\"heard\" in=\"@time\" axis=\"dp\"/>\n"
        "    <test id=\"flag\" in=\"@heard\" is=\"above\" than=\"-1\"/>\n",
    };

    d->flag = NULL;
    if (chance(d, 70)) {
        dg_str_add(&d->s, flags[below(d, (int)(sizeof flags / sizeof *flags))]);
        d->flag = "flag";
    }
}

static void guard(draw *d, int percent, bool connects)
{
    if (!d->flag || !chance(d, percent))
        return;
    dg_str_fmt(&d->s, " when=\"@%s\"", d->flag);
    if (d->accumulates || (connects && chance(d, 50)))
        dg_str_add(&d->s, " connect=\"zero\"");
}

static void add_term(draw *d, int i)
{
    const char *a = d->kind ? "out.boxes" : "out.a", *b = d->kind ? "out.logits" : "out.b";
    const char *x = chance(d, 50) ? a : b;

    switch (below(d, 5)) {
    case 0:
        dg_str_fmt(&d->s, "    <layer.linear id=\"head%d\" in=\"@%s\" width=\"2\"", i, x);
        guard(d, 50, true);
        dg_str_fmt(&d->s, "/>\n    <loss.mean id=\"l%d\" in=\"@head%d\"", i, i);
        guard(d, 20, true);
        dg_str_add(&d->s, "/>\n");
        break;
    case 1:
        dg_str_fmt(&d->s, "    <allgather id=\"all%d\" in=\"@%s\" axis=\"dp\"", i, x);
        guard(d, 40, true);
        dg_str_fmt(&d->s, "/>\n    <loss.mean id=\"l%d\" in=\"@all%d\"/>\n", i, i);
        break;
    case 2:
        dg_str_fmt(&d->s, "    <use id=\"again%d\" model=\"m\" images=\"@b.images\"", i);
        guard(d, 50, true);
        dg_str_fmt(&d->s, "/>\n    <loss.mean id=\"l%d\" in=\"@again%d%s\"/>\n", i, i, x + 3);
        break;
    case 3:
        dg_str_fmt(&d->s,
                   "    <loss.mean id=\"own%d\" in=\"@%s\"/>\n"
                   "    <allreduce id=\"l%d\" in=\"@own%d\" axis=\"dp\"",
                   i, x, i, i);
        guard(d, 40, true);
        dg_str_add(&d->s, "/>\n");
        break;
    default:
        dg_str_fmt(&d->s, "    <loss.mean id=\"l%d\" in=\"@%s\"", i, x);
        guard(d, 60, true);
        dg_str_add(&d->s, "/>\n");
    }
}

static void add_loss(draw *d)
{
    int n = 1 + below(d, MOST_TERMS);

    dg_str_add(&d->s, uses[d->kind]);
    for (int i = 0; i < n; i++)
        add_term(d, i);
    dg_str_add(&d->s, "    <sum id=\"loss\" base=\"@base.total\"");
    for (int i = 0; i < n; i++)
        dg_str_fmt(&d->s, " l%d=\"@l%d\"", i, i);
    dg_str_add(&d->s, "/>\n    <record id=\"terms\" base=\"@base.total\" all=\"@loss\"/>\n");
    if (!d->accumulates && d->flag && chance(d, 20))
        dg_str_fmt(&d->s, "    <skip id=\"left\" when=\"@%s\"/>\n", d->flag);
    if (!d->accumulates && chance(d, 30))
        dg_str_add(&d->s, "    <test id=\"bad\" in=\"@loss\" is=\"nonfinite\"/>\n"
                          "    <agree id=\"worse\" in=\"@bad\" op=\"any\" axis=\"dp\"/>\n"
                          "    <skip when=\"@worse\"/>\n");
}

static void add_update(draw *d)
{
    bool norm = chance(d, 30);

    dg_str_add(&d->s, "    <backward id=\"grad\" loss=\"@loss\"/>\n"
                      "    <allreduce id=\"sync\" in=\"@grad\" axis=\"dp\"/>\n");
    if (norm)
        dg_str_add(&d->s, "    <gradient.norm id=\"length\" in=\"@sync\"/>\n");
    dg_str_fmt(&d->s,
               "    <optimizer.adamw id=\"opt\" gradients=\"@sync\" lr=\"$lr\" eps=\"1e-4\" "
               "clip=\"%s\"%s>%s%s"
               "</optimizer.adamw>\n",
               ONE_OF(d, "1", "0.1", "100"), norm ? " norm=\"@length\"" : "",
               !chance(d, 30)      ? ""
               : d->kind == LAYERS ? "<group match=\"second\" lr=\"1e-4\"/>"
               : d->kind == TOY    ? "<group match=\"box\" lr=\"1e-4\"/>"
                                   : "<group match=\"backbone\" lr=\"1e-4\"/>",
               chance(d, 40) ? "<schedule warmup=\"2\" decay=\"cosine\"/>" : "");
    if (chance(d, 50))
        dg_str_add(&d->s, "    <ema id=\"ema\" of=\"@opt\" decay=\"0.9\" warmup=\"3\"/>\n");
    if (chance(d, 20))
        dg_str_add(&d->s, "    <test id=\"odd\" in=\"@b.targets.count\" is=\"zero\"/>\n"
                          "    <skip id=\"late\" when=\"@odd\"/>\n");
    else
        dg_str_add(&d->s, "    <allreduce id=\"mean\" in=\"@terms\" axis=\"dp\"/>\n"
                          "    <log in=\"@mean\"/>\n");
    if (chance(d, 30))
        dg_str_add(&d->s, "    <log id=\"own\" in=\"@base.total\" on=\"0\"/>\n");
    if (d->flag && chance(d, 15))
        dg_str_fmt(&d->s, "    <stop id=\"enough\" when=\"@%s\"/>\n", d->flag);
}

static void add_evaluations(draw *d)
{
    bool average = strstr(d->s.s, "<ema ") != NULL;
    int n = d->kind ? below(d, 3) : 0;

    for (int i = 0; i < n; i++)
        dg_str_fmt(&d->s,
                   "  <evaluate id=\"e%d\" every=\"%d steps\"%s>\n"
                   "    <loader.synthetic id=\"data\" images=\"9\" width=\"32\" height=\"32\" "
                   "classes=\"2\" max_objects=\"3\" seed=\"2\"/>\n"
                   "    <sampler.bucket id=\"pick\" in=\"@data\" batch=\"$batch\" sizes=\"%d\" "
                   "shuffle=\"false\" tail=\"pad\" axis=\"dp\"/>\n"
                   "    <batch id=\"b\" in=\"@pick\" max_objects=\"4\"/>\n"
                   "    <use id=\"out\" model=\"m\" images=\"@b.images\"/>\n"
                   "    <detect id=\"found\" in=\"@out\" most=\"20\"/>\n"
                   "    <evaluate.coco id=\"coco%d\" in=\"@found\" axis=\"dp\"/>\n"
                   "  </evaluate>\n",
                   i, 2 + 2 * i, average && chance(d, 50) ? " weights=\"@ema\"" : "",
                   d->kind < RTDETR ? 32 : 64, i);
    if (n && chance(d, 50))
        dg_str_add(&d->s, "  <checkpoint every=\"3 steps\" best=\"@coco0.AP\"/>\n");
}

/* The pipeline of a seed. */
static const char *drawn(dg_arena *a, int seed)
{
    draw d = { .state = (uint64_t)seed * 0x9e3779b97f4a7c15U };
    const char *text;

    for (int i = 0; i < 4; i++)
        (void)below(&d, 2);
    d.kind = chance(&d, 75) ? below(&d, 2) : RTDETR + below(&d, 3);
    d.accumulates = chance(&d, 25);
    dg_str_fmt(&d.s,
               "<pipeline version=\"1\" seed=\"%d\">\n  <let batch=\"6\" lr=\"1e-2\"/>\n"
               "  <mesh dp=\"ranks\"/>\n",
               seed);
    add_model(&d);
    dg_str_fmt(&d.s, "  <train steps=\"5\"%s>\n", d.accumulates ? " accumulate=\"2\"" : "");
    add_data(&d);
    add_flag(&d);
    add_loss(&d);
    add_update(&d);
    dg_str_add(&d.s, "  </train>\n");
    add_evaluations(&d);
    dg_str_add(&d.s, "</pipeline>\n");
    text = dg_strdup(a, d.s.s);
    dg_str_free(&d.s);
    return text;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Whether the proof, and not a run, refuses it: on every rank the same words, before a step. */
static bool is_refused(const outcome *o, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (o->status[r] == 0 || o->status[r] >= 128 || !strstr(o->said[r], "error[DG-"))
            return false;
    return o->n == 0;
}

/* What is wrong with the run on so many ranks; NULL: nothing. */
static const char *compare(toy *t, const outcome *one, const outcome *many, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (many->status[r] != 0)
            return dg_printf(t->arena, "rank %d of %d: status %d: %s", r, ranks, many->status[r],
                             many->said[r]);
    if (one->n != many->n || one->n == 0)
        return dg_printf(t->arena, "%d steps on one rank, %d on %d", one->n, many->n, ranks);
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < one->n; i++)
            if (!(fabs(one->loss[0][i] - many->loss[r][i]) <= 1e-9 * fabs(one->loss[0][i]) + 1e-12))
                return dg_printf(t->arena, "step %d: loss %.17g on one rank, %.17g on %d (rank %d)",
                                 i + 1, one->loss[0][i], many->loss[r][i], ranks, r);
    return NULL;
}

static bool agrees(toy *t, int seed, int *refused)
{
    const char *text = drawn(t->arena, seed), *wrong = NULL, *show = getenv("DG_SHOW");
    outcome one = { 0 };

    for (int ranks = 1; ranks <= MOST_RANKS && !wrong; ranks++) {
        outcome o = toy_ranks_run(t, (start){ .ranks = ranks,
                                              .out = dg_printf(t->arena, "%d-%d", seed, ranks),
                                              .global = IMAGES,
                                              .lr = "1e-3",
                                              .text = text });

        if (ranks == 1)
            one = o;
        if (ranks == 2 && is_refused(&o, ranks)) {
            ++*refused;
            if (show)
                printf("# seed %d: %s%s", seed, o.said[0], text);
            break;
        }
        wrong = compare(t, &one, &o, ranks);
    }
    if (wrong)
        printf("# seed %d: %s\n%s", seed, wrong, text);
    return !wrong;
}

static void as_one_rank(void **state)
{
    int refused = 0, failed = 0;

    for (int i = 0; i < n_pipelines; i++)
        failed += !agrees(*state, first_seed + i, &refused);
    print_message("# %d pipelines: %d refused, %d failed\n", n_pipelines, refused, failed);
    assert_int_equal(failed, 0);
    assert_true(refused * 4 <= n_pipelines); /* else the draw has lost its way */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_one_rank, toy_set_up, toy_tear_down),
    };
    int status;

    if (toy_rank_main(argc, argv, &status))
        return status;
    n_pipelines = argc > 1 ? atoi(argv[1]) : COUNT;
    first_seed = argc > 2 ? atoi(argv[2]) : 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
