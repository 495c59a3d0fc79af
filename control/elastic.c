/* elastic.c: see elastic.h. */
#include "control/elastic.h"

void dg_elastic_open(dg_elastic *m, dg_arena *a, int nodes, int ranks)
{
    *m = (dg_elastic){ .nodes = nodes,
                       .closed = true,
                       .machines = DG_NEW_N(a, nodes, struct dg_elastic_machine) };
    for (int i = 0; i < nodes; i++)
        m->machines[i] = (struct dg_elastic_machine){ i * ranks, ranks, true };
}

void dg_elastic_reopen(dg_elastic *m, uint32_t attempt, const dg_judge *over)
{
    m->attempt = attempt;
    m->closed = false;
    for (int i = 0; i < m->nodes; i++) {
        struct dg_elastic_machine *k = &m->machines[i];
        int lost = 0;

        for (int r = k->first; r < k->first + k->ranks; r++)
            lost += dg_judge_lost_rank(over, r);
        k->ranks -= lost;
        k->present = false;
    }
    if (m->machines[0].ranks < 1)
        m->machines[0].ranks = 1;
    dg_elastic_join(m, 0);
}

void dg_elastic_join(dg_elastic *m, int64_t node)
{
    if (node >= 0 && node < m->nodes && !m->closed)
        m->machines[node].present = true;
}

bool dg_elastic_complete(const dg_elastic *m)
{
    for (int i = 0; i < m->nodes; i++)
        if (m->machines[i].ranks > 0 && !m->machines[i].present)
            return false;
    return true;
}

void dg_elastic_close(dg_elastic *m)
{
    int first = 0;

    m->closed = true;
    for (int i = 0; i < m->nodes; i++) {
        struct dg_elastic_machine *k = &m->machines[i];

        k->ranks = k->present ? k->ranks : 0;
        k->first = first;
        first += k->ranks;
    }
}

dg_seat dg_elastic_seat(const dg_elastic *m, int64_t node)
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
