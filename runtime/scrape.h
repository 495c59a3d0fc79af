/* scrape.h: the numbers of a run in Prometheus' text format, at http://127.0.0.1:PORT/metrics, for this machine alone. A
 * thread of the library answers; the run puts the text. */
#ifndef DG_RUNTIME_SCRAPE_H
#define DG_RUNTIME_SCRAPE_H

#include "base/str.h"

typedef struct dg_scrape dg_scrape;

int  dg_scrape_open(dg_scrape **s, int port, dg_diag *d) DG_MUST_USE; /* port 0: any; dg_scrape_port tells */
void dg_scrape_close(dg_scrape **s);
int  dg_scrape_port(const dg_scrape *s);
/* What is said from now on; takes the text and empties it. */
void dg_scrape_put(dg_scrape *s, dg_str *text);

#endif
