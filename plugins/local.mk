# plugins/gate is a worked example, which the tests build outside the tree as its author would;
# plugins/template is what `detrgraph new node` copies: the files of common and of one kind.
templates = \
	plugins/template/common/Makefile \
	plugins/template/common/README.md \
	plugins/template/item/my_node.c \
	plugins/template/item/my_node.xml \
	plugins/template/item/numbers.c \
	plugins/template/loader/my_node.c \
	plugins/template/loader/my_node.xml \
	plugins/template/loader/numbers.c \
	plugins/template/op/my_node.c \
	plugins/template/op/my_node.xml \
	plugins/template/op/numbers.c \
	plugins/template/sink/my_node.c \
	plugins/template/sink/my_node.xml \
	plugins/template/sink/numbers.c \
	plugins/template/tensor/my_node.c \
	plugins/template/tensor/my_node.xml \
	plugins/template/tensor/numbers.c
EXTRA_DIST += plugins/gate $(templates)
