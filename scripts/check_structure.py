#!/usr/bin/env python3
"""Checks the order of folders (docs/architecture.md, Folders) over the include lines of all sources.

* A folder of src/ includes itself, folders before it in HEDDLE_FOLDERS (CMakeLists.txt), and public headers that
  belong to one of these.
* Nobody includes a backend but itself; a driver's headers occur in backends only.
* Public headers include <heddle/...> and the standard library only.
* LLVM's headers occur in src/codegen only; a header of src/codegen that reaches one is private to that folder.
* Backends alone include src/codegen: whoever else wants code asks a device.
* One vendor's words occur in its backend and its code generator only, and so do instructions of one processor.
* Nobody but backends asks for the address of a buffer: memory may be a handle without one.
* Locks are those of base/lock.h, which fork() waits for.
* Modes that threads may change are read where the key of a plan is made, and nowhere else.

Tests, tools, benchmarks and examples may include anything. Without arguments the project is checked;
--self-test checks that each kind of violation is caught.
"""

import re
import sys
import tempfile
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
LOCK = re.compile(r"std::(mutex|timed_mutex|recursive_mutex|shared_mutex|condition_variable)\b")
LOCK_FILES = {"src/base/lock.h", "src/base/fork.cpp"}
MODE = re.compile(r"\b(is_deterministic|is_relaxed|tf32_allowed|modes_now)\(")
MODE_FILES = {"src/base/modes.h", "src/base/config.cpp", "src/runtime/graph_key.cpp", "src/python/training.cpp"}
VENDOR = re.compile(r"ptx|cuda|nvidia|nvvm", re.IGNORECASE)
VENDOR_FILES = ("src/codegen/nvptx", "src/backend/cuda/")
PROCESSOR = re.compile(r"__builtin_ia32|\b_mm\d*_|immintrin\.h|x86intrin\.h|\b(rdtsc|cpuid)\b|__(cpuid|rdtsc)")
PROCESSOR_FILES = ("src/base/relax.h", "src/codegen/", "src/backend/cpu/")
ADDRESS = re.compile(r"(\.|->)address\(\)")
ADDRESS_FILES = ("src/runtime/device.h", "src/backend/")
STANDARD = re.compile(r"^[a-z_]+[0-9]*$")  # <vector>, <cstdint>
DRIVER = re.compile(r"^(cuda|nvrtc|nvml|hip/|hsa/|CL/|vulkan/|Metal/|webgpu|level_zero/)")
# The folder that implements a public header, by its name or that of its folder; the others belong to tensor.
PUBLIC_OWNER = {"error.h": "base", "interrupt.h": "base", "precision.h": "base", "deterministic.h": "base", "relaxed.h": "base", "dtype.h": "core",
                "profile.h": "runtime", "kernel.h": "custom", "jit.h": "capture", "parts.h": "capture", "io.h": "io", "progress.h": "io", "plot.h": "io", "nn": "nn", "nn.h": "nn",
                "optim": "optim", "optim.h": "optim", "data.h": "data",
                "models": "models", "models.h": "models", "heddle.h": "models"}


def folder_order(root):
    text = (root / "CMakeLists.txt").read_text()
    match = re.search(r"set\(HEDDLE_FOLDERS\s+([^)]*)\)", text)
    if not match:
        sys.exit("CMakeLists.txt does not set HEDDLE_FOLDERS")
    return match.group(1).split()


def folder_of(name, order):
    """The folder of a path relative to src/, or None: "backend/cpu/x.h" is in "backend/cpu"."""
    folder = name.rpartition("/")[0]
    return folder if folder in order else None


def includes(path):
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1) == "<", match.group(2)


def private_headers(root):
    """Headers of src/codegen from which a header of LLVM can be reached."""
    headers = {f"codegen/{p.name}": p for p in (root / "src/codegen").glob("*.h")}
    reached = {name: [include for _, _, include in includes(path)] for name, path in headers.items()}
    private = {name for name, list_ in reached.items() if any(i.startswith("llvm") for i in list_)}
    while True:
        more = {name for name, list_ in reached.items() if name not in private and private & set(list_)}
        if not more:
            return private
        private |= more


