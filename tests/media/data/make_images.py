#!/usr/bin/env python3
"""Makes the pictures of this folder and images.txt: what each must decode to, by Pillow 9.4; and ops.txt.

    make_images.py FOLDER        needs Pillow and NumPy; run once, its results are kept

ycck.jpg is not made here (Pillow cannot write it): a CMYK picture that libjpeg wrote with
jpeg_set_colorspace(JCS_YCCK)."""
import os
import struct
import sys
import zlib

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

W, H = 37, 29


def fnv(data):
    v = 0xCBF29CE484222325
    for b in data:
        v = ((v ^ b) * 0x100000001B3) % 2**64
    return v


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(rows, w, h, depth, color, interlace=0, extra=b""):
    head = struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, interlace)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(rows))
            + chunk(b"IEND", b""))


def plain(a):
    return b"".join(b"\0" + row.tobytes() for row in a)


def adam7(a):
    out = b""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
                           (0, 1, 1, 2)):
        part = np.ascontiguousarray(a[y0::dy, x0::dx])
        if part.size:
            out += plain(part)
    return out


def tiff(orientation):
    return struct.pack(">2sHIHHHIHHI", b"MM", 42, 8, 1, 0x112, 3, 1, orientation, 0, 0)


def formula(name, n):
    """floor(256 u): the value formula of the parity fixtures."""
    h, m, out = fnv(name.encode()), 2**64, []
    for i in range(n):
        z = (h + (i + 1) * 0x9E3779B97F4A7C15) % m
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % m
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB % m
        out.append((z ^ (z >> 31)) >> 56)
    return out


def hue(image, shift):
    h, s, v = image.convert("HSV").split()
    h = (np.array(h).astype(int) + int(shift * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(h.astype(np.uint8)), s, v)).convert("RGB")


def operations():
    """ops.txt: operation, number, number, what becomes of the 53 x 37 image "pil_image"."""
    image = Image.fromarray(np.array(formula("pil_image", 37 * 53 * 3), dtype=np.uint8).reshape(37, 53, 3))
    enhance = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast,
               "saturation": ImageEnhance.Color}
    lines = []

    def add(op, x, y, result):
        lines.append(f"{op} {x} {y} {fnv(np.array(result).tobytes()):016x}")

    for op, make in enhance.items():
        for f in (0, 0.5, 0.9137, 1, 1.125, 1.5):
            add(op, f, 0, make(image).enhance(f))
    for f in (-0.5, -0.05, -0.0123, 0, 0.0377, 0.05, 0.5):
        add("hue", f, 0, hue(image, f))
    for w, h in ((1, 1), (53, 37), (53, 80), (80, 37), (7, 5), (52, 36), (54, 38), (320, 320), (640, 3)):
        add("resize", w, h, image.resize((w, h), Image.BILINEAR))
    with open("ops.txt", "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    os.chdir(sys.argv[1])
    r = np.random.default_rng(5)
    small = r.integers(0, 256, (6, 7, 3), dtype=np.uint8)
    rgb = Image.fromarray(small).resize((W, H), Image.BICUBIC)
    a = np.array(rgb)
    expected = {}

    def save(name, image, **kw):
        image.save(name, **kw)

    def write(name, data, pixels=None):
        with open(name, "wb") as f:
            f.write(data)
        if pixels is not None:
            expected[name] = pixels

    save("baseline.jpg", rgb, quality=80)
    save("444.jpg", rgb, quality=95, subsampling=0)
    save("progressive.jpg", rgb, quality=70, progressive=True)
    save("gray.jpg", rgb.convert("L"), quality=80)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=80)
    for o in range(1, 9):
        e = Image.Exif()
        e[0x112] = o
        save(f"turn{o}.jpg", rgb, quality=60, exif=e)
    save("rgb.png", rgb)
    save("gray.png", rgb.convert("L"))
    save("bits1.png", rgb.convert("1"))
    save("palette.png", rgb.convert("P", palette=Image.ADAPTIVE, colors=13), transparency=3)
    alpha = Image.fromarray(r.integers(0, 256, (H, W), dtype=np.uint8))
    both = rgb.copy()
    both.putalpha(alpha)
    save("rgba.png", both)
    save("la.png", both.convert("LA"))
    write("interlaced.png", png(adam7(a), W, H, 8, 2, 1), a)
    wide = r.integers(0, 65536, (H, W, 3), dtype=np.uint16)
    write("rgb16.png", png(plain(wide.astype(">u2")), W, H, 16, 2), (wide >> 8).astype(np.uint8))
    write("gray16.png", png(plain(wide[:, :, 0].astype(">u2")), W, H, 16, 0),
          np.repeat((wide[:, :, :1] >> 8).astype(np.uint8), 3, 2))
    write("turn6.png", png(plain(a), W, H, 8, 2, 0, chunk(b"eXIf", tiff(6))), np.rot90(a, -1))
    write("huge.png", png(b"", 40000, 40000, 8, 2))
    broken = bytearray(open("rgb.png", "rb").read())
    broken[-14] ^= 1  # within the checksum of IDAT
    write("badcrc.png", bytes(broken))
    write("text.jpg", b"this is no picture\n")
    write("empty.png", b"")
    lines = []
    for name in sorted(os.listdir(".")):
        if not name.endswith((".jpg", ".png")) or name in ("huge.png", "badcrc.png", "text.jpg", "empty.png"):
            continue
        p = expected.get(name)
        if p is None:
            p = np.array(ImageOps.exif_transpose(Image.open(name)).convert("RGB"))
        p = np.ascontiguousarray(p)
        lines.append(f"{name} {p.shape[1]} {p.shape[0]} {fnv(p.tobytes()):016x}")
    with open("images.txt", "w") as f:
        f.write("\n".join(lines) + "\n")
    operations()


main()
