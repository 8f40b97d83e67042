"""Stubs of modules of Python whose functions differ in little but their names: types follow from what parameters are
called. python_stubs.py writes them with its own."""

import importlib
import inspect
import re

TOP = """# Made by scripts/python_stubs.py from the module. Do not change it by hand.
import builtins as _b
from collections.abc import Sequence as _Sequence
from typing import Any as _Any, NamedTuple as _NamedTuple

from typing_extensions import TypeAlias as _TypeAlias

"""

LAYERS = {"in_features": "_b.int", "out_features": "_b.int", "bias": "_b.bool", "dtype": "_DTypeLike | None",
          "generator": "_Generator | None", "num_embeddings": "_b.int", "embedding_dim": "_b.int", "eps": "_b.float",
          "normalized_shape": "_Sizes", "elementwise_affine": "_b.bool", "affine": "_b.bool", "num_groups": "_b.int",
          "num_channels": "_b.int", "num_features": "_b.int", "momentum": "_b.float", "in_channels": "_b.int",
          "out_channels": "_b.int", "kernel_size": "_Sizes", "stride": "_Sizes", "padding": "_Sizes",
          "dilation": "_Sizes", "groups": "_b.int", "output_padding": "_Sizes", "output_size": "_Sizes", "p": "_b.float",
          "start_dim": "_b.int", "end_dim": "_b.int", "dim": "_b.int", "unflattened_size": "_Sequence[_b.int]",
          "embed_dim": "_b.int", "num_heads": "_b.int", "is_causal": "_b.bool", "x": "_Tensor", "ids": "_Tensor",
          "target": "_Tensor", "attn_mask": "_Tensor | None", "args": "_Any", "settings": "_Any",
          "reduction": "_b.str", "beta": "_b.float", "delta": "_b.float", "weight": "_Tensor | None",
          "ignore_index": "_b.int", "label_smoothing": "_b.float", "pos_weight": "_Tensor | None",
          "log_target": "_b.bool", "inplace": "_b.bool", "_Pool.stride": "_Sizes | None", "_Conv.padding": "_Sizes | _b.str"}
# What modules have besides methods.
ATTRIBUTES = {"Linear": ["in_features: _b.int", "out_features: _b.int", "weight: _Parameter", "bias: _Parameter | None"],
              "Embedding": ["num_embeddings: _b.int", "embedding_dim: _b.int", "weight: _Parameter"],
              "LayerNorm": ["weight: _Parameter | None", "bias: _Parameter | None", "eps: _b.float"],
              "RMSNorm": ["weight: _Parameter | None", "eps: _b.float"],
              "GroupNorm": ["weight: _Parameter | None", "bias: _Parameter | None", "eps: _b.float"],
              "_BatchNorm": ["weight: _Parameter | None", "bias: _Parameter | None", "eps: _b.float",
                             "momentum: _b.float", "running_mean: _Tensor", "running_var: _Tensor",
                             "num_batches_tracked: _Tensor"],
              "_Conv": ["weight: _Parameter", "bias: _Parameter | None"],
              "_ConvTranspose": ["weight: _Parameter", "bias: _Parameter | None"],
              "Dropout": ["p: _b.float", "inplace: _b.bool"],
              "MultiheadAttention": ["in_proj_weight: _Parameter", "in_proj_bias: _Parameter", "out_proj: Linear"]}

