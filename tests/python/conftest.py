import numpy as np
import pytest

import heddle as hd


# The tests also run on a GPU: `HEDDLE_DEVICE=cuda pytest tests/python`.
host_only = pytest.mark.skipif(hd.default_device().type != "cpu", reason="about memory that the host shares")


@pytest.fixture(autouse=True)
def seeded():
    hd.manual_seed(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
