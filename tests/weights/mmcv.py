"""Writes checkpoints as mmcv, mmengine and torchvision do, by Python's standard library alone.

    mmcv.py mmcv FILE.safetensors OUT.pth          {meta, state_dict, optimizer}, as mmcv 1 saves and publishes them
    mmcv.py mmengine FILE.safetensors OUT.pth      the same of version 2, whose message hub holds classes of its own
    mmcv.py torchvision FILE.safetensors OUT.pth   the tensors of the backbone without "backbone.", and an fc
"""
import collections
import io
import json
import pickle
import struct
import sys
import types
import zipfile


def name(path, value):
    """value under a dotted name, as pickle writes it"""
    module, short = path.rsplit(".", 1)
    for k in range(module.count(".") + 1):
        part = ".".join(module.split(".")[: k + 1])
        sys.modules.setdefault(part, types.ModuleType(part))
    value.__module__, value.__qualname__, value.__name__ = module, short, short
    setattr(sys.modules[module], short, value)
    return value


def a_class(path):
    return name(path, type("C", (), {}))


FLOAT, LONG = a_class("torch.FloatStorage"), a_class("torch.LongStorage")
REBUILD = name("torch._utils._rebuild_tensor_v2", lambda: None)
RECONSTRUCT = name("numpy.core.multiarray._reconstruct", lambda: None)
NDARRAY, DTYPE = a_class("numpy.ndarray"), a_class("numpy.dtype")
HISTORY = a_class("mmengine.logging.history_buffer.HistoryBuffer")


class Storage:
    def __init__(self, kind, key, n):
        self.id = ("storage", kind, key, "cuda:0", n)


class Tensor:
    def __init__(self, storage, shape):
        strides, n = [], 1
        for d in reversed(shape):
            strides.insert(0, n)
            n *= d
        self.args = (storage, 0, tuple(shape), tuple(strides), False, collections.OrderedDict())

    def __reduce__(self):
        return REBUILD, self.args


class Array:
    """an array of numpy's with four numbers"""

    def __reduce__(self):
        return RECONSTRUCT, (NDARRAY, (0,), b"b"), (1, (4,), Type(), False, struct.pack("<4d", 1, 2, 3, 4))


class Type:
    def __reduce__(self):
        return DTYPE, ("f8", False, True), (3, "<", None, None, None, -1, -1, 0)


class Method:
    def __reduce__(self):
        return getattr, (HISTORY, "mean")


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Storage) else None


def read(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    header.pop("__metadata__", None)
    return {k: (v["dtype"], v["shape"], body[slice(*v["data_offsets"])]) for k, v in header.items()}


def write(path, tensors, wrap):
    state, storages = collections.OrderedDict(), []
    for k, (dtype, shape, data) in tensors.items():
        width = {"F32": 4, "I64": 8}[dtype]
        storages.append(data)
        state[k] = Tensor(Storage(FLOAT if width == 4 else LONG, str(len(storages) - 1), len(data) // width), shape)
    state._metadata = collections.OrderedDict([("", {"version": 1}), ("backbone.bn1", {"version": 2})])
    out = io.BytesIO()
    Pickler(out, 2).dump(wrap(state))
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("archive/data.pkl", out.getvalue())
        for i, data in enumerate(storages):
            z.writestr(f"archive/data/{i}", data)
        z.writestr("archive/version", "3\n")


def mmcv(state):
    meta = {"mmdet_version": "2.25.3+2665352", "config": "model = dict(\n    type='CoDETR')\n", "CLASSES": ("a", "b", "c"), "PALETTE": [(1, 2, 3)] * 3}
    meta |= {"env_info": "sys.platform: linux", "seed": 1, "epoch": 12, "iter": 87960, "hook_msgs": {}, "time": "Mon", "exp_name": "co.py"}
    groups = [{"lr": 2e-4, "betas": (0.9, 0.999), "weight_decay": 1e-4, "params": [0]}]
    return {"meta": meta, "state_dict": state, "optimizer": {"state": {}, "param_groups": groups}}


def mmengine(state):
    history = HISTORY()
    history.__dict__.update(_log_history=Array(), _count_history=Array(), _max_length=1000000, _statistics_methods={"mean": Method()})
    hub = {"log_scalars": collections.OrderedDict([("train/lr", history)]), "runtime_info": collections.OrderedDict(epoch=11), "resumed_keys": {}}
    meta = {"cfg": "model = dict()", "dataset_meta": {"classes": ("a", "b", "c")}, "epoch": 12, "mmengine_version": "0.7.4"}
    return {"meta": meta, "state_dict": state, "message_hub": hub, "param_schedulers": [{"last_step": 12}]}


def torchvision(state):
    return state


def main(form, source, to):
    tensors = read(source)
    if form == "torchvision":
        tensors = {k[len("backbone.") :]: v for k, v in tensors.items() if k.startswith("backbone.")}
        tensors |= {"fc.weight": ("F32", [10, 512], bytes(20480)), "fc.bias": ("F32", [10], bytes(40))}
    write(to, tensors, {"mmcv": mmcv, "mmengine": mmengine, "torchvision": torchvision}[form])


main(*sys.argv[1:])
