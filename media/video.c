/* video.c: see video.h. */
#include "media/video.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/beside.h"
#include "base/diag.h"
#include "base/file.h"
#include "media/image.h"
#include "media/video/module.h"

#define MODULE "detrgraph-video.so"

/* How many of its frames a file may lack, as a share: the number in its header may count some that
 * are not shown. */
static const double may_lack = 0.1;

typedef struct loaded {
    void *handle;
    const dg_video_module *m;
} loaded;

struct dg_video {
    loaded module;
    void *in;
    const char *name;
    dg_video_about about;
    int64_t stride, n; /* n: frames so far */
    bool live;
};

struct dg_film {
    loaded module;
    void *out;
    char *path;
    dg_outfile *file; /* the module writes it by its name */
    bool failed;
};

static dg_where in_file(const char *name)
{
    return (dg_where){ .file = name };
}

/* ---- the module ------------------------------------------------------------------------------ */

static int no_module(dg_diag *d, const char *name, const char *why, const char *help)
{
    dg_fail(d, DG_EUNSUPPORTED, in_file(name), "video-module", "videos need FFmpeg: %s", why);
    dg_help(d, "%s", help);
    return -DG_EUNSUPPORTED;
}

static void unload(loaded *l)
{
    if (l->handle)
        dlclose(l->handle);
    *l = (loaded){ 0 };
}

static int load(loaded *l, const char *name, dg_diag *d)
{
    char path[PATH_MAX + 64], why[400];

    if (!dg_find_beside(path, sizeof path, MODULE))
        return no_module(d, name, "this build has no " MODULE,
                         "install libavformat-dev libavcodec-dev libavdevice-dev libswscale-dev, "
                         "then configure and build again");
    /* FFmpeg's libraries keep memory of their own: they stay where they can find it again */
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!l->handle) {
        snprintf(why, sizeof why, "%s", dlerror());
        return no_module(d, name, why,
                         "install FFmpeg's libraries in the version that the message names: the "
                         "package ffmpeg brings them");
    }
    l->m = dlsym(l->handle, "dg_video_this_module");
    if (l->m && l->m->version == DG_VIDEO_VERSION)
        return 0;
    unload(l);
    snprintf(why, sizeof why, "%.300s belongs to another version of detrgraph", path);
    return no_module(d, name, why, "make builds the program and its module together");
}

/* ---- names ----------------------------------------------------------------------------------- */

bool dg_video_named(const char *path)
{
    static const char *const ends[] = { ".mp4", ".m4v", ".mov", ".mkv",   ".webm", ".avi",
                                        ".mpg", ".ts",  ".mts", ".mpeg",  ".wmv",  ".flv",
                                        ".3gp", ".ogv", ".y4m", ".mjpeg", ".m2ts" };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (dg_path_ends(path, ends[i]))
            return true;
    return false;
}

/* The kind of KIND:NAME as a length, or 0. */
static size_t kind_of(const char *word)
{
    const size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_");

    return n > 1 && n < 32 && word[n] == ':' && word[n + 1] ? n : 0;
}

