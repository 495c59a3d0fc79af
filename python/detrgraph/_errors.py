"""Diagnostics of the library as exceptions: one class for each status of detrgraph/core.h."""
from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from typing import Any, Optional

from . import _c

STOPPED = -6


@dataclass(frozen=True)
class Diagnostic:
    """What went wrong, where, and what to do."""

    id: str  # stable: "file-open"
    message: str
    severity: str  # "error" or "warning"
    file: Optional[str]
    line: Optional[int]
    help: tuple[str, ...]


class DetrgraphError(Exception):
    """Base class. `id` names the first error; `diagnostics` has all of them."""

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text)
        self.diagnostics = diagnostics
        errors = [d for d in diagnostics if d.severity == "error"]
        self.id = errors[0].id if errors else "unknown"


class InputError(DetrgraphError, ValueError):
    """A pipeline, an image, weights or an argument is wrong."""


class FileError(DetrgraphError, OSError):
    """The operating system refused: a missing file, a full disk, no permission."""


class OutOfMemoryError(DetrgraphError, MemoryError):
    """There is not enough memory."""


class NumericError(DetrgraphError, ArithmeticError):
    """A number that must be finite is not."""


class DeviceError(DetrgraphError):
    """This build, machine or device cannot do it."""


class InternalError(DetrgraphError):
    """A defect of detrgraph."""


_CLASSES: dict[int, type[DetrgraphError]] = {
    -1: InputError, -2: FileError, -3: OutOfMemoryError, -4: NumericError, -5: DeviceError}


class Diagnostics:
    """A dg_diag for one call: `with Diagnostics() as d: d.check(library.call(..., d.pointer))`."""

    def __enter__(self) -> "Diagnostics":
        self._library = _c.library()
        self.pointer = ctypes.c_void_p(self._library.dg_diag_open())
        return self

    def __exit__(self, *exception: object) -> None:
        self._library.dg_diag_close(ctypes.byref(self.pointer))

    def read(self) -> tuple[Diagnostic, ...]:
        n = int(self._library.dg_diag_write_json(self.pointer, None, 0))
        text = ctypes.create_string_buffer(n + 1)
        self._library.dg_diag_write_json(self.pointer, text, n + 1)
        found: list[dict[str, Any]] = json.loads(text.value.decode("utf-8", "replace"))
        return tuple(Diagnostic(str(x["id"]), str(x["message"]), str(x["severity"]), x.get("file"),
                                x.get("line") or None, tuple(x.get("help") or ())) for x in found)

    def check(self, status: int) -> None:
        """Raises the exception of a negative status."""
        if status < 0:
            raw: bytes = self._library.dg_diag_text(self.pointer) or b""
            text = raw.decode("utf-8", "replace").strip()
            raise _CLASSES.get(status, InternalError)(text or f"status {status}", self.read())
