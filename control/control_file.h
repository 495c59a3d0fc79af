/* control_file.h: the file OUT/control, with which `detrgraph ctl` finds a running job and
 * authenticates. Only its owner can read it. */
#ifndef DG_CONTROL_CONTROL_FILE_H
#define DG_CONTROL_CONTROL_FILE_H

#include "base/arena.h"
#include "base/str.h"

typedef struct dg_control_file {
    const char *endpoint, *server_public, *own_public, *own_secret;
    int64_t process; /* the launcher's process id */
} dg_control_file;

int dg_control_file_write(const char *folder, const dg_control_file *e, dg_diag *d) DG_MUST_USE;
int dg_control_file_read(const char *folder, dg_control_file *e, dg_arena *a, dg_diag *d)
    DG_MUST_USE;
void dg_control_file_remove(const char *folder);
bool dg_control_file_exists(const char *folder);

/* Sends a request to the job: status, save, stop, or set with text "lr=1e-4". Appends the answer;
 * *done: the request was valid. */
int dg_control_file_ask(const dg_control_file *e, const char *verb, const char *text, double most_s,
                        bool *done, dg_str *answer, dg_diag *d) DG_MUST_USE;

#endif
