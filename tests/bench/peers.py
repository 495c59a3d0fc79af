"""A training step of each system beside PyTorch's on the same cores, in turns; medians and ratios.

    peers.py rtdetr  [SIZE BATCH ...]     transformers' RTDetrV2 with ResNet-18-vd; 320 4 640 4
    peers.py rfdetr  [SIZE BATCH ...]     the reference's own code, rfdetr 1.4.1, nano; 384 4
    peers.py codetr  [SIZE BATCH ...]     tests/parity/codetr_fixture.py: the reference is in no package index; 512 1
        --preset base                     of RF-DETR
        --precision f32,bf16              bf16: autocast there
        --turns 3 --steps 5               a turn is one process of each; its median of so many steps, after two

Run in a built tree on cores that are free otherwise. A step there is forward, losses, backward, clip, AdamW, and moving
average where the recipe has one, on random images with seven objects each. Memory is the most that a process held.
"""

import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
OBJECTS = 7
USUAL = {"rtdetr": [320, 4, 640, 4], "rfdetr": [384, 4], "codetr": [512, 1]}


# ------------------------------------------------------------------------------------------------ what PyTorch does


def boxes_of(batch):
    import torch

    middle = 0.3 + 0.4 * torch.rand(batch, OBJECTS, 2)
    return torch.cat([middle, 0.05 + 0.3 * torch.rand(batch, OBJECTS, 2)], 2)


def updates(parameters, optimizer, after=lambda: None):
    """What follows a backward pass."""
    import torch

    def update():
        torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        after()

    return update


def rtdetr(size, batch, _):
    import torch
    from transformers import RTDetrResNetConfig, RTDetrV2Config, RTDetrV2ForObjectDetection

    backbone = RTDetrResNetConfig(depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], layer_type="basic",
                                  embedding_size=64, out_features=["stage2", "stage3", "stage4"])  # fmt: skip
    model = RTDetrV2ForObjectDetection(
        RTDetrV2Config(backbone_config=backbone, use_pretrained_backbone=False, encoder_in_channels=[128, 256, 512],
                       decoder_layers=3, hidden_expansion=0.5, num_labels=80, anchor_image_size=None)
    ).train()  # fmt: skip
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9999))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, boxes = torch.rand(batch, 3, size, size), boxes_of(batch)
    labels = [{"class_labels": torch.randint(0, 80, (OBJECTS,)), "boxes": b} for b in boxes]

    def forward():
        return model(pixel_values=x, labels=labels).loss

    return forward, updates(list(model.parameters()), optimizer, lambda: average.update_parameters(model))


