/* formula.c: the value formula of parity fixtures: FNV-1a of the name, SplitMix64 of the index,
 * rounded to f32. */
#include "tests/parity/formula.h"

#include <math.h>
#include <string.h>

static uint64_t hash(const char *name)
{
    uint64_t v = 0xcbf29ce484222325u;

    for (; *name; name++)
        v = (v ^ (unsigned char)*name) * 0x100000001b3u;
    return v;
}

static double unit(uint64_t h, int64_t i)
{
    uint64_t z = h + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z = z ^ (z >> 31);
    return (double)(z >> 11) * 0x1p-53;
}

double formula_u(const char *name, int64_t i)
{
    return unit(hash(name), i);
}

float formula_draw(const char *name, int64_t i)
{
    return (float)formula_u(name, i);
}

static bool ends(const char *name, const char *with)
{
    size_t n = strlen(name), m = strlen(with);

    return n >= m && strcmp(name + n - m, with) == 0;
}

/* Names of matrices that are smaller than others, or whose rows are vectors of their own (single).
 * No two families share a name whose value differs. */
static const struct {
    const char *has, *end;
    double gain;
    bool single;
} rules[] = {
    { "bbox_head", ".layers.2.weight", 0.1, false },
    { "bbox_embed", ".layers.2.weight", 0.1, false },
    { "reg_branches.", ".4.weight", 0.1, false },
    { "", "rpn_head.rpn_reg.weight", 0.25, false },
    { "", "sampling_offsets.weight", 0.25, false },
    { "query_head.", "label_embedding.weight", 1, true },
    { "query_head.", "query_embed.weight", 1, true },
    { "query_head.", "level_embeds", 1, true },
    { "", "denoising_class_embed.weight", 1, true },
    { "", "query_feat.weight", 1, true },
    { "", "cls_token", 0.25, true },
    { "", "position_embeddings", 0.25, true },
    { "", "refpoint_embed.weight", 0.5, false },
    { "", "segmentation_head.query_features_proj.weight", 0.1, false },
};
enum { N_RULES = sizeof rules / sizeof *rules };

static void fill_matrix(const char *name, dg_shape s, double *out)
{
    uint64_t h = hash(name);
    int64_t n = dg_shape_elements(s), row = n / s.d[0];
    int r = 0;

    while (r < N_RULES && !(strstr(name, rules[r].has) && ends(name, rules[r].end)))
        r++;
    double fan_in = r < N_RULES && rules[r].single ? 1 : (double)row;
    double scale = (r < N_RULES ? rules[r].gain : 1) * sqrt(3.0 / fan_in);

    for (int64_t i = 0; i < n; i++)
        out[i] = (double)(float)((2 * unit(h, i) - 1) * scale);
    for (int64_t i = n - row; ends(name, "denoising_class_embed.weight") && i < n; i++)
        out[i] = 0;
}

void formula_fill(const char *name, dg_shape s, double *out)
{
    uint64_t h = hash(name);
    bool bias = ends(name, "bias") || ends(name, "running_mean");
    double shift = strstr(name, "score_head") || strstr(name, "class_embed")     ? -2
                   : strstr(name, "cls_branches.") || strstr(name, ".atss_cls.") ? -4
                                                                                 : 0;

    if (s.rank >= 2) {
        fill_matrix(name, s, out);
        return;
    }
    for (int64_t i = 0; i < dg_shape_elements(s); i++)
        out[i] = (double)(float)(bias ? 0.2 * (unit(h, i) - 0.5) + shift : 0.5 + unit(h, i));
}

/* Where output i of n lies among `from` samples: between *low and *high, at *t. */
static void place(int64_t i, int64_t n, int64_t from, int64_t *low, int64_t *high, double *t)
{
    double at = fmax(((double)i + 0.5) * (double)from / (double)n - 0.5, 0);

    *low = (int64_t)at < from - 1 ? (int64_t)at : from - 1;
    *high = *low + 1 < from ? *low + 1 : *low;
    *t = at - (double)*low;
}

void formula_resize(const double *in, int64_t n, int64_t h, int64_t w, double *out, int64_t to_h,
                    int64_t to_w)
{
    for (int64_t i = 0; i < n * to_h * to_w; i++, out += 3) {
        const double *image = in + i / (to_h * to_w) * h * w * 3;
        int64_t y[2], x[2];
        double ty, tx;

        place(i / to_w % to_h, to_h, h, &y[0], &y[1], &ty);
        place(i % to_w, to_w, w, &x[0], &x[1], &tx);
        for (int c = 0; c < 3; c++) {
            const double *v = image + c;
            double up = v[(y[0] * w + x[0]) * 3] * (1 - tx) + v[(y[0] * w + x[1]) * 3] * tx;
            double down = v[(y[1] * w + x[0]) * 3] * (1 - tx) + v[(y[1] * w + x[1]) * 3] * tx;

            out[c] = up * (1 - ty) + down * ty;
        }
    }
}
