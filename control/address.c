/* address.c: see address.h. */
#include "control/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/str.h"

/* A socket can be bound to this machine's addresses only. Port 0: any that is free. */
static bool is_ours(struct sockaddr_in at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ours;

    at.sin_port = 0;
    ours =
        fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 || errno != EADDRNOTAVAIL;
    if (fd >= 0)
        close(fd);
    return ours;
}

int dg_address_read(dg_address *out, const char *coordinator, dg_arena *a, dg_diag *d)
{
    const struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM };
    const char *colon = strrchr(coordinator, ':');
    struct addrinfo *known;
    struct sockaddr_in at;
    int64_t port = 0;

    if (!colon || colon == coordinator || !dg_parse_i64(colon + 1, &port) || port < 1 ||
        port > 65534)
        return dg_fail(d, DG_EINPUT, DG_NOWHERE, "coordinator-form",
                       "--coordinator %s: HOST:PORT is expected", coordinator);
    *out = (dg_address){ .host = dg_strndup(a, coordinator, (size_t)(colon - coordinator)),
                         .port = (int)port };
    if (getaddrinfo(out->host, NULL, &hints, &known) != 0)
        return dg_fail(d, DG_EIO, DG_NOWHERE, "coordinator-unknown",
                       "--coordinator %s: this name is not known here", coordinator);
    memcpy(&at, known->ai_addr, sizeof at);
    freeaddrinfo(known);
    inet_ntop(AF_INET, &at.sin_addr, out->number, sizeof out->number);
    out->names_itself =
        ntohl(at.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET && strcmp(out->number, out->host) != 0;
    out->ours = !out->names_itself && is_ours(at);
    return 0;
}

/* Connecting a datagram socket sends nothing but selects the local address. */
bool dg_address_towards(const char *coordinator, char *out, size_t n)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
    struct sockaddr_storage own;
    struct addrinfo *list = NULL;
    socklen_t len = sizeof own;
    const char *colon = strrchr(coordinator, ':');
    char name[256];
    bool found = false;

    if (!colon)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(colon - coordinator), coordinator);
    if (getaddrinfo(name, colon + 1, &hints, &list) != 0)
        return false;
    for (struct addrinfo *a = list; a && !found; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

        found = fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
                getnameinfo((struct sockaddr *)&own, len, out, (socklen_t)n, NULL, 0,
                            NI_NUMERICHOST) == 0;
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(list);
    return found;
}
