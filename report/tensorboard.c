/* tensorboard.c: writes the messages of TensorFlow's event.proto, summary.proto and graph.proto
 * that a run needs, field by field (docs/decisions/tensorboard.md explains why by hand).
 *
 * A record:  u64 length   u32 mask(crc(length))   data   u32 mask(crc(data)),  little-endian;
 *           mask(c) = (c >> 15 | c << 17) + 0xa282ead8,  crc: CRC-32C (Castagnoli), reflected.
 * A field:   base/proto.h. */
#include "report/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proto.h"
#include <detrgraph/data.h>

const char dg_tensorboard_name[] = "events.out.tfevents.detrgraph";

enum { HEAD = 12, TAIL = 4, MOST = 64 << 20 };
enum { VARINT = 0, FIXED64 = 1 }; /* wire types, for reading a file again */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_GRAPH = 4, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_NUMBER = 2, VALUE_IMAGE = 4 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_CHANNELS = 3, IMAGE_BYTES = 4 };
enum {
    GRAPH_NODE = 1,
    NODE_NAME = 1,
    NODE_OP = 2,
    NODE_INPUT = 3,
    NODE_ATTR = 5,
    ATTR_KEY = 1,
    ATTR_VALUE = 2,
    VALUE_TEXT = 2
};

struct dg_tensorboard {
    int fd;
    char *path;
    uint64_t end; /* end of the last complete record */
};

uint32_t dg_crc32c(const void *p, size_t n)
{
    static const uint32_t table[16] = {
        /* table of four bits, polynomial 0x82f63b78 */
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const uint8_t *b = p;
    uint32_t c = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        c ^= b[i];
        c = c >> 4 ^ table[c & 15];
        c = c >> 4 ^ table[c & 15];
    }
    return ~c;
}

static uint32_t masked(const void *p, size_t n)
{
    uint32_t c = dg_crc32c(p, n);

    return (c >> 15 | c << 17) + 0xa282ead8u;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void put_little(dg_str *s, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        char b = (char)(v >> 8 * i & 0xff);

        dg_str_add_n(s, &b, 1);
    }
}

/* ---- records --------------------------------------------------------------------------------- */

/* Appends the record, or nothing. */
static int append(dg_tensorboard *e, const dg_str *record, dg_diag *d)
{
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < record->n;) {
        ssize_t k = write(e->fd, record->s + at, record->n - at);

        if (k > 0)
            at += (size_t)k;
        else if (errno != EINTR)
            rc = dg_fail_os(d, errno, e->path, "events-write", "cannot write");
    }
    if (rc == 0)
        e->end += record->n;
    else if (ftruncate(e->fd, (off_t)e->end) != 0)
        dg_note(d, DG_NOWHERE, "its last record is cut short, which readers pass over");
    return rc;
}

