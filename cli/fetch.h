/* fetch.h: fetches a file over HTTP, continues where an earlier attempt was cut, and remembers its
 * checksum. */
#ifndef DG_CLI_FETCH_H
#define DG_CLI_FETCH_H

#include "weights/fetched.h"

/* Fetches url to the file `to`, which appears whole or not at all. What has arrived before a cut
 * is kept in TO.part, and continued if the server says that it is still the same file. TO.json
 * keeps address, size and SHA-256: a file that is there, or that comes again, is compared with
 * them. Processes that fetch the same file wait for each other. force: fetch anew, and believe
 * what comes. show: draw progress on standard error. Errors: "fetch-offline", "fetch-tls",
 * "fetch-status", "fetch-cut", "fetch-redirects", "fetch-damaged" (the file has changed on
 * disk), "fetch-differs" (the server gives another file than before), "fetch-page" (HTML came),
 * "fetch-empty", "fetch-url", "fetch-write", "fetch-unbuilt" (built without libcurl). */
int dg_fetch(dg_fetched *out, const char *url, const char *to, bool force, bool show, dg_diag *d)
    DG_MUST_USE;
/* An address as it may be printed and noted: without the name and password in it. */
const char *dg_fetch_named(dg_arena *a, const char *url);

#endif
