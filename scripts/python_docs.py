#!/usr/bin/env python3
"""What the public headers say about each operator, as a table for the Python package: python_docs.py OUTPUT."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUNCTION = re.compile(r"^(?:[\w:<>, ]+?) (\w+)\(")


def docs(text):
    """Names and comments; examples are in C++ and left out."""
    lines, found = [], {}
    for line in text.splitlines():
        if line.startswith("//"):
            lines.append(line[2:])
            continue
        match = FUNCTION.match(line)
        if match:
            words = [part.strip() for part in lines if not part.startswith("   ") and not part.startswith(" @")]
            if words:
                found.setdefault(match.group(1), " ".join(words))
        lines = []
    return found


def main():
    found = {}
    headers = sorted((ROOT / "include/heddle/ops").glob("*.h")) + [ROOT / "include/heddle/nn/loss.h"]
    for header in headers:
        for name, text in docs(header.read_text(encoding="utf-8")).items():
            found.setdefault(name, text)
    rows = []
    for name, text in sorted(found.items()):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        rows.append(f'{{"{name}", "{quoted}"}},\n')
    Path(sys.argv[1]).write_text("".join(rows), encoding="utf-8")


main()
