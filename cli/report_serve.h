/* report_serve.h: `report --serve`: the report of runs as a page that follows them. */
#ifndef DG_CLI_REPORT_SERVE_H
#define DG_CLI_REPORT_SERVE_H

#include <detrgraph/core.h>

/* Serves until a signal comes. address: as in dg_http_conf. */
int dg_report_serve(const char *const *folders, int n, const char *address, int port, dg_diag *d)
    DG_MUST_USE;

extern const char *const dg_report_script[]; /* live.js; NULL-terminated */

#endif
