"""A trained detector."""
from __future__ import annotations

import ctypes
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Optional, Union

from . import _c
from ._errors import Diagnostics, InternalError
from ._results import Detection, Mask, Result

Setting = Union[str, int, float]
_ORDERS = {("rgb", 3): 0, ("bgr", 3): 1, ("rgb", 4): 2, ("bgr", 4): 3}
_GRAY = 4
_WARNING = 2  # a level of LOG
# adds an image to the batch; has a copy of it
_Adder = Callable[[ctypes.c_void_p], int]


def settings(sets: Mapping[str, Setting]) -> list[str]:
    return [f"{name}={value}" for name, value in sets.items()]


class Detector:
    """A trained detector: a run's folder, a checkpoint in one, a pipeline with weights, or the name
    of a published detector that `detrgraph weights fetch` has put into the cache.

    It may be used by several threads, which then wait for each other. Close it, or use it in a
    `with` statement, to free its memory at a known time.
    """

    def __init__(self, model: Union[str, "os.PathLike[str]"],
                 weights: Optional[Union[str, "os.PathLike[str]"]] = None, *, last: bool = False,
                 sets: Optional[Mapping[str, Setting]] = None, precision: Optional[str] = None,
                 device: Optional[str] = None, threads: int = 0,
                 keep_pixels: bool = True) -> None:
        """last: a run's last weights instead of its best. sets: values for the pipeline's <let>.
        threads: 0 takes all cores. keep_pixels: results keep the image, for pictures."""
        self._pointer = ctypes.c_void_p()
        self._lock = threading.RLock()
        self._library = _c.library()
        self._keep_pixels = keep_pixels
        self._process = os.getpid()
        self._threads = threads
        given = settings(sets or {})
        said: list[str] = []

        def log(ctx: object, level: int, line: bytes) -> None:
            if level == _WARNING:
                said.append(_c.string(line))

        self._said = said
        self._log = _c.LOG(log)  # kept here: C has only its address
        options = _c.DetectorOptions(
            size=ctypes.sizeof(_c.DetectorOptions), model=_c.text(os.fspath(model)),
            weights=_c.text(os.fspath(weights)) if weights is not None else None, last=last,
            n_sets=len(given), sets=_c.texts(given), precision=_c.text(precision),
            device=_c.text(device), threads=_c.take_threads(threads),
            program=b"detrgraph for Python", log=self._log)
        with Diagnostics() as d:
            status = self._library.dg_detector_open(ctypes.byref(self._pointer),
                                                    ctypes.byref(options), d.pointer)
            try:
                d.check(status)
            finally:
                self._warn()
        n = ctypes.c_int()
        found = self._library.dg_detector_classes(self._pointer, ctypes.byref(n))
        #: names of the classes by label; empty if they are not known
        self.classes: tuple[str, ...] = tuple(_c.string(found[i].name) for i in range(n.value))
        #: the least score, unless predict gets one: that of the best F1 in the run's evaluation of
        #: these weights, else 0.4
        self.threshold = float(self._library.dg_detector_threshold(self._pointer))
        #: images that are computed together
        self.batch = int(self._library.dg_detector_room(self._pointer))

    def close(self) -> None:
        if self._process != os.getpid():  # the lock may be that of a thread that is not here
            self._pointer = ctypes.c_void_p()
            return
        with self._lock:
            if self._pointer:
                self._library.dg_detector_close(ctypes.byref(self._pointer))

    def __enter__(self) -> "Detector":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()

    def predict(self, image: Any, threshold: Optional[float] = None, *,
                order: str = "rgb") -> Result:
        """Detects in one image: a path, the bytes of a JPEG, PNG or BMP, an image of Pillow's, or
        8-bit pixels as an array [height, width], [height, width, 1], [.., 3] or [.., 4], whose
        channels are in the order "rgb" or "bgr" (alpha is dropped)."""
        return self.predict_all([image], threshold, order=order)[0]

    def predict_all(self, images: Iterable[Any], threshold: Optional[float] = None, *,
                    order: str = "rgb") -> list[Result]:
        """Detects in several images, computed in batches; the results are in their order."""
        least = self.threshold if threshold is None else float(threshold)
        if not 0 <= least <= 1:
            raise ValueError(f"threshold {least}: a score from 0 to 1 is expected")
        if isinstance(images, (str, os.PathLike, bytes)):
            raise TypeError("predict_all takes a list of images; predict takes one")
        results: list[Result] = []
        source = iter(images)
        more = True
        while more:
            # code of the images runs outside the lock: it may use this detector, too
            adders = [self._adder(image, order) for image in islice(source, self.batch)]
            results += self._compute(adders, least)
            more = len(adders) == self.batch
        self._warn()
        return results

    def _warn(self) -> None:
        """Shows the library's warnings: an exception that one becomes cannot pass through C."""
        while self._said:
            warnings.warn(self._said.pop(0), stacklevel=3)

    def _adder(self, image: Any, order: str) -> _Adder:
        c = self._library
        if isinstance(image, (str, os.PathLike)):
            path = _c.text(os.fspath(image))
            return lambda d: int(c.dg_detector_add_file(self._pointer, path, d))
        view = _view(image)
        if view.ndim == 1 and view.itemsize == 1:
            data = view.tobytes()
            return lambda d: int(c.dg_detector_add_bytes(self._pointer, b"bytes", data, len(data),
                                                         d))
        pixels = _pixels(view, order)
        return lambda d: int(c.dg_detector_add_pixels(self._pointer, b"array",
                                                      ctypes.byref(pixels), d))

    def _compute(self, adders: list[_Adder], threshold: float) -> list[Result]:
        if self._process != os.getpid():
            _c.take_threads(self._threads)
        with self._lock:
            if not self._pointer:
                raise ValueError("the detector is closed")
            self._drop()
            for add in adders:
                with Diagnostics() as d:
                    d.check(add(d.pointer))
            results = self._run(threshold) if adders else []
        if len(results) != len(adders):
            raise InternalError(f"{len(results)} results of {len(adders)} images")
        return results

    def _drop(self) -> None:
        """Empties the batch of what an error or Ctrl-C left in it. The library is asked: Ctrl-C may
        come after it has added an image and before anything could be noted here."""
        if int(self._library.dg_detector_room(self._pointer)) < self.batch:
            found, n = ctypes.POINTER(_c.Detected)(), ctypes.c_int()
            with Diagnostics() as d:  # a failure empties it as well
                self._library.dg_detector_run(self._pointer, 1, ctypes.byref(found),
                                              ctypes.byref(n), d.pointer)

    def _run(self, threshold: float) -> list[Result]:
        found = ctypes.POINTER(_c.Detected)()
        n = ctypes.c_int()
        with Diagnostics() as d:
            d.check(self._library.dg_detector_run(self._pointer, threshold, ctypes.byref(found),
                                                  ctypes.byref(n), d.pointer))
        return [self._result(found[i]) for i in range(n.value)]

    def _result(self, f: _c.Detected) -> Result:
        im = f.image.contents
        pixels = ctypes.string_at(im.rgb, 3 * im.w * im.h) if self._keep_pixels else b""
        detections = tuple(self._detection(f.items[i], f.masks[i] if f.masks else None)
                           for i in range(f.n))
        return Result(_c.string(f.name), im.w, im.h, detections, pixels)

    def _detection(self, hit: _c.Hit, rle: Optional[_c.Rle]) -> Detection:
        label = int(hit.label)
        name = self.classes[label] if label < len(self.classes) else str(label)
        mask = Mask(rle.w, rle.h, tuple(rle.runs[:rle.n])) if rle is not None else None
        b = hit.box
        return Detection(label, name, float(hit.score), (b.x1, b.y1, b.x2, b.y2), mask)


