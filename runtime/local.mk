libruntime_la_SOURCES +=
