/* fixture.c: opens the preset that a fixture names, gives it the formula's weights, and feeds it
 * the fixture's batch. */
#include "tests/parity/fixture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/parity/formula.h"

static void control(void *ctx, dg_control *c)
{
    fixture *f = ctx;

    f->n_own = c->n_groups;
    for (int i = 0; i < c->n_groups; i++) {
        f->own_lr[i] = c->lr[i];
        if (i < f->n_groups)
            c->lr[i] = f->lr[i];
        else if (f->rate > 0)
            c->lr[i] *= f->rate;
    }
}

static void log_line(void *ctx, int level, const char *line)
{
    const fixture *f = ctx;

    if (f->set->verbose || level > 1)
        fprintf(stderr, "# %s\n", line);
}

static int64_t integer(const dg_json *o, const char *key, int64_t otherwise)
{
    const dg_json *v = dg_json_get(o, key);

    return v && v->kind == DG_JSON_NUMBER ? (int64_t)v->number : otherwise;
}

static int64_t most_objects(const dg_json *targets)
{
    int64_t most = 0;

    for (int i = 0; targets && i < targets->n; i++) {
        const dg_json *labels = dg_json_get(&targets->items[i], "labels");

        most = labels && labels->n > most ? labels->n : most;
    }
    return most;
}

static int64_t capacity_for_targets(const dg_json *root)
{
    const dg_json *batches = dg_json_get(root, "batch_targets");
    int64_t most = most_objects(dg_json_get(root, "targets"));

    for (int i = 0; batches && i < batches->n; i++) {
        int64_t n = most_objects(&batches->items[i]);

        most = n > most ? n : most;
    }
    return most > 100 ? most : 100;
}

/* Queries: as the fixture says, or as many as it lists. */
static int64_t count_queries(const dg_json *root)
{
    const dg_json *tokens = dg_json_get(root, "enc_topk_indices");

    return integer(root, "num_queries", tokens && tokens->n ? tokens->items[0].n : 300);
}

/* The preset that a fixture names: RT-DETR's by a word, RF-DETR's by its attributes. */
static int find_preset(fixture *f, const char **name, dg_diag *d)
{
    const dg_json *preset = dg_json_get(f->root, "preset"), *own;
    int rc = 0;

    if (!preset || preset->kind != DG_JSON_OBJECT) {
        DG_TRY(dg_json_need(&preset, f->root, "preset", DG_JSON_STRING, d));
        *name = preset->text;
        return 0;
    }
    DG_TRY(dg_json_need(&own, preset, "preset", DG_JSON_STRING, d));
    char *file = dg_printf(f->arena, "rfdetr_%s", own->text);
    for (char *c = file; *c; c++) /* "large-deprecated" */
        if (*c == '-')
            *c = '_';
    *name = file;
    f->n_queries = integer(preset, "num_queries", f->n_queries);
    f->normalized = true;
out:
    return rc;
}

/* What Co-DETR's fixtures change of the recipe, by the name of their setting and of the pipeline's.
 */
static const struct {
    const char *theirs, *ours;
} named_settings[] = {
    { "num_query", "queries" },
    { "num_dn_queries", "dn" },
    { "nms_pre", "nms_pre" },
    { "max_per_img", "proposals" },
    { "rpn_num", "rpn_samples" },
    { "roi_num", "roi_samples" },
    { "roi_finest_scale", "roi_finest" },
    { "max_pos_coords", "positives" },
    { "eval_max_per_img", "detections" },
    { "soft_nms_iou", "soft_nms" },
};
enum { N_SETTINGS = sizeof named_settings / sizeof *named_settings, TRUNK_SETTINGS = 2 };

/* The depth of the backbone: the number behind "_r" in "co_dino_5scale_r101". */
static int codetr_depth(const char *preset)
{
    for (const char *p = strstr(preset, "_r"); p; p = strstr(p + 2, "_r"))
        if (p[2] >= '1' && p[2] <= '9')
            return atoi(p + 2);
    return 50;
}

