"""Fixtures of Co-DETR made by a second program, for tests/long/codetr_shapes.

    codetr_fixture.py list                       the cases below
    codetr_fixture.py make OUT.json CASE         makes one
    codetr_fixture.py same FILE.json             makes a shared fixture again and compares every number

The reference's own code is in no package index, so this is its specification written in functions of PyTorch,
torchvision (RoIAlign, NMS) and SciPy (assignment), in double precision. What makes it a witness: `same` makes the shared
fixtures, which the reference itself wrote, again to the last printed digits; only then are other backbones, batches and
shapes worth comparing. Values, names, draws and layouts are those of the shared fixtures.
"""

import collections
import json
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torchvision.ops import nms, roi_align

K, D, HEADS, POINTS, LAYERS, EPS = 80, 256, 8, 4, 6, 2.0**-23
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
RECIPE = {"num_query": 900, "nms_pre": 4000, "max_per_img": 1000, "rpn_num": 256, "roi_num": 512,
          "roi_finest_scale": 56, "max_pos_coords": 300, "num_dn_queries": 100}  # fmt: skip
SMALL = {**RECIPE, "num_query": 100, "nms_pre": 120, "max_per_img": 300, "roi_num": 128, "roi_finest_scale": 14}
TIGHT = {**SMALL, "nms_pre": 60, "max_per_img": 40, "rpn_num": 24, "roi_num": 24, "max_pos_coords": 12,
         "num_dn_queries": 7}  # fmt: skip
A = [(17, (13.25, 21.5, 77.875, 96.125)), (3, (60.625, 40.25, 101.5, 90.75)), (55, (30.5, 61.375, 58.25, 99.0))]
B = [(3, (30.125, 25.5, 90.375, 74.25)), (79, (8.75, 50.5, 32.5, 96.75))]
C = [(0, (3.5, 4.25, 60.75, 38.5))]
MANY = [((7 * i) % K, (2.125 + 7 * i, 3.375 + 5 * i, 30.625 + 9 * i, 33.25 + 7 * i)) for i in range(9)]
# name: depth, true sizes (h, w), objects of each image, settings, images, mode
CASES = {
    "step_r18": (18, [(109, 133), (120, 110)], (A, B), SMALL, 2, "train_step"),
    "step_r34": (34, [(109, 133), (120, 110)], (A, B), SMALL, 2, "train_step"),
    "step_r101": (101, [(109, 133), (120, 110)], (A, B), SMALL, 2, "train_step"),
    "step_r18_four": (18, [(109, 133), (131, 70), (45, 133), (101, 103)], (A, C, [], B), SMALL, 2, "train_step"),
    "step_r18_one": (18, [(119, 140)], (A,), SMALL, 2, "train_step"),
    "step_r18_one_empty": (18, [(119, 140)], ([],), SMALL, 2, "train_step"),
    "step_r18_first_empty": (18, [(119, 101), (109, 133)], ([], A), SMALL, 2, "train_step"),
    "step_r18_tight": (18, [(119, 133), (117, 110)], (MANY, A), TIGHT, 2, "train_step"),
    "step_r50_four": (50, [(109, 133), (131, 70), (45, 133), (101, 103)], (A, C, [], B), SMALL, 2, "train_step"),
    "eval_r18_four": (18, [(109, 133), (131, 70), (45, 133), (101, 103)], None,
                      {"num_query": 60, "eval_max_per_img": 40, "soft_nms_iou": 0.2}, 3, "eval"),
    "eval_r34": (34, [(163, 155)], None, {"num_query": 100, "eval_max_per_img": 100, "soft_nms_iou": 0.5}, 5, "eval"),
    "eval_r101": (101, [(109, 133), (120, 110)], None,
                  {"num_query": 80, "eval_max_per_img": 60, "soft_nms_iou": 0.3}, 3, "eval"),
}  # fmt: skip
M64 = 2**64 - 1


# ------------------------------------------------------------------------------------------------ values by formula


def hash_of(name):
    v = 14695981039346656037
    for c in name.encode():
        v = ((v ^ c) * 1099511628211) & M64
    return v


def uniform(name, at):
    with np.errstate(over="ignore"):
        at = np.asarray(at).astype(np.uint64) + np.uint64(1)
        z = np.uint64(hash_of(name)) + at * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) / 9007199254740992.0


def single(v):
    return np.asarray(v).astype(np.float32).astype(np.float64)


def value(name, shape):
    u = uniform(name, np.arange(math.prod(shape))).reshape(shape)
    if len(shape) >= 2:
        one = name.endswith(("label_embedding.weight", "query_embed.weight", "level_embeds"))
        gain = 1.0
        if name.endswith("sampling_offsets.weight") or name == "rpn_head.rpn_reg.weight":
            gain = 0.25
        elif "reg_branches" in name and name.endswith(".4.weight"):
            gain = 0.1
        return single((2 * u - 1) * (gain * math.sqrt(3.0 / (1 if one else math.prod(shape[1:])))))
    if name.endswith(("bias", "running_mean")):
        low = "cls_branches" in name or name == "bbox_head.0.atss_cls.bias"
        return single(0.2 * (u - 0.5) - (4 if low else 0))
    return single(0.5 + u)


def tensor(v):
    return torch.from_numpy(np.array(v, order="C"))


# --------------------------------------------------------------------------------------------------------- the model


