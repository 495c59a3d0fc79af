/* entrance.h: the file OUT/control by which `detrgraph ctl` finds a running job and may enter it: only its owner can
 * read it. */
#ifndef DG_RUNTIME_ENTRANCE_H
#define DG_RUNTIME_ENTRANCE_H

#include "base/arena.h"
#include "base/str.h"

typedef struct dg_entrance {
    const char *endpoint, *server_public, *own_public, *own_secret;
    int64_t     process; /* the launcher's */
} dg_entrance;

int  dg_entrance_write(const char *folder, const dg_entrance *e, dg_diag *d) DG_MUST_USE;
int  dg_entrance_read(const char *folder, dg_entrance *e, dg_arena *a, dg_diag *d) DG_MUST_USE;
void dg_entrance_remove(const char *folder);

/* Asks the job: status, save, stop, or set with text "lr=1e-4". The answer is appended; *done: it was understood. */
int dg_entrance_ask(const dg_entrance *e, const char *verb, const char *text, double most_s, bool *done, dg_str *answer,
                    dg_diag *d) DG_MUST_USE;

#endif
