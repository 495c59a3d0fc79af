libmedia_la_SOURCES += \
	media/chart.c media/chart.h \
	media/coco.c media/coco.h \
	media/coco_data.c \
	media/color.c \
	media/detections.c \
	media/draw.c media/draw.h \
	media/exif.c \
	media/image.c media/image.h \
	media/jpeg.c \
	media/json.c media/json.h \
	media/json_tree.c \
	media/png.c \
	media/records.c media/records.h \
	media/resize.c \
	media/results.c \
	media/sample.c \
	media/score.c media/score.h \
	media/score_print.c \
	media/scratch.c
