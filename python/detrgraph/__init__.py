"""Detectors of detrgraph in Python: use trained ones, train new ones.

    from detrgraph import Detector, train
    found = Detector("runs/mine").predict("photo.jpg")
    for d in found: print(d.name, d.score, d.box)

It calls the C library (detrgraph/detect.h, run.h) and needs no other package; NumPy only where
arrays are asked for.
"""
from ._detector import Detector
from ._errors import (DetrgraphError, Diagnostic, DeviceError, FileError, InputError, InternalError,
                      NumericError, OutOfMemoryError)
from ._results import Detection, Mask, Result
from ._train import Callbacks, Evaluation, Step, Trained, train

__all__ = ["Callbacks", "Detection", "Detector", "DetrgraphError", "DeviceError", "Diagnostic",
           "Evaluation", "FileError", "InputError", "InternalError", "Mask", "NumericError",
           "OutOfMemoryError", "Result", "Step", "Trained", "train"]
