"""A training step of each system beside PyTorch's on the same cores or GPU, in turns; medians and ratios.

    peers.py rtdetr  [SIZE BATCH ...]     transformers' RTDetrV2; 320 4 640 4, on a GPU 640 4 640 16 640 64
    peers.py rfdetr  [SIZE BATCH ...]     the reference's own code, rfdetr 1.4.1; 384 4
    peers.py codetr  [SIZE BATCH ...]     tests/parity/codetr_fixture.py, on CPUs: the reference is in no package index; 512 1
        --preset NAME                     r18vd or r50vd of RT-DETR, nano or base of RF-DETR
        --precision f32,bf16,tf32         bf16: autocast there; tf32: on GPUs
        --device cuda[:N]                 where both run (cpu)
        --compile                         a second row: the same through torch.compile
        --reference DIR                   of RT-DETR: its own code, rtdetrv2_pytorch of the repository lyuwenyu/RT-DETR
        --turns 3 --steps 5               a turn is one process of each; its median of so many steps, after two, or ten
                                          where they are compiled

Run in a built tree on cores that are free otherwise. A step there is forward, losses, backward, clip, AdamW, and moving
average where the recipe has one, on random images with seven objects each. Memory is the most that a process held, or
on a GPU what is in use there after the last step.
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
USUAL_GPU = {"rtdetr": [640, 4, 640, 16, 640, 64], "rfdetr": [384, 4, 384, 16]}


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


def reference_rtdetr(folder, preset):
    """The model, and a function of its outputs and targets that gives the loss."""
    sys.path.insert(0, str(folder))
    import src  # noqa: F401  registers its classes
    from src.core import YAMLConfig

    made = YAMLConfig(str(next((folder / "configs/rtdetrv2").glob(f"rtdetrv2_{preset}_[0-9]*_coco.yml"))),
                      PResNet={"pretrained": False})  # fmt: skip
    return made.model, lambda outputs, targets: sum(made.criterion(outputs, targets).values())


def rtdetr(size, batch, a):
    import torch

    if a.reference:
        model, criterion = reference_rtdetr(a.reference, a.preset)
    else:
        from transformers import RTDetrResNetConfig, RTDetrV2Config, RTDetrV2ForObjectDetection

        backbone, rest = {}, {}
        if a.preset == "r18vd":
            backbone = {"depths": [2, 2, 2, 2], "hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
            rest = {"encoder_in_channels": [128, 256, 512], "decoder_layers": 3, "hidden_expansion": 0.5}
        stages = RTDetrResNetConfig(embedding_size=64, out_features=["stage2", "stage3", "stage4"], **backbone)
        model = RTDetrV2ForObjectDetection(
            RTDetrV2Config(backbone_config=stages, use_pretrained_backbone=False, num_labels=80, anchor_image_size=None, **rest)
        )  # fmt: skip
    model = model.to(a.device).train()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9999))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, boxes = torch.rand(batch, 3, size, size).to(a.device), boxes_of(batch).to(a.device)
    classes = [torch.randint(0, 80, (OBJECTS,)).to(a.device) for _ in boxes]
    run = torch.compile(model) if a.compiled else model

    def forward():
        if not a.reference:
            return run(pixel_values=x, labels=[{"class_labels": c, "boxes": b} for c, b in zip(classes, boxes)]).loss
        targets = [{"labels": c, "boxes": b} for c, b in zip(classes, boxes)]
        outputs = run(x, targets)
        with torch.autocast(a.device.split(":")[0], enabled=False):  # as in its engine
            return criterion(wide(outputs), targets)

    return forward, updates(list(model.parameters()), optimizer, lambda: average.update_parameters(model))


def wide(v):
    """All tensors in f32, which SciPy's assignment takes."""
    if isinstance(v, dict):
        return {k: wide(x) for k, x in v.items()}
    if isinstance(v, (list, tuple)):
        return type(v)(wide(x) for x in v)
    return v.float() if hasattr(v, "is_floating_point") and v.is_floating_point() else v


def rfdetr(size, batch, a):
    sys.path.insert(0, str(TOP / "tests/parity"))
    import rfdetr_fixture
    import torch

    rfdetr_fixture.open_reference()
    import rfdetr.models.lwdetr as lwdetr
    import rfdetr.util.utils as utils

    args, masks = rfdetr_fixture.settings(a.preset, 300, 91, 300)
    if masks:
        args.cls_loss_coef = 5.0
    model = lwdetr.build_model(args).train()
    criterion, _ = lwdetr.build_criterion_and_postprocessors(args)
    with torch.no_grad():
        for name, v in model.state_dict().items():
            v.copy_(torch.from_numpy(rfdetr_fixture.value(name, tuple(v.shape))))
    model, criterion = model.to(a.device), criterion.to(a.device)
    average = utils.ModelEma(model, decay=0.993, tau=100)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x, boxes = torch.rand(batch, 3, size, size).to(a.device), boxes_of(batch).to(a.device)
    targets = [{"labels": torch.randint(0, 90, (OBJECTS,)).to(a.device), "boxes": b} for b in boxes]
    run = torch.compile(model) if a.compiled else model

    def forward():
        losses, weight = criterion(run(x), targets), criterion.weight_dict
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


