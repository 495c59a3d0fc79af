/* viewers: what a run leaves and offers for programs that look on: TensorBoard's file, the trace,
 * the numbers of a run that goes on, in its folder and over HTTP. */
#include "tests/train/leavings.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "report/tensorboard.h"
#include "report/metrics_tail.h"
#include "report/prometheus.h"

/* ---- TensorBoard ----------------------------------------------------------------------------- */

/* A reader of its own: CRC-32C bit by bit, and of the messages what is looked for. */
static uint32_t slow_crc(const uint8_t *p, size_t n)
{
    uint32_t c = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
    }
    return ~c;
}

static uint64_t little(const uint8_t *p, int bytes)
{
    uint64_t v = 0;

    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

typedef struct field {
    int number, type;
    uint64_t value; /* or the length */
    const uint8_t *p;
} field;

/* The next field; false at the end. */
static bool next_field(const uint8_t **p, const uint8_t *end, field *f)
{
    uint64_t v[2] = { 0, 0 };

    if (*p == end)
        return false;
    for (int k = 0; k < 2; k++) {
        for (int shift = 0;; shift += 7) {
            assert_true(*p < end && shift < 64);
            v[k] |= (uint64_t)(**p & 0x7f) << shift;
            if (*(*p)++ < 0x80)
                break;
        }
        f->number = (int)(v[0] >> 3);
        f->type = (int)(v[0] & 7);
        if (f->type == 1 || f->type == 5)
            break;
    }
    f->value = v[1];
    f->p = *p;
    if (f->type == 1 || f->type == 5) {
        f->value = little(*p, f->type == 1 ? 8 : 4);
        *p += f->type == 1 ? 8 : 4;
    } else if (f->type == 2) {
        *p += f->value;
    }
    assert_true(*p <= end);
    return true;
}

typedef struct found {
    int records, scalars, pictures, graph_nodes, versions;
    int64_t steps[64];
    int n_steps; /* events with scalars of the training */
    bool repeated;
} found;

static void read_value(const field *value, found *out, int64_t step)
{
    const uint8_t *p = value->p;
    char tag[64] = "";
    field f;

    while (next_field(&p, value->p + value->value, &f)) {
        if (f.number == 1)
            snprintf(tag, sizeof tag, "%.*s", (int)f.value, (const char *)f.p);
        out->scalars += f.number == 2 && f.type == 5;
        out->pictures += f.number == 4;
    }
    if (strcmp(tag, "train/loss") == 0) {
        for (int i = 0; i < out->n_steps; i++)
            out->repeated |= out->steps[i] == step;
        out->steps[out->n_steps++ & 63] = step;
    }
}

static void read_event(const uint8_t *p, uint64_t n, found *out)
{
    const uint8_t *end = p + n, *inner;
    int64_t step = -1;
    field f, g;

    while (next_field(&p, end, &f)) {
        step = f.number == 2 ? (int64_t)f.value : step;
        out->versions += f.number == 3;
        inner = f.p;
        while (f.number == 4 && next_field(&inner, f.p + f.value, &g))
            out->graph_nodes += g.number == 1;
        while (f.number == 5 && next_field(&inner, f.p + f.value, &g))
            read_value(&g, out, step);
    }
}

static found read_events(toy *t, const char *name)
{
    found out = { 0 };
    char *bytes;
    size_t n, at = 0;

    check_ok(t, dg_file_read(&bytes, &n, toy_path(t, name), 0, t->d));
    while (at < n) {
        const uint8_t *p = (const uint8_t *)bytes + at;
        uint64_t len = little(p, 8);
        uint32_t c = slow_crc(p, 8);

        assert_true(n - at >= 16 && len <= n - at - 16);
        assert_int_equal(little(p + 8, 4), (uint32_t)((c >> 15 | c << 17) + 0xa282ead8u));
        c = slow_crc(p + 12, len);
        assert_int_equal(little(p + 12 + len, 4), (uint32_t)((c >> 15 | c << 17) + 0xa282ead8u));
        read_event(p + 12, len, &out);
        out.records++;
        at += 16 + len;
    }
    dg_free(bytes);
    return out;
}

static const char events_of_a[] = "a/events.out.tfevents.detrgraph";

static void event_file(void **state)
{
    toy *t = *state;
    found f;

    assert_int_equal(dg_crc32c("123456789", 9), 0xe3069283); /* the check value of CRC-32C */
    check_ok(t, train(t, "a", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    f = read_events(t, events_of_a);
    assert_int_equal(f.versions, 1);
    assert_int_equal(f.n_steps, 12);
    assert_int_equal(f.pictures, 2);
    assert_int_equal(f.records, 2 + 12 + 2 * 2);
    assert_int_equal(f.graph_nodes, 2 + 10 + 6); /* of the model, <train>, <evaluate> */
    assert_false(f.repeated);
}

static void event_file_resumed(void **state)
{
    toy *t = *state;
    found f;
    FILE *torn;

    check_ok(t, train(t, "a", (toy_text){ .end = "<checkpoint every=\"4 steps\" keep=\"9\"/>" },
                      (dg_run_train_options){ .steps = 8 }));
    assert_int_equal(read_events(t, events_of_a).n_steps, 8);
    torn = fopen(toy_path(t, events_of_a), "ab"); /* killed while it wrote */
    assert_non_null(torn);
    assert_true(fwrite("\x40\0\0\0\0\0\0\0half", 1, 12, torn) == 12);
    fclose(torn);
    check_ok(t,
             train(t, "a", (toy_text){ .end = "<checkpoint every=\"4 steps\" keep=\"9\"/>" },
                   (dg_run_train_options){ .resume = DG_RUN_RESUME,
                                           .resume_from = toy_path(t, "a/checkpoints/step-000004"),
                                           .force = true }));
    f = read_events(t, events_of_a);
    assert_int_equal(f.n_steps, 12);
    assert_int_equal(f.versions, 1);
    assert_false(f.repeated);
}

static void event_file_that_is_full(void **state)
{
    toy *t = *state;
    dg_tensorboard *e;
    dg_graph none = { 0 };
    struct rlimit before;
    int rc;

    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 10, before.rlim_max }), 0);
    rc = dg_tensorboard_open(&e, toy_path(t, "events"), 0, &none, t->d);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(rc, -DG_EIO);
    assert_null(e);
    assert_true(dg_diag_n(t->d) >= 1);
    assert_string_equal(dg_diag_at(t->d, 0)->id, "events-write");
    dg_diag_clear(t->d);
    /* The run goes on without it, and says so. */
    check_ok(t, dg_mkdirs(toy_path(t, "full/events.out.tfevents.detrgraph"),
                          t->d)); /* no file can be there */
    check_ok(t, train(t, "full", (toy_text){ 0 },
                      (dg_run_train_options){ .resume = DG_RUN_RESUME_AUTO }));
    has(t->log.s, "TensorBoard sees the run up to step 0");
    assert_string_equal(at(at(json_of(t, "full/run.json"), "end"), "state")->text, "done");
}