NUMBERS = "_Tensor | _b.float"
ARRAYS = {"x": "_Tensor", "x1": NUMBERS, "x2": NUMBERS, "dtype": "_DType | None", "device": "_b.str | None",
          "copy": "_b.bool | None", "obj": "_Data", "start": "_b.float", "stop": "_b.float", "step": "_b.float",
          "num": "_b.int", "endpoint": "_b.bool", "shape": "_Sizes", "fill_value": "_b.float", "n_rows": "_b.int",
          "n_cols": "_b.int | None", "k": "_b.int", "arrays": "_Tensor", "indexing": "_b.str",
          "min": NUMBERS + " | None", "max": NUMBERS + " | None", "shapes": "tuple[_b.int, ...]", "axis": "_b.int",
          "source": "_Sizes", "destination": "_Sizes", "axes": "_Sequence[_b.int]", "repeats": "_b.int | _Tensor",
          "shift": "_Sizes", "repetitions": "_Sequence[_b.int]", "indices": "_Tensor", "keepdims": "_b.bool",
          "side": "_b.str", "sorter": "_Tensor | None", "descending": "_b.bool", "stable": "_b.bool",
          "invert": "_b.bool", "correction": "_b.float", "include_initial": "_b.bool", "n": "_b.int",
          "prepend": "_Tensor | None", "append": "_Tensor | None", "type": "_DType | _Tensor", "kind": "_Kind",
          "isdtype.dtype": "_DType", "astype.dtype": "_DType", "arrays_and_dtypes": "_Tensor | _DType | _b.float",
          "from_": "_DType | _Tensor", "to": "_DType", "offset": "_b.int", "ord": "_b.float | _b.str",
          "from_dlpack.x": "_Any", "concat.arrays": "_Sequence[_Tensor]", "stack.arrays": "_Sequence[_Tensor]",
          "arange.stop": "_b.float | None", "axis?": "_b.int | None", "axis*": "_Sizes | None",
          "expand_dims.axis": "_Sizes", "squeeze.axis": "_Sizes", "flip.axis": "_Sizes | None",
          "roll.axis": "_Sizes | None", "concat.axis": "_b.int | None", "where.condition": "_Tensor",
          "tensordot.axes": "_b.int | _Sequence[_Sequence[_b.int]]", "vector_norm.axis": "_Sizes | None",
          "take_along_axis.axis": "_b.int"}
SEVERAL_AXES = "count_nonzero sum prod max min mean var std all any".split()
ARRAY_RESULTS = {"meshgrid": "list[_Tensor]", "broadcast_arrays": "list[_Tensor]", "unstack": "tuple[_Tensor, ...]",
                 "broadcast_shapes": "tuple[_b.int, ...]", "nonzero": "tuple[_Tensor, ...]",
                 "unique_all": "unique_all_result", "unique_counts": "unique_counts_result",
                 "unique_inverse": "unique_inverse_result", "result_type": "_DType", "can_cast": "_b.bool",
                 "isdtype": "_b.bool", "finfo": "finfo_object", "iinfo": "iinfo_object"}
TUPLES = {"unique_all_result": {}, "unique_counts_result": {}, "unique_inverse_result": {},
          "finfo_object": {"bits": "_b.int", "dtype": "_DType", "": "_b.float"},
          "iinfo_object": {"bits": "_b.int", "dtype": "_DType", "": "_b.int"}}
INFO = """class _Info:
    def capabilities(self) -> dict[_b.str, _Any]: ...
    def default_device(self) -> _Device: ...
    def devices(self) -> list[_Device]: ...
    def default_dtypes(self, *, device: _b.str | None = None) -> dict[_b.str, _DType]: ...
    def dtypes(
        self, *, device: _b.str | None = None, kind: _Kind | None = None
    ) -> dict[_b.str, _DType]: ...
def __array_namespace_info__() -> _Info: ..."""


