libcomm_la_SOURCES += \
	comm/duplicate.c \
	comm/duplicate.h \
	comm/gloo.c \
	comm/gloo.h \
	comm/meeting.c \
	comm/meeting.h \
	comm/shm.c \
	comm/shm.h \
	comm/shm_sync.c \
	comm/shm_sync.h \
	comm/world.c \
	comm/world.h
if GLOO
libcomm_la_SOURCES += comm/gloo_shim.cc comm/gloo_shim.h
endif
