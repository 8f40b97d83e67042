#!/usr/bin/env python3
"""Builds wheels of the Python package into out/, with LLVM inside, and tests them.

Python 3.11 has a wheel of its own; one of the stable ABI is for 3.12 and all later versions. Each is built with the
first such interpreter that is found, and tested with all of them: installed into a fresh environment, without NumPy at
first, and used from a folder outside of the checkout. An interpreter is python3.N on the path or one of pyenv's.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD, OUT = ROOT / "build" / "wheel", ROOT / "out"
MOST_BYTES = 40_000_000
LICENCES = {"LICENSE", "llvm", "apache-2.0", "sqlite", "zlib", "zstd", "nanobind", "robin_map", "cli11", "nlohmann_json"}
# What any Linux of that age has; everything else must be inside.
SYSTEM = re.compile(r"lib(stdc\+\+|gcc_s|c|m|dl|pthread|rt)\.so|ld-linux-x86-64\.so|libheddle\.so")
TESTS = ["conftest.py", "test_import.py", "test_tensor.py", "test_jit.py", "test_nn.py", "test_interrupt.py"]

SMOKE = """
import sys, heddle as hd
assert "numpy" not in sys.modules and "site-packages" in hd.__file__, hd.__file__
x = hd.tensor([[1.0, 2.0], [3.0, 4.0]])
assert (x @ x).tolist() == [[7, 10], [15, 22]]
net = hd.nn.Linear(2, 1)
opt = hd.optim.AdamW(net.parameters(), lr=1e-2)
@hd.jit
def step(x):
    loss = (net(x) ** 2).mean()
    opt.step(hd.grad(loss, net.parameters()))
    return loss
