/* weight_names.c: parameter names in checkpoints of the PyTorch reference (lyuwenyu/RT-DETR),
 * versions 1 and 2, and of Hugging Face transformers (models rt_detr, rt_detr_v2 and dinov2),
 * and of torchvision (Swin).
 *
 * A row is two patterns: ours, which is the reference's of version 2, and theirs. In both
 *     #        matches a number, the same on both sides, in order
 *     @        matches the number of a decoder layer
 *     *        at the end matches the rest of the name
 *     {q,k,v}  (theirs) divides axis 0 into equal pieces, one per name, in this order
 * The first matching row counts. A following row with the same pattern of ours gives a further
 * name: it is read if the first is missing, and never written. Theirs NULL: they do not store this
 * tensor. */
#include "weights/weight_names.h"

#include <string.h>

#include "base/str.h"

typedef struct row {
    const char *ours, *theirs;
} row;

struct dg_weight_names {
    const char *name, *brief;
    const row *rows;
};

static const row as_it_is[] = { { "*", "*" }, { 0 } };

static const row version1[] = {
    { "encoder.input_proj.#.conv.*", "encoder.input_proj.#.0.*" },
    { "encoder.input_proj.#.norm.*", "encoder.input_proj.#.1.*" },
    { "decoder.enc_output.proj.*", "decoder.enc_output.0.*" },
    { "decoder.enc_output.norm.*", "decoder.enc_output.1.*" },
    { "decoder.anchors", NULL },
    { "decoder.valid_mask", NULL },
    { "decoder.decoder.layers.@.cross_attn.num_points_scale", NULL },
    { "*", "*" },
    { 0 },
};

