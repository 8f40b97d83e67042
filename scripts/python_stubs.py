#!/usr/bin/env python3
"""Writes python/heddle/_core.pyi from the extension module, and checks the stubs that people write.

    scripts/python_stubs.py            # writes
    scripts/python_stubs.py --check    # says what differs, also between the other stubs and their modules

heddle must be importable. Names, parameters and defaults are the module's own; types follow from what C++ converts
arguments to, and from the tables below where that is any object of Python's.
"""

import argparse
import ast
import difflib
import importlib
import inspect
import re
import sys
from pathlib import Path

import python_module_stubs

FOLDER = Path(__file__).resolve().parent.parent / "python" / "heddle"
MODULES = ["", "control", "cuda", "data", "devices", "graph", "io", "kernels", "models", "models.gpt2", "models.resnet", "nn",
           "nn.containers", "nn.init", "nn.module", "nn.utils", "optim", "optim.lr_scheduler", "plot", "progress", "random",
           "serialization", "transforms", "utils", "utils.data"]

# What C++ calls a parameter's type.
TAKES = {"Tensor": "_TensorLike", "Operand": "_TensorLike", "bool": "_b.bool", "int": "_b.int", "float": "_b.float",
         "str": "_b.str", "DType": "_DTypeLike", "Ints": "_Ints", "Tensors": "_Sequence[_TensorLike]",
         "Pairs": "_Sequence[_Sequence[_b.int]]", "TwoFloats": "tuple[_b.float, _b.float]", "Generator": "Generator"}
GIVES = {"Tensor": "Tensor", "bool": "_b.bool", "int": "_b.int", "float": "_b.float", "str": "_b.str", "None": "None",
         "Tensors": "tuple[Tensor, ...]", "TwoTensors": "tuple[Tensor, Tensor]", "State": "dict[_b.str, Tensor]",
         "ValuesIndices": "_ValuesIndices"}

# Parameters that are any object to C++, by their names; or by function and name.
PARAMETERS = {"data": "_Data", "fill_value": "_TensorLike", "start": "_b.float", "stop": "_b.float", "step": "_b.float",
              "dim": "_Ints", "dims": "_Ints", "shape": "_Ints", "low": "_TensorLike", "high": "_TensorLike",
              "p": "_TensorLike", "generator": "Generator", "training": "_b.bool", "value": "_TensorLike",
              "nan": "_b.float", "posinf": "_b.float", "neginf": "_b.float", "approximate": "_b.str",
              "gradient": "_TensorLike", "dtype": "_DTypeLike", "format": "_b.str", "name": "_b.str",
              "f": "_Callable[..., _Any]", "device": "_b.str", "path": "_Path", "tensors": "_Mapping[_b.str, Tensor]",
              "metadata": "_Mapping[_b.str, _b.str]", "size": "_Ints", "sections": "_Ints", "split_size": "_Ints",
              "repeats": "_Ints", "shifts": "_Ints", "source": "_Ints", "destination": "_Ints", "pad": "_Ints",
              "equation": "_b.str", "operands": "_TensorLike", "indexing": "_b.str", "mode": "_b.str",
              "bins": "_b.int", "range": "tuple[_b.float, _b.float]", "reduce": "_b.str", "values": "_TensorLike",
              "scale": "_b.float", "reduction": "_b.str", "padding": "_b.str | _Ints", "stride": "_Ints",
              "kernel_size": "_Ints", "output_size": "_Ints", "indices": "_Sequence[_TensorLike]", "a": "_TensorLike",
              "b": "_TensorLike", "x": "_TensorLike", "counts": "_Ints", "axes": "_Ints", "condition": "_TensorLike",
              "clip_value": "_b.float", "gradients": "_Iterable[Tensor]", "also": "_Iterable[Tensor]",
              "params": "_Params", "lr": "_Rate", "rate": "_b.float", "then": "_Rate", "last": "_Rate",
              "parts": "_Sequence[tuple[_b.int, _Rate]]", "state": "_Mapping[_b.str, Tensor]", "seed": "_b.int",
              "type": "type[_Any]", "flatten": "_Callable[[_Any], tuple[_Iterable[_Any], _Any]]",
              "unflatten": "_Callable[[_Any, _Sequence[_Any]], _Any]", "tree": "_Any", "leaves": "_Iterable[_Any]",
              "structure": "PyTree", "tensordot.dims": "_b.int | _Sequence[_Ints]", "with_dim.size": "Dim",
              "randint.high": "_TensorLike", "isclose.rtol": "_b.float", "correction": "_b.float",
              "register_pytree.type": "type[_Any]",
              "conv_transpose.padding": "_Ints", "update_slice.begins": "_Ints",
              "decay_matrices.named_parameters": "_Iterable[tuple[_b.str, Tensor]]",
              "Schedule.__init__.factor": "_Callable[[_Any], _b.float | Tensor]", "Optimizer.__init__.update": "_Callable[..., _Any]",
              "Optimizer.__init__.state": "_Iterable[_b.str]",
              "KernelBuilder.count": "_SupportsIndex", "KernelBuilder.size": "_SupportsIndex",
              "KernelBuilder.index": "_Positions", "KernelBuilder.ranges": "Tile | _Sequence[Tile]",
              "KernelBuilder.range": "Tile", "KernelBuilder.number": "_b.float",
              "KernelBuilder.body": "_Callable[..., _Any]", "KernelBuilder.carried": "_Positions",
              **{f"KernelBuilder.{name}": "_TileLike" for name in "mask other value a b x acc start stop args".split()},
              "KernelTensor.arg": "_Positions", "KernelTensor.arg0": "_Positions", "KernelTensor.arg1": "_TileLike",
              "Tile.arg": "_TileLike"}
