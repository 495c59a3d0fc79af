/* backend.c: the host as a device: memory, the choice of kernels, and what its CPU can do. */
#include "kernels/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* ---- memory ---------------------------------------------------------------------------------- */

/* Blocks from HUGE bytes on are mapped and asked to lie on huge pages: the first step then touches
 * half a gigabyte in 50-130 ms instead of 220-250 (docs/performance.md). */
enum { HEADER = 64, HUGE = 2 << 20 };

typedef struct header {
    void  *base;
    size_t mapped; /* 0: from malloc */
} header;

static void *place(char *p, void *base, size_t mapped)
{
    header h = { base, mapped };

    memcpy(p - HEADER, &h, sizeof h);
    return p;
}

static void *host_alloc(const dg_backend *self, size_t bytes)
{
    size_t rounded = (bytes + 63) & ~(size_t)63, mapped;
    char  *base, *p;

    (void)self;
    if (rounded < bytes || rounded > SIZE_MAX - 2 * HUGE)
        return NULL;
    if (rounded < HUGE) {
        base = aligned_alloc(64, rounded + HEADER);
        if (!base)
            return NULL;
        memset(base, 0, rounded + HEADER);
        return place(base + HEADER, base, 0);
    }
    mapped = rounded + 2 * HUGE;
    base = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (base == MAP_FAILED)
        return NULL;
    p = base + HUGE; /* a boundary of HUGE, at least a page from base: room for the header */
    p -= (uintptr_t)p % HUGE;
    /* A wish: nothing is lost if it is refused. */
    madvise(p, (rounded + HUGE - 1) / HUGE * HUGE, MADV_HUGEPAGE);
    return place(p, base, mapped);
}

static void host_free(const dg_backend *self, void *p)
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

static int host_upload(const dg_backend *self, void *device, const void *host, size_t bytes)
{
    (void)self;
    memcpy(device, host, bytes);
    return 0;
}

static int host_download(const dg_backend *self, void *host, const void *device, size_t bytes)
{
    (void)self;
    memcpy(host, device, bytes);
    return 0;
}

static int host_clear(const dg_backend *self, void *p, size_t bytes)
{
    (void)self;
    memset(p, 0, bytes);
    return 0;
}

static int host_finish(const dg_backend *self)
{
    (void)self;
    return 0;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static bool any_of(const dg_tensor *t, int n, dg_dtype type)
{
    for (int i = 0; i < n; i++)
        if (t[i].dtype == type && t[i].shape.rank >= 0)
            return true;
    return false;
}

static const dg_kernel *ref_select(const dg_backend *self, const dg_op *op, const dg_tensor *t,
                                   int n, bool *is_ref)
{
    (void)self;
    *is_ref = true;
    if (any_of(t, n, DG_F64))
        return op->ref64;
    return any_of(t, n, DG_BF16) ? NULL : op->ref32;
}

static const dg_kernel *host_select(const dg_backend *self, const dg_op *op, const dg_tensor *t,
                                    int n, bool *is_ref)
{
#ifndef DG_REF_ONLY
    if (op->host && !any_of(t, n, DG_F64)) {
        *is_ref = false;
        return op->host;
    }
#endif
    return ref_select(self, op, t, n, is_ref);
}

/* ---- the CPU --------------------------------------------------------------------------------- */

enum { CPU_AVX2 = 1, CPU_AVX512 = 2, CPU_BF16 = 4, CPU_AMX = 8, CPU_AMD = 16 };

#ifdef __x86_64__

/* Whether the kernel saves these parts of the register file (XCR0): 5-7 AVX-512, 17 and 18 AMX
 * tiles. */
static bool saved(unsigned mask)
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
    int      f = 0;

    __builtin_cpu_init();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
        return 0;
    f |= __builtin_cpu_supports("avx2") ? CPU_AVX2 : 0;
    f |= __builtin_cpu_supports("avx512bw") ? CPU_AVX512 : 0;
    f |= __builtin_cpu_is("amd") ? CPU_AMD : 0;
    f |= (d >> 22 & 1) && saved(3u << 17) ? CPU_AMX : 0; /* AMX-BF16 */
    if (__get_cpuid_count(7, 1, &bf16, &b, &c, &d))
        f |= (bf16 >> 5 & 1) && saved(7u << 5) ? CPU_BF16 : 0; /* AVX512_BF16 */
    return f;
}

#else

static int cpu(void)
{
    return 0;
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

/* docs/performance.md has the numbers behind this choice. */
static dg_dtype host_low_precision(const dg_backend *self, const char **reason)
{
    int f = cpu();

    (void)self;
    if (f & CPU_AMX) {
        *reason = "bf16: the CPU multiplies it in AMX tiles";
        return DG_BF16;
    }
    if ((f & CPU_BF16) && (f & CPU_AMD)) {
        *reason = "bf16: the CPU's AVX-512 BF16 runs at twice the rate of f32";
        return DG_BF16;
    }
    *reason = f & CPU_BF16 ? "f32: AVX-512 BF16 without AMX is slower than f32 on this CPU"
                           : "f32: the CPU has neither AMX nor AVX-512 BF16";
    return DG_F32;
}

static dg_dtype ref_low_precision(const dg_backend *self, const char **reason)
{
    (void)self;
    *reason = "f32: reference kernels have no bf16";
    return DG_F32;
}

const dg_backend dg_backend_host = {
    .name = "host",
    .kind = DG_HOST,
    .alloc = host_alloc,
    .free = host_free,
    .upload = host_upload,
    .download = host_download,
    .clear = host_clear,
    .copy = host_upload,
    .finish = host_finish,
    .select = host_select,
    .low_precision = host_low_precision,
};

const dg_backend dg_backend_ref = {
    .name = "ref",
    .kind = DG_HOST,
    .alloc = host_alloc,
    .free = host_free,
    .upload = host_upload,
    .download = host_download,
    .clear = host_clear,
    .copy = host_upload,
    .finish = host_finish,
    .select = ref_select,
    .low_precision = ref_low_precision,
};