def parameters(function, names, look):
    """`names` of a signature with their types; `self` has none."""
    words, only_places, star = [], False, False
    for i, (name, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if only_places and parameter.kind is not parameter.POSITIONAL_ONLY:
            words.append("/")
        only_places = parameter.kind is parameter.POSITIONAL_ONLY
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            words.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        mark = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        if i == 0 and name == "self":
            words.append("self")
            continue
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        words.append(f"{mark}{name}: {look(name, parameter)}{default}")
    return ", ".join(words + (["/"] if only_places else []))


def layers(name):
    module = importlib.import_module(f"heddle.nn.{name}")
    lines = [TOP, "from .._core import Generator as _Generator, Tensor as _Tensor, dtype as _dtype",
             "from .module import Module, Parameter as _Parameter", "",
             "_Sizes: _TypeAlias = _b.int | _Sequence[_b.int]",
             "_DTypeLike: _TypeAlias = _dtype | _b.str | type[_Any]", ""]
    for cls in vars(module).values():
        if not inspect.isclass(cls) or cls.__module__ != module.__name__ or cls.__name__ in ("_WithState", "_Loss"):
            continue
        base = cls.__base__.__name__
        lines.append(f"class {cls.__name__}({'Module' if base in ('_WithState', '_Loss') else base}):")
        before = len(lines)
        lines += [f"    {text}" for text in ATTRIBUTES.get(cls.__name__, [])]
        members = dict(vars(cls))
        if base == "_Loss":
            members["forward"] = cls.forward
        for member, value in members.items():
            if inspect.isfunction(value) and member in ("__init__", "forward", "__call__"):
                text = parameters(value, LAYERS, lambda n, _: LAYERS.get(f"{cls.__name__}.{n}") or LAYERS[n])
                lines.append(f"    def {member}({text}) -> {'None' if member == '__init__' else '_Tensor'}: ...")
                if member == "forward":  # what Module's takes is anything
                    lines.append(f"    def __call__({text}) -> _Tensor: ...")
        if len(lines) == before:
            lines[-1] += " ..."
    return "\n".join(lines) + "\n"


def functional(operator):
    """`operator` gives the lines of an operator of _core; here some have PyTorch's `inplace` too."""
    from heddle import _core
    from heddle.nn import functional as module

    same, own = [], []
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if value is getattr(_core, name):
            same.append(f"from .._core import {name} as {name}")
        elif name == "embedding":
            own.append("def embedding(input: _TensorLike, weight: _TensorLike) -> _Tensor: ...")
        else:
            own += operator(name, getattr(_core, name), more=["inplace: _b.bool = False"])
    own.append("def changing(function: _Callable[..., _Tensor]) -> _Callable[..., _Tensor]: ...")
    own = [re.sub(r"(?<![\w.])(Tensor|Generator)\b", r"_\1", line) for line in own]
    return "\n".join(["# Made by scripts/python_stubs.py from the module. Do not change it by hand.",
                      "import builtins as _b", "from collections.abc import Callable as _Callable", "",
                      "from .._core import Generator as _Generator, Tensor as _Tensor, _TensorLike", *same, "", *own]) + "\n"


def array_api(name):
    module = importlib.import_module(name)
    inside = name.endswith("linalg")
    lines = [TOP, "from .._core import Tensor as _Tensor, _Data, dtype as _DType",
             "from ..devices import device as _Device", "" if inside else "from . import linalg as linalg",
             "_Sizes: _TypeAlias = _b.int | _Sequence[_b.int]",
             "_Kind: _TypeAlias = _DType | _b.str | tuple[_DType | _b.str, ...]", ""]
    from heddle import _core

    own = []
    for member, value in vars(module).items():
        if member.startswith("_") and member != "__array_api_version__":
            continue
        owner = getattr(value, "__module__", "") or ""
        if inspect.isfunction(value) and owner.startswith("heddle.array_api"):
            if inside and owner != name:
                own.append(f"from . import {value.__name__} as {member}")
                continue

            def look(n, parameter):
                if n == "axis" and member in SEVERAL_AXES:
                    return ARRAYS["axis*"]
                if n == "axis" and f"{member}.axis" not in ARRAYS and parameter.default is None:
                    return ARRAYS["axis?"]
                return ARRAYS.get(f"{member}.{n}") or ARRAYS[n]

            own.append(f"def {member}({parameters(value, ARRAYS, look)}) -> {ARRAY_RESULTS.get(member, '_Tensor')}: ...")
        elif isinstance(value, (str, float)):
            own.append(f"{member}: _b.{type(value).__name__}")
        elif value is None:
            own.append(f"{member}: None")
        elif type(value).__name__ in ("function", "dtype") and member in vars(_core):
            own.append(f"from .._core import {member} as {member}")
    if inside:
        return "\n".join(lines + own) + "\n"
    tuples = []
    for tuple_name, kinds in TUPLES.items():
        cls = getattr(module, tuple_name, None) or getattr(importlib.import_module("heddle.array_api._dtypes"), tuple_name)
        tuples.append(f"class {tuple_name}(_NamedTuple):")
        other = kinds.get("", "_Tensor")
        tuples += [f"    {field}: {kinds.get(field, other)}" for field in cls._fields]
    own.append("from .._core import Tensor as Tensor")
    return "\n".join([*lines, *tuples, INFO, *own]) + "\n"
