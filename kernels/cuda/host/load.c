/* load.c: finds the module with CUDA's runtime in it, and says what is missing where there is none.
 * The program does not need CUDA: only this file ever asks for it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/beside.h"
#include "base/diag.h"
#include "base/str.h"
#include "kernels/cuda/host/internal.h"
#include "kernels/cuda/host/nccl.h"

#define MODULE "detrgraph-cuda.so"

typedef struct loaded {
    void *handle;
    const dg_cuda_module *module;
    const char *missing, *help; /* what a failure is */
    char text[400];             /* more of it */
} loaded;

static const char build_help[] =
    "./configure --with-cuda and make build it where CUDA 12.1 or later is, with nvcc and cuBLASLt";

/* ---- the module ------------------------------------------------------------------------------ */

static int load_from(loaded *l, const char *path)
{
    const dg_cuda_module *m;

    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!l->handle) {
        l->missing = "the module for CUDA does not load";
        l->help = "the libraries that it names have to be installed, or LD_LIBRARY_PATH has to "
                  "name their folder";
        snprintf(l->text, sizeof l->text, "%s", dlerror());
        return -DG_EUNSUPPORTED;
    }
    m = dlsym(l->handle, "dg_cuda_this_module");
    if (m && m->version == DG_CUDA_VERSION) {
        l->module = m;
        return 0;
    }
    snprintf(l->text, sizeof l->text, "%s", path);
    l->missing = m ? "the module for CUDA belongs to another version of detrgraph"
                   : "the file is no module for CUDA";
    l->help = "make builds the program and its module together";
    dlclose(l->handle);
    l->handle = NULL;
    return -DG_EUNSUPPORTED;
}

static int load(loaded *l, const char *path)
{
    char at[PATH_MAX + 64];

    if (path)
        return load_from(l, path);
    if (dg_find_beside(at, sizeof at, MODULE))
        return load_from(l, at);
    l->missing = "this build has no CUDA";
    l->help = build_help;
    snprintf(l->text, sizeof l->text, "there is no %s beside the program", MODULE);
    return -DG_EUNSUPPORTED;
}

/* ---- the devices ----------------------------------------------------------------------------- */

/* How many there are; l->missing says why there is none. */
static int look(loaded *l, const char *options, int *n)
{
    char versions[160] = "", text[192];
    int code = l->module->look(options, n, versions, sizeof versions);

    l->missing = NULL;
    if (code == 0 && *n > 0) {
        snprintf(l->text, sizeof l->text, "%s", versions);
        return 0;
    }
    if (code == 0)
        code = DG_CUDA_NO_DEVICE;
    l->missing = code == DG_CUDA_OLD_DRIVER  ? "there is no NVIDIA driver, or one that is too old"
                 : code == DG_CUDA_NO_DEVICE ? "there is no GPU that CUDA can use"
                                             : "CUDA does not start";
    l->help =
        code == DG_CUDA_OLD_DRIVER
            ? "install NVIDIA's driver for this CUDA, or start the container with its GPUs "
              "(--gpus all); `nvidia-smi` shows both"
            : "`nvidia-smi` lists the GPUs of this machine; CUDA_VISIBLE_DEVICES may hide them";
    snprintf(l->text, sizeof l->text, "%s%s%s", l->module->error(code, text, sizeof text),
             *versions ? "; " : "", versions);
    return -DG_EUNSUPPORTED;
}

/* "NCCL 2.28.9", or why there is none. */
static const char *look_for_nccl(char *buf, size_t size)
{
    char why[160], version[32];
    dg_nccl nccl;

    if (dg_nccl_load(&nccl, NULL, why, sizeof why)) {
        snprintf(buf, size, "NCCL %s", dg_nccl_version(nccl.version, version, sizeof version));
        dg_nccl_unload(&nccl);
    } else {
        snprintf(buf, size, "no NCCL: %s", why);
    }
    return buf;
}

bool dg_cuda_look(char *buf, size_t size, const char **help)
{
    loaded l = { 0 };
    char nccl[192];
    int n = 0;
    bool ready = load(&l, NULL) == 0 && look(&l, "", &n) == 0;

    if (ready)
        snprintf(buf, size, "%d GPU%s, %s, %s", n, dg_plural(n, "s"), l.text,
                 look_for_nccl(nccl, sizeof nccl));
    else
        snprintf(buf, size, "%s: %s", l.missing, l.text);
    *help = ready ? NULL : l.help;
    if (l.handle)
        dlclose(l.handle);
    return ready;
}

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct asked {
    int number;
    char module[PATH_MAX], nccl[PATH_MAX];
    char words[200]; /* for the module, with commas */
} asked;