def theirs(a):
    import torch

    size, batch = a.sizes
    kind, warm = a.device.split(":")[0], 10 if a.compiled else 2
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = a.precision == "tf32"
    forward, update = {"rtdetr": rtdetr, "rfdetr": rfdetr, "codetr": codetr}[a.system](size, batch, a)
    took, used = [], 0
    for _ in range(warm + a.steps):
        begin = time.monotonic()
        with torch.autocast(kind, torch.bfloat16, enabled=a.precision == "bf16"):
            loss = forward()
        loss.backward()
        update()
        if kind == "cuda":
            torch.cuda.synchronize()
        took.append(time.monotonic() - begin)
    if kind == "cuda":
        free, total = torch.cuda.mem_get_info()
        used = total - free
    print(json.dumps({"step_s": statistics.median(took[warm:]), "threads": torch.get_num_threads(), "loss": float(loss.detach()),
                      "peak_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
                      "device_memory_bytes": used}))  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- in turns

PIPELINES = {"rtdetr": ["rtdetrv2_{}_coco"], "rfdetr": ["rfdetr_{}_coco", "--set", "accumulate=1"],
             "codetr": ["codino_{}_coco"]}  # fmt: skip
PRESETS = {"rtdetr": "r18vd", "rfdetr": "nano", "codetr": "r50"}


def told(command):
    made = subprocess.run([str(c) for c in command], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if made.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{made.stderr[-2000:]}")
    return json.loads(made.stdout[made.stdout.index("{") :])


def read_options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("system", choices=USUAL)
    p.add_argument("sizes", nargs="*", type=int, metavar="SIZE BATCH")
    p.add_argument("--preset")
    p.add_argument("--precision", default="f32,bf16")
    p.add_argument("--device", default="cpu")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--reference", type=pathlib.Path)
    p.add_argument("--turns", type=int, default=3)
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--only", action="store_true", help=argparse.SUPPRESS)  # one process of a turn
    p.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.system == "codetr" and (a.device != "cpu" or a.compile):
        p.error("the second program of Co-DETR runs on CPUs, and is not compiled")
    if a.reference and a.system != "rtdetr":
        p.error("--reference is RT-DETR's")
    a.preset = a.preset or PRESETS[a.system]
    a.sizes = a.sizes or (USUAL if a.device == "cpu" else USUAL_GPU)[a.system]
    if len(a.sizes) % 2:
        p.error("each SIZE needs a BATCH")
    return a


def main():
    a = read_options()
    if a.only:
        return theirs(a)
    name, *sets = PIPELINES[a.system]
    pipeline, hows = f"pipelines/{name.format(a.preset)}.xml", ["eager", "compiled"] if a.compile else ["eager"]
    memory = "peak_bytes" if a.device == "cpu" else "device_memory_bytes"
    print(f"{'size':>5} {'batch':>5} {'':>5} {'ms':>8} {'PyTorch':>8} {'':>9} {'ratio of the turns':>24} {'MiB':>7} {'PyTorch':>8}"
          f" {'images/s':>9} {'PyTorch':>8}")  # fmt: skip
    for size, batch in zip(a.sizes[::2], a.sizes[1::2]):
        for precision in a.precision.split(","):
            ours, peers = [], {how: [] for how in hows}
            same = ["--precision", precision, "--steps", a.steps, "--device", a.device]
            for _ in range(a.turns):
                ours.append(told(["./detrgraph", "bench", pipeline, *sets, "--size", size, "--batch", batch, *same,
                                  "--format", "json"]))  # fmt: skip
                for how in hows:
                    peers[how].append(told([
                        sys.executable, "-B", __file__, a.system, size, batch, "--only", "--preset", a.preset, *same,
                        *(["--reference", a.reference.resolve()] if a.reference else []),
                        *(["--compiled"] if how == "compiled" else [])]))  # fmt: skip
            for how in hows:
                step, other = (statistics.median(r["step_s"] for r in runs) for runs in (ours, peers[how]))
                ratios = " ".join(f"{t['step_s'] / o['step_s']:.2f}" for o, t in zip(ours, peers[how]))
                held, there = (max(r[memory] for r in runs) / 2**20 for runs in (ours, peers[how]))
                print(f"{size:5} {batch:5} {precision:>5} {1e3 * step:8.0f} {1e3 * other:8.0f} {how:>9} {ratios:>24} {held:7.0f}"
                      f" {there:8.0f} {batch / step:9.1f} {batch / other:8.1f}", flush=True)  # fmt: skip


main()
