/* duplicate.c: see duplicate.h. */
#include "comm/duplicate.h"

void dg_duplicate_set(dg_duplicate *d, dg_comm *comm)
{
    pthread_mutex_lock(&d->lock);
    d->comm = comm;
    pthread_mutex_unlock(&d->lock);
}

void dg_duplicate_abort(dg_duplicate *d)
{
    pthread_mutex_lock(&d->lock);
    if (d->comm)
        d->comm->abort(d->comm);
    pthread_mutex_unlock(&d->lock);
}
