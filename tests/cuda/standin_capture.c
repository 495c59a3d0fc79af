/* standin_capture.c: captured graphs of the stand-in. */
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/standin.h"

int standin_outside_capture(standin *s)
{
    if (!s->graph || s->error)
        return s->error;
    s->invalid = true;
    return DG_CUDA_CAPTURE_FIRST;
}

void standin_graph_close(dg_cuda_runtime *r, dg_cuda_graph *g)
{
    (void)r;
    while (g->first) {
        standin_item *it = g->first;

        g->first = it->next;
        free(it->params);
        free(it);
    }
    free(g);
}

int standin_capture_begin(dg_cuda_runtime *r, dg_cuda_stream *on)
{
    standin *s = standin_lock(r);

    if (s->graph || s->error)
        return standin_unlock(s, s->error ? s->error : DG_CUDA_CAPTURE_FIRST);
    s->graph = calloc(1, sizeof *s->graph);
    if (!s->graph)
        return standin_unlock(s, DG_CUDA_NO_MEMORY);
    s->n_captures++;
    s->invalid = false;
    s->origin = on;
    for (int i = 0; i < STANDIN_STREAMS; i++)
        if (s->streams[i])
            memset(s->streams[i]->seen, 0, sizeof s->streams[i]->seen);
    on->captured = true;
    return standin_unlock(s, 0);
}

int standin_capture_end(dg_cuda_runtime *r, dg_cuda_stream *on, dg_cuda_graph **out)
{
    standin *s = standin_lock(r);
    dg_cuda_graph *g = s->graph;
    int rc = s->error;

    *out = NULL;
    if (!g || on != s->origin)
        return standin_unlock(s, rc ? rc : DG_CUDA_CAPTURE_FIRST + 3);
    s->graph = NULL;
    if (rc == 0 && s->invalid)
        rc = DG_CUDA_CAPTURE_INVALID;
    for (int i = 0; i < STANDIN_STREAMS; i++)
        if (s->streams[i]) {
            if (rc == 0 && on->seen[i] < s->streams[i]->seen[i])
                rc = DG_CUDA_CAPTURE_UNJOINED;
            s->streams[i]->captured = false;
        }
    s->n_graphs += rc == 0;
    standin_unlock(s, 0);
    if (rc)
        standin_graph_close(r, g);
    else
        *out = g;
    return rc;
}

/* The order of the calls is one that the events allow. */
int standin_graph_launch(dg_cuda_runtime *r, dg_cuda_graph *g, dg_cuda_stream *on)
{
    standin *s = standin_lock(r);
    int rc = on->captured ? standin_outside_capture(s) : s->error;

    s->n_replays++;
    for (const standin_item *it = g->first; it && rc == 0; it = it->next)
        standin_append(s, on, it);
    return standin_unlock(s, rc);
}
