/* standby.h: a scheduler that starts a process for each rank, as torchrun does. The first process
 * of a machine is the launcher, which starts all its ranks; the others stand by: they do nothing
 * until it ends, and end with its code. */
#ifndef DG_CLI_STANDBY_H
#define DG_CLI_STANDBY_H

#include <stdbool.h>

typedef struct dg_standby {
    const char *name; /* the same in all processes of a machine's job */
    int others;       /* processes beside the first one */
    bool first;       /* this is the first one */
} dg_standby;

/* In the first process, before it starts ranks. -1: it cannot be done; the reason was said. */
int dg_standby_open(const dg_standby *s);
/* Tells the others the exit code; fd: what open returned. */
void dg_standby_tell(const dg_standby *s, int fd, int code);
/* In another one: the exit code. Once it has found the first process, signals are left to that. */
int dg_standby_wait(const dg_standby *s);

#endif
