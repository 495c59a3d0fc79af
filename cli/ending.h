/* ending.h: how a run ended, from what it left in its folder, and what continues it. */
#ifndef DG_CLI_ENDING_H
#define DG_CLI_ENDING_H

#include "base/str.h"

/* Appends a line about the state of the run in the folder and, unless it is complete, the command
 * that continues it. False, and nothing is appended, if no run has left anything there, if its last
 * words stand in its flight recorders (control/doctor.h), or if it is alive and was `asked` without
 * an answer. */
bool dg_ending_tell(dg_str *out, const char *folder, bool asked);

#endif
