#!/usr/bin/env python3
"""Makes the WebP and TIFF pictures of formats/ and formats/formats.txt: name, width, height and a hash of the pixels that
each must decode to: by Pillow, and, for what Pillow does otherwise, by the formula in this file.

    make_formats.py FOLDER        needs Pillow, tifffile and NumPy; run once, its results are kept"""
import os
import struct
import sys

import numpy as np
import tifffile
from PIL import Image, ImageOps

W, H = 37, 29


def fnv(data):
    v = 0xCBF29CE484222325
    for b in data:
        v = ((v ^ b) * 0x100000001B3) % 2**64
    return v


def header(w, h, samples=3):
    """A little-endian TIFF without compression that has a header and one strip of four bytes only."""
    tags = [(256, 4, 1, w), (257, 4, 1, h), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 1, 8),
            (277, 3, 1, samples), (278, 4, 1, h), (279, 4, 1, 4)]
    entries = b"".join(struct.pack("<HHII", *t) for t in tags)
    return struct.pack("<2sHI", b"II", 42, 12) + b"\1\2\3\4" + struct.pack("<H", len(tags)) + entries + bytes(4)


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    os.chdir(sys.argv[1])
    r = np.random.default_rng(7)
    rgb = Image.fromarray(r.integers(0, 256, (6, 7, 3), dtype=np.uint8)).resize((W, H), Image.BICUBIC)
    a = np.array(rgb)
    alpha = r.integers(0, 256, (H, W), dtype=np.uint8)
    both = np.dstack([a, alpha])
    wide = r.integers(0, 65536, (H, W, 3), dtype=np.uint16)
    turned = Image.Exif()
    turned[0x112] = 6
    expected = {}

    rgb.save("lossless.webp", lossless=True)
    rgb.save("lossy.webp", quality=70)
    Image.fromarray(both).save("alpha.webp", lossless=True, exact=True)
    expected["alpha.webp"] = a
    rgb.save("turn6.webp", lossless=True, exif=turned)
    rgb.save("animated.webp", save_all=True, append_images=[rgb.rotate(180)], lossless=True)
    for kind in ("raw", "tiff_lzw", "tiff_adobe_deflate", "packbits"):
        rgb.save(f"{kind}.tif", compression=kind)
    rgb.convert("L").save("gray.tif")
    rgb.convert("1").save("bits1.tif", compression="group4")
    rgb.convert("P", palette=Image.ADAPTIVE, colors=13).save("palette.tif")
    rgb.save("turn6.tif", tiffinfo={274: 6})
    c = np.array(rgb.convert("CMYK")).astype(int)
    Image.fromarray(c.astype(np.uint8), "CMYK").save("cmyk.tif")
    expected["cmyk.tif"] = ((255 - c[:, :, 3:]) * (255 - c[:, :, :3]) // 255).astype(np.uint8)
    tifffile.imwrite("tiles.tif", a, tile=(16, 16), photometric="rgb")
    tifffile.imwrite("big.tif", a, bigtiff=True, photometric="rgb", rowsperstrip=5)
    tifffile.imwrite("motorola.tif", a, byteorder=">", photometric="rgb", rowsperstrip=7)
    tifffile.imwrite("planes.tif", a.transpose(2, 0, 1), photometric="rgb", planarconfig="separate")
    tifffile.imwrite("alpha.tif", both, photometric="rgb", extrasamples=["unassalpha"])
    tifffile.imwrite("rgb16.tif", wide, photometric="rgb")
    for name in ("tiles.tif", "big.tif", "motorola.tif", "planes.tif", "alpha.tif"):
        expected[name] = a
    # as libtiff rounds: v / 257
    expected["rgb16.tif"] = ((wide.astype(int) + 128) // 257).astype(np.uint8)
    with open("huge.tif", "wb") as f:
        f.write(header(40000, 40000))
    with open("bomb.tif", "wb") as f:
        f.write(header(16000, 16000))
    with open("samples.tif", "wb") as f:
        f.write(header(37, 29, 65535))
    tifffile.imwrite("floats.tif", a.astype(np.float32), photometric="rgb")
    lines = []
    for name in sorted(os.listdir(".")):
        if name in ("animated.webp", "huge.tif", "bomb.tif", "samples.tif", "floats.tif", "formats.txt"):
            continue
        p = expected.get(name)
        if p is None:
            p = np.array(ImageOps.exif_transpose(Image.open(name)).convert("RGB"))
        p = np.ascontiguousarray(p)
        lines.append(f"{name} {p.shape[1]} {p.shape[0]} {fnv(p.tobytes()):016x}")
    with open("formats.txt", "w") as f:
        f.write("\n".join(lines) + "\n")


main()
