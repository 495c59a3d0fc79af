detrgraph_SOURCES += \
	cli/cli.h \
	cli/cmd_bench.c \
	cli/cmd_ctl.c \
	cli/cmd_doctor.c \
	cli/cmd_evaluate.c \
	cli/cmd_nodes.c \
	cli/cmd_plan.c \
	cli/cmd_predict.c \
	cli/cmd_render.c \
	cli/cmd_run.c \
	cli/cmd_score.c \
	cli/cmd_validate.c \
	cli/launch.c cli/launch.h \
	cli/machines.c \
	cli/main.c \
	cli/cmd_key.c \
	cli/options.c \
	cli/progress.c cli/progress.h \
	cli/rank.c \
	cli/signals.c cli/signals.h \
	cli/terminal.c
