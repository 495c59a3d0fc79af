/* fuzz_parts.h: what the files of the generator share: a model under construction. */
#ifndef DG_TESTS_INVARIANCE_FUZZ_PARTS_H
#define DG_TESTS_INVARIANCE_FUZZ_PARTS_H

#include "tests/invariance/fuzz_draw.h"

/* A wire that may be used, and what is believed of it. */
typedef struct fz_offer {
    fz_wire wire;
    int type;   /* FZ_T_INT, FZ_T_REAL, FZ_T_TENSOR, FZ_T_LABELS, FZ_T_RECORD */
    int family; /* tensors of one family have one shape */
    bool same, sure, steady, trained;
} fz_offer;

typedef struct fz_drawer {
    fz_model *m;
    fz_dice dice, *d;
    int scope, n_offers, n_losses, batch;
    fz_offer offers[FZ_NODES * 2];
    fz_wire losses[FZ_IN];
    bool steady;        /* image sizes are the same on all ranks */
    bool careful;       /* makes no mistakes before something is spoiled */
    bool alone;         /* one rank evaluates */
    bool filtered;      /* items without objects are left out */
    bool detector, net; /* what the model is, if there is one */
    int everywhere;     /* the mask of all axes */
} fz_drawer;

/* A mistake, by chance. */
static inline bool fz_slip(fz_drawer *w, int percent)
{
    return fz_chance(w->d, percent) && !w->careful;
}

fz_wire fz_wire_to(int node, int port);
int fz_last(const fz_drawer *w); /* the node added last */
/* to the scope; NULL: the model is full */
fz_node *fz_add_node(fz_drawer *w, int op);
void fz_draw_data(fz_drawer *w); /* from a loader to <batch> */
void fz_draw_source(fz_drawer *w);
void fz_draw_layer(fz_drawer *w);
void fz_draw_mean(fz_drawer *w, const fz_offer *in); /* a loss of it */
void fz_draw_body(fz_drawer *w, int n_nodes);        /* anything */
/* At times a guard; what is then no longer the same, or sure to be there. */
void fz_draw_guard(fz_drawer *w, fz_node *n, bool *same, bool *sure, int percent);
/* Makes a fault or two, if it comes to that (fuzz_spoil.c). */
void fz_spoil(fz_drawer *w);
/* Says what is so anyway: defaults. */
void fz_say_more(fz_drawer *w);

#endif
