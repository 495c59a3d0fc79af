/* address.h: addresses of machines: what --coordinator HOST:PORT names, where the coordinator
 * listens, and this machine's own address as others reach it. IPv4 for the coordinator. */
#ifndef DG_CONTROL_ADDRESS_H
#define DG_CONTROL_ADDRESS_H

#include <stddef.h>

#include "base/arena.h"
#include "base/diag.h"

typedef struct dg_address {
    const char *host; /* as given */
    int port;         /* commands; events use port + 1 */
    char number[16];  /* the host's address, such as 10.0.0.1 */
    /* `number` is one of this machine's addresses, and the coordinator listens on it only. False if
     * a gateway translates the address, or if the name resolves to the loopback (Debian's
     * 127.0.1.1), which does not tell how others reach this machine: then the coordinator listens
     * on all addresses. */
    bool ours;
    bool names_itself; /* the second case */
} dg_address;

/* Errors: coordinator-form, coordinator-unknown. */
int dg_address_read(dg_address *out, const char *coordinator, dg_arena *a, dg_diag *d) DG_MUST_USE;

/* Writes the address from which this machine reaches HOST:PORT to out; false if there is no
 * route. */
bool dg_address_towards(const char *coordinator, char *out, size_t n);

#endif