# What they give, likewise: by function.
RESULTS = {"as_tensor": "Tensor", "asarray": "Tensor", "requires_grad_": "_Self", "realize": "_Self", "assign": "_Self",
           "copy_": "_Self", "zero_": "_Self", "fill_": "_Self", "numel": "_b.int", "dim": "_b.int", "tolist": "_Any",
           "item": "_b.bool | _b.int | _b.float", "numpy": "_np.ndarray[_Any, _Any]",
           "__array__": "_np.ndarray[_Any, _Any]", "__dlpack__": "_Any", "__dlpack_device__": "tuple[_b.int, _b.int]",
           "__format__": "_b.str", "from_dlpack": "Tensor", "from_numpy": "Tensor", "jacobian": "Tensor",
           "hessian": "Tensor", "tree_flatten": "tuple[list[_Any], PyTree]", "tree_unflatten": "_Any",
           "load_safetensors": "dict[_b.str, Tensor]", "clip_grad_norm": "tuple[list[Tensor], Tensor]",
           "clip_grad_value": "list[Tensor]", "Optimizer.parameters": "list[Tensor]", "decay_matrices": "list[dict[_b.str, _Any]]",
           "Optimizer.state_dict": "dict[_b.str, Tensor]", "Generator.get_state": "tuple[_b.int, _b.int]", "Generator.manual_seed": "_Self",
           "dtype.__copy__": "_Self", "dtype.__deepcopy__": "_Self",
           "Captured.plans": "list[dict[_b.str, _Any]]", "Profile.__enter__": "_Self", "Profile.start": "None",
           "Profile.kernels": "list[dict[_b.str, _Any]]", "__eq__": "_b.bool", "__ne__": "_b.bool",
           "Profile.summary": "dict[_b.str, _Any]", "safetensors_metadata": "dict[_b.str, _b.str]", "KernelTensor.shape": "tuple[_b.int, ...]", "KernelTensor.dtype": "_DType",
           "Tile.dtype": "_DType"}
# What is neither C++ nor the same in all classes: methods and properties that Python gave to classes of C++.
WRITTEN = {"Profile._repr_html_": "    def _repr_html_(self) -> _b.str: ...",
           "Optimizer.zero_grad": "    def zero_grad(self, set_to_none: _b.bool = True) -> None: ...",
           "Optimizer.param_groups":
           "    @property\n    def param_groups(self) -> list[_MutableMapping[_b.str, _Any]]: ..."}
