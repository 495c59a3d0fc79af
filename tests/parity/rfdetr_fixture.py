"""Fixtures of RF-DETR made by the reference's own code, for tests/long/rfdetr_presets.

    rfdetr_fixture.py list                       the cases below
    rfdetr_fixture.py make OUT.json CASE         makes one
    rfdetr_fixture.py same FILE.json             makes a file's case again and compares every number

The reference (rfdetr 1.4.1) runs in double precision, or in single precision beside it for `f32_deviation`; where it
names single precision itself, the run's own takes its place. Values and names are those of the shared fixtures. Images
are chosen among several: those whose selected tokens keep the widest gap in single precision.
"""

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import json
import math
import sys
import types

import numpy as np
import torch

GROUPS, LR, LR_VIT, VIT_DECAY, PART_DECAY, DECAY, CLIP = 13, 1e-4, 1.5e-4, 0.8, 0.7, 1e-4, 0.1
THREE = [(1, (425, 542, 249, 319)), (4, (741, 273, 147, 207)), (2, (213, 765, 335, 179))]
TWO = [(0, (606, 392, 462, 337)), (3, (334, 832, 193, 237))]
ONE = [(2, (528, 771, 335, 467))]
# more than a group of 20 queries can take
CROWD = [(i % 5, (120 + i * 191 % 780, 130 + i * 313 % 760, 60 + i * 97 % 220, 50 + i * 61 % 230)) for i in range(24)]
# name: preset, size or (height, width), queries, objects of each image, candidates, mode, outputs if not 5
CASES = {
    "step_small": ("small", 128, 30, (THREE, TWO), 24, "train_step"),
    "step_small_empty": ("small", 128, 30, ([], ONE), 24, "train_step"),
    "step_small_all_empty": ("small", 128, 30, ([], []), 24, "train_step"),
    "eval_small": ("small", 192, 50, (THREE, TWO), 24, "eval"),
    "step_small_160_c2": ("small", 160, 25, (THREE, [], ONE), 24, "train_step", 2),
    "step_small_c1": ("small", 96, 20, (TWO,), 24, "train_step", 1),
    "step_medium_160_c91": ("medium", 160, 16, (CROWD,), 24, "train_step", 91),
    "step_large_deprecated_168_c7": ("large-deprecated", 168, 24, (CROWD[:9], [], ONE), 16, "train_step", 7),
    "step_seg_small_192_c3": ("seg_small", 192, 24, (CROWD[:7], [], ONE), 16, "train_step", 3),
    "step_seg_nano_240_c91": ("seg_nano", 240, 32, (CROWD,), 16, "train_step", 91),
    "step_seg_nano_84x132": ("seg_nano", (84, 132), 20, (TWO, ONE), 24, "train_step"),
    "eval_seg_nano_144x96": ("seg_nano", (144, 96), 20, (TWO, ONE), 24, "eval"),
    "step_medium": ("medium", 192, 30, (THREE, TWO), 24, "train_step"),
    "eval_medium": ("medium", 128, 40, (TWO, ONE), 24, "eval"),
    "step_large": ("large", 160, 30, (TWO, ONE), 24, "train_step"),
    "step_large_deprecated": ("large-deprecated", 112, 30, (THREE, TWO), 24, "train_step"),
    "step_large_deprecated_empty": ("large-deprecated", 112, 30, ([], ONE), 24, "train_step"),
    "step_large_deprecated_392": ("large-deprecated", 392, 20, (TWO,), 16, "train_step"),
    "eval_large_deprecated": ("large-deprecated", 168, 40, (THREE, TWO), 16, "eval"),
    "step_base_224": ("base", 224, 30, (THREE, TWO), 24, "train_step"),
    "step_base_k64_q100": ("base", 112, 100, (TWO, ONE), 24, "train_step"),
    "eval_base": ("base", 168, 40, (THREE, TWO), 24, "eval"),
    "step_nano_crowd": ("nano", 128, 20, (CROWD, ONE), 24, "train_step"),
    "step_nano_512": ("nano", 512, 30, ([], CROWD, ONE), 16, "train_step"),
    "step_nano_800": ("nano", 800, 20, (TWO,), 16, "train_step"),
    "step_seg_nano_132": ("seg_nano", 132, 20, (ONE, TWO), 24, "train_step"),
    "step_seg_nano_empty": ("seg_nano", 96, 20, ([], TWO), 24, "train_step"),
    "step_seg_small": ("seg_small", 144, 20, (TWO, ONE), 24, "train_step"),
    "step_seg_medium": ("seg_medium", 96, 20, (TWO, ONE), 24, "train_step"),
    "step_seg_large": ("seg_large", 96, 20, (ONE, ONE), 24, "train_step"),
    "step_seg_preview": ("seg_preview", 120, 20, (TWO, ONE), 24, "train_step"),
    "eval_seg_nano": ("seg_nano", 96, 30, (TWO, ONE), 24, "eval"),
    "eval_seg_small": ("seg_small", 144, 30, (TWO, ONE), 24, "eval"),
}
CONFIGS = {
    "nano": "RFDETRNanoConfig",
    "small": "RFDETRSmallConfig",
    "medium": "RFDETRMediumConfig",
    "large": "RFDETRLargeConfig",
    "base": "RFDETRBaseConfig",
    "large-deprecated": "RFDETRLargeDeprecatedConfig",
    "seg_preview": "RFDETRSegPreviewConfig",
    "seg_nano": "RFDETRSegNanoConfig",
    "seg_small": "RFDETRSegSmallConfig",
    "seg_medium": "RFDETRSegMediumConfig",
    "seg_large": "RFDETRSegLargeConfig",
    "seg_xlarge": "RFDETRSegXLargeConfig",
    "seg_2xlarge": "RFDETRSeg2XLargeConfig",
}


