/* backend.c: the host as a device: memory, choice of kernels, capabilities of the CPU. Every call
 * has done its work when it returns. */
#include "kernels/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/diag.h"
#include "kernels/host/host.h"

/* ---- memory ---------------------------------------------------------------------------------- */

/* Blocks of at least HUGE bytes are mapped with huge pages: the first step then touches half a
 * gigabyte in 50-130 ms instead of 220-250 (docs/performance.md). */
enum { HEADER = 64, HUGE = 2 << 20 };

typedef struct header {
    void *base;
    size_t mapped; /* 0: from malloc */
} header;

static void *place_block(char *p, void *base, size_t mapped)
{
    header h = { base, mapped };

    memcpy(p - HEADER, &h, sizeof h);
    return p;
}

static void *host_alloc(dg_backend *self, size_t bytes)
{
    size_t rounded = (bytes + 63) & ~(size_t)63, mapped;
    char *base, *p;

    (void)self;
    if (rounded < bytes || rounded > SIZE_MAX - 2 * HUGE)
        return NULL;
    if (rounded < HUGE) {
        base = aligned_alloc(64, rounded + HEADER);
        if (!base)
            return NULL;
        memset(base, 0, rounded + HEADER);
        return place_block(base + HEADER, base, 0);
    }
    mapped = rounded + 2 * HUGE;
    base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    p = base + HUGE; /* a multiple of HUGE, at least a page past base: room for the header */
    p -= (uintptr_t)p % HUGE;
    /* advice only: failure is harmless */
    madvise(p, (rounded + HUGE - 1) / HUGE * HUGE, MADV_HUGEPAGE);
    return place_block(p, base, mapped);
}

static void host_free(dg_backend *self, void *p)
{
    header h;

    (void)self;
    if (!p)
        return;
    memcpy(&h, (char *)p - HEADER, sizeof h);
    if (h.mapped)
        munmap(h.base, h.mapped);
    else
        free(h.base);
}

static int host_memory(dg_backend *self, int64_t *free_bytes, int64_t *total_bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE);

    (void)self;
    *free_bytes = page * sysconf(_SC_AVPHYS_PAGES);
    *total_bytes = page * sysconf(_SC_PHYS_PAGES);
    return 0;
}

static int host_copy(dg_backend *self, dg_lane lane, void *to, const void *from, size_t bytes)
{
    (void)self;
    (void)lane;
    memcpy(to, from, bytes);
    return 0;
}

static int host_clear(dg_backend *self, dg_lane lane, void *p, size_t bytes)
{
    (void)self;
    (void)lane;
    memset(p, 0, bytes);
    return 0;
}

/* ---- lanes: all work is done at once, in the order of the calls ------------------------------ */

static int host_launch(dg_backend *self, dg_lane lane, const dg_launch *l)
{
    (void)self;
    (void)lane;
    return dg_launch_now(l);
}

static int host_call(dg_backend *self, dg_lane lane, int (*fn)(void *ctx), void *ctx, int mark)
{
    (void)self;
    (void)lane;
    (void)mark;
    return fn(ctx);
}

static int host_sign(dg_backend *self, dg_lane lane, uint32_t *word, uint32_t value)
{
    (void)self;
    (void)lane;
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
    return 0;
}

struct dg_event {
    char unused;
};

static dg_event *host_event_open(dg_backend *self)
{
    (void)self;
    return calloc(1, sizeof(dg_event));
}

static void host_event_close(dg_backend *self, dg_event **e)
{
    (void)self;
    free(*e);
    *e = NULL;
}

static int host_event_record(dg_backend *self, dg_event *e, dg_lane lane)
{
    (void)self;
    (void)e;
    (void)lane;
    return 0;
}

static int host_lane_wait(dg_backend *self, dg_lane lane, dg_event *e)
{
    return host_event_record(self, e, lane);
}

static int host_event_wait(dg_backend *self, dg_event *e)
{
    return host_event_record(self, e, DG_LANE_COMPUTE);
}

static int host_finish(dg_backend *self)
{
    (void)self;
    return 0;
}

static int host_fault(dg_backend *self)
{
    (void)self;
    return DG_NO_MARK; /* the call that failed has said so */
}

/* ---- kernels --------------------------------------------------------------------------------- */

static const dg_kernel *ref_select(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                                   bool *is_ref)
{
    (void)self;
    *is_ref = true;
    if (dg_any_of(t, n, DG_F64))
        return op->ref64;
    return dg_any_of(t, n, DG_BF16) ? NULL : op->ref32;
}

static const dg_kernel *host_select(dg_backend *self, const dg_op *op, const dg_tensor *t, int n,
                                    bool *is_ref)
{
#ifndef DG_REF_ONLY
    if (op->host && !dg_any_of(t, n, DG_F64)) {
        *is_ref = false;
        return op->host;
    }
#endif
    return ref_select(self, op, t, n, is_ref);
}