# Whole functions whose result depends on their arguments.
OVERLOADS = {
    "unique": ["(x: _TensorLike, return_inverse: _Literal[False] = False, return_counts: _Literal[False] = False) -> Tensor",
               "(x: _TensorLike, return_inverse: _b.bool = False, return_counts: _b.bool = False) -> _Any"],
    "nonzero": ["(x: _TensorLike, as_tuple: _Literal[False] = False) -> Tensor",
                "(x: _TensorLike, as_tuple: _Literal[True]) -> tuple[Tensor, ...]",
                "(x: _TensorLike, as_tuple: _b.bool = False) -> Tensor | tuple[Tensor, ...]"],
}
# Other names that type checkers know too: those of what people come from.
ALIASES = {"dim": ["axis"], "keepdim": ["keepdims"], "epsilon": ["eps"], "low": ["min"], "high": ["max"],
           "correction": ["ddof"], "num": ["steps"], "stop": ["end"]}

OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()
COMPARISONS = "eq ne lt le gt ge".split()
RESULTS |= {f"Tile.__{name}__": "Tile" for op in OPERATORS + COMPARISONS for name in (op, f"r{op}")}
NOT_BOOL = "  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]"  # of == and !=
TENSOR = [
    "    def __init__(self, data: _Data, dtype: _DTypeLike | None = None) -> None: ...",
    *(f"    def __{name}__(self, other: _TensorLike, /) -> Tensor: ..." for op in OPERATORS for name in (op, f"r{op}")),
    *(f"    def __i{op}__(self, other: _TensorLike, /) -> _Self: ..." for op in OPERATORS),
    *(f"    def __{name}__(self, other: _TensorLike, /) -> tuple[Tensor, Tensor]: ..." for name in ("divmod", "rdivmod")),
    *(f"    def __{op}__(self, other: object, /) -> Tensor: ...{NOT_BOOL}" for op in COMPARISONS[:2]),
    *(f"    def __{op}__(self, other: _TensorLike, /) -> Tensor: ..." for op in COMPARISONS[2:]),
    *(f"    def __{op}__(self) -> Tensor: ..." for op in "neg pos abs invert".split()),
    *(f"    def __{op}__(self) -> _b.{kind}: ..." for op, kind in
      dict(bool="bool", int="int", float="float", index="int", complex="complex", len="int", hash="int").items()),
    "    def __iter__(self) -> _Iterator[Tensor]: ...",
    "    def __contains__(self, value: object) -> _b.bool: ...",
    "    def __getitem__(self, key: _Key, /) -> Tensor: ...",
    "    def __setitem__(self, key: _Key, value: _TensorLike, /) -> None: ...",
    "    def __buffer__(self, flags: _b.int, /) -> memoryview: ...",
    "    def __copy__(self) -> _Self: ...",
    "    def __deepcopy__(self, memo: dict[_b.int, _Any]) -> _Self: ...",
    "    def __array_namespace__(self, *, api_version: _b.str | None = None) -> _ModuleType: ...",
    "    def __array_ufunc__(self, ufunc: _Any, method: _b.str, *inputs: _Any, **settings: _Any) -> _Any: ...",
    "    def __array_function__(self, function: _Any, types: _Any, args: _Any, kwargs: _Any) -> _Any: ...",
    "    def _repr_html_(self) -> _b.str | None: ...",
    "    __array_priority__: _b.int",
    "    requires_grad: _b.bool",
    "    grad: Tensor | None",
    *(f"    @property\n    def {name}(self) -> {kind}: ..." for name, kind in
      {"shape": "tuple[_b.int, ...]", "dtype": "_DType", "ndim": "_b.int", "size": "_Size", "itemsize": "_b.int",
       "nbytes": "_b.int", "T": "Tensor", "mT": "Tensor", "is_leaf": "_b.bool", "device": "_Device"}.items()),
    "    @_overload\n    def to(self, dtype: _DTypeLike, /) -> Tensor: ...",
    "    @_overload\n    def to(self, *, dtype: _DTypeLike | None = None, device: _b.str | None = None) -> Tensor: ...",
    "    @_overload\n    def to(self, device: _b.str, /, dtype: _DTypeLike | None = None) -> Tensor: ...",
    "    def to_device(self, device: _b.str, /, *, stream: None = None) -> Tensor: ...",
    "    def normal_(self, mean: _b.float = 0.0, std: _b.float = 1.0) -> _Self: ...",
    "    def uniform_(self, a: _b.float = 0.0, b: _b.float = 1.0) -> _Self: ...",
    *(f"    def {name}(self, other: Tensor) -> Tensor: ..." for name in "view_as reshape_as expand_as type_as".split()),
    "    def is_floating_point(self) -> _b.bool: ...",
    *(f"    def new_{name}(self, *shape: _Ints, dtype: _DTypeLike | None = None) -> Tensor: ..." for name in ("zeros", "ones")),
    "    def new_full(self, shape: _Ints, value: _TensorLike, dtype: _DTypeLike | None = None) -> Tensor: ...",
    "    def new_tensor(self, data: _Data, dtype: _DTypeLike | None = None) -> Tensor: ...",
    *(f"    def {name}(self) -> Tensor: ..." for name in
      "cpu cuda float double half bfloat16 int long bool copy".split()),
]

