libmedia_la_SOURCES += \
	media/color.c \
	media/exif.c \
	media/image.c media/image.h \
	media/jpeg.c \
	media/png.c \
	media/resize.c \
	media/results.c \
	media/sample.c \
	media/scratch.c
