"""The C library: where it is, its structs and its functions. tests/python/layout holds the structs
to detrgraph/*.h."""
from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int64,
                    c_size_t, c_uint8, c_uint32, c_uint64, c_void_p)
from pathlib import Path
from typing import Any, Optional

LOG = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class DetectorOptions(Structure):
    _fields_ = [("size", c_size_t), ("model", c_char_p), ("weights", c_char_p), ("last", c_bool),
                ("n_sets", c_int), ("sets", POINTER(c_char_p)), ("precision", c_char_p),
                ("device", c_char_p), ("threads", c_int), ("names", c_void_p), ("n_names", c_int),
                ("program", c_char_p), ("log", LOG), ("log_ctx", c_void_p)]


class CocoClass(Structure):
    _fields_ = [("id", c_int64), ("name", c_char_p)]


class Pixels(Structure):
    _fields_ = [("w", c_int), ("h", c_int), ("order", c_int), ("stride", c_int64),
                ("data", c_char_p)]


class Box(Structure):
    _fields_ = [("x1", c_double), ("y1", c_double), ("x2", c_double), ("y2", c_double)]


class Hit(Structure):
    _fields_ = [("box", Box), ("label", c_int), ("score", c_double)]


class Image(Structure):
    _fields_ = [("w", c_int), ("h", c_int), ("rgb", POINTER(c_uint8))]


class Rle(Structure):
    _fields_ = [("w", c_int), ("h", c_int), ("n", c_int64), ("runs", POINTER(c_uint32))]


class Detected(Structure):
    _fields_ = [("name", c_char_p), ("image", POINTER(Image)), ("n", c_int),
                ("items", POINTER(Hit)), ("masks", POINTER(Rle))]


class RunOptions(Structure):
    _fields_ = [("size", c_size_t), ("file", c_char_p), ("text", c_char_p), ("n_sets", c_int),
                ("sets", POINTER(c_char_p)), ("precision", c_char_p), ("program", c_char_p),
                ("threads", c_int), ("has_seed", c_bool), ("seed", c_uint64),
                ("reference", c_bool), ("feed_draws", c_bool), ("no_pretrained", c_bool),
                ("keep_named", c_bool), ("classes", c_void_p), ("log", LOG), ("log_ctx", c_void_p),
                ("control", c_void_p), ("control_ctx", c_void_p), ("device", c_char_p),
                ("debug", c_char_p), ("resumes", c_char_p), ("evaluates_only", c_bool)]


class RunReport(Structure):
    _fields_ = [("step", c_int64), ("n_steps", c_int64), ("epoch", c_int64), ("loss", c_double),
                ("images_per_s", c_double), ("left_s", c_double), ("scope", c_char_p),
                ("n", c_int), ("names", POINTER(c_char_p)), ("values", POINTER(c_double)),
                ("n_notes", c_int), ("notes", POINTER(c_char_p)), ("n_epochs", c_int64)]


STOP = CFUNCTYPE(c_int, c_void_p)
REPORT = CFUNCTYPE(None, c_void_p, POINTER(RunReport))


class TrainOptions(Structure):
    _fields_ = [("size", c_size_t), ("out", c_char_p), ("force", c_bool), ("resume", c_int),
                ("resume_from", c_char_p), ("steps", c_int64), ("max_minutes", c_double),
                ("stop", STOP), ("report", REPORT), ("ctx", c_void_p), ("trace", c_int64),
                ("metrics_port", c_int64)]


#: C names of the structs, for tests/python/layout
STRUCTS: dict[str, type[Structure]] = {
    "dg_detector_options": DetectorOptions, "dg_coco_class": CocoClass, "dg_pixels": Pixels,
    "dg_box": Box, "dg_hit": Hit, "dg_image": Image, "dg_rle": Rle, "dg_detected": Detected,
    "dg_run_options": RunOptions, "dg_run_report": RunReport,
    "dg_run_train_options": TrainOptions}

