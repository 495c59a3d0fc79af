# dist_man_MANS: the man page; dist_doc_DATA: pages worth installing; EXTRA_DIST: the rest.
dist_man_MANS += docs/detrgraph.1
EXTRA_DIST += docs/ops.md
