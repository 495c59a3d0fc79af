/* ffmpeg.c: see module.h; the only file that uses FFmpeg's libraries. A file is read through our
 * own stdio, and may name no other one: playlists in disguise open nothing. */
#include "media/video/module.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>
#include <libavdevice/avdevice.h>
#include <libavformat/avformat.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>

enum { IO_BYTES = 1 << 16, TICKS = 1000 /* of a second in what is written */ };
enum { MOST_LATE = 256 }; /* no decoder holds back as many frames */

static void say(char *text, const char *what, int code)
{
    char why[AV_ERROR_MAX_STRING_SIZE] = "";

    av_strerror(code, why, sizeof why);
    snprintf(text, DG_VIDEO_TEXT, "%s%s%s", what, *what ? ": " : "", why);
}

/* Colours of a frame that does not say them: large pictures have those of HDTV. */
static int colours_of(const AVFrame *f)
{
    return f->colorspace != AVCOL_SPC_UNSPECIFIED && f->colorspace != AVCOL_SPC_RGB
               ? (int)f->colorspace
           : f->height >= 720 ? SWS_CS_ITU709
                              : SWS_CS_ITU601;
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct video {
    FILE *file;
    AVIOContext *io;
    AVFormatContext *in;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scale;
    int stream;
    bool flushed;
    int late;   /* failures since then */
    int broken; /* the error that reading ended with */
    int64_t n, damaged;
    double fps, first; /* seconds of the first frame */
} video;

static int on_read(void *self, uint8_t *to, int n)
{
    video *v = self;
    const size_t k = fread(to, 1, (size_t)n, v->file);

    return k ? (int)k : ferror(v->file) ? AVERROR(EIO) : AVERROR_EOF;
}

static int64_t on_seek(void *self, int64_t to, int from)
{
    video *v = self;
    off_t at, end;

    if (from == AVSEEK_SIZE) {
        at = ftello(v->file);
        end = fseeko(v->file, 0, SEEK_END) == 0 ? ftello(v->file) : -1;
        return fseeko(v->file, at, SEEK_SET) == 0 ? end : -1;
    }
    return fseeko(v->file, to, from & ~AVSEEK_FORCE) == 0 ? ftello(v->file) : AVERROR(errno);
}

static int refuse_other_file(AVFormatContext *in, AVIOContext **io, const char *url, int flags,
                             AVDictionary **options)
{
    (void)in, (void)io, (void)url, (void)flags, (void)options;
    return AVERROR(EACCES);
}

static int open_file(video *v, const char *name, const char **what)
{
    /* O_NONBLOCK: opening a pipe without a writer would block; for files it changes nothing */
    const int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    uint8_t *buffer;

    if (fd < 0) {
        assert(errno > 0); /* so that what is returned is a failure */
        return AVERROR(errno);
    }
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        *what = "a file is expected, not a folder, device or pipe";
        return AVERROR(EINVAL);
    }
    v->file = fdopen(fd, "rb");
    if (!v->file) {
        close(fd);
        return AVERROR(ENOMEM);
    }
    buffer = av_malloc(IO_BYTES);
    v->io = buffer ? avio_alloc_context(buffer, IO_BYTES, 0, v, on_read, NULL, on_seek) : NULL;
    v->in = avformat_alloc_context();
    if (!v->io || !v->in) {
        if (!v->io)
            av_free(buffer);
        return AVERROR(ENOMEM);
    }
    v->in->pb = v->io;
    v->in->io_open = refuse_other_file;
    av_opt_set(v->in, "protocol_whitelist", "none", 0);
    return avformat_open_input(&v->in, name, NULL, NULL);
}

static int open_device(video *v, const char *name, const char *device)
{
    const AVInputFormat *kind;

    avdevice_register_all();
    kind = av_find_input_format(device);
    if (!kind || !kind->priv_class ||
        (kind->priv_class->category != AV_CLASS_CATEGORY_DEVICE_VIDEO_INPUT &&
         kind->priv_class->category != AV_CLASS_CATEGORY_DEVICE_INPUT))
        return AVERROR_DEMUXER_NOT_FOUND;
    return avformat_open_input(&v->in, name, kind, NULL);
}