#define STAGE "model.backbone.model.encoder.stages.#.layers.#."
#define LAYER "decoder.decoder.layers.@."
static const row hugging_face[] = {
    { "backbone.conv1.conv1_1.conv.*", "model.backbone.model.embedder.embedder.0.convolution.*" },
    { "backbone.conv1.conv1_1.norm.*", "model.backbone.model.embedder.embedder.0.normalization.*" },
    { "backbone.conv1.conv1_2.conv.*", "model.backbone.model.embedder.embedder.1.convolution.*" },
    { "backbone.conv1.conv1_2.norm.*", "model.backbone.model.embedder.embedder.1.normalization.*" },
    { "backbone.conv1.conv1_3.conv.*", "model.backbone.model.embedder.embedder.2.convolution.*" },
    { "backbone.conv1.conv1_3.norm.*", "model.backbone.model.embedder.embedder.2.normalization.*" },
    { "backbone.res_layers.#.blocks.#.branch2a.conv.*", STAGE "layer.0.convolution.*" },
    { "backbone.res_layers.#.blocks.#.branch2a.norm.*", STAGE "layer.0.normalization.*" },
    { "backbone.res_layers.#.blocks.#.branch2b.conv.*", STAGE "layer.1.convolution.*" },
    { "backbone.res_layers.#.blocks.#.branch2b.norm.*", STAGE "layer.1.normalization.*" },
    { "backbone.res_layers.#.blocks.#.branch2c.conv.*", STAGE "layer.2.convolution.*" },
    { "backbone.res_layers.#.blocks.#.branch2c.norm.*", STAGE "layer.2.normalization.*" },
    { "backbone.res_layers.#.blocks.#.short.conv.conv.*", STAGE "shortcut.1.convolution.*" },
    { "backbone.res_layers.#.blocks.#.short.conv.norm.*", STAGE "shortcut.1.normalization.*" },
    { "backbone.res_layers.#.blocks.#.short.conv.*", STAGE "shortcut.convolution.*" },
    { "backbone.res_layers.#.blocks.#.short.norm.*", STAGE "shortcut.normalization.*" },
    { "encoder.input_proj.#.conv.*", "model.encoder_input_proj.#.0.*" },
    { "encoder.input_proj.#.norm.*", "model.encoder_input_proj.#.1.*" },
    { "encoder.encoder.#.layers.#.self_attn.in_proj_weight",
      "model.encoder.encoder.#.layers.#.self_attn.{q,k,v}_proj.weight" },
    { "encoder.encoder.#.layers.#.self_attn.in_proj_bias",
      "model.encoder.encoder.#.layers.#.self_attn.{q,k,v}_proj.bias" },
    { "encoder.encoder.#.layers.#.linear1.*", "model.encoder.encoder.#.layers.#.fc1.*" },
    { "encoder.encoder.#.layers.#.linear2.*", "model.encoder.encoder.#.layers.#.fc2.*" },
    { "encoder.encoder.#.layers.#.norm1.*",
      "model.encoder.encoder.#.layers.#.self_attn_layer_norm.*" },
    { "encoder.encoder.#.layers.#.norm2.*", "model.encoder.encoder.#.layers.#.final_layer_norm.*" },
    { "encoder.*", "model.encoder.*" },
    { "decoder.input_proj.#.conv.*", "model.decoder_input_proj.#.0.*" },
    { "decoder.input_proj.#.norm.*", "model.decoder_input_proj.#.1.*" },
    { LAYER "self_attn.in_proj_weight", "model.decoder.layers.@.self_attn.{q,k,v}_proj.weight" },
    { LAYER "self_attn.in_proj_bias", "model.decoder.layers.@.self_attn.{q,k,v}_proj.bias" },
    { LAYER "linear1.*", "model.decoder.layers.@.fc1.*" },
    { LAYER "linear2.*", "model.decoder.layers.@.fc2.*" },
    { LAYER "norm1.*", "model.decoder.layers.@.self_attn_layer_norm.*" },
    { LAYER "norm2.*", "model.decoder.layers.@.encoder_attn_layer_norm.*" },
    { LAYER "norm3.*", "model.decoder.layers.@.final_layer_norm.*" },
    { LAYER "cross_attn.num_points_scale", "model.decoder.layers.@.encoder_attn.n_points_scale" },
    { LAYER "cross_attn.*", "model.decoder.layers.@.encoder_attn.*" },
    { LAYER "*", "model.decoder.layers.@.*" },
    { "decoder.dec_score_head.@.*", "model.decoder.class_embed.@.*" },
    { "decoder.dec_score_head.@.*", "class_embed.@.*" },
    { "decoder.dec_bbox_head.@.*", "model.decoder.bbox_embed.@.*" },
    { "decoder.dec_bbox_head.@.*", "bbox_embed.@.*" },
    { "decoder.query_pos_head.*", "model.decoder.query_pos_head.*" },
    { "decoder.enc_output.proj.*", "model.enc_output.0.*" },
    { "decoder.enc_output.norm.*", "model.enc_output.1.*" },
    { "decoder.tgt_embed.*", "model.weight_embedding.*" },
    { "decoder.anchors", NULL },
    { "decoder.valid_mask", NULL },
    { "decoder.*", "model.*" },
    { 0 },
};

/* Our names are those of RF-DETR's reference, which has this model at that place. */
#define VIT "backbone.0.encoder.encoder."
static const row hugging_face_dinov2[] = {
    { VIT "embeddings.*", "embeddings.*" },
    { VIT "encoder.layer.#.*", "encoder.layer.#.*" },
    { VIT "layernorm.*", "layernorm.*" },
    { 0 },
};

/* Stages and what merges their tokens in one list; Swin is the only one of torchvision's models
 * whose names are known here. */
#define SWIN_STAGE(ours, theirs)                                                            \
    { "backbone.layers." ours ".blocks.#.mlp.fc1.*", "features." theirs ".#.mlp.0.*" },     \
        { "backbone.layers." ours ".blocks.#.mlp.fc2.*", "features." theirs ".#.mlp.3.*" }, \
        { "backbone.layers." ours ".blocks.#.*", "features." theirs ".#.*" }
static const row torchvision_swin[] = {
    { "backbone.patch_embed.proj.*", "features.0.0.*" },
    { "backbone.patch_embed.norm.*", "features.0.2.*" },
    SWIN_STAGE("0", "1"),
    SWIN_STAGE("1", "3"),
    SWIN_STAGE("2", "5"),
    SWIN_STAGE("3", "7"),
    { "backbone.layers.0.downsample.*", "features.2.*" },
    { "backbone.layers.1.downsample.*", "features.4.*" },
    { "backbone.layers.2.downsample.*", "features.6.*" },
    { 0 },
};