HEADER = '''# Made by scripts/python_stubs.py from the extension module. Do not change it by hand.
import builtins as _b
import os as _os
from collections.abc import (
    Callable as _Callable,
    Iterable as _Iterable,
    Iterator as _Iterator,
    Mapping as _Mapping,
    Sequence as _Sequence,
)
from types import EllipsisType as _EllipsisType, ModuleType as _ModuleType
from typing import Any as _Any, Concatenate as _Concatenate, Generic as _Generic, Literal as _Literal
from typing import ParamSpec as _ParamSpec, Protocol as _Protocol, SupportsIndex as _SupportsIndex
from typing import TypeVar as _TypeVar, overload as _overload

import numpy as _np
from typing_extensions import Buffer as _Buffer, Self as _Self, TypeAlias as _TypeAlias

from .devices import device as _Device

class _HasDLPack(_Protocol):
    def __dlpack__(self, *args: _Any, **kwargs: _Any) -> _Any: ...

class _HasArray(_Protocol):
    def __array__(self, *args: _Any, **kwargs: _Any) -> _Any: ...

_Path: _TypeAlias = _b.str | _os.PathLike[_b.str]
_Ints: _TypeAlias = _SupportsIndex | _Sequence[_SupportsIndex]
_Array: _TypeAlias = _HasDLPack | _HasArray | _Buffer
_TensorLike: _TypeAlias = Tensor | _b.float | _Array | list[_Any] | tuple[_Any, ...]
_Data: _TypeAlias = _TensorLike | range
_DTypeLike: _TypeAlias = dtype | _b.str | type[_Any] | _np.dtype[_Any]
_DType: _TypeAlias = dtype
_Position: _TypeAlias = _SupportsIndex | slice[_Any, _Any, _Any] | _EllipsisType | Tensor | _Array | list[_Any] | None
_Key: _TypeAlias = _Position | tuple[_Position, ...]
_TileLike: _TypeAlias = Tile | _b.float
_Positions: _TypeAlias = _TileLike | _Sequence[_TileLike]
_P = _ParamSpec("_P")
_R = _TypeVar("_R", covariant=True)
_Q = _ParamSpec("_Q")
_S = _TypeVar("_S")
_T = _TypeVar("_T")

class _Size(_b.int):
    @_overload
    def __call__(self, dim: None = None) -> tuple[_b.int, ...]: ...
    @_overload
    def __call__(self, dim: _b.int) -> _b.int: ...

class _ValuesIndices(tuple[Tensor, Tensor]):
    @property
    def values(self) -> Tensor: ...
    @property
    def indices(self) -> Tensor: ...
'''
OPTIM = '''
def save_checkpoint(
    path: _Path, model: _Module, optimizer: Optimizer, metadata: _Mapping[_b.str, _b.str] | None = None
) -> None: ...
def load_checkpoint(path: _Path, model: _Module, optimizer: Optimizer) -> dict[_b.str, _b.str]: ...
def clip_grad_norm_(
    parameters: _Tensor | _Iterable[_Tensor], max_norm: _b.float, norm_type: _b.float = 2.0
) -> _Tensor: ...
def clip_grad_value_(parameters: _Tensor | _Iterable[_Tensor], clip_value: _b.float) -> None: ...
'''
CAPTURED = '''class Captured(_Generic[_P, _R]):
    __wrapped__: _Callable[..., _Any]
    def __init__(self, f: _Callable[_P, _R], place: _b.str) -> None: ...
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    @_overload
    def __get__(self, instance: None, owner: type[_Any] | None = None, /) -> _Self: ...
    @_overload
    def __get__(
        self: Captured[_Concatenate[_S, _Q], _T], instance: _S, owner: type[_Any] | None = None, /
    ) -> _Callable[_Q, _T]: ...
    def __copy__(self) -> _Self: ...
    def __deepcopy__(self, memo: dict[_b.int, _Any]) -> _Self: ...
'''


