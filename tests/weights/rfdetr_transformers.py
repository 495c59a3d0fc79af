"""RF-DETR of transformers (5.24) beside ours, for tests/long/rfdetr: it stores weights by the reference's names.

    rfdetr_transformers.py run FILE.safetensors SIDE PATCH PIXELS OUT    its logits and boxes of pixels from 0 to 1
    rfdetr_transformers.py save FILE.safetensors SIDE PATCH FOLDER       what it reads, as it writes it

SIDE: of the table of positions. Models of one level with windows of two a side.
"""

import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import RfDetrConfig, RfDetrForInstanceSegmentation, RfDetrForObjectDetection


def model_of(file, side, patch):
    state = load_file(file)
    layers = len({k.split(".")[3] for k in state if k.startswith("transformer.decoder.layers.")})
    groups = len({k.split(".")[2] for k in state if k.startswith("transformer.enc_output.")})
    config = RfDetrConfig(
        backbone_config={
            "model_type": "rf_detr_dinov2", "hidden_size": 384, "num_attention_heads": 6,
            "num_hidden_layers": 12, "num_windows": 2, "patch_size": int(patch),
            "image_size": int(side) * int(patch), "out_features": ["stage3", "stage6", "stage9", "stage12"],
        },
        decoder_layers=layers, decoder_n_points=2, num_queries=state["query_feat.weight"].shape[0] // groups,
        num_labels=state["class_embed.bias"].shape[0], dropout=0.0,
        layer_norm_eps=1e-6,  # of the projector's norms, as in the reference; 1e-5 by itself
    )  # fmt: skip
    kind = RfDetrForInstanceSegmentation if "segmentation_head.bias" in state else RfDetrForObjectDetection
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        shutil.copy(file, pathlib.Path(folder) / "model.safetensors")
        model, info = kind.from_pretrained(folder, output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        if info.get(what):
            sys.exit(f"{what}: {sorted(info[what])[:5]}")
    return model.eval()


def run(file, side, patch, pixels, out):
    x = torch.from_numpy(np.load(pixels))
    mean, deviation = (torch.tensor(v).view(1, 3, 1, 1) for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    with torch.no_grad():
        result = model_of(file, side, patch)(pixel_values=(x - mean) / deviation)
    with open(out, "wb") as f:
        f.write(result.logits.float().numpy().tobytes() + result.pred_boxes.float().numpy().tobytes())


def save(file, side, patch, folder):
    model_of(file, side, patch).save_pretrained(folder)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("run", "save"):
        sys.exit(__doc__)
    globals()[sys.argv[1]](*sys.argv[2:])