def check_public(name, angle, include):
    if angle and (include.startswith("heddle/") or STANDARD.match(include)):
        return None
    return f"the public header includes {include}; only <heddle/...> and the standard library are allowed"


def check_source(root, order, private, folder, include):
    if include.startswith(("llvm/", "llvm-c/")):
        return None if folder == "codegen" else f"{folder} includes {include}; LLVM is known to codegen only"
    if DRIVER.match(include):
        return None if folder.startswith("backend/") else f"{folder} includes {include}; drivers are known to backends only"
    if include.startswith("heddle/"):
        owner = PUBLIC_OWNER.get(include.split("/")[1], "tensor")
        if order.index(owner) > order.index(folder):
            return f"{folder} includes <{include}>, which belongs to {owner}, further down"
        return None
    if not (root / "src" / include).is_file():
        return None
    other = folder_of(include, order)
    if other is None:
        return f"{include} lies in a folder that HEDDLE_FOLDERS does not name"
    if other == folder:
        return None
    if other.startswith("backend/"):
        return f"{folder} includes {include}; nobody includes a backend"
    if other == "codegen" and not folder.startswith("backend/"):
        return f"{folder} includes {include}; code generators are known to backends only"
    if include in private:
        return f"{folder} includes {include}, which reaches LLVM's headers and is private to codegen"
    if order.index(other) > order.index(folder):
        return f"{folder} includes {include}; {other} stands after {folder}"
    return None


def check(root):
    """All violations, one line each, and the number of files looked at."""
    order = folder_order(root)
    private = private_headers(root)
    problems, count = [], 0

    def note(path, number, message):
        if message:
            problems.append(f"{path.relative_to(root)}:{number}: {message}")

    for path in sorted((root / "include").rglob("*.h")):
        count += 1
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if VENDOR.search(line):
                note(path, number, f"'{VENDOR.search(line).group()}': this is one vendor's word")
        for number, angle, include in includes(path):
            note(path, number, check_public(path.name, angle, include))
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".h", ".cpp", ".def"}:
            continue
        count += 1
        folder = folder_of(path.relative_to(root / "src").as_posix(), order)
        if folder is None:
            note(path, 1, "lies in a folder that HEDDLE_FOLDERS does not name")
            continue
        for number, angle, include in includes(path):
            note(path, number, check_source(root, order, private, folder, include))
            if not angle and not (root / "src" / include).is_file():
                note(path, number, f'"{include}" is no file; name it by its path from src/')
        name = path.relative_to(root).as_posix()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            code = line.partition("//")[0]
            if LOCK.search(code) and name not in LOCK_FILES:
                note(path, number, "fork() does not wait for this lock; use one of base/lock.h")
            if VENDOR.search(line) and not name.startswith(VENDOR_FILES):
                note(path, number, f"'{VENDOR.search(line).group()}': this is one vendor's word; ask the Target or the device")
            if PROCESSOR.search(code) and not name.startswith(PROCESSOR_FILES):
                note(path, number, "not every processor has this; put it behind a function, as base/relax.h does")
            if ADDRESS.search(code) and not name.startswith(ADDRESS_FILES):
                note(path, number, "memory need not have an address; pass the part of the buffer on")
            if MODE.search(code) and name not in MODE_FILES:
                note(path, number, "another thread may change this mode; use the Modes of the plan's key")
    return problems, count


