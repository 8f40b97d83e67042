"""The models of bench/zoo in PyTorch, one class for each, with the same names of tensors, sizes and optimisers.

A model has forward(batch), which is inference, and loss(batch), or a step(batch) of its own where one optimiser does
not train everything. `bench`: the sizes of the benchmark, or small ones.
"""

import json
import struct
from pathlib import Path

import torch

from . import decoders, generative, images, pixels, recurrent, structured, texts  # noqa: F401: they fill MODELS
from .common import MODELS

DTYPES = {"F64": torch.float64, "F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16, "I64": torch.int64}


def read(path):
    """A safetensors file, without the library that wrote it or any other."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + length + begin : 8 + length + end])
        tensors[name] = torch.frombuffer(raw, dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def make(name, bench, state=None, dtype=torch.float32):
    """A model with its optimisers. In f16 it keeps weights in f32, and its data are f32, too."""
    net = MODELS[name](bench)
    if dtype == torch.float16:
        net.small = True
    else:
        net.to(dtype)
    if state:
        net.load_state_dict(state)
    return net.start()


def batch_of(rows, dtype):
    """Random data. A row is [name, "i64" or "float", shape, numbers are below this]."""
    if dtype == torch.float16:
        dtype = torch.float32
    return {
        name: torch.randint(0, below, shape) if kind == "i64" else torch.rand(shape).to(dtype)
        for name, kind, shape, below in rows
    }