_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "dg_diag_open": (c_void_p, []),
    "dg_diag_close": (None, [c_void_p]),
    "dg_diag_text": (c_char_p, [c_void_p]),
    "dg_diag_write_json": (c_size_t, [c_void_p, c_char_p, c_size_t]),
    "dg_detector_open": (c_int, [c_void_p, POINTER(DetectorOptions), c_void_p]),
    "dg_detector_close": (None, [c_void_p]),
    "dg_detector_classes": (POINTER(CocoClass), [c_void_p, POINTER(c_int)]),
    "dg_detector_threshold": (c_double, [c_void_p]),
    "dg_detector_room": (c_int, [c_void_p]),
    "dg_detector_add_file": (c_int, [c_void_p, c_char_p, c_void_p]),
    "dg_detector_add_bytes": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, c_void_p]),
    "dg_detector_add_pixels": (c_int, [c_void_p, c_char_p, POINTER(Pixels), c_void_p]),
    "dg_detector_run": (c_int, [c_void_p, c_double, POINTER(POINTER(Detected)), POINTER(c_int),
                                c_void_p]),
    "dg_run_open": (c_int, [c_void_p, POINTER(RunOptions), c_void_p]),
    "dg_run_close": (None, [c_void_p]),
    "dg_run_train": (c_int, [c_void_p, POINTER(TrainOptions), c_void_p]),
    "dg_run_step_number": (c_int64, [c_void_p]),
    "dg_run_folder": (c_char_p, [c_void_p])}

_NAME = "libdetrgraph.so.0"
_HERE = Path(__file__).resolve().parent
_library: Optional[ctypes.CDLL] = None
_team: Optional[int] = None  # the process that OpenMP's threads are in; they do not survive a fork


def _load() -> ctypes.CDLL:
    asked = os.environ.get("DETRGRAPH_LIBRARY")
    bundled = _HERE / "bundle" / "lib"
    built = _HERE.parent.parent / ".libs" / _NAME
    if asked:
        return ctypes.CDLL(asked)
    if (bundled / _NAME).exists():
        # A library that is loaded already is found by its name, so that the ones of the wheel are
        # used: `order` lists each behind those that it needs.
        for name in (bundled / "order").read_text().split():
            ctypes.CDLL(str(bundled / name))
        return ctypes.CDLL(str(bundled / _NAME))
    if built.exists():
        return ctypes.CDLL(str(built))
    try:
        return ctypes.CDLL(_NAME)
    except OSError:
        raise ImportError(f"{_NAME} was not found: build detrgraph, install it, or name the file "
                          "in DETRGRAPH_LIBRARY") from None


def library() -> ctypes.CDLL:
    """The library, loaded at its first use."""
    global _library
    if _library is None:
        loaded = _load()
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, name)
            function.restype = result
            function.argtypes = arguments
        _library = loaded
    return _library


def text(value: Optional[str]) -> Optional[bytes]:
    """A string for C; a NUL in it would cut it off in silence."""
    if value is None:
        return None
    if "\0" in value:
        raise ValueError("a NUL character is in the text")
    return os.fsencode(value)


def count(name: str, value: int) -> int:
    """A number for an int in C, which would take the last 32 bits of a larger one."""
    if not 0 <= value < 1 << 31:
        raise ValueError(f"{name} {value}: a number from 0 to 2^31 - 1 is expected")
    return value


def take_threads(value: int) -> int:
    """The number of threads, if this process can have them: OpenMP would wait for ever for threads
    that a fork has left behind."""
    global _team
    if value != 1:
        here = os.getpid()
        if _team not in (None, here):
            raise RuntimeError(
                f"this process was forked from process {_team}, and the threads of the library "
                "stayed there: start it by multiprocessing.get_context(\"spawn\"), or give "
                "threads=1")
        _team = here
    return count("threads", value)


def texts(values: list[str]) -> Any:
    """A char *[]."""
    return (c_char_p * max(len(values), 1))(*[text(v) for v in values])


def string(raw: Optional[bytes]) -> str:
    return os.fsdecode(raw) if raw else ""