class Model:
    """Parameters by name, made when they are first used, and the values worth comparing."""

    def __init__(self, case):
        self.case, self.p, self.frozen, self.v = case, {}, [], {}
        self.h, self.w = (max(s[k] for s in case["sizes"]) for k in (0, 1))
        self.sizes, self.n = case["sizes"], len(case["sizes"])

    def param(self, name, *shape, frozen=False):
        if name not in self.p:
            self.p[name] = tensor(value(name, shape))
            if frozen:
                self.frozen.append(name)
            else:
                self.p[name].requires_grad_()
        return self.p[name]

    def keep(self, name, x):
        if name not in self.v:
            self.v[name] = x
            if x.requires_grad:
                x.retain_grad()
        return x

    def linear(self, name, x, out):
        return F.linear(x, self.param(f"{name}.weight", out, x.shape[-1]), self.param(f"{name}.bias", out))

    def norm(self, name, x):
        return F.layer_norm(x, (D,), self.param(f"{name}.weight", D), self.param(f"{name}.bias", D), 1e-5)

    def conv(self, name, x, out, size, stride=1, bias=True, frozen=False):
        w = self.param(f"{name}.weight", out, x.shape[1], size, size, frozen=frozen)
        return F.conv2d(x, w, self.param(f"{name}.bias", out) if bias else None, stride, size // 2)

    def group(self, name, x):
        c = x.shape[1]
        return F.group_norm(x, 32, self.param(f"{name}.weight", c), self.param(f"{name}.bias", c), 1e-5)

    # ---- trunk

    def batch_norm(self, name, x):
        c = x.shape[1]
        w, b = (self.param(f"{name}.{k}", c, frozen=True) for k in ("weight", "bias"))
        mean, var = (tensor(value(f"{name}.{k}", (c,))) for k in ("running_mean", "running_var"))
        return F.batch_norm(x, mean, var, w, b, False, 0, 1e-5)

    def block(self, name, x, width, stride, deep, frozen):
        y, out = x, width * (4 if deep else 1)
        for i, (size, step) in enumerate([(1, 1), (3, stride), (1, 1)] if deep else [(3, stride), (3, 1)]):
            c = out if i == (2 if deep else 1) else width
            y = self.conv(f"{name}.conv{i + 1}", y, c, size, step, False, frozen)
            y = self.batch_norm(f"{name}.bn{i + 1}", y)
            if i < (2 if deep else 1):
                y = F.relu(y)
        if stride > 1 or x.shape[1] != out:
            x = self.conv(f"{name}.downsample.0", x, out, 1, stride, False, frozen)
            x = self.batch_norm(f"{name}.downsample.1", x)
        return F.relu(x + y)

    def backbone(self, x):
        depth = self.case["depth"]
        x = self.keep("backbone.conv1", self.conv("backbone.conv1", x, 64, 7, 2, False, True))
        x = F.max_pool2d(F.relu(self.batch_norm("backbone.bn1", x)), 3, 2, 1)
        maps = []
        for s, n in enumerate(BLOCKS[depth]):
            for i in range(n):
                x = self.block(f"backbone.layer{s + 1}.{i}", x, 64 << s, 2 if s and not i else 1, depth >= 50, s == 0)
            maps.append(self.keep(f"backbone.c{s + 2}", x))
        return maps

    def neck(self, maps):
        out = [
            self.group(f"neck.convs.{i}.gn", self.conv(f"neck.convs.{i}.conv", x, D, 1, bias=False))
            for i, x in enumerate(maps)
        ]
        out.append(self.group("neck.extra_convs.0.gn", self.conv("neck.extra_convs.0.conv", maps[3], D, 3, 2, False)))
        return [self.keep(f"neck.{i}", x) for i, x in enumerate(out)]

    def masks(self, maps):
        self.shapes = [tuple(x.shape[2:]) for x in maps]
        canvas = torch.ones(self.n, self.h, self.w, dtype=torch.bool)
        for b, (h, w) in enumerate(self.sizes):
            canvas[b, :h, :w] = False
        self.masks_of, parts = [], []
        for lh, lw in self.shapes:
            rows = (torch.arange(lh) * (self.h / lh)).long()
            columns = (torch.arange(lw) * (self.w / lw)).long()
            self.masks_of.append(canvas[:, rows][:, :, columns])
        self.padding = torch.cat([m.flatten(1) for m in self.masks_of], 1)
        self.live = torch.tensor([[[(~m[b, 0]).sum(), (~m[b, :, 0]).sum()] for m in self.masks_of] for b in range(self.n)])
        whole = torch.tensor([[w, h] for h, w in self.shapes]).double()
        self.ratio = self.live.double() / whole  # [B,L,2]: w, h
        for lvl, m in enumerate(self.masks_of):
            t, halves = 20.0 ** (2 * (torch.arange(128) // 2).double() / 128), []
            for axis in (1, 2):
                e = (~m).cumsum(axis).double()
                e = e / (e.select(axis, -1).unsqueeze(axis) + 1e-6) * (2 * math.pi)
                z = e[:, None] / t.view(1, -1, 1, 1)
                z = torch.stack([z[:, 0::2].sin(), z[:, 1::2].cos()], 2).flatten(1, 2)
                halves.append(z)
            parts.append(self.keep(f"pos.{lvl}", torch.cat(halves, 1)))
        level = self.param("query_head.transformer.level_embeds", 5, D)
        return torch.cat([(p + level[i].view(1, D, 1, 1)).flatten(2) for i, p in enumerate(parts)], 2).transpose(1, 2)

    def cells(self):
        """Centres [B,S,2] over the live part of each level, and the level of each token."""
        out, level = [], []
        for lvl, (h, w) in enumerate(self.shapes):
            y, x = torch.meshgrid(torch.arange(h).double() + 0.5, torch.arange(w).double() + 0.5, indexing="ij")
            xy = torch.stack([x, y], -1).view(1, -1, 2)
            out.append(xy / self.live[:, lvl].double()[:, None])
            level += [lvl] * (h * w)
        return torch.cat(out, 1), torch.tensor(level)

    def deform(self, name, query, value_of, ref):
        """ref [B,N,L,2 or 4]."""
        b, n, _ = query.shape
        v = self.linear(f"{name}.value_proj", value_of, D).masked_fill(self.padding[..., None], 0.0)
        off = self.linear(f"{name}.sampling_offsets", query, HEADS * 5 * POINTS * 2).view(b, n, HEADS, 5, POINTS, 2)
        a = self.linear(f"{name}.attention_weights", query, HEADS * 5 * POINTS).view(b, n, HEADS, 5 * POINTS).softmax(-1)
        whole = torch.tensor([[w, h] for h, w in self.shapes]).double()
        if ref.shape[-1] == 2:
            loc = ref[:, :, None, :, None] + off / whole[None, None, None, :, None]
        else:
            loc = ref[:, :, None, :, None, :2] + off / POINTS * ref[:, :, None, :, None, 2:] * 0.5
        taken, at = [], 0
        for lvl, (h, w) in enumerate(self.shapes):
            m = v[:, at : at + h * w].view(b, h, w, HEADS, D // HEADS).permute(0, 3, 4, 1, 2).flatten(0, 1)
            g = (2 * loc[:, :, :, lvl] - 1).transpose(1, 2).flatten(0, 1)
            taken.append(F.grid_sample(m, g, "bilinear", "zeros", align_corners=False))
            at += h * w
        s = torch.stack(taken, -2).flatten(-2)  # [B H, D/H, N, L P]
        s = (s * a.transpose(1, 2).reshape(b * HEADS, 1, n, 5 * POINTS)).sum(-1)
        return self.linear(f"{name}.output_proj", s.view(b, D, n).transpose(1, 2), D)

    def ffn(self, name, x):
        return x + self.linear(f"{name}.layers.1", F.relu(self.linear(f"{name}.layers.0.0", x, 2048)), D)

    def encoder(self, maps, pos):
        x = torch.cat([m.flatten(2) for m in maps], 2).transpose(1, 2)
        centres, _ = self.cells()
        ref = centres[:, :, None] * self.ratio[:, None]
        for i in range(LAYERS):
            at = f"query_head.transformer.encoder.layers.{i}"
            x = self.norm(f"{at}.norms.0", x + self.deform(f"{at}.attentions.0", x + pos, x, ref))
            x = self.norm(f"{at}.norms.1", self.ffn(f"{at}.ffns.0", x))
        return self.keep("memory", x)

    def pyramid(self, memory):
        out, at = [], 0
        for h, w in self.shapes:
            out.append(memory[:, at : at + h * w].transpose(1, 2).reshape(self.n, D, h, w))
            at += h * w
        y = self.conv("query_head.downsample.0", out[4], D, 3, 2)
        out.append(self.keep("y5", self.group("query_head.downsample.1", y)))
        return out

    # ---- decoder

    def scores(self, i, x):
        return self.linear(f"query_head.cls_branches.{i}", x, K)

    def deltas(self, i, x):
        for k in (0, 2):
            x = F.relu(self.linear(f"query_head.reg_branches.{i}.{k}", x, D))
        return self.linear(f"query_head.reg_branches.{i}.4", x, 4)

    def select(self, memory, q):
        centres, level = self.cells()
        side = (0.05 * 2.0 ** level.double())[None, :, None].expand(self.n, -1, 2)
        box = torch.cat([centres, side], -1)
        self.usable = ((box > 0.01) & (box < 0.99)).all(-1) & ~self.padding
        x = memory.masked_fill(~self.usable[..., None], 0.0)
        x = self.norm("query_head.transformer.enc_output_norm", self.linear("query_head.transformer.enc_output", x, D))
        logits = self.keep("enc.logits_all", self.scores(LAYERS, x))
        coords = self.deltas(LAYERS, x) + torch.log(box / (1 - box)).masked_fill(~self.usable[..., None], math.inf)
        self.best = logits.max(-1)[0].detach()
        self.topk = torch.topk(self.best, q, 1)[1]
        self.keep("enc.topk_logits", logits.gather(1, self.topk[..., None].expand(-1, -1, K)))
        coords = coords.gather(1, self.topk[..., None].expand(-1, -1, 4))
        self.keep("enc.topk_boxes", coords.sigmoid())
        return coords.detach()

    def sines(self, x, order):
        t = 10000.0 ** (2 * (torch.arange(128) // 2).double() / 128)
        z = x[..., order, None] * (2 * math.pi) / t
        return torch.stack([z[..., 0::2].sin(), z[..., 1::2].cos()], -1).flatten(-3)

    def attention(self, name, x, pos, mask):
        w, b = self.param(f"{name}.in_proj_weight", 3 * D, D), self.param(f"{name}.in_proj_bias", 3 * D)
        q, k, v = (
            F.linear(y, w[i * D : (i + 1) * D], b[i * D : (i + 1) * D]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for i, y in enumerate((x + pos, x + pos, x))
        )
        a = q @ k.transpose(-1, -2) / math.sqrt(D // HEADS)
        if mask is not None:
            a = a.masked_fill(mask, -math.inf)
        return self.linear(f"{name}.out_proj", (a.softmax(-1) @ v).transpose(1, 2).flatten(2), D)

    def decode(self, name, x, ref, memory, mask):
        """All layers on queries with references [B,N,4]: logits and boxes of each."""
        t, start = "query_head.transformer.decoder", ref
        logits, boxes, before = [], [], start
        ratio = torch.cat([self.ratio, self.ratio], -1)
        for i in range(LAYERS):
            at, places = f"{t}.layers.{i}", ref[:, :, None] * ratio[:, None]
            pos = self.sines(places[:, :, 0], [1, 0, 2, 3])
            pos = self.linear(f"{t}.ref_point_head.2", F.relu(self.linear(f"{t}.ref_point_head.0", pos, D)), D)
            x = self.norm(f"{at}.norms.0", x + self.attention(f"{at}.attentions.0.attn", x, pos, mask))
            x = self.norm(f"{at}.norms.1", x + self.deform(f"{at}.attentions.1", x + pos, memory, places))
            x = self.norm(f"{at}.norms.2", self.ffn(f"{at}.ffns.0", x))
            new = (self.deltas(i, x) + logit(ref, 1e-3)).sigmoid()
            h = self.keep(f"{name}.{i}.state", self.norm(f"{t}.norm", x))
            logits.append(self.scores(i, h))
            boxes.append((self.deltas(i, h) + logit(before, 1e-3)).sigmoid())
            if name == "dec":
                self.keep(f"dec.{i}.new_ref", new)
            ref, before = new.detach(), new
        return logits, boxes

    def main_pass(self, coords, memory, dn):
        q = self.case["settings"]["num_query"]
        content = self.param("query_head.transformer.query_embed.weight", q, D)[None].expand(self.n, -1, -1)
        ref, mask, p = coords.sigmoid(), None, 0
        if dn is not None:
            table = self.param("query_head.label_embedding.weight", K, D)
            p = dn["n"]
            if p:
                given = dn["given"][..., None]
                own = table[dn["labels"].clamp(max=K - 1)] * given
                boxes = torch.where(given, dn["boxes"], torch.tensor(0.5).double())
                content = torch.cat([own, content], 1)
                ref = torch.cat([logit(boxes, 1e-3).sigmoid() * given + 0.5 * ~given, ref], 1)
                group = torch.arange(p) // (2 * dn["m"])
                mask = torch.zeros(p + q, p + q, dtype=torch.bool)
                mask[p:, :p] = True
                mask[:p, :p] = group[:, None] != group[None]
            else:
                content = content + table[0, 0] * 0
        logits, boxes = self.decode("dec", content, ref, memory, mask)
        for i in range(LAYERS):
            if dn is not None:
                self.keep(f"dec.{i}.logits(dn+match)", logits[i])
                self.keep(f"dec.{i}.boxes(dn+match)", boxes[i])
            for part, a, b in (("dn", 0, p), ("dec", p, p + q)):
                if b > a:
                    self.v[f"{part}.{i}.logits"], self.v[f"{part}.{i}.boxes"] = logits[i][:, a:b], boxes[i][:, a:b]
        return logits, boxes, p

    def further(self, i, coords, memory):
        """coords: corners [B,N,4] in pixels."""
        refs = self.keep(f"aux{i}.refs", centred(coords) / self.scale())
        c = refs.clamp(0, 1)
        c = (c.clamp(min=1e-5).log() - (1 - c).clamp(min=1e-5).log()).sigmoid()
        pe = self.linear(f"query_head.transformer.aux_pos_trans.{i}", self.sines(c, [0, 1, 2, 3]), D)
        x = self.norm(f"query_head.transformer.aux_pos_trans_norm.{i}", pe)
        logits, boxes = self.decode(f"aux{i}", x, refs, memory, None)
        for k in range(LAYERS):
            self.v[f"aux{i}.{k}.logits"], self.v[f"aux{i}.{k}.boxes"] = logits[k], boxes[k]
        return logits, boxes

    def scale(self):
        return torch.tensor([[[w, h, w, h]] for h, w in self.sizes]).double()


def logit(x, eps):
    x = x.clamp(0, 1)
    return torch.log(x.clamp(min=eps) / (1 - x).clamp(min=eps))


def centred(x):
    return torch.cat([(x[..., :2] + x[..., 2:]) / 2, x[..., 2:] - x[..., :2]], -1)


def cornered(x):
    return torch.cat([x[..., :2] - x[..., 2:] / 2, x[..., :2] + x[..., 2:] / 2], -1)


def area(x):
    return (x[..., 2] - x[..., 0]) * (x[..., 3] - x[..., 1])


def ious(a, b):
    """Every pair of corners [n,4], [m,4]."""
    side = (torch.min(a[:, None, 2:], b[None, :, 2:]) - torch.max(a[:, None, :2], b[None, :, :2])).clamp(min=0)
    inner = side.prod(-1)
    return inner / (area(a)[:, None] + area(b)[None] - inner).clamp(min=1e-6)


def overlap(a, b):
    """IoU and GIoU of aligned corners."""
    inner = (torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    union = (area(a) + area(b) - inner).clamp(min=1e-6)
    hull = (torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])).clamp(min=0).prod(-1).clamp(min=1e-6)
    return inner / union, inner / union - (hull - union) / hull


def moved(boxes, d, std):
    """Corners moved by deltas, as centres and sides."""
    c, d = centred(boxes), d * torch.tensor(std).double()
    side = c[..., 2:] * d[..., 2:].clamp(-math.log(1000 / 16), math.log(1000 / 16)).exp()
    return cornered(torch.cat([c[..., :2] + d[..., :2] * c[..., 2:], side], -1))


def subset(name, ids, n):
    """The n of ids with the least keys, in the order of keys; and whether any was left out."""
    ids = np.asarray(ids, dtype=np.int64)
    return ids[np.argsort(uniform(name, ids), kind="stable")[:n]].tolist()


# -------------------------------------------------------------------------------------------------------- one step


class Step(Model):
    def __init__(self, case):
        super().__init__(case)
        self.gt = [torch.tensor([list(b) for _, b in t]).double().view(-1, 4) for t in case["targets"]]
        self.labels = [torch.tensor([c for c, _ in t], dtype=torch.long) for t in case["targets"]]
        self.losses, self.choice, self.suffix = {}, {}, case.get("suffix", "")

    def denoising(self):
        m = max(len(t) for t in self.gt)
        g = max(1, self.case["settings"]["num_dn_queries"] // m) if m else 1
        p, s = 2 * m * g, self.suffix
        row = torch.arange(p)
        slot, negative = (row % m, row // m % 2) if m else (row, row)
        labels, boxes = torch.full((self.n, p), K), torch.zeros(self.n, p, 4).double()
        given, images = torch.zeros(self.n, p, dtype=torch.bool), []
        at = np.arange(self.n * p).reshape(self.n, p)
        u = [tensor(single(uniform(f"dn.{k}{s}", at))) for k in ("label_mask", "new_label")]
        at4 = np.arange(self.n * p * 4).reshape(self.n, p, 4)
        v = [tensor(single(uniform(f"dn.{k}{s}", at4))) for k in ("sign", "mag")]
        for b in range(self.n):
            has = slot < len(self.gt[b])
            if has.any():
                own = (self.gt[b] / self.scale()[b])[slot[has]]
                half = (own[:, 2:] - own[:, :2]).repeat(1, 2) / 2
                shift = (2 * torch.floor(2 * v[0][b][has]) - 1) * (v[1][b][has] + negative[has][:, None]) * half
                boxes[b, has] = centred((own + shift).clamp(0, 1))
                labels[b, has] = torch.where(
                    u[0][b][has] < 0.25, torch.floor(u[1][b][has] * K).long(), self.labels[b][slot[has]]
                )
            given[b] = has
            positive = row[has & (negative == 0)]
            images.append(
                {
                    "labels": labels[b].tolist(),
                    "boxes": [boxes[b, i].float().tolist() if has[i] else None for i in range(p)],
                    "positive_idx": positive.tolist(),
                    "positive_gt": slot[positive].tolist(),
                }
            )
        self.choice["denoising"] = {"groups": g, "n_dn": p, "slots_per_half": m, "per_image": images}
        return {"n": p, "m": m, "labels": labels, "boxes": boxes, "given": given, "images": images}

    # ---- losses of sets of queries

    def set_losses(self, names, logits, boxes, pairs, live=None):
        """pairs: of each image (queries, objects)."""
        n = max(sum(len(q) for q, _ in pairs), 1) + EPS
        total = [0.0, 0.0, 0.0]
        for b, (q, g) in enumerate(pairs):
            x = logits[b]
            y = torch.zeros_like(x)
            if len(q):
                want = centred(self.gt[b][g] / self.scale()[b])
                mine = boxes[b][q]
                iou, _ = overlap(cornered(mine), cornered(want))
                y[q, self.labels[b][g]] = iou.detach()
                positive = torch.zeros_like(x, dtype=torch.bool)
                positive[q, self.labels[b][g]] = True
                total[1] = total[1] + (mine - want).abs().sum()
                _, giou = overlap(cornered(mine * self.scale()[b]), cornered(want * self.scale()[b]))
                total[2] = total[2] + (1 - giou).sum()
            p = x.sigmoid()
            total[0] = total[0] + (F.binary_cross_entropy_with_logits(x, y, reduction="none") * (y - p) ** 2).sum()
        for key, v, w in zip(names, total, (1, 5, 2)):
            self.losses[key] = v * w / n if torch.is_tensor(v) else logits.sum() * 0

    def match(self, name, logits, boxes):
        pairs = []
        for b in range(self.n):
            if not len(self.gt[b]):
                pairs.append((torch.zeros(0, dtype=torch.long),) * 2)
                continue
            x, mine = logits[b].detach(), boxes[b].detach()
            p, scale = x.sigmoid(), self.scale()[b]
            want = centred(self.gt[b] / scale)
            focal = -torch.log(p + 1e-12) * 0.25 * (1 - p) ** 2 + torch.log(1 - p + 1e-12) * 0.75 * p**2
            l1 = (mine[:, None] - want[None]).abs().sum(-1)
            _, giou = overlap(cornered(mine * scale)[:, None], self.gt[b][None])
            cost = 2 * focal[:, self.labels[b]] + 5 * l1 - 2 * giou
            q, g = linear_sum_assignment(cost.numpy())
            pairs.append((torch.tensor(q), torch.tensor(g)))
        self.choice.setdefault("matches", {})[name] = [{"query": q.tolist(), "gt": g.tolist()} for q, g in pairs]
        return pairs

    def query_losses(self, logits, boxes, p, dn):
        for i, at in [(-1, "enc"), (LAYERS - 1, "main"), *((i, f"d{i}") for i in range(LAYERS - 1))]:
            x = self.v["enc.topk_logits"] if i < 0 else logits[i][:, p:]
            y = self.v["enc.topk_boxes"] if i < 0 else boxes[i][:, p:]
            before = {"enc": "enc_", "main": ""}.get(at, at + ".")
            self.set_losses([f"{before}loss_{k}" for k in ("cls", "bbox", "iou")], x, y, self.match(at, x, y))
        pairs = [(torch.tensor(i["positive_idx"]).long(), torch.tensor(i["positive_gt"]).long()) for i in dn["images"]]
        for i in (LAYERS - 1, *range(LAYERS - 1)):
            keys = [("" if i == LAYERS - 1 else f"d{i}.") + f"dn_loss_{k}" for k in ("cls", "bbox", "iou")]
            if p:
                self.set_losses(keys, logits[i][:, :p], boxes[i][:, :p], pairs)
            else:
                self.losses.update({k: torch.zeros(()).double() for k in keys})

    # ---- other heads

    def anchors(self, shapes, ratios, octaves, base):
        boxes, cells = [], []
        for lvl, (h, w) in enumerate(shapes):
            stride = 4 << lvl
            y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
            c = torch.stack([x, y], -1).view(-1, 1, 2).double() * stride
            size = [
                (stride * base * 2 ** (o / octaves) / r**0.5, stride * base * 2 ** (o / octaves) * r**0.5)
                for r in ratios
                for o in range(octaves)
            ]
            half = torch.tensor(size).double()[None] / 2
            boxes.append(torch.cat([c - half, c + half], -1).view(-1, 4))
            cell = torch.stack([torch.full((h, w), lvl), y, x], -1).view(-1, 1, 3)
            cells.append(cell.expand(-1, len(size), 3).reshape(-1, 3))
        return torch.cat(boxes), torch.cat(cells)

    def valid(self, cells, b):
        stride = 4 * 2 ** cells[:, 0]
        h, w = self.sizes[b]
        return (cells[:, 1] * stride < h) & (cells[:, 2] * stride < w)

    def rpn(self, y):
        s, cls, reg, loss = self.case["settings"], [], [], [0.0, 0.0]
        for lvl, m in enumerate(y):
            x = F.relu(self.conv("rpn_head.rpn_conv", m, D, 3))
            cls.append(self.keep(f"rpn.cls.{lvl}", self.conv("rpn_head.rpn_cls", x, 9, 1)))
            reg.append(self.keep(f"rpn.reg.{lvl}", self.conv("rpn_head.rpn_reg", x, 36, 1)))
        cls = torch.cat([x.permute(0, 2, 3, 1).reshape(self.n, -1) for x in cls], 1)
        reg = torch.cat([x.permute(0, 2, 3, 1).reshape(self.n, -1, 4) for x in reg], 1)
        boxes, cells = self.anchors([m.shape[2:] for m in y], (0.5, 1.0, 2.0), 3, 4.0)
        norm, self.proposals = 0, []
        for b in range(self.n):
            ok = self.valid(cells, b)
            got = torch.full((len(boxes),), -2)
            got[ok] = 0
            if len(self.gt[b]):
                o = ious(self.gt[b], boxes)
                o[:, ~ok] = -1
                most, of = o.max(0)
                got[ok & (most >= 0.3)] = -1
                got[ok & (most >= 0.7)] = of[ok & (most >= 0.7)] + 1
                for g in range(len(o)):
                    if o[g].max() >= 0.3:
                        got[ok & (o[g] >= o[g].max() - 1e-12)] = g + 1
            pos, neg = torch.nonzero(got > 0)[:, 0].tolist(), torch.nonzero(got == 0)[:, 0].tolist()
            say = {"counts_pos_neg_ignored": [len(pos), len(neg), int((got == -1).sum())], "assigned_pos": pos,
                   "assigned_gt": (got[pos] - 1).tolist()}  # fmt: skip
            if len(pos) > s["rpn_num"] // 2:
                pos = sorted(subset(f"rpn.pos.{b}{self.suffix}", pos, s["rpn_num"] // 2))
            if len(neg) > s["rpn_num"] - len(pos):
                neg = sorted(subset(f"rpn.neg.{b}{self.suffix}", neg, s["rpn_num"] - len(pos)))
            say.update(sampled_pos=pos, sampled_neg=neg)
            self.choice.setdefault("rpn", []).append(say)
            norm += max(len(pos), 1) + max(len(neg), 1)
            want = torch.tensor([1.0] * len(pos) + [0.0] * len(neg)).double()
            loss[0] = loss[0] + F.binary_cross_entropy_with_logits(cls[b][pos + neg], want, reduction="sum")
            if pos:
                a, g = centred(boxes[pos]), centred(self.gt[b][got[pos] - 1])
                d = torch.cat([(g[:, :2] - a[:, :2]) / a[:, 2:], torch.log(g[:, 2:] / a[:, 2:])], 1)
                loss[1] = loss[1] + (reg[b][pos] - d).abs().sum()
            self.propose(b, cls[b].detach(), reg[b].detach(), boxes, cells)
        self.choice["rpn_normaliser"] = norm
        self.losses["loss_rpn_cls"] = 12 * loss[0] / (norm + EPS)
        self.losses["loss_rpn_bbox"] = 12 * loss[1] / (norm + EPS) if torch.is_tensor(loss[1]) else reg.sum() * 0

    def propose(self, b, cls, reg, anchors, cells):
        s, kept, counts = self.case["settings"], [], [0, 0]
        h, w = self.sizes[b]
        for lvl in range(6):
            at = torch.nonzero(cells[:, 0] == lvl)[:, 0]
            at = at[torch.sort(cls[at], descending=True, stable=True)[1][: s["nms_pre"]]]
            counts[0] += len(at)
            box = moved(anchors[at], reg[at], [1.0] * 4)
            box = torch.min(box.clamp(min=0), torch.tensor([w, h, w, h]).double())
            fits = (box[:, 2] > box[:, 0]) & (box[:, 3] > box[:, 1])
            at, box = at[fits], box[fits]
            counts[1] += len(at)
            stay = nms(box, cls[at].sigmoid(), 0.7)
            kept += [(cls[i].sigmoid().item(), i.item(), x) for i, x in zip(at[stay], box[stay])]
        kept.sort(key=lambda k: -k[0])
        after, kept = len(kept), kept[: s["max_per_img"]]
        scored = torch.cat([torch.stack([x for _, _, x in kept]), torch.tensor([[p] for p, _, _ in kept])], 1)
        self.proposals.append(([i for _, i, _ in kept], scored[:, :4]))
        self.choice.setdefault("proposals", []).append(
            {"candidates": counts[0], "after_size_filter": counts[1], "after_nms": after, "kept": len(kept),
             "anchor_ids": self.proposals[-1][0],
             "first": [[*(rounded(float(v)) for v in x), rounded(p)] for p, _, x in kept[:6]],
             "boxes": summary(scored, 16)}  # fmt: skip
        )

    def roi(self, y):
        s, rows = self.case["settings"], []
        for b in range(self.n):
            ids, box = self.proposals[b]
            ids = [*range(len(self.gt[b])), *(1000 + i for i in ids)]
            box = torch.cat([self.gt[b], box])
            of = torch.full((len(ids),), -1)
            if len(self.gt[b]):
                most, best = ious(self.gt[b], box).max(0)
                of[most >= 0.5] = best[most >= 0.5]
                of[: len(self.gt[b])] = torch.arange(len(self.gt[b]))
            of, place = of.tolist(), {k: i for i, k in enumerate(ids)}
            pos, neg = [i for i in range(len(ids)) if of[i] >= 0], [i for i in range(len(ids)) if of[i] < 0]
            counts = [len(pos), len(neg)]
            if len(pos) > s["roi_num"] // 4:
                some = subset(f"roi.pos.{b}{self.suffix}", [ids[i] for i in pos], s["roi_num"] // 4)
                pos = sorted(place[i] for i in some)
            if len(neg) > s["roi_num"] - len(pos):
                some = subset(f"roi.neg.{b}{self.suffix}", [ids[i] for i in neg], s["roi_num"] - len(pos))
                neg = sorted(place[i] for i in some)
            rows.append([(ids[i], box[i], of[i]) for i in pos + neg])
            self.choice.setdefault("roi", []).append(
                {"counts_pos_neg": counts, "n_pos": len(pos), "row_ids": [ids[i] for i in pos + neg],
                 "pos_gt": [of[i] for i in pos]}  # fmt: skip
            )
        flat = [(b, *r) for b in range(self.n) for r in rows[b]]
        box, n = torch.stack([r[2] for r in flat]), len(flat)
        level = (torch.log2(area(box).sqrt() / s["roi_finest_scale"] + 1e-6)).floor().clamp(0, 4).long()
        where = torch.cat([torch.tensor([[r[0]] for r in flat]).double(), box], 1)
        feats = torch.zeros(n, D, 7, 7).double()
        for lvl in range(5):
            at = torch.nonzero(level == lvl)[:, 0]
            if len(at):
                got = roi_align(y[lvl], where[at], 7, 1 / (4 << lvl), 0, True)
                feats = feats.index_put((at,), got)
        x = self.keep("roi.feats", feats).flatten(1)
        for i in range(2):
            x = F.relu(self.linear(f"roi_head.0.bbox_head.shared_fcs.{i}", x, 1024))
        cls = self.keep("roi.cls", self.linear("roi_head.0.bbox_head.fc_cls", x, K + 1))
        reg = self.keep("roi.reg", self.linear("roi_head.0.bbox_head.fc_reg", x, 4 * K))
        label = torch.tensor([self.labels[b][g].item() if g >= 0 else K for b, _, _, g in flat])
        self.losses["loss_cls0"] = 12 * F.cross_entropy(cls, label, reduction="sum") / (n + EPS)
        self.losses["acc0"] = (cls.argmax(1) == label).double().sum() * 100 / n
        pos = torch.nonzero(label < K)[:, 0]
        self.losses["loss_bbox0"] = reg.sum() * 0
        if len(pos):
            own = reg.view(n, K, 4)[pos, label[pos]]
            want = torch.stack([self.gt[b][g] for b, _, _, g in flat if g >= 0])
            _, giou = overlap(moved(box[pos], own, [0.1, 0.1, 0.2, 0.2]), want)
            self.losses["loss_bbox0"] = 120 * (1 - giou).sum() / (n + EPS)
        common = min(len(r) for r in rows)
        return [[r for r in image[:common]] for image in rows]

    def atss(self, y):
        cls, reg, ctr = [], [], []
        for lvl, m in enumerate(y):
            a, c = (
                F.relu(self.group(f"bbox_head.0.{k}_convs.0.gn", self.conv(f"bbox_head.0.{k}_convs.0.conv", m, D, 3, 1, False)))
                for k in ("cls", "reg")
            )
            cls.append(self.keep(f"atss.cls.{lvl}", self.conv("bbox_head.0.atss_cls", a, K, 3)))
            d = self.conv("bbox_head.0.atss_reg", c, 4, 3) * self.param(f"bbox_head.0.scales.{lvl}.scale")
            reg.append(self.keep(f"atss.reg.{lvl}", d))
            ctr.append(self.keep(f"atss.ctr.{lvl}", self.conv("bbox_head.0.atss_centerness", c, 1, 3)))
        cls, reg, ctr = (
            torch.cat([x.permute(0, 2, 3, 1).reshape(self.n, -1, k) for x in v], 1)
            for v, k in ((cls, K), (reg, 4), (ctr, 1))
        )
        boxes, cells = self.anchors([m.shape[2:] for m in y], (1.0,), 1, 8.0)
        centre, rows = (boxes[:, :2] + boxes[:, 2:]) / 2, []
        total, n, weight = [0.0, 0.0, 0.0], 0, 0.0
        for b in range(self.n):
            ok, gt = self.valid(cells, b), self.gt[b]
            of, best, thresholds = torch.full((len(boxes),), -1), torch.zeros(len(boxes)).double(), []
            o = ious(gt, boxes)
            for g in range(len(gt)):
                near = []
                for lvl in range(6):
                    at = torch.nonzero(ok & (cells[:, 0] == lvl))[:, 0]
                    far = (centre[at] - (gt[g, :2] + gt[g, 2:]) / 2).norm(dim=1)
                    near.append(at[torch.sort(far, stable=True)[1][:9]])
                near = torch.cat(near)
                t = o[g, near].mean() + o[g, near].std()
                thresholds.append(t.item())
                inside = torch.cat([centre[near] - gt[g, :2], gt[g, 2:] - centre[near]], 1).min(1)[0] > 0.01
                for i in near[(o[g, near] >= t) & inside].tolist():
                    if of[i] < 0 or o[g, i] > best[i]:
                        of[i], best[i] = g, o[g, i]
            pos = torch.nonzero(of >= 0)[:, 0]
            n += max(len(pos), 1)
            label = torch.full((len(boxes),), K)
            label[pos] = self.labels[b][of[pos]]
            hot = F.one_hot(label, K + 1)[:, :K].double()[ok]
            x = cls[b][ok]
            p = x.sigmoid()
            wrong = (1 - p) * hot + p * (1 - hot)
            focal = F.binary_cross_entropy_with_logits(x, hot, reduction="none") * (0.25 * hot + 0.75 * (1 - hot)) * wrong**2
            total[0] = total[0] + focal.sum()
            sides = torch.cat([centre[pos] - gt[of[pos], :2], gt[of[pos], 2:] - centre[pos]], 1)
            lt, rb = sides[:, :2], sides[:, 2:]
            c = (torch.min(lt, rb) / torch.max(lt, rb)).prod(1).sqrt()
            weight += c.sum()
            if len(pos):
                _, giou = overlap(moved(boxes[pos], reg[b][pos], [0.1, 0.1, 0.2, 0.2]), gt[of[pos]])
                total[1] = total[1] + (c * (1 - giou)).sum()
                total[2] = total[2] + F.binary_cross_entropy_with_logits(ctr[b][pos, 0], c, reduction="sum")
            self.choice.setdefault("atss", []).append(
                {"valid_anchors": int(ok.sum()), "pos_anchors": pos.tolist(), "pos_labels": label[pos].tolist(),
                 "pos_gt": of[pos].tolist(), "thresholds": thresholds, "centerness_sum": c.sum().item()}  # fmt: skip
            )
            stored = boxes * ok[:, None]
            rows.append([(i, stored[i], of[i].item()) for i in range(len(boxes))])
        self.losses["loss_cls1"] = 12 * total[0] / (n + EPS)
        for key, v in (("loss_bbox1", total[1]), ("loss_centerness1", total[2])):
            down = (1 + EPS) * max(float(weight), 1.0) if key == "loss_bbox1" else n + EPS
            w = 24 if key == "loss_bbox1" else 12
            self.losses[key] = w * v / down if torch.is_tensor(v) else (reg.sum() + ctr.sum()) * 0
        return rows

    def positives(self, i, rows, memory):
        s = self.case["settings"]
        pos = [[k for k, r in enumerate(image) if r[2] >= 0] for image in rows]
        n, coords, pairs, images = max(9, min(s["max_pos_coords"], max(map(len, pos)))), [], [], []
        for b, image in enumerate(rows):
            at = {r[0]: k for k, r in enumerate(image)}
            mine = pos[b]
            if len(mine) > n:
                mine = [at[k] for k in subset(f"aux{i}.pos.{b}{self.suffix}", [image[k][0] for k in mine], n)]
            rest = [r[0] for r in image if r[2] < 0]
            more = [at[k] for k in subset(f"aux{i}.neg.{b}{self.suffix}", rest, n - len(mine))]
            chosen = mine + more
            coords.append(torch.stack([image[k][1] for k in chosen]))
            pairs.append((torch.arange(len(mine)), torch.tensor([image[k][2] for k in mine]).long()))
            labels = [self.labels[b][image[k][2]].item() if k in mine else K for k in chosen]
            images.append({"n_pos": len(mine), "ids": [image[k][0] for k in chosen], "labels": labels})
        self.choice[f"aux{i}"] = {"n_aux": n, "per_image": images}
        logits, boxes = self.further(i, torch.stack(coords), memory)
        for k in (LAYERS - 1, *range(LAYERS - 1)):
            before = "" if k == LAYERS - 1 else f"d{k}."
            self.set_losses([f"{before}loss_{t}_aux{i}" for t in ("cls", "bbox", "iou")], logits[k], boxes[k], pairs)

    def run(self):
        x = images_of(self.case["image"], self.n, self.h, self.w, self.sizes)
        maps = self.neck(self.backbone(x))
        memory = self.encoder(maps, self.masks(maps))
        y, dn = self.pyramid(memory), self.denoising()
        logits, boxes, p = self.main_pass(self.select(memory, self.case["settings"]["num_query"]), memory, dn)
        self.query_losses(logits, boxes, p, dn)
        self.rpn(y)
        regions = self.roi(y)
        cells = self.atss(y)
        self.positives(0, regions, memory)
        self.positives(1, cells, memory)
        self.total = sum(v for k, v in self.losses.items() if k != "acc0")
        self.total.backward()


class Evaluation(Model):
    @torch.no_grad()
    def run(self):
        x = images_of(self.case["image"], self.n, self.h, self.w, self.sizes)
        maps = self.neck(self.backbone(x))
        memory = self.encoder(maps, self.masks(maps))
        logits, boxes, _ = self.main_pass(self.select(memory, self.case["settings"]["num_query"]), memory, None)
        self.found = [self.detect(b, logits[-1][b].sigmoid(), boxes[-1][b]) for b in range(self.n)]

    def detect(self, b, p, boxes):
        s, (h, w) = self.case["settings"], self.sizes[b]
        score, at = torch.topk(p.flatten(), s["num_query"])
        box = cornered(boxes[at // K]) * self.scale()[b]
        box = torch.min(box.clamp(min=0), torch.tensor([w, h, w, h]).double()) / torch.tensor(self.case["factors"][b])
        left = [[c, x, v] for c, x, v in zip((at % K).tolist(), box.numpy(), score.tolist())]
        out = []
        while left and len(out) < s["eval_max_per_img"]:
            best = left.pop(max(range(len(left)), key=lambda i: left[i][2]))
            out.append([best[0], *(rounded(float(v)) for v in best[1]), rounded(best[2])])
            for r in left:
                if r[0] == best[0]:
                    side = np.minimum(r[1][2:], best[1][2:]) - np.maximum(r[1][:2], best[1][:2])
                    inner = float(np.prod(np.maximum(side, 0)))
                    iou = inner / (float(area(tensor(r[1]))) + float(area(tensor(best[1]))) - inner) if inner else 0
                    r[2] *= 1 - iou if iou >= s["soft_nms_iou"] else 1
            left = [r for r in left if r[2] >= 1e-3]
        labels = collections.Counter(str(row[0]) for row in out)
        return {"n": len(out), "rows": out, "label_histogram": dict(labels)}


def images_of(name, n, h, w, sizes):
    x = tensor(single(uniform(name, np.arange(n * 3 * h * w))).reshape(n, 3, h, w))
    for b, (p, q) in enumerate(sizes):
        x[b, :, p:] = 0
        x[b, :, :, q:] = 0
    return x


# --------------------------------------------------------------------------------------------------------- the file


def rounded(v, digits=12):
    return float(f"{v:.{digits}g}")


def places(n, k):
    if n <= k:
        return list(range(n))
    return [int(math.modf((j + 0.5) * 0.6180339887498949)[0] * n) for j in range(k)]


def summary(x, k):
    flat = x.detach().flatten().numpy()
    return {
        "shape": list(x.shape),
        "l2": rounded(math.sqrt(float(np.dot(flat, flat)))),
        "sum": rounded(float(flat.sum())),
        "samples": [[i, rounded(float(flat[i]))] for i in places(flat.size, k)],
    }


def gaps(run):
    """The least distance of the score of a selected token from its neighbour's."""
    q, least = run.case["settings"]["num_query"], math.inf
    for best in run.best:
        s = torch.sort(best, descending=True)[0]
        least = min(least, (s[:q] - s[1 : q + 1]).min().item())
    return least


def clearest(case, candidates):
    """The image whose selection is clearest: neighbours that are near would swap in single precision."""
    found = []
    for i in range(candidates):
        run = Evaluation({**case, "image": f"{case['name']}#{i}", "factors": [[1.0] * 4] * len(case["sizes"])})
        with torch.no_grad():
            x = images_of(run.case["image"], run.n, run.h, run.w, run.sizes)
            maps = run.neck(run.backbone(x))
            run.select(run.encoder(maps, run.masks(maps)), case["settings"]["num_query"])
        found.append((gaps(run), run.case["image"]))
    return max(found)


def update(run, norm):
    """AdamW's first step behind the clip, of each parameter."""
    after, grads, groups = {}, {}, [[0, 0], [0, 0]]
    clip = min(1.0, 0.1 / (norm + 1e-6))
    for name, p in run.p.items():
        if name in run.frozen:
            continue
        g = p.grad if p.grad is not None else torch.zeros_like(p)
        group = 0 if "backbone" in name else 1
        lr = 2e-4 if group else 2e-5
        step = -lr * 1e-4 * p.detach() - lr * (g * clip) / ((g * clip).abs() + 1e-8)
        grads[name] = summary(g, 8)
        s = summary(p.detach() + step, 8)
        after[name] = {"l2": s["l2"], "samples": s["samples"], "group": group,
                       "delta_l2": rounded(float(step.norm()), 8),
                       "delta": [rounded(float(step.flatten()[i]), 6) for i, _ in s["samples"]]}  # fmt: skip
        groups[group][0] += 1
        groups[group][1] += p.numel()
    say = [{"lr": lr, "weight_decay": 1e-4, "tensors": t, "elements": e} for lr, (t, e) in zip((2e-5, 2e-4), groups)]
    return grads, after, say


NOT_TENSORS = ("backbone.conv1",)


def of_step(run):
    case = run.case
    norm = math.sqrt(sum(float((p.grad**2).sum()) for n, p in run.p.items() if p.grad is not None))
    grads, after, groups = update(run, norm)
    return {
        **run.choice,
        "targets": [{"labels": [c for c, _ in t], "boxes_xyxy": [list(b) for _, b in t]} for t in case["targets"]],
        "optimizer": {"type": "AdamW", "betas": [0.9, 0.999], "eps": 1e-8, "clip_max_norm": 0.1, "groups": groups},
        "frozen_parameters": run.frozen,
        "losses": {k: rounded(v.item(), 15) for k, v in run.losses.items()},
        "total_loss": rounded(run.total.item(), 15),
        "grad_norm": rounded(norm, 15),
        "tensor_grads": {
            k: summary(v.grad, 8)
            for k, v in run.v.items()
            if v.retains_grad and v.grad is not None and not k.endswith((".new_ref", ".refs", ".logits_all"))
        },
        "param_grads": grads,
        "params_after": after,
    }


def document(case):
    run = (Step if case["mode"] == "train_step" else Evaluation)(case)
    run.run()
    j = {
        "format": "detrgraph-parity-1",
        "family": "codetr",
        "file": case["name"] + ".json",
        "preset": f"co_dino_5scale_r{case['depth']}",
        "mode": case["mode"],
        "dtype": "float64",
        "num_classes": K,
        "H": run.h,
        "W": run.w,
        "B": run.n,
        "image_name": case["image"],
        "image_sizes_hw": [list(s) for s in run.sizes],
        "settings": case["settings"],
        "num_queries": case["settings"]["num_query"],
        "enc_topk_indices": run.topk.tolist(),
        "tensors": {
            k: summary(v, 8 if k.startswith(("pos.", "rpn.", "atss.")) else 16)
            for k, v in run.v.items()
            if k not in NOT_TENSORS and "(dn+match)" not in k
        },
    }
    if case["mode"] == "train_step":
        j.update(of_step(run))
    else:
        j.update(scale_factors=case["factors"], detections=run.found)
    j["margins"] = {"topk_min_neighbour_gap": gaps(run)}
    return j


def case_named(name):
    depth, sizes, targets, settings, candidates, mode = CASES[name]
    case = {"name": name, "depth": depth, "sizes": sizes, "targets": targets, "settings": settings, "mode": mode}
    if mode == "eval":
        case["factors"] = [[1.25, 1.25, 1.25, 1.25], [0.75, 0.78125, 0.75, 0.78125]] * len(sizes)
    gap, case["image"] = clearest(case, candidates)
    print(f"{name}: {case['image']}, neighbours in the selection differ by {gap:.1e} or more", flush=True)
    return case


def case_of(j):
    """The case that a shared fixture is of."""
    case = {
        "name": j["file"].removesuffix(".json"),
        "depth": int(j["preset"].rpartition("r")[2]),
        "sizes": [tuple(s) for s in j["image_sizes_hw"]],
        "settings": {**RECIPE, **j["settings"]},
        "mode": j["mode"],
        "image": j["image_name"],
        "factors": j.get("scale_factors"),
    }
    if "targets" in j:
        case["targets"] = [list(zip(t["labels"], t["boxes_xyxy"])) for t in j["targets"]]
    return case


# Of the shared files; nothing that tests/parity compares a step or an evaluation with.
NOT_MADE = ("note", "config", "settings_recipe", "level_shapes", "tokens", "cells", "padded_tokens", "usable_tokens",
            "loss_rank1", "no_gradient", "zero_gradient", "roi_level_histogram", "roi_rows_total", "f32_deviation",
            "debug_tensors", "params_final", "draw_names", "enc.coord_unact", "random", "refs_first")  # fmt: skip


def compare(a, b, at, found, scale=0.0):
    """Walks what the shared file has, and finds how far each number is off, relative to it; in a tensor relative to
    its root mean square. Changes of weights are printed with six digits."""
    if isinstance(b, dict):
        n = math.prod(b.get("shape", [len(b.get("delta", [1]))]))
        for k, v in b.items():
            over = {"samples": b.get("l2", 0) / math.sqrt(n), "sum": b.get("l2", 0)}.get(k, 0.0)
            if k == "delta":
                over = 1e3 * max(map(abs, v))
            if isinstance(a, dict) and k in a:
                compare(a[k], v, f"{at}.{k}", found, over)
            elif k not in NOT_MADE:
                found.append((math.inf, f"{at}.{k} is missing"))
    elif isinstance(b, list):
        if not isinstance(a, list) or len(a) != len(b):
            found.append((math.inf, f"{at}: another length"))
            return
        for i, (x, y) in enumerate(zip(a, b)):
            compare(x, y, f"{at}.{i}", found, scale)
    elif isinstance(b, (int, float)) and not isinstance(b, bool) and isinstance(a, (int, float)):
        found.append((abs(a - b) / max(abs(b), scale, 1e-12), f"{at}: {a} for {b}"))
    elif a != b:
        found.append((math.inf, f"{at}: {a!r} for {b!r}"))


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    word = sys.argv[1:]
    if word == ["list"]:
        print(*CASES, sep="\n")
    elif len(word) == 3 and word[0] == "make" and word[2] in CASES:
        with open(word[1], "w") as f:
            json.dump(document(case_named(word[2])), f)
    elif len(word) == 2 and word[0] == "same":
        with open(word[1]) as f:
            j = json.load(f)
        found = []
        mine = document(case_of(j))
        for skip in ("margins", "optimizer", "settings"):
            j.pop(skip, None)  # an evaluation has no optimizer
        compare(mine, j, "", found)
        found.sort(reverse=True)
        for off, what in found[:5]:
            print(f"{off:.1e} {what[:150]}")
        print(f"{len(found)} values, the worst differs by {found[0][0]:.1e}")
        sys.exit(found[0][0] > 1e-8)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