/* Fills sets with those of a Co-DETR fixture; returns their number. */
static int codetr_sets(const fixture *f, const char *preset, const char *sets[])
{
    const dg_json *given = dg_json_get(f->root, "settings");
    int n = 0, most = f->set->parts ? TRUNK_SETTINGS : N_SETTINGS;

    sets[n++] = dg_printf(f->arena, "classes=%lld", (long long)f->classes);
    sets[n++] = dg_printf(f->arena, "batch=%lld", (long long)f->batch);
    sets[n++] = dg_printf(f->arena, "max_objects=%lld", (long long)capacity_for_targets(f->root));
    sets[n++] = dg_printf(f->arena, "depth=%d", codetr_depth(preset));
    sets[n++] = "normalize=false";
    for (int i = 0; i < most; i++) {
        const dg_json *v = dg_json_get(given, named_settings[i].theirs);

        if (v)
            sets[n++] = dg_printf(f->arena, "%s=%.17g", named_settings[i].ours, v->number);
        if (v && strcmp(named_settings[i].theirs, "roi_num") == 0) /* a quarter */
            sets[n++] = dg_printf(f->arena, "roi_positives=%lld", (long long)v->number / 4);
    }
    return n;
}

/* "NAME_dsp" is NAME with discrete sampling. */
static int open_run(fixture *f, const char *preset)
{
    static const char *const names[] = { [F32] = "f32", [F64] = "f64", [BF16] = "bf16" };
    size_t n = strlen(preset);
    bool discrete = n > 4 && strcmp(preset + n - 4, "_dsp") == 0;
    const char *sets[6 + N_SETTINGS];
    dg_run_options o = {
        .size = sizeof o,
        .file = dg_printf(f->arena, "%s/%.*s_coco.xml", f->set->pipelines,
                          (int)(discrete ? n - 4 : n), preset),
        .n_sets = f->normalized ? 6
                  : discrete    ? 5
                                : 4,
        .sets = sets,
        .precision = names[f->set->precision],
        .threads = f->set->threads,
        .reference = f->set->reference,
        .device = f->set->reference ? NULL : getenv("DETRGRAPH_DEVICE"),
        .feed_draws = true,
        .no_pretrained = true,
        .keep_named = true,
        .log = log_line,
        .log_ctx = f,
        .control = control,
        .control_ctx = f,
    };

    if (f->codetr) {
        o.file = dg_printf(f->arena, "%s/%s_r50_coco.xml", f->set->pipelines,
                           f->set->parts ? "dino" : "codino");
        o.n_sets = codetr_sets(f, preset, sets);
        return dg_run_open(&f->run, &o, f->d);
    }
    sets[0] = dg_printf(f->arena, "classes=%lld", (long long)f->classes);
    sets[1] = dg_printf(f->arena, "batch=%lld", (long long)f->batch);
    sets[2] = dg_printf(f->arena, "max_objects=%lld", (long long)capacity_for_targets(f->root));
    sets[3] = dg_printf(f->arena, "queries=%lld", (long long)f->n_queries);
    sets[4] = discrete ? "method=discrete" : "normalize=false";
    sets[5] =
        dg_printf(f->arena, "accumulate=%lld", (long long)integer(f->root, "grad_accum_steps", 1));
    return dg_run_open(&f->run, &o, f->d);
}

static int set_weights(fixture *f)
{
    int rc = 0;

    for (int i = 0; i < dg_run_n_params(f->run) && !rc; i++) {
        dg_run_param p = dg_run_param_at(f->run, i);
        int64_t n = dg_shape_elements(p.shape);
        double *v = malloc((size_t)n * sizeof *v);

        if (!v)
            return dg_fail(f->d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for %s",
                           p.name);
        formula_fill(p.name, p.shape, v);
        rc = dg_run_set(f->run, DG_RUN_WEIGHTS, p.name, v, n, f->d);
        free(v);
    }
    return rc ? rc : dg_run_reset_ema(f->run, f->d);
}

