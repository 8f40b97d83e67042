#!/usr/bin/env python3
"""What Python's functions say about themselves, as a Python file: python_docs.py OUTPUT.

Words and examples are those of the public headers, the examples translated:

    // Python's x[begin:end:step] along one axis.
    //   reshape(arange(6), {2, -1})   // [[0 1 2] [3 4 5]]
    Tensor reshape(const Tensor& x, const Dims& shape);

    >>> print(hd.reshape(hd.arange(6), (2, -1)))
    [[0 1 2] [3 4 5]]

src/python/docs.txt has the rest: `name` at the begin of a line, then its text and examples further to the right. What it
gives takes the place of what the header has: text for text, examples for examples. `name = other` is a function that
has another name in the headers. The doctests of the package run all of it.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADERS = [*sorted((ROOT / "include/heddle/ops").glob("*.h")), ROOT / "include/heddle/nn/loss.h"]
OWN = ROOT / "src/python/docs.txt"

FUNCTION = re.compile(r"^(?:[\w:<>, ]+?) (\w+)\(")
TOKEN = re.compile(r'\s*("[^"]*"|[A-Za-z_]\w*(?:::\w+)*|\d[\d.]*(?:[eE][-+]?\d+)?|.)')
WORDS = {"true": "True", "false": "False", "INFINITY": "hd.inf", "NAN": "hd.nan"}
DTYPES = {"kBool": "bool", "kF8E4M3": "float8_e4m3", "kF8E5M2": "float8_e5m2", "kBF16": "bfloat16"}
SETTINGS = {"causal": "is_causal"}
MEMBERS = {"first": "[0]", "second": "[1]"}


def header_docs(text):
    """For each function (its name, its comment's text, its examples)."""
    comment = []
    for line in text.splitlines():
        if line.startswith("//"):
            comment.append(line[2:])
            continue
        match = FUNCTION.match(line)
        if match:
            words = [part.strip() for part in comment if not part.startswith("   ") and not part.startswith(" @")]
            yield match.group(1), " ".join(words), [part.strip() for part in comment if part.startswith("   ")]
        if not line.startswith("template") and not line.startswith("  requires"):
            comment = []


class Untranslated(Exception):
    pass


class Translator:
    """C++ expressions of examples as Python's: a recursive descent over tokens."""

    def __init__(self, code, names):
        self.tokens = [t for t in TOKEN.findall(code) if t.strip()]
        self.at, self.names = 0, set(names)

    def peek(self, ahead=0):
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def next(self, wanted=None):
        token = self.peek()
        if wanted and token != wanted:
            raise Untranslated(f"{wanted} expected, not {token}")
        self.at += 1
        return token

    def expression(self, until, numbers=False):
        """Up to one of the tokens. numbers: whole ones are written as floats."""
        out = []
        while self.peek() not in until:
            token = self.next()
            if not token:
                raise Untranslated("unfinished")
            if token == "[" and (not out or out[-1].endswith("(")):
                out.append(self.function())
            elif token == "{":
                out.append(self.braces(numbers))
            elif token == "(":
                out.append("(" + self.expression([")"]) + ")")
                self.next(")")
            elif token == ".":
                name = self.next()
                if name == "shape" and self.peek() == "(":
                    self.next("("), self.next(")")
                    out.append(".shape")
                elif name in MEMBERS:
                    out.append(MEMBERS[name])
                else:
                    out.append("." + name + self.call(name) if self.peek() == "(" else "." + name)
            elif re.match(r"[A-Za-z_]", token):
                out.append(self.word(token))
            elif numbers and token.isdigit():
                out.append(token + ".")
            else:
                out.append(f" {token} " if token in "+*/<>=" or (token == "-" and out and out[-1][-1:] not in "([, ") else token)
        return "".join(out).replace("  ", " ")

    def word(self, token):
        if token in WORDS:
            return WORDS[token]
        if token in DTYPES or re.fullmatch(r"k[IUF]\d+", token):
            kind = {"I": "int", "U": "uint", "F": "float"}
            return "hd." + (DTYPES.get(token) or kind[token[1]] + token[2:])
        if token.startswith(("PadMode::", "Reduction::")):
            return f'"{token.split("::")[1].lower()}"'
        if token == "TensorList" or token == "std::pair":
            self.next()
            inside = self.arguments("}" if token == "TensorList" else ")", False)
            return f"[{', '.join(inside)}]" if token == "TensorList" else f"({', '.join(inside)})"
        if "::" in token:
            raise Untranslated(token)
        if self.peek() == "(":
            return ("" if token in self.names else "hd.") + token + self.call(token)
        return token

    def call(self, name):
        self.next("(")
        given = self.arguments(")", name == "tensor" and not self.has_dtype())
        if name == "tensor" and given[-1:] == ["hd.int64"]:
            given.pop()  # integers are
        if name == "tensor" and len(given) == 2:
            given[1] = "dtype=" + given[1]
        while given and given[-1] == "None":
            given.pop()
        return f"({', '.join(given)})"

    def has_dtype(self):
        depth, last = 1, ""
        for token in self.tokens[self.at :]:
            depth += (token in "({") - (token in ")}")
            if depth == 0:
                break
            last = token
        return bool(re.fullmatch(r"k[A-Z]\w+", last))

    def arguments(self, end, numbers):
        given = []
        while self.peek() != end:
            if self.peek() == "{" and self.peek(1) == ".":
                self.next()
                while self.peek() != "}":
                    self.next(".")
                    name = self.next()
                    self.next("=")
                    given.append(f"{SETTINGS.get(name, name)}={self.expression([',', '}'])}")
                    if self.peek() == ",":
                        self.next()
                self.next("}")
            elif self.peek() == "{" and self.peek(1) == "}":
                self.next(), self.next()
                given.append("None")
            else:
                given.append(self.expression([",", end], numbers))
            if self.peek() == ",":
                self.next()
        self.next(end)
        return given

    def braces(self, numbers):
        inside = self.arguments("}", numbers)
        if numbers or any(not re.fullmatch(r"-?\d+", each) for each in inside):
            return f"[{', '.join(inside)}]"
        return f"({', '.join(inside)}{',' if len(inside) == 1 else ''})"

    def function(self):
        while self.next() != "]":
            pass
        self.next("(")
        names, words = [], []
        while self.peek() != ")":
            token = self.next()
            words = [] if token == "," else words + [token]
            if self.peek() in (",", ")"):
                names.append(words[-1])
        self.next(")"), self.next("{"), self.next("return")
        before, self.names = self.names, self.names | set(names)
        body = self.expression([";"])
        self.next(";"), self.next("}")
        self.names = before
        return f"lambda {', '.join(names)}: {body}"


def translated(examples):
    """Examples of a header as lines of a doctest."""
    lines, names = [], []
    for example in examples:
        code, found, expected = example.partition("   // ")
        if not found:
            code, found, expected = example.partition("  // ")
        code, expected = code.strip(), expected.strip()
        if ".device" in code or "<" in code.replace(" < ", ""):
            continue
        statement = re.fullmatch(r"(?:Tensor|auto) (\w+) = (.*);", code)
        if statement:
            names.append(statement.group(1))
            code = statement.group(2)
        python = Translator(code.rstrip(";"), names).expression([""])
        if statement:
            lines.append(f">>> {names[-1]} = {python}")
        elif not found:
            lines.append(f">>> _ = {python}")
        elif expected in ("true", "false"):
            lines += [f">>> {python}", expected.title()]
        elif python.endswith(".shape"):
            sizes = expected.strip("[]")
            lines += [f">>> {python}", f"({sizes}{'' if ',' in sizes else ','})"]
        elif re.search(r"\], \[", expected):
            lines += [f'>>> print(*{python}, sep=", ")', expected]
        else:
            lines += [f">>> print({python})", expected]
    return lines


def own_docs():
    """What docs.txt says: name -> (text, examples), and name -> its name in the headers."""
    found, same, name = {}, {}, None
    for line in OWN.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if not line.startswith(" "):
            name, _, other = line.partition(" = ")
            if other:
                same[name] = other
            found[name] = ([], [])
            continue
        text, examples = found[name]
        (examples if examples or line.strip().startswith(">>>") else text).append(line.strip() if not examples else line[4:])
    return {name: (" ".join(text), examples) for name, (text, examples) in found.items()}, same


def wrapped(text, width=100):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line += (" " if line else "") + word
    return [*lines, line] if line else lines


def all_docs():
    texts, examples = {}, {}
    for header in HEADERS:
        for name, text, lines in header_docs(header.read_text(encoding="utf-8")):
            if text:
                texts.setdefault(name, text)
            try:
                examples[name] = examples.get(name, []) + translated(lines)
            except Untranslated:
                pass
    own, same = own_docs()
    result = {}
    for name in sorted({*texts, *examples, *own}):
        known = same.get(name, name)
        text, lines = own.get(name, ("", []))
        text, lines = text or texts.get(known, ""), lines or examples.get(known, [])
        result[name] = "\n".join([*wrapped(text), *([""] if text and lines else []), *lines])
    return result


def main():
    rows = [f"    {name!r}: {text!r},\n" for name, text in all_docs().items() if text]
    text = '"""Made by scripts/python_docs.py: what functions say about themselves."""\n\nTEXTS = {\n' + "".join(rows) + "}\n"
    Path(sys.argv[1]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
