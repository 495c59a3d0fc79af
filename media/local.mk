libmedia_la_SOURCES += \
	media/bmp.c \
	media/box_form.c media/box_form.h \
	media/chart.c media/chart.h \
	media/coco.c media/coco.h \
	media/coco_data.c \
	media/coco_masks.c \
	media/color.c \
	media/convert.c media/convert.h \
	media/copies.c media/copies.h \
	media/csv.c \
	media/cvat.c \
	media/detections.c \
	media/draw.c media/draw.h \
	media/exif.c \
	media/faults.c media/faults.h \
	media/hold_out.c \
	media/image.c media/image.h \
	media/index.c media/index.h \
	media/jpeg.c \
	media/json.c media/json.h \
	media/json_tree.c \
	media/layout.c media/layout.h \
	media/labelme.c \
	media/marks.c media/marks.h \
	media/marks_files.c \
	media/marks_table.c \
	media/mask.c media/mask.h \
	media/png.c \
	media/records.c media/records.h \
	media/resize.c \
	media/rle.c media/rle.h \
	media/results.c \
	media/review.c media/review_json.c media/review_parts.h \
	media/sample.c \
	media/score.c media/score.h \
	media/score_print.c \
	media/scratch.c \
	media/survey.c media/survey.h \
	media/survey_html.c \
	media/survey_images.c \
	media/survey_json.c \
	media/survey_shapes.c \
	media/survey_text.c \
	media/tiff.c \
	media/voc.h media/voc_xml.c \
	media/video.c media/video.h media/video/module.h \
	media/webp.c \
	media/xml.c media/xml.h \
	media/yaml.c media/yaml.h \
	media/yolo.c media/yolo.h \
	media/yolo_folders.c \
	media/yolo_label.c

# The module that is loaded for videos: what calls FFmpeg.
EXTRA_DIST += media/video/ffmpeg.c
if VIDEO_MODULE
modules_DATA += detrgraph-video.so
module_sources += media/video/ffmpeg.c
CLEANFILES += detrgraph-video.so media/video/ffmpeg.o
video_flags = $(AM_CPPFLAGS) $(FFMPEG_CFLAGS:-I%=-isystem %) $(CPPFLAGS) $(AM_CFLAGS) $(CFLAGS)
media/video/ffmpeg.o: media/video/ffmpeg.c media/video/module.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && \
	$(CC) $(video_flags) -fPIC -c -o $@ $<
detrgraph-video.so: media/video/ffmpeg.o
	$(AM_V_CCLD)$(CC) -shared $(AM_LDFLAGS) $(LDFLAGS) -o $@ $< $(FFMPEG_LIBS)
endif
