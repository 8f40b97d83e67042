"""Memory that libraries share by DLPack, both ways."""

import heddle as hd
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

DTYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]


def numbers(dtype, *shape):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_torch_takes_ours_without_a_copy(dtype):
    x = (hd.arange(24).reshape(4, 6) % 2).to(dtype).realize()
    y = torch.from_dlpack(x)
    assert str(y.dtype) == f"torch.{dtype}" and y.shape == (4, 6)
    again = torch.from_dlpack(x)
    assert y.data_ptr() == again.data_ptr()
    assert y.to(torch.float64).tolist() == x.double().tolist()


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_we_take_torchs(dtype):
    y = (torch.arange(4096).reshape(64, 64) % 2).to(getattr(torch, dtype))
    x = hd.from_dlpack(y)
    assert str(x.dtype) == dtype and x.tolist() == y.tolist()
    if y.data_ptr() % 64 == 0:
        y[3, 5] = 1
        assert x[3, 5].item() == 1  # the same memory


@pytest.mark.parametrize(
    "view",
    [
        lambda y: y.T,
        lambda y: y[::2, 1::3],
        lambda y: y[5:, :7],
        lambda y: y[3],
        lambda y: y[:, 0],
        lambda y: y[:0],
        lambda y: y[None].expand(3, 16, 16),
        lambda y: y[2, 2],
    ],
)
def test_views_of_torch_keep_their_elements(view):
    y = view(torch.arange(256.0).reshape(16, 16))
    assert hd.from_dlpack(y).tolist() == y.tolist()
    assert (hd.from_dlpack(y) + 1).tolist() == (y + 1).tolist()
    assert hd.tensor(y).tolist() == y.tolist()


def test_torch_may_not_write_what_a_tensor_of_ours_is_computed_from():
    x = hd.arange(8.0).realize()
    before = x + 0
    y = torch.from_dlpack(x)
    x += 1  # gets other memory: y keeps what it was shown
    assert x.tolist() == [float(i) for i in range(1, 9)]
    assert y.tolist() == [float(i) for i in range(8)]
    assert before.tolist() == y.tolist()


def test_what_torch_holds_outlives_our_tensor():
    y = torch.from_dlpack(hd.arange(100000.0).realize())
    for _ in range(5):
        hd.randn(100000).realize()
    assert y.double().sum().item() == 100000 * 99999 / 2


def test_what_we_hold_outlives_torchs_tensor():
    x = hd.from_dlpack(torch.arange(100000.0))
    for _ in range(5):
        torch.randn(100000)
    assert x.to(hd.float64).sum().item() == 100000 * 99999 / 2


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d not in ("float64", "int64")] + ["bfloat16"])
def test_jax_both_ways(dtype):
    x = (hd.arange(64).reshape(4, 16) % 2).to(dtype).realize()
    y = jnp.from_dlpack(x)
    assert str(y.dtype) == dtype and y.astype("float32").tolist() == x.float().tolist()
    back = hd.from_dlpack(jax.block_until_ready(jnp.flip(jnp.flip(y))))
    assert str(back.dtype) == dtype and back.float().tolist() == x.float().tolist()


def test_arrays_of_jax_are_copied_in_too():
    y = jnp.arange(12.0).reshape(3, 4)
    assert hd.tensor(y).tolist() == y.tolist()
    assert hd.tensor(y.astype("bfloat16")).tolist() == y.tolist()  # shows no bytes
    assert hd.asarray(y[:, ::2]).tolist() == y[:, ::2].tolist()
    assert (hd.ones(3, 4) + hd.from_dlpack(y)).tolist() == (y + 1).tolist()


def test_numpy_both_ways_strided():
    a = numbers("float32", 16, 16)
    for view in (a.T, a[::2, ::3], a[::-1], a[:, ::-2], a[4:4], np.asfortranarray(a), np.broadcast_to(a, (2, 16, 16))):
        assert hd.from_numpy(view).tolist() == view.tolist()
        assert hd.tensor(view).tolist() == view.tolist()
    assert np.from_dlpack(hd.tensor(a)[2:, ::2]).tolist() == a[2:, ::2].tolist()


def test_a_torch_tensor_that_wants_gradients_is_refused():
    with pytest.raises((TypeError, ValueError, RuntimeError, BufferError)):
        hd.from_dlpack(torch.ones(3, requires_grad=True))


def test_captured_functions_see_what_torch_writes():
    y = torch.zeros(1024)
    x = hd.from_dlpack(y)
    f = hd.jit(lambda x: x * 2)
    for value in (1.0, 2.0, 3.0):
        y.fill_(value)
        shared = y.data_ptr() % 64 == 0
        assert f(x if shared else hd.from_dlpack(y))[7].item() == 2 * value
