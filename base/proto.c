/* proto.c: see proto.h. A field is a varint key, field << 3 | wire type, then its value: type 0 a
 * varint (seven bits a byte, low first, top bit set on all but the last), 1 eight bytes, 2 a length
 * and that many bytes, 5 four bytes; little-endian. */
#include "base/proto.h"

#include <string.h>

enum { VARINT = 0, EIGHT = 1, BYTES = 2, FOUR = 5 };

static void add_varint(dg_str *s, uint64_t v)
{
    char buf[10];
    size_t n = 0;

    do {
        buf[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    dg_str_add_n(s, buf, n);
}

static void add_key(dg_str *s, int field, int wire)
{
    add_varint(s, (uint64_t)field << 3 | (uint64_t)wire);
}

static void add_fixed(dg_str *s, uint64_t bits, int n)
{
    char buf[8];

    for (int i = 0; i < n; i++)
        buf[i] = (char)(bits >> 8 * i);
    dg_str_add_n(s, buf, (size_t)n);
}

void dg_proto_int(dg_str *s, int field, int64_t v)
{
    add_key(s, field, VARINT);
    add_varint(s, (uint64_t)v);
}

void dg_proto_float(dg_str *s, int field, float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof bits);
    add_key(s, field, FOUR);
    add_fixed(s, bits, 4);
}

void dg_proto_double(dg_str *s, int field, double v)
{
    uint64_t bits;

    memcpy(&bits, &v, sizeof bits);
    add_key(s, field, EIGHT);
    add_fixed(s, bits, 8);
}

void dg_proto_head(dg_str *s, int field, size_t n)
{
    add_key(s, field, BYTES);
    add_varint(s, n);
}

void dg_proto_bytes(dg_str *s, int field, const void *p, size_t n)
{
    dg_proto_head(s, field, n);
    if (n)
        dg_str_add_n(s, p, n);
}

void dg_proto_text(dg_str *s, int field, const char *text)
{
    dg_proto_bytes(s, field, text, strlen(text));
}

void dg_proto_message(dg_str *s, int field, dg_str *m)
{
    dg_proto_bytes(s, field, m->s, m->n);
    dg_str_free(m);
}
