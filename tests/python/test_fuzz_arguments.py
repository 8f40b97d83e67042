"""A few seconds of the fuzzer of arguments."""

import fuzz_arguments


def test_odd_arguments_raise_what_is_documented():
    problems, count = fuzz_arguments.fuzz(begin=0, seconds=8)
    assert not problems, "\n".join(problems)
    assert count > 100