def _view(image: Any) -> memoryview:
    """The memory of an array, of bytes, or of what NumPy makes an array of (Pillow's images)."""
    mode = getattr(image, "mode", None)
    # palettes, CMYK and others are Pillow's to convert; numbers that are not 8-bit are refused
    if (isinstance(mode, str) and hasattr(image, "convert") and mode not in ("L", "RGB", "RGBA")
            and not mode.startswith(("I", "F"))):
        image = image.convert("RGB")
    if type(image).__name__ == "MaskedArray" and getattr(image, "mask", None) is not None:
        if bool(image.mask.any()):
            raise TypeError("an array with masked pixels: image.filled(0) makes them black")
    try:
        return memoryview(image)
    except (TypeError, ValueError):
        pass
    if hasattr(image, "__array_interface__") or hasattr(image, "__array__"):
        import numpy
        array: Any = numpy.ascontiguousarray(image)
        return memoryview(array)
    raise TypeError(f"an image is a path, bytes or an array of pixels, not "
                    f"{type(image).__name__}")


def _pixels(view: memoryview, order: str) -> _c.Pixels:
    shape = view.shape or ()
    if order not in ("rgb", "bgr"):
        raise ValueError(f'order "{order}": "rgb" or "bgr" is expected')
    if view.format.lstrip("@=<>") != "B":
        raise TypeError(f'pixels are 8-bit numbers ("B", uint8), not "{view.format}"; of numbers '
                        "from 0 to 1: (image * 255).round().astype(numpy.uint8)")
    channels = shape[2] if len(shape) == 3 else 1 if len(shape) == 2 else 0
    if channels not in (1, 3, 4):
        raise ValueError(f"an array of the shape {list(shape)}: [height, width], or [height, "
                         "width, 1, 3 or 4] is expected")
    # before it is copied; as in detrgraph/data.h
    if 0 in shape or max(shape[:2]) > 1 << 15 or shape[0] * shape[1] > 1 << 28:
        raise ValueError(f"an image of {shape[1]} x {shape[0]} pixels; sides from 1 to 32768 and "
                         "at most 268435456 pixels are accepted")
    kind = _GRAY if channels == 1 else _ORDERS[order, channels]
    return _c.Pixels(shape[1], shape[0], kind, 0, view.tobytes())
