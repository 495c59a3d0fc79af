/* fetch.c: see fetch.h; the only file that uses libcurl.
 *
 * A part is continued with Range and If-Range: the server sends the rest of the very file that the
 * part is of, or all of the present one. */
#include "cli/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/cli.h"
#include "media/json.h"

#ifdef DG_CURL

#include <curl/curl.h>

enum { ATTEMPTS = 5, REDIRECTS = 10, STALLED_S = 60, CONNECT_S = 30 };

typedef struct transfer {
    const char *url, *named, *part, *tag_file; /* named: the address, to be printed and noted */
    dg_arena *arena;
    CURL *curl;
    int fd;
    int64_t had, got; /* bytes in the part before, and now */
    int64_t total;    /* of the whole file; 0: unknown */
    bool begun;       /* the answer's body has begun */
    bool page;        /* it is a web page */
    bool show;
    int write_error; /* errno of a write to the part; 0: none has failed */
    char tag[256];   /* ETag or Last-Modified of this answer */
    char range[64];  /* Content-Range of this answer */
    double shown_s, began_s;
    int64_t status;
    char reason[CURL_ERROR_SIZE];
} transfer;

static void copy_header(char *out, size_t size, const char *text, size_t n)
{
    while (n && (*text == ' ' || *text == '\t')) {
        text++;
        n--;
    }
    while (n && (text[n - 1] == '\r' || text[n - 1] == '\n' || text[n - 1] == ' '))
        n--;
    snprintf(out, size, "%.*s", (int)n, text);
}

/* Remembers what identifies the file; a redirect's answer is followed by another. */
static size_t take_header(char *text, size_t size, size_t n, void *ctx)
{
    transfer *t = ctx;
    const size_t all = size * n;

    if (all > 5 && memcmp(text, "HTTP/", 5) == 0)
        t->tag[0] = t->range[0] = '\0';
    else if (all > 5 && strncasecmp(text, "ETag:", 5) == 0 && !memmem(text, all, "W/", 2))
        copy_header(t->tag, sizeof t->tag, text + 5, all - 5);
    else if (all > 14 && strncasecmp(text, "Last-Modified:", 14) == 0 && !t->tag[0])
        copy_header(t->tag, sizeof t->tag, text + 14, all - 14);
    else if (all > 14 && strncasecmp(text, "Content-Range:", 14) == 0)
        copy_header(t->range, sizeof t->range, text + 14, all - 14);
    return all;
}

/* Looks at the answer before its first byte is written: the rest of the part, or all of a file. */
static bool begin_body(transfer *t)
{
    const char *type = NULL;
    dg_diag *ignored = dg_diag_open();
    long long from = -1, last = 0, all = 0;
    curl_off_t length = -1;
    long status = 0;

    t->begun = true;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    curl_easy_getinfo(t->curl, CURLINFO_CONTENT_TYPE, &type);
    t->page = type && strncasecmp(type, "text/html", 9) == 0;
    if (t->page) {
        dg_diag_close(&ignored);
        return false;
    }
    if (status == 206 && sscanf(t->range, "bytes %lld-%lld/%lld", &from, &last, &all) >= 2 &&
        from == t->had) {
        t->total = all > 0 ? all : 0;
    } else if (status == 206) {
        dg_diag_close(&ignored);
        return false; /* another part than was asked for */
    } else {
        t->had = 0;
        t->total = length > 0 ? length : 0;
    }
    t->got = t->had;
    if (ftruncate(t->fd, t->had) < 0 || lseek(t->fd, t->had, SEEK_SET) < 0) {
        t->write_error = errno;
        dg_diag_close(&ignored);
        return false;
    }
    if (t->tag[0])
        (void)!dg_file_write(t->tag_file, t->tag, strlen(t->tag), ignored);
    else
        unlink(t->tag_file);
    dg_diag_close(&ignored);
    return true;
}

static size_t take_body(char *p, size_t size, size_t n, void *ctx)
{
    transfer *t = ctx;
    const size_t all = size * n;

    if (!t->begun && !begin_body(t))
        return 0;
    for (size_t at = 0; at < all;) {
        const ssize_t k = write(t->fd, p + at, all - at);

        if (k < 0 && errno != EINTR) {
            t->write_error = errno;
            return 0;
        }
        at += k > 0 ? (size_t)k : 0;
    }
    t->got += (int64_t)all;
    return all;
}

