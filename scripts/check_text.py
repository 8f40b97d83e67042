#!/usr/bin/env python3
"""Checks what the formatter does not: length of files, white space, and notes about unfinished work."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["include", "src", "python", "tests", "tools", "bench", "examples", "scripts", "cmake", "docs", ".ci"]
SOURCE = {".h", ".cpp", ".def", ".py", ".cmake", ".txt", ".json", ".md", ""}
LIMIT = 600
# Spelled so that this file does not find itself.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


def main():
    allowed = {line.strip() for line in (ROOT / "scripts/long_files.txt").read_text().splitlines()}
    allowed = {line for line in allowed if line and not line.startswith("#")}
    problems = [f"scripts/long_files.txt: there is no {name}" for name in sorted(allowed) if not (ROOT / name).is_file()]

    files = [p for p in ROOT.iterdir() if p.is_file() and not p.name.startswith(".")]
    for folder in FOLDERS:
        files += [p for p in (ROOT / folder).rglob("*") if p.is_file() and not {"__pycache__", ".venv"} & set(p.parts)]
    count = 0
    for path in sorted(files):
        if path.suffix not in SOURCE:
            continue
        count += 1
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        if len(lines) > LIMIT and name not in allowed:
            problems.append(f"{name}: {len(lines)} lines; split it, or list it in scripts/long_files.txt (limit {LIMIT})")
        if text and not text.endswith("\n"):
            problems.append(f"{name}:{len(lines)}: no newline at the end")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                problems.append(f"{name}:{number}: white space at the end of the line")
            if "\t" in line and path.name != "Makefile":
                problems.append(f"{name}:{number}: a tab")
            if UNFINISHED.search(line):
                problems.append(f"{name}:{number}: unfinished work belongs in the issue tracker")

    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems in {count} files")
    print(f"text: {count} files are clean")


main()
