detrgraph_SOURCES += \
	cli/cli.h \
	cli/cluster.c cli/cluster.h \
	cli/cmd_bench.c \
	cli/cmd_check_node.c \
	cli/cmd_ctl.c \
	cli/cmd_data.c \
	cli/cmd_doctor.c \
	cli/cmd_evaluate.c \
	cli/cmd_help.c \
	cli/cmd_init.c \
	cli/cmd_key.c \
	cli/cmd_new.c \
	cli/cmd_nodes.c \
	cli/cmd_plan.c \
	cli/cmd_predict.c \
	cli/cmd_render.c \
	cli/cmd_report.c \
	cli/cmd_run.c \
	cli/cmd_score.c \
	cli/cmd_serve.c \
	cli/cmd_top.c \
	cli/cmd_validate.c \
	cli/cmd_weights.c \
	cli/completion.c \
	cli/ending.c cli/ending.h \
	cli/fetch.c cli/fetch.h \
	cli/gpus.c cli/gpus.h \
	cli/guard.c cli/guard.h \
	cli/help.c \
	cli/init_codino.c \
	cli/init_plan.h \
	cli/init_refuse.c cli/init_refuse.h \
	cli/init_rfdetr.c \
	cli/init_rtdetr.c \
	cli/init_text.c \
	cli/job.c cli/job.h \
	cli/launch.c cli/launch.h \
	cli/machines.c \
	cli/main.c \
	cli/models.c cli/models.h \
	cli/options.c \
	cli/predict_out.c cli/predict_out.h cli/predict_video.c cli/predict_video.h \
	cli/progress.c cli/progress.h \
	cli/rank.c \
	cli/report_script.c \
	cli/report_serve.c cli/report_serve.h \
	cli/serve.c cli/serve.h \
	cli/serve_page.c \
	cli/signals.c cli/signals.h \
	cli/standby.c cli/standby.h \
	cli/terminal.c \
	cli/trained.c cli/trained.h \
	cli/verbs.c

# the templates of `detrgraph new`, as numbers: the length of string literals is limited
BUILT_SOURCES += cli/templates.inc
CLEANFILES += cli/templates.inc
cli/detrgraph-cmd_new.$(OBJEXT): cli/templates.inc
cli/templates.inc: $(templates)
	$(AM_V_GEN)$(MKDIR_P) cli && { echo 'static const template_file templates[] = {'; \
	  for f in $^; do \
	    echo "    { \"$$(basename "$$(dirname "$$f")")\", \"$$(basename "$$f")\", (const char[]){"; \
	    od -An -v -tu1 "$$f" | sed 's/[0-9][0-9]*/&,/g'; echo '    0 } },'; \
	  done; echo '};'; } >$@.new && mv -f $@.new $@
