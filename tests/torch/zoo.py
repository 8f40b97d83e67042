#!/usr/bin/env python3
"""Runs zoo_dump and trains the same models with PyTorch: zoo.py ZOO_DUMP. Exit status 77 (skipped) without PyTorch.

With two folders that zoo_dump has filled, as by two devices, it compares these: zoo.py FOLDER FOLDER.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import torch
except ImportError:
    print("no PyTorch: skipped")
    sys.exit(77)

for folder in ("bench/peers", "share/peers"):  # of a checkout, of a bundle
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / folder))
import zoo  # noqa: E402

TOLERANCE = 1e-4  # of the largest element, as in tests/zoo


def part(tensors, prefix):
    return {name[len(prefix):]: value for name, value in tensors.items() if name.startswith(prefix)}


def by_torch(name, given):
    net = zoo.make(name, False, part(given, "state."))
    batch = part(given, "data.")
    out = {}
    net.eval()
    with torch.no_grad():
        out["forward.0"] = net(batch)
    net.train()
    for step in range(3):
        for i, loss in enumerate(net.step(batch)):
            out[f"losses.{step}.{i}"] = loss
    return out


def differences(name, got, want):
    wrong = []
    for key, value in want.items():
        value = value.detach()
        scale = max(1.0, float(value.abs().max()))
        off = float((got[key].double() - value.double()).abs().max())
        if not off <= TOLERANCE * scale:
            wrong.append(f"{name} {key}: off by {off:.3g} of {scale:.3g}")
    return wrong


def compare(pairs):
    wrong = []
    for name, got, want in pairs:
        wrong += differences(name, got, want)
    print("\n".join(wrong) if wrong else "all models agree")
    return 1 if wrong else 0


def main():
    torch.set_num_threads(1)
    if len(sys.argv) == 3:
        first, second = Path(sys.argv[1]), Path(sys.argv[2])
        names = sorted(path.name for path in first.glob("*.safetensors"))
        results = [(name, zoo.read(second / name), zoo.read(first / name)) for name in names]
        return compare([(n, g, {k: v for k, v in w.items() if k.startswith(("forward.", "losses."))}) for n, g, w in results])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True, stdout=subprocess.DEVNULL)
        names = sorted(path.stem for path in Path(folder).glob("*.safetensors"))
        assert set(names) == set(zoo.MODELS), set(names) ^ set(zoo.MODELS)
        given = {name: zoo.read(f"{folder}/{name}.safetensors") for name in names}
    return compare([(name, given[name], by_torch(name, given[name])) for name in names])


if __name__ == "__main__":
    sys.exit(main())
