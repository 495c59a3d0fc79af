/* signals.h: calls a function on SIGINT, SIGTERM, SIGUSR1 and SIGHUP, from a separate thread. Open
 * before creating any computing thread. */
#ifndef DG_CLI_SIGNALS_H
#define DG_CLI_SIGNALS_H

typedef struct dg_signals dg_signals;
/* NULL: signals keep their default action */
dg_signals *dg_signals_open(void (*came)(void *ctx), void *ctx);
void dg_signals_close(dg_signals **s);

#endif
