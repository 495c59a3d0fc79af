/* pack.c: a matrix as the library's products read their second operand in bf16 (pack.h). Rows of
 * either axis may lie together in memory; a piece of DEEP x W elements is read by rows, and turned
 * in registers where the pairs lie across them. */
#include "kernels/host/simd/pack.h"

#include "kernels/host/simd/simd.h"

enum { DEEP = DG_HOST_PACKED_DEPTH, PAIRS = DEEP / 2 };

typedef struct pack_call {
    uint16_t *to;
    dg_host_matrix from;
    int64_t width;
} pack_call;

/* W columns from `at` on, of elements k..k+DEEP-1 each; those that are not there are zeros. */
ALWAYS void along_rows(const pack_call *c, int64_t k, int64_t at, uint16_t *to, bool low)
{
    const dg_host_matrix *m = &c->from;
    int64_t w = max64(min64(m->n - at, W), 0);

    for (int64_t q = 0; q < PAIRS; q++) {
        vf pair[2] = { { 0 }, { 0 } };

        for (int64_t i = 0; i < min64(m->k - k - 2 * q, 2); i++)
            pair[i] =
                vf_from_bits(vf_narrow(ld_n(m->data, (k + 2 * q + i) * m->k_step + at, w, low)));
        pair[0] = zip(pair[0], pair[1]);
        memcpy(to + q * c->width * 2, &pair[0], sizeof pair[0]);
    }
}

ALWAYS void across_rows(const pack_call *c, int64_t k, int64_t at, uint16_t *to, bool low)
{
    const dg_host_matrix *m = &c->from;
    uint16_t row[W][DEEP] = { { 0 } };

    for (int64_t i = 0; i < min64(m->n - at, W); i++)
        for (int64_t j = 0; j < DEEP; j += W) {
            vh h = vf_narrow(
                ld_n(m->data, (at + i) * m->n_step + k + j, max64(min64(m->k - k - j, W), 0), low));

            memcpy(row[i] + j, &h, sizeof h);
        }
    for (int64_t q = 0; q < PAIRS; q += W) {
        vf r[W];

        for (int64_t i = 0; i < W; i++)
            memcpy(&r[i], row[i] + 2 * q, sizeof r[i]);
        vf_transpose(r);
        for (int64_t i = 0; i < W; i++)
            memcpy(to + (q + i) * c->width * 2, &r[i], sizeof r[i]);
    }
}

/* Blocks begin..end-1, of DEEP x width elements each. */
static void pack_body(void *ctx, int64_t begin, int64_t end, int thread)
{
    const pack_call *c = ctx;
    int64_t deep = (c->from.k + DEEP - 1) / DEEP;

    (void)thread;
    for (int64_t block = begin; block < end; block++)
        for (int64_t j = 0; j < c->width; j += W) {
            uint16_t *to = c->to + (block * PAIRS * c->width + j) * 2;
            int64_t k = block % deep * DEEP, at = block / deep * c->width + j;

            if (c->from.n_step == 1 && c->from.low)
                along_rows(c, k, at, to, true);
            else if (c->from.n_step == 1)
                along_rows(c, k, at, to, false);
            else if (c->from.low)
                across_rows(c, k, at, to, true);
            else
                across_rows(c, k, at, to, false);
        }
}

static void pack_matrix(void *to, const dg_host_matrix *from, int64_t width, int threads)
{
    pack_call c = { to, *from, width };
    int64_t blocks = (from->k + DEEP - 1) / DEEP * ((from->n + width - 1) / width);

    dg_parallel_for(blocks * DEEP * width < SERIAL ? 1 : threads, blocks, pack_body, &c);
}

extern const dg_host_packing DG_SIMD_SYMBOL(packing);
const dg_host_packing DG_SIMD_SYMBOL(packing) = { pack_matrix };
