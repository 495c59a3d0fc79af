report_tests = tests/report/render tests/report/gpus
check_PROGRAMS += $(report_tests)
TESTS += $(report_tests)
tests_report_render_SOURCES = tests/report/render.c tests/graph/toy.c tests/graph/toy.h
tests_report_render_LDADD = libreport.la $(proof_rooms) $(test_libs)
tests_report_gpus_SOURCES = tests/report/gpus.c
tests_report_gpus_LDADD = libreport.la $(proof_rooms) $(test_libs)
EXTRA_tests_report_gpus_DEPENDENCIES = tests/report/nvml.la

# A library that stands in for NVIDIA's management library.
check_LTLIBRARIES += tests/report/nvml.la
tests_report_nvml_la_SOURCES = tests/report/nvml.c
tests_report_nvml_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
	-rpath $(abs_builddir)/tests/report
