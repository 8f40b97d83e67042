#!/usr/bin/env python3
"""Pages of the API reference, one for each area, from the package itself: site_api.py FOLDER."""

import inspect
import re
import sys
import types
from pathlib import Path

import heddle as hd

ROOT = Path(__file__).resolve().parent.parent
TITLES = {
    "create": "Making tensors",
    "unary": "Functions of elements",
    "binary": "Functions of two tensors",
    "activation": "Activations",
    "reduce": "Reductions",
    "scan": "Running sums and kin",
    "normalize": "Normalisation",
    "shape": "Shapes",
    "join": "Joining and splitting",
    "index": "Indexing",
    "scatter": "Scattering",
    "sort": "Sorting and selection",
    "linalg": "Products",
    "conv": "Convolutions and pools",
    "attention": "Attention",
    "loss": "Losses",
    "random": "Random numbers",
}
# Pages that have names written down; everything else of the module is on the page of its header, or the last one.
NAMED = {
    "transforms": (
        "Gradients, vmap, jit",
        "grad value_and_grad vjp jvp jacobian hessian vmap jit Captured checkpoint custom_vjp no_grad is_grad_enabled "
        "is_capturing forget_recordings tree_map tree_leaves tree_flatten tree_unflatten register_pytree PyTree",
    ),
    "control": ("Control flow", "cond while_loop scan fori_loop map"),
    "devices": ("Devices", "device devices default_device set_default_device"),
    "inspect": ("Seeing inside", "graph Graph profile Profile progress"),
    "files": ("Files", "save_safetensors load_safetensors safetensors_metadata save load"),
    "kernels": ("Kernels of one's own", "kernel KernelBuilder KernelTensor Tile"),
}
MODULES = {
    "nn": "Modules and layers",
    "nn.functional": "Layers as functions",
    "nn.init": "First values",
    "optim": "Optimisers",
    "optim.lr_scheduler": "Rates by epochs",
    "data": "Data",
    "utils.data": "Datasets and loaders",
    "io": "Files and checkpoints",
    "plot": "Curves",
    "models": "Models",
    "cuda": "NVIDIA GPUs",
}


def area_of():
    """The header that declares each function: its area."""
    areas = {}
    for header in [*sorted((ROOT / "include/heddle/ops").glob("*.h")), ROOT / "include/heddle/nn/loss.h"]:
        for name in re.findall(r"^[\w:<>, ]+? (\w+)\(", header.read_text(), re.M):
            areas.setdefault(name, header.stem)
    return areas


def members(module):
    for name in sorted(dir(module), key=str.lower):
        thing = getattr(module, name)
        ours = getattr(thing, "__module__", "").split(".")[0] == "heddle"
        if not name.startswith("_") and callable(thing) and ours and not isinstance(thing, types.ModuleType):
            yield name, thing


def directive(path, thing):
    if isinstance(thing, type) and issubclass(thing, BaseException):
        return [f".. autoexception:: {path}", "   :show-inheritance:", ""]
    if isinstance(thing, type):
        return [f".. autoclass:: {path}", "   :members:", "   :undoc-members:", ""]
    return [f".. autofunction:: {path}", ""]


def tensor_page(title, entries):
    """What only tensors have, and links to the functions that are methods too."""
    own, shared = [], []
    for name, member in sorted(vars(hd.Tensor).items()):
        if name.startswith("_"):
            continue
        same = getattr(hd, name, None)
        if type(member).__name__ == "method" and callable(same) and getattr(same, "__doc__", 0) == member.__doc__:
            shared.append(f":func:`~heddle.{getattr(same, '__name__', name)}`")
        else:
            own += [f"   .. auto{'method' if callable(member) else 'attribute'}:: heddle.Tensor.{name}", ""]
    lines = [title, "=" * len(title), "", ".. autoclass:: heddle.Tensor", "", *own]
    for path, thing in entries:
        if thing is not hd.Tensor:
            lines += directive(path, thing)
    begin = "Functions that are methods too, with the tensor as their first argument:"
    return "\n".join([*lines, begin, "", ", ".join(dict.fromkeys(shared)) + ".", ""])


def page(title, entries, about=""):
    lines = [title, "=" * len(title), "", about, ""]
    for path, thing in entries:
        lines += directive(path, thing)
    return "\n".join(lines)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    names = dict(members(hd))
    areas, sections, placed = area_of(), {}, {}
    same = {}  # other names of one function
    for name, thing in names.items():
        own = getattr(thing, "__name__", name)
        if name != own and names.get(own) is thing:
            same.setdefault(own, []).append(name)
            placed[name] = own
    for key, (title, wanted) in NAMED.items():
        sections[key] = (title, [name for name in wanted.split() if name in names])
        placed |= dict.fromkeys(wanted.split(), key)
    sections["tensor"] = ("The class Tensor", ["Tensor", "dtype", "Dim", "dim"])
    placed |= dict.fromkeys(["Tensor", "dtype", "Dim", "dim"], "tensor")
    errors = [name for name, thing in names.items() if inspect.isclass(thing) and issubclass(thing, BaseException)]
    sections["errors"] = ("Errors", errors)
    placed |= dict.fromkeys(errors, "errors")
    for name in names:
        if name not in placed:
            key = areas.get(name) if areas.get(name) in TITLES else "more"
            title = TITLES.get(key, "Other functions")
            sections.setdefault(key, (title, []))[1].append(name)
    order = ["tensor", *TITLES, "transforms", "control", "devices", "inspect", "files", "kernels", "more", "errors"]
    for key in order:
        title, listed = sections[key]
        others = [f"``{other}`` is ``{own}``" for own in listed for other in same.get(own, [])]
        about = "Other names: " + ", ".join(others) + "." if others else ""
        entries = [(f"heddle.{name}", names[name]) for name in listed]
        text = tensor_page(title, entries) if key == "tensor" else page(title, entries, about)
        (folder / f"{key}.rst").write_text(text)
    listed_only = ("nn.functional", "io")  # their functions are described elsewhere
    for path, title in MODULES.items():
        module = hd
        for part in path.split("."):
            module = getattr(module, part)
        entries = [(name, thing) for name, thing in members(module) if path in listed_only or names.get(name) is not thing]
        if path in listed_only:
            listed = ", ".join(f"``{name}``" for name, _ in entries)
            (folder / f"{path}.rst").write_text(page(title, [], f"{(module.__doc__ or '').strip()}\n\n{listed}."))
            continue
        (folder / f"{path}.rst").write_text(page(title, [(f"heddle.{path}.{n}", t) for n, t in entries], module.__doc__))
    (folder / "index.rst").rename(folder / "indexing.rst")
    order[order.index("index")] = "indexing"
    listed = "\n".join(f"   {key}" for key in [*order, *MODULES])
    intro = "Everything is in the package ``heddle``, which is ``hd`` here: ``import heddle as hd``."
    title = "API reference"
    index = f"{title}\n{'=' * len(title)}\n\n{intro}\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    (folder / "index.rst").write_text(index)


main(Path(sys.argv[1]))
