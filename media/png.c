/* png.c: PNG files through libpng. Everything becomes 8-bit RGB: palettes and 1, 2, 4 bit grays are
 * expanded, 16-bit samples keep their high byte, alpha is dropped (not blended), gamma is
 * ignored. */
#include "media/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

enum { MAX_CHUNK = 8 << 20 };

/* All state that must survive longjmp. */
typedef struct job {
    png_structp png;
    png_infop info;
    const uint8_t *p; /* input not read yet */
    size_t n;
    dg_encoded file; /* output */
    size_t cap;
    int w, h;
    char text[128];
} job;

bool dg_is_png(const uint8_t *p, size_t n)
{
    return n >= 8 && png_sig_cmp(p, 0, 8) == 0;
}

static _Noreturn void on_error(png_structp png, png_const_charp text)
{
    job *j = png_get_error_ptr(png);

    (void)snprintf(j->text, sizeof j->text, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    job *j = png_get_io_ptr(png);

    if (n > j->n)
        png_error(png, "the file ends before the image does");
    memcpy(out, j->p, n);
    j->p += n;
    j->n -= n;
}

static void on_write(png_structp png, png_bytep p, size_t n)
{
    job *j = png_get_io_ptr(png);

    if (j->cap - j->file.n < n) {
        size_t cap = (j->cap + n) * 2;
        uint8_t *grown = realloc(j->file.p, cap);

        if (!grown)
            png_error(png, "no memory");
        j->file.p = grown;
        j->cap = cap;
    }
    memcpy(j->file.p + j->file.n, p, n);
    j->file.n += n;
}

static void on_flush(png_structp png)
{
    (void)png;
}

static int find_orientation(job *j)
{
    png_bytep p = NULL;
    png_uint_32 n = 0;

    return png_get_eXIf_1(j->png, j->info, &n, &p) ? dg_exif_orientation_bare(p, n) : 1;
}

static void read_header(job *j, dg_image_header *header)
{
    /* dg_image_check_size gives a better message */
    png_set_user_limits(j->png, 0x7FFFFFFF, 0x7FFFFFFF);
    png_set_chunk_malloc_max(j->png, MAX_CHUNK);
    png_set_read_fn(j->png, j, on_read);
    png_read_info(j->png, j->info);
    header->w = (int)png_get_image_width(j->png, j->info);
    header->h = (int)png_get_image_height(j->png, j->info);
    header->orientation = find_orientation(j);
}

static void read_rows(job *j, dg_image *out)
{
    int passes;

    png_set_expand(j->png);
    png_set_strip_16(j->png);
    png_set_gray_to_rgb(j->png);
    png_set_strip_alpha(j->png);
    passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->info);
    if (png_get_rowbytes(j->png, j->info) != (size_t)out->w * 3)
        png_error(j->png, "its rows do not become RGB");
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < out->h; y++)
            png_read_row(j->png, out->rgb + (size_t)y * (size_t)out->w * 3, NULL);
    png_read_end(j->png, NULL); /* also detects a file that was cut after the pixels */
}

/* Reads the header, then the pixels if out is not NULL; each behind its own setjmp. */
static int step(job *j, dg_image_header *header, dg_image *out, const char *name, dg_diag *d)
{
    if (setjmp(png_jmpbuf(j->png)))
        return dg_fail(d, DG_EINPUT, (dg_where){ name, 0, 0, NULL }, "image-broken",
                       "not a sound PNG file: %s", j->text);
    if (header)
        read_header(j, header);
    if (out)
        read_rows(j, out);
    return 0;
}

int dg_png_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p, size_t n,
                  const char *name, dg_diag *d)
{
    job j = { .p = p, .n = n };
    int rc;

    j.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    if (!j.info) {
        rc = dg_fail(d, DG_EMEMORY, (dg_where){ name, 0, 0, NULL }, "image-memory",
                     "no memory to decode with");
        goto out;
    }
    DG_TRY(step(&j, header, NULL, name, d));
    DG_TRY(dg_image_check_size(header->w, header->h, name, d));
    if (out) {
        DG_TRY(dg_image_alloc(out, s, header->w, header->h, d));
        DG_TRY(step(&j, NULL, out, name, d));
    }
out:
    png_destroy_read_struct(&j.png, &j.info, NULL);
    return rc;
}

static int encode(job *j, const dg_image *im)
{
    if (setjmp(png_jmpbuf(j->png)))
        return -DG_EMEMORY;
    png_set_write_fn(j->png, j, on_write, on_flush);
    png_set_IHDR(j->png, j->info, (png_uint_32)im->w, (png_uint_32)im->h, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(j->png, j->info);
    for (int y = 0; y < im->h; y++)
        png_write_row(j->png, im->rgb + (size_t)y * (size_t)im->w * 3);
    png_write_end(j->png, j->info);
    return 0;
}

int dg_png_encode(dg_encoded *out, const dg_image *im, const char *name, dg_diag *d)
{
    job j = { 0 };
    int rc = -DG_EMEMORY;

    j.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    j.info = j.png ? png_create_info_struct(j.png) : NULL;
    if (j.info)
        rc = encode(&j, im);
    if (rc < 0) {
        rc = dg_fail(d, DG_EMEMORY, (dg_where){ name, 0, 0, NULL }, "image-memory",
                     "cannot encode as PNG: %s", j.text);
        free(j.file.p);
    } else {
        *out = j.file;
    }
    png_destroy_write_struct(&j.png, &j.info);
    return rc;
}
