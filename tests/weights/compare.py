"""What PyTorch, transformers and onnxruntime make of the weights that detrgraph exports, and the other way round.

    compare.py pth FROM.safetensors TO.pth        the file as torch.save writes a checkpoint of the reference
    compare.py old FROM.safetensors TO.pth        the same of a model on several GPUs, in the form before PyTorch 1.6
    compare.py shards FOLDER OUT                  the model as transformers saves large ones, in several files
    compare.py evil TO.pth                        a checkpoint that would run a command
    compare.py pixels FOLDER SIDE OUT IMAGE...    the images as the exported preprocessor_config.json has them
    compare.py noise N SIZE OUT                   pixels that are no images; SIZE: a side, or WxH
    compare.py hf FOLDER PIXELS OUT               transformers' logits and boxes; fails on missing or unexpected keys
    compare.py onnx FILE PIXELS OUT               onnxruntime's; if it has masks, OUT.masks: boxes and masks detected
    compare.py check FILE                         what ONNX's own checker says of it, shapes inferred through every node
    compare.py close WHAT FIRST SECOND N Q LOGITS BOXES    the largest differences, of which neither may be greater
    compare.py masks WHAT FIRST SECOND N K LOGITS BOXES    those of the masks of two OUT.masks of K detections
    compare.py random CONFIG-FOLDER OUT           random weights in a model of this configuration, as transformers saves it
    compare.py predict FOLDER JSON         transformers' whole path against `detrgraph predict --format json`
"""
import json
import os
import sys

import numpy as np


def load_model(folder):
    import torch
    from transformers import AutoModelForObjectDetection

    model, info = AutoModelForObjectDetection.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(kind):
            sys.exit(f"{kind}: {sorted(info[kind])[:10]}")

    return model.eval()


def processor(folder):
    from transformers import AutoImageProcessor

    for how in ({"backend": "pil"}, {"use_fast": False}):
        try:
            return AutoImageProcessor.from_pretrained(folder, **how)
        except (ImportError, TypeError, ValueError):
            pass
    return AutoImageProcessor.from_pretrained(folder)


def read_pixels(path):
    return np.load(path)


def checkpoint(source, prefix=""):
    import torch
    from safetensors.torch import load_file

    state = load_file(source)
    averaged = {prefix + k: v.clone() for k, v in state.items()}
    zeros = {prefix + k: torch.zeros_like(v) for k, v in state.items()}
    return {"date": "today", "last_epoch": 3, "model": zeros, "ema": {"module": averaged, "updates": 7}}


def pth(source, to):
    import torch

    torch.save(checkpoint(source), to)


def old(source, to):
    import argparse

    import torch

    beside = {"args": argparse.Namespace(lr=1e-4), "best": np.float64(0.5), "optimizer": {"state": {0: {"step": torch.ones(1)}}}}
    torch.save(checkpoint(source, "module.") | beside, to, _use_new_zipfile_serialization=False)


def shards(folder, out):
    load_model(folder).save_pretrained(out, max_shard_size="200KB")
    if len([f for f in os.listdir(out) if f.endswith(".safetensors")]) < 2:
        sys.exit("one file holds all of it")


class Evil:
    def __reduce__(self):
        return os.system, ("touch was-run",)


def evil(to):
    import torch

    torch.save({"model": {"w": torch.zeros(3)}, "extra": Evil()}, to)


def keep(values, out):
    np.save(out, values)
    values.transpose(0, 2, 3, 1).tofile(out + ".f32")


