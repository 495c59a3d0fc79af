/* webp.c: WebP files through libwebp: lossy and lossless ones; alpha is dropped (not blended). Of
 * animations, which are videos, none is read. */
#include "media/image.h"

#include "base/diag.h"

enum { RIFF_HEADER = 8 }; /* "RIFF", and the bytes that follow, little endian */

bool dg_is_webp(const uint8_t *p, size_t n)
{
    return n >= 12 && p[0] == 'R' && p[1] == 'I' && p[2] == 'F' && p[3] == 'F' && p[8] == 'W' &&
           p[9] == 'E' && p[10] == 'B' && p[11] == 'P';
}

bool dg_webp_is_whole(const uint8_t *p, size_t n)
{
    const uint64_t bytes = p[4] | (uint64_t)p[5] << 8 | (uint64_t)p[6] << 16 | (uint64_t)p[7] << 24;

    return bytes + RIFF_HEADER <= n;
}

#ifdef DG_WEBP

#include <webp/decode.h>
#include <webp/demux.h>

static int refuse(const char *name, const char *why, dg_diag *d)
{
    return dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "image-broken",
                   "not a sound WebP file: %s", why);
}

static const char *reason(VP8StatusCode status)
{
    switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return "the file ends before the image does";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return "it has a feature that libwebp does not know";
    case VP8_STATUS_OUT_OF_MEMORY:
        return "no memory to decode with";
    default:
        return "its data are damaged";
    }
}

static int find_orientation(const uint8_t *p, size_t n)
{
    const WebPData data = { p, n };
    WebPDemuxer *in = WebPDemux(&data);
    WebPChunkIterator chunk;
    int orientation = 1;

    if (in && WebPDemuxGetChunk(in, "EXIF", 1, &chunk)) {
        orientation = dg_exif_orientation_bare(chunk.chunk.bytes, chunk.chunk.size);
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    WebPDemuxDelete(in);
    return orientation;
}

static int read_pixels(dg_image *out, const uint8_t *p, size_t n, const char *name, dg_diag *d)
{
    WebPDecoderConfig how;
    VP8StatusCode status;

    if (!WebPInitDecoderConfig(&how))
        return refuse(name, "another version of libwebp is installed than detrgraph was built with",
                      d);
    how.output.colorspace = MODE_RGB;
    how.output.is_external_memory = 1;
    how.output.u.RGBA = (WebPRGBABuffer){ .rgba = out->rgb,
                                          .stride = 3 * out->w,
                                          .size = 3 * (size_t)out->w * (size_t)out->h };
    status = WebPDecode(p, n, &how);
    WebPFreeDecBuffer(&how.output);
    return status == VP8_STATUS_OK ? 0 : refuse(name, reason(status), d);
}

int dg_webp_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, dg_diag *d)
{
    WebPBitstreamFeatures of;
    const VP8StatusCode status = WebPGetFeatures(p, n, &of);
    dg_image im;
    int rc;

    if (status != VP8_STATUS_OK)
        return refuse(name, reason(status), d);
    if (of.has_animation) {
        rc = refuse(name, "it is an animation", d);
        dg_help(d, "save the frames that are wanted as images of their own");
        return rc;
    }
    rc = dg_image_check_size(of.width, of.height, name, d);
    if (rc < 0)
        return rc;
    *header = (dg_image_header){ of.width, of.height, find_orientation(p, n) };
    if (!out)
        return 0;
    if (!dg_webp_is_whole(p, n)) /* before memory is taken */
        return refuse(name, reason(VP8_STATUS_NOT_ENOUGH_DATA), d);
    rc = dg_image_alloc(&im, s, of.width, of.height, d);
    if (rc == 0)
        rc = read_pixels(&im, p, n, name, d);
    if (rc == 0)
        *out = im;
    return rc;
}

#else

int dg_webp_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, dg_diag *d)
{
    (void)out, (void)header, (void)s, (void)p, (void)n;
    dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "image-unsupported",
            "a WebP image, and this build has no libwebp");
    dg_help(d, "install libwebp-dev, then configure and build again; or convert the image");
    return -DG_EINPUT;
}

#endif
