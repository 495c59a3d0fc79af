pkginclude_HEADERS += \
	include/detrgraph/core.h \
	include/detrgraph/data.h \
	include/detrgraph/detect.h \
	include/detrgraph/heads.h \
	include/detrgraph/kernel.h \
	include/detrgraph/node.h \
	include/detrgraph/op.h \
	include/detrgraph/plugin.h \
	include/detrgraph/run.h \
	include/detrgraph/tensor.h
