libnodes_la_SOURCES +=
