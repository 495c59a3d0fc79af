/* cluster.c: see cluster.h. A scheduler starts the same command once on each machine, or, torchrun,
 * once for each rank. */
#include "cli/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"

static bool number(const char *variable, int64_t *out)
{
    const char *text = getenv(variable);

    return text && dg_parse_i64(text, out) && *out >= 0;
}

/* "a[03-05,9],b" -> "a03" */
static const char *first_host(const char *list, dg_arena *a)
{
    size_t stem = strcspn(list, "[,");
    const char *from = list + stem + (list[stem] == '[');

    return dg_printf(a, "%.*s%.*s", (int)stem, list,
                     list[stem] == '[' ? (int)strcspn(from, ",-]") : 0, from);
}

/* The port is derived from the job's number; it is below 32768, where Linux begins to give ports to
 * programs that ask for any. */
static bool read_slurm(dg_launch_options *l, dg_arena *a)
{
    const char *list = getenv("SLURM_STEP_NODELIST");
    int64_t job = 0;

    if (!list || !number("SLURM_STEP_NUM_NODES", &l->nodes) || !number("SLURM_NODEID", &l->node) ||
        !number("SLURM_JOB_ID", &job)) {
        dg_say_error("detrgraph run: --nodes slurm: srun has to start this command, once on each "
                     "machine (--ntasks-per-node=1)\n");
        return false;
    }
    if (!l->coordinator)
        l->coordinator = dg_printf(a, "%s:%d", first_host(list, a), 20000 + (int)(job % 6000) * 2);
    return true;
}

/* Kubernetes' PyTorchJob counts pods. torchrun sets the same variables for each of its processes;
 * see below. */
static bool read_pytorchjob(dg_launch_options *l, dg_arena *a)
{
    const char *host = getenv("MASTER_ADDR");
    int64_t port = 0, local = 1;

    if (!host || !*host || !number("MASTER_PORT", &port) || !number("WORLD_SIZE", &l->nodes) ||
        !number("RANK", &l->node)) {
        dg_say_error("detrgraph run: --nodes pytorchjob: MASTER_ADDR, MASTER_PORT, WORLD_SIZE and "
                     "RANK have to be set, as a PyTorchJob sets them in each pod\n");
        return false;
    }
    if (number("LOCAL_WORLD_SIZE", &local) && local > 1) {
        dg_say_error("detrgraph run: --nodes pytorchjob: %lld processes were started on this "
                     "machine (LOCAL_WORLD_SIZE); start one on each and write --ranks %lld\n",
                     (long long)local, (long long)local);
        return false;
    }
    if (!l->coordinator)
        l->coordinator = dg_printf(a, "%s:%lld", host, (long long)port);
    return true;
}

static bool refuse_torchrun(const char *why)
{
    dg_say_error("detrgraph run: --nodes torchrun: %s\n", why);
    return false;
}

/* torchrun starts a process for each rank; those of a machine have one launcher, the first one's.
 * MASTER_PORT may be torchrun's own, so the coordinator's is another, below 32768, as for SLURM. */
static bool read_torchrun(dg_launch_options *l, dg_arena *a)
{
    const char *host = getenv("MASTER_ADDR"), *job = getenv("TORCHELASTIC_RUN_ID");
    int64_t port = 0, world = 0, rank = 0, local = 0, each = 0;

    if (!host || !*host || !number("MASTER_PORT", &port) || !number("WORLD_SIZE", &world) ||
        !number("RANK", &rank) || !number("LOCAL_RANK", &local) ||
        !number("LOCAL_WORLD_SIZE", &each))
        return refuse_torchrun("MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, LOCAL_WORLD_SIZE and "
                               "LOCAL_RANK have to be set, as torchrun sets them in each process");
    if (each < 1 || world % each || local >= each || rank >= world)
        return refuse_torchrun("WORLD_SIZE has to be a multiple of LOCAL_WORLD_SIZE, the same on "
                               "all machines, and RANK and LOCAL_RANK below them");
    if (l->ranks_given && l->ranks != each)
        return refuse_torchrun("--ranks is another number than LOCAL_WORLD_SIZE; leave it out");
    l->ranks = each;
    l->nodes = world / each;
    if (!number("GROUP_RANK", &l->node))
        l->node = rank / each;
    l->standby = (dg_standby){ .name = dg_printf(a, "%lld-%lld-%.40s", (long long)port,
                                                 (long long)l->node, job ? job : ""),
                               .others = (int)each - 1,
                               .first = local == 0 };
    if (!l->coordinator && l->nodes > 1)
        l->coordinator = dg_printf(a, "%s:%d", host, 20000 + (int)(port % 6000) * 2);
    return true;
}

static const struct {
    const char *name;
    bool (*read)(dg_launch_options *l, dg_arena *a);
} schedulers[] = {
    { "slurm", read_slurm },
    { "pytorchjob", read_pytorchjob },
    { "torchrun", read_torchrun },
};

enum { N_SCHEDULERS = sizeof schedulers / sizeof schedulers[0] };

bool dg_cluster_known(const char *name)
{
    for (int i = 0; i < N_SCHEDULERS; i++)
        if (strcmp(name, schedulers[i].name) == 0)
            return true;
    return false;
}

bool dg_cluster_read(const char *name, dg_launch_options *l, dg_arena *a)
{
    for (int i = 0; i < N_SCHEDULERS; i++)
        if (strcmp(name, schedulers[i].name) == 0)
            return schedulers[i].read(l, a);
    return false;
}
