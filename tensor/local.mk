libtensor_la_SOURCES +=
