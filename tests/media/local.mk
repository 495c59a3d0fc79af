# check_PROGRAMS, tests_media_NAME_SOURCES, TESTS; data in EXTRA_DIST.
media_tests = tests/media/bmp tests/media/chart tests/media/coco tests/media/convert \
	tests/media/draw tests/media/formats tests/media/forms tests/media/image tests/media/json \
	tests/media/marks tests/media/masks tests/media/ops tests/media/score tests/media/survey
check_PROGRAMS += $(media_tests)
TESTS += $(media_tests)
threaded += tests/media/convert tests/media/forms tests/media/marks tests/media/survey
tests_media_bmp_SOURCES = tests/media/bmp.c tests/media/place.h
tests_media_bmp_LDADD = $(media_rooms) $(test_libs)
tests_media_chart_SOURCES = tests/media/chart.c
tests_media_chart_LDADD = $(media_rooms) $(test_libs)
tests_media_coco_SOURCES = tests/media/coco.c tests/media/place.h
tests_media_coco_LDADD = $(media_rooms) $(test_libs)
tests_media_convert_SOURCES = tests/media/convert.c tests/media/place.h tests/media/sets.h
tests_media_convert_LDADD = $(media_rooms) $(test_libs)
tests_media_draw_SOURCES = tests/media/draw.c tests/media/place.h
tests_media_draw_LDADD = $(media_rooms) $(test_libs)
tests_media_formats_SOURCES = tests/media/formats.c tests/media/images.h tests/media/place.h
tests_media_formats_LDADD = $(media_rooms) $(test_libs)
tests_media_forms_SOURCES = tests/media/forms.c tests/media/place.h
tests_media_forms_LDADD = $(media_rooms) $(test_libs)
tests_media_image_SOURCES = tests/media/image.c tests/media/images.h tests/media/place.h
tests_media_image_LDADD = $(media_rooms) $(test_libs)
tests_media_json_SOURCES = tests/media/json.c tests/media/place.h
tests_media_json_LDADD = $(media_rooms) $(test_libs)
tests_media_marks_SOURCES = tests/media/marks.c tests/media/place.h
tests_media_marks_LDADD = $(media_rooms) $(test_libs)
tests_media_masks_SOURCES = tests/media/masks.c tests/media/place.h
tests_media_masks_LDADD = $(media_rooms) $(test_libs)
tests_media_ops_SOURCES = tests/media/ops.c tests/media/place.h
tests_media_ops_LDADD = $(media_rooms) $(test_libs)
tests_media_score_SOURCES = tests/media/score.c tests/media/place.h
tests_media_score_LDADD = $(media_rooms) $(test_libs)
tests_media_survey_SOURCES = tests/media/survey.c tests/media/place.h tests/media/sets.h
tests_media_survey_LDADD = $(media_rooms) $(test_libs)
EXTRA_DIST += tests/media/data tests/long
