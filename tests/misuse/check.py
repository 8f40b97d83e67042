"""Compiles a program that is wrong, and looks for the sentence that its first line asks for."""

import subprocess
import sys

compiler, include, program = sys.argv[1:]
with open(program, encoding="utf-8") as file:
    wanted = file.readline().removeprefix("// error: ").strip()
done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I", include, program], capture_output=True, text=True)
errors = [line for line in done.stderr.splitlines() if "error:" in line]
if done.returncode == 0:
    sys.exit(f"{program} compiles")
if not errors or wanted not in errors[0]:
    sys.exit(f"the first error does not say \"{wanted}\":\n{done.stderr[:3000]}")
if len(errors) > 2:
    sys.exit(f"{len(errors)} errors where one is enough:\n" + "\n".join(errors[:20]))
