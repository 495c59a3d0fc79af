# the Python module's tests; the module is in python/
TESTS += tests/python/module
EXTRA_DIST += tests/python/module tests/python/cases.py tests/python/layout.py \
	tests/python/detector.py tests/python/results.py tests/python/training.py