def rfdetr(size, batch, preset):
    sys.path.insert(0, str(TOP / "tests/parity"))
    import rfdetr_fixture
    import torch

    rfdetr_fixture.open_reference()
    import rfdetr.models.lwdetr as lwdetr
    import rfdetr.util.utils as utils

    args, masks = rfdetr_fixture.settings(preset, 300, 91, 300)
    if masks:
        args.cls_loss_coef = 5.0
    model = lwdetr.build_model(args).train()
    criterion, _ = lwdetr.build_criterion_and_postprocessors(args)
    with torch.no_grad():
        for name, v in model.state_dict().items():
            v.copy_(torch.from_numpy(rfdetr_fixture.value(name, tuple(v.shape))))
    average = utils.ModelEma(model, decay=0.993, tau=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, boxes = torch.rand(batch, 3, size, size), boxes_of(batch)
    targets = [{"labels": torch.randint(0, 90, (OBJECTS,)), "boxes": b} for b in boxes]

    def forward():
        losses, weight = criterion(model(x), targets), criterion.weight_dict
        return sum(losses[k] * weight[k] for k in losses if k in weight)

    return forward, updates(list(model.parameters()), optimizer, lambda: average.update(model))


def codetr(size, batch, _):
    sys.path.insert(0, str(TOP / "tests/parity"))
    import codetr_fixture as second
    import torch

    boxes = [[[c[0] - c[2] / 2, c[1] - c[3] / 2, c[0] + c[2] / 2, c[1] + c[3] / 2] for c in b] for b in boxes_of(batch).tolist()]
    case = {"name": "peer", "depth": 50, "sizes": [(size, size)] * batch, "settings": second.RECIPE, "image": "peer",
            "targets": [[(3 * i, tuple(size * v for v in b)) for i, b in enumerate(image)] for image in boxes],
            "mode": "train_step"}  # fmt: skip
    x = torch.rand(batch, 3, size, size)
    double, single = second.tensor, torch.Tensor.float
    second.tensor = lambda v: single(double(v)) if v.dtype.kind == "f" else double(v)
    torch.Tensor.double = single
    second.images_of = lambda *_: x
    backward, torch.Tensor.backward = torch.Tensor.backward, lambda _: None
    parameters, optimizer = {}, []

    class Step(second.Step):
        def keep(self, name, v):
            self.v.setdefault(name, v)
            return v

    def forward():
        step = Step(case)
        step.p = parameters
        step.run()
        torch.Tensor.backward = backward
        return step.total

    def update():
        trained = [p for p in parameters.values() if p.requires_grad]
        if not optimizer:
            optimizer.append(torch.optim.AdamW(trained, lr=2e-5, weight_decay=1e-4))
        torch.nn.utils.clip_grad_norm_(trained, 0.1)
        optimizer[0].step()
        optimizer[0].zero_grad(set_to_none=True)
        torch.Tensor.backward = lambda _: None

    return forward, update


def theirs(system, size, batch, precision, steps, preset):
    import torch

    torch.manual_seed(1)
    forward, update = {"rtdetr": rtdetr, "rfdetr": rfdetr, "codetr": codetr}[system](size, batch, preset)
    took = []
    for _ in range(2 + steps):
        begin = time.monotonic()
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = forward()
        loss.backward()
        update()
        took.append(time.monotonic() - begin)
    print(json.dumps({"step_s": statistics.median(took[2:]), "threads": torch.get_num_threads(), "loss": float(loss),
                      "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- in turns

PIPELINES = {"rtdetr": ["rtdetrv2_r18vd_coco"], "rfdetr": ["rfdetr_{}_coco", "--set", "accumulate=1"],
             "codetr": ["codino_r50_coco"]}  # fmt: skip


def told(command):
    made = subprocess.run([str(c) for c in command], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if made.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{made.stderr[-2000:]}")
    return json.loads(made.stdout[made.stdout.index("{") :])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("system", choices=USUAL)
    p.add_argument("sizes", nargs="*", type=int, metavar="SIZE BATCH")
    p.add_argument("--preset", default="nano")
    p.add_argument("--precision", default="f32,bf16")
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--only", action="store_true", help=argparse.SUPPRESS)  # one process of a turn
    a = p.parse_args()
    sizes = a.sizes or USUAL[a.system]
    if a.only:
        return theirs(a.system, *sizes, a.precision, a.steps, a.preset)
    name, *sets = PIPELINES[a.system]
    pipeline = f"pipelines/{name.format(a.preset)}.xml"
    print(f"{'size':>5} {'batch':>5} {'':>5} {'ms':>8} {'PyTorch':>8} {'ratio of the turns':>24} {'MiB':>7} {'PyTorch':>8}")
    for size, batch in zip(sizes[::2], sizes[1::2]):
        for precision in a.precision.split(","):
            ours, peers = [], []
            for _ in range(a.turns):
                ours.append(told(["./detrgraph", "bench", pipeline, *sets, "--size", size, "--batch", batch, "--steps", a.steps,
                                  "--precision", precision, "--format", "json"]))  # fmt: skip
                peers.append(told([sys.executable, "-B", __file__, a.system, size, batch, "--only", "--precision",
                                   precision, "--steps", a.steps, "--preset", a.preset]))  # fmt: skip
            step, other = (statistics.median(r["step_s"] for r in runs) for runs in (ours, peers))
            ratios = " ".join(f"{t['step_s'] / o['step_s']:.2f}" for o, t in zip(ours, peers))
            held, there = (max(r["peak_bytes"] for r in runs) / 2**20 for runs in (ours, peers))
            print(f"{size:5} {batch:5} {precision:>5} {1e3 * step:8.0f} {1e3 * other:8.0f} {ratios:>24} {held:7.0f} {there:8.0f}",
                  flush=True)  # fmt: skip


main()