/* ---- the trace ------------------------------------------------------------------------------- */

static double number(const dg_json *o, const char *key)
{
    assert_int_equal(at(o, key)->kind, DG_JSON_NUMBER);
    return at(o, key)->number;
}

/* Members of an event by its kind, as trace.schema.json has them: the format's own and no others.
 */
static void check_form(const dg_json *e)
{
    static const struct {
        const char *ph, *needs, *may;
    } kinds[] = { { "X", " ph pid tid name ts dur ", " args " },
                  { "C", " ph pid tid name ts args ", "" },
                  { "M", " ph pid tid name args ", "" } };
    static const char *const names[] = { "process_name", "process_labels", "process_sort_index",
                                         "thread_name", "thread_sort_index" };
    const char *ph = at(e, "ph")->text;
    size_t k = 0, known = 0;
    int needed = 0;

    while (k < 2 && strcmp(kinds[k].ph, ph) != 0)
        k++;
    assert_string_equal(kinds[k].ph, ph);
    for (int i = 0; i < e->n; i++) {
        char word[32];

        snprintf(word, sizeof word, " %s ", e->items[i].key);
        if (!strstr(kinds[k].needs, word) && !strstr(kinds[k].may, word))
            fail_msg("a \"%s\" has \"%s\"", ph, e->items[i].key);
        needed += strstr(kinds[k].needs, word) != NULL;
    }
    for (const char *c = kinds[k].needs + 1; *c; c++)
        needed -= *c == ' ';
    assert_int_equal(needed, 0);
    assert_true(number(e, "pid") == 0 && number(e, "tid") >= 0 && *at(e, "name")->text);
    if (k == 0)
        assert_true(number(e, "dur") >= 0 && isfinite(number(e, "ts")));
    if (k == 1)
        assert_true(isfinite(number(at(e, "args"), "value")));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known += strcmp(names[i], at(e, "name")->text) == 0;
    assert_true(k < 2 || known == 1);
}

