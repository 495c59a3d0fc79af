libgraph_la_SOURCES += \
	graph/attr.c graph/attr.h \
	graph/check.c \
	graph/contract.c graph/contract.h \
	graph/dot.c graph/dot.h graph/dot_node.c \
	graph/fire.c graph/fire.h graph/expand.c graph/expand.h \
	graph/graph.c graph/graph.h \
	graph/keeps.c graph/keeps.h \
	graph/let.c graph/let.h \
	graph/load.c graph/load_attr.c graph/load.h \
	graph/lower.c graph/lower.h \
	graph/monitor.c graph/monitor.h \
	graph/node.c \
	graph/plugin.c graph/plugin.h \
	graph/reference.c graph/reference_json.c graph/schema.c graph/schema.h \
	graph/registry.c graph/registry.h \
	graph/render.c graph/render.h \
	graph/report.c graph/report.h \
	graph/structure.c graph/structure.h \
	graph/vary.c graph/vary.h graph/vary_self.h \
	graph/runnable.c graph/vary_check.c graph/vary_digest.c graph/vary_fire.c graph/vary_lower.c graph/vary_meet.c \
	graph/vary_row.c graph/vary_rule.c graph/vary_set.c graph/vary_trust.c \
	graph/wire.c \
	graph/xml.c graph/xml.h
