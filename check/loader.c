/* loader.c: tests nodes with `open` (loaders). Reads items singly, in another order, on parallel
 * threads, and from the data set opened a second time beside the first. */
#include "check/check_internal.h"

#include <string.h>

enum { ITEMS = 8, THREADS = 4 };
enum { IMAGE, OBJECTS, NAMES, N_PARTS };
static const char *const parts[N_PARTS] = { "image", "list of objects", "name, id or size" };

static int open_set(dg_dataset **set, dg_trial *t, uint64_t seed)
{
    *set = NULL;
    return t->class->open(set, t->node->conf, seed, t->d);
}

static void close_set(dg_dataset *set)
{
    if (set && set->close)
        set->close(set->self);
}

static dg_item_info info_of(const dg_dataset *set, int item)
{
    dg_item_info info = { 0 };

    set->info(set->self, item, &info);
    return info;
}

/* ---- one item -------------------------------------------------------------------------------- */

typedef struct reading {
    const dg_dataset *set;
    int item, rc;
    dg_scratch *scratch;
    dg_sample sample;
    dg_diag *d;
    uint64_t digest[N_PARTS];
} reading;

static uint64_t digest_objects(const dg_sample *s)
{
    uint64_t h = DG_DIGEST;

    for (int i = 0; i < s->n_objects; i++) {
        const dg_object *o = &s->objects[i];
        const double v[] = {
            o->box.x1, o->box.y1, o->box.x2, o->box.y2, o->label, o->crowd, o->area
        };

        h = dg_digest(h, v, sizeof v);
    }
    return h;
}

static uint64_t digest_names(const dg_sample *s)
{
    const int64_t v[] = { s->item, s->image_id, s->orig_w, s->orig_h, s->image.w, s->image.h };
    uint64_t h = dg_digest(DG_DIGEST, v, sizeof v);

    return s->path ? dg_digest(h, s->path, strlen(s->path)) : h;
}

static reading read_item(const dg_dataset *set, int item)
{
    reading r = { .set = set, .item = item, .scratch = dg_scratch_open(0), .d = dg_diag_open() };
    dg_sample *s = &r.sample;

    r.rc = set->sample(set->self, item, s, r.scratch, r.d);
    if (r.rc < 0)
        return r;
    r.digest[IMAGE] = s->image.rgb ? dg_digest(DG_DIGEST, s->image.rgb,
                                               3 * (size_t)s->image.w * (size_t)s->image.h)
                                   : 0;
    r.digest[OBJECTS] = digest_objects(s);
    r.digest[NAMES] = digest_names(s);
    return r;
}

static void forget_item(reading *r)
{
    dg_scratch_close(&r->scratch);
    dg_diag_close(&r->d);
}

/* The k-th item to read: a spread from first to last. */
static int item_at(const dg_dataset *set, int k)
{
    return set->n_items <= ITEMS ? k : (int)((int64_t)k * (set->n_items - 1) / (ITEMS - 1));
}

static int n_read(const dg_dataset *set)
{
    return set->n_items < ITEMS ? set->n_items : ITEMS;
}

/* ---- what the data set declares -------------------------------------------------------------- */

static bool check_info(dg_node_test *k, dg_trial *t, const dg_dataset *set, int item)
{
    dg_item_info i = info_of(set, item);

    if (i.w < 1 || i.h < 1)
        return dg_test_miss(k, t, NULL, "samplers fill batches by the sizes that `info` says",
                            "info of item %d: its image is %dx%d", item, i.w, i.h);
    if (i.n_objects < 0 || !i.name)
        return dg_test_miss(k, t, NULL, NULL,
                            i.name ? "info of item %d: it has %d objects"
                                   : "info of item %d: it has no name",
                            item, i.n_objects);
    return true;
}

static bool check_set(dg_node_test *k, dg_trial *t, const dg_dataset *set)
{
    if (!set->info || !set->sample || !set->close || !set->name)
        return dg_test_miss(k, t, NULL, NULL, "the data set has no %s",
                            !set->info     ? "`info`"
                            : !set->sample ? "`sample`"
                            : !set->close  ? "`close`"
                                           : "name");
    /* older headers have a smaller struct */
    if (set->size < offsetof(dg_dataset, close) || set->size > sizeof *set)
        return dg_test_miss(k, t, NULL, ".size = sizeof(dg_dataset)",
                            "the data set says that it has %u bytes: it has %zu", set->size,
                            sizeof *set);
    if (set->n_items < 0 || set->n_classes < 1 || !set->classes)
        return dg_test_miss(k, t, NULL, NULL, "the data set has %d items of %d classes%s",
                            set->n_items, set->n_classes,
                            set->classes ? "" : ", and no list of classes");
    for (int i = 0; i < set->n_items; i++)
        if (!check_info(k, t, set, i))
            return false;
    for (int64_t i = 0; i < set->n_truths; i++)
        if (set->truths[i].image < 0 || set->truths[i].image >= set->n_items ||
            set->truths[i].label < 0 || set->truths[i].label >= set->n_classes)
            return dg_test_miss(
                k, t, "truths",
                "`image` is the number of the item, `label` that of the class, both from 0",
                "truth %lld is of item %d and label %d: items are 0 to %d, labels 0 to %d",
                (long long)i, set->truths[i].image, set->truths[i].label, set->n_items - 1,
                set->n_classes - 1);
    return true;
}

