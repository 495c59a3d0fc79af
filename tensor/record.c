/* record.c: records: named tuples that exist only while a program is being built. */
#include <string.h>

#include "tensor/build_internal.h"

dg_val dg_record(dg_build *b)
{
    DG_PUSH(b->arena, b->records, ((dg_record_fields){ 0 }));
    return (dg_val){ DG_RECORDS + b->records.n - 1 };
}

static dg_record_fields *fields(dg_build *b, dg_val record)
{
    int64_t i = record.id - DG_RECORDS;

    if (i >= 0 && i < b->records.n)
        return &b->records.items[i];
    if (!dg_is_poison(record))
        dg_error(b, "value-as-record", "a single value stands where a record is expected");
    return NULL;
}

static dg_field_of_record *find(const dg_record_fields *r, const char *key)
{
    for (int i = 0; i < r->n; i++)
        if (strcmp(r->items[i].key, key) == 0)
            return &r->items[i];
    return NULL;
}

void dg_record_set(dg_build *b, dg_val record, const char *key, dg_val v)
{
    dg_record_fields *r = fields(b, record);
    dg_field_of_record *f = r ? find(r, key) : NULL;

    if (f)
        f->v = v;
    else if (r)
        DG_PUSH(b->arena, *r, ((dg_field_of_record){ dg_strdup(b->arena, key), v }));
}

dg_val dg_record_get(dg_build *b, dg_val record, const char *key)
{
    const dg_record_fields *r = fields(b, record);
    const dg_field_of_record *f = r ? find(r, key) : NULL;
    const char *keys[32];
    int n = 0;

    if (!r)
        return DG_POISON;
    if (f)
        return f->v;
    for (; n < r->n && n < 32; n++)
        keys[n] = r->items[n].key;

    const char *near = dg_nearest(key, keys, n);
    dg_val poison = dg_error(b, "record-key", "the record has no field \"%s\"", key);

    if (near)
        dg_help(b->d, "did you mean \"%s\"?", near);
    return poison;
}

bool dg_record_has(dg_build *b, dg_val record, const char *key)
{
    const dg_record_fields *r = fields(b, record);

    return r && find(r, key);
}

int dg_record_n(dg_build *b, dg_val record)
{
    const dg_record_fields *r = fields(b, record);

    return r ? r->n : 0;
}

const char *dg_record_key(dg_build *b, dg_val record, int i)
{
    const dg_record_fields *r = fields(b, record);

    return r && i >= 0 && i < r->n ? r->items[i].key : NULL;
}