class ByDefault(importlib.machinery.SourceFileLoader):
    """A module of the reference in which single precision by name is torch's default type."""

    def get_code(self, name):
        path = self.get_filename(name)
        text = self.get_data(path).decode()
        for named, ours in (("torch.float32", "{}"), ("dtype=torch.float,", "dtype={},"), (".float()", ".to({})")):
            text = text.replace(named, ours.format("torch.get_default_dtype()"))
        return compile(text, path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if not name.startswith("rfdetr.models"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec and spec.origin and spec.origin.endswith(".py"):
            spec.loader = ByDefault(name, spec.origin)
        return spec


def open_reference():
    """The package without its own start, which asks for what only its commands need."""
    sys.dont_write_bytecode = True
    found = importlib.util.find_spec("rfdetr")
    if not found:
        sys.exit("no rfdetr here")
    package = types.ModuleType("rfdetr")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["rfdetr"] = package
    sys.meta_path.insert(0, Finder())
    for drawn in ("trunc_normal_", "xavier_uniform_", "kaiming_uniform_", "uniform_", "normal_"):
        setattr(torch.nn.init, drawn, lambda tensor, *_, **__: tensor)  # the formula replaces all of them


# ------------------------------------------------------------------------------------------------ values by formula


def hash_of(name):
    v = 14695981039346656037
    for c in name.encode():
        v = ((v ^ c) * 1099511628211) & (2**64 - 1)
    return v


def uniform(name, n):
    with np.errstate(over="ignore"):
        z = np.uint64(hash_of(name)) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@functools.cache
def value(name, shape):
    u = uniform(name, math.prod(shape))
    if len(shape) < 2:
        v = 0.2 * (u - 0.5) - (2 if "class_embed" in name else 0) if name.endswith("bias") else 0.5 + u
        return v.astype(np.float32).reshape(shape)
    fan, gain = math.prod(shape[1:]), 1.0
    if name.endswith("query_feat.weight"):
        fan = 1
    elif name.endswith(("cls_token", "position_embeddings")):
        fan, gain = 1, 0.25
    elif name.endswith("refpoint_embed.weight"):
        gain = 0.5
    elif "bbox_embed" in name and name.endswith(".layers.2.weight"):
        gain = 0.1
    elif name.endswith("sampling_offsets.weight"):
        gain = 0.25
    elif name.endswith("segmentation_head.query_features_proj.weight"):
        gain = 0.1
    return ((2 * u - 1) * (gain * math.sqrt(3.0 / fan))).astype(np.float32).reshape(shape)


def image(name, sides):
    return uniform(name, 3 * sides[0] * sides[1]).astype(np.float32).reshape(3, *sides)


def ellipse(box, sides):
    """A target mask: the pixels whose centres lie in the box's ellipse."""
    cx, cy, w, h = box
    y, x = ((np.arange(side) + 0.5) / side for side in sides)
    return ((x - cx) / (w / 2))[None, :] ** 2 + ((y - cy) / (h / 2))[:, None] ** 2 <= 1


# ---------------------------------------------------------------------------------------------------------- the run


def settings(preset, queries, classes, select):
    import rfdetr.config as config

    c = getattr(config, CONFIGS[preset])(pretrain_weights=None, device="cpu")
    masks = c.segmentation_head
    return types.SimpleNamespace(
        **{**c.model_dump(), "num_queries": queries, "num_classes": classes - 1, "num_select": select,
           "pretrain_weights": "by formula"},  # any name: none would ask for the backbone's own
        vit_encoder_num_layers=12, pretrained_encoder=None, window_block_indexes=None, drop_path=0, use_cls_token=True,
        position_embedding="sine", freeze_encoder=False, rms_norm=False, backbone_lora=False, force_no_pretrain=True,
        encoder_only=False, backbone_only=False, aux_loss=True, dim_feedforward=2048, dropout=0.0, decoder_norm="LN",
        set_cost_class=2, set_cost_bbox=5, set_cost_giou=2, bbox_loss_coef=5, giou_loss_coef=2, focal_alpha=0.25,
        use_varifocal_loss=False, use_position_supervised_loss=False, mask_ce_loss_coef=5.0, mask_dice_loss_coef=5.0,
        mask_point_sample_ratio=16, lr=LR, lr_encoder=LR_VIT, lr_vit_layer_decay=VIT_DECAY,
        lr_component_decay=PART_DECAY, weight_decay=DECAY,
    ), masks  # fmt: skip


class Run:
    """One step or evaluation of the reference, and what it computed on the way."""

    def __init__(self, case, dtype):
        torch.set_default_dtype(dtype)
        import rfdetr.models.lwdetr as lwdetr
        import rfdetr.util.utils as utils

        self.case, self.dtype, self.values, self.kept, self.topk = case, dtype, {}, {}, []
        self.args, self.masks = settings(case["preset"], case["queries"], case["classes"], case["select"])
        if self.masks:
            self.args.cls_loss_coef = 5.0
        self.model = lwdetr.build_model(self.args)
        self.criterion, self.post = lwdetr.build_criterion_and_postprocessors(self.args)
        self.training = case["mode"] == "train_step"
        self.model.train(self.training)
        self.criterion.train(self.training)
        with torch.no_grad():
            for name, v in self.model.state_dict().items():
                v.copy_(torch.from_numpy(value(name, tuple(v.shape))))
        self.ema = utils.ModelEma(self.model, decay=0.993, tau=100) if dtype == torch.float64 else None
        self.hook()

    def keep(self, name, v):
        self.values[name] = v
        if v.requires_grad:
            v.retain_grad()
            self.kept[name] = v

    def hook(self):
        import rfdetr.models.transformer as transformer

        m, decoder = self.model, self.model.transformer.decoder
        vit, layers = m.backbone[0].encoder, self.args.dec_layers
        calls = {}

        def many(prefix):
            def kept(_, __, out):
                for i, v in enumerate(out):
                    self.keep(f"{prefix}.{i}", v)

            return kept

        def numbered(prefix, most, suffix=""):
            def kept(_, __, out):
                i = min(calls.get(prefix, 0), most - 1)
                calls[prefix] = calls.get(prefix, 0) + 1
                self.keep(f"{prefix}.{i}{suffix}", out[0] if isinstance(out, tuple) else out)

            return kept

        def first(name):  # of all tokens; the second call is of the chosen ones
            def kept(_, __, out):
                self.values.setdefault(name, out)

            return kept

        vit.encoder.embeddings.register_forward_hook(lambda _, __, out: self.keep("vit.embed", out))
        for layer in vit.encoder.encoder.layer:
            layer.register_forward_hook(numbered("vit.layer", 12))
        vit.register_forward_hook(many("feat"))
        m.backbone[0].projector.register_forward_hook(many("projector"))
        decoder.ref_point_head.register_forward_hook(lambda _, __, out: self.keep("query_pos", out))
        for i, layer in enumerate(decoder.layers):
            layer.register_forward_hook(lambda _, __, out, i=i: self.keep(f"dec.{i}.state", out))
        decoder.norm.register_forward_hook(numbered("dec", layers, ".hs"))
        decoder.register_forward_pre_hook(self.at_decoder, with_kwargs=True)
        for kind, heads in (("logits", m.transformer.enc_out_class_embed), ("deltas", m.transformer.enc_out_bbox_embed)):
            for g, head in enumerate(heads):
                head.register_forward_hook(first(f"{kind}.{g}"))
        original = transformer.gen_encoder_output_proposals, transformer.gen_sineembed_for_position
        self.undo = lambda: (
            setattr(transformer, "gen_encoder_output_proposals", original[0]),
            setattr(transformer, "gen_sineembed_for_position", original[1]),
        )

        def proposals(*a, **k):
            memory, boxes = original[0](*a, **k)
            self.values["masked_memory"], self.values["proposals"] = memory, boxes
            return memory, boxes

        def sines(*a, **k):
            self.values["sine"] = original[1](*a, **k)
            return self.values["sine"]

        transformer.gen_encoder_output_proposals, transformer.gen_sineembed_for_position = proposals, sines

    def at_decoder(self, _, args, kwargs):
        self.keep("memory", args[1])
        self.keep("ref", kwargs["refpoints_unsigmoid"])

    def look(self, images):
        """The model's part, with what it selects."""
        topk, self.topk = torch.topk, []

        def chosen(x, k, **how):
            found = topk(x, k, **how)
            self.topk.append((x.detach(), found[1]))
            return found

        x = torch.from_numpy(np.stack([image(n, self.case["sides"]) for n in images])).to(self.dtype)
        torch.topk = chosen
        try:
            self.out = self.model(x)
        finally:
            torch.topk = topk
            self.undo()

    def forward(self):
        case, rand, names = self.case, torch.rand, iter(range(10**6))
        self.shapes = []

        def drawn(*shape, **_):
            self.shapes.append(list(shape))
            v = uniform(f"rand@{next(names)}", math.prod(shape)).astype(np.float32).reshape(shape)
            return torch.from_numpy(v).to(self.dtype)

        self.look(case["images"])
        targets = [
            {
                "labels": torch.tensor(t["labels"], dtype=torch.int64),
                "boxes": torch.tensor(t["boxes"], dtype=self.dtype).reshape(-1, 4),
                "masks": torch.from_numpy(
                    np.stack([ellipse(b, case["sides"]) for b in t["boxes"]])
                    if t["boxes"]
                    else np.zeros((0, *case["sides"]), bool)
                ).to(self.dtype),
            }
            for t in case["targets"]
        ]
        if not self.masks:
            for t in targets:
                del t["masks"]
        self.matches = []
        self.criterion.matcher.register_forward_hook(lambda _, __, found: self.matches.append(found))
        torch.rand = drawn
        try:
            self.losses = self.criterion(self.out, targets)
        finally:
            torch.rand = rand
        weights = self.criterion.weight_dict
        self.total = sum(self.losses[k] * weights[k] for k in weights)

    def gather(self):
        layers = self.args.dec_layers
        sets = [*self.out["aux_outputs"], self.out]
        for i, s in enumerate(sets):
            self.values[f"dec.{i}.logits"], self.values[f"dec.{i}.boxes"] = s["pred_logits"], s["pred_boxes"]
        enc = self.out["enc_outputs"]
        self.values["enc.topk_logits"], self.values["enc.topk_boxes"] = enc["pred_logits"], enc["pred_boxes"]
        for kind in ("logits", "deltas"):
            v = [self.values.pop(f"{kind}.{g}") for g in range(GROUPS) if f"{kind}.{g}" in self.values]
            self.values[f"enc.{kind}_all"] = torch.stack(v)
        if self.masks and self.training:
            for name, s in [*((str(i), s) for i, s in enumerate(sets)), ("enc", enc)]:
                self.values[f"seg.{name}.spatial"] = s["pred_masks"]["spatial_features"]
                self.values[f"seg.{name}.query"] = s["pred_masks"]["query_features"]
        self.sets = ["main", *(f"aux_{i}" for i in range(layers - 1)), "enc"]


def gaps_of(run):
    """Per image the smallest gap between neighbours in the selection, and at its end."""
    inside, end = [], []
    for b in range(run.topk[0][0].shape[0]):
        gap, edge = math.inf, math.inf
        for scores, _ in run.topk:
            k = min(run.case["queries"], scores.shape[1])
            s = torch.sort(scores[b], descending=True)[0]
            gap = min(gap, (s[: k - 1] - s[1:k]).min().item())
            edge = min(edge, (s[k - 1] - s[k]).item()) if k < s.shape[0] else edge
        inside.append(gap)
        end.append(None if edge == math.inf else edge)
    return inside, end


def choose_images(case, prefix, candidates):
    """The names, of `candidates`, whose selection is clearest in single precision."""
    run, found = Run(case, torch.float32), []
    for start in range(0, candidates, 4):
        names = [f"{prefix}#{i}" for i in range(start, start + 4)]
        with torch.no_grad():
            run.look(names)
        for name, inside, end in zip(names, *gaps_of(run)):
            found.append((inside if end is None else min(inside, end), name))
    found.sort(reverse=True)
    return [name for _, name in found[: len(case["targets"])]]


# --------------------------------------------------------------------------------------------------------- the file


def rounded(v, digits=12):
    return float(f"{v:.{digits}g}")


def places(n, k):
    if n <= k:
        return list(range(n))
    return [int(math.modf((j + 0.5) * 0.6180339887498949)[0] * n) for j in range(k)]


def summary(v, k, groups=False):
    a = v.detach().double().numpy()
    flat = a.ravel()
    s = {
        "shape": list(a.shape),
        "l2": rounded(math.sqrt(float(np.dot(flat, flat)))),
        "sum": rounded(float(flat.sum())),
        "samples": [[i, rounded(float(flat[i]))] for i in places(flat.size, k)],
    }
    if groups:
        s["group_l2"] = [rounded(float(np.linalg.norm(g)), 9) for g in np.split(a, GROUPS, 1)]
    return s


GROUPED = (".hs", ".logits", ".boxes", "topk_logits", "topk_boxes")


def tensors_of(run):
    out = {}
    for name, v in run.values.items():
        wide = name in ("memory", "ref") or name.endswith(("logits", "boxes"))
        grouped = run.training and (name in ("ref", "query_pos") or name.endswith(GROUPED))
        out[name] = summary(v, 32 if wide else 16, grouped)
    return out


def preset_of(run):
    a, vit = run.args, run.model.backbone[0].encoder.encoder.config
    last = a.out_feature_indexes[-1]
    return {
        "preset": run.case["preset"],
        "vit_width": vit.hidden_size,
        "vit_heads": vit.num_attention_heads,
        "vit_layers": vit.num_hidden_layers,
        "patch": a.patch_size,
        "windows": a.num_windows,
        "position_side": a.positional_encoding_size,
        "out_feature_indexes": a.out_feature_indexes,
        "global_layers": [i for i in a.out_feature_indexes if i < 12 or i < last],
        "projector_scale": a.projector_scale,
        "dim": a.hidden_dim,
        "dec_layers": a.dec_layers,
        "self_heads": a.sa_nheads,
        "cross_heads": a.ca_nheads,
        "points": a.dec_n_points,
        "ffn": a.dim_feedforward,
        "groups": GROUPS,
        "num_queries": a.num_queries,
        "num_outputs": a.num_classes + 1,
        "num_select": a.num_select,
        "segmentation": run.masks,
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "tensors": len(run.model.state_dict()),
    }


def update(run):
    """Clips, steps and averages as the reference's loop does; what is left of each parameter."""
    import rfdetr.util.get_param_dicts as dicts

    model, names = run.model, {id(p): n for n, p in run.model.named_parameters()}
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    used = run.ema._get_decay()
    optimizer = torch.optim.AdamW(dicts.get_param_dict(run.args, model), lr=LR, weight_decay=DECAY)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP).item()
    optimizer.step()
    run.ema.update(model)
    classes, of = [], {}
    for g in optimizer.param_groups:
        key = (g["lr"], g["weight_decay"])
        if key not in classes:
            classes.append(key)
        for p in g["params"]:
            of[names[id(p)]] = classes.index(key)
    averaged = dict(run.ema.module.named_parameters())
    after, mean = {}, {}
    for n, p in model.named_parameters():
        s, delta = summary(p, 8), (p.detach() - before[n]).double()
        at = [i for i, _ in s["samples"]]
        after[n] = {
            "l2": s["l2"],
            "samples": s["samples"],
            "delta": [rounded(delta.flatten()[i].item(), 9) for i in at],
            "delta_l2": rounded(delta.norm().item(), 9),
            "group": of[n],
        }
        s = summary(averaged[n], 2)
        mean[n] = {"l2": s["l2"], "samples": s["samples"]}
    groups = [
        {
            "lr": lr,
            "weight_decay": wd,
            "tensors": sum(g == i for g in of.values()),
            "elements": sum(before[n].numel() for n, g in of.items() if g == i),
        }
        for i, (lr, wd) in enumerate(classes)
    ]
    return norm, groups, after, mean, used


def gradients(run, norm):
    out, none = {}, []
    for n, p in run.model.named_parameters():
        if p.grad is None:
            none.append(n)
            continue
        s = summary(p.grad, 8)
        if s["l2"] < 1e-12 * norm:
            s = {"shape": s["shape"], "l2": s["l2"], "zero": True}
        out[n] = s
    return out, none


def pairs(run):
    return {
        name: [{"query": q.tolist(), "gt": t.tolist()} for q, t in found] for name, found in zip(run.sets, run.matches)
    }


def detections(run, sizes):
    out = run.post(run.out, torch.tensor([[h, w] for w, h in sizes], dtype=run.dtype))
    all_of = []
    for d in out:
        scores, labels, boxes = d["scores"], d["labels"], d["boxes"]
        all_of.append(
            {
                "count": len(scores),
                "first50": [
                    [int(c), *(rounded(v) for v in b), rounded(s)]
                    for c, b, s in zip(labels[:50].tolist(), boxes[:50].tolist(), scores[:50].tolist())
                ],
                "scores": summary(scores, 16),
                "boxes": summary(boxes, 32),
                "label_histogram": np.bincount(labels.numpy(), minlength=run.case["classes"]).tolist(),
            }
        )
    return all_of


def deviation(double, single):
    """How far the reference itself in single precision is from what it finds in double precision."""

    def off(a, b):
        a, b = a.detach().double(), b.detach().double()
        return rounded(((a - b).norm() / b.norm().clamp_min(1e-300)).item(), 3)

    def off_at_samples(a, b, k=32):
        a, b = a.detach().double().flatten(), b.detach().double().flatten()
        at = places(b.numel(), k)
        return rounded(((a[at] - b[at]).abs().max() * b.numel() ** 0.5 / b.norm().clamp_min(1e-300)).item(), 3)

    weights = double.criterion.weight_dict
    losses = {k: abs(single.losses[k].item() / double.losses[k].item() - 1) for k in weights if double.losses[k].item()}
    worst = max(losses, key=losses.get)
    moved = sum((a[1] != b[1]).sum().item() for a, b in zip(double.topk, single.topk))
    equal = all(
        torch.equal(p, r) and torch.equal(q, s)
        for a, b in zip(double.matches, single.matches)
        for (p, q), (r, s) in zip(a, b)
    )
    found = {
        "loss_max_rel": rounded(losses[worst], 3),
        "loss_worst": worst,
        "total_rel": rounded(abs(single.total.item() / double.total.item() - 1), 3),
        "topk_positions_differing": moved,
        "match_equal": equal,
        "acts_vec_rel": {k: off(single.values[k], v) for k, v in double.values.items()},
        "acts_sample_rel": {k: off_at_samples(single.values[k], v) for k, v in double.values.items()},
    }
    if double.training:
        grads = {
            n: off(p.grad, q.grad)
            for (n, p), (_, q) in zip(single.model.named_parameters(), double.model.named_parameters())
            if q.grad is not None and q.grad.norm() > 1e-9
        }
        worst = max(grads, key=grads.get)
        found.update(grad_vec_rel_max=grads[worst], grad_vec_rel_worst=worst)
    return found


def make(case):
    run, single = Run(case, torch.float64), None
    run.forward()
    inside, end = gaps_of(run)
    j = {
        "format": "detrgraph-parity-1",
        "file": case["name"] + ".json",
        "model": "rfdetr",
        "mode": case["mode"],
        "dtype": "float64",
        "preset": preset_of(run),
        "num_classes": case["classes"],
        "H": case["sides"][0],
        "W": case["sides"][1],
        "B": len(case["images"]),
        "image_names": case["images"],
        "targets": case["targets"],
    }
    objects = sum(len(t["labels"]) for t in case["targets"])
    weights = run.criterion.weight_dict
    j["num_boxes"] = float(max(1, objects * (GROUPS if run.training else 1)))
    j["loss_weights"] = weights
    j["losses"] = {k: rounded((run.losses[k] * w).item(), 15) for k, w in weights.items()}
    j["log_only"] = {k: rounded(float(v), 9) for k, v in run.losses.items() if k not in weights}
    j["total_loss"] = rounded(run.total.item(), 15)
    if run.training:
        run.total.backward()
        j["k"] = run.topk[0][1].shape[1]
        j["denoising"] = None
        norm = math.sqrt(sum(float((p.grad.double() ** 2).sum()) for p in run.model.parameters() if p.grad is not None))
        j["param_grads"], j["no_gradient"] = gradients(run, norm)
        j["tensor_grads"] = {n: summary(v.grad, 16) for n, v in run.kept.items() if v.grad is not None}
        if not objects and any(p.startswith("segmentation") for p in j["no_gradient"]):
            j["note"] = "no matches: the reference's mask losses have no graph"
    run.gather()
    if run.training:
        j["enc_topk_indices"] = [
            [found[b].tolist() for _, found in run.topk] for b in range(len(case["images"]))
        ]
    else:
        j["num_select"], j["orig_sizes_wh"] = case["select"], case["sizes"]
        j["enc_topk_indices"] = [[run.topk[0][1][b].tolist()] for b in range(len(case["images"]))]
        j["detections"] = detections(run, case["sizes"])
    j["matches"] = pairs(run)
    j["margins"] = {"topk": {"min_adjacent_gap": inside, "boundary_gap": end}}
    j["tensors"] = tensors_of(run)
    if run.masks:
        j["draws"] = {"names": "rand@k in call order", "shapes": run.shapes}
        j["mask_pixels"] = [[int(ellipse(b, case["sides"]).sum()) for b in t["boxes"]] for t in case["targets"]]
    if not case.get("alone"):
        single = Run(case, torch.float32)
        single.forward()
        if run.training:
            single.total.backward()
        single.gather()
        j["f32_deviation"] = deviation(run, single)
    if run.training:  # it changes the gradients
        torch.set_default_dtype(torch.float64)
        j["grad_norm"], groups, j["params_after"], j["ema_after"], used = update(run)
        j["grad_norm"] = rounded(j["grad_norm"], 15)
        j["optimizer"] = {
            "type": "AdamW", "betas": [0.9, 0.999], "eps": 1e-8, "clip_max_norm": CLIP, "lr": LR, "lr_encoder": LR_VIT,
            "lr_vit_layer_decay": VIT_DECAY, "lr_component_decay": PART_DECAY, "warmup_factor": 1.0, "groups": groups,
        }  # fmt: skip
        j["ema"] = {"decay": 0.993, "tau": 100, "update": 1, "decay_used": used}
    return j


# ------------------------------------------------------------------------------------------------------ the commands


def case_of(file):
    with open(file) as f:
        j = json.load(f)
    p = j["preset"]
    return j, {
        "name": j["file"].removesuffix(".json"), "preset": p["preset"], "queries": p["num_queries"],
        "classes": j["num_classes"], "select": j.get("num_select", p["num_select"]), "mode": j["mode"], "sides": [j["H"], j["W"]],
        "images": j["image_names"], "targets": j["targets"], "sizes": j.get("orig_sizes_wh"), "alone": True,
    }  # fmt: skip


def compare(ours, theirs, at, scale, worst):
    """Lists and words must be equal; numbers are gathered as the worst error of their kind."""
    if isinstance(theirs, dict):
        for k, v in theirs.items():
            if k in ours:
                inner = theirs.get("l2", scale) if k in ("samples", "sum", "delta", "group_l2") else None
                compare(ours[k], v, f"{at}.{k}", inner or None, worst)
    elif isinstance(theirs, list):
        if len(ours) != len(theirs):
            sys.exit(f"{at}: {len(ours)} entries, not {len(theirs)}")
        for i, v in enumerate(theirs):
            compare(ours[i], v, f"{at}[{i}]", scale, worst)
    elif isinstance(theirs, float) and isinstance(ours, (int, float)):
        error = abs(ours - theirs) / max(scale or abs(theirs), 1e-300) if abs(theirs) > 1e-13 else 0
        kind = at.split(".")[1]
        worst[kind] = max(worst.get(kind, (0, "")), (error, at))
    elif ours != theirs:
        sys.exit(f"{at}: {ours}, not {theirs}")


def same(file):
    theirs, case = case_of(file)
    ours = json.loads(json.dumps(make(case)))
    worst = {}
    for k in ("file", "margins", "f32_deviation", "debug_tensors", "note"):
        theirs.pop(k, None)
    absent = sorted(set(theirs) - set(ours)) + sorted(
        f"{k}.{n}" for k in theirs if isinstance(theirs[k], dict) for n in theirs[k] if k in ours and n not in ours[k]
    )
    compare(ours, theirs, "", None, worst)
    for kind, (error, at) in sorted(worst.items()):
        print(f"{kind:20} {error:.1e}  {at}")
    if absent:
        sys.exit(f"not made: {absent}")
    bounds = {"losses": 1e-13, "total_loss": 1e-13, "grad_norm": 1e-12}
    bad = [k for k, (error, _) in worst.items() if error > bounds.get(k, 1e-6)]
    if bad:
        sys.exit(f"beyond the bound: {bad}")
    print(f"{file}: made again")


def made(name):
    preset, size, queries, objects, candidates, mode, classes = (*CASES[name], 5)[:7]
    case = {
        "name": name, "preset": preset, "queries": queries, "classes": classes, "mode": mode,
        "sides": [size, size] if isinstance(size, int) else [*size],
        "select": 300 if mode == "train_step" else min(100, queries * 5), "sizes": [[640, 480], [353, 500], [427, 640]][: len(objects)],
        "targets": [{"labels": [c % classes for c, _ in o], "boxes": [[v / 1024 for v in b] for _, b in o]} for o in objects],
    }  # fmt: skip
    case["images"] = choose_images(case, f"{preset}_{size}_{queries}", candidates)
    return make(case)


def main():
    words = sys.argv[1:]
    if words == ["list"]:
        print("\n".join(CASES))
        return
    if len(words) != {"make": 3, "same": 2}.get(words[0] if words else "", -1):
        sys.exit(__doc__)
    open_reference()
    if words[0] == "same":
        same(words[1])
        return
    if words[2] not in CASES:
        sys.exit(f"no case {words[2]}; there are {' '.join(CASES)}")
    j = made(words[2])
    with open(words[1], "w") as f:
        json.dump(j, f)
    d = j["f32_deviation"]
    print(
        f"{words[2]}: gap {min(j['margins']['topk']['min_adjacent_gap']):.1e}; in single precision "
        f"{d['topk_positions_differing']} ranks differ, matches {'equal' if d['match_equal'] else 'DIFFER'}, "
        f"losses {d['loss_max_rel']:.1e}, gradients {d.get('grad_vec_rel_max', 0):.1e}"
    )


if __name__ == "__main__":
    main()