static int orientation_of(const AVStream *s)
{
    const int32_t *matrix;
    int turn;
#if LIBAVFORMAT_VERSION_MAJOR >= 61
    const AVPacketSideData *data =
        av_packet_side_data_get(s->codecpar->coded_side_data, s->codecpar->nb_coded_side_data,
                                AV_PKT_DATA_DISPLAYMATRIX);

    matrix = data && data->size >= 9 * sizeof *matrix ? (const int32_t *)data->data : NULL;
#else
    size_t n = 0;
    const uint8_t *data = av_stream_get_side_data(s, AV_PKT_DATA_DISPLAYMATRIX, &n);

    matrix = data && n >= 9 * sizeof *matrix ? (const int32_t *)(const void *)data : NULL;
#endif
    if (!matrix || !isfinite(av_display_rotation_get(matrix)))
        return 1;
    turn = ((int)lrint(-av_display_rotation_get(matrix) / 90) % 4 + 4) % 4; /* clockwise */
    return turn == 1 ? 6 : turn == 2 ? 3 : turn == 3 ? 8 : 1;
}

static void describe(const video *v, dg_video_about *about)
{
    const AVStream *s = v->in->streams[v->stream];

    *about = (dg_video_about){ .w = s->codecpar->width,
                               .h = s->codecpar->height,
                               .orientation = orientation_of(s),
                               .fps = v->fps,
                               .seconds = -1,
                               .frames = s->nb_frames,
                               .frames_said = s->nb_frames > 0 };
    if (s->duration != AV_NOPTS_VALUE && s->duration > 0)
        about->seconds = (double)s->duration * av_q2d(s->time_base);
    else if (v->in->duration != AV_NOPTS_VALUE && v->in->duration > 0 &&
             v->in->duration_estimation_method != AVFMT_DURATION_FROM_BITRATE)
        about->seconds = (double)v->in->duration / AV_TIME_BASE;
    if (about->frames <= 0)
        about->frames = about->seconds > 0 && about->seconds * v->fps < 1e15
                            ? llrint(about->seconds * v->fps)
                            : 0;
}

static int open_decoder(video *v, int64_t most_pixels, const char **what)
{
    const AVCodec *codec = NULL;
    const AVStream *s;
    int rc = avformat_find_stream_info(v->in, NULL);

    *what = "it is no video that FFmpeg can read";
    if (rc < 0)
        return rc;
    rc = v->stream = av_find_best_stream(v->in, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < v->in->nb_streams; i++)
        if ((int)i != v->stream)
            v->in->streams[i]->discard = AVDISCARD_ALL;
    s = v->in->streams[v->stream];
    *what = "its pictures cannot be decoded";
    v->decoder = avcodec_alloc_context3(codec);
    v->packet = av_packet_alloc();
    v->frame = av_frame_alloc();
    if (!v->decoder || !v->packet || !v->frame)
        return AVERROR(ENOMEM);
    rc = avcodec_parameters_to_context(v->decoder, s->codecpar);
    v->decoder->pkt_timebase = s->time_base;
    v->decoder->max_pixels = most_pixels;
    v->decoder->thread_count = 1; /* the detector has the cores */
    v->fps = s->avg_frame_rate.num > 0 && s->avg_frame_rate.den > 0 ? av_q2d(s->avg_frame_rate) : 0;
    v->first = NAN;
    return rc < 0 ? rc : avcodec_open2(v->decoder, codec, NULL);
}

static void close_video(void *self)
{
    video *v = self;

    sws_freeContext(v->scale);
    av_frame_free(&v->frame);
    av_packet_free(&v->packet);
    avcodec_free_context(&v->decoder);
    avformat_close_input(&v->in);
    if (v->io)
        av_freep(&v->io->buffer);
    avio_context_free(&v->io);
    if (v->file)
        fclose(v->file);
    free(v);
}

static void *open_video(const char *name, const char *device, int64_t most_pixels,
                        dg_video_about *about, char *text)
{
    video *v = calloc(1, sizeof *v);
    const char *what = "";
    int rc;

    av_log_set_level(AV_LOG_QUIET); /* the library would write to standard error */
    if (!v) {
        say(text, "", AVERROR(ENOMEM));
        return NULL;
    }
    rc = device ? open_device(v, name, device) : open_file(v, name, &what);
    if (rc >= 0)
        rc = open_decoder(v, most_pixels, &what);
    if (rc < 0) {
        say(text, what, rc);
        close_video(v);
        return NULL;
    }
    describe(v, about);
    return v;
}

static int take_frame(video *v, dg_video_now *now)
{
    const AVFrame *f = v->frame;
    const AVRational base = v->in->streams[v->stream]->time_base;
    double at = f->best_effort_timestamp != AV_NOPTS_VALUE
                    ? (double)f->best_effort_timestamp * av_q2d(base)
                : v->fps > 0 ? (double)v->n / v->fps + (isfinite(v->first) ? v->first : 0)
                             : (double)v->n;

    if (!isfinite(v->first))
        v->first = at;
    v->damaged += f->decode_error_flags != 0;
    v->n++;
    *now = (dg_video_now){ f->width, f->height, at - v->first };
    return 1;
}

