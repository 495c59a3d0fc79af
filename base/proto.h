/* proto.h: writes messages of Protocol Buffers, field by field, into a dg_str. A message inside another is written into
 * a string of its own first. https://protobuf.dev/programming-guides/encoding */
#ifndef DG_BASE_PROTO_H
#define DG_BASE_PROTO_H

#include "base/str.h"

void dg_proto_int(dg_str *s, int field, int64_t v);   /* int32, int64, bool, enum */
void dg_proto_float(dg_str *s, int field, float v);
void dg_proto_double(dg_str *s, int field, double v);
void dg_proto_bytes(dg_str *s, int field, const void *p, size_t n);
void dg_proto_text(dg_str *s, int field, const char *text);
/* m as a field of s; m is freed. */
void dg_proto_message(dg_str *s, int field, dg_str *m);
/* What stands before the n bytes of such a field, which the caller writes himself. */
void dg_proto_head(dg_str *s, int field, size_t n);

#endif