const dg_kernel *dg_host_kernel(const dg_op *op, const dg_tensor *t, int n, bool *is_ref)
{
    return host_select(NULL, op, t, n, is_ref);
}

/* ---- the CPU --------------------------------------------------------------------------------- */

enum { CPU_AVX2 = 1, CPU_AVX512 = 2, CPU_BF16 = 4, CPU_AMX = 8 };

#ifdef __x86_64__

/* True if the operating system saves these parts of the register file (XCR0 bits): 5-7 AVX-512, 17
 * and 18 AMX tiles. */
static bool registers_saved(unsigned mask)
{
    unsigned a, b, c, d, lo, hi;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (lo & mask) == mask;
}

static int cpu(void)
{
    unsigned a, b, c, d, bf16 = 0;
    int f = 0;

    __builtin_cpu_init();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    f |= __builtin_cpu_supports("avx2") ? CPU_AVX2 : 0;
    f |= __builtin_cpu_supports("avx512bw") ? CPU_AVX512 : 0;
    f |= (d >> 22 & 1) && registers_saved(3u << 17) ? CPU_AMX : 0; /* AMX-BF16 */
    if (__get_cpuid_count(7, 1, &bf16, &b, &c, &d))
        f |= (bf16 >> 5 & 1) && registers_saved(7u << 5) ? CPU_BF16 : 0; /* AVX512_BF16 */
    return f;
}

bool dg_host_multiplies_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
}

#else

static int cpu(void)
{
    return 0;
}

bool dg_host_multiplies_bf16(void)
{
    return false;
}

#endif

const char *dg_cpu_features(char *buf, size_t n)
{
    int f = cpu();

    snprintf(buf, n, "%s%s%s",
             f & CPU_AVX512 ? "AVX-512"
             : f & CPU_AVX2 ? "AVX2"
                            : "baseline",
             f & CPU_BF16 ? " BF16" : "", f & CPU_AMX ? " AMX" : "");
    return buf;
}

/* docs/performance.md has the measurements behind this choice. */
static dg_dtype host_low_precision(dg_backend *self, const char **reason)
{
    int f = cpu();

    (void)self;
    if (f & CPU_AMX) {
        *reason = "bf16: the CPU multiplies it in AMX tiles";
        return DG_BF16;
    }
    if (dg_host_multiplies_bf16()) {
        *reason = "bf16: the CPU's AVX-512 BF16 runs at twice the rate of f32";
        return DG_BF16;
    }
    *reason = f & CPU_BF16 ? "f32: AVX-512 BF16 without AMX is slower than f32 on this CPU"
                           : "f32: the CPU has neither AMX nor AVX-512 BF16";
    return DG_F32;
}

static dg_dtype ref_low_precision(dg_backend *self, const char **reason)
{
    (void)self;
    *reason = "f32: reference kernels have no bf16";
    return DG_F32;
}

/* Debian 12's oneDNN is slow in bf16 where a convolution has three channels. */
static bool host_prefers_wide(dg_backend *self, const dg_op *op, const dg_tensor *t, int n)
{
    (void)self;
    if (n < 2)
        return false;
    if (strcmp(op->name, "conv2d") == 0 || strcmp(op->name, "conv2d_dw") == 0)
        return t[0].shape.d[3] == 3;
    return strcmp(op->name, "conv2d_dx") == 0 && t[1].shape.d[1] == 3;
}

static const char *host_describe(dg_backend *self, char *buf, size_t n)
{
    (void)self;
    return dg_cpu_features(buf, n);
}

static void host_close(dg_backend **self)
{
    free(*self);
    *self = NULL;
}

int dg_host_open(dg_backend **b, const char *device, dg_diag *d)
{
    bool ref = strcmp(device, "ref") == 0;

    if (!ref && strcmp(device, "cpu") != 0) {
        dg_fail(d, DG_EINPUT, DG_NOWHERE, "device-option", "\"%s\": this device has no options",
                device);
        return -DG_EINPUT;
    }
    *b = calloc(1, sizeof **b);
    if (!*b)
        return dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory for a backend");
    **b = (dg_backend){
        .name = ref ? "ref" : "cpu",
        .immediate = true,
        .alignment = 64,
        .close = host_close,
        .describe = host_describe,
        .memory = host_memory,
        .alloc = host_alloc,
        .free = host_free,
        .alloc_pinned = host_alloc,
        .free_pinned = host_free,
        .upload = host_copy,
        .download = host_copy,
        .copy = host_copy,
        .clear = host_clear,
        .launch = host_launch,
        .call = host_call,
        .sign = host_sign,
        .event_open = host_event_open,
        .event_close = host_event_close,
        .event_record = host_event_record,
        .lane_wait = host_lane_wait,
        .event_wait = host_event_wait,
        .finish = host_finish,
        .fault = host_fault,
        .select = ref ? ref_select : host_select,
        .prefers_wide = host_prefers_wide,
        .low_precision = ref ? ref_low_precision : host_low_precision,
    };
    return 0;
}