static const dg_weight_names reference = { "reference", "names of no known reference", as_it_is },
                             reference_v1 = { "reference-v1",
                                              "the names of RT-DETR's PyTorch reference, version 1",
                                              version1 },
                             hf = { "hf", "the names of Hugging Face transformers", hugging_face },
                             dinov2 = { "dinov2", "the names of transformers' Dinov2, a backbone",
                                        hugging_face_dinov2 },
                             torchvision = { "torchvision",
                                             "the names of torchvision's Swin, a backbone",
                                             torchvision_swin };

const dg_weight_names *const dg_weight_names_all[] = { &reference, &reference_v1, &hf,
                                                       &dinov2,    &torchvision,  NULL };

const dg_weight_names *dg_weight_names_find(const char *name)
{
    for (int i = 0; dg_weight_names_all[i]; i++)
        if (strcmp(dg_weight_names_all[i]->name, name) == 0)
            return dg_weight_names_all[i];
    return NULL;
}

const char *dg_weight_names_name(const dg_weight_names *l)
{
    return l->name;
}

/* Prefixes of models that were wrapped when saved. */
static const char *const wrappers[] = { "module.", "_orig_mod." }; /* DataParallel, torch.compile */

static const char *unwrapped(const char *name)
{
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++) {
        size_t n = strlen(wrappers[i]);

        if (strncmp(name, wrappers[i], n) == 0)
            return unwrapped(name + n);
    }
    return name;
}

/* Models by the names that only they have, of version 2 or as their reference stores them. */
static const struct {
    const char *begin, *brief;
} references[] = {
    { "query_head.", "the names of Co-DETR's reference" },
    { "rpn_head.", "the names of Co-DETR's reference" },
    { "backbone.0.", "the names of RF-DETR's reference" },
    { "decoder.dec_score_head.", "the names of RT-DETRv2's PyTorch reference" },
    { "encoder.input_proj.", "the names of RT-DETRv2's PyTorch reference" },
};

typedef const char *name_at(const void *of, int i);

static const char *brief_of(const dg_weight_names *l, name_at *name, const void *of, int n)
{
    if (l != &reference)
        return l->brief;
    for (size_t k = 0; k < sizeof references / sizeof *references; k++)
        for (int i = 0; i < n; i++)
            if (strncmp(unwrapped(name(of, i)), references[k].begin, strlen(references[k].begin)) ==
                0)
                return references[k].brief;
    return l->brief;
}

static const char *entry_at(const void *of, int i)
{
    return ((const dg_archive *)of)->entries[i].name;
}

static const char *param_at(const void *of, int i)
{
    return dg_params_at(of, i)->name;
}

const char *dg_weight_names_brief(const dg_weight_names *l, const dg_archive *a)
{
    return brief_of(l, entry_at, a, a->n);
}

