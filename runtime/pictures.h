/* pictures.h: draws batches as the network sees them, and detections. */
#ifndef DG_RUNTIME_PICTURES_H
#define DG_RUNTIME_PICTURES_H

#include "exec/compiled.h"
#include "feed/feeder.h"

/* A few pictures with boxes, drawn as one mosaic; kept small. */
typedef struct dg_pictures dg_pictures;
dg_pictures *dg_pictures_open(int most, const dg_dataset *names);
void dg_pictures_close(dg_pictures **p);
bool dg_pictures_full(const dg_pictures *p);
/* Adds the batch as the network sees it: its images, and their objects if it has any. */
int dg_pictures_add_batch(dg_pictures *p, const dg_feeder_batch *batch, dg_diag *d) DG_MUST_USE;
/* Of the images that it was given so far, keeps those whose objects are missed most, or found with
 * the lowest scores, among the program's results; two pictures of each: its objects, and the
 * detections. */
int dg_pictures_add_found(dg_pictures *p, const dg_compiled *c, const dg_feeder_batch *batch,
                          dg_diag *d) DG_MUST_USE;
/* Leaves of the detections those of at least this score, counts what they miss, and puts the images
 * in that order. Once, before they are written. */
int dg_pictures_settle(dg_pictures *p, double threshold, dg_diag *d) DG_MUST_USE;
/* writes nothing if there are none */
int dg_pictures_write(dg_pictures *p, const char *path, dg_diag *d) DG_MUST_USE;
/* Writes each picture to FOLDER/pictures/N.jpg, and what they are to FOLDER/pictures.json:
 * {"step":STEP,"pictures":[{"file","caption"},...]}. They replace those of an earlier step. */
int dg_pictures_write_each(dg_pictures *p, const char *folder, int64_t step, dg_diag *d)
    DG_MUST_USE;

#endif