def type_of(function, name, given):
    """Of a parameter that is any object to C++."""
    owner, _, own = function.rpartition(".")
    for key in (f"{function}.{name}", f"{own}.{name}", f"{owner}.{name}", name):
        if key in PARAMETERS:
            return PARAMETERS[key]
    return given


def written(default):
    return "..." if not isinstance(default, (bool, int, float, str, tuple, type(None))) else repr(default)


def operator(name, function, method=False, more=()):
    """The lines of an operator: of the module, or of the class of tensors. `more`: parameters that have to be named."""
    core_name = function.__name__
    *takes, gives = function._types
    parameters = list(inspect.signature(function).parameters.values())
    result = RESULTS.get(core_name) or GIVES.get(gives, "_Any")
    if method and result == "Tensor" and core_name in RESULTS:
        result = RESULTS[core_name]
    if not method:
        result = result.replace("_Self", "None" if core_name == "realize" else "Tensor")
    words, named, required = [], [], []
    for parameter, kind in zip(parameters, takes, strict=True):
        hint = TAKES.get(kind) or type_of(core_name, parameter.name, "_Any")
        if method and not words:
            words.append("self")
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            if hint.startswith("_Sequence["):
                hint = f"{hint} | {hint[10:-1]}"
            words.append(f"*{parameter.name}: {hint}")
            continue
        if parameter.default is parameter.empty:
            required.append((len(words), parameter.name))
            words.append(f"{parameter.name}: {hint}")
            continue
        optional = " | None" if parameter.default is None or parameter.name == "generator" else ""
        text = f": {hint}{optional} = {written(parameter.default)}"
        words.append(parameter.name + text)
        for other in ALIASES.get(parameter.name, []):
            if other in function._aliases.get(parameter.name, []):
                named.append(other + text)
    if "device" in function._aliases:
        named.append("device: _b.str | None = None")
    named += more
    star = ["*"] if named and not any(word.startswith("*") for word in words) else []
    forms = [words + star + named]
    # `axis` for a `dim` that must be given.
    for place, parameter in required:
        if parameter == "dim" and "axis" in function._aliases.get("dim", []):
            other = ["axis" + words[place][3:]]
            rest = words[:place] + ["*"] + other + [w for w in words[place + 1:]] + named
            forms.append(rest)
    indent = "    " if method else ""
    if core_name in OVERLOADS:
        texts = [re.sub(r"x: \w+", "self", t, count=1) if method else t for t in OVERLOADS[core_name]]
    else:
        texts = [f"({', '.join(form)}) -> {result}" for form in forms]
    mark = f"{indent}@_overload\n" if len(texts) > 1 else ""
    return [f"{mark}{indent}def {name}{text}: ..." for text in texts]


