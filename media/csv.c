/* csv.c: a table with a row for each box, with or without a header:
 *
 *   filename,width,height,class,xmin,ymin,xmax,ymax       corners
 *   image;x;y;w;h;label                                   corner and size
 *   a.jpg,1,2,30,40,nut                                   no header
 *
 * Columns are recognised by their names, in any order and case. Separators are the commas,
 * semicolons or tabs of the first line; fields may be in quotes. A row with an image alone is an
 * image without objects. */
#include "media/marks.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/diag.h"
#include "base/str.h"
#include "media/image.h"

enum { MAX_COLUMNS = 64 };

typedef enum field {
    IMAGE,
    CLASS,
    X1,
    Y1,
    X2,
    Y2,
    BOX_W,
    BOX_H,
    CX,
    CY,
    IMAGE_W,
    IMAGE_H,
    N_FIELDS
} field;

/* Names in lower case, without anything but letters and digits; the first that occurs counts. */
static const char *const names[N_FIELDS] = {
    [IMAGE] = "filename file imagename imagepath filepath path image img imageid",
    [CLASS] = "class label classname labelname category categoryname object name",
    [X1] = "xmin x1 left xtl bboxx boxx x",
    [Y1] = "ymin y1 top ytl bboxy boxy y",
    [X2] = "xmax x2 right xbr",
    [Y2] = "ymax y2 bottom ybr",
    [BOX_W] = "bboxwidth boxwidth bboxw boxw w width",
    [BOX_H] = "bboxheight boxheight bboxh boxh h height",
    [CX] = "cx xcenter xcentre centerx centrex xc",
    [CY] = "cy ycenter ycentre centery centrey yc",
    [IMAGE_W] = "imagewidth imgwidth imw imagew width",
    [IMAGE_H] = "imageheight imgheight imh imageh height",
};

typedef struct reader {
    dg_marks *marks;
    const char *file, *path;
    char separator;
    int column[N_FIELDS]; /* -1: there is none */
    int n, line;          /* of the current row */
    char *cell[MAX_COLUMNS];
} reader;

static dg_where here(const reader *r)
{
    return (dg_where){ r->path, r->line, 0, NULL };
}

/* Splits the next line at p into cells, in place; returns what follows, NULL at the end. */
static char *next_row(reader *r, char *p)
{
    bool more = true;

    if (!*p)
        return NULL;
    r->line++;
    for (r->n = 0; more;) {
        char *cell = p, *to = p;
        bool quoted = *p == '"';

        p += quoted;
        while (*p && (quoted || (*p != r->separator && *p != '\n' && *p != '\r'))) {
            if (quoted && *p == '"' && p[1] != '"') {
                quoted = false;
                p++;
                continue;
            }
            p += quoted && *p == '"'; /* two quotes are one */
            r->line += *p == '\n';
            *to++ = *p++;
        }
        more = *p == r->separator && *p;
        if (*p == '\r')
            p++;
        p += more || *p == '\n';
        while (to > cell && to[-1] == ' ')
            to--;
        *to = '\0';
        while (*cell == ' ')
            cell++;
        if (r->n < MAX_COLUMNS)
            r->cell[r->n++] = cell;
    }
    return p;
}

/* True if a word of the list is the name, letters and digits compared only. */
static bool is_called(const char *list, const char *name, size_t *at)
{
    char plain[32];
    size_t n = 0;

    for (; *name && n < sizeof plain - 1; name++)
        if (isalnum((unsigned char)*name))
            plain[n++] = (char)tolower((unsigned char)*name);
    plain[n] = '\0';
    *at = 0;
    for (const char *p = list; n && *p; p += strcspn(p, " ") + (p[strcspn(p, " ")] == ' '), ++*at)
        if (strcspn(p, " ") == n && strncmp(p, plain, n) == 0)
            return true;
    return false;
}

static int find_column(const reader *r, field f)
{
    size_t at, best = SIZE_MAX;
    int column = -1;

    for (int i = 0; i < r->n; i++)
        if (is_called(names[f], r->cell[i], &at) && at < best) {
            best = at;
            column = i;
        }
    return column;
}

static bool is_number(const char *cell)
{
    double v;

    return dg_parse_f64(cell, &v) && isfinite(v);
}

