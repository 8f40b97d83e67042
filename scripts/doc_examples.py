#!/usr/bin/env python3
"""Reads the headers of the operators and losses: their examples become a test, and all of them a table.

An example is an indented line in the comment above a declaration, with what it prints behind it:

    // One -1 is worked out.
    //   reshape(arange(6), {2, -1})   // [[0 1 2] [3 4 5]]
    Tensor reshape(const Tensor& x, const Dims& shape);

A line that ends with a semicolon is a statement for the lines after it. Line breaks and runs of blanks count as one
blank. "// @dtypes ... @shape ..." says what the table shows for the declarations below it.

    doc_examples.py generate FOLDER        writes one C++ file per header, and main.cpp
    doc_examples.py table LAUNCHES         writes docs/operators.md; LAUNCHES comes from running the test with a path
    doc_examples.py check LAUNCHES         fails if docs/operators.md is not that
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = sorted((ROOT / "include/heddle/ops").glob("*.h")) + [ROOT / "include/heddle" / name for name in ("nn/loss.h", "grad.h", "vmap.h", "control.h")]
TABLE = ROOT / "docs/operators.md"
# In the order of the table.
AREAS = ["create", "random", "unary", "binary", "activation", "reduce", "scan", "normalize", "shape", "join", "index", "scatter", "sort",
         "linalg", "conv", "attention", "loss", "grad", "vmap", "control"]

# Operators that move numbers, or multiply and add them: all have gradients, even where the example has only integers.
MOVING = ["shape", "join", "scatter", "linalg", "conv"]
# Its example shows a gradient that passes beside it.
CONSTANT = ["detach"]

EXAMPLE = re.compile(r"^//   (\S.*)$")
TEMPLATE = re.compile(r"^template <[^<>]*>\s+(?:requires\([^()]*\)\s+)?")
DECLARATION = re.compile(r"^(std::function<[^<>]*>|[\w:<>, ]+?)\s+\b(\w+)\(")


class Function:
    def __init__(self, area, name, signature, dtypes, shape, text, examples):
        self.area, self.name, self.signature = area, name, signature
        self.dtypes, self.shape, self.text, self.examples = dtypes, shape, text, examples


def declarations(path):
    """The public functions of a header, with the comments above them."""
    functions, comment, dtypes, shape = [], [], "", ""
    lines = iter(path.read_text(encoding="utf-8").splitlines())
    depth = 0  # inside the braces of a class or an enumeration
    detail = False
    for line in lines:
        if "namespace detail" in line:
            detail = not line.startswith("}")
        if detail:
            continue
        tag = re.match(r"^// @dtypes (.*) @shape (.*)$", line)
        if tag:
            dtypes, shape, comment = tag.group(1), tag.group(2), []
            continue
        if depth == 0 and line.startswith("//"):
            comment.append(line)
            continue
        if not line.startswith("namespace") and not line.startswith("}  // namespace"):
            depth += line.count("{") - line.count("}")
        if depth > 0 or line.startswith("}") or line.startswith("#") or not line.strip():
            comment = []
            continue
        statement = line
        while ";" not in re.sub(r"//.*", "", statement) and not statement.rstrip().endswith("{"):
            line = next(lines)
            statement += " " + line.strip()
            depth += line.count("{") - line.count("}")  # of a function with a body, too
        statement = TEMPLATE.sub("", statement)
        match = DECLARATION.match(statement)
        if match and "operator" not in statement:
            signature = re.sub(r"\s+", " ", re.sub(r"\s*(//.*|;.*|\{)$", "", statement)).replace("( ", "(")
            examples = [m.group(1) for m in map(EXAMPLE.match, comment) if m]
            text = " ".join(c[3:] for c in comment if not EXAMPLE.match(c))
            functions.append(Function(path.stem, match.group(2), signature, dtypes, shape, text, examples))
        comment = []
    return functions


def all_functions():
    paths = sorted(HEADERS, key=lambda p: (AREAS.index(p.stem) if p.stem in AREAS else len(AREAS), p.stem))
    found = {}
    for path in paths:
        if path.stem not in ("operand", "operators"):
            found[path.stem] = declarations(path)
    return found


def split_example(line):
    """(code, what it prints), the latter None for a statement."""
    code, found, expected = line.partition("   // ")
    if not found:
        code, found, expected = line.partition("  // ")
    return code.strip(), expected.strip() if found else None


def without_examples(functions):
    """Names none of whose declarations has an example."""
    names = {}
    for function in functions:
        names[function.name] = names.get(function.name, False) or bool(function.examples)
    return [name for name, there in names.items() if not there]


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def generate(folder):
    folder.mkdir(parents=True, exist_ok=True)
    areas = all_functions()
    for area, functions in areas.items():
        body = ['#include "doc_examples.h"', "", "namespace heddle {", f"void examples_{area}() {{"]
        for function in functions:
            if not function.examples:
                continue
            body.append("  {")
            for line in function.examples:
                code, expected = split_example(line)
                if expected is None:
                    body.append(f"    {code}")
                    continue
                call = code.removesuffix(".shape()")
                if call != code:  # the shape alone would compute nothing
                    body.append(f"    count_launches({quoted(function.name)}, [&] {{ return {call}; }});")
                body.append(f"    example({quoted(function.name)}, {quoted(code)}, {quoted(expected)}, [&] {{ return {code}; }});")
            body.append("  }")
        body += ["}", "}  // namespace heddle"]
        write_if_changed(folder / f"{area}.cpp", "\n".join(body) + "\n")
    main = ['#include "doc_examples.h"', ""]
    main += [f"namespace heddle {{ void examples_{area}(); }}" for area in areas]
    main += ["", "int main(int count, char** arguments) {"]
    main += [f"  heddle::examples_{area}();" for area in areas]
    main += ["  return finish(count > 1 ? arguments[1] : nullptr);", "}"]
    write_if_changed(folder / "main.cpp", "\n".join(main) + "\n")


def write_if_changed(path, text):
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def table_text(launches):
    counts, gradients = {}, {}
    for line in Path(launches).read_text().splitlines():
        name, count, gradient = line.split("\t")
        counts.setdefault(name, count)
        gradients.setdefault(name, gradient)
    for area in MOVING:
        for function in all_functions()[area]:
            gradients[function.name] = gradients.get(function.name) or "yes"
    gradients |= {name: "no" for name in CONSTANT}
    out = [
        "# Operators",
        "",
        "Made by `scripts/doc_examples.py` from the headers of `include/heddle/ops/` and from `nn/loss.h`, `grad.h`, `vmap.h` and `control.h`, which say more and give an example of each; do not edit. Kernels: launches for one call on realised operands, as the example makes it. Gradient: whether one flows back to floats among the operands; empty where the example has none.",
    ]
    for area, functions in all_functions().items():
        out += ["", f"## {area}", "", "| operator | dtypes | shape | gradient | kernels |", "|---|---|---|---|---|"]
        for f in functions:
            signature = f.signature.replace("|", "\\|")
            out.append(f"| `{signature}` | {f.dtypes} | {f.shape} | {gradients.get(f.name, '')} | {counts.get(f.name, '')} |")
    return "\n".join(out) + "\n"


def main():
    command = sys.argv[1] if len(sys.argv) == 3 else ""
    if command == "generate":
        generate(Path(sys.argv[2]))
    elif command == "table":
        TABLE.write_text(table_text(sys.argv[2]), encoding="utf-8")
    elif command == "check":
        missing = [name for functions in all_functions().values() for name in without_examples(functions)]
        if missing:
            sys.exit("no example in the comment of " + ", ".join(missing))
        if not TABLE.exists() or TABLE.read_text(encoding="utf-8") != table_text(sys.argv[2]):
            sys.exit("docs/operators.md does not match the headers: run make docs")
        print("operators: the table is up to date")
    else:
        sys.exit(__doc__)


main()
