/* facts.h: compares the facts that ranks report before the first step. */
#ifndef DG_CONTROL_FACTS_H
#define DG_CONTROL_FACTS_H

#include "base/diag.h"
#include "control/message.h"

/* Name of the fact that a learning rate was set before the run was resumed; its value is the
 * rate. */
extern const char dg_fact_rate[];

/* Compares every rank with rank 0; the first difference is an error, DG-DIGEST or DG-DEVICE. A
 * value may end in a newline and the position of its node, which is printed but not compared. */
int dg_facts_compare(const dg_rows *facts, int ranks, const char *const *hosts, dg_diag *d)
    DG_MUST_USE;

#endif
