#!/usr/bin/env python3
"""The documentation site, and the notebooks.

    site.py notebooks    runs examples/notebooks; build/site/notebooks has them with their results
    site.py site         the same, draws the gallery, and writes build/site/html; warnings are errors

Both need the Python package in build/dev/python, and make build/site-venv with what scripts/site_requirements.txt lists.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/site"
VENV = ROOT / "build/site-venv"
SOURCE = BUILD / "source"
NOTEBOOKS = BUILD / "notebooks"
REQUIREMENTS = ROOT / "scripts/site_requirements.txt"
EXAMPLES = ["mandelbrot", "heat", "fit_curve", "digits", "pendulum"]


def environment():
    """With the package, and without what another one may have set."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "build/dev/python"), "PATH": f"{VENV}/bin:{os.environ['PATH']}"}


def run(*command, **settings):
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment(), **settings)


def make_environment():
    wanted, installed = REQUIREMENTS.read_bytes(), VENV / "installed.txt"
    if installed.exists() and installed.read_bytes() == wanted:
        return
    python = ROOT / "build/venv/bin/python"  # the one that the package was built for
    subprocess.run([python, "-m", "venv", VENV], check=True)
    run(VENV / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS)
    installed.write_bytes(wanted)


RUN_NOTEBOOK = """
import sys, nbformat
from nbclient import NotebookClient
from traitlets.config import Config
book = nbformat.read(sys.argv[1], as_version=4)
settings = Config({"KernelManager": {"transport": "ipc"}})
NotebookClient(book, timeout=300, kernel_name="python3", config=settings).execute()
nbformat.write(book, sys.argv[2])
"""


def notebooks():
    NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "examples/notebooks").glob("*.ipynb")):
        print("notebook", path.name, flush=True)
        run(VENV / "bin/python", "-c", RUN_NOTEBOOK, path, NOTEBOOKS / path.name)


def without_outside_links(text):
    """Links to files outside of docs/ are their names: the site does not hold them."""
    return re.sub(r"\[([^\]]*)\]\((?:\.\./)+([^)#]*)[^)]*\)", r"\1 (`\2`)", text)


def gallery():
    folder = SOURCE / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    page = ["# Gallery", "", "Each picture is drawn by the program below it, when this site is made.", ""]
    for name in EXAMPLES:
        program = ROOT / f"examples/python/{name}.py"
        title, _, about = re.match(r'"""(.*?)"""', program.read_text(), re.S).group(1).partition("\n\n")
        print("gallery", name, flush=True)
        run(VENV / "bin/python", program, folder / f"{name}.png")
        shutil.copy(program, folder)
        code = [":::{dropdown} The program", f"```{{literalinclude}} gallery/{name}.py", ":language: python", "```", ":::"]
        page += [f"## {title}", "", about.strip(), "", f"![{title}](gallery/{name}.png)", "", *code, ""]
    (SOURCE / "gallery.md").write_text("\n".join(page))


def pages():
    for path in (ROOT / "docs").glob("*.md"):
        if path.name != "README.md":
            (SOURCE / path.name).write_text(without_outside_links(path.read_text()))
    changelog = (ROOT / "CHANGELOG.md").read_text()
    (SOURCE / "changelog.md").write_text(without_outside_links(re.sub(r"\]\(docs/", "](", changelog)))
    for path in (ROOT / "docs/site").rglob("*"):
        if path.is_file():
            target = SOURCE / path.relative_to(ROOT / "docs/site")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def site():
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    notebooks()
    shutil.copytree(NOTEBOOKS, SOURCE / "notebooks")
    gallery()
    pages()
    run(VENV / "bin/python", ROOT / "scripts/site_api.py", SOURCE / "api")
    run(VENV / "bin/sphinx-build", "-W", "--keep-going", "-q", "-j", "2", "-b", "html", SOURCE, BUILD / "html")
    print(f"the site is in {BUILD / 'html'}")


def main():
    make_environment()
    {"site": site, "notebooks": notebooks}[sys.argv[1]]()


main()
