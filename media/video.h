/* video.h: frames of video files and cameras, and videos that are written. FFmpeg does it, in a
 * module that is loaded when the first is opened; where it is missing that is the error
 * "video-module". */
#ifndef DG_MEDIA_VIDEO_H
#define DG_MEDIA_VIDEO_H

#include <detrgraph/data.h>

/* True if the name has the ending of a video. */
bool dg_video_named(const char *path);
/* True for a camera: /dev/video0, or KIND:NAME with a kind of FFmpeg's devices ("v4l2:/dev/video0")
 * where no file has that name. */
bool dg_camera_named(const char *word);

typedef struct dg_video dg_video;

typedef struct dg_video_frame {
    dg_image image; /* upright */
    int64_t number; /* in the video, from 0 */
    double seconds; /* from the first one */
} dg_video_frame;

/* stride: every how many frames one is wanted. The name stays the caller's. */
int dg_video_open(dg_video **v, const char *name, int64_t stride, dg_diag *d) DG_MUST_USE;
void dg_video_close(dg_video **v);
/* The next wanted frame, its pixels from s: 1; 0: the end. Frames that were damaged, and a file
 * that ends before it should, are the error "video-damaged" at the end. */
int dg_video_next(dg_video *v, dg_video_frame *out, dg_scratch *s, dg_diag *d) DG_MUST_USE;
/* How many wanted frames there are, about; 0: unknown. */
int64_t dg_video_frames(const dg_video *v);
double dg_video_fps(const dg_video *v); /* of the wanted frames; 0: unknown */

/* An MP4 in H.264, or in MPEG-4 where FFmpeg cannot write that. Sides are cut to even numbers. */
typedef struct dg_film dg_film;
/* fps 0: unknown */
int dg_film_open(dg_film **f, const char *path, int w, int h, double fps, dg_diag *d) DG_MUST_USE;
int dg_film_add(dg_film *f, const dg_image *im, double seconds, dg_diag *d) DG_MUST_USE;
/* The file is complete after this only. *f may be NULL. */
int dg_film_close(dg_film **f, dg_diag *d) DG_MUST_USE;

#endif
