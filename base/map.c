/* map.c: entries in insertion order, plus a hash table of entry numbers with linear probing. */
#include "base/map.h"

#include <string.h>

#include "base/str.h"

typedef struct entry {
    const char *key;
    uint64_t hash;
    void *value;
} entry;

struct dg_map {
    dg_arena *arena;
    DG_VEC(entry) entries;
    int *slots;     /* entry number + 1; 0: free */
    size_t n_slots; /* a power of two, more than twice the entries; 0 before the first */
};

dg_map *dg_map_new(dg_arena *a)
{
    dg_map *m = DG_NEW(a, dg_map);

    m->arena = a;
    return m;
}

/* The slot that holds key, or else the free slot where it belongs. */
static size_t find(const dg_map *m, const char *key, uint64_t hash)
{
    size_t i = hash & (m->n_slots - 1);

    for (; m->slots[i]; i = (i + 1) & (m->n_slots - 1)) {
        const entry *e = &m->entries.items[m->slots[i] - 1];

        if (e->hash == hash && strcmp(e->key, key) == 0)
            break;
    }
    return i;
}

static const entry *get(const dg_map *m, const char *key)
{
    if (!m->n_slots)
        return NULL;
    int k = m->slots[find(m, key, dg_fnv1a_text(key))];

    return k ? &m->entries.items[k - 1] : NULL;
}

void *dg_map_get(const dg_map *m, const char *key)
{
    const entry *e = get(m, key);

    return e ? e->value : NULL;
}

bool dg_map_has(const dg_map *m, const char *key)
{
    return get(m, key) != NULL;
}

static void grow(dg_map *m)
{
    m->n_slots = m->n_slots ? 2 * m->n_slots : 16;
    m->slots = DG_NEW_N(m->arena, m->n_slots, int);
    for (int k = 0; k < m->entries.n; k++) {
        size_t i = m->entries.items[k].hash & (m->n_slots - 1);

        while (m->slots[i])
            i = (i + 1) & (m->n_slots - 1);
        m->slots[i] = k + 1;
    }
}

void dg_map_set(dg_map *m, const char *key, void *value)
{
    uint64_t hash = dg_fnv1a_text(key);

    if (2 * ((size_t)m->entries.n + 1) > m->n_slots)
        grow(m);
    size_t i = find(m, key, hash);

    if (m->slots[i]) {
        m->entries.items[m->slots[i] - 1].value = value;
        return;
    }
    DG_PUSH(m->arena, m->entries, ((entry){ dg_strdup(m->arena, key), hash, value }));
    m->slots[i] = m->entries.n;
}

int dg_map_n(const dg_map *m)
{
    return m->entries.n;
}

const char *dg_map_key(const dg_map *m, int i)
{
    return m->entries.items[i].key;
}

void *dg_map_value(const dg_map *m, int i)
{
    return m->entries.items[i].value;
}
