/* module.h: between detrgraph and its module for videos, detrgraph-video.so, in which FFmpeg is
 * used. The module needs nothing of detrgraph. */
#ifndef DG_MEDIA_VIDEO_MODULE_H
#define DG_MEDIA_VIDEO_MODULE_H

#include <stdbool.h>
#include <stdint.h>

enum { DG_VIDEO_VERSION = 1, DG_VIDEO_TEXT = 256 };

typedef struct dg_video_about {
    int w, h;         /* as stored */
    int orientation;  /* 1..8, as EXIF has it */
    double fps;       /* mean; 0: unknown */
    double seconds;   /* negative: unknown */
    int64_t frames;   /* 0: unknown */
    bool frames_said; /* by the file's header, so that a cut file has fewer */
} dg_video_about;

typedef struct dg_video_now { /* of a decoded frame */
    int w, h;
    double seconds; /* from the first one */
} dg_video_now;

/* Functions that fail return NULL or -1, with the reason in text[DG_VIDEO_TEXT]. */
typedef struct dg_video_module {
    int version;
    /* device: the kind of a camera ("v4l2"); NULL: name is a file */
    void *(*open)(const char *name, const char *device, int64_t most_pixels, dg_video_about *about,
                  char *text);
    void (*close)(void *v);
    /* Decodes the next frame: 1; 0: the end. */
    int (*next)(void *v, dg_video_now *now, char *text);
    /* The decoded frame as w * h pixels of R, G, B. */
    int (*pixels)(void *v, uint8_t *rgb, char *text);
    /* Frames and packets so far that are damaged. */
    int64_t (*damaged)(void *v);

    void *(*create)(const char *path, int w, int h, double fps, char *text);
    int (*add)(void *f, const uint8_t *rgb, int w, int h, double seconds, char *text);
    /* Writes what is left; frees f whether it fails or not. */
    int (*finish)(void *f, char *text);
} dg_video_module;

#endif