def bound(name, function, owner=""):
    """The lines of what nanobind made: its signature, with our types in the place of objects."""
    lines = []
    signatures = function.__nb_signature__
    for signature, _, defaults in signatures:
        text = re.sub(r"\\(\d+)", lambda m: written(defaults[int(m[1])]), signature)
        tree = ast.parse(text + ": ...").body[0]
        path = f"{owner}.{name}" if owner else name
        words = []
        arguments = [*tree.args.posonlyargs, *tree.args.args]
        defaults_at = len(arguments) - len(tree.args.defaults)
        for i, argument in enumerate(arguments):
            if owner and i == 0:
                words.append("self")
                continue
            hint = plain(ast.unparse(argument.annotation)) if argument.annotation else "_Any"
            optional = hint.endswith(" | None")
            if "object" in hint or argument.arg in ("betas", "f", "tree"):
                hint = type_of(path, argument.arg, "_Any") + (" | None" if optional else "")
            if hint == "tuple[_Any, ...]" and argument.arg == "state":
                hint = "tuple[_b.int, _b.int]"
            if argument.arg == "betas":
                hint = "tuple[_b.float, _b.float]"
            default = f" = {ast.unparse(tree.args.defaults[i - defaults_at])}" if i >= defaults_at else ""
            words.append(f"{argument.arg}: {hint}{default}")
            if argument in tree.args.posonlyargs and (i + 1 == len(tree.args.posonlyargs)):
                words.append("/")
        if tree.args.vararg:
            words.append(f"*{tree.args.vararg.arg}: {type_of(path, tree.args.vararg.arg, '_Any')}")
        if tree.args.kwarg:
            words.append(f"**{tree.args.kwarg.arg}: _Any")
        result = RESULTS.get(path) or (RESULTS.get(name) if not owner or name.startswith("__") else None)
        if name == "__init__":
            result = "None"
        result = result or plain(ast.unparse(tree.returns)).replace("object", "_Any")
        indent = "    " if owner else ""
        lines.append(f"{indent}def {name}({', '.join(words)}) -> {result}: ...")
    return lines


def plain(hint):
    """A type as nanobind writes it, with names that stubs know."""
    hint = re.sub(r"heddle\.(_core\.)?(_optim\.)?", "", hint).replace("collections.abc.", "_").replace("os.PathLike", "_Path")
    hint = re.sub(r"\b(tuple|list|dict)$", r"\1[_Any]", hint).replace("tuple[_Any]", "tuple[_Any, ...]")
    return re.sub(r"\b(?<![._])(int|float|bool|str)\b", r"_b.\1", hint.replace("dict[_Any]", "dict[_Any, _Any]"))


def described(name, cls):
    """The lines of a class of nanobind's."""
    lines = []
    for member, value in vars(cls).items():
        kind, full = type(value).__name__, f"{name}.{member}"
        if full in WRITTEN:
            lines.append(WRITTEN[full])
        elif member.startswith("_") and not member.startswith("__"):
            continue
        elif kind == "nb_method":
            lines += bound(member, value, name)
        elif kind == "property":
            hint = RESULTS.get(full) or plain(value.fget.__nb_signature__[0][0].rpartition("-> ")[2]).replace("object", "_Any")
            lines.append(f"    @property\n    def {member}(self) -> {hint}: ...")
            if value.fset:
                kind = "_Rate" if member == "lr" else hint
                lines.append(f"    @{member}.setter\n    def {member}(self, value: {kind}, /) -> None: ...")
    base = cls.__base__.__name__
    lines = [re.sub(r"__(eq|ne)__\(self, \w+: [^,]*, /\)", r"__\1__(self, other: object, /)", line) for line in lines]
    lines = [line + NOT_BOOL if re.search(r"__(eq|ne)__.*-> (?!_b\.bool)", line) else line for line in lines]
    return [f"class {name}{'' if base == 'object' else f'({base})'}:", *(lines or ["    ..."])]


def tensor_methods():
    from heddle import Tensor, _core

    lines, seen = [], " ".join(TENSOR)
    for name, value in vars(Tensor).items():
        if type(value).__name__ == "method":
            if not name.startswith("_same") and f"def {name}(" not in seen:
                lines += operator(name, value, method=True)
        elif inspect.isfunction(value) and name.endswith("_") and not name.startswith("_") and f"def {name}(" not in seen:
            first, *more = operator(name, getattr(_core, name[:-1]), method=True)
            lines.append(re.sub(r" -> .*: \.\.\.", " -> _Self: ...", first.replace("    @_overload\n", "")))
    return sorted(lines, key=lambda line: re.search(r"def (\w+)", line)[1])


