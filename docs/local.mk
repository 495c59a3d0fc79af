# Everything in docs is distributed; pages that are installed are named.
dist_man_MANS += docs/detrgraph.1
EXTRA_DIST += docs