bool dg_camera_named(const char *word)
{
    static const char devices[] = "/dev/video";
    struct stat st;

    if (strncmp(word, devices, sizeof devices - 1) == 0)
        return true; /* also if it is not plugged in */
    return stat(word, &st) == 0 ? S_ISCHR(st.st_mode) : kind_of(word) > 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

int dg_video_open(dg_video **out, const char *name, int64_t stride, dg_diag *d)
{
    dg_video *v = calloc(1, sizeof *v);
    char text[DG_VIDEO_TEXT] = "", kind[32] = "v4l2";
    const size_t n = kind_of(name);
    const bool camera = dg_camera_named(name), named = camera && n > 0 && !dg_exists(name);
    int rc;

    *out = v;
    if (!v)
        return dg_fail(d, DG_EMEMORY, in_file(name), "out-of-memory", "no memory for a video");
    v->name = name;
    v->stride = stride > 0 ? stride : 1;
    v->live = camera;
    DG_TRY(load(&v->module, name, d));
    if (named)
        snprintf(kind, sizeof kind, "%.*s", (int)n, name);
    v->in = v->module.m->open(named ? name + n + 1 : name, camera ? kind : NULL,
                              DG_IMAGE_MAX_PIXELS, &v->about, text);
    if (!v->in) {
        rc = dg_fail(d, DG_EINPUT, in_file(name), camera ? "video-camera" : "video-broken",
                     camera ? "the camera does not open: %s" : "the video does not open: %s", text);
        goto out;
    }
    DG_TRY(dg_image_check_size(v->about.w, v->about.h, name, d));
out:
    if (rc < 0)
        dg_video_close(out);
    return rc;
}

void dg_video_close(dg_video **v)
{
    if (!*v)
        return;
    if ((*v)->in)
        (*v)->module.m->close((*v)->in);
    unload(&(*v)->module);
    free(*v);
    *v = NULL;
}

/* At the end: what the video lacks. */
static int check_whole(const dg_video *v, dg_diag *d)
{
    const int64_t damaged = v->module.m->damaged(v->in);

    if (!v->live && v->about.frames_said && (double)v->n < (1 - may_lack) * (double)v->about.frames)
        return dg_fail(d, DG_EINPUT, in_file(v->name), "video-damaged",
                       "the video ends after frame %lld of %lld", (long long)v->n,
                       (long long)v->about.frames);
    if (damaged)
        return dg_fail(d, DG_EINPUT, in_file(v->name), "video-damaged",
                       "%lld part%s of the video %s damaged; %lld frame%s read", (long long)damaged,
                       dg_plural(damaged, "s"), damaged == 1 ? "is" : "are", (long long)v->n,
                       v->n == 1 ? " was" : "s were");
    return 0;
}

int dg_video_next(dg_video *v, dg_video_frame *out, dg_scratch *s, dg_diag *d)
{
    char text[DG_VIDEO_TEXT] = "";
    dg_video_now now;
    dg_image im;
    int rc;

    do {
        rc = v->module.m->next(v->in, &now, text);
        v->n += rc > 0;
    } while (rc > 0 && (v->n - 1) % v->stride);
    if (rc == 0)
        return check_whole(v, d);
    if (rc > 0) {
        DG_TRY(dg_image_check_size(now.w, now.h, v->name, d));
        DG_TRY(dg_image_alloc(&im, s, now.w, now.h, d));
        rc = v->module.m->pixels(v->in, im.rgb, text);
    }
    if (rc < 0)
        return dg_fail(d, DG_EINPUT, in_file(v->name), "video-damaged", "after frame %lld: %s",
                       (long long)v->n, text);
    DG_TRY(dg_image_turn(&im, s, v->about.orientation, d));
    *out = (dg_video_frame){ im, v->n - 1, now.seconds };
    rc = 1;
out:
    return rc;
}

int64_t dg_video_frames(const dg_video *v)
{
    return v->live ? 0 : (v->about.frames + v->stride - 1) / v->stride;
}

double dg_video_fps(const dg_video *v)
{
    return v->about.fps / (double)v->stride;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int cannot_write(const dg_film *f, const char *text, dg_diag *d)
{
    return dg_fail(d, DG_EIO, in_file(f->path), "video-write", "the video cannot be written: %s",
                   text);
}

static void free_film(dg_film **f)
{
    unload(&(*f)->module);
    dg_outfile_close(&(*f)->file);
    free((*f)->path);
    free(*f);
    *f = NULL;
}

int dg_film_open(dg_film **out, const char *path, int w, int h, double fps, dg_diag *d)
{
    dg_film *f = calloc(1, sizeof *f);
    char text[DG_VIDEO_TEXT] = "";
    int rc;

    *out = f;
    if (f)
        f->path = strdup(path);
    if (!f || !f->path) {
        free(f);
        *out = NULL;
        return dg_fail(d, DG_EMEMORY, in_file(path), "out-of-memory", "no memory for a video");
    }
    DG_TRY(load(&f->module, path, d));
    if (dg_is_folder(path)) { /* else noticed in the end only */
        rc = cannot_write(f, "a folder has its name", d);
        goto out;
    }
    DG_TRY(dg_outfile_open(&f->file, path, d));
    f->out = f->module.m->create(dg_outfile_partial(f->file), w, h, fps, text);
    rc = f->out ? 0 : cannot_write(f, text, d);
out:
    if (rc < 0)
        free_film(out);
    return rc;
}

int dg_film_add(dg_film *f, const dg_image *im, double seconds, dg_diag *d)
{
    char text[DG_VIDEO_TEXT] = "";

    if (f->module.m->add(f->out, im->rgb, im->w, im->h, seconds, text) == 0)
        return 0;
    f->failed = true;
    return cannot_write(f, text, d);
}

int dg_film_close(dg_film **f, dg_diag *d)
{
    char text[DG_VIDEO_TEXT] = "";
    int rc = 0;

    if (!*f)
        return 0;
    if ((*f)->module.m->finish((*f)->out, text) < 0 && !(*f)->failed)
        rc = cannot_write(*f, text, d);
    if ((*f)->failed)
        rc = -DG_EIO; /* reported when adding failed */
    if (rc == 0)
        rc = dg_outfile_commit((*f)->file, d);
    free_film(f);
    return rc;
}