/* Appends an event: time, step, and a field with the contents of `what`, which is emptied. */
static int add_event(dg_tensorboard *e, int64_t step, int field, dg_str *what, dg_diag *d)
{
    dg_str event = { 0 }, record = { 0 };
    struct timespec now;
    int rc;

    clock_gettime(CLOCK_REALTIME, &now);
    dg_proto_double(&event, EVENT_TIME, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    dg_proto_int(&event, EVENT_STEP, step);
    dg_proto_message(&event, field, what);
    put_little(&record, event.n, 8);
    put_little(&record, masked(record.s, 8), 4);
    dg_str_add_n(&record, event.s, event.n);
    put_little(&record, masked(event.s, event.n), 4);
    rc = append(e, &record, d);
    dg_str_free(&event);
    dg_str_free(&record);
    return rc;
}

static uint64_t little(const uint8_t *p, int bytes)
{
    uint64_t v = 0;

    for (int i = bytes; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

/* The step of an event, if written by this file: first the time, then the step. */
static int64_t step_of(const uint8_t *p, uint64_t n)
{
    uint64_t v = 0;
    int shift = 0;

    if (n < 10 || p[0] != (EVENT_TIME << 3 | FIXED64) || p[9] != (EVENT_STEP << 3 | VARINT))
        return INT64_MAX;
    for (uint64_t i = 10; i < n && shift < 64; i++, shift += 7) {
        v |= (uint64_t)(p[i] & 0x7f) << shift;
        if (p[i] < 0x80)
            return (int64_t)v;
    }
    return INT64_MAX;
}

/* End of the intact records of steps up to `step`. */
static uint64_t sound_end(const dg_mapping *m, int64_t step)
{
    uint64_t at = 0;

    while (m->n - at >= HEAD + TAIL) {
        const uint8_t *p = m->p + at;
        uint64_t n = little(p, 8);

        if (little(p + 8, 4) != masked(p, 8) || n > m->n - at - HEAD - TAIL ||
            little(p + HEAD + n, 4) != masked(p + HEAD, n) || step_of(p + HEAD, n) > step)
            break;
        at += HEAD + n + TAIL;
    }
    return at;
}

/* ---- the graph ------------------------------------------------------------------------------- */

/* Makes a valid TensorFlow name: letters, digits and _.-/ . */
static const char *clean(dg_arena *a, const char *path)
{
    char *name = dg_strdup(a, path);

    for (char *c = name; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-/", *c))
            *c = '_';
    return name;
}

static void put_attr(dg_str *node, const char *key, const char *text)
{
    dg_str value = { 0 }, pair = { 0 };

    dg_proto_text(&value, VALUE_TEXT, text);
    dg_proto_text(&pair, ATTR_KEY, key);
    dg_proto_message(&pair, ATTR_VALUE, &value);
    dg_proto_message(node, NODE_ATTR, &pair);
}

static void put_node(dg_str *graph, const dg_node *n, dg_arena *a)
{
    dg_str node = { 0 };

    dg_proto_text(&node, NODE_NAME, clean(a, n->path));
    dg_proto_text(&node, NODE_OP, n->element);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].from)
            dg_proto_text(&node, NODE_INPUT, clean(a, n->in[i].from->path));
    if (n->model && n->model->output) /* a <use> has its model's output as input */
        dg_proto_text(&node, NODE_INPUT, clean(a, n->model->output->path));
    for (int i = 0; i < n->item->n_attrs; i++)
        put_attr(&node, n->item->attrs[i].name, n->item->attrs[i].value);
    dg_proto_message(graph, GRAPH_NODE, &node);
}

static void put_scope(dg_str *graph, const dg_scope *s, dg_arena *a)
{
    for (int i = 0; s && i < s->n_nodes; i++)
        put_node(graph, s->nodes[i], a);
}

static int begin_file(dg_tensorboard *e, const dg_graph *g, dg_diag *d)
{
    dg_arena *a = dg_arena_open();
    dg_str version = { 0 }, graph = { 0 };
    int rc;

    dg_str_add(&version, "brain.Event:2");
    rc = add_event(e, 0, EVENT_VERSION, &version, d);
    for (int i = 0; i < g->n_models; i++)
        put_scope(&graph, g->models[i], a);
    put_scope(&graph, g->train, a);
    for (int i = 0; i < g->n_evaluates; i++)
        put_scope(&graph, g->evaluates[i], a);
    if (rc == 0)
        rc = add_event(e, 0, EVENT_GRAPH, &graph, d);
    dg_str_free(&graph);
    dg_arena_close(&a);
    return rc;
}

/* ---- public ---------------------------------------------------------------------------------- */

int dg_tensorboard_open(dg_tensorboard **out, const char *path, int64_t step, const dg_graph *g,
                        dg_diag *d)
{
    dg_tensorboard *e = calloc(1, sizeof *e);
    dg_mapping m = { 0 };
    int rc = 0;

    *out = e;
    if (!e)
        dg_oom(sizeof *e);
    e->path = strdup(path);
    DG_TRY(dg_file_open(&e->fd, path, O_WRONLY | O_CREAT | O_APPEND, d));
    if (lseek(e->fd, 0, SEEK_END) > 0) {
        DG_TRY(dg_file_map(&m, path, d));
        e->end = sound_end(&m, step);
        dg_file_unmap(&m);
        if (ftruncate(e->fd, (off_t)e->end) != 0)
            DG_TRY(dg_fail_os(d, errno, path, "events-write", "cannot write"));
    }
    if (e->end == 0)
        DG_TRY(begin_file(e, g, d));
out:
    if (rc < 0)
        dg_tensorboard_close(out);
    return rc;
}

void dg_tensorboard_close(dg_tensorboard **e)
{
    if (!*e)
        return;
    if ((*e)->fd >= 0)
        close((*e)->fd);
    free((*e)->path);
    free(*e);
    *e = NULL;
}

static void put_tag(dg_str *value, const char *scope, const char *name)
{
    dg_str tag = { 0 };

    dg_str_fmt(&tag, "%s/%s", scope, name);
    dg_proto_text(value, VALUE_TAG, tag.s);
    dg_str_free(&tag);
}

int dg_tensorboard_scalars(dg_tensorboard *e, int64_t step, const char *scope, const dg_metrics *m,
                           dg_diag *d)
{
    dg_str summary = { 0 };

    for (int i = 0; i < m->names.n; i++) {
        dg_str value = { 0 };

        put_tag(&value, scope, m->names.items[i]);
        dg_proto_float(&value, VALUE_NUMBER, (float)m->values.items[i]);
        dg_proto_message(&summary, SUMMARY_VALUE, &value);
    }
    return add_event(e, step, EVENT_SUMMARY, &summary, d);
}

int dg_tensorboard_picture(dg_tensorboard *e, int64_t step, const char *tag, const char *file,
                           dg_diag *d)
{
    dg_str summary = { 0 }, value = { 0 }, image = { 0 };
    char *bytes = NULL;
    size_t n;
    int w, h, rc;

    DG_TRY(dg_image_size(&w, &h, file, d));
    DG_TRY(dg_file_read(&bytes, &n, file, MOST, d));
    dg_proto_int(&image, IMAGE_HEIGHT, h);
    dg_proto_int(&image, IMAGE_WIDTH, w);
    dg_proto_int(&image, IMAGE_CHANNELS, 3);
    dg_proto_bytes(&image, IMAGE_BYTES, bytes, n);
    dg_proto_text(&value, VALUE_TAG, tag);
    dg_proto_message(&value, VALUE_IMAGE, &image);
    dg_proto_message(&summary, SUMMARY_VALUE, &value);
    rc = add_event(e, step, EVENT_SUMMARY, &summary, d);
out:
    dg_free(bytes);
    return rc;
}
