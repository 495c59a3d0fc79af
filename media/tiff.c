/* tiff.c: TIFF files through libtiff: the first image of the file, in strips or tiles, of the kinds
 * and compressions that the library turns into RGB (not floats). 16 bits keep their high byte;
 * alpha is dropped (not blended). */
#include "media/image.h"

#include "base/diag.h"

bool dg_is_tiff(const uint8_t *p, size_t n)
{
    const bool little = n >= 8 && p[0] == 'I' && p[1] == 'I' && !p[3],
               big = n >= 8 && p[0] == 'M' && p[1] == 'M' && !p[2];

    /* 42, or 43 of BigTIFF */
    return (little && (p[2] == 42 || p[2] == 43)) || (big && (p[3] == 42 || p[3] == 43));
}

#ifdef DG_TIFF

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

/* of one piece of memory that the library takes: the packed samples of a strip or tile */
static const tmsize_t most_bytes = (tmsize_t)4 * DG_IMAGE_MAX_PIXELS;

typedef struct job {
    const uint8_t *p;
    size_t n, at;
    TIFF *in;
    TIFFRGBAImage rgba;
    bool begun; /* rgba is to be ended */
    uint32_t *raster;
    char text[1024]; /* the first error; as long as the library wants */
} job;

static tmsize_t on_read(thandle_t self, void *to, tmsize_t n)
{
    job *j = self;
    const size_t left = j->at < j->n ? j->n - j->at : 0, k = (size_t)n < left ? (size_t)n : left;

    memcpy(to, j->p + (k ? j->at : 0), k);
    j->at += k;
    return (tmsize_t)k;
}

static tmsize_t on_write(thandle_t self, void *from, tmsize_t n)
{
    (void)self, (void)from, (void)n;
    return -1;
}

static toff_t on_seek(thandle_t self, toff_t to, int from)
{
    job *j = self;

    j->at = (size_t)to + (from == SEEK_CUR ? j->at : from == SEEK_END ? j->n : 0);
    return j->at;
}

static int on_close(thandle_t self)
{
    (void)self;
    return 0;
}

static toff_t on_size(thandle_t self)
{
    return ((job *)self)->n;
}

/* Not for speed: libtiff 4.5 refuses tiles of, say, 16 x 16 pixels that it has to read. */
static int on_map(thandle_t self, void **base, toff_t *n)
{
    const job *j = self;

    *base = (void *)(uintptr_t)j->p; /* only read */
    *n = j->n;
    return 1;
}

static void on_unmap(thandle_t self, void *base, toff_t n)
{
    (void)self, (void)base, (void)n;
}

static int on_error(TIFF *in, void *self, const char *module, const char *fmt, va_list ap)
{
    job *j = self;

    (void)in, (void)module;
    if (!*j->text)
        (void)vsnprintf(j->text, sizeof j->text, fmt, ap);
    return 1;
}

static int on_warning(TIFF *in, void *self, const char *module, const char *fmt, va_list ap)
{
    (void)in, (void)self, (void)module, (void)fmt, (void)ap;
    return 1;
}

/* Opens j->p; what goes wrong is in j->text from then on. */
static bool open_job(job *j, const char *name)
{
    TIFFOpenOptions *o = TIFFOpenOptionsAlloc();

    if (!o)
        return false;
    TIFFOpenOptionsSetMaxSingleMemAlloc(o, most_bytes);
    TIFFOpenOptionsSetErrorHandlerExtR(o, on_error, j);
    TIFFOpenOptionsSetWarningHandlerExtR(o, on_warning, j);
    j->in = TIFFClientOpenExt(name ? name : "", "r", j, on_read, on_write, on_seek, on_close,
                              on_size, on_map, on_unmap, o);
    TIFFOpenOptionsFree(o);
    return j->in != NULL;
}

static void close_job(job *j)
{
    if (j->begun)
        TIFFRGBAImageEnd(&j->rgba);
    if (j->in)
        TIFFClose(j->in);
    free(j->raster);
}

static int refuse(const job *j, const char *name, const char *why, dg_diag *d)
{
    return dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "image-broken",
                   "not a TIFF file that can be read: %s", *j->text ? j->text : why);
}

static bool has_pieces(const job *j)
{
    const uint32_t n = TIFFIsTiled(j->in) ? TIFFNumberOfTiles(j->in) : TIFFNumberOfStrips(j->in);

    for (uint32_t i = 0; i < n; i++) {
        const uint64_t at = TIFFGetStrileOffset(j->in, i), bytes = TIFFGetStrileByteCount(j->in, i);

        if (!at || !bytes || at > j->n || bytes > j->n - at)
            return false;
    }
    return n > 0;
}