/* image,x1,y1,x2,y2,class or image,class,x1,y1,x2,y2 */
static bool guess_columns(reader *r)
{
    const int first = r->n >= 6 && is_number(r->cell[1]) ? 1 : 2;

    if (r->n < 6 || !dg_image_named(r->cell[0]))
        return false;
    for (int i = 0; i < 4; i++)
        if (!is_number(r->cell[first + i]))
            return false;
    r->column[IMAGE] = 0;
    r->column[CLASS] = first == 1 ? 5 : 1;
    for (int i = 0; i < 4; i++)
        r->column[X1 + i] = first + i;
    dg_warn(r->marks->d, here(r), "csv-columns",
            "there is no header: columns are taken for image, %s",
            first == 1 ? "x1, y1, x2, y2, class" : "class, x1, y1, x2, y2");
    return true;
}

static bool has(const reader *r, field f)
{
    return r->column[f] >= 0;
}

/* Recognises the columns; *data: the first row is no header. */
static int take_header(reader *r, bool *data)
{
    int rc;

    for (int f = 0; f < N_FIELDS; f++)
        r->column[f] = find_column(r, (field)f);
    if (has(r, X2) && has(r, Y2)) /* width and height are the image's */
        r->column[BOX_W] = r->column[BOX_H] = -1;
    else if (r->column[BOX_W] == r->column[IMAGE_W])
        r->column[IMAGE_W] = r->column[IMAGE_H] = -1;
    *data = false;
    if (has(r, IMAGE) && has(r, CLASS) &&
        ((has(r, X1) && has(r, Y1) &&
          ((has(r, X2) && has(r, Y2)) || (has(r, BOX_W) && has(r, BOX_H)))) ||
         (has(r, CX) && has(r, CY) && has(r, BOX_W) && has(r, BOX_H)))) {
        size_t at;

        if (has(r, BOX_W) && !has(r, CX) && is_called("x", r->cell[r->column[X1]], &at))
            dg_warn(r->marks->d, here(r), "csv-columns",
                    "x and y are taken for the upper left corner of a box, not for its centre");
        return 0;
    }
    for (int f = 0; f < N_FIELDS; f++)
        r->column[f] = -1;
    *data = guess_columns(r);
    if (*data)
        return 0;
    rc = dg_fail(r->marks->d, DG_EINPUT, here(r), "csv-header",
                 "its columns are not those of boxes: %s%s%s%s%s", r->cell[0], r->n > 1 ? ", " : "",
                 r->n > 1 ? r->cell[1] : "", r->n > 2 ? ", " : "", r->n > 2 ? "..." : "");
    dg_help(r->marks->d, "expected a header like filename,width,height,class,xmin,ymin,xmax,ymax "
                         "or image,x,y,w,h,label, or rows like a.jpg,1,2,30,40,nut");
    return rc;
}

static const char *cell(const reader *r, field f)
{
    return has(r, f) && r->column[f] < r->n ? r->cell[r->column[f]] : "";
}

static int take_number(const reader *r, field f, double *out)
{
    if (dg_parse_f64(cell(r, f), out) && isfinite(*out))
        return 0;
    return dg_fail(r->marks->d, DG_EINPUT, here(r), "csv-value",
                   "column %d is \"%.40s\", expected a number", r->column[f] + 1, cell(r, f));
}

static int take_box(const reader *r, dg_marked_object *x)
{
    const bool centre = has(r, CX), sized = has(r, BOX_W);
    double v[4];
    int rc;

    DG_TRY(take_number(r, centre ? CX : X1, &v[0]));
    DG_TRY(take_number(r, centre ? CY : Y1, &v[1]));
    DG_TRY(take_number(r, sized ? BOX_W : X2, &v[2]));
    DG_TRY(take_number(r, sized ? BOX_H : Y2, &v[3]));
    x->x1 = centre ? v[0] - v[2] / 2 : v[0];
    x->y1 = centre ? v[1] - v[3] / 2 : v[1];
    x->x2 = sized ? x->x1 + v[2] : v[2];
    x->y2 = sized ? x->y1 + v[3] : v[3];
out:
    return rc;
}

