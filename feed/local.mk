libfeed_la_SOURCES += \
	feed/batch_data.c \
	feed/epoch_plan.c \
	feed/epoch_plan.h \
	feed/feeder.c \
	feed/feeder.h \
	feed/fetch.c \
	feed/fetch.h
