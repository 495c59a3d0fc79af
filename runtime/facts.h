/* facts.h: what must agree before the first step: versions, precision, graph, data, parameters. */
#ifndef DG_RUNTIME_FACTS_H
#define DG_RUNTIME_FACTS_H

#include "runtime/message.h"
#include "runtime/session.h"

/* Of the pipeline once it is read, and of the data once they are open: in the order in which a difference is worth
 * telling. The position of a node stands after a newline in its value and is not compared. */
dg_rows dg_facts_of_pipeline(const dg_run *run, dg_arena *a);
dg_rows dg_facts_of_data(const dg_run *run, const dg_identity *identity, const dg_data *data, dg_arena *a);

/* The name of the fact that a learning rate was set before the run was resumed; its value is the rate. */
extern const char dg_fact_rate[];

/* Rank by rank against rank 0: the first difference is an error, DG-DIGEST or DG-DEVICE. */
int dg_facts_compare(const dg_rows *facts, int ranks, const char *const *hosts, dg_diag *d) DG_MUST_USE;

#endif
