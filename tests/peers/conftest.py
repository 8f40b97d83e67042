"""Comparisons with other libraries: `make test-peers`. Nothing is skipped here: what would be is a failure."""

import os

# AMX instructions of this library stop some virtual machines that say they have them.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# The same examples at each run. A first example compiles kernels, which takes long.
settings.register_profile("peers", derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("peers")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"skipped: {report.longrepr}"


@pytest.fixture(autouse=True)
def seeded():
    import heddle as hd
    import torch

    hd.manual_seed(0)
    torch.manual_seed(0)
