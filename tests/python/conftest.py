import numpy as np
import pytest

import heddle as hd


@pytest.fixture(autouse=True)
def seeded():
    hd.manual_seed(0)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
