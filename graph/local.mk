libgraph_la_SOURCES += \
	graph/attr.c graph/attr.h \
	graph/check.c \
	graph/contract.c graph/contract.h \
	graph/digest.c graph/digest.h \
	graph/edit.c graph/edit.h \
	graph/expand.c graph/expand.h \
	graph/fire.c graph/fire.h \
	graph/foreseen.c graph/foreseen.h \
	graph/graph.c graph/graph.h \
	graph/keeps.c graph/keeps.h \
	graph/let.c graph/let.h \
	graph/load.c graph/load_attr.c graph/left_out.c graph/load.h \
	graph/load_error.c graph/load_error.h \
	graph/lower.c graph/lower.h \
	graph/monitor.c graph/monitor.h \
	graph/node.c \
	graph/plugin.c graph/plugin.h \
	graph/reference.c graph/reference_json.c graph/schema.c graph/schema.h \
	graph/registry.c graph/registry.h \
	graph/rule.c graph/rule.h \
	graph/structure.c graph/structure.h \
	graph/wire.c \
	graph/xml.c graph/xml.h
