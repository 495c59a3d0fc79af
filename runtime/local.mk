libruntime_la_SOURCES += \
	runtime/account.c runtime/account.h \
	runtime/archive.c runtime/archive.h \
	runtime/available.c runtime/available.h \
	runtime/bucket.c runtime/bucket.h \
	runtime/collective.c runtime/collective.h \
	runtime/comm_gloo.c runtime/comm_gloo.h \
	runtime/comm_shm.c runtime/comm_shm.h \
	runtime/choice.c runtime/choice.h \
	runtime/checkpoint.c runtime/checkpoint.h \
	runtime/clocks.c \
	runtime/data.c \
	runtime/environment.c runtime/environment.h \
	runtime/evaluate.c \
	runtime/events.c runtime/events.h \
	runtime/folder.c \
	runtime/follow.c runtime/follow.h \
	runtime/history.c runtime/history.h \
	runtime/journal.c runtime/journal.h \
	runtime/machine.c runtime/machine.h \
	runtime/meeting.c runtime/meeting.h \
	runtime/nodecheck.c runtime/nodecheck.h runtime/nodecheck_self.h runtime/nodecheck_batch.c \
	runtime/nodecheck_choice.c runtime/nodecheck_item.c runtime/nodecheck_loader.c runtime/nodecheck_number.c \
	runtime/nodecheck_plan.c runtime/nodecheck_probe.c runtime/nodecheck_set.c runtime/nodecheck_sink.c \
	runtime/nodecheck_tensor.c runtime/nodecheck_trial.c \
	runtime/dialect.c runtime/dialect.h \
	runtime/hf.c runtime/hf.h \
	runtime/hf_config.c runtime/hf_self.h \
	runtime/inventory.c runtime/inventory.h \
	runtime/onnx.c runtime/onnx.h \
	runtime/onnx_ops.c runtime/onnx_self.h \
	runtime/pictures.c \
	runtime/profile.c runtime/profile.h \
	runtime/report.c runtime/report.h \
	runtime/report_diff.c \
	runtime/report_page.c runtime/report_page.h \
	runtime/report_headline.c \
	runtime/report_parts.c \
	runtime/report_scores.c \
	runtime/report_setup.c \
	runtime/report_style.c \
	runtime/report_time.c \
	runtime/pickle.c runtime/pickle.h \
	runtime/predict.c \
	runtime/pth.c \
	runtime/run.c \
	runtime/safetensors.c \
	runtime/scrape.c runtime/scrape.h \
	runtime/session.c runtime/session.h \
	runtime/shards.c \
	runtime/sinks.c \
	runtime/start.c \
	runtime/step.c \
	runtime/store.c runtime/store.h \
	runtime/tell.c runtime/tell.h \
	runtime/trace.c runtime/trace.h \
	runtime/train.c runtime/train.h \
	runtime/weights.c runtime/weights.h \
	runtime/together.c \
	runtime/watched.c runtime/watched.h \
	runtime/witness.c runtime/witness.h \
	runtime/world.c runtime/world.h
libruntime_la_SOURCES += \
	runtime/datareport.c runtime/datareport.h \
	runtime/stream.c runtime/stream.h
libruntime_la_SOURCES += \
	runtime/exec.c runtime/exec.h
if GLOO
libruntime_la_SOURCES += runtime/gloo.cc runtime/gloo.h
endif
libruntime_la_SOURCES += \
	runtime/comm_watched.c runtime/comm_watched.h \
	runtime/coordinator.c runtime/coordinator.h \
	runtime/keyfile.c runtime/keyfile.h \
	runtime/muster.c runtime/muster.h \
	runtime/crew.c runtime/crew.h \
	runtime/doctor.c runtime/doctor.h \
	runtime/entrance.c runtime/entrance.h \
	runtime/facts.c runtime/facts.h \
	runtime/launch.c runtime/launch.h \
	runtime/link.c runtime/link.h \
	runtime/message.c runtime/message.h \
	runtime/recorder.c runtime/recorder.h \
	runtime/roster.c runtime/roster_ask.c runtime/roster_seen.c runtime/roster_time.c runtime/roster.h runtime/roster_self.h \
	runtime/socket.c runtime/socket.h \
	runtime/rates.c runtime/rates.h \
	runtime/steer.c runtime/steer.h