def core():
    import heddle
    from heddle import _core

    lines = [HEADER, CAPTURED.rstrip()]
    for line in described("Captured", _core.Captured):
        if re.search(r"def (plans|clear)\(", line):
            lines.append(line)
    lines += ["class Tensor:", *TENSOR, *tensor_methods()]
    functions, classes, values = [], [], []
    for name, value in sorted(vars(_core).items()):
        kind = type(value).__name__
        if name.startswith("_") or name in ("Tensor", "Captured") or getattr(heddle, name) is not value:
            continue
        if kind == "function":
            functions += operator(name, value)
        elif kind == "nb_func":
            functions += bound(name, value)
        elif kind == "nb_type":
            classes += described(name, value)
        elif inspect.isclass(value) and issubclass(value, BaseException):
            bases = ", ".join(base.__name__ if base.__module__ == "heddle" else f"_b.{base.__name__}" for base in value.__bases__)
            classes.append(f"class {name}({bases}): ...")
        elif kind == "dtype":
            values.append(f"{name}: _DType")
    classes.sort(key=lambda line: not line.startswith("class Error("))
    return "\n".join([*lines, *in_order(classes), *functions, *values]) + "\n"


def in_order(lines):
    """Classes before those that derive from them: Error first, methods behind their class."""
    first = [line for line in lines if line.startswith("class Error(")]
    return first + [line for line in lines if line not in first]


def optim():
    from heddle import _core

    lines = ["# Made by scripts/python_stubs.py from the extension module. Do not change it by hand.",
             "import builtins as _b",
             "import os as _os",
             "from collections.abc import Iterable as _Iterable, Mapping as _Mapping",
             "from collections.abc import Callable as _Callable, MutableMapping as _MutableMapping",
             "from collections.abc import Sequence as _Sequence",
             "from typing import Any as _Any", "", "from typing_extensions import TypeAlias as _TypeAlias", "",
             "from .._core import Tensor as _Tensor", "from ..nn.module import Module as _Module",
             "from . import lr_scheduler as lr_scheduler", "",
             "_Path: _TypeAlias = _b.str | _os.PathLike[_b.str]", "_Rate: _TypeAlias = _b.float | Schedule",
             "_Params: _TypeAlias = _Iterable[_Tensor] | _Iterable[_Mapping[_b.str, _Any]]", ""]
    members = sorted(vars(_core._optim).items(), key=lambda item: (item[0] != "Optimizer", item[0]))
    for name, value in members:
        kind = type(value).__name__
        if kind == "nb_func":
            lines += bound(name, value)
        elif kind == "nb_type":
            lines += described(name, value)
    lines = [line for line in lines if not re.search(r"def _(save|load)_checkpoint", line)]
    text = re.sub(r"(?<![\w.])Tensor\b(?! as)", "_Tensor", "\n".join(lines))
    return text + OPTIM.rstrip() + "\n"


