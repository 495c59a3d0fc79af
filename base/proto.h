/* proto.h: writes Protocol Buffers messages into a dg_str, field by field. Write a nested message
 * into its own dg_str first. https://protobuf.dev/programming-guides/encoding */
#ifndef DG_BASE_PROTO_H
#define DG_BASE_PROTO_H

#include "base/str.h"

void dg_proto_int(dg_str *s, int field, int64_t v); /* int32, int64, bool, enum */
void dg_proto_float(dg_str *s, int field, float v);
void dg_proto_double(dg_str *s, int field, double v);
void dg_proto_bytes(dg_str *s, int field, const void *p, size_t n);
void dg_proto_text(dg_str *s, int field, const char *text);
/* Appends m as a field of s and frees m. */
void dg_proto_message(dg_str *s, int field, dg_str *m);
/* Appends the key and length of a bytes field; the caller appends the n bytes. */
void dg_proto_head(dg_str *s, int field, size_t n);

#endif
