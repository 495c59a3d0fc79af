/* exif.c: reads the orientation tag (EXIF 2.3, tag 0x0112 of IFD 0) with libexif. */
#include "media/image.h"

#include <stdlib.h>
#include <string.h>

#include <libexif/exif-data.h>

enum { MOST = 1 << 20 };

int dg_exif_orientation(const uint8_t *p, size_t n)
{
    ExifData *data;
    ExifEntry *e;
    int orientation = 1;

    if (n < 14 || n > MOST)
        return 1;
    data = exif_data_new();
    if (!data)
        return 1;
    /* take tags as they are, without repairs */
    exif_data_unset_option(data, EXIF_DATA_OPTION_FOLLOW_SPECIFICATION);
    exif_data_load_data(data, p, (unsigned)n);
    e = exif_content_get_entry(data->ifd[EXIF_IFD_0], EXIF_TAG_ORIENTATION);
    if (e && e->format == EXIF_FORMAT_SHORT && e->components >= 1 && e->size >= 2 && e->data) {
        int v = exif_get_short(e->data, exif_data_get_byte_order(data));

        if (v >= 1 && v <= 8)
            orientation = v;
    }
    exif_data_unref(data);
    return orientation;
}

int dg_exif_orientation_bare(const uint8_t *p, size_t n)
{
    static const char lead[6] = "Exif\0";
    uint8_t *block;
    int orientation;

    if (n > MOST - sizeof lead)
        return 1;
    if (n >= sizeof lead && memcmp(p, lead, sizeof lead) == 0)
        return dg_exif_orientation(p, n);
    block = malloc(n + sizeof lead);
    if (!block)
        return 1;
    memcpy(block, lead, sizeof lead);
    memcpy(block + sizeof lead, p, n);
    orientation = dg_exif_orientation(block, n + sizeof lead);
    free(block);
    return orientation;
}
