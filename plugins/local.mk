# Plugins are built by the tests, outside the tree, as their authors would.
EXTRA_DIST += plugins/gate