/* ---- what a sample is ------------------------------------------------------------------------ */

static bool check_sample(dg_node_test *k, dg_trial *t, const reading *r)
{
    const dg_sample *s = &r->sample;
    dg_item_info i = info_of(r->set, r->item);
    int n = 0;

    if (!s->image.rgb || s->image.w < 1 || s->image.h < 1)
        return dg_test_miss(k, t, "image", NULL, "item %d (\"%s\") has an image of %dx%d%s",
                            r->item, i.name, s->image.w, s->image.h,
                            s->image.rgb ? "" : " without pixels");
    if (s->scratch != r->scratch || !s->path)
        return dg_test_miss(k, t, NULL, "nodes behind the loader use both",
                            "the sample of item %d (\"%s\") has no %s", r->item, i.name,
                            s->path ? "scratch: it is not the one that was given" : "path");
    if (s->image_id != i.id || s->orig_w != i.w || s->orig_h != i.h)
        return dg_test_miss(
            k, t, NULL,
            "plans are made of what `info` says, detections are scaled by what `sample` says",
            "item %d: info says id %lld and %dx%d, its sample says id %lld and %dx%d", r->item,
            (long long)i.id, i.w, i.h, (long long)s->image_id, s->orig_w, s->orig_h);
    for (int o = 0; o < s->n_objects; o++)
        n += !s->objects[o].crowd;
    if (n != i.n_objects)
        return dg_test_miss(
            k, t, "objects",
            "`info` counts what `sample` gives for training: no crowds, no boxes without an area",
            "item %d (\"%s\"): info says %d objects, its sample has %d", r->item, i.name,
            i.n_objects, n);
    return dg_test_objects(k, t, s, r->set->n_classes);
}

static bool check_item(dg_node_test *k, dg_trial *t, const dg_dataset *set, int item)
{
    reading r = read_item(set, item);
    int seen = set->probe ? set->probe(set->self, item, t->d) : r.rc;
    bool fine;

    if ((seen < 0) != (r.rc < 0))
        fine = dg_test_miss(k, t, NULL, "`probe` says of every item whether `sample` can read it",
                            r.rc < 0 ? "item %d: `probe` finds nothing, and it cannot be read: %s"
                                     : "item %d: `probe` finds it unreadable, and it is read: %s",
                            item, dg_test_why(t->arena, r.rc < 0 ? r.d : t->d));
    else if (r.rc < 0)
        fine = set->replace || dg_test_miss(k, t, NULL, NULL, "item %d cannot be read: %s", item,
                                            dg_test_why(t->arena, r.d));
    else
        fine = check_sample(k, t, &r);
    forget_item(&r);
    return fine;
}

bool dg_test_items(dg_node_test *k, dg_trial *t)
{
    dg_dataset *set;
    bool fine;

    if (open_set(&set, t, t->seed) < 0)
        return dg_test_refuse(k, t->d);
    fine = check_set(k, t, set);
    for (int i = 0; fine && i < n_read(set); i++)
        fine = check_item(k, t, set, item_at(set, i));
    dg_test_tally(k, fine ? n_read(set) : 0, "items read", -1);
    close_set(set);
    return fine;
}

/* ---- the same again -------------------------------------------------------------------------- */

static bool same_reading(dg_node_test *k, dg_trial *t, const reading *a, const reading *b,
                         const char *when, const char *help)
{
    if ((a->rc < 0) != (b->rc < 0))
        return dg_test_miss(k, t, NULL, help, "item %d can be read, and cannot, %s: %s", a->item,
                            when, dg_test_why(t->arena, a->rc < 0 ? a->d : b->d));
    for (int i = 0; i < N_PARTS; i++)
        if (a->digest[i] != b->digest[i])
            return dg_test_miss(k, t, NULL, help, "item %d (\"%s\"): its %s is another %s", a->item,
                                info_of(a->set, a->item).name, parts[i], when);
    return true;
}

typedef struct pass { /* all items, in some order */
    const dg_dataset *set;
    int first;
    reading r[ITEMS];
} pass;

static void *read_all(void *ctx)
{
    pass *p = ctx;
    int n = n_read(p->set);

    for (int i = 0; i < n; i++) {
        int at = (p->first + n - i) % n;

        p->r[at] = read_item(p->set, item_at(p->set, at));
    }
    return NULL;
}

static void forget_all(pass *p)
{
    for (int i = 0; i < n_read(p->set); i++)
        forget_item(&p->r[i]);
}

static bool same_pass(dg_node_test *k, dg_trial *t, const pass *a, const pass *b, const char *when,
                      const char *help)
{
    for (int i = 0; i < n_read(a->set); i++)
        if (!same_reading(k, t, &a->r[i], &b->r[i], when, help))
            return false;
    return true;
}

