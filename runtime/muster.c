/* muster.c: see muster.h. */
#include "runtime/muster.h"

void dg_muster_open(dg_muster *m, dg_arena *a, int nodes, int ranks)
{
    *m = (dg_muster){ .nodes = nodes, .seated = true, .machines = DG_NEW_N(a, nodes, struct dg_mustered) };
    for (int i = 0; i < nodes; i++)
        m->machines[i] = (struct dg_mustered){ i * ranks, ranks, true };
}

void dg_muster_call(dg_muster *m, uint32_t attempt, const dg_roster *over)
{
    m->attempt = attempt;
    m->seated = false;
    for (int i = 0; i < m->nodes; i++) {
        struct dg_mustered *k = &m->machines[i];
        int                 lost = 0;

        for (int r = k->first; r < k->first + k->ranks; r++)
            lost += dg_roster_lost_rank(over, r);
        k->ranks -= lost;
        k->here = false;
    }
    if (m->machines[0].ranks < 1)
        m->machines[0].ranks = 1;
    dg_muster_come(m, 0);
}

void dg_muster_come(dg_muster *m, int64_t node)
{
    if (node >= 0 && node < m->nodes && !m->seated)
        m->machines[node].here = true;
}

bool dg_muster_complete(const dg_muster *m)
{
    for (int i = 0; i < m->nodes; i++)
        if (m->machines[i].ranks > 0 && !m->machines[i].here)
            return false;
    return true;
}

void dg_muster_close(dg_muster *m)
{
    int first = 0;

    m->seated = true;
    for (int i = 0; i < m->nodes; i++) {
        struct dg_mustered *k = &m->machines[i];

        k->ranks = k->here ? k->ranks : 0;
        k->first = first;
        first += k->ranks;
    }
}

dg_seat dg_muster_seat(const dg_muster *m, int64_t node)
{
    dg_seat s = { 0 };

    if (node < 0 || node >= m->nodes)
        return s;
    for (int i = 0; i < m->nodes; i++) {
        s.all += m->machines[i].ranks;
        s.machines += m->machines[i].ranks > 0;
    }
    s.first = m->machines[node].first;
    s.ranks = m->machines[node].ranks;
    return s;
}
