"""Functions of SciPy and scikit-learn that dispatch on the array API take our tensors and give tensors."""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads it when it is imported

import heddle as hd  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
import scipy.cluster.vq  # noqa: E402
import scipy.integrate  # noqa: E402
import scipy.signal  # noqa: E402
import scipy.special  # noqa: E402
import scipy.stats  # noqa: E402
import sklearn  # noqa: E402
from sklearn import metrics, preprocessing  # noqa: E402

SCIPY = {
    "logsumexp": lambda x: scipy.special.logsumexp(x, axis=1),
    "softmax": lambda x: scipy.special.softmax(x, axis=1),
    "expit": lambda x: scipy.special.expit(x),
    "zscore": lambda x: scipy.stats.zscore(x),
    "skew": lambda x: scipy.stats.skew(x),
    "whiten": lambda x: scipy.cluster.vq.whiten(x),
    "vq": lambda x: scipy.cluster.vq.vq(x, x[:3])[0],
    "trapezoid": lambda x: scipy.integrate.trapezoid(x, axis=0),
    "detrend": lambda x: scipy.signal.detrend(x, axis=0),
}
SKLEARN = {
    "MinMaxScaler": lambda x: preprocessing.MinMaxScaler().fit_transform(x),
    "StandardScaler": lambda x: preprocessing.StandardScaler().fit_transform(x),
    "Normalizer": lambda x: preprocessing.Normalizer().fit_transform(x),
    "cosine_similarity": lambda x: metrics.pairwise.cosine_similarity(x),
    "euclidean_distances": lambda x: metrics.pairwise.euclidean_distances(x),
}


def numbers():
    return np.random.default_rng(0).standard_normal((50, 4))


@pytest.mark.parametrize("name", SCIPY)
def test_scipy(name):
    result = SCIPY[name](hd.tensor(numbers()))
    assert type(result) is hd.Tensor
    np.testing.assert_allclose(result.numpy(), SCIPY[name](numbers()), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", SKLEARN)
def test_scikit_learn(name):
    with sklearn.config_context(array_api_dispatch=True):
        result = SKLEARN[name](hd.tensor(numbers()))
    assert type(result) is hd.Tensor
    np.testing.assert_allclose(result.numpy(), SKLEARN[name](numbers()), rtol=1e-6, atol=1e-7)


def test_scores_of_scikit_learn_are_numbers():
    a, b = numbers()[:, 0], numbers()[:, 1]
    with sklearn.config_context(array_api_dispatch=True):
        assert metrics.mean_squared_error(hd.tensor(a), hd.tensor(b)) == pytest.approx(metrics.mean_squared_error(a, b))
        assert metrics.r2_score(hd.tensor(a), hd.tensor(b)) == pytest.approx(metrics.r2_score(a, b))