/* What is read below without a second look. */
static int need_parts(const dg_json *root, const char *mode, dg_diag *d)
{
    static const struct {
        const char *mode, *key;
        dg_json_kind kind;
    } parts[] = {
        { "train_step", "targets", DG_JSON_ARRAY },
        { "train_step", "num_boxes", DG_JSON_NUMBER },
        { "train_step", "optimizer", DG_JSON_OBJECT },
        { "train_step", "ema", DG_JSON_OBJECT },
        { "train_step", "losses", DG_JSON_OBJECT },
        { "train_step", "total_loss", DG_JSON_NUMBER },
        { "train_step", "grad_norm", DG_JSON_NUMBER },
        { "train_step", "enc_topk_indices", DG_JSON_ARRAY },
        { "train_step", "matches", DG_JSON_OBJECT },
        { "train_step", "param_grads", DG_JSON_OBJECT },
        { "train_step", "params_after", DG_JSON_OBJECT },
        { "eval", "enc_topk_indices", DG_JSON_ARRAY },
        { "eval", "detections", DG_JSON_ARRAY },
        { "eval", "orig_sizes_wh", DG_JSON_ARRAY },
        { "trace", "batch_targets", DG_JSON_ARRAY },
        { "trace", "optimizer", DG_JSON_OBJECT },
        { "trace", "steps", DG_JSON_ARRAY },
    };
    static const char others[] = "num_boxes ema orig_sizes_wh"; /* not in Co-DETR's */
    bool codetr = dg_json_get(root, "image_sizes_hw") != NULL;
    const dg_json *found;
    int rc = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc; i++)
        if (strcmp(parts[i].mode, mode) == 0 && !(codetr && strstr(others, parts[i].key)))
            rc = dg_json_need(&found, root, parts[i].key, parts[i].kind, d);
    return rc;
}

int fixture_open(fixture *f, const settings *set, const char *file, dg_diag *d)
{
    const dg_json *format, *mode;
    const char *preset;
    int rc = 0;

    *f = (fixture){ .set = set, .arena = dg_arena_open(), .report = report_open(), .d = d };
    DG_TRY(dg_json_read(&f->root, f->arena, file, d));
    DG_TRY(dg_json_need(&format, f->root, "format", DG_JSON_STRING, d));
    if (strcmp(format->text, "detrgraph-parity-1") != 0)
        return dg_fail(d, DG_EINPUT, format->at, "fixture-format",
                       "format is \"%s\", expected \"detrgraph-parity-1\"", format->text);
    DG_TRY(dg_json_need(&mode, f->root, "mode", DG_JSON_STRING, d));
    DG_TRY(need_parts(f->root, mode->text, d));
    f->codetr = dg_json_get(f->root, "image_sizes_hw") != NULL;
    f->batch = integer(f->root, "B",
                       f->codetr ? dg_json_get(f->root, "image_sizes_hw")->items[0].n
                                 : integer(f->root, "micro_batch", 1));
    f->h = integer(f->root, "H", 0);
    f->w = integer(f->root, "W", 0);
    f->classes = integer(f->root, "num_classes", 80);
    f->n_queries = count_queries(f->root);
    DG_TRY(find_preset(f, &preset, d));
    DG_TRY(open_run(f, preset));
    DG_TRY(set_weights(f));
out:
    return rc;
}

void fixture_close(fixture *f)
{
    dg_run_close(&f->run);
    dg_arena_close(&f->arena);
    report_close(&f->report);
}