static void send_packet(video *v)
{
    const int rc = av_read_frame(v->in, v->packet);

    if (rc < 0) {
        v->broken = rc == AVERROR_EOF ? 0 : rc;
        v->flushed = true;
        (void)avcodec_send_packet(v->decoder, NULL);
        return;
    }
    if (v->packet->stream_index == v->stream)
        v->damaged += (avcodec_send_packet(v->decoder, v->packet) < 0) |
                      ((v->packet->flags & AV_PKT_FLAG_CORRUPT) != 0);
    av_packet_unref(v->packet);
}

static int next_frame(void *self, dg_video_now *now, char *text)
{
    video *v = self;

    for (;;) {
        const int rc = avcodec_receive_frame(v->decoder, v->frame);

        if (rc >= 0)
            return take_frame(v, now);
        if (rc != AVERROR_EOF && rc != AVERROR(EAGAIN))
            v->damaged++;
        if (rc == AVERROR_EOF ||
            (v->flushed && (rc == AVERROR(EAGAIN) || ++v->late == MOST_LATE))) {
            if (v->broken)
                say(text, "reading ends", v->broken);
            return v->broken ? -1 : 0;
        }
        if (!v->flushed)
            send_packet(v);
    }
}

static int pixels(void *self, uint8_t *rgb, char *text)
{
    video *v = self;
    const AVFrame *f = v->frame;
    uint8_t *planes[4] = { rgb };
    const int strides[4] = { 3 * f->width };
    int rc;

    v->scale =
        sws_getCachedContext(v->scale, f->width, f->height, f->format, f->width, f->height,
                             AV_PIX_FMT_RGB24, SWS_BICUBIC | SWS_ACCURATE_RND, NULL, NULL, NULL);
    if (!v->scale) {
        snprintf(text, DG_VIDEO_TEXT, "its colours cannot be turned into RGB");
        return -1;
    }
    (void)sws_setColorspaceDetails(v->scale, sws_getCoefficients(colours_of(f)),
                                   f->color_range == AVCOL_RANGE_JPEG,
                                   sws_getCoefficients(SWS_CS_DEFAULT), 1, 0, 1 << 16, 1 << 16);
    rc = sws_scale(v->scale, (const uint8_t *const *)f->data, f->linesize, 0, f->height, planes,
                   strides);
    if (rc < 0)
        say(text, "its colours cannot be turned into RGB", rc);
    return rc < 0 ? -1 : 0;
}

