# check_PROGRAMS, tests_graph_NAME_SOURCES, TESTS; data in EXTRA_DIST.
graph_tests = tests/graph/contract tests/graph/language tests/graph/lower tests/graph/registry \
	tests/graph/xml
toy = tests/graph/toy.c tests/graph/toy.h tests/check.h
check_PROGRAMS += $(graph_tests)
TESTS += $(graph_tests)
tests_graph_contract_SOURCES = tests/graph/contract.c tests/check.h
tests_graph_contract_LDADD = $(graph_rooms) $(test_libs)
tests_graph_language_SOURCES = tests/graph/language.c $(toy)
tests_graph_language_LDADD = $(proof_rooms) $(test_libs)
tests_graph_lower_SOURCES = tests/graph/lower.c $(toy)
tests_graph_lower_LDADD = $(proof_rooms) $(test_libs)
tests_graph_registry_SOURCES = tests/graph/registry.c $(toy)
tests_graph_registry_LDADD = $(proof_rooms) $(test_libs)
tests_graph_xml_SOURCES = tests/graph/xml.c $(toy)
tests_graph_xml_LDADD = $(proof_rooms) $(test_libs)
graph_scripts = tests/graph/abi/compare tests/graph/plugin tests/graph/schema
TESTS += $(graph_scripts)
EXTRA_DIST += $(graph_scripts) tests/graph/plugins tests/graph/abi