/* Spans of one track lie inside or beside each other, within what a clock's rounding leaves open.
 */
static void nest(const dg_json *a, const dg_json *b)
{
    double from = number(a, "ts"), to = from + number(a, "dur"), begin = number(b, "ts"),
           end = begin + number(b, "dur");

    if (number(a, "tid") == number(b, "tid") && from < begin - 0.01 && begin < to - 0.01 &&
        end > to + 0.01)
        fail_msg("%s (%g to %g) and %s (%g to %g) overlap", at(a, "name")->text, from, to,
                 at(b, "name")->text, begin, end);
}

static void trace(void **state)
{
    toy *t = *state;
    const dg_json *events;
    int steps = 0, nodes = 0, loaders = 0, ops = 0;

    check_ok(t, train(t, "a", (toy_text){ 0 }, (dg_run_train_options){ .trace = 2 }));
    events = at(json_of(t, "a/trace.json"), "traceEvents");
    for (int i = 0; i < events->n; i++) {
        const dg_json *e = &events->items[i];
        const char *ph = at(e, "ph")->text, *name = at(e, "name")->text;

        check_form(e);
        if (strcmp(ph, "X") != 0)
            continue;
        steps += strncmp(name, "step ", 5) == 0;
        nodes += strcmp(name, "m/net") == 0;
        ops += strcmp(name, "conv2d") == 0;
        loaders += number(e, "tid") >= 16;
        for (int k = 0; k < events->n; k++)
            if (strcmp(at(&events->items[k], "ph")->text, "X") == 0)
                nest(e, &events->items[k]);
    }
    assert_int_equal(steps, 2);
    assert_int_equal(ops, 2);
    assert_int_equal(loaders, 2);
    assert_true(nodes >= 2);
}

/* What a late device does stands on a track of its own. */
static void trace_of_a_device(void **state)
{
    toy *t = *state;
    const dg_json *events;
    int ops = 0, named = 0;

    setenv("DETRGRAPH_DEVICE", "far", 1);
    check_ok(t, train(t, "far", (toy_text){ 0 }, (dg_run_train_options){ .trace = 2 }));
    unsetenv("DETRGRAPH_DEVICE");
    events = at(json_of(t, "far/trace.json"), "traceEvents");
    for (int i = 0; i < events->n; i++) {
        const dg_json *e = &events->items[i];

        check_form(e);
        if (strcmp(at(e, "name")->text, "thread_name") == 0 && number(e, "tid") == 2)
            named += strcmp(at(at(e, "args"), "name")->text, "device") == 0;
        if (strcmp(at(e, "ph")->text, "X") != 0 || strcmp(at(e, "name")->text, "conv2d") != 0)
            continue;
        assert_true(number(e, "tid") == 2);
        ops++;
    }
    assert_int_equal(ops, 2);
    assert_int_equal(named, 1);
}

/* It is a copy for people: without it the run goes on, and saves. */
static void trace_that_cannot_be_written(void **state)
{
    toy *t = *state;

    check_ok(t, dg_mkdirs(toy_path(t, "a/trace.json"), t->d)); /* no file can be there */
    check_ok(t, train(t, "a", (toy_text){ 0 },
                      (dg_run_train_options){ .resume = DG_RUN_RESUME_AUTO,
                                              .trace = 30 })); /* till the end */
    has(t->log.s, "no trace: ");
    assert_string_equal(at(at(json_of(t, "a/run.json"), "end"), "state")->text, "done");
    assert_int_equal(at(json_of(t, "a/run.json"), "per_rank")->n, 1);
    assert_true(dg_exists(toy_path(t, "a/checkpoints/step-000012")));
}

/* ---- looking on ------------------------------------------------------------------------------ */