static bool add_word(asked *q, const char *at, size_t n)
{
    size_t have = strlen(q->words);

    if (have + n + 2 > sizeof q->words)
        return false;
    snprintf(q->words + have, sizeof q->words - have, "%s%.*s", have ? "," : "", (int)n, at);
    return true;
}

/* "cuda", "cuda:1", "cuda:module=PATH,nccl=PATH,WORD": false: not of that form. */
static bool parse(asked *q, const char *device)
{
    const char *at = device + strcspn(device, ":");

    *q = (asked){ .number = 0 };
    for (int i = 0; *at; i++) {
        size_t n = strcspn(at + 1, ",");
        const char *word = at + 1;
        char digits[8];
        int64_t number;

        at = word + n;
        if (n == 0)
            return false;
        if (strncmp(word, "module=", 7) == 0 && n > 7 && n - 7 < sizeof q->module) {
            snprintf(q->module, sizeof q->module, "%.*s", (int)(n - 7), word + 7);
            continue;
        }
        if (strncmp(word, "nccl=", 5) == 0 && n > 5 && n - 5 < sizeof q->nccl) {
            snprintf(q->nccl, sizeof q->nccl, "%.*s", (int)(n - 5), word + 5);
            continue;
        }
        snprintf(digits, sizeof digits, "%.*s", (int)n, word);
        if (i == 0 && n < sizeof digits && dg_parse_i64(digits, &number)) {
            if (number < 0)
                return false;
            q->number = (int)number;
        } else if (!add_word(q, word, n)) {
            return false;
        }
    }
    return true;
}

static int fail_for(const loaded *l, dg_diag *d)
{
    dg_fail(d, DG_EUNSUPPORTED, DG_NOWHERE, "device-missing", "cuda: %s", l->missing);
    dg_note(d, DG_NOWHERE, "%s", l->text);
    dg_help(d, "%s", l->help);
    return -DG_EUNSUPPORTED;
}

static int check_words(const loaded *l, const asked *q, dg_diag *d)
{
    int n;
    char text[160];

    if (!*q->words || l->module->look(q->words, &n, text, sizeof text) != DG_CUDA_BAD_OPTION)
        return 0;
    dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option", "cuda: %s does not know \"%s\"",
            l->module->name, q->words);
    dg_help(d, "write cuda or cuda:N, N the number of a GPU");
    return -DG_EINPUT;
}

static int load_and_look(loaded *l, asked *q, const char *device, int *n, dg_diag *d)
{
    int rc;

    if (!parse(q, device)) {
        dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option", "\"%s\": cuda or cuda:N is expected",
                device);
        return -DG_EINPUT;
    }
    if (load(l, *q->module ? q->module : NULL) < 0)
        return fail_for(l, d);
    rc = check_words(l, q, d);
    return rc == 0 && look(l, q->words, n) < 0 ? fail_for(l, d) : rc;
}

static void unload(loaded *l)
{
    if (l->handle)
        dlclose(l->handle);
    l->handle = NULL;
}

int dg_cuda_count(int *n, const char *device, dg_diag *d)
{
    loaded l = { 0 };
    asked q;
    int rc = load_and_look(&l, &q, device, n, d);

    unload(&l);
    return rc;
}

int dg_cuda_open(dg_backend **b, const char *device, dg_diag *d)
{
    loaded l = { 0 };
    asked q;
    int rc, n = 0;

    *b = NULL;
    DG_TRY(load_and_look(&l, &q, device, &n, d));
    if (q.number >= n) {
        rc = dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-unknown", "there is no cuda:%d", q.number);
        dg_help(d, n == 1 ? "there is one GPU, cuda:0" : "there are %d GPUs, from cuda:0 on", n);
        goto out;
    }
    DG_TRY(dg_cuda_open_with(b, l.module, q.number, q.words, d));
    ((dg_cuda *)*b)->handle = l.handle;
    ((dg_cuda *)*b)->nccl = *q.nccl ? strdup(q.nccl) : NULL;
    l.handle = NULL;
out:
    unload(&l);
    return rc;
}
