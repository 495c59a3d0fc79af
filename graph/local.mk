libgraph_la_SOURCES +=
