/* rows.c: see rows.h. The reference truncates its tables of queries without a look at the groups;
 * for evaluation, which uses the first group alone, that is the same. */
#include "weights/rows.h"

#include <stdio.h>
#include <string.h>

enum { COCO_OUTPUTS = 91, COCO_CLASSES = 80 };

/* Numbers of COCO's categories. */
static const uint8_t categories[COCO_CLASSES] = {
    1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 27, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
    46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65,
    67, 70, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 84, 85, 86, 87, 88, 89, 90,
};

static bool is_class_head(const char *name)
{
    static const char selection[] = "transformer.enc_out_class_embed.";

    return strncmp(name, "class_embed.", 12) == 0 ||
           strncmp(name, selection, sizeof selection - 1) == 0;
}

/* A head of one score for each class, apart from the others: no softmax, no ground. */
static bool is_score_head(const char *name)
{
    return strstr(name, "score_head.") || strstr(name, "cls_branches.") ||
           strstr(name, "atss_cls.");
}

static bool is_query_table(const char *name)
{
    return strcmp(name, "refpoint_embed.weight") == 0 || strcmp(name, "query_feat.weight") == 0;
}

static int64_t groups_of(const dg_archive *a)
{
    char name[64];
    int64_t n = 0;

    do
        snprintf(name, sizeof name, "transformer.enc_output.%lld.weight", (long long)n);
    while (dg_archive_find(a, name) && ++n < 1000);
    return n;
}

static bool same_columns(const dg_entry *e, const dg_param_info *p)
{
    if (e->shape.rank != p->shape.rank || e->shape.rank < 1 || e->shape.d[0] < 1)
        return false;
    for (int i = 1; i < e->shape.rank; i++)
        if (e->shape.d[i] != p->shape.d[i])
            return false;
    return e->shape.d[0] != p->shape.d[0];
}

dg_rows_kind dg_rows_of(const dg_archive *a, const dg_entry *e, const dg_param_info *p,
                        int64_t *rows)
{
    int64_t theirs = e->shape.d[0], ours = p->shape.d[0], groups = groups_of(a);

    if (!same_columns(e, p))
        return DG_ROWS_AS_STORED;
    if (!groups && is_score_head(p->name)) {
        for (int64_t i = 0; i < ours; i++)
            rows[i] = DG_ROW_MEAN;
        return DG_ROWS_MEAN;
    }
    if (!groups)
        return DG_ROWS_AS_STORED;
    if (is_class_head(p->name)) {
        bool coco = theirs == COCO_OUTPUTS && ours == COCO_CLASSES;

        for (int64_t i = 0; i < ours; i++)
            rows[i] = coco ? categories[i] : i % theirs;
        return coco ? DG_ROWS_COCO : DG_ROWS_TILED;
    }
    if (!is_query_table(p->name) || ours > theirs || ours % groups || theirs % groups)
        return DG_ROWS_AS_STORED;
    for (int64_t i = 0; i < ours; i++)
        rows[i] = i / (ours / groups) * (theirs / groups) + i % (ours / groups);
    return DG_ROWS_QUERIES;
}

const char *dg_rows_name(dg_rows_kind kind)
{
    static const char *const names[] = {
        [DG_ROWS_AS_STORED] = "all rows",
        [DG_ROWS_COCO] = "the rows of COCO's 80 categories among its 91 numbers",
        [DG_ROWS_QUERIES] = "the first queries of each group",
        [DG_ROWS_TILED] = "rows of other classes, one after another, as the reference does",
        [DG_ROWS_MEAN] = "their mean, for every class",
    };

    return names[kind];
}
