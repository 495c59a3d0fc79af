libbase_la_SOURCES += \
	base/arena.c base/arena.h \
	base/beside.c base/beside.h \
	base/cgroup.c base/cgroup.h \
	base/checksum.c base/checksum.h \
	base/draw.c \
	base/element.c base/element.h \
	base/diag.c base/diag.h \
	base/dir.c base/dir.h \
	base/file.c base/file.h \
	base/log.c base/log.h \
	base/map.c base/map.h \
	base/metrics.c base/metrics.h \
	base/pool.c base/pool.h \
	base/proto.c base/proto.h \
	base/ring.c base/ring.h \
	base/rng.c base/philox.h base/rng.h \
	base/str.c base/str.h \
	base/tensor.c
