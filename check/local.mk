libcheck_la_SOURCES += \
	check/batch.c \
	check/check.c \
	check/check.h \
	check/check_internal.h \
	check/choice.c \
	check/interpreter.c \
	check/interpreter.h \
	check/item.c \
	check/loader.c \
	check/number.c \
	check/plan.c \
	check/probe.c \
	check/set.c \
	check/sink.c \
	check/tensor.c \
	check/trial.c
