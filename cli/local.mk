detrgraph_SOURCES +=