static int draw_progress(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t e)
{
    transfer *t = ctx;
    const double now = dg_monotonic_s(), rate = (double)(t->got - t->had) / (now - t->began_s);
    char got[32], all[32], speed[32], left[48];

    (void)a, (void)b, (void)c, (void)e;
    if (!t->show || now - t->shown_s < 0.2 || !t->begun)
        return 0;
    t->shown_s = now;
    dg_line_clear(STDERR_FILENO);
    dg_say_error("%s", dg_human_bytes((double)t->got, got, sizeof got));
    if (t->total)
        dg_say_error(" of %s", dg_human_bytes((double)t->total, all, sizeof all));
    dg_say_error(", %s/s", dg_human_bytes(rate, speed, sizeof speed));
    if (t->total && rate > 0)
        dg_say_error(", %s left",
                     dg_human_time((double)(t->total - t->got) / rate, left, sizeof left));
    fflush(stderr);
    return 0;
}

/* Asks for what the part lacks; without something that identifies the file, for all of it. */
static struct curl_slist *ask_for_rest(transfer *t)
{
    dg_diag *ignored = dg_diag_open();
    char *tag = NULL;
    size_t n = 0;
    struct stat st;
    struct curl_slist *headers = NULL;

    t->had = fstat(t->fd, &st) == 0 ? st.st_size : 0;
    if (t->had > 0 &&
        (!dg_exists(t->tag_file) || dg_file_read(&tag, &n, t->tag_file, 1024, ignored) < 0))
        t->had = 0;
    if (t->had > 0) {
        curl_easy_setopt(t->curl, CURLOPT_RANGE, dg_printf(t->arena, "%lld-", (long long)t->had));
        headers = curl_slist_append(NULL, dg_printf(t->arena, "If-Range: %s", tag));
    }
    t->got = t->had;
    dg_free(tag);
    dg_diag_close(&ignored);
    return headers;
}

