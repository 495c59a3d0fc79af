/* datareport.h: what stands in the data of a run: said before it begins, and kept in its folder. */
#ifndef DG_RUNTIME_DATAREPORT_H
#define DG_RUNTIME_DATAREPORT_H

#include "runtime/session.h"

/* probe: look at the files (one rank of a machine does it for all). Logs images, objects, classes, empty images and faulty
 * boxes (the first ten by name), and looks at the header of every file on env->threads threads; what cannot be read is noted
 * in data->faults. An image with more objects than <batch> takes is an error; so are files that cannot be read, unless the
 * loader replaces them. */
int dg_data_report_log(const dg_env *env, dg_data *data, bool probe, dg_diag *d) DG_MUST_USE;

/* All data of a run as `detrgraph data check` would tell of them, from their annotations in memory and the faults noted: a
 * split is a scope. JSON, whole or not at all. */
int dg_data_report_write(const char *path, const dg_run *run, dg_diag *d) DG_MUST_USE;

#endif
