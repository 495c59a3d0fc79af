libexec_la_SOURCES += \
	exec/collective.c \
	exec/collective.h \
	exec/compiled.c \
	exec/compiled.h \
	exec/debug.c \
	exec/debug.h \
	exec/estimate.c \
	exec/estimate.h \
	exec/exec_internal.h \
	exec/observe.c \
	exec/timing.c \
	exec/values.c \
	exec/exec.c \
	exec/exec.h \
	exec/landing.c \
	exec/landing.h \
	exec/monitor_probe.c \
	exec/monitor_probe.h \
	exec/replay.c \
	exec/staged.c \
	exec/store.c \
	exec/store.h