def self_test():
    base = {
        "CMakeLists.txt": "set(HEDDLE_FOLDERS base core compile codegen runtime backend/cpu backend/cuda tensor nn)\n",
        "include/heddle/error.h": "#include <string>\n",
        "include/heddle/tensor.h": "#include <heddle/error.h>\n#include <vector>\n",
        "src/base/log.h": "#include <heddle/error.h>\n",
        "src/compile/loops.h": '#include "base/log.h"\n',
        "src/codegen/codegen.h": '#include "compile/loops.h"\n',
        "src/codegen/emit.h": "#include <llvm/IR/IRBuilder.h>\n",
        "src/codegen/link.h": '#include "codegen/emit.h"\n',
        "src/codegen/emit.cpp": '#include "codegen/link.h"\n#include <llvm/IR/Module.h>\n',
        "src/codegen/nvptx.cpp": "// PTX for NVIDIA's CUDA\n",
        "src/runtime/device.h": '#include "compile/loops.h"\n#include <unistd.h>\nvoid* a = buffer->address();\n',
        "src/backend/cpu/pool.h": "#include <mutex>\n",
        "src/backend/cpu/device.cpp": '#include "codegen/codegen.h"\n#include "runtime/device.h"\nvoid* a = b->address();\n',
        "src/backend/cuda/device.cpp": "#include <cuda.h>\n",
        "src/tensor/tensor.cpp": '#include <heddle/tensor.h>\n#include "runtime/device.h"\n',
    }
    # A change to one file, and a part of the message it must cause (None: no message at all).
    cases = [
        ({}, None),
        ({"src/base/log.h": '#include "core/dtype.h"\n', "src/core/dtype.h": ""}, "core stands after base"),
        ({"src/base/log.h": '  #  include "compile/loops.h"\n'}, "compile stands after base"),
        ({"src/base/log.h": "#include <heddle/tensor.h>\n"}, "belongs to tensor"),
        ({"src/tensor/tensor.cpp": "#include <heddle/nn/linear.h>\n"}, "belongs to nn"),
        ({"src/tensor/tensor.cpp": '#include "backend/cpu/pool.h"\n'}, "nobody includes a backend"),
        ({"src/backend/cuda/device.cpp": '#include "backend/cpu/pool.h"\n'}, "nobody includes a backend"),
        ({"src/runtime/device.h": "#include <vulkan/vulkan.h>\n"}, "drivers are known to backends only"),
        ({"src/compile/loops.h": "#include <llvm/IR/Module.h>\n"}, "LLVM is known to codegen only"),
        ({"src/backend/cpu/device.cpp": '#include "codegen/emit.h"\n'}, "private to codegen"),
        ({"src/backend/cpu/device.cpp": '#include "codegen/link.h"\n'}, "private to codegen"),
        ({"src/runtime/device.h": '#include "codegen/codegen.h"\n'}, "known to backends only"),
        ({"src/tensor/tensor.cpp": '#include "codegen/codegen.h"\n'}, "known to backends only"),
        ({"src/runtime/device.h": "std::string code = to_ptx(kernel);\n"}, "one vendor's word"),
        ({"src/codegen/codegen.h": "Target nvidia_target();\n"}, "one vendor's word"),
        ({"src/codegen/emit.h": "// As CUDA has it.\n"}, "one vendor's word"),
        ({"src/backend/cpu/pool.h": "bool is_cuda = false;\n"}, "one vendor's word"),
        ({"include/heddle/tensor.h": "bool cuda();\n"}, "one vendor's word"),
        ({"src/base/log.h": "inline void wait() { __builtin_ia32_pause(); }\n"}, "not every processor"),
        ({"src/base/relax.h": "inline void wait() { __builtin_ia32_pause(); }\n"}, None),
        ({"src/tensor/tensor.cpp": "void* memory = buffer.address();\n"}, "need not have an address"),
        ({"include/heddle/tensor.h": '#include "base/log.h"\n'}, "public header includes base/log.h"),
        ({"include/heddle/tensor.h": "#include <llvm/IR/Module.h>\n"}, "public header includes llvm"),
        ({"src/base/log.h": '#include "error.h"\n'}, "is no file"),
        ({"src/extra/new.h": ""}, "HEDDLE_FOLDERS does not name"),
        ({"src/base/log.h": "std::mutex lock;\n"}, "fork() does not wait for this lock"),
        ({"src/base/lock.h": "std::mutex lock;\n"}, None),
        ({"src/compile/loops.h": "if (is_relaxed()) {}\n"}, "another thread may change this mode"),
        ({"src/runtime/graph_key.cpp": "modes = modes_now();\n"}, None),
    ]
    for change, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {**base, **change}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            problems, _ = check(root)
        caught = len(problems) == 1 and expected in problems[0] if expected else not problems
        if not caught:
            sys.exit(f"self-test: {change} should give {expected!r}, gave {problems}")
    print(f"structure: the check passes its {len(cases)} self-tests")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if sys.argv[1:]:
        sys.exit(__doc__)
    problems, count = check(Path(__file__).resolve().parent.parent)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} lines break the rules of the structure")
    print(f"structure: the includes of {count} files keep the order of folders")


main()
