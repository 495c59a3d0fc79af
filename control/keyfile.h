/* keyfile.h: the file with the secrets of a run on several machines: the coordinator's and the
 * ranks' keys, one per line. */
#ifndef DG_CONTROL_KEYFILE_H
#define DG_CONTROL_KEYFILE_H

#include "control/socket.h"

/* Creates the file, readable only by its owner, for copying to every machine. Does not overwrite an
 * existing one. */
int dg_key_file_make(const char *path, dg_diag *d) DG_MUST_USE;
int dg_key_file_read(const char *path, dg_key_pair *server, dg_key_pair *ranks, dg_diag *d)
    DG_MUST_USE;

#endif
