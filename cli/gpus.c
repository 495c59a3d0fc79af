/* gpus.c: see gpus.h. */
#include "cli/gpus.h"

#include <ctype.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "control/message.h"
#include "kernels/cuda/host/host.h"

/* "cuda", "cuda:WORD": not "cuda:1". */
static bool is_each_rank_s(const char *device)
{
    return device && strncmp(device, "cuda", 4) == 0 &&
           (device[4] == '\0' ||
            (device[4] == ':' && !isdigit((unsigned char)device[5]) && device[5] != '-'));
}

static bool count_gpus(const char *device, int *n)
{
    dg_diag *d = dg_diag_open();
    int rc = dg_cuda_count(n, device, d);

    if (rc < 0)
        dg_print_diag(d, NULL);
    dg_diag_close(&d);
    return rc == 0;
}

bool dg_gpus_fit(int64_t ranks, const char *device)
{
    int n = 0;

    if (ranks < 2 || !is_each_rank_s(device))
        return true;
    if (!count_gpus(device, &n))
        return false;
    if (ranks <= n)
        return true;
    dg_say_error("detrgraph run: --ranks %lld --device cuda: a rank takes a GPU, and there %s %d; "
                 "--ranks auto takes as many as there are, --device cuda:0 gives all ranks one\n",
                 (long long)ranks, n == 1 ? "is" : "are", n);
    return false;
}

bool dg_gpus_ranks(const char *ranks, const char *device, int64_t *n)
{
    int gpus = 0;

    *n = 1;
    if (!ranks)
        return true;
    if (strcmp(ranks, "auto") != 0) {
        if (dg_parse_i64(ranks, n) && *n >= 1 && *n <= DG_MAX_RANKS)
            return true;
        dg_say_error("detrgraph run: --ranks %s: a whole number from 1 to %d, or auto, is "
                     "expected\n",
                     ranks, DG_MAX_RANKS);
        return false;
    }
    if (!is_each_rank_s(device)) {
        dg_say_error(
            "detrgraph run: --ranks auto is a rank for each GPU: it needs --device cuda\n");
        return false;
    }
    if (!count_gpus(device, &gpus))
        return false;
    *n = gpus;
    return true;
}

const char *dg_gpus_device(const char *device, int local_rank, dg_arena *a)
{
    return is_each_rank_s(device) ? dg_printf(a, "cuda:%d%s%s", local_rank, device[4] ? "," : "",
                                              device[4] ? device + 5 : "")
                                  : device;
}
