libmedia_la_SOURCES +=