def blocks(n, w, h):
    """Squares of random colours with noise on them."""
    draw = np.random.default_rng(0)
    coarse = draw.random((n, 3, h // 8, w // 8), dtype=np.float32).repeat(8, 2).repeat(8, 3)
    return np.clip(coarse + 0.1 * draw.standard_normal((n, 3, h, w), np.float32), 0, 1)


def noise(n, size, out):
    w, _, h = size.partition("x")
    keep(blocks(int(n), int(w), int(h or w)), out)


def pixels(folder, side, out, *images):
    from PIL import Image

    opened = [Image.open(i).convert("RGB") for i in images]
    values = np.asarray(processor(folder)(images=opened, return_tensors="np")["pixel_values"], dtype=np.float32)
    if values.shape[2:] != (int(side), int(side)):
        sys.exit(f"the processor makes images of {values.shape[2:]}, not {side}")
    keep(values, out)


def hf(folder, path, out):
    import torch

    with torch.no_grad():
        result = load_model(folder)(pixel_values=torch.from_numpy(read_pixels(path)))
    with open(out, "wb") as f:
        f.write(result.logits.float().numpy().tobytes() + result.pred_boxes.float().numpy().tobytes())


def onnx(file, path, out):
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    values = read_pixels(path)
    logits, boxes, labels, scores, found = session.run(["logits", "pred_boxes", "labels", "scores", "boxes"], {"images": values})
    one = session.run(["logits"], {"images": values[:1]})[0]  # another number of images
    if np.abs(one - logits[:1]).max() > 1e-3:
        sys.exit("one image alone gives other logits")
    flat = 1 / (1 + np.exp(-logits.reshape(len(logits), -1).astype(np.float64)))
    order = np.argsort(-flat, axis=1, kind="stable")[:, : scores.shape[1]]
    for i in range(len(logits)):
        if (order[i] % logits.shape[2] != labels[i]).any() or np.abs(flat[i][order[i]] - scores[i]).max() > 1e-5:
            sys.exit("labels and scores are not the best of logits")
        if np.abs(boxes[i][order[i] // logits.shape[2]] - found[i]).max() > 0:
            sys.exit("boxes are not those of the best logits")
    with open(out, "wb") as f:
        f.write(logits.tobytes() + boxes.tobytes())
    if "masks" in [o.name for o in session.get_outputs()]:
        masks = session.run(["masks"], {"images": values})[0]
        with open(out + ".masks", "wb") as f:
            f.write(found.tobytes() + masks.tobytes())


def check(file):
    from onnx import checker

    checker.check_model(file, full_check=True)


def rows(path, n, queries):
    """[N,Q,C+4]: the logits and the box of every query."""
    values = np.fromfile(path, dtype=np.float32).astype(np.float64)
    cut = values.size - n * queries * 4
    return np.concatenate([values[:cut].reshape(n, queries, -1), values[cut:].reshape(n, queries, 4)], axis=2)


def close(what, first, second, n, queries, logits, boxes):
    a, b = (rows(f, int(n), int(queries)) for f in (first, second))
    if a.shape != b.shape:
        sys.exit(f"{what}: {a.shape} against {b.shape}")
    moved, others = 0, np.zeros(a.shape[:2], dtype=bool)
    for i in range(len(a)):  # tokens that score the same may be chosen in another order, and the last of them or another one
        if np.abs(a[i] - b[i]).max() > float(logits):
            nearest = np.array([np.abs(row - b[i]).max(axis=1).argmin() for row in a[i]])
            moved += int((nearest != np.arange(len(nearest))).sum())
            b[i] = b[i][nearest]
            others[i] = np.abs(a[i] - b[i]).max(axis=1) > float(logits)
    gap = np.abs(a - b)[~others].max(axis=0)
    spread = a[..., -4:].reshape(-1, 4).std(axis=0).min()
    print(f"{what}: largest difference {gap[:-4].max():.3g} in logits (of up to {np.abs(a[..., :-4]).max():.3g}), "
          f"{gap[-4:].max():.3g} in boxes (that spread by {spread:.2g})" + f", {moved} queries in another order" * (moved > 0)
          + f", {others.sum()} of other tokens" * bool(others.any()))
    if not (gap[:-4].max() <= float(logits) and gap[-4:].max() <= float(boxes) and others.mean() <= 0.005):
        sys.exit(1)


def masks(what, first, second, n, k, logits, boxes):
    """Detections of equal scores may change places: each is compared with the one whose box is nearest."""
    n, k, found = int(n), int(k), []
    for path in (first, second):
        values = np.fromfile(path, dtype=np.float32).astype(np.float64)
        found.append((values[: n * k * 4].reshape(n, k, 4), values[n * k * 4 :].reshape(n, k, -1)))
    (box, mask), (others, theirs) = found
    at = np.abs(box[:, :, None] - others[:, None]).max(axis=3).argmin(axis=2)
    image = np.arange(n)[:, None]
    gap, off = np.abs(mask - theirs[image, at]).max(), np.abs(box - others[image, at]).max()
    print(f"{what}: largest difference {gap:.3g} in masks (of up to {np.abs(mask).max():.3g}, {mask.shape[2]} pixels), {off:.3g} in boxes")
    if not (gap <= float(logits) and off <= float(boxes) and mask.std() > 100 * gap):
        sys.exit(1)


def take_statistics(norm, inputs):
    norm.running_mean.copy_(inputs[0].mean((0, 2, 3)))
    norm.running_var.copy_(inputs[0].var((0, 2, 3)))


def random(folder, out):
    import torch
    from transformers import AutoConfig, AutoModelForObjectDetection

    torch.manual_seed(1)
    model = AutoModelForObjectDetection.from_config(AutoConfig.from_pretrained(folder))
    with torch.no_grad():
        for name, v in list(model.named_parameters()) + list(model.named_buffers()):
            if not v.is_floating_point() or name.endswith("n_points_scale"):
                continue
            if name.endswith("running_var") or (v.dim() == 1 and name.endswith("weight")):
                v.uniform_(0.8, 1.2)
            elif v.dim() == 1:
                v.add_(torch.empty_like(v).uniform_(-0.1, 0.1))
            elif "bbox_embed" in name or "sampling_offsets" in name or "attention_weights" in name:
                v.add_(torch.empty_like(v).uniform_(-0.02, 0.02))
        model.model.enc_score_head.weight.normal_(0, 0.3)
        # Norms take the statistics of what reaches them, or every token would look like every other.
        for norm in model.modules():
            if hasattr(norm, "running_var"):
                norm.register_forward_pre_hook(take_statistics)
        size = processor(folder).size
        model.eval()(pixel_values=torch.from_numpy(blocks(2, size["width"], size["height"])))
    model.save_pretrained(out)
    processor(folder).save_pretrained(out)


def predict(folder, path):
    """Boxes in pixels, best first, of both programs on the files that the JSON names."""
    import torch
    from PIL import Image

    with open(path) as f:
        ours = json.load(f)
    model, prepare = load_model(folder), processor(folder)
    worst_box = worst_score = 0.0
    n = 0
    for entry in ours:
        image = Image.open(entry["image"]).convert("RGB")
        with torch.no_grad():
            out = model(**prepare(images=image, return_tensors="pt"))
        found = prepare.post_process_object_detection(out, threshold=0.0, target_sizes=[(image.height, image.width)])[0]
        theirs = [
            (s.item(), label.item(), b.tolist()) for s, label, b in zip(found["scores"], found["labels"], found["boxes"])
        ]
        for mine in entry["detections"]:
            x, y, w, h = mine["bbox"]
            box = [x, y, x + w, y + h]
            same = [t for t in theirs if t[1] == mine["label"] and abs(t[0] - mine["score"]) < 0.01]
            if not same:
                sys.exit(f"{entry['image']}: transformers does not find {mine}")
            gaps = [(max(abs(p - q) for p, q in zip(t[2], box)), abs(t[0] - mine["score"])) for t in same]
            gap = min(gaps)
            worst_box, worst_score, n = max(worst_box, gap[0]), max(worst_score, gap[1]), n + 1
            name = model.config.id2label[mine["label"]]
            if mine.get("name", name) != name:
                sys.exit(f"label {mine['label']} is {mine['name']} here and {name} there")
    print(f"predict: {n} detections, largest difference {worst_box:.3g} pixels, {worst_score:.2g} in scores (printed with 4 digits)")
    if n == 0 or worst_box > 0.5:
        sys.exit(1)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TQDM_DISABLE", "1")
    verbs = ("pth", "old", "shards", "evil", "pixels", "noise", "hf", "onnx", "check", "close", "masks", "random", "predict")
    if len(sys.argv) < 2 or sys.argv[1] not in verbs:
        sys.exit(__doc__)
    globals()[sys.argv[1]](*sys.argv[2:])
