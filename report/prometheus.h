/* prometheus.h: serves the run's numbers in Prometheus's text format at
 * http://127.0.0.1:PORT/metrics, reachable only from this machine. A thread of the library answers;
 * the run supplies the text. */
#ifndef DG_REPORT_PROMETHEUS_H
#define DG_REPORT_PROMETHEUS_H

#include "base/str.h"

typedef struct dg_prometheus dg_prometheus;

/* port 0: any free one; see dg_prometheus_port */
int dg_prometheus_open(dg_prometheus **s, int port, dg_diag *d) DG_MUST_USE;
void dg_prometheus_close(dg_prometheus **s);
int dg_prometheus_port(const dg_prometheus *s);
/* Replaces the served text; takes its contents and empties it. */
void dg_prometheus_put(dg_prometheus *s, dg_str *text);

#endif