bool dg_test_items_repeat(dg_node_test *k, dg_trial *t)
{
    static const char help[] = "`sample` is a function of the item alone: no counter, no buffer "
                               "and no place in a file that calls share";
    pass p[THREADS + 1];
    dg_dataset *set;
    bool fine;

    if (open_set(&set, t, t->seed) < 0)
        return dg_test_refuse(k, t->d);
    for (int i = 0; i <= THREADS; i++)
        p[i] = (pass){ .set = set, .first = i };
    read_all(&p[THREADS]);
    read_all(&p[0]);
    fine = same_pass(k, t, &p[THREADS], &p[0], "when items are read in another order", help);
    forget_all(&p[0]);
    dg_test_at_once(read_all, p, sizeof *p, THREADS);
    for (int i = 0; fine && i < THREADS; i++)
        fine = same_pass(k, t, &p[THREADS], &p[i], "when it is read by threads side by side", help);
    dg_test_tally(k, (THREADS + 2) * n_read(set), "items read", -1);
    for (int i = 0; i <= THREADS; i++)
        forget_all(&p[i]);
    close_set(set);
    return fine;
}

/* ---- opened again ---------------------------------------------------------------------------- */

/* Hash of what a data set declares: ids, names, sizes, objects, classes. */
static uint64_t manifest(const dg_dataset *set)
{
    uint64_t h = DG_DIGEST;

    for (int i = 0; i < set->n_items; i++) {
        dg_item_info info = info_of(set, i);
        const int64_t v[] = { info.id, info.w, info.h, info.n_objects };

        h = dg_digest(dg_digest(h, v, sizeof v), info.name, strlen(info.name));
    }
    for (int i = 0; i < set->n_classes; i++)
        h = dg_digest(dg_digest(h, &set->classes[i].id, sizeof set->classes[i].id),
                      set->classes[i].name, strlen(set->classes[i].name));
    for (int64_t i = 0; i < set->n_truths; i++) {
        const dg_coco_annotation *a = &set->truths[i];
        const double v[] = { (double)a->id, a->image, a->label, a->x, a->y, a->w, a->h, a->crowd };

        h = dg_digest(h, v, sizeof v);
    }
    return h;
}

static bool same_set(dg_node_test *k, dg_trial *t, const dg_dataset *a, const dg_dataset *b)
{
    static const char help[] = "ranks open it each for itself: what it holds follows from "
                               "attributes, files and the seed; sort what a folder lists";

    if (a->n_items != b->n_items)
        return dg_test_miss(k, t, NULL, help, "it has %d items, and %d when it is opened again",
                            a->n_items, b->n_items);
    if (manifest(a) != manifest(b))
        return dg_test_miss(k, t, NULL, help,
                            "ids, names, sizes, objects or classes of its %d items are others when "
                            "it is opened again",
                            a->n_items);
    if (a->digest != b->digest)
        return dg_test_miss(
            k, t, "digest", "make it of ids, sizes and objects, with dg_digest",
            "the same items have the digest %016llx, and %016llx when it is opened again",
            (unsigned long long)a->digest, (unsigned long long)b->digest);
    return true;
}

bool dg_test_reopen(dg_node_test *k, dg_trial *t)
{
    dg_dataset *a, *b = NULL;
    bool fine;

    if (open_set(&a, t, t->seed) < 0)
        return dg_test_refuse(k, t->d);
    if (open_set(&b, t, t->seed) < 0) {
        fine = dg_test_miss(k, t, NULL, "training and evaluation may open the same data",
                            "it cannot be opened a second time: %s", dg_test_why(t->arena, t->d));
    } else {
        pass one = { .set = a }, two = { .set = b, .first = 1 };

        fine = same_set(k, t, a, b);
        if (fine) {
            read_all(&one);
            read_all(&two);
            fine = same_pass(k, t, &one, &two, "when the data are opened again",
                             "what a sample holds follows from attributes, files and the seed");
            forget_all(&one);
            forget_all(&two);
        }
    }
    close_set(b);
    close_set(a);
    return fine;
}

/* Ranks and resumed runs compare their data by the digest. */
bool dg_test_digest(dg_node_test *k, dg_trial *t)
{
    dg_trial next = *t;
    dg_dataset *a, *b = NULL;
    bool fine = true;
    int n = 0;

    if (open_set(&a, t, t->seed) < 0)
        return dg_test_refuse(k, t->d);
    next.seed++;
    next.kind = DG_TRIAL_DRAWN;
    next.g = NULL;
    next.node = NULL;
    next.dims = (dg_str){ 0 };
    if (dg_trial_open(&next) == 0 && open_set(&b, &next, next.seed) == 0) {
        n = manifest(a) != manifest(b);
        if (n && a->digest == b->digest)
            fine = dg_test_miss(k, t, "digest",
                                "make it of ids, sizes and objects, with dg_digest: ranks with "
                                "other data find out by it",
                                "the digest is %016llx here, and of the other data of %s too",
                                (unsigned long long)a->digest, next.element);
    }
    dg_test_tally(k, n, "pairs of data that differ", -1);
    close_set(b);
    dg_trial_close(&next);
    close_set(a);
    return fine;
}
