#!/usr/bin/env python3
"""Makes scores.json: small random truths and detections full of ties, crowds and areas at the limits, with the
numbers of the official evaluator (pycocotools 2.0).

    make_scores.py OUT.json"""
import contextlib
import io
import json
import random
import sys

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval


def official(gt, dt):
    with contextlib.redirect_stdout(io.StringIO()):
        g = COCO()
        g.dataset = json.loads(json.dumps(gt))
        g.createIndex()
        e = COCOeval(g, g.loadRes(json.loads(json.dumps(dt))), "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    classes = []
    for k in range(len(e.params.catIds)):
        p = e.eval["precision"][:, :, k, 0, 2]
        p = p[p > -1]
        classes.append(float(np.mean(p)) if p.size else -1)
    return [float(x) for x in e.stats], classes


def case(seed):
    r = random.Random(seed)
    ids, cats = r.sample(range(1, 1000), r.randint(1, 6)), r.sample(range(1, 90), r.randint(1, 4))
    truths, found = [], []

    def box():
        s = r.choice([12, 40, 150])
        return [round(r.uniform(0, 300), 1), round(r.uniform(0, 300), 1), round(r.uniform(1, s)), round(r.uniform(1, s))]

    for i in ids:
        for _ in range(r.choice([0, 1, 3, 6])):
            b = box()
            area = r.choice([1024, 9216]) if r.random() < .2 else b[2] * b[3] * r.choice([1, .7])
            truths.append(dict(id=len(truths) + 1, image_id=i, category_id=r.choice(cats), bbox=b, area=area,
                               iscrowd=int(r.random() < .2)))
            for _ in range(r.randint(0, 3)):
                j = r.choice([0, .05, .2])
                found.append(dict(image_id=i, category_id=truths[-1]["category_id"],
                                  bbox=[round(v * (1 + r.uniform(-j, j)), 1) for v in b],
                                  score=r.choice([.1, .3, .3, .9])))
        for _ in range(r.choice([0, 3, 120 if seed % 4 == 0 else 1])):
            found.append(dict(image_id=i, category_id=r.choice(cats), bbox=box(), score=round(r.random(), 1)))
    r.shuffle(truths)
    r.shuffle(found)
    gt = dict(images=[dict(id=i) for i in ids], categories=[dict(id=c, name=str(c)) for c in cats],
              annotations=truths)
    if not found:
        return None
    numbers, classes = official(gt, found)
    return dict(truth=gt, detections=found, numbers=numbers, classes=classes)


def main():
    cases = [c for c in map(case, range(24)) if c]
    with open(sys.argv[1], "w") as f:
        json.dump(cases, f, separators=(",", ":"))
        f.write("\n")


main()
