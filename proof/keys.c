/* keys.c: what is known of the keys of a record. Each key is a value of its own, with a presence of
 * its own: a record that is always there may lack a key. */
#include <string.h>

#include "proof/vary.h"

dg_seen dg_vary_read_keys(dg_seen in, const char *path)
{
    for (; path; path = strchr(path, '.') ? strchr(path, '.') + 1 : NULL) {
        size_t n = strcspn(path, ".");
        int k = 0;

        while (k < in.n_keys &&
               !(strlen(in.keys[k].name) == n && strncmp(in.keys[k].name, path, n) == 0))
            k++;
        if (k == in.n_keys) {
            in.n_keys = 0;
            in.flag = 0;
            return in;
        }
        dg_seen key = in.keys[k].seen;

        key.present = dg_vary_join(key.present, in.present);
        key.at = key.at == in.at || !key.at ? in.at : in.at ? -1 : key.at;
        key.may |= in.may;
        key.needs |= in.needs;
        key.enough |= in.enough;
        in = key;
    }
    return in;
}

/* Zeros stand for what does not fire: then it is there, and where it is zeros is a value. */
static void fill(dg_proof *p, const dg_visit *v, dg_seen *out)
{
    out->value = dg_vary_join(out->value, dg_vary_join(out->present, v->zeros));
    out->present = v->around;
    out->may = false;
    out->at = v->f->at;
    out->needs = v->f->needs;
    out->enough = v->f->enough;
    out->flag = ++p->n_values;
}

void dg_vary_settle(dg_proof *p, const dg_visit *v, dg_seen *out)
{
    dg_keyed *keys = DG_NEW_N(p->arena, out->n_keys, dg_keyed);

    if (v->filled)
        fill(p, v, out);
    out->inexact = dg_vary_join(out->inexact, dg_vary_own_kernels(p, v->node));
    for (int i = 0; i < out->n_keys; i++) {
        keys[i] = out->keys[i];
        dg_vary_settle(p, v, &keys[i].seen);
    }
    out->keys = keys;
}