double fixture_bound(const fixture *f, double f64, double f32)
{
    return f->set->precision == F64 ? f64 : f->set->precision == F32 ? f32 : -1;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

const dg_json *fixture_images(const fixture *f)
{
    const dg_json *one = dg_json_get(f->root, "image_name");

    return one ? one : dg_json_get(f->root, "image_names");
}

/* [B,h,w,3] of the formula; NULL: no memory. */
static double *draw_images(const fixture *f, const dg_json *names)
{
    int64_t n = f->batch * f->h * f->w * 3, area = f->h * f->w;
    bool each = names && names->kind == DG_JSON_ARRAY;
    double *v = malloc((size_t)n * sizeof *v);

    for (int64_t b = 0; v && b < f->batch; b++)
        for (int64_t c = 0; c < 3; c++)
            for (int64_t i = 0; i < area; i++) {
                const char *name = each ? names->items[b].text : names ? names->text : "images";

                v[(b * area + i) * 3 + c] =
                    (double)formula_draw(name, ((each ? 0 : b) * 3 + c) * area + i);
            }
    return v;
}

static int feed_images(fixture *f, double *v, int64_t n)
{
    int rc = v ? dg_run_feed(f->run, "b.images", v, n, f->d)
               : dg_fail(f->d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for images");

    free(v);
    return rc;
}

int fixture_feed_images(fixture *f, const dg_json *names)
{
    return feed_images(f, draw_images(f, names), f->batch * f->h * f->w * 3);
}

int fixture_feed_resized(fixture *f, const dg_json *names, int64_t side)
{
    double *from = draw_images(f, names), *to;

    if (side == f->h && side == f->w)
        return feed_images(f, from, f->batch * side * side * 3);
    to = from ? malloc((size_t)(f->batch * side * side * 3) * sizeof *to) : NULL;
    if (to)
        formula_resize(from, f->batch, f->h, f->w, to, side, side);
    free(from);
    return feed_images(f, to, f->batch * side * side * 3);
}

static int64_t input_size(const fixture *f, const char *name)
{
    for (int i = 0; i < dg_run_n_inputs(f->run); i++)
        if (strcmp(dg_run_input_at(f->run, i).name, name) == 0)
            return dg_shape_elements(dg_run_input_at(f->run, i).shape);
    return 0;
}

int fixture_feed_targets(fixture *f, const dg_json *targets)
{
    int64_t slots = input_size(f, "b.targets.labels") / f->batch;
    int32_t *labels = DG_NEW_N(f->arena, f->batch * slots, int32_t),
            *count = DG_NEW_N(f->arena, f->batch, int32_t);
    double *boxes = DG_NEW_N(f->arena, f->batch * slots * 4, double);
    int rc = 0;

    for (int64_t b = 0; b < f->batch; b++) {
        const dg_json *l = dg_json_get(&targets->items[b], "labels"),
                      *x = dg_json_get(&targets->items[b], "boxes");

        count[b] = l->n;
        for (int j = 0; j < l->n; j++) {
            labels[b * slots + j] = (int32_t)l->items[j].number;
            for (int k = 0; k < 4; k++)
                boxes[(b * slots + j) * 4 + k] = x->items[j].items[k].number;
        }
    }
    DG_TRY(dg_run_feed(f->run, "b.targets.labels", labels, f->batch * slots, f->d));
    DG_TRY(dg_run_feed(f->run, "b.targets.boxes", boxes, f->batch * slots * 4, f->d));
    DG_TRY(dg_run_feed(f->run, "b.targets.count", count, f->batch, f->d));
out:
    return rc;
}

static const char *draw_input(const fixture *f, const char *tail)
{
    for (int i = 0; i < dg_run_n_inputs(f->run); i++) {
        const char *name = dg_run_input_at(f->run, i).name, *slash = strrchr(name, '/');

        if (slash && strcmp(slash + 1, tail) == 0)
            return name;
    }
    return tail;
}

/* The boxes that the reference really used: the formula's, rounded to single precision. */
static int feed_boxes(fixture *f, const dg_json *denoising)
{
    const dg_json *images = dg_json_get(denoising, "per_image");
    double *v = DG_NEW_N(f->arena, f->batch * f->capacity * 4, double);

    for (int64_t b = 0; b < f->batch; b++) {
        const dg_json *boxes = dg_json_get(&images->items[b], "boxes");

        for (int64_t i = 0; i < f->n_dn * 4; i++)
            v[b * f->capacity * 4 + i] = (double)(float)boxes->items[i / 4].items[i % 4].number;
    }
    return dg_run_feed(f->run, draw_input(f, "boxes"), v, f->batch * f->capacity * 4, f->d);
}

int fixture_feed_draws(fixture *f, const dg_json *denoising, bool boxes)
{
    static const char *const tails[] = { "label_mask", "new_label", "sign", "mag" };
    const dg_json *names = dg_json_get(denoising, "draw_names");
    double *draws[4];
    int rc = 0;

    f->n_dn = integer(denoising, "n_dn", 0);
    f->capacity = input_size(f, draw_input(f, "label_mask")) / f->batch;
    for (int i = 0; i < 4; i++) {
        int64_t per = i < 2 ? 1 : 4;

        draws[i] = DG_NEW_N(f->arena, f->batch * f->capacity * per, double);
        for (int64_t b = 0; b < f->batch; b++)
            for (int64_t q = 0; q < f->n_dn * per; q++)
                draws[i][b * f->capacity * per + q] =
                    (double)formula_draw(names->items[i].text, b * f->n_dn * per + q);
    }
    for (int i = 0; i < 4; i++)
        DG_TRY(dg_run_feed(f->run, draw_input(f, tails[i]), draws[i],
                           f->batch * f->capacity * (i < 2 ? 1 : 4), f->d));
    if (boxes)
        DG_TRY(feed_boxes(f, denoising));
out:
    return rc;
}
