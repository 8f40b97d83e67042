"""The programs of docs/python.md run."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/python.md"


def test_programs_run(capsys):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(programs) == 4
    names = {}
    for program in programs:
        exec(program, names)
    assert names["per_example"]["w"].shape == (8, 3) and names["b"].tolist() == [[-1, 1, -1], [-1, 4, -1]]
    assert "tensor(" in capsys.readouterr().out
