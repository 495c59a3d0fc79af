/* link_internal.h: a rank's end of the control plane, for the files that implement it: link.c has
 * the calls of the compute thread, link_thread.c the thread that talks to the coordinator. */
#ifndef DG_CONTROL_LINK_INTERNAL_H
#define DG_CONTROL_LINK_INTERNAL_H

#include <pthread.h>

#include "control/link.h"

typedef struct frame {
    struct frame *next;
    size_t n;
    char bytes[];
} frame;

struct dg_link {
    dg_link_conf conf;
    int64_t ranks;
    double lost_after_s;
    int alive_fd, wake_fd;
    dg_hub *hub;
    dg_socket *commands, *events;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t news;
    frame *out, **out_end;
    dg_state state; /* its reason is in `reason` */
    char reason[1024];
    bool closing, told_over, heard, seated;
    dg_seat seat;
    int64_t round; /* of the latest meet */
    /* batches: of the first and the latest begin; of the latest save order */
    int64_t first, batch, saved_asked;
    char *value_name, *value; /* the name that get waits for, and the answer */
};

void *dg_link_serve(void *link); /* the thread */

#endif
