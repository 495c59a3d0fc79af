libproof_la_SOURCES += \
	proof/activation.c \
	proof/advice.c \
	proof/axes.c \
	proof/best.c \
	proof/collectives.c \
	proof/findings.c \
	proof/keys.c \
	proof/monitors.c \
	proof/proof.h \
	proof/prove.c \
	proof/relower.c \
	proof/rows.c \
	proof/runnable.c \
	proof/second.c \
	proof/second.h \
	proof/second_flags.c \
	proof/second_host.c \
	proof/second_internal.h \
	proof/second_meet.c \
	proof/second_say.c \
	proof/severed.c \
	proof/sinks.c \
	proof/trust.c \
	proof/validate.c \
	proof/vary.h \
	proof/walk.c \
	proof/zeros.c
