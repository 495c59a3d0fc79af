/* keyfile.h: the file with the secrets of a run on several machines: the coordinator's and the ranks', a line each. */
#ifndef DG_RUNTIME_KEYFILE_H
#define DG_RUNTIME_KEYFILE_H

#include "runtime/socket.h"

/* A new file for its owner alone to read, to be copied to every machine. One that is there is not overwritten. */
int dg_key_file_make(const char *path, dg_diag *d) DG_MUST_USE;
int dg_key_file_read(const char *path, dg_key_pair *server, dg_key_pair *ranks, dg_diag *d) DG_MUST_USE;

#endif
