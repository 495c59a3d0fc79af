"""RF-DETR's own code beside ours, for tests/long/rfdetr.

    rfdetr_reference.py make PRESET OUT.pth             a checkpoint as training leaves it: weights, averages, and options as a Namespace
    rfdetr_reference.py same FILE.pth FILE.safetensors  the file's averaged weights, bit for bit, in names, shapes and numbers
    rfdetr_reference.py wrap FILE.safetensors OUT.pth   as the reference's fine-tuning reads it
    rfdetr_reference.py run PRESET FILE.pth PIXELS OUT  the reference's logits and boxes of pixels from 0 to 1
"""
import argparse
import pathlib
import sys

import numpy as np
import torch

PRESETS = {
    "nano": "RFDETRNano",
    "small": "RFDETRSmall",
    "medium": "RFDETRMedium",
    "large": "RFDETRLargeNew",
    "base": "RFDETRBase",
    "large_deprecated": "RFDETRLargeDeprecated",
}


def model_of(preset, **options):
    import rfdetr

    return getattr(rfdetr, PRESETS[preset])(device="cpu", **options).model.model.eval()


def make(preset, out):
    torch.manual_seed(1)
    torch.save({"model": {"class_embed.bias": torch.zeros(91)}}, out)  # or it would download a backbone
    model = model_of(preset, pretrain_weights=out)
    with torch.no_grad():  # at the start many tensors are constants, and every token looks like the others
        for name, v in model.named_parameters():
            if v.dim() == 1 and name.endswith("weight"):
                v.uniform_(0.8, 1.2)
            elif v.dim() == 1:
                v.add_(torch.empty_like(v).uniform_(-0.1, 0.1))
            elif "bbox_embed" in name or "sampling_offsets" in name or "attention_weights" in name or "refpoint" in name:
                v.add_(torch.empty_like(v).uniform_(-0.02, 0.02))
            elif "class_embed" in name:
                v.normal_(0, 0.3)
    averaged = {k: v.clone() for k, v in model.state_dict().items()}
    options = argparse.Namespace(
        num_classes=90, class_names=["person"], output_dir=pathlib.Path("out"), device="cuda:1", lr=1e-4, callbacks={}, none=None
    )
    plain = {k: torch.zeros_like(v) for k, v in averaged.items()}
    torch.save({"model": plain, "ema_model": averaged, "args": options, "epoch": 3, "optimizer": {"state": {}}}, out)


def same(file, ours):
    from safetensors.torch import load_file

    theirs = torch.load(file, map_location="cpu", weights_only=False)
    theirs, mine = theirs.get("ema_model", theirs["model"]), load_file(ours)
    if set(theirs) != set(mine):
        sys.exit(f"other names: {sorted(set(theirs) ^ set(mine))[:5]}")
    for name, v in theirs.items():
        if v.shape != mine[name].shape or v.contiguous().numpy().tobytes() != mine[name].contiguous().numpy().tobytes():
            sys.exit(f"{name} differs")


def wrap(source, out):
    from safetensors.torch import load_file

    state = load_file(source)
    options = argparse.Namespace(num_classes=state["class_embed.bias"].shape[0] - 1)
    torch.save({"model": state, "args": options}, out)


def run(preset, file, pixels, out):
    outputs = torch.load(file, map_location="cpu", weights_only=False)["model"]["class_embed.bias"].shape[0]
    model = model_of(preset, pretrain_weights=file, num_classes=outputs - 1)
    x = torch.from_numpy(np.load(pixels))
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        result = model((x - mean) / deviation)
    with open(out, "wb") as f:
        f.write(result["pred_logits"].float().numpy().tobytes() + result["pred_boxes"].float().numpy().tobytes())


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("make", "same", "wrap", "run"):
        sys.exit(__doc__)
    globals()[sys.argv[1]](*sys.argv[2:])
