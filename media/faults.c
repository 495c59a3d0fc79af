/* faults.c: the table of data set faults, and a collector. */
#include "media/faults.h"

#include <string.h>

#include "base/diag.h"

static const dg_fault_row rows[DG_N_FAULTS] = {
    [DG_FAULT_ANNOTATION] = { "annotation", "annotations that cannot be read",
                              "mend or remove the file or line", true },
    [DG_FAULT_IMAGE_MISSING] = { "image-missing", "images that are missing",
                                 "put the file there, or take its entry out of the annotations",
                                 true },
    [DG_FAULT_IMAGE_UNREADABLE] = { "image-unreadable", "images that cannot be read",
                                    "convert to PNG, or remove; on_error=\"replace\" takes "
                                    "others in their place",
                                    true },
    [DG_FAULT_IMAGE_CUT] = { "image-cut", "images that end too early",
                             "copy or download the file again", true },
    [DG_FAULT_IMAGE_SIZE] = { "image-size", "images of another size than annotated",
                              "the boxes belong to another version of the image: scale them, or "
                              "get that one",
                              true },
    [DG_FAULT_IMAGE_TWICE] = { "image-twice", "images listed twice", "keep one of the entries",
                               true },
    [DG_FAULT_ID_TWICE] = { "box-id-twice", "boxes of one id",
                            "give every annotation an id of its own", true },
    [DG_FAULT_CLASS_TWICE] = { "class-twice", "classes listed twice", "keep one of them", true },
    [DG_FAULT_CLASS_UNKNOWN] = { "class-unknown", "boxes of an unknown class",
                                 "list the class, or take the boxes out", true },
    [DG_FAULT_IMAGE_UNKNOWN] = { "image-unknown", "boxes of an unknown image",
                                 "list the image, or take the boxes out", true },
    [DG_FAULT_CLASSES_DIFFER] = { "classes-differ", "splits with other classes",
                                  "list the same classes in all splits, those without objects too",
                                  true },
    [DG_FAULT_LEAK] = { "leak", "images in two splits",
                        "scores on images that were trained on say nothing: keep each in one split",
                        true },
    [DG_FAULT_BOX_NORMALIZED] = { "box-normalized", "splits with boxes in shares of the image",
                                  "multiply x and width by the image's width, y and height by its "
                                  "height",
                                  true },
    [DG_FAULT_BOX_FORM] = { "box-form", "splits with boxes in another form",
                            "training would cut or drop them: convert the four numbers", true },
    [DG_FAULT_NO_OBJECTS] = { "no-objects", "data sets without objects",
                              "nothing can be learned from it: label some images", true },
    [DG_FAULT_BOX_EMPTY] = { "box-empty", "boxes without width or height",
                             "training leaves them out", false },
    [DG_FAULT_BOX_OUTSIDE] = { "box-outside", "boxes outside their image",
                               "training leaves them out", false },
    [DG_FAULT_BOX_CUT] = { "box-cut", "boxes that reach outside their image",
                           "training cuts them to the image", false },
    [DG_FAULT_BOX_TWICE] = { "box-twice", "boxes drawn twice",
                             "one object has one box: keep the better one", false },
    [DG_FAULT_IMAGE_COPY] = { "image-copy", "images that are copies of others in their split",
                              "copies weigh more than other images: keep one", false },
    [DG_FAULT_UNLISTED] = { "unlisted", "files that no split uses",
                            "forgotten, or no longer wanted?", false },
    [DG_FAULT_CSV_COLUMNS] = { "csv-columns", "tables whose columns were guessed",
                               "look whether the boxes are right, or write a first line like "
                               "filename,class,xmin,ymin,xmax,ymax",
                               false },
    [DG_FAULT_CLASS_ALIKE] = { "class-alike", "classes with nearly the same name",
                               "two spellings of one class? write it alike in all annotations",
                               false },
    [DG_FAULT_CLASS_EMPTY] = { "class-empty", "classes without objects",
                               "label some, or take the class off the list", false },
    [DG_FAULT_CLASS_UNTRAINED] = { "class-untrained", "classes without objects to train on",
                                   "deal the images out again, so that each split has every class",
                                   false },
};

const dg_fault_row *dg_fault_row_of(dg_fault_kind kind)
{
    return &rows[kind];
}

static void add(dg_faults *f, dg_fault_kind kind, int image, dg_where at, const char *text)
{
    f->of[kind].n++;
    if (f->of[kind].kept.n == DG_FAULTS_KEPT)
        return;
    if (at.file)
        at.file = dg_strdup(f->arena, at.file);
    DG_PUSH(f->arena, f->of[kind].kept,
            ((dg_fault){ at, dg_strdup(f->arena, text), f->split, image }));
}

int dg_fault_or_fail(dg_faults *f, dg_diag *d, dg_fault_kind kind, dg_where at, const char *id,
                     const char *fmt, ...)
{
    dg_arena *a = dg_arena_open();
    const char *text;
    va_list ap;
    int rc = 1;

    va_start(ap, fmt);
    text = dg_vprintf(a, fmt, ap);
    va_end(ap);
    if (f)
        add(f, kind, -1, at, text);
    else
        rc = dg_fail(d, DG_EINPUT, at, id, "%s", text);
    dg_arena_close(&a);
    return rc;
}

void dg_fault_note(dg_faults *f, dg_fault_kind kind, int image, dg_where at, const char *fmt, ...)
{
    va_list ap;

    if (f->of[kind].kept.n == DG_FAULTS_KEPT) {
        f->of[kind].n++;
        return;
    }
    va_start(ap, fmt);
    add(f, kind, image, at, dg_vprintf(f->arena, fmt, ap));
    va_end(ap);
}

/* `kind` for an error; for a warning the kind of its id, or DG_N_FAULTS. */
static dg_fault_kind kind_of(const dg_err *e, dg_fault_kind kind)
{
    int i = 0;

    if (e->severity == DG_ERROR)
        return kind;
    while (i < DG_N_FAULTS && strcmp(rows[i].id, e->id) != 0)
        i++;
    return (dg_fault_kind)i;
}

void dg_fault_take(dg_faults *f, dg_fault_kind kind, int image, dg_diag *d)
{
    dg_arena *a = dg_arena_open();

    for (int i = 0; i < dg_diag_n(d); i++) {
        const dg_err *e = dg_diag_at(d, i);
        const dg_fault_kind as = kind_of(e, kind);
        const char *text = e->text;

        for (int k = 0; k < e->n_remarks; k++)
            text = dg_printf(a, "%s; %s", text, e->remarks[k].text);
        if (as != DG_N_FAULTS)
            add(f, as, image, e->at, text);
    }
    dg_diag_clear(d);
    dg_arena_close(&a);
}

static int64_t count(const dg_faults *f, bool error)
{
    int64_t n = 0;

    for (int i = 0; i < DG_N_FAULTS; i++)
        n += rows[i].error == error ? f->of[i].n : 0;
    return n;
}

int64_t dg_faults_errors(const dg_faults *f)
{
    return count(f, true);
}

int64_t dg_faults_warnings(const dg_faults *f)
{
    return count(f, false);
}
