/* serve.h: images that wait for detection: threads of a server put them, one thread computes them
 * in batches. And the page that a browser gets. */
#ifndef DG_CLI_SERVE_H
#define DG_CLI_SERVE_H

#include "cli/predict_out.h"
#include "report/http.h"

typedef struct dg_serve_task { /* an image of a request */
    const dg_http_part *part;
    double threshold;
    int64_t pixels; /* as its header says; 0: it has none that can be read */
    int status;     /* 200, or of its error */
    dg_str json;    /* an object: what was found, or the error */
    bool done;
    struct dg_serve_task *next;
} dg_serve_task;

typedef struct dg_serve_counts {
    int64_t images, batches, failed;
    int waiting;
    bool ending;
} dg_serve_counts;

typedef struct dg_serve_queue dg_serve_queue;
/* most_pixels: of an image, and of the images of a batch together, which stand in memory then. */
dg_serve_queue *dg_serve_queue_open(int64_t most_pixels);
void dg_serve_queue_close(dg_serve_queue **q);
/* From any thread: tasks[n] get their results, or errors; waits for that. */
void dg_serve_wait(dg_serve_queue *q, dg_serve_task *tasks, int n);
dg_serve_counts dg_serve_count(dg_serve_queue *q);
/* From any thread: dg_serve_compute returns after its batch, and what waits gets an error. */
void dg_serve_end(dg_serve_queue *q);
/* Computes what is put until the end. */
void dg_serve_compute(dg_serve_queue *q, dg_detector *p, dg_predict_names names);

/* {"error":{"id":ID,"message":TEXT}} */
void dg_serve_error(dg_str *out, const char *name, const char *id, const char *text);

extern const char *const dg_serve_page[]; /* HTML; NULL-terminated, because literals are limited */

#endif
