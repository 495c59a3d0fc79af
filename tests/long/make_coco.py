#!/usr/bin/env python3
"""Writes a COCO annotation file of the size of train2017: 118 000 images, 860 000 boxes with polygons.

    make_coco.py OUT.json [IMAGES [BOXES]]

About 450 MB. Random but always the same. Annotations come first, as they may."""
import random
import sys


def main():
    path = sys.argv[1]
    n_images = int(sys.argv[2]) if len(sys.argv) > 2 else 118_000
    n_boxes = int(sys.argv[3]) if len(sys.argv) > 3 else 860_000
    r = random.Random(1)
    ids = r.sample(range(1, 600_000), n_images)
    with open(path, "w") as f:
        f.write('{"info": {"year": 2017},"annotations": [')
        for k in range(n_boxes):
            w, h = round(r.uniform(2, 300), 2), round(r.uniform(2, 200), 2)
            x, y = round(r.uniform(0, 640 - w), 2), round(r.uniform(0, 480 - h), 2)
            points = ",".join(f"{r.uniform(0, 640):.2f}" for _ in range(2 * r.randint(8, 36)))
            f.write("%s{\"segmentation\": [[%s]],\"area\": %.4f,\"iscrowd\": %d,\"image_id\": %d,"
                    "\"bbox\": [%s,%s,%s,%s],\"category_id\": %d,\"id\": %d}"
                    % ("," if k else "", points, w * h * 0.6, k % 100 == 0, r.choice(ids), x, y, w, h,
                       r.randint(1, 80), k + 1))
        f.write('],"images": [')
        for k, i in enumerate(ids):
            f.write('%s{"license": 3,"file_name": "%012d.jpg","coco_url": "http://example.org/%012d.jpg",'
                    '"height": 480,"width": 640,"date_captured": "2013-11-14 11:18:45","id": %d}'
                    % ("," if k else "", i, i, i))
        f.write('],"categories": [%s]}' % ",".join(
            '{"supercategory": "thing","id": %d,"name": "class %d"}' % (c, c) for c in range(1, 81)))


main()