static int64_t count_damaged(void *self)
{
    return ((video *)self)->damaged;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct film {
    AVFormatContext *out;
    AVCodecContext *encoder;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scale;
    AVStream *stream;
    int64_t last;  /* time stamp; -1: none yet */
    int64_t ticks; /* how long a frame is shown: a player would leave out the last one */
} film;

static void free_film(film *f)
{
    if (f->out)
        avio_closep(&f->out->pb);
    sws_freeContext(f->scale);
    av_frame_free(&f->frame);
    av_packet_free(&f->packet);
    avcodec_free_context(&f->encoder);
    avformat_free_context(f->out);
    free(f);
}

static int open_encoder(film *f, int w, int h, double fps)
{
    const AVCodec *codec = avcodec_find_encoder_by_name("libx264");
    AVCodecContext *e;

    if (!codec)
        codec = avcodec_find_encoder_by_name("libopenh264");
    if (!codec)
        codec = avcodec_find_encoder(AV_CODEC_ID_MPEG4);
    f->encoder = e = codec ? avcodec_alloc_context3(codec) : NULL;
    if (!e)
        return AVERROR_ENCODER_NOT_FOUND;
    e->width = w;
    e->height = h;
    e->pix_fmt = AV_PIX_FMT_YUV420P;
    e->time_base = (AVRational){ 1, TICKS };
    if (fps > 0)
        e->framerate = av_d2q(fps, TICKS);
    e->colorspace = h >= 720 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
    e->color_range = AVCOL_RANGE_MPEG;
    e->thread_count = 2;
    if (f->out->oformat->flags & AVFMT_GLOBALHEADER)
        e->flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
    if (codec->id == AV_CODEC_ID_MPEG4) {
        e->flags |= AV_CODEC_FLAG_QSCALE;
        e->global_quality = 4 * FF_QP2LAMBDA;
    } else {
        (void)av_opt_set(e->priv_data, "preset", "veryfast", 0);
        (void)av_opt_set(e->priv_data, "crf", "20", 0);
    }
    return avcodec_open2(e, codec, NULL);
}

static int begin_film(film *f, const char *path, int w, int h, double fps)
{
    char url[4096 + 8];
    int rc = avformat_alloc_output_context2(&f->out, NULL, "mp4", path);

    if (rc < 0)
        return rc;
    rc = open_encoder(f, w, h, fps);
    if (rc < 0)
        return rc;
    f->packet = av_packet_alloc();
    f->frame = av_frame_alloc();
    f->stream = avformat_new_stream(f->out, NULL);
    if (!f->packet || !f->frame || !f->stream)
        return AVERROR(ENOMEM);
    f->frame->format = f->encoder->pix_fmt;
    f->frame->width = w;
    f->frame->height = h;
    f->frame->colorspace = f->encoder->colorspace;
    f->frame->color_range = f->encoder->color_range;
    f->stream->time_base = f->encoder->time_base;
    rc = avcodec_parameters_from_context(f->stream->codecpar, f->encoder);
    if (rc >= 0)
        rc = av_frame_get_buffer(f->frame, 0);
    /* "file:": the path may look like another protocol */
    if (rc >= 0 && snprintf(url, sizeof url, "file:%s", path) >= (int)sizeof url)
        rc = AVERROR(ENAMETOOLONG);
    if (rc >= 0)
        rc = avio_open(&f->out->pb, url, AVIO_FLAG_WRITE);
    if (rc >= 0)
        rc = avformat_write_header(f->out, NULL);
    return rc;
}

static void *create_film(const char *path, int w, int h, double fps, char *text)
{
    film *f = calloc(1, sizeof *f);
    int rc = AVERROR(ENOMEM);

    av_log_set_level(AV_LOG_QUIET);
    if (f) {
        f->last = -1;
        f->ticks = fps > 0 && fps < TICKS ? llrint(TICKS / fps) : 1;
        rc = w >= 2 && h >= 2 ? begin_film(f, path, w & ~1, h & ~1, fps) : AVERROR(EINVAL);
    }
    if (rc >= 0)
        return f;
    say(text, "", rc);
    if (f)
        free_film(f);
    return NULL;
}

/* Writes what the encoder has; frame NULL: all that is left. */
static int encode(film *f, const AVFrame *frame)
{
    int rc = avcodec_send_frame(f->encoder, frame);

    while (rc >= 0) {
        rc = avcodec_receive_packet(f->encoder, f->packet);
        if (rc == AVERROR(EAGAIN) || rc == AVERROR_EOF)
            return 0;
        if (rc < 0)
            break;
        f->packet->stream_index = f->stream->index;
        f->packet->duration = f->ticks;
        av_packet_rescale_ts(f->packet, f->encoder->time_base, f->stream->time_base);
        rc = av_interleaved_write_frame(f->out, f->packet);
    }
    return rc;
}

static int add_frame(void *self, const uint8_t *rgb, int w, int h, double seconds, char *text)
{
    film *f = self;
    AVFrame *to = f->frame;
    const uint8_t *planes[4] = { rgb };
    const int strides[4] = { 3 * w };
    const int64_t at = llrint(fmin(fmax(seconds, 0), 1e9) * TICKS);
    int rc = av_frame_make_writable(to);

    if (w - to->width == 1) /* an odd side loses its last row or column */
        w--;
    if (h - to->height == 1)
        h--;
    f->scale = sws_getCachedContext(f->scale, w, h, AV_PIX_FMT_RGB24, to->width, to->height,
                                    to->format, SWS_BICUBIC | SWS_ACCURATE_RND, NULL, NULL, NULL);
    if (rc >= 0 && !f->scale)
        rc = AVERROR(EINVAL);
    if (rc >= 0) {
        (void)sws_setColorspaceDetails(f->scale, sws_getCoefficients(SWS_CS_DEFAULT), 1,
                                       sws_getCoefficients(colours_of(to)), 0, 0, 1 << 16, 1 << 16);
        (void)sws_scale(f->scale, planes, strides, 0, h, to->data, to->linesize);
        f->last = to->pts = at > f->last ? at : f->last + 1;
        rc = encode(f, to);
    }
    if (rc < 0)
        say(text, "", rc);
    return rc < 0 ? -1 : 0;
}

static int finish_film(void *self, char *text)
{
    film *f = self;
    int rc = f->last >= 0 ? encode(f, NULL) : 0, end = av_write_trailer(f->out);

    rc = rc < 0 ? rc : end;
    end = avio_closep(&f->out->pb);
    rc = rc < 0 ? rc : end;
    if (rc < 0)
        say(text, "", rc);
    free_film(f);
    return rc < 0 ? -1 : 0;
}

extern const dg_video_module dg_video_this_module;
__attribute__((visibility("default"))) const dg_video_module dg_video_this_module = {
    .version = DG_VIDEO_VERSION,
    .open = open_video,
    .close = close_video,
    .next = next_frame,
    .pixels = pixels,
    .damaged = count_damaged,
    .create = create_film,
    .add = add_frame,
    .finish = finish_film,
};