losses = [step(x).item() for _ in range(5)]
assert losses[-1] < losses[0], losses
"""


def run(*command, **options):
    print("+", *command, flush=True)
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def output(*command, **options):
    return run(*command, stdout=subprocess.PIPE, **options).stdout


def interpreters():
    """The newest of each version from 3.11 on, by its number."""
    found = {}
    candidates = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates += [str(path) for path in pyenv.glob("3.*/bin/python")]
    ask = "import sys, sysconfig; v = sys.version_info; print(v[0], v[1], v[2], sysconfig.get_config_var('Py_GIL_DISABLED') or 0)"
    for candidate in filter(None, candidates):
        done = subprocess.run([candidate, "-c", ask], capture_output=True, text=True)
        if done.returncode != 0:
            continue  # a shim of a version that is not chosen
        major, minor, patch, free = map(int, done.stdout.split())
        if major == 3 and minor >= 11 and not free:
            found[minor] = max(found.get(minor, (-1, "")), (patch, candidate))
    return {minor: path for minor, (_, path) in sorted(found.items())}


def environment(path, python, *requirements):
    if not (path / "bin" / "python").exists():
        run(python, "-m", "venv", path)
    if requirements:
        run(path / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return path / "bin" / "python"


def build(minor, python):
    """A wheel as the linker left it."""
    run(ROOT / "scripts" / "python_env", cwd=ROOT)
    shared = ROOT / "build" / "venv" / "bin" / "python"  # its bindings may be in the compiler's cache
    same = output(shared, "-c", "import sys; print(sys.version_info[1])").strip() == str(minor)
    folder = shared.parent.parent if same else BUILD / f"venv-3.{minor}"
    tools = environment(folder, python, "-r", ROOT / "scripts" / "wheel_requirements.txt")
    raw = BUILD / f"raw-3.{minor}"
    shutil.rmtree(raw, ignore_errors=True)
    run(tools, "-m", "pip", "wheel", ROOT, "--no-build-isolation", "--no-deps", "--wheel-dir", raw, "--verbose",
        "-Ccmake.define.HEDDLE_STATIC_LLVM=ON", "-Ccmake.define.HEDDLE_WERROR=ON", "-Cinstall.strip=true",
        env={"CXX": "c++", **os.environ})  # as CMake calls it otherwise: the compiler's cache tells names apart
    [wheel] = raw.glob("*.whl")
    run(tools, "-m", "auditwheel", "show", wheel)
    repaired = BUILD / f"repaired-3.{minor}"
    shutil.rmtree(repaired, ignore_errors=True)
    path = f"{tools.parent}{os.pathsep}{os.environ['PATH']}"
    run(tools, "-m", "auditwheel", "repair", "--wheel-dir", repaired, wheel, env={**os.environ, "PATH": path})
    [wheel] = repaired.glob("*.whl")
    return wheel


def check(wheel):
    """What a wheel must have, and must not."""
    problems = []
    if wheel.stat().st_size > MOST_BYTES:
        problems.append(f"{wheel.stat().st_size} bytes are more than {MOST_BYTES}")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        licences = {Path(name).name.removesuffix(".txt") for name in names if ".dist-info/licenses/" in name}
        if LICENCES - licences:
            problems.append(f"no licence of {', '.join(sorted(LICENCES - licences))}")
        if any(".libs/" in name for name in names):
            problems.append("it carries libraries whose licences nobody looks after: " + ", ".join(names))
        archive.extractall(folder)
        programs = [path for path in Path(folder).rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
        for program in programs:
            dynamic = output("readelf", "--dynamic", "--wide", program)
            for needed in re.findall(r"NEEDED.*\[(.*)\]", dynamic):
                if not SYSTEM.match(needed):
                    problems.append(f"{program.name} needs {needed}")
            symbols = output("readelf", "--dyn-syms", "--wide", program)
            shown = [line for line in symbols.splitlines() if re.search(r"(GLOBAL|WEAK|UNIQUE) +DEFAULT +\d+ ", line)]
            foreign = [line.split()[-1] for line in shown if re.search(r" (_ZN?K?4llvm|LLVM|sqlite3_|ZSTD_|inflate|deflate)", line)]
            if program.name != "heddle" and foreign:
                problems.append(f"{program.name} shows symbols of others: {', '.join(foreign[:5])}")
    for problem in problems:
        print(f"wheel: {wheel.name}: {problem}", file=sys.stderr)
    return not problems


def test(wheel, minor, python):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        tools = environment(folder / "venv", python)
        run(tools, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", wheel, cwd=folder)
        run(tools, "-c", SMOKE, cwd=folder, env=clean)
        said = output(folder / "venv" / "bin" / "heddle", "--version", cwd=folder, env=clean)
        if not re.fullmatch(r"heddle \d+\.\d+\.\d+, commit .*\n", said):
            sys.exit(f"wheel: `heddle --version` says {said!r}")
        wanted = (ROOT / "scripts" / "python_requirements.txt").read_text().split()
        run(tools, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            *[word for word in wanted if re.match(r"(numpy|pytest)==", word)], cwd=folder)
        (folder / "tests").mkdir()
        for file in TESTS:
            shutil.copy(ROOT / "tests" / "python" / file, folder / "tests" / file)
        run(tools, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=folder, env=clean)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--test-only", action="store_true", help="test what is in out/ already")
    arguments = parser.parse_args()
    found = interpreters()
    if not found:
        sys.exit("wheel: there is no Python 3.11 or later")
    families = [[minor for minor in found if minor == 11], [minor for minor in found if minor >= 12]]
    OUT.mkdir(exist_ok=True)
    good, made = True, []
    for minors in filter(None, families):
        tag = "cp311-cp311" if minors == [11] else "cp312-abi3"
        if not arguments.test_only:
            wheel = build(minors[0], found[minors[0]])
            if f"-{tag}-" not in wheel.name:
                sys.exit(f"wheel: {wheel.name} is not for {tag}")
            for old in OUT.glob(f"heddle-*-{tag}-*.whl"):
                old.unlink()
            shutil.copy(wheel, OUT)
        [wheel] = OUT.glob(f"heddle-*-{tag}-*.whl")
        good = check(wheel) and good
        for minor in minors:
            test(wheel, minor, found[minor])
        made.append(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB, tested with "
                    + ", ".join(f"3.{minor}" for minor in minors))
    print(*made, sep="\n")
    for tag, minors in zip(("3.11", "3.12 and later"), families):
        if not minors:
            print(f"no wheel for Python {tag}: there is no such interpreter here")
    sys.exit(not good)


if __name__ == "__main__":
    main()
