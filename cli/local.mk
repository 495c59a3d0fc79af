detrgraph_SOURCES += \
	cli/cli.h \
	cli/cmd_nodes.c \
	cli/cmd_plan.c \
	cli/cmd_render.c \
	cli/cmd_validate.c \
	cli/main.c \
	cli/options.c \
	cli/terminal.c
