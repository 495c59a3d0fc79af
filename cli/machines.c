/* machines.c: connects ranks of several machines, with the control plane as rendezvous for Gloo. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "cli/launch.h"
#include "comm/gloo.h"
#include "control/address.h"

/* Stores bytes as hexadecimal text, because messages cannot contain arbitrary bytes. */
static int put_on_board(void *ctx, const char *key, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    dg_str text = { 0 };
    int rc;

    dg_str_add(&text, "");
    for (size_t i = 0; i < n; i++)
        dg_str_fmt(&text, "%02x", p[i]);
    rc = dg_link_put(ctx, key, text.s, NULL);
    dg_str_free(&text);
    return rc;
}

static int get_from_board(void *ctx, const char *key, double seconds, void **bytes, size_t *n)
{
    dg_arena *a = dg_arena_open();
    dg_diag *d = dg_diag_open();
    const char *text;
    int rc = dg_link_get(ctx, key, &text, a, seconds, d);

    *n = rc == 0 ? strlen(text) / 2 : 0;
    *bytes = rc == 0 ? malloc(*n + 1) : NULL;
    for (size_t i = 0; *bytes && i < *n; i++) {
        const char pair[] = { text[2 * i], text[2 * i + 1], '\0' };

        ((unsigned char *)*bytes)[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    dg_diag_close(&d);
    dg_arena_close(&a);
    return rc < 0 ? rc : *bytes ? 0 : -DG_EMEMORY;
}

int dg_machines_comm(dg_comm **comm, dg_link *link, const char *coordinator, int rank, int ranks,
                     dg_diag *d)
{
    const dg_rendezvous board = { link, put_on_board, get_from_board };
    char address[256];

    if (!dg_address_towards(coordinator, address, sizeof address))
        return dg_fail(d, DG_EIO, DG_NOWHERE, "coordinator-unknown",
                       "--coordinator %s: there is no way to it from here", coordinator);
    return dg_comm_gloo_open(comm, address, rank, ranks, &board, d);
}