def stubbed(path):
    """What a stub says: names, and for functions and methods the parameters with their defaults."""
    found, scopes = {}, [("", ast.parse(path.read_text()).body)]
    for prefix, body in scopes:
        for node in body:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = None
                scopes.append((f"{prefix}{node.name}.", node.body))
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names = [a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
                names += [f"*{a.arg}" for a in [node.args.vararg] if a] + [f"**{a.arg}" for a in [node.args.kwarg] if a]
                overloaded = any("overload" in ast.unparse(d) for d in node.decorator_list)
                if any("property" in ast.unparse(d) or "setter" in ast.unparse(d) for d in node.decorator_list):
                    names, overloaded = None, False
                before = found.get(prefix + node.name)
                found[prefix + node.name] = (before or []) + [names] if overloaded else names
            elif isinstance(node, ast.AnnAssign):
                found[prefix + node.target.id] = None
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    found.update({prefix + name.id: None for name in ast.walk(target) if isinstance(name, ast.Name)})
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    if alias.name == "*":
                        given = stubbed(path.parent / f"{node.module}.pyi")
                        found.setdefault("*", set()).update(name for name in given if not name.startswith("_"))
                    elif alias.asname == alias.name:  # what a stub gives on
                        found[prefix + alias.name] = None
    return found


def parameters_of(value):
    names = []
    for parameter in inspect.signature(value).parameters.values():
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        names.append(star + parameter.name)
    return names


def compare(name):
    """Differences between a module of Python and the stub that somebody wrote for it."""
    module = importlib.import_module(f"heddle.{name}".rstrip("."))
    base = FOLDER / name.replace(".", "/")
    path = base / "__init__.pyi" if base.is_dir() else base.with_suffix(".pyi")
    if not path.exists():
        return [f"heddle.{name} has no stub"]
    known, problems = stubbed(path), []

    def look(prefix, members, owner):
        for member, value in members.items():
            full = prefix + member
            ours = getattr(value, "__module__", None) or ""
            if member.startswith("_") and member not in ("__init__", "__call__"):
                continue
            if full in known.get("*", ()) and full not in known:  # another stub's
                continue
            if full not in known:
                if not inspect.ismodule(value):
                    problems.append(f"{path.name}: {full} is missing")
                continue
            wanted = known[full]
            if inspect.isfunction(value) and wanted is not None and wanted and isinstance(wanted[0], str):
                if sorted(wanted) != sorted(parameters_of(value)):
                    problems.append(f"{path.name}: {full} has {wanted}, not {parameters_of(value)}")
            if inspect.isclass(value) and ours == module.__name__ and not prefix:
                look(f"{member}.", {k: v for k, v in vars(value).items() if inspect.isfunction(v) or isinstance(v, property)}, value)

    look("", {k: v for k, v in vars(module).items() if public(module, k, v)}, module)
    for full in known:
        if "." not in full and full != "*" and not full.startswith("_") and not hasattr(module, full):
            problems.append(f"{path.name}: {full} is not in heddle.{name}")
    return problems


def public(module, name, value):
    if name in getattr(module, "__all__", []):
        return True
    if name.startswith("_") or inspect.ismodule(value):
        return False
    owner = getattr(value, "__module__", None)
    return owner is None or owner == module.__name__


def tidied(text):
    """Without imports that nothing uses."""

    def is_wanted(word):
        name, _, own = word.partition(" as ")
        return name == own or len(re.findall(rf"(?<![\w.]){own or name}\b", text)) > 1

    lines = []
    for line in text.splitlines():
        if (found := re.fullmatch(r"(from \S+ import )([^(*]*)", line)) and "(" not in line:
            wanted = list(filter(is_wanted, found[2].split(", ")))
            if not wanted:
                continue
            line = found[1] + ", ".join(wanted)
        lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def generated():
    made = {FOLDER / "_core.pyi": core(), FOLDER / "optim/__init__.pyi": optim(),
            FOLDER / "nn/layers.pyi": python_module_stubs.layers("layers"),
            FOLDER / "nn/losses.pyi": python_module_stubs.layers("losses"),
            FOLDER / "nn/functional.pyi": python_module_stubs.functional(operator),
            FOLDER / "array_api/__init__.pyi": python_module_stubs.array_api("heddle.array_api"),
            FOLDER / "array_api/linalg.pyi": python_module_stubs.array_api("heddle.array_api.linalg")}
    return {path: tidied(text) for path, text in made.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if something differs")
    arguments = parser.parse_args()
    problems = []
    for path, text in generated().items():
        old = path.read_text() if path.exists() else ""
        if not arguments.check:
            path.write_text(text)
        elif old != text:
            changed = list(difflib.unified_diff(old.splitlines(), text.splitlines(), "stub", "module", n=0, lineterm=""))
            problems += [f"{path.name} is not what scripts/python_stubs.py writes:", *changed[:20]]
    for name in MODULES:
        problems += compare(name)
    print(*problems, sep="\n", file=sys.stderr)
    sys.exit(bool(problems) if arguments.check else 0)


if __name__ == "__main__":
    main()
