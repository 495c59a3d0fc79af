/* recorder.c: a ring of records in a memfd. A writer takes the next number; a record is valid if
 * its number matches its slot, so no lock is needed. Readers check everything: the writer may
 * have died in the middle of a record. */
#include "control/recorder.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"

typedef struct place {
    char node[112], file[128];
    int32_t line, column;
} place;

typedef struct record {
    _Atomic uint64_t number; /* from 1; 0: being written */
    int64_t step;
    double begin_s, end_s; /* end_s 0: in progress, or a word */
    uint64_t schedule;     /* of a word; of digests: their hash */
    int64_t elements;      /* of a collective */
    uint32_t place;
    char op[20], type[8];
} record;

struct dg_recorder { /* in shared memory */
    _Atomic uint64_t n, changes;
    _Atomic int64_t step, saved, saving;
    _Atomic uint32_t n_places, place, waits;
    place places[DG_PLACES];
    record ring[DG_RECORDS];
};

int dg_recorder_create(int *fd, dg_diag *d)
{
    *fd = memfd_create("detrgraph recorder", MFD_CLOEXEC);
    if (*fd < 0)
        return dg_fail_os(d, errno, NULL, "recorder-memory",
                          "no shared memory for the flight recorder");
    return ftruncate(*fd, sizeof(dg_recorder)) == 0
               ? 0
               : dg_fail_os(d, errno, NULL, "recorder-memory", "no room for the flight recorder");
}

int dg_recorder_open(dg_recorder **r, int fd, dg_diag *d)
{
    struct stat st;
    void *p;

    *r = NULL;
    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(dg_recorder))
        return dg_fail_os(d, errno, NULL, "recorder-memory",
                          "not enough shared memory for the flight recorder");
    p = mmap(NULL, sizeof(dg_recorder), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return dg_fail_os(d, errno, NULL, "recorder-memory", "no mapping for the flight recorder");
    *r = p;
    if (!atomic_load(&(*r)->n_places)) {
        atomic_store(&(*r)->saved, -1);
        atomic_store(&(*r)->step, -1);
        atomic_store(&(*r)->n_places, 1);
    }
    return 0;
}

void dg_recorder_close(dg_recorder **r)
{
    if (*r)
        munmap(*r, sizeof **r);
    *r = NULL;
}

void dg_recorder_reset(dg_recorder *r)
{
    memset(r, 0, sizeof *r);
    atomic_store(&r->saved, -1);
    atomic_store(&r->step, -1);
    atomic_store(&r->n_places, 1);
}

/* ---- writing --------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t room, const char *from)
{
    size_t n = from ? strlen(from) : 0;

    if (n >= room) { /* keep the end of a path: it tells more */
        from += n - room + 1;
        n = room - 1;
    }
    memcpy(to, from ? from : "", n);
    memset(to + n, 0, room - n);
}

static place place_at(const dg_where *at)
{
    place p = { .line = at->line, .column = at->column };

    copy_text(p.node, sizeof p.node, at->node);
    copy_text(p.file, sizeof p.file, at->file);
    return p;
}

uint32_t dg_recorder_find(const dg_recorder *r, const dg_where *at)
{
    place p;
    uint32_t n;

    if (!r || !at->node)
        return 0;
    p = place_at(at);
    n = atomic_load_explicit(&r->n_places, memory_order_acquire);
    for (uint32_t i = 1; i < n; i++)
        if (memcmp(&r->places[i], &p, sizeof p) == 0)
            return i;
    return 0;
}

uint32_t dg_recorder_place(dg_recorder *r, const dg_where *at)
{
    uint32_t n, known = dg_recorder_find(r, at);

    if (!r || !at->node || known)
        return known;
    n = atomic_load_explicit(&r->n_places, memory_order_relaxed);
    if (n >= DG_PLACES)
        return 0;
    r->places[n] = place_at(at);
    atomic_store_explicit(&r->n_places, n + 1, memory_order_release);
    return n;
}

void dg_recorder_at(dg_recorder *r, uint32_t where)
{
    if (!r)
        return;
    atomic_store_explicit(&r->place, where, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->changes, 1, memory_order_relaxed);
}

static record *next_record(dg_recorder *r, uint64_t *number)
{
    record *x;

