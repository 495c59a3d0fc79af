"""What a detector found in an image: as objects, as NumPy arrays, as records, as a picture."""
from __future__ import annotations

import base64
import colorsys
import html
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, Union

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError("arrays need NumPy: pip install numpy. Without it there are "
                          "`detections` and `records()`") from None
    return numpy


@dataclass(frozen=True)
class Mask:
    """The pixels of an object in COCO's run lengths: of 0 and 1 in turn, column by column."""

    width: int
    height: int
    runs: tuple[int, ...]

    @property
    def area(self) -> int:
        return sum(self.runs[1::2])

    def array(self) -> "NDArray[np.bool_]":
        """[height, width]"""
        numpy = _numpy()
        values = numpy.arange(len(self.runs)) % 2 == 1
        found: "NDArray[np.bool_]" = numpy.repeat(values, self.runs).reshape(self.width, self.height).T
        return found


@dataclass(frozen=True)
class Detection:
    label: int
    name: str  # of the class; its label as text if the names are not known
    score: float
    box: tuple[float, float, float, float]  # x1, y1, x2, y2 in pixels
    mask: Optional[Mask] = None


@dataclass(frozen=True)
class Result(Sequence[Detection]):
    """The detections in an image, best first. A notebook shows the picture."""

    image: str  # its name
    width: int
    height: int
    detections: tuple[Detection, ...]
    pixels: bytes  # RGB, rows top down; empty if they were not kept

    def __len__(self) -> int:
        return len(self.detections)

    def __getitem__(self, i: Any) -> Any:
        return self.detections[i]

    def __iter__(self) -> Iterator[Detection]:
        return iter(self.detections)

    def __repr__(self) -> str:
        return f"<{self.image}: {self.width} x {self.height}, {len(self)} found>"

    @property
    def boxes(self) -> "NDArray[np.float64]":
        """[n, 4]: x1, y1, x2, y2 in pixels"""
        numpy = _numpy()
        found: "NDArray[np.float64]" = numpy.array([d.box for d in self], float).reshape(-1, 4)
        return found

    @property
    def scores(self) -> "NDArray[np.float64]":
        found: "NDArray[np.float64]" = _numpy().array([d.score for d in self], "float64")
        return found

    @property
    def labels(self) -> "NDArray[np.int64]":
        found: "NDArray[np.int64]" = _numpy().array([d.label for d in self], "int64")
        return found

    @property
    def masks(self) -> "Optional[NDArray[np.bool_]]":
        """[n, height, width]; None if the model has none"""
        numpy = _numpy()
        each = [d.mask.array() for d in self if d.mask]
        if len(each) < len(self):
            return None
        found: "NDArray[np.bool_]" = numpy.array(each, bool).reshape(-1, self.height, self.width)
        return found

    def records(self) -> list[dict[str, Union[str, int, float]]]:
        """A dict per detection: pandas.DataFrame(result.records()) makes a table."""
        return [{"image": self.image, "label": d.label, "name": d.name, "score": d.score,
                 "x1": d.box[0], "y1": d.box[1], "x2": d.box[2], "y2": d.box[3]} for d in self]

    # ---- pictures -------------------------------------------------------------------------------

    def _repr_png_(self) -> Optional[bytes]:
        """The image with its boxes."""
        if not self.pixels:
            return None
        rgb = bytearray(self.pixels)
        thick = max(1, min(self.width, self.height) // 200)
        for d in reversed(self.detections):
            _frame(rgb, self.width, self.height, d, thick)
        return _png(bytes(rgb), self.width, self.height)

    def _repr_html_(self) -> Optional[str]:
        """The same with names and scores, which scale with the page."""
        if not self.pixels:
            return None
        picture = base64.b64encode(_png(self.pixels, self.width, self.height)).decode()
        size = max(self.width, self.height) / 40
        parts = [f'<svg viewBox="0 0 {self.width} {self.height}" '
                 f'style="max-width:100%;width:{max(self.width, 480)}px">'
                 f'<image width="{self.width}" height="{self.height}" '
                 f'href="data:image/png;base64,{picture}"/>']
        for d in reversed(self.detections):
            x1, y1, x2, y2 = d.box
            colour = "rgb({},{},{})".format(*_colour(d.label))
            parts.append(
                f'<rect x="{x1:.1f}" y="{y1:.1f}" width="{max(x2 - x1, 0):.1f}" '
                f'height="{max(y2 - y1, 0):.1f}" fill="none" stroke="{colour}" '
                f'stroke-width="{size / 6:.2f}"/>'
                f'<text x="{max(x1, 0):.1f}" y="{max(y1 - size / 4, size):.1f}" fill="{colour}" '
                f'font-family="sans-serif" font-size="{size:.1f}" stroke="black" '
                f'stroke-width="{size / 8:.2f}" paint-order="stroke">'
                f'{html.escape(d.name)} {d.score:.2f}</text>')
        return "".join(parts) + "</svg>"


def _colour(label: int) -> tuple[int, int, int]:
    r, g, b = colorsys.hsv_to_rgb(label * 0.618034 % 1, 0.75, 1)
    return int(r * 255), int(g * 255), int(b * 255)


def _frame(rgb: bytearray, w: int, h: int, d: Detection, thick: int) -> None:
    x1, x2 = (min(max(round(v), 0), w) for v in (d.box[0], d.box[2]))
    y1, y2 = (min(max(round(v), 0), h) for v in (d.box[1], d.box[3]))
    if x2 <= x1 or y2 <= y1:
        return
    colour = bytes(_colour(d.label))
    side = min(thick, x2 - x1)
    for y in range(y1, y2):
        row = 3 * w * y
        if y < y1 + thick or y >= y2 - thick:
            rgb[row + 3 * x1:row + 3 * x2] = colour * (x2 - x1)
        else:
            rgb[row + 3 * x1:row + 3 * (x1 + side)] = colour * side
            rgb[row + 3 * (x2 - side):row + 3 * x2] = colour * side


def _png(rgb: bytes, w: int, h: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))

    rows = b"".join(b"\0" + rgb[3 * w * y:3 * w * (y + 1)] for y in range(h))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows, 6)) + chunk(b"IEND", b""))
