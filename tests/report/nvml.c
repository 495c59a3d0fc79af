/* nvml.c: stands in for NVIDIA's management library. $NVML_LINKS has the links, each as the buses
 * of a GPU and of what it leads to: "1b-1c 1b-1c 1b-ff 1c-1b". A link to 00 is not active. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2 };

#define EXPORT __attribute__((visibility("default")))

typedef struct pci {
    char old_id[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
} pci;

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlShutdown(void);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
EXPORT int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active);
EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci *to);

int nvmlInit_v2(void)
{
    return SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

/* A device is the place of its bus here. */
static char devices[256];

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
    unsigned domain, number;

    if (sscanf(bus, "%x:%x", &domain, &number) != 2 || number >= sizeof devices)
        return INVALID_ARGUMENT;
    *device = &devices[number];
    return SUCCESS;
}

/* What the link leads to; -1: there is no such link. */
static int remote(void *device, unsigned link)
{
    const char *at = getenv("NVML_LINKS");
    unsigned from, to;
    int n;

    for (; at && sscanf(at, " %x-%x%n", &from, &to, &n) == 2; at += n)
        if (from == (unsigned)((char *)device - devices) && link-- == 0)
            return (int)to;
    return -1;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *active)
{
    const int to = remote(device, link);

    *active = to > 0;
    return to < 0 ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci *to)
{
    *to = (pci){ .bus = (unsigned)remote(device, link) };
    snprintf(to->bus_id, sizeof to->bus_id, "%08X:%02X:%02X.0", to->domain, to->bus, to->device);
    return SUCCESS;
}
