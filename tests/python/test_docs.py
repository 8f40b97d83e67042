"""The programs of docs/python.md, of docs/kernels.md and of the tutorial run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIAL = sorted((DOCS / "site/tutorial").glob("*.md"))


def programs_of(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)


def test_programs_run(capsys):
    programs = programs_of("python.md")
    assert len(programs) == 4
    names = {}
    for program in programs:
        exec(program, names)
    assert names["per_example"]["w"].shape == (8, 3) and names["b"].tolist() == [[-1, 1, -1], [-1, 4, -1]]
    assert "tensor(" in capsys.readouterr().out


def test_kernels_compute_what_operators_do():
    import heddle as hd

    names = {}
    for program in programs_of("kernels.md"):
        exec(program, names)
    close = lambda a, b: hd.abs(a - b).max().item() < 1e-4
    x, y = hd.randn(10000), hd.randn(10000)
    assert close(names["add"](x, y), x + y)
    a, b, bias = hd.randn(70, 50), hd.randn(50, 40), hd.randn(40)
    assert close(names["matmul"](a, b, bias), hd.relu(a @ b + bias))
    q, k, v = hd.randn(2, 40, 16), hd.randn(2, 200, 16), hd.randn(2, 200, 16)
    assert close(names["attention"](q, k, v), hd.softmax(q @ k.transpose(1, 2) / 4, -1) @ v)
    assert names["slope"].shape == (4, 10)


@pytest.mark.parametrize("page", TUTORIAL, ids=lambda page: page.stem)
def test_tutorial_runs(page, capsys):
    programs = programs_of(page)
    assert len(programs) >= 4 and len(TUTORIAL) == 5
    names = {}
    for program in programs:
        exec(compile(program, page.name, "exec"), names)
    if page.stem.startswith("4"):
        assert names["right"].item() > 0.5
    if page.stem.startswith("5"):
        assert names["losses"][-1] < 0.8 * names["losses"][0]
        assert "5-jit.md:3" in capsys.readouterr().out  # the error names the line that looks
