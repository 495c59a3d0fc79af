libruntime_la_SOURCES +=
libruntime_la_SOURCES += \
	runtime/datareport.c runtime/datareport.h \
	runtime/stream.c runtime/stream.h
