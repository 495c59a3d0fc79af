# A target is tests/fuzz/<name>.c with a corpus of that name; see tests/fuzz/fuzz.h.
fuzz = tests/fuzz/archive tests/fuzz/coco tests/fuzz/image tests/fuzz/json tests/fuzz/pickle \
	tests/fuzz/message tests/fuzz/program tests/fuzz/voc tests/fuzz/xml tests/fuzz/yolo \
	tests/fuzz/contract tests/fuzz/flight tests/fuzz/state tests/fuzz/csv tests/fuzz/cvat \
	tests/fuzz/labelme
check_PROGRAMS += $(fuzz)
tests_fuzz_archive_SOURCES = tests/fuzz/archive.c $(fuzz_main)
tests_fuzz_archive_LDADD = $(weights_rooms) $(test_libs)
tests_fuzz_coco_SOURCES = tests/fuzz/coco.c $(fuzz_main)
tests_fuzz_coco_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_image_SOURCES = tests/fuzz/image.c $(fuzz_main)
tests_fuzz_image_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_csv_SOURCES = tests/fuzz/csv.c tests/fuzz/marks.h $(fuzz_main)
tests_fuzz_csv_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_csv_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_cvat_SOURCES = tests/fuzz/cvat.c tests/fuzz/marks.h $(fuzz_main)
tests_fuzz_cvat_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_cvat_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_labelme_SOURCES = tests/fuzz/labelme.c $(fuzz_main)
tests_fuzz_labelme_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_labelme_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_json_SOURCES = tests/fuzz/json.c $(fuzz_main)
tests_fuzz_json_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_message_SOURCES = tests/fuzz/message.c $(fuzz_main)
tests_fuzz_message_LDADD = $(control_rooms) $(test_libs)
tests_fuzz_pickle_SOURCES = tests/fuzz/pickle.c $(fuzz_main)
tests_fuzz_pickle_LDADD = $(weights_rooms) $(test_libs)
tests_fuzz_program_SOURCES = tests/fuzz/program.c tests/tensor/wild.c tests/tensor/wild.h \
	$(fuzz_main)
tests_fuzz_program_LDADD = $(tensor_rooms) $(test_libs)
tests_fuzz_voc_SOURCES = tests/fuzz/voc.c $(fuzz_main)
tests_fuzz_voc_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_xml_SOURCES = tests/fuzz/xml.c tests/graph/toy.c tests/graph/toy.h $(fuzz_main)
tests_fuzz_xml_LDADD = libreport.la $(proof_rooms) $(test_libs)
tests_fuzz_yolo_SOURCES = tests/fuzz/yolo.c $(fuzz_main)
tests_fuzz_yolo_LDADD = $(media_rooms) $(test_libs)
tests_fuzz_contract_SOURCES = tests/fuzz/contract.c $(fuzz_main)
tests_fuzz_contract_LDADD = $(graph_rooms) $(test_libs)
tests_fuzz_flight_SOURCES = tests/fuzz/flight.c $(fuzz_main)
tests_fuzz_flight_LDADD = $(control_rooms) $(test_libs)
tests_fuzz_state_SOURCES = tests/fuzz/state.c $(fuzz_main)
tests_fuzz_state_LDADD = $(runtime_rooms) $(test_libs)
tests_fuzz_archive_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_coco_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_image_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_json_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_message_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_pickle_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_program_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_voc_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_xml_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_yolo_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_contract_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_flight_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
tests_fuzz_state_LDFLAGS = $(AM_LDFLAGS) $(DG_FUZZ)
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/run tests/fuzz/replay.c

if FUZZER
fuzz_main = tests/fuzz/fuzz.h
else
fuzz_main = tests/fuzz/fuzz.h tests/fuzz/replay.c
TESTS += $(fuzz)
endif

fuzz: $(BUILT_SOURCES)
	@$(MAKE) $(AM_MAKEFLAGS) $(fuzz)
	@srcdir='$(abs_srcdir)' builddir='$(abs_builddir)' FUZZ_SECONDS='$(FUZZ_SECONDS)' \
	bash $(srcdir)/tests/fuzz/run $(fuzz)

clean-local:
	rm -rf tests/fuzz/found

.PHONY: fuzz
