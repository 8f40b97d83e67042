"""Everything public says what it does, and its examples run and print what they say."""

import doctest
import math
import os
import re
import types

import numpy as np
import pytest

import heddle as hd

MODULES = [hd, hd.nn, hd.nn.init, hd.nn.functional, hd.optim, hd.optim.lr_scheduler, hd.data, hd.utils.data, hd.io]
MODULES += [hd.plot, hd.random, hd.models, hd.cuda]
NUMBER = re.compile(r"(?<![\w.])-?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)", re.I)


def own_words(thing):
    """What it says besides its signature."""
    text = thing.__doc__ or ""
    if type(thing).__module__ in ("heddle", "nanobind"):  # they begin with their signatures
        return text.partition("\n\n")[2]
    return text


def public():
    """(name, thing, whether an example is wanted), each thing once."""
    seen = set()
    for module in MODULES:
        for name in sorted(dir(module)):
            thing = getattr(module, name)
            ours = getattr(thing, "__module__", "").split(".")[0] == "heddle"
            if name.startswith("_") or isinstance(thing, types.ModuleType) or not callable(thing) or not ours:
                continue
            if id(thing) in seen:
                continue
            seen.add(id(thing))
            error = isinstance(thing, type) and issubclass(thing, BaseException)
            yield f"{module.__name__}.{name}", thing, not error
            for member, method in sorted(vars(thing).items()) if isinstance(thing, type) else ():
                inherits = any(member in vars(base) for base in thing.__mro__[1:])
                describable = callable(method) or isinstance(method, property)
                if member.startswith("_") or not describable or id(method) in seen or (inherits and not own_words(method)):
                    continue
                seen.add(id(method))
                table = type(method).__name__ == "method" and type(method).__module__ == "heddle"
                yield f"{module.__name__}.{name}.{member}", method, table


THINGS = list(public())


class Checker(doctest.OutputChecker):
    """Numbers may differ in the last digits of f32, because machines with and without fused multiply-add do."""

    def check_output(self, want, got, flags):
        if super().check_output(want, got, flags):
            return True
        a, b = NUMBER.findall(want), NUMBER.findall(got)
        same = len(a) == len(b) and all(math.isclose(float(x), float(y), rel_tol=1e-6) for x, y in zip(a, b))
        return same and self.rest_of(want) == self.rest_of(got)

    @staticmethod
    def rest_of(text):
        return re.sub(r"\s", "", NUMBER.sub("0", text))


def test_everything_has_words_and_functions_and_classes_an_example():
    assert len(THINGS) > 500
    assert [name for name, thing, _ in THINGS if not own_words(thing).strip()] == []
    assert [name for name, thing, wanted in THINGS if wanted and ">>>" not in own_words(thing)] == []


@pytest.mark.parametrize("module", ["functions", "classes"])
def test_examples_run(module, capsys, tmp_path, monkeypatch):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    runner = doctest.DocTestRunner(Checker(), verbose=False, optionflags=flags)
    parser, failures, ran = doctest.DocTestParser(), [], 0
    monkeypatch.setenv("TMPDIR", os.fspath(tmp_path))
    texts = set()
    for name, thing, _ in THINGS:
        text = own_words(thing)
        if isinstance(thing, type) != (module == "classes") or text in texts:
            continue
        texts.add(text)
        test = parser.get_doctest(text, {"hd": hd, "np": np}, name, None, 0)
        if runner.run(test, out=failures.append, clear_globs=False).failed:
            failures.append(name)
        ran += len(test.examples)
    assert not failures, "\n".join(failures)
    assert ran > 100


def test_checker_compares_numbers():
    flags = doctest.NORMALIZE_WHITESPACE
    assert Checker().check_output("[0.26894143 0.8807971 ]\n", "[0.2689414  0.88079715]\n", flags)
    assert Checker().check_output("[0. 1.5574077]\n", "[0.        1.5574079]\n", flags)
    assert not Checker().check_output("[0. 1.5574077]\n", "[0.        1.5575079]\n", flags)
    assert not Checker().check_output("[0. 1.5]\n", "(0. 1.5)\n", flags)
