detrgraph_SOURCES += \
	cli/cli.h \
	cli/cmd_validate.c \
	cli/main.c \
	cli/options.c \
	cli/terminal.c