    *number = atomic_fetch_add_explicit(&r->n, 1, memory_order_relaxed) + 1;
    x = &r->ring[*number % DG_RECORDS];
    atomic_store_explicit(&x->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    x->step = atomic_load_explicit(&r->step, memory_order_relaxed);
    x->place = atomic_load_explicit(&r->place, memory_order_relaxed);
    x->begin_s = dg_monotonic_s();
    x->end_s = 0;
    x->schedule = 0;
    x->elements = 0;
    return x;
}

static void publish_record(record *x, uint64_t number)
{
    atomic_store_explicit(&x->number, number, memory_order_release);
}

static uint32_t number_place(void *ctx, const dg_where *at)
{
    return dg_recorder_place(ctx, at);
}

static void go_to(void *ctx, uint32_t number)
{
    dg_recorder_at(ctx, number);
}

dg_exec_observer dg_recorder_observer(dg_recorder *r)
{
    _Static_assert(sizeof(_Atomic uint32_t) == sizeof(uint32_t), "a device writes the place");
    return (dg_exec_observer){
        .ctx = r, .place = number_place, .at = go_to, .word = (uint32_t *)(void *)&r->place
    };
}

void dg_recorder_word(dg_recorder *r, const dg_word *w)
{
    uint64_t number;
    record *x;

    if (!r)
        return;
    atomic_store_explicit(&r->step, w->step, memory_order_relaxed);
    x = next_record(r, &number);
    x->schedule = w->schedule;
    copy_text(x->op, sizeof x->op, "step");
    copy_text(x->type, sizeof x->type, "");
    publish_record(x, number);
}

void dg_recorder_seen(dg_recorder *r, const dg_digests *seen)
{
    uint64_t number;
    record *x;

    if (!r)
        return;
    x = next_record(r, &number);
    x->schedule = dg_hash64(0, seen->v, (size_t)seen->n * sizeof *seen->v);
    copy_text(x->op, sizeof x->op, "seen");
    copy_text(x->type, sizeof x->type, "");
    publish_record(x, number);
}

void dg_recorder_saved(dg_recorder *r, int64_t step)
{
    if (r)
        atomic_store_explicit(&r->saved, step, memory_order_relaxed);
}

void dg_recorder_saving(dg_recorder *r, int64_t step)
{
    if (r)
        atomic_store_explicit(&r->saving, step, memory_order_relaxed);
}

uint64_t dg_recorder_begin(dg_recorder *r, uint32_t where, const char *op, const char *type,
                           int64_t elements)
{
    uint64_t number;
    record *x;

    if (!r)
        return 0;
    x = next_record(r, &number);
    x->elements = elements;
    if (where)
        x->place = where;
    copy_text(x->op, sizeof x->op, op);
    copy_text(x->type, sizeof x->type, type);
    publish_record(x, number);
    return number;
}

void dg_recorder_end(dg_recorder *r, uint64_t number)
{
    record *x = r ? &r->ring[number % DG_RECORDS] : NULL;

    if (x && atomic_load_explicit(&x->number, memory_order_relaxed) == number)
        x->end_s = dg_monotonic_s();
}

void dg_recorder_enter(dg_recorder *r)
{
    if (r)
        atomic_fetch_add_explicit(&r->waits, 1, memory_order_relaxed);
}

void dg_recorder_leave(dg_recorder *r)
{
    if (r) {
        atomic_fetch_sub_explicit(&r->waits, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&r->changes, 1, memory_order_relaxed);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char *text_of(dg_arena *a, const char *p, size_t room)
{
    return dg_strndup(a, p, strnlen(p, room));
}

static uint32_t known_place(const dg_recorder *r, uint32_t i)
{
    uint32_t n = atomic_load_explicit(&r->n_places, memory_order_acquire);

    return i < n && n <= DG_PLACES ? i : 0;
}

void dg_recorder_look(const dg_recorder *r, dg_arena *a, dg_beat *out, uint64_t *changes)
{
    const place *p;

    *out = (dg_beat){ .node = "", .file = "", .step = -1, .saved = -1 };
    *changes = 0;
    if (!r)
        return;
    p = &r->places[known_place(r, atomic_load_explicit(&r->place, memory_order_relaxed))];
    out->node = text_of(a, p->node, sizeof p->node);
    out->file = text_of(a, p->file, sizeof p->file);
    out->line = p->line;
    out->column = p->column;
    out->waits = atomic_load_explicit(&r->waits, memory_order_relaxed) != 0;
    out->step = atomic_load_explicit(&r->step, memory_order_relaxed);
    out->saved = atomic_load_explicit(&r->saved, memory_order_relaxed);
    out->saving = atomic_load_explicit(&r->saving, memory_order_relaxed);
    *changes = (atomic_load_explicit(&r->changes, memory_order_relaxed) << 16) +
               atomic_load_explicit(&r->place, memory_order_relaxed);
}

static void add_place(dg_str *s, const dg_recorder *r, uint32_t where, dg_arena *a)
{
    const place *p = &r->places[known_place(r, where)];

    dg_str_add(s, "\"node\":");
    dg_str_json(s, text_of(a, p->node, sizeof p->node));
    dg_str_add(s, ",\"file\":");
    dg_str_json(s, text_of(a, p->file, sizeof p->file));
    dg_str_fmt(s, ",\"line\":%d,\"column\":%d", p->line, p->column);
}

static void add_record(dg_str *s, const dg_recorder *r, uint64_t number, dg_arena *a)
{
    const record *x = &r->ring[number % DG_RECORDS];

    if (atomic_load_explicit(&x->number, memory_order_acquire) != number)
        return;
    dg_str_fmt(s, "{\"number\":%llu,\"step\":%lld,\"op\":", (unsigned long long)number,
               (long long)x->step);
    dg_str_json(s, text_of(a, x->op, sizeof x->op));
    dg_str_add(s, ",\"type\":");
    dg_str_json(s, text_of(a, x->type, sizeof x->type));
    dg_str_fmt(s, ",\"elements\":%lld,\"schedule\":\"%016llx\",\"begin\":", (long long)x->elements,
               (unsigned long long)x->schedule);
    dg_str_json_real(s, x->begin_s);
    dg_str_add(s, ",\"end\":");
    dg_str_json_real(s, x->end_s);
    dg_str_add(s, ",");
    add_place(s, r, x->place, a);
    dg_str_add(s, "}\n");
}

void dg_recorder_each(const dg_recorder *r, void (*take)(void *ctx, const dg_flight *x), void *ctx)
{
    uint64_t n = r ? atomic_load_explicit(&r->n, memory_order_acquire) : 0,
             first = n > DG_RECORDS ? n - DG_RECORDS + 1 : 1;
    dg_arena *a = dg_arena_open();

    for (uint64_t i = first; i <= n; i++) {
        const record *x = &r->ring[i % DG_RECORDS];
        const place *p = &r->places[known_place(r, x->place)];

        if (atomic_load_explicit(&x->number, memory_order_acquire) == i)
            take(ctx,
                 &(dg_flight){ i, x->step, x->elements, x->begin_s, x->end_s,
                               text_of(a, x->op, sizeof x->op), text_of(a, x->type, sizeof x->type),
                               text_of(a, p->node, sizeof p->node) });
    }
    dg_arena_close(&a);
}

int dg_recorder_dump(const dg_recorder *r, const char *path, int rank, const char *host, dg_diag *d)
{
    uint64_t n = atomic_load_explicit(&r->n, memory_order_acquire),
             first = n > DG_RECORDS ? n - DG_RECORDS + 1 : 1;
    dg_arena *a = dg_arena_open();
    dg_str s = { 0 };
    int rc;

    dg_str_fmt(&s, "{\"rank\":%d,\"host\":", rank);
    dg_str_json(&s, host);
    dg_str_fmt(&s, ",\"step\":%lld,\"saved\":%lld,\"waits\":%s,\"now\":",
               (long long)atomic_load(&r->step), (long long)atomic_load(&r->saved),
               atomic_load(&r->waits) ? "true" : "false");
    dg_str_json_real(&s, dg_monotonic_s());
    dg_str_add(&s, ",");
    add_place(&s, r, atomic_load(&r->place), a);
    dg_str_add(&s, "}\n");
    for (uint64_t i = first; i <= n; i++)
        add_record(&s, r, i, a);
    rc = dg_file_write(path, s.s, s.n, d);
    dg_str_free(&s);
    dg_arena_close(&a);
    return rc;
}