static void follow(void **state)
{
    toy *t = *state;
    dg_metrics_tail *f = dg_metrics_tail_open(toy_path(t, "a"));
    const dg_now *n = dg_metrics_tail_look(f);
    FILE *more;

    assert_int_equal(n->step, 0);
    assert_string_equal(n->state, "");
    check_ok(t, train(t, "a", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    n = dg_metrics_tail_look(f);
    assert_int_equal(n->step, 12);
    assert_int_equal(n->n_steps, 12);
    assert_true(n->left_s >= 0 && n->images_per_s > 0 && n->memory_bytes > 0 &&
                isfinite(n->mean_loss));
    assert_true(isnan(n->device_memory_bytes)); /* a CPU has none of its own */
    assert_true(isnan(n->device_share));
    assert_string_equal(n->state, "done");
    more = fopen(toy_path(t, "a/metrics.jsonl"), "ab");
    assert_non_null(more);
    fputs("{\"step\":13,\"epoch\":1,\"loss\":0.5,\"seconds\":2,\"device_seconds\":1.5}\n{\"step\":"
          "14,",
          more);
    fclose(more);
    n = dg_metrics_tail_look(f);
    assert_int_equal(n->step, 13);
    assert_true(n->loss == 0.5 && n->device_share == 0.75);
    dg_metrics_tail_close(&f);

    setenv("DETRGRAPH_DEVICE", "far", 1);
    check_ok(t, train(t, "b", (toy_text){ 0 }, (dg_run_train_options){ 0 }));
    unsetenv("DETRGRAPH_DEVICE");
    f = dg_metrics_tail_open(toy_path(t, "b"));
    assert_true(dg_metrics_tail_look(f)->device_memory_bytes > 0);
    dg_metrics_tail_close(&f);
}

/* The trail keeps means of equal parts, however long the run is; another file in the place of the
 * numbers begins anew, also if it is longer. */
static void follow_for_long(void **state)
{
    static const char run[] =
        "{\"steps\":1000,\"accumulate\":2,\"batches_per_epoch\":80,\"end\":{}}";
    toy *t = *state;
    dg_metrics_tail *f = dg_metrics_tail_open(toy_path(t, "long"));
    const char *path = toy_path(t, "long/metrics.jsonl");
    dg_str s = { 0 };
    const dg_now *n;

    check_ok(t, dg_mkdirs(toy_path(t, "long"), t->d));
    check_ok(t, dg_file_write(toy_path(t, "long/run.json"), run, sizeof run - 1, t->d));
    for (int i = 1; i <= 1000; i++)
        dg_str_fmt(&s, "{\"step\":%d,\"epoch\":0,\"loss\":%d}\n", i, 1001 - i);
    dg_str_add(&s, "{\"step\":1000,\"evaluate\":\"e\",\"AP\":0.25,\"constant_AP\":0.125}\n");
    check_ok(t, dg_file_write(path, s.s, s.n, t->d));
    n = dg_metrics_tail_look(f);
    assert_int_equal(n->n_epochs, 25);
    assert_true(n->ap == 0.25 && n->constant_ap == 0.125);
    assert_true(n->n_trail >= DG_TRAIL / 2 && n->n_trail <= DG_TRAIL);
    for (int i = 1; i < n->n_trail; i++) /* means of 32 losses each, one after the other */
        assert_true(n->trail[i - 1] - n->trail[i] == 32);
    assert_true(n->trail[0] == 1000 - 31 / 2.0);
    for (int i = 0; i < 1000; i++)
        dg_str_fmt(&s, "{\"step\":%d,\"epoch\":0,\"loss\":7}\n", i + 1);
    check_ok(t, dg_file_write(path, s.s + s.n - 1, 0, t->d));
    check_ok(t, dg_file_write(path, s.s, s.n, t->d));
    n = dg_metrics_tail_look(f);
    assert_true(n->step == 1000 && n->loss == 7 && n->ap == 0.25);
    dg_str_free(&s);
    dg_metrics_tail_close(&f);
}

/* The launcher knows better than a rank why a run failed. */
static void follow_a_failure(void **state)
{
    static const char run[] = "{\"began\":\"2026-01-02T03:04:05Z\",\"steps\":9,\"end\":{\"state\":"
                              "\"running\",\"why\":\"\"}}",
                      verdict[] = "[{\"message\":\"rank 1 died\"}]";
    const struct timespec before[] = { { 1767322000, 0 }, { 1767322000, 0 } };
    toy *t = *state;
    const char *path = toy_path(t, "lost/flight/verdict.json");
    dg_metrics_tail *f = dg_metrics_tail_open(toy_path(t, "lost"));

    check_ok(t, dg_mkdirs(toy_path(t, "lost/flight"), t->d));
    check_ok(t, dg_file_write(toy_path(t, "lost/run.json"), run, sizeof run - 1, t->d));
    assert_string_equal(dg_metrics_tail_look(f)->state, "running");
    check_ok(t, dg_file_write(path, verdict, sizeof verdict - 1, t->d));
    /* the clock may have been set back since the run began */
    assert_int_equal(utimensat(AT_FDCWD, path, before, 0), 0);
    assert_string_equal(dg_metrics_tail_look(f)->state, "failed");
    assert_string_equal(dg_metrics_tail_look(f)->why, "rank 1 died");
    check_ok(t, dg_file_write(toy_path(t, "lost/control"), "{}", 2, t->d)); /* it goes on */
    assert_string_equal(dg_metrics_tail_look(f)->state, "running");
    dg_metrics_tail_close(&f);
}

static int connect_to(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons((uint16_t)port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* What a server on this port answers to a request. */
static void ask(int port, const char *request, char *reply, size_t room)
{
    int fd = connect_to(port);
    size_t n = 0;
    ssize_t k;

    assert_int_equal(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    while (n + 1 < room && (k = read(fd, reply + n, room - n - 1)) > 0)
        n += (size_t)k;
    reply[n] = '\0';
    close(fd);
}

/* Connections that send a byte now and then are ended between steps, and then others get in. */
static void drips(void **state)
{
    enum { MANY = 64, TRIES = 12000 };
    toy *t = *state;
    int fd[MANY], tries = 0;
    dg_prometheus *s;
    char reply[4096], byte;

    if (dg_prometheus_open(&s, 0, t->d) < 0)
        skip();
    for (int i = 0; i < MANY; i++) {
        fd[i] = connect_to(dg_prometheus_port(s));
        assert_int_equal(write(fd[i], "G", 1), 1);
    }
    for (int i = 0; i < MANY; i++)
        while (recv(fd[i], &byte, 1, MSG_DONTWAIT) < 0 && tries < TRIES) {
            dg_str text = { 0 };

            dg_str_add(&text, "detrgraph_step 7\n");
            dg_prometheus_put(s, &text);
            (void)!send(fd[i], "E", 1, MSG_NOSIGNAL);
            usleep(50000);
            tries++;
        }
    assert_true(tries < TRIES);
    ask(dg_prometheus_port(s), "GET /metrics HTTP/1.0\r\n\r\n", reply, sizeof reply);
    has(reply, "\r\n\r\ndetrgraph_step 7\n");
    for (int i = 0; i < MANY; i++)
        close(fd[i]);
    dg_prometheus_close(&s);
}

static void scrape(void **state)
{
    toy *t = *state;
    dg_prometheus *s, *other;
    dg_str text = { 0 };
    char reply[4096];

    if (dg_prometheus_open(&s, 0, t->d) < 0) {
        check_only(t->d, "metrics-port");
        print_message("without libmicrohttpd\n");
        skip();
    }
    ask(dg_prometheus_port(s), "GET /metrics HTTP/1.0\r\n\r\n", reply, sizeof reply);
    has(reply, " 200 ");
    dg_str_add(&text, "detrgraph_step 7\n");
    dg_prometheus_put(s, &text);
    ask(dg_prometheus_port(s), "GET /metrics HTTP/1.0\r\n\r\n", reply, sizeof reply);
    has(reply, "text/plain; version=0.0.4");
    has(reply, "\r\n\r\ndetrgraph_step 7\n");
    ask(dg_prometheus_port(s), "GET / HTTP/1.0\r\n\r\n", reply, sizeof reply);
    has(reply, " 404 ");
    ask(dg_prometheus_port(s), "POST /metrics HTTP/1.0\r\nContent-Length: 1\r\n\r\nx", reply,
        sizeof reply);
    has(reply, " 405 ");
    dg_prometheus_close(&s);
    dg_prometheus_close(&s);
    /* Somebody else listens there. */
    struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof here;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &n), 0);
    assert_int_equal(dg_prometheus_open(&other, ntohs(here.sin_port), t->d), -DG_EIO);
    check_only(t->d, "metrics-port");
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, toy_set_up, toy_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(event_file),
        TEST(event_file_resumed),
        TEST(event_file_that_is_full),
        TEST(trace),
        TEST(trace_of_a_device),
        TEST(trace_that_cannot_be_written),
        TEST(follow),
        TEST(follow_for_long),
        TEST(follow_a_failure),
        TEST(scrape),
        TEST(drips),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
