#!/usr/bin/env python3
"""Makes masks_*.json, masks_*_found.json and masks.json: annotation files with polygons and run lengths, detections
with masks, and what pycocotools makes of them: each annotation's run lengths and the 12 scores of "segm".

    pip install pycocotools; python3 make_masks.py
"""
import json
import math
import random

import numpy
from pycocotools import mask as tools
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def star(r, cx, cy, size, n):
    """A polygon of n points around a centre, some of them outside the image."""
    out = []
    for k in range(n):
        angle, far = 2 * math.pi * k / n, size * r.uniform(0.4, 1.1)
        out += [round(cx + far * math.cos(angle), 2), round(cy + far * math.sin(angle), 2)]
    return out


def plain(rle):
    """Run lengths as numbers."""
    bits = tools.decode(rle).flatten(order="F")
    runs, last = [0], 0
    for b in bits:
        if b != last:
            runs.append(0)
            last = b
        runs[-1] += 1
    return {"size": rle["size"], "counts": [int(x) for x in runs]}


def text(rle):
    return {"size": rle["size"], "counts": rle["counts"].decode()}


def case(seed, crowds):
    r = random.Random(seed)
    truth = {"images": [], "annotations": [], "categories": [{"id": 3, "name": "a"}, {"id": 8, "name": "b"}]}
    found = []
    for i in range(8):
        w, h = r.choice([(64, 48), (240, 200), (37, 150)])
        truth["images"].append({"id": 10 * i + 1, "file_name": f"{i}.png", "width": w, "height": h})
        for _ in range(r.choice([0, 1, 2, 5])):
            cx, cy = r.uniform(0, w), r.uniform(0, h)
            size, n = r.uniform(3, 0.6 * max(w, h)), r.choice([3, 4, 9, 40])
            polygons = [star(r, cx, cy, size, n)]
            if r.random() < 0.3:
                polygons.append(star(r, r.uniform(0, w), r.uniform(0, h), size / 2, 5))
            rle = tools.merge(tools.frPyObjects(polygons, h, w))
            if tools.area(rle) == 0:
                continue
            crowd = int(crowds and r.random() < 0.3)
            form = text(rle) if r.random() < 0.2 else polygons
            category = r.choice([3, 8])
            truth["annotations"].append({
                "id": len(truth["annotations"]) + 1, "image_id": 10 * i + 1, "category_id": category,
                "bbox": [float(x) for x in tools.toBbox(rle)], "area": float(tools.area(rle)), "iscrowd": crowd,
                "segmentation": plain(rle) if crowd else form})
            for _ in range(r.choice([0, 1, 3])):
                jitter = [[x + r.gauss(0, 0.04 * size) for x in p] for p in polygons]
                mask = tools.merge(tools.frPyObjects(jitter, h, w))
                found.append({"image_id": 10 * i + 1, "score": round(r.random(), 3),
                              "category_id": category if r.random() < 0.9 else 11 - category,
                              "segmentation": text(mask)})
    return truth, found


all_cases = []
for name, seed, crowds in (("plain", 5, False), ("crowds", 6, True)):
    truth, found = case(seed, crowds)
    for path, what in ((f"masks_{name}.json", truth), (f"masks_{name}_found.json", found)):
        with open(path, "w") as f:
            json.dump(what, f, separators=(",", ":"))
            f.write("\n")
    gt = COCO(f"masks_{name}.json")
    e = COCOeval(gt, gt.loadRes(f"masks_{name}_found.json"), "segm")
    e.evaluate()
    e.accumulate()
    e.summarize()
    runs = [tools.frPyObjects(a["segmentation"], *a["segmentation"]["size"])["counts"].decode()
            if a["iscrowd"] else gt.annToRLE(a)["counts"] for a in truth["annotations"]]
    all_cases.append({"name": name, "numbers": [float(x) for x in e.stats],
                      "runs": [x if isinstance(x, str) else x.decode() for x in runs]})
with open("masks.json", "w") as f:
    json.dump(all_cases, f, separators=(",", ":"))
    f.write("\n")
