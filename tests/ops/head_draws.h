/* head_draws.h: the random keys of Co-DETR's other heads: the draw of a node, and its name in the
 * fixtures, where ".B" follows for image B. */
#ifndef DG_TESTS_OPS_HEAD_DRAWS_H
#define DG_TESTS_OPS_HEAD_DRAWS_H

static const struct {
    const char *ours, *theirs;
} head_draws[] = {
    { "rpn/pos", "rpn.pos" },         { "rpn/neg", "rpn.neg" },
    { "roi/pos", "roi.pos" },         { "roi/neg", "roi.neg" },
    { "roi/query_pos", "aux0.pos" },  { "roi/query_neg", "aux0.neg" },
    { "atss/query_pos", "aux1.pos" }, { "atss/query_neg", "aux1.neg" },
};
enum { N_HEAD_DRAWS = sizeof head_draws / sizeof *head_draws };

#endif
