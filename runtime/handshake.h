/* handshake.h: facts that must agree before the first step: versions, precision, graph, data,
 * parameters. */
#ifndef DG_RUNTIME_HANDSHAKE_H
#define DG_RUNTIME_HANDSHAKE_H

#include "control/facts.h"
#include "runtime/data.h"
#include "runtime/programs.h"

/* Facts about the pipeline, once read, and the data, once opened, in order of importance. A value
 * may end in a newline and the position of its node, which is not compared. */
dg_rows dg_facts_of_pipeline(const dg_pipeline *p, const dg_programs *g, dg_arena *a);
dg_rows dg_facts_of_data(const dg_data_sets *sets, const dg_data *train,
                         const dg_identity *identity, const dg_progress *at, dg_arena *a);

#endif
