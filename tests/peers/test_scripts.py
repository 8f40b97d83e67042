"""PyTorch programs, and the same with `import heddle as torch`: the losses agree, and so does what changed in them."""

import re
import sys
import types
from pathlib import Path

import heddle as hd
import numpy as np
import pytest
import torch

SCRIPTS = Path(__file__).parent / "scripts"
PAGE = Path(__file__).parents[2] / "docs/coming-from-pytorch.md"

# Besides the imports.
CHANGES = {
    "digits_perceptron": {"_, guess = torch.max(model(x), 1)": "guess = torch.argmax(model(x), 1)"},
    "convnet": {},
    "char_gpt": {},
}


def translated(name):
    """The program with Heddle's imports and the changes above."""
    changes = dict(CHANGES[name])
    lines = (SCRIPTS / f"{name}.py").read_text().splitlines()
    for i, line in enumerate(lines):
        if re.match(r"(import|from) torch\b", line):
            lines[i] = re.sub(r"^import torch$", "import heddle as torch", line)
            lines[i] = re.sub(r"^(import|from) torch\b", r"\1 heddle", lines[i])
        elif line.strip() in changes:
            lines[i] = line.replace(line.strip(), changes.pop(line.strip()))
    assert not changes, f"{name}.py does not have these lines: {changes}"
    return "\n".join(lines) + "\n"


def module_of(name, text):
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(text, f"{name}.py", "exec"), module.__dict__)
    return module


def both(name):
    original = module_of(f"{name}_torch", (SCRIPTS / f"{name}.py").read_text())
    return original, module_of(f"{name}_heddle", translated(name))


def with_its_values(model, source):
    """The module with the other library's first values, by their names."""
    missing, unexpected = model.load_state_dict({key: value.numpy() for key, value in source.state_dict().items()})
    assert not missing and not unexpected
    return model


def assert_same_values(model, source):
    ours = model.state_dict()
    theirs = source.state_dict()
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        np.testing.assert_allclose(ours[key].numpy(), value.numpy(), rtol=2e-3, atol=2e-4, err_msg=key)


def test_a_perceptron_on_digits():
    original, ours = both("digits_perceptron")
    source = original.Perceptron()
    model = with_its_values(ours.Perceptron(), source)
    expected = original.train(source, original.digits()[0], shuffle=False)
    losses = ours.train(model, ours.digits()[0], shuffle=False)
    np.testing.assert_allclose(losses, expected, rtol=1e-3)
    assert_same_values(model, source)
    assert ours.accuracy(model, ours.digits()[1]) == pytest.approx(
        original.accuracy(source, original.digits()[1]), abs=0.01
    )


def test_a_convnet():
    original, ours = both("convnet")
    source = original.ConvNet()
    model = with_its_values(ours.ConvNet(), source)
    for each in (source, model):
        each.dropout.p = 0.0  # which elements are dropped is each library's own
    expected = original.train(source, original.Shapes(256), shuffle=False)
    losses = ours.train(model, ours.Shapes(256), shuffle=False)
    np.testing.assert_allclose(losses, expected, rtol=5e-3)
    assert_same_values(model, source)


def test_a_gpt_of_characters():
    original, ours = both("char_gpt")
    config = {"vocab_size": 24, "block_size": 16}
    source = original.GPT(original.Config(**config))
    model = with_its_values(ours.GPT(ours.Config(**config)), source)
    text = np.random.default_rng(0).integers(0, 24, (10, 2, 8, 16))
    expected = original.train(source, [(torch.tensor(x), torch.tensor(y)) for x, y in text])
    losses = ours.train(model, [(hd.tensor(x), hd.tensor(y)) for x, y in text])
    np.testing.assert_allclose(losses, expected, rtol=1e-3)


@pytest.mark.parametrize("name", CHANGES)
def test_each_program_runs_to_its_end(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    module_of(f"{name}_whole", translated(name)).main()
    printed = capsys.readouterr().out
    if name == "char_gpt":
        first, last = re.search(r"loss (\S+) to (\S+)", printed).groups()
        assert float(last) < 0.6 * float(first)
    else:
        assert float(re.search(r"accuracy (\S+)", printed).group(1)) > 0.85


def test_the_page_lists_the_lines_that_change():
    page = PAGE.read_text()
    for changes in CHANGES.values():
        for old, new in changes.items():
            assert old in page and new in page