static void set_options(transfer *t, struct curl_slist *headers)
{
    const char *certificates = getenv("SSL_CERT_FILE");
    const bool secure = strncmp(t->url, "https:", 6) == 0;

    curl_easy_setopt(t->curl, CURLOPT_URL, t->url);
    curl_easy_setopt(t->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(t->curl, CURLOPT_REDIR_PROTOCOLS_STR, secure ? "https" : "http,https");
    curl_easy_setopt(t->curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(t->curl, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    curl_easy_setopt(t->curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(t->curl, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_S);
    curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(t->curl, CURLOPT_LOW_SPEED_TIME, (long)STALLED_S);
    curl_easy_setopt(t->curl, CURLOPT_USERAGENT, "detrgraph");
    curl_easy_setopt(t->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(t->curl, CURLOPT_ERRORBUFFER, t->reason);
    curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(t->curl, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(t->curl, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_XFERINFOFUNCTION, draw_progress);
    curl_easy_setopt(t->curl, CURLOPT_XFERINFODATA, t);
    curl_easy_setopt(t->curl, CURLOPT_NOPROGRESS, 0L);
    if (certificates && *certificates)
        curl_easy_setopt(t->curl, CURLOPT_CAINFO, certificates);
}

static CURLcode try_once(transfer *t)
{
    struct curl_slist *headers;
    CURLcode code;
    long status = 0;

    curl_easy_reset(t->curl);
    t->begun = false;
    t->reason[0] = '\0';
    t->began_s = dg_monotonic_s();
    headers = ask_for_rest(t);
    set_options(t, headers);
    code = curl_easy_perform(t->curl);
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    t->status = status;
    if (t->show)
        dg_line_clear(STDERR_FILENO);
    curl_slist_free_all(headers);
    return code;
}

static const char *proxy_named(void)
{
    static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy",
                                         "ALL_PROXY" };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);

        if (value && *value)
            return value;
    }
    return NULL;
}

static int fail(const transfer *t, CURLcode code, const char *to, dg_diag *d)
{
    const dg_where at = { .file = t->named };
    const char *why = t->reason[0] ? t->reason : curl_easy_strerror(code), *proxy = proxy_named();

    if (t->page) {
        dg_fail(d, DG_EIO, at, "fetch-page", "what comes is a web page, not a file of weights");
        dg_help(d, "open the address in a browser: it may ask for a login, or link to the file");
        return -DG_EIO;
    }
    switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        dg_fail(d, DG_EIO, at, "fetch-offline", "it cannot be reached: %s", why);
        dg_help(d,
                proxy ? "the way goes by the proxy %s, which the environment names: is it right?"
                      : "is this machine online%s? if it needs a proxy: https_proxy=HOST:PORT in "
                        "the environment",
                proxy ? dg_fetch_named(t->arena, proxy) : "");
        dg_help(d, "or fetch it on another machine, and put it here: %s", to);
        break;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CACERT_BADFILE:
        dg_fail(d, DG_EIO, at, "fetch-tls", "the server is not who it should be: %s", why);
        dg_help(d,
                "certificates of an authority of your own: SSL_CERT_FILE=FILE in the environment");
        break;
    case CURLE_HTTP_RETURNED_ERROR:
        dg_fail(d, DG_EIO, at, "fetch-status", "the server answers %lld", (long long)t->status);
        dg_help(d,
                t->status == 404 || t->status == 410
                    ? "the file is not there any more; its project's page says where it is now"
                    : "try again later, or fetch it with another program and put it here: %s",
                to);
        break;
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
        dg_fail(d, DG_EIO, at, "fetch-redirects",
                code == CURLE_TOO_MANY_REDIRECTS ? "more than %d redirects"
                                                 : "it leads away from TLS, or to no web server "
                                                   "(%d redirects are followed)",
                REDIRECTS);
        break;
    case CURLE_URL_MALFORMAT:
        dg_fail(d, DG_EINPUT, at, "fetch-url", "this is no address of a file on the web");
        break;
    default:
        if (t->write_error) {
            dg_fail_os(d, t->write_error, t->part, "fetch-write", "cannot write");
            break;
        }
        dg_fail(d, DG_EIO, at, "fetch-cut", "it was cut %d times without a byte in between: %s",
                ATTEMPTS, why);
        dg_help(d, "the same command goes on from what is there");
    }
    return -DG_EIO;
}

static bool worth_repeating(CURLcode code, const transfer *t)
{
    switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
        return true;
    case CURLE_HTTP_RETURNED_ERROR:
        return t->status >= 500;
    default:
        return false;
    }
}

/* Fills the part; cut connections are taken up again as long as something comes. */
static int fill_part(transfer *t, const char *to, int64_t *resumed, dg_diag *d)
{
    CURLcode code = CURLE_OK;

    for (int idle = 0; idle < ATTEMPTS; idle++) {
        int64_t before;
        struct stat st;

        before = fstat(t->fd, &st) == 0 ? st.st_size : 0;
        code = try_once(t);
        if (code == CURLE_HTTP_RETURNED_ERROR && t->status == 416) {
            /* the part is longer than the file: it is of another one */
            if (ftruncate(t->fd, 0) == 0)
                unlink(t->tag_file);
            continue;
        }
        if (code == CURLE_OK && !t->begun)
            return dg_fail(d, DG_EIO, (dg_where){ .file = t->named }, "fetch-empty",
                           "the server gives an empty file");
        if (code == CURLE_OK) {
            *resumed = t->had;
            return 0;
        }
        if (code == CURLE_WRITE_ERROR && !t->write_error && !t->page && ftruncate(t->fd, 0) == 0) {
            unlink(t->tag_file); /* another part came than was asked for */
            continue;
        }
        if (!worth_repeating(code, t))
            break;
        if (t->got > before)
            idle = -1;
        else if (idle > 0)
            usleep(50000u << idle);
    }
    return fail(t, code, to, d);
}

/* Moves the whole part to its place, unless it is another file than before. */
static int accept_part(dg_fetched *out, const transfer *t, const char *to, bool force, dg_diag *d)
{
    const char *noted = "";
    int rc = 0;

    if (!force)
        DG_TRY(dg_fetched_noted(&noted, t->arena, to, d));
    DG_TRY(dg_fetched_sum(out, t->part, d));
    if (*noted && strcmp(noted, out->sha256) != 0) {
        rc =
            dg_fail(d, DG_EINPUT, (dg_where){ .file = t->named }, "fetch-differs",
                    "its SHA-256 is %s, and was %s when it was fetched before", out->sha256, noted);
        dg_help(d, "if it was published anew, --force takes it");
        unlink(t->part);
        unlink(t->tag_file);
        goto out;
    }
    DG_TRY(dg_fetched_note(out, t->named, to, d));
    if (fsync(t->fd) < 0 || rename(t->part, to) < 0)
        rc = dg_fail_os(d, errno, to, "fetch-write", "cannot write");
    unlink(t->tag_file);
out:
    return rc;
}

/* Opens the part for this process alone; waits while another one fills it. */
static int open_part(transfer *t, const char *to, dg_diag *d)
{
    bool waits = false, mine = false;
    struct stat open_one, there;

    while (!mine) {
        t->fd =
            open(t->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0644);
        if (t->fd < 0)
            return dg_fail(d, DG_EIO, (dg_where){ .file = t->part }, "fetch-write",
                           "cannot write: %s",
                           errno == ELOOP ? "it is a symbolic link" : strerror(errno));
        if (flock(t->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
            if (!waits)
                dg_say_error("another process fetches it: waiting for %s\n", to);
            waits = true;
            (void)flock(t->fd, LOCK_EX);
        } /* a file system without locks: as if alone */
        mine = fstat(t->fd, &open_one) == 0 && stat(t->part, &there) == 0 &&
               open_one.st_ino == there.st_ino && open_one.st_dev == there.st_dev;
        if (!mine)
            close(t->fd); /* it is whole and in its place, or was given up */
        if (!mine && dg_exists(to)) {
            t->fd = -1;
            return 0;
        }
    }
    return 0;
}

static int fetch(dg_fetched *out, const char *url, const char *to, bool force, bool show,
                 dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    transfer t = {
        .url = url, .named = dg_fetch_named(a, url), .arena = a, .fd = -1, .show = show
    };
    int rc;

    t.part = dg_printf(a, "%s.part", to);
    t.tag_file = dg_printf(a, "%s.part.tag", to);
    DG_TRY(dg_mkdirs(dg_path_folder(a, to), d));
    DG_TRY(open_part(&t, to, d));
    if (t.fd < 0) { /* the other process has fetched it */
        rc = dg_fetched_check(out, to, d);
        goto out;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    t.curl = curl_easy_init();
    rc = t.curl ? fill_part(&t, to, &out->resumed, d)
                : dg_fail(d, DG_EMEMORY, DG_NOWHERE, "out-of-memory", "no memory to fetch");
    if (rc == 0)
        rc = accept_part(out, &t, to, force, d);
    curl_easy_cleanup(t.curl);
    curl_global_cleanup();
out:
    if (rc < 0 && t.fd >= 0 && lseek(t.fd, 0, SEEK_END) == 0)
        unlink(t.part);
    if (t.fd >= 0)
        close(t.fd);
    dg_arena_close(&a);
    return rc;
}

#else

static int fetch(dg_fetched *out, const char *url, const char *to, bool force, bool show,
                 dg_diag *d)
{
    (void)out, (void)force, (void)show;
    dg_fail(d, DG_EUNSUPPORTED, (dg_where){ .file = url }, "fetch-unbuilt",
            "this build has no libcurl");
    dg_help(d,
            "fetch it with another program, and put it here: %s; or install "
            "libcurl4-openssl-dev, then configure and build again",
            to);
    return -DG_EUNSUPPORTED;
}

#endif

const char *dg_fetch_named(dg_arena *a, const char *url)
{
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
    const size_t n = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', n);

    return at ? dg_printf(a, "%.*s%s", (int)(host - url), url, at + 1) : url;
}

int dg_fetch(dg_fetched *out, const char *url, const char *to, bool force, bool show, dg_diag *d)
{
    *out = (dg_fetched){ 0 };
    if (dg_exists(to) && !force)
        return dg_fetched_check(out, to, d);
    return fetch(out, url, to, force, show, d);
}
