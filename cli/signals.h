/* signals.h: SIGINT, SIGTERM, SIGUSR1 and SIGHUP as calls from a thread of their own. To be opened before any thread that
 * computes. */
#ifndef DG_CLI_SIGNALS_H
#define DG_CLI_SIGNALS_H

typedef struct dg_signals dg_signals;
dg_signals *dg_signals_open(void (*came)(void *ctx), void *ctx); /* NULL: signals act as usual */
void        dg_signals_close(dg_signals **s);

#endif
