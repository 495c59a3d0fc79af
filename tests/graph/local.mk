# check_PROGRAMS, tests_graph_NAME_SOURCES, TESTS; data in EXTRA_DIST.
graph_tests = tests/graph/contract tests/graph/language tests/graph/lower tests/graph/monitor tests/graph/registry tests/graph/render tests/graph/xml
toy = tests/graph/toy.c tests/graph/toy.h tests/check.h
check_PROGRAMS += $(graph_tests)
TESTS += $(graph_tests)
tests_graph_contract_SOURCES = tests/graph/contract.c tests/check.h
tests_graph_language_SOURCES = tests/graph/language.c $(toy)
tests_graph_lower_SOURCES = tests/graph/lower.c $(toy)
tests_graph_monitor_SOURCES = tests/graph/monitor.c
tests_graph_registry_SOURCES = tests/graph/registry.c $(toy)
tests_graph_render_SOURCES = tests/graph/render.c $(toy)
tests_graph_xml_SOURCES = tests/graph/xml.c $(toy)
graph_scripts = tests/graph/abi/compare tests/graph/plugin tests/graph/schema
TESTS += $(graph_scripts)
EXTRA_DIST += $(graph_scripts) tests/graph/plugins tests/graph/abi