const char *dg_weight_names_brief_of_params(const dg_weight_names *l, const dg_params *p)
{
    return brief_of(l, param_at, p, dg_params_n(p));
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* What the wildcards of a pattern matched. */
typedef struct match {
    int n, piece, n_pieces;
    int64_t layer; /* of the decoder; -1: none */
    struct {
        const char *s;
        size_t n;
    } v[DG_MOST_PIECES + 1];
} match;

/* Matches one letter of "{q,k,v}"; returns the pattern after it, or NULL. */
static const char *match_piece(const char *p, char c, match *m)
{
    bool found = false;

    for (m->n_pieces = 0; *p != '}'; p += 2) {
        if (p[1] == c) {
            m->piece = m->n_pieces;
            found = true;
        }
        m->n_pieces++;
    }
    return found ? p + 1 : NULL;
}

/* The number of these digits, saturated. */
static int64_t number(const char *s, size_t n)
{
    int64_t v = 0;

    for (size_t i = 0; i < n && v < INT32_MAX; i++)
        v = 10 * v + (s[i] - '0');
    return v;
}

static bool fits(const char *p, const char *name, match *m)
{
    *m = (match){ .n_pieces = 1, .layer = -1 };
    for (; *p; p++) {
        if (strchr("#@*", *p)) {
            size_t n = *p == '*' ? strlen(name) : strspn(name, "0123456789");

            if (!n)
                return false;
            if (*p == '@')
                m->layer = number(name, n);
            m->v[m->n].s = name;
            m->v[m->n++].n = n;
            name += n;
        } else if (*p == '{') {
            p = match_piece(p, *name++, m);
            if (!p)
                return false;
            p--;
        } else if (*p != *name++) {
            return false;
        }
    }
    return *name == '\0';
}

static const char *fill(const char *p, const match *m, int piece, dg_arena *a)
{
    dg_str out = { 0 };
    char *made;
    int k = 0;

    for (; *p; p++) {
        if (strchr("#@*", *p)) {
            dg_str_add_n(&out, m->v[k].s, m->v[k].n);
            k++;
        } else if (*p == '{') {
            dg_str_add_n(&out, p + 1 + 2 * piece, 1);
            p += strcspn(p, "}");
        } else {
            dg_str_add_n(&out, p, 1);
        }
    }
    made = dg_strdup(a, out.s);
    dg_str_free(&out);
    return made;
}

static int count_pieces(const char *p)
{
    int n = 1;

    for (p += strcspn(p, "{"); *p && *p != '}'; p++)
        n += *p == ',';
    return n;
}

static bool same_ours(const row *r, const row *next)
{
    return next->ours && strcmp(r->ours, next->ours) == 0;
}

/* The row that matches their name; *second: it is not the tensor's first name. */
static const row *find_theirs(const dg_weight_names *l, const char *name, match *m, bool *second)
{
    for (const row *r = l->rows; r->ours; r++) {
        *second = r > l->rows && same_ours(r - 1, r);
        if (r->theirs && fits(r->theirs, name, m))
            return r;
    }
    *second = false;
    return NULL;
}

/* Our name, or the name unchanged if no row matches. */
static const char *to_ours(const dg_weight_names *l, const char *name, dg_arena *a)
{
    match m;
    bool second;
    const row *r = find_theirs(l, name, &m, &second);

    return r ? fill(r->ours, &m, 0, a) : name;
}

dg_spelling dg_weight_names_spell(const dg_weight_names *to, const dg_weight_names *from,
                                  const char *name, dg_arena *a)
{
    dg_spelling s = { .layer = -1 };
    const row *r = to->rows;
    const char *ours;
    match m;

    if (to == from)
        return (dg_spelling){ 1, { name }, -1 };
    ours = to_ours(from, name, a);
    while (r->ours && !fits(r->ours, ours, &m))
        r++;
    if (!r->ours)
        return s;
    s.layer = m.layer;
    s.n = r->theirs ? count_pieces(r->theirs) : 0;
    for (int i = 0; i < s.n; i++)
        s.names[i] = fill(r->theirs, &m, i, a);
    return s;
}

/* ---- recognising names ----------------------------------------------------------------------- */

/* True if a row that changes the name matches it. */
static bool renames(const dg_weight_names *l, const char *name)
{
    match m;
    bool second;
    const row *r = find_theirs(l, name, &m, &second);

    return r && strcmp(r->ours, r->theirs) != 0;
}

static const dg_weight_names *most(const int *n)
{
    int best = 0;

    for (int i = 1; dg_weight_names_all[i]; i++)
        if (n[i] > n[best])
            best = i;
    return dg_weight_names_all[best];
}

enum { N_DIALECTS = sizeof dg_weight_names_all / sizeof *dg_weight_names_all - 1 };

static void count(int *n, const char *name)
{
    for (int i = 0; i < N_DIALECTS; i++)
        n[i] += renames(dg_weight_names_all[i], unwrapped(name));
}

const dg_weight_names *dg_weight_names_of_archive(const dg_archive *a)
{
    int n[N_DIALECTS] = { 0 };

    for (int i = 0; i < a->n; i++)
        count(n, a->entries[i].name);
    return most(n);
}

const dg_weight_names *dg_weight_names_of_params(const dg_params *p)
{
    int n[N_DIALECTS] = { 0 };

    for (int i = 0; i < dg_params_n(p); i++)
        count(n, dg_params_at(p, i)->name);
    return most(n);
}

/* ---- archives -------------------------------------------------------------------------------- */

/* The pieces of one tensor found so far. */
typedef struct pieces {
    int n, found;
    const dg_entry *v[DG_MOST_PIECES];
} pieces;

static bool alike(const pieces *p)
{
    for (int i = 1; i < p->n; i++)
        if (p->v[i]->type != p->v[0]->type || !dg_shape_equal(p->v[i]->shape, p->v[0]->shape))
            return false;
    return p->v[0]->shape.rank > 0;
}

static int join(dg_archive *a, const pieces *p, dg_entry *out, dg_diag *d)
{
    size_t bytes = (size_t)p->v[0]->n * dg_stored_size(p->v[0]->type);
    uint8_t *to = dg_archive_hold(a, (size_t)p->n * bytes);

    if (!to)
        return dg_archive_no_memory(a, p->v[0]->name, d);
    *out = *p->v[0];
    out->shape.d[0] *= p->n;
    out->n *= p->n;
    out->strides = NULL;
    out->data = to;
    for (int i = 0; i < p->n; i++)
        dg_entry_copy(p->v[i], to + (size_t)i * bytes);
    return 0;
}

typedef struct translation {
    dg_archive *a;
    const dg_weight_names *from, *to;
    dg_entry *entries;
    int n;
    dg_map *by_name, *waiting; /* -> entries; -> pieces by our name */
} translation;

static void add(translation *t, dg_entry e, const char *name)
{
    e.name = name;
    if (dg_map_has(t->by_name, name))
        return;
    t->entries[t->n] = e;
    dg_map_set(t->by_name, name, &t->entries[t->n++]);
}

/* Notes a piece; true once all pieces of its tensor are there. */
static bool collect_piece(translation *t, const char *ours, const match *m, const dg_entry *e,
                          pieces **out)
{
    pieces *p = dg_map_get(t->waiting, ours);

    if (!p) {
        p = DG_NEW(t->a->arena, pieces);
        p->n = m->n_pieces;
        dg_map_set(t->waiting, ours, p);
    }
    p->v[m->piece] = e;
    *out = p;
    return ++p->found == p->n;
}

/* Translates one entry; a piece waits for the others. Further names come in a second pass, and
 * count only if the first name was missing. */
static int take_entry(translation *t, const dg_entry *e, bool others, dg_diag *d)
{
    const char *name = unwrapped(e->name);
    match m;
    bool second = false;
    const row *r = find_theirs(t->from, name, &m, &second);
    const char *ours = r ? fill(r->ours, &m, 0, t->a->arena) : name;
    dg_spelling s = dg_weight_names_spell(t->to, dg_weight_names_all[0], ours, t->a->arena);
    dg_entry whole = *e;
    pieces *p;
    int rc = 0;

    if (second != others || !s.n)
        return 0;
    if (r && m.n_pieces > 1) {
        if (!collect_piece(t, ours, &m, e, &p))
            return 0;
        if (!alike(p))
            return dg_fail(
                d, DG_EINPUT, (dg_where){ .file = t->a->file }, "weights-pieces",
                "%s and its sisters are the pieces of one tensor, and differ in shape or type",
                e->name);
        rc = join(t->a, p, &whole, d);
    }
    if (rc == 0)
        add(t, whole, s.names[0]);
    return rc;
}

/* Keeps the pieces of incomplete tensors under their own names. */
static void add_incomplete(translation *t)
{
    for (int i = 0; i < dg_map_n(t->waiting); i++) {
        const pieces *p = dg_map_value(t->waiting, i);

        for (int k = 0; k < p->n && p->found < p->n; k++)
            if (p->v[k])
                add(t, *p->v[k], p->v[k]->name);
    }
}

static bool any_wrapped(const dg_archive *a)
{
    for (int i = 0; i < a->n; i++)
        if (unwrapped(a->entries[i].name) != a->entries[i].name)
            return true;
    return false;
}

int dg_archive_translate(dg_archive *a, const dg_weight_names *to, dg_diag *d)
{
    translation t = { .a = a, .from = dg_weight_names_of_archive(a), .to = to };
    int rc = 0;

    if (t.from == to && !any_wrapped(a))
        return 0;
    t.by_name = dg_map_new(a->arena);
    t.waiting = dg_map_new(a->arena);
    t.entries = DG_NEW_N(a->arena, a->n + 1, dg_entry);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < a->n; i++)
            DG_TRY(take_entry(&t, &a->entries[i], pass == 1, d));
    add_incomplete(&t);
    a->entries = t.entries;
    a->by_name = t.by_name;
    a->n = t.n;
out:
    return rc;
}
