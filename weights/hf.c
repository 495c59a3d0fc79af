/* hf.c: folders in transformers' format: writes ours, compares others' with the pipeline. */
#include "weights/hf.h"

#include <math.h>
#include <string.h>

#include "base/dir.h"
#include "base/file.h"
#include "media/json.h"
#include "weights/class_names.h"
#include "weights/hf_internal.h"
#include "weights/weights.h"

/* ---- folders of others ----------------------------------------------------------------------- */

/* Settings that change the boxes but no tensor's shape. */
static const char *const decisive[] = {
    "activation_function",
    "batch_norm_eps",
    "decoder_activation_function",
    "decoder_attention_heads",
    "decoder_layers",
    "decoder_method",
    "decoder_n_points",
    "decoder_offset_scale",
    "encode_proj_layers",
    "encoder_activation_function",
    "encoder_attention_heads",
    "encoder_layers",
    "feat_strides",
    "layer_norm_eps",
    "learn_initial_query",
    "normalize_before",
    "num_queries",
    /* in config.json; the following are in preprocessor_config.json */
    "positional_encoding_temperature",
    "do_normalize",
    "do_rescale",
    "do_resize",
    "resample",
    "rescale_factor",
    "size",
};

static const dg_json *item(const dg_json *v, int i, const dg_json *like)
{
    return v->kind == DG_JSON_OBJECT ? dg_json_get(v, like->items[i].key) : &v->items[i];
}

static bool same(const dg_json *x, const dg_json *y)
{
    if (!y || x->kind != y->kind || x->n != y->n)
        return false;
    for (int i = 0; i < x->n; i++)
        if (!same(&x->items[i], item(y, i, x)))
            return false;
    return x->kind == DG_JSON_NUMBER   ? fabs(x->number - y->number) <= 1e-6 * fabs(x->number)
           : x->kind == DG_JSON_STRING ? strcmp(x->text, y->text) == 0
                                       : x->truth == y->truth;
}

static void add_value(dg_str *s, const dg_json *v)
{
    if (v->kind == DG_JSON_NUMBER)
        dg_str_fmt(s, "%.9g", v->number);
    else if (v->kind == DG_JSON_STRING)
        dg_str_add(s, v->text);
    else if (v->kind == DG_JSON_BOOL)
        dg_str_add(s, v->truth ? "true" : "false");
    else
        dg_str_add(s, v->n ? "" : "nothing");
    for (int i = 0; i < v->n; i++) {
        dg_str_add(s, i ? " " : "");
        add_value(s, &v->items[i]);
    }
}

/* Warns where a file of theirs differs from what we would write. */
static int compare(const dg_hf_model *m, const char *file,
                   void (*add)(dg_str *, const dg_hf_model *), dg_diag *d)
{
    const dg_json *ours, *theirs;
    dg_str text = { 0 }, said = { 0 };
    int rc = 0;

    if (!dg_exists(file))
        return 0;
    add(&text, m);
    DG_TRY(dg_json_parse(&ours, m->arena, text.s, text.n, file, d));
    DG_TRY(dg_json_read(&theirs, m->arena, file, d));
    for (size_t i = 0; i < sizeof decisive / sizeof *decisive; i++) {
        const dg_json *x = dg_json_get(ours, decisive[i]), *y = dg_json_get(theirs, decisive[i]);

        if (!x || !y || same(x, y))
            continue;
        dg_str_fmt(&said, "%s%s ", said.n ? ", " : "", decisive[i]);
        add_value(&said, y);
        dg_str_add(&said, " (here ");
        add_value(&said, x);
        dg_str_add(&said, ")");
    }
    if (said.n)
        dg_warn(d, (dg_where){ .file = file }, "hf-config",
                "the weights are of another model or for other images: %s", said.s);
out:
    dg_str_free(&text);
    dg_str_free(&said);
    return rc;
}

int dg_hf_check(const dg_graph *graph, const char *folder, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_hf_model m;
    /* what transformers cannot express does not matter for reading */
    dg_diag *own = dg_diag_open();
    bool comparable = dg_hf_describe(&m, graph, a, own) == 0;
    int rc = 0;

    dg_diag_close(&own);
    if (!comparable)
        goto out;
    DG_TRY(compare(&m, dg_path_join(a, folder, "config.json"), dg_hf_config, d));
    DG_TRY(compare(&m, dg_path_join(a, folder, "preprocessor_config.json"), dg_hf_preprocessor, d));
out:
    dg_arena_close(&a);
    return rc;
}

/* ---- writing a folder ------------------------------------------------------------------------ */

static int write_text(const dg_hf_model *m, const char *folder, const char *name,
                      void (*add)(dg_str *, const dg_hf_model *), dg_diag *d)
{
    dg_str s = { 0 };
    int rc;

    add(&s, m);
    rc = dg_file_write(dg_path_join(m->arena, folder, name), s.s, s.n, d);
    dg_str_free(&s);
    return rc;
}

/* Refuses folders of runs and checkpoints. Their model.safetensors cannot be recreated, so
 * dg_dir_begin's advice to remove the folder would be wrong. */
static int refuse_trained(const char *folder, dg_arena *a, dg_diag *d)
{
    if (!dg_exists(dg_path_join(a, folder, "metrics.jsonl")) &&
        !dg_exists(dg_path_join(a, folder, "state.json")))
        return 0;
    dg_fail(d, DG_EINPUT, (dg_where){ .file = folder }, "hf-trained",
            "this is the folder of a run or a checkpoint: model.safetensors would take the place "
            "of its own");
    dg_help(d, "name another folder");
    return -DG_EINPUT;
}

int dg_hf_write(const dg_graph *graph, const dg_store *store, dg_space space, const char *folder,
                dg_diag *d)
{
    static const char *const meta[] = { "format", "pt", NULL };
    dg_arena *a = dg_arena_open();
    dg_hf_model m;
    dg_export how = { .to = dg_weight_names_find("hf"), .meta = meta };
    char *partial = NULL;
    int rc;

    DG_TRY(refuse_trained(folder, a, d));
    DG_TRY(dg_hf_describe(&m, graph, a, d));
    how.n_layers = m.n_layers;
    m.names = dg_class_names(&m.n_names, m.graph, dg_hf_scope(m.graph), m.arena);
    if (!m.names)
        dg_warn(d, dg_hf_scope(m.graph)->where, "hf-names",
                "its data cannot be opened: classes are called LABEL_0, LABEL_1, ...");
    DG_TRY(dg_dir_begin(&partial, a, folder, d));
    DG_TRY(dg_weights_export(store, space, dg_path_join(a, partial, "model.safetensors"), &how, d));
    DG_TRY(write_text(&m, partial, "preprocessor_config.json", dg_hf_preprocessor, d));
    DG_TRY(write_text(&m, partial, "config.json", dg_hf_config, d));
    DG_TRY(dg_dir_commit(partial, folder, d));
out:
    if (rc < 0 && partial)
        dg_dir_remove(partial);
    dg_arena_close(&a);
    return rc;
}
