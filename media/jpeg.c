/* jpeg.c: JPEG files through libjpeg-turbo.
 *
 * Decodes with the library's defaults (slow integer IDCT, fancy upsampling), which Pillow uses too:
 * both give the same pixels. Four-component files are taken as inverted, as Adobe writes them:
 *     R = k - (255 - c) k / 255   with stored c and k, rounded as Pillow rounds. */
#include "media/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { MAX_SCANS = 500, MAX_MEMORY = 0x60000000 };

/* All state that must survive longjmp: locals could be lost in registers. */
typedef struct job {
    struct jpeg_error_mgr err;
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct in;
    struct jpeg_compress_struct out;
    jmp_buf escape;
    uint8_t *cmyk;       /* one row of a four-component file */
    unsigned char *file; /* the encoded output */
    unsigned long file_bytes;
    bool ended; /* the data ran out; the library made up an end marker */
    char text[JMSG_LENGTH_MAX];
} job;

static _Noreturn void on_error(j_common_ptr c)
{
    job *j = c->client_data;

    (*c->err->format_message)(c, j->text);
    longjmp(j->escape, 1);
}

static _Noreturn void give_up(job *j, const char *text)
{
    (void)snprintf(j->text, sizeof j->text, "%s", text);
    longjmp(j->escape, 1);
}

