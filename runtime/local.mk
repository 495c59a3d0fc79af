libruntime_la_SOURCES += \
	runtime/archive.c runtime/archive.h \
	runtime/checkpoint.c runtime/checkpoint.h \
	runtime/pickle.c runtime/pickle.h \
	runtime/pth.c \
	runtime/safetensors.c \
	runtime/store.c runtime/store.h \
	runtime/weights.c runtime/weights.h
libruntime_la_SOURCES += \
	runtime/datareport.c runtime/datareport.h \
	runtime/stream.c runtime/stream.h
libruntime_la_SOURCES += \
	runtime/exec.c runtime/exec.h
