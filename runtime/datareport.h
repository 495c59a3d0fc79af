/* datareport.h: what stands in a data set, said before the run begins. */
#ifndef DG_RUNTIME_DATAREPORT_H
#define DG_RUNTIME_DATAREPORT_H

#include "base/log.h"
#include "graph/graph.h"

/* probe: look at the files (one rank of a machine does it for all). Logs images, objects, classes, empty images and faulty boxes (the first ten by name), and looks at the header of
 * every file on env->threads threads. An image with more objects than <batch> takes is an error; so are files that
 * cannot be read, unless the loader replaces them. */
int dg_data_report_log(const dg_env *env, const dg_scope *scope, const dg_chain *chain, dg_dataset *data,
                       bool probe, dg_diag *d) DG_MUST_USE;

#endif
