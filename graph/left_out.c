/* left_out.c: words that the language does not have on purpose, with the reason and the way out.
 * docs/decisions/left-out.md says more. */
#include "graph/load.h"

#include <string.h>

#include "graph/edit.h"

typedef struct left_out {
    const char *element;     /* that has the word; NULL: any node; of an element itself: its name */
    const char *word, *only; /* an attribute, and its only value that is left out; NULL: all */
    const char *id, *why;
} left_out;

static const char alone[] = "a rank that leaves out its batch alone leaves the others waiting for "
                            "it, or with other weights: all stop, or all vote";

static const left_out words[] = {
    { "mesh", "order", NULL, "DG-ORDER",
      "all ranks launch their collectives in the order of the document, in one list for all axes" },
    { "mesh", "devices", NULL, "DG-DEVICE", "all ranks compute on the device that --device names" },
    { "mesh", "share_gpu", NULL, "DG-DEVICE",
      "all ranks compute on the device that --device names" },
    { "train", "capture", NULL, "DG-ORDER",
      "a step is launched instruction by instruction, on all ranks alike" },
    { "train", "on_fail", "skip", "DG-FAIL", alone },
    { NULL, "on_fail", "skip", "DG-FAIL", alone },
    { NULL, "device", NULL, "DG-DEVICE",
      "a node computes where its inputs are: a whole run is on the device that --device names" },
};

bool dg_load_left_out(dg_loader *l, const dg_item *item, const dg_item_attr *a)
{
    const bool part = strcmp(item->name, "mesh") == 0 || strcmp(item->name, "train") == 0 ||
                      strcmp(item->name, "evaluate") == 0;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const left_out *w = &words[i];

        if (strcmp(w->word, a->name) != 0 || (w->only && strcmp(w->only, a->value) != 0) ||
            (w->element ? strcmp(w->element, item->name) != 0 : part))
            continue;
        dg_load_error(&l->report, item->frame, a->at, w->id, "<%s> has no %s%s%s%s: %s", item->name,
                      a->name, w->only ? "=\"" : "", w->only ? w->only : "", w->only ? "\"" : "",
                      w->why);
        dg_load_error_help(&l->report, "%s", dg_edit_drop_part(l->g, item, a->name));
        return true;
    }
    return false;
}

bool dg_load_left_out_element(dg_loader *l, const dg_item *item)
{
    if (strcmp(item->name, "loop") != 0)
        return false;
    dg_load_error(&l->report, item->frame, item->at, "element-unknown",
                  "there is no <loop>: the nodes of a step take place once, in document order");
    dg_load_error_note(&l->report, item->at,
                       "<stack> repeats layers that follow each other, accumulate=\"3\" in <train> "
                       "repeats batches");
    dg_load_error_help(&l->report, "its nodes take place once: %s", dg_edit_unwrap(l->g, item));
    l->report.holes = true; /* ids inside are not read */
    return true;
}