/* Warnings: a missing end marker alone is harmless; missing data after it is not. */
static void on_message(j_common_ptr c, int level)
{
    job *j = c->client_data;

    if (level >= 0)
        return;
    if (c->err->msg_code == JWRN_JPEG_EOF)
        j->ended = true;
    else if (c->err->msg_code == JWRN_HIT_MARKER && j->ended)
        give_up(j, "the file ends before the image does");
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

/* Limits scans: hundreds of scans over a large image are an attack. */
static void on_progress(j_common_ptr c)
{
    job *j = c->client_data;

    if (c->is_decompressor && j->in.input_scan_number > MAX_SCANS)
        give_up(j, "more than 500 scans");
}

static void set_handlers(job *j, struct jpeg_common_struct *c)
{
    c->err = jpeg_std_error(&j->err);
    c->client_data = j;
    j->err.error_exit = on_error;
    j->err.emit_message = on_message;
    j->err.output_message = on_output;
}

bool dg_is_jpeg(const uint8_t *p, size_t n)
{
    return n >= 3 && p[0] == 0xFF && p[1] == 0xD8 && p[2] == 0xFF;
}

static int find_orientation(const struct jpeg_decompress_struct *in)
{
    for (const struct jpeg_marker_struct *m = in->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && memcmp(m->data, "Exif\0", 6) == 0)
            return dg_exif_orientation(m->data, m->data_length);
    return 1;
}

static uint8_t cmyk_channel(unsigned c, unsigned k)
{
    unsigned t = (255 - c) * k + 128;

    return (uint8_t)(k - (((t >> 8) + t) >> 8));
}

static void read_rows(job *j, dg_image *out)
{
    struct jpeg_decompress_struct *in = &j->in;

    while (in->output_scanline < in->output_height) {
        uint8_t *row = out->rgb + (size_t)in->output_scanline * (size_t)out->w * 3;
        JSAMPROW dst = j->cmyk ? j->cmyk : row;

        if (jpeg_read_scanlines(in, &dst, 1) != 1)
            give_up(j, "the file ends before the image does");
        for (int x = 0; j->cmyk && x < out->w; x++)
            for (int c = 0; c < 3; c++)
                row[3 * x + c] = cmyk_channel(j->cmyk[4 * x + c], j->cmyk[4 * x + 3]);
    }
}

/* Called after setjmp; library errors leave through on_error. */
static int decode(job *j, dg_image *out, dg_image_header *header, dg_scratch *s, const char *name,
                  int reduce, dg_diag *d)
{
    struct jpeg_decompress_struct *in = &j->in;
    int rc = 0;

    jpeg_save_markers(in, JPEG_APP0 + 1, 0xFFFF);
    (void)jpeg_read_header(in, TRUE);
    header->w = (int)in->image_width;
    header->h = (int)in->image_height;
    header->orientation = find_orientation(in);
    DG_TRY(dg_image_check_size(header->w, header->h, name, d));
    if (!out)
        return 0;
    in->scale_num = 1;
    in->scale_denom = reduce ? (unsigned)reduce : 1;
    in->out_color_space = in->num_components == 4 ? JCS_CMYK : JCS_RGB;
    in->mem->max_memory_to_use = MAX_MEMORY;
    in->progress = &j->progress;
    j->progress.progress_monitor = on_progress;
    jpeg_calc_output_dimensions(in);
    DG_TRY(dg_image_alloc(out, s, (int)in->output_width, (int)in->output_height, d));
    (void)jpeg_start_decompress(in);
    if (j->ended && jpeg_has_multiple_scans(in)) /* all scans were read, and some are missing */
        give_up(j, "the file ends before the image does");
    if (in->output_components == 4)
        j->cmyk = malloc((size_t)in->output_width * 4);
    if (in->output_components == 4 && !j->cmyk)
        give_up(j, "no memory for a row");
    read_rows(j, out);
out:
    return rc;
}

int dg_jpeg_decode(dg_image *out, dg_image_header *header, dg_scratch *s, const uint8_t *p,
                   size_t n, const char *name, int reduce, dg_diag *d)
{
    dg_where at = { name, 0, 0, NULL };
    job *j = calloc(1, sizeof *j);
    int rc;

    if (!j)
        return dg_fail(d, DG_EMEMORY, at, "image-memory", "no memory to decode with");
    set_handlers(j, (struct jpeg_common_struct *)&j->in);
    if (setjmp(j->escape)) {
        rc = dg_fail(d, DG_EINPUT, at, "image-broken", "not a sound JPEG file: %s", j->text);
    } else {
        jpeg_create_decompress(&j->in);
        jpeg_mem_src(&j->in, p, (unsigned long)n);
        rc = decode(j, out, header, s, name, reduce, d);
    }
    jpeg_destroy_decompress(&j->in);
    free(j->cmyk);
    free(j);
    return rc;
}

static void encode(job *j, const dg_image *im, int quality)
{
    struct jpeg_compress_struct *o = &j->out;

    jpeg_create_compress(o);
    jpeg_mem_dest(o, &j->file, &j->file_bytes);
    o->image_width = (JDIMENSION)im->w;
    o->image_height = (JDIMENSION)im->h;
    o->input_components = 3;
    o->in_color_space = JCS_RGB;
    jpeg_set_defaults(o);
    jpeg_set_quality(o, quality, TRUE);
    jpeg_start_compress(o, TRUE);
    while (o->next_scanline < o->image_height) {
        JSAMPROW row = im->rgb + (size_t)o->next_scanline * (size_t)im->w * 3;

        (void)jpeg_write_scanlines(o, &row, 1);
    }
    jpeg_finish_compress(o);
}

int dg_jpeg_encode(dg_encoded *out, const dg_image *im, int quality, const char *name, dg_diag *d)
{
    dg_where at = { name, 0, 0, NULL };
    job *j = calloc(1, sizeof *j);
    int rc;

    if (!j)
        return dg_fail(d, DG_EMEMORY, at, "image-memory", "no memory to encode with");
    set_handlers(j, (struct jpeg_common_struct *)&j->out);
    if (setjmp(j->escape)) {
        /* The library may have moved its buffer without updating j->file, so freeing it is not
         * safe: leak it. */
        rc = dg_fail(d, DG_EMEMORY, at, "image-memory", "cannot encode as JPEG: %s", j->text);
    } else {
        encode(j, im, quality);
        *out = (dg_encoded){ j->file, j->file_bytes };
        rc = 0;
    }
    jpeg_destroy_compress(&j->out);
    free(j);
    return rc;
}
