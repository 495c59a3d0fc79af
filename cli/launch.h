/* launch.h: ranks are started as processes of their own, a single one too: libgomp reads its environment when it is
 * loaded, and what it needs is not what people have set. And how signals reach a rank. */
#ifndef DG_CLI_LAUNCH_H
#define DG_CLI_LAUNCH_H

#include <detrgraph/core.h>

/* In the process that a person started: runs this command again as rank 0 with `threads` threads (0: all cores),
 * hands signals on to it, waits, leaves its exit code in *code and returns true. In the rank itself: false. */
bool dg_launch(int threads, int *code);

/* SIGINT, SIGTERM and SIGUSR1 are counted instead of killing; a second one ends the process at once with 130. To be
 * called before any thread is made. */
typedef struct dg_signals dg_signals;
dg_signals *dg_signals_open(void); /* NULL: signals act as usual */
int         dg_signals_count(const dg_signals *s);
void        dg_signals_close(dg_signals **s);

#endif
