report_tests = tests/report/render
check_PROGRAMS += $(report_tests)
TESTS += $(report_tests)
tests_report_render_SOURCES = tests/report/render.c tests/graph/toy.c tests/graph/toy.h
tests_report_render_LDADD = libreport.la $(proof_rooms) $(test_libs)
