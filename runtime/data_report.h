/* data_report.h: reports the contents of a run's data: logs them at the start, and keeps them in
 * the run's folder. */
#ifndef DG_RUNTIME_DATA_REPORT_H
#define DG_RUNTIME_DATA_REPORT_H

#include "runtime/data.h"

/* Logs images, objects, classes, empty images and faulty boxes (the first ten by name). probe: also
 * reads the header of every file on env->threads threads (one rank per machine does it for all),
 * and notes unreadable files in data->faults. An image with more objects than <batch> takes is an
 * error; so are unreadable files, unless the loader replaces them. */
int dg_data_report_log(const dg_env *env, dg_data *data, bool probe, dg_diag *d) DG_MUST_USE;

/* Writes a survey of a run's data, as `detrgraph data check` would, from the annotations in memory
 * and the noted faults; a split is a scope. JSON, whole or not at all. */
int dg_data_report_write(const char *path, const dg_data_sets *sets, int ranks, dg_diag *d)
    DG_MUST_USE;

#endif