/* The image's size; unreadable numbers count as absent, and the file's header is asked. */
static void take_size(const reader *r, dg_marked_image *im)
{
    double w, h;

    if (has(r, IMAGE_W) && has(r, IMAGE_H) && dg_parse_f64(cell(r, IMAGE_W), &w) &&
        dg_parse_f64(cell(r, IMAGE_H), &h) && w >= 1 && h >= 1 && w <= DG_IMAGE_MAX_SIDE &&
        h <= DG_IMAGE_MAX_SIDE && w == floor(w) && h == floor(h)) {
        im->w = w;
        im->h = h;
    }
}

/* An empty line, or separators alone, as spreadsheets write them below a table. */
static bool is_empty(const reader *r)
{
    for (int i = 0; i < r->n; i++)
        if (*r->cell[i])
            return false;
    return true;
}

static int take_row(reader *r)
{
    dg_marked_object x = { .line = r->line };
    dg_marks_entry *e;
    bool known;
    int rc;

    if (is_empty(r))
        return 0;
    if (!*cell(r, IMAGE))
        return dg_fail(r->marks->d, DG_EINPUT, here(r), "csv-value", "this row names no image");
    e = dg_marks_add(r->marks, r->file, dg_strdup(r->marks->arena, cell(r, IMAGE)), &known);
    if (!known)
        take_size(r, &e->marks);
    if (!*cell(r, CLASS) && !*cell(r, has(r, CX) ? CX : X1))
        return 0; /* an image without objects */
    if (!*cell(r, CLASS))
        return dg_fail(r->marks->d, DG_EINPUT, here(r), "csv-value", "this box has no class");
    if (!dg_is_utf8(cell(r, CLASS)))
        return dg_fail(r->marks->d, DG_EINPUT, here(r), "class-encoding",
                       "the class \"%s\" is not in UTF-8: save the table in that encoding",
                       cell(r, CLASS));
    DG_TRY(take_box(r, &x));
    x.name = dg_strdup(r->marks->arena, cell(r, CLASS));
    DG_PUSH(r->marks->arena, e->marks.objects, x);
out:
    return rc;
}

static char separator_of(const char *line)
{
    static const char all[] = ",;\t";
    char best = ',';
    int most = 0;

    for (int i = 0; i < 3; i++) {
        int n = 0;

        for (const char *p = line; *p && *p != '\n'; p++)
            n += *p == all[i];
        if (n > most) {
            most = n;
            best = all[i];
        }
    }
    return best;
}

static int parse(dg_marks *marks, const char *text, size_t n, const char *file, const char *path)
{
    char *copy = dg_strndup(marks->arena, text, n), *p = copy + dg_mark_bytes(copy);
    reader r = { .marks = marks, .file = file, .path = path, .separator = separator_of(p) };
    bool data;
    int rc = dg_index_no_nul(text, n, path, marks->d);

    if (rc < 0)
        return rc;
    p = next_row(&r, p);
    if (!p)
        return dg_fail(marks->d, DG_EINPUT, (dg_where){ .file = path }, "csv-header",
                       "the file is empty");
    DG_TRY(take_header(&r, &data));
    for (; data || (p && (p = next_row(&r, p))); data = false) {
        rc = take_row(&r);
        if (rc < 0 && marks->faults) {
            dg_fault_take(marks->faults, DG_FAULT_ANNOTATION, -1, marks->d);
            rc = 0;
        }
        if (rc < 0)
            goto out;
    }
out:
    return rc;
}

/* A table whose first line names or shows the columns of boxes. NULs are passed over: a table in
 * UTF-16 is to be refused as such, and not to be taken for another file. */
static bool is_csv(const char *text, size_t n)
{
    dg_marks quiet = { .d = dg_diag_open(), .arena = dg_arena_open() };
    reader r = { .marks = &quiet, .file = "", .path = "" };
    char *p = DG_NEW_N(quiet.arena, n + 1, char), *to = p;
    bool is, data;

    for (size_t i = 0; i < n; i++)
        if (text[i])
            *to++ = text[i];
    p += dg_mark_bytes(p);
    r.separator = separator_of(p);
    is = next_row(&r, p) && take_header(&r, &data) == 0;
    dg_arena_close(&quiet.arena);
    dg_diag_close(&quiet.d);
    return is;
}

const dg_marks_table dg_csv_form = { .end = ".csv", .parse = parse, .is = is_csv };