bool dg_tiff_is_whole(const uint8_t *p, size_t n)
{
    job j = { .p = p, .n = n };
    const bool whole = open_job(&j, NULL) && has_pieces(&j);

    close_job(&j);
    return whole;
}

static int read_header(job *j, dg_image_header *header, const char *name, dg_diag *d)
{
    uint32_t w = 0, h = 0;
    uint16_t orientation = 1;
    int rc;

    if (!open_job(j, name) || !TIFFGetField(j->in, TIFFTAG_IMAGEWIDTH, &w) ||
        !TIFFGetField(j->in, TIFFTAG_IMAGELENGTH, &h))
        return refuse(j, name, "it has no image", d);
    (void)TIFFGetField(j->in, TIFFTAG_ORIENTATION, &orientation);
    rc = dg_image_check_size(w, h, name, d);
    if (rc == 0)
        *header = (dg_image_header){ (int)w, (int)h,
                                     orientation >= 1 && orientation <= 8 ? orientation : 1 };
    return rc;
}

/* Lets the library take extra samples for colours that are multiplied by alpha already: then it
 * leaves them alone. */
static void leave_alpha(job *j)
{
    enum { MOST = 8 };
    static const uint16_t kinds[MOST] = { EXTRASAMPLE_ASSOCALPHA };
    uint16_t n = 0, *given = NULL;

    if (TIFFGetField(j->in, TIFFTAG_EXTRASAMPLES, &n, &given) && n > 0 && n <= MOST &&
        given[0] == EXTRASAMPLE_UNASSALPHA)
        (void)TIFFSetField(j->in, TIFFTAG_EXTRASAMPLES, n, kinds);
}

/* Rows that are decoded at a time: a strip's, or those of a row of tiles. */
static uint32_t rows_of_piece(const job *j, uint32_t h)
{
    uint32_t rows = h;

    if (TIFFIsTiled(j->in))
        (void)TIFFGetField(j->in, TIFFTAG_TILELENGTH, &rows);
    else
        (void)TIFFGetFieldDefaulted(j->in, TIFFTAG_ROWSPERSTRIP, &rows);
    return rows > 0 && rows < h ? rows : h;
}

static int read_pixels(job *j, dg_image *out, const char *name, dg_diag *d)
{
    const uint32_t w = (uint32_t)out->w, h = (uint32_t)out->h, piece = rows_of_piece(j, h);

    leave_alpha(j);
    if (!TIFFRGBAImageOK(j->in, j->text) || !TIFFRGBAImageBegin(&j->rgba, j->in, 1, j->text))
        return refuse(j, name, "its kind is not known", d);
    j->begun = true;
    j->rgba.req_orientation = j->rgba.orientation; /* as stored */
    j->raster = malloc((size_t)w * piece * sizeof *j->raster);
    if (!j->raster)
        return dg_fail(d, DG_EMEMORY, (dg_where){ .file = name }, "image-memory",
                       "no memory to decode with");
    for (uint32_t y = 0; y < h; y += piece) {
        const uint32_t rows = h - y < piece ? h - y : piece;
        uint8_t *to = out->rgb + 3 * (size_t)y * w;

        j->rgba.row_offset = (int)y;
        if (!TIFFRGBAImageGet(&j->rgba, j->raster, w, rows))
            return refuse(j, name, "its data are damaged", d);
        for (size_t i = 0; i < (size_t)w * rows; i++) {
            to[3 * i] = TIFFGetR(j->raster[i]);
            to[3 * i + 1] = TIFFGetG(j->raster[i]);
            to[3 * i + 2] = TIFFGetB(j->raster[i]);
        }
    }
    return 0;
}

int dg_tiff_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, dg_diag *d)
{
    job j = { .p = p, .n = n };
    dg_image im;
    int rc;

    DG_TRY(read_header(&j, header, name, d));
    if (!out)
        goto out;
    if (!has_pieces(&j)) { /* before memory is taken */
        rc = refuse(&j, name, "the file ends before the image does", d);
        goto out;
    }
    DG_TRY(dg_image_alloc(&im, s, header->w, header->h, d));
    DG_TRY(read_pixels(&j, &im, name, d));
    *out = im;
out:
    close_job(&j);
    return rc;
}

#else

bool dg_tiff_is_whole(const uint8_t *p, size_t n)
{
    (void)p;
    return n > 0;
}

int dg_tiff_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, dg_diag *d)
{
    (void)out, (void)header, (void)s, (void)p, (void)n;
    dg_fail(d, DG_EINPUT, (dg_where){ .file = name }, "image-unsupported",
            "a TIFF image, and this build has no libtiff");
    dg_help(d, "install libtiff-dev, then configure and build again; or convert the image");
    return -DG_EINPUT;
}

#endif
