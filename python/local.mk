# The Python module: found by `PYTHONPATH=python`, or installed with the wheel of `make wheel`.
python_module = python/detrgraph/__init__.py python/detrgraph/__main__.py python/detrgraph/_c.py \
	python/detrgraph/_detector.py python/detrgraph/_errors.py python/detrgraph/_results.py \
	python/detrgraph/_train.py python/detrgraph/py.typed
EXTRA_DIST += $(python_module) python/wheel.py
