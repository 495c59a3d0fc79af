/* family.h: what the nodes augment.NAME share: attributes, the class's common parts, and changes of
 * a sample: image, boxes and, where the loader reads them, masks. */
#ifndef DG_NODES_AUGMENT_FAMILY_H
#define DG_NODES_AUGMENT_FAMILY_H

#include <detrgraph/node.h>

extern const dg_port dg_augment_ports[], dg_augment_further_ports[];
extern const dg_rule dg_augment_rules[];

/* When a change happens: members and attributes for a conf struct. */
#define DG_AUGMENT_FIELDS \
    double p;             \
    dg_when until;        \
    int64_t seed
#define DG_AUGMENT_SEED(conf)                                                                   \
    DG_ENUM(conf, seed, 0, "sample|rank|shared",                                                \
            "random numbers depend on the sample's number in the run, differ per rank, or are " \
            "equal on all ranks")
#define DG_AUGMENT_ATTRS(conf, chance)            \
    DG_NUM(conf, p, chance, 0, 1, "probability"), \
        DG_WHEN(conf, until, NULL, "skipped from this moment on"), DG_AUGMENT_SEED(conf)
/* The other members of a class, whose file has attrs, check and item. */
#define DG_AUGMENT_CLASS(conf, its_ports)                                                  \
    DG_NODE_CLASS, .role = DG_ROLE_AUGMENT, .ports = its_ports, .rules = dg_augment_rules, \
        .attrs = attrs, .conf_size = sizeof(conf), .check = check, .item = item
/* Draws whether this sample is changed. */
#define DG_AUGMENT_ON(c, r, clock) dg_augment_on((c)->p, &(c)->until, r, clock)
bool dg_augment_on(double p, const dg_when *until, dg_draw *r, const dg_clock *clock);
/* Refuses until="... min": changes must depend only on the sample's place in the run, not on
 * wall-clock time. step: a child element, or NULL. */
void dg_augment_check(dg_check *k, const dg_when *until, const char *step);

/* ---- samples --------------------------------------------------------------------------------- */

/* Masks of the objects; NULL: the data has none, or a loader of an older version made the sample.
 */
dg_mask *dg_augment_masks(const dg_sample *sm);
/* The same sample with lists of its own, which have room for `more` objects. */
int dg_augment_copy(dg_sample *out, const dg_sample *sm, int more, dg_diag *d) DG_MUST_USE;
/* The same sample with an image of one gray and without objects. */
int dg_augment_canvas(dg_sample *out, const dg_sample *sm, int w, int h, uint8_t gray, dg_diag *d)
    DG_MUST_USE;
/* Says that the upper left w x h pixels are the image, and the rest is filling; 0: all is the
 * image.
 */
void dg_augment_part(dg_sample *sm, int w, int h);
/* Lays part over sm with its upper left corner at (x, y), which may be outside: its pixels with a
 * weight of 0 to DG_AUGMENT_WHOLE, and its objects behind sm's. Boxes may reach outside. */
enum { DG_AUGMENT_WHOLE = 1 << 16 };
int dg_augment_lay(dg_sample *sm, const dg_sample *part, int x, int y, int64_t weight, dg_diag *d)
    DG_MUST_USE;
/* Resizes to a longer side, in the image's own proportions; no side becomes 0. */
int dg_augment_fit(dg_sample *sm, double longer, dg_diag *d) DG_MUST_USE;
/* Cuts boxes to the image; drops objects of which less than a share `least` is left, or less than a
 * pixel. */
void dg_augment_trim(dg_sample *sm, double least);
/* Crops, and keeps what is left of every box, whether its centre is inside or not. */
int dg_augment_crop(dg_sample *sm, int x, int y, int w, int h, dg_diag *d) DG_MUST_USE;
/* True if the batch takes a sample of n objects. */
bool dg_augment_takes(const dg_sample *sm, int n);

/* A part of an image. on: its pixels, 1 or 0; NULL: all of them. */
typedef struct dg_patch {
    int x, y, w, h;
    const uint8_t *on;
} dg_patch;
/* The share of object i that a patch covers: of its mask in its box, if it has one, else of its
 * box. */
double dg_augment_covered(const dg_sample *sm, int i, const dg_patch *patch);
/* Takes the patch's pixels out of all masks. */
void dg_augment_unmask(dg_sample *sm, const dg_patch *patch);
/* Removes object i. */
void dg_augment_drop(dg_sample *sm, int i);

#endif
