/* gpu_info.h: this machine's NVIDIA GPUs, as the driver and PCI show them, and what connects
 * them. */
#ifndef DG_REPORT_GPU_INFO_H
#define DG_REPORT_GPU_INFO_H

#include "base/arena.h"

/* Numbers that are not known are -1, texts NULL. */
typedef struct dg_gpu {
    const char *bus; /* its place on PCI: "0000:1b:00.0" */
    const char *model;
    const char *path;          /* from a PCIe root down: "/pci0000:1a/0000:1a:01.0/0000:1b:00.0" */
    const char *speed;         /* of a lane; less while the GPU is idle: "32.0 GT/s PCIe" */
    int64_t lanes, most_lanes; /* PCIe's, in use and possible */
    int64_t node;              /* of memory (NUMA) */
} dg_gpu;

/* What data from one GPU to another goes through, the shortest way first. */
typedef enum dg_gpu_way {
    DG_GPU_NVLINK,
    DG_GPU_NVSWITCH,
    DG_GPU_PCIE_SWITCH, /* one or several below a port of the processor */
    DG_GPU_PCIE_ROOT,   /* several ports of one root */
    DG_GPU_PROCESSOR,   /* several roots of one processor */
    DG_GPU_PROCESSORS,  /* the link between processors; also where the nodes are not known */
} dg_gpu_way;

typedef struct dg_gpu_link {
    dg_gpu_way way;
    int n; /* NVLinks; 0 on PCIe */
} dg_gpu_link;

typedef struct dg_gpus {
    int n;
    dg_gpu *at;         /* by their places; CUDA may number them otherwise */
    dg_gpu_link *links; /* from i to k: [i * n + k] */
} dg_gpus;

/* root: a folder in the place of "/"; "" for this machine. nvml: name or path of NVIDIA's
 * management library, which knows NVLinks; without it none is seen. */
void dg_gpus_find(dg_gpus *g, const char *root, const char *nvml, dg_arena *a);
/* "NVIDIA H100, 0000:1b:00.0, 16 lanes of 32.0 GT/s PCIe, memory node 0" */
const char *dg_gpu_text(const dg_gpu *gpu, dg_arena *a);
/* True if each pair has a link of the same kind. */
bool dg_gpus_alike(const dg_gpus *g);
/* "by 18 NVLinks and a switch" */
const char *dg_gpu_link_text(dg_gpu_link link, dg_arena *a);
/* GPU i's links, those of one kind together: "by 4 NVLinks to 1, 2, 3; across processors to 4, 5"
 */
const char *dg_gpu_links_text(const dg_gpus *g, int i, dg_arena *a);

#endif
