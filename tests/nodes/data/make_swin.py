"""Writes swin.json, the numbers of tests/nodes/swin.c: python3 make_swin.py > swin.json

torchvision's SwinTransformer (torch, torchvision; numpy) in float64, with the value formula of
tests/ops/formula.h in weights and images: maps of the four stages with norms behind them, the sum
of their mean squares, and gradients of all parameters. In "one_window" the last two maps are one
window. torchvision does not shift those, detectors do: the two lines that decide it are replaced.
"""

import inspect
import json
import sys

import numpy as np
import torch
import torchvision.models.swin_transformer as source

WINDOW, WIDTH, STAGES, BATCH = 3, 8, 4, 2
SIZES = {"windows": (112, 100), "one_window": (38, 35)}


def formula(name, n):
    with np.errstate(over="ignore"):
        h = np.uint64(0xCBF29CE484222325)
        for byte in name.encode():
            h = (h ^ np.uint64(byte)) * np.uint64(0x100000001B3)
        z = h + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def values(name, shape):
    u = formula(name, int(np.prod(shape)))
    if len(shape) > 1:
        v = (2 * u - 1) * np.sqrt(3 / np.prod(shape[1:]))
    else:
        v = 0.2 * (u - 0.5) if name.endswith("bias") else 0.5 + u
    return torch.from_numpy(v.astype(np.float32).astype(np.float64).reshape(shape))


def our_name(name):
    """features.0.0 and .2: the embedding; features.1, 3, 5, 7: stages; 2, 4, 6: merging."""
    part, rest = name.split(".", 2)[1:]
    if part == "0":
        which, rest = rest.split(".", 1)
        return "backbone.patch_embed.%s.%s" % ({"0": "proj", "2": "norm"}[which], rest)
    if int(part) % 2 == 0:
        return "backbone.layers.%d.downsample.%s" % (int(part) // 2 - 1, rest)
    rest = rest.replace("mlp.0.", "mlp.fc1.").replace("mlp.3.", "mlp.fc2.")
    return "backbone.layers.%d.blocks.%s" % (int(part) // 2, rest)


def shift_single_windows():
    code = inspect.getsource(source.shifted_window_attention)
    for side in "window_size[0] >= pad_H", "window_size[1] >= pad_W":
        if side not in code:
            sys.exit("shifted_window_attention has no line with " + side)
        code = code.replace(side, "False")
    scope = dict(vars(source))
    exec(code, scope)
    source.shifted_window_attention = scope["shifted_window_attention"]


def summary(v, samples):
    v = v.detach().numpy().reshape(-1)
    at = sorted({(k * 7919 + 13) % v.size for k in range(samples)})
    return {
        "n": v.size,
        "l2": float(np.sqrt((v**2).sum())),
        "samples": [[i, float("%.13g" % v[i])] for i in at],
    }


def run(size):
    model = source.SwinTransformer(
        patch_size=[4, 4],
        embed_dim=WIDTH,
        depths=[2, 2, 2, 2],
        num_heads=[1, 2, 2, 4],
        window_size=[WINDOW, WINDOW],
        stochastic_depth_prob=0.0,
    ).double()
    parameters = {our_name(k): p for k, p in model.named_parameters() if k.startswith("features")}
    norms = []
    for s in range(STAGES):
        norms.append(torch.nn.LayerNorm(WIDTH << s, eps=1e-5).double())
        parameters.update({"backbone.norm%d.%s" % (s, k): p for k, p in norms[s].named_parameters()})
    with torch.no_grad():
        for name, p in parameters.items():
            p.copy_(values(name, tuple(p.shape)))
    h, w = size
    u = (2 * formula("images", BATCH * h * w * 3) - 1).astype(np.float32).astype(np.float64)
    x = torch.from_numpy(u.reshape(BATCH, h, w, 3)).permute(0, 3, 1, 2)
    x = torch.nn.functional.pad(x, (0, -w % 4, 0, -h % 4))
    maps, loss = {}, 0
    for i, part in enumerate(model.features):
        x = part(x)
        if i % 2:
            maps["c%d" % (i // 2 + 2)] = y = norms[i // 2](x)
            loss = loss + (y * y).mean()
    loss.backward()
    return {
        "size": size,
        "loss": loss.item(),
        "maps": {k: {"shape": list(v.shape), **summary(v, 40)} for k, v in maps.items()},
        "grads": {k: summary(p.grad, 3) for k, p in parameters.items()},
    }


def main():
    entries = {"windows": run(SIZES["windows"])}
    shift_single_windows()
    entries["one_window"] = run(SIZES["one_window"])
    print("{")
    for i, (name, e) in enumerate(entries.items()):
        text = json.dumps(e, separators=(",", ":"))
        print('"%s":%s%s' % (name, text, "," if i + 1 < len(entries) else ""))
    print("}")


main()
