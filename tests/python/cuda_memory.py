"""Memory of NVIDIA GPUs that is shared with other libraries.

`pytest tests/python/cuda_memory.py` where there is a GPU, with PyTorch and CuPy or without. `make test` runs it above a
driver without hardware: there memory is the host's, and kernels do not run.
"""

import os

import heddle as hd
import numpy as np
import pytest

FAKE = bool(os.environ.get("HEDDLE_FAKE_CUDA"))
HERE = "cuda:0"
needs_gpu = pytest.mark.skipif(FAKE, reason="kernels do not run")


class Lender:
    """Another library, which notes what it is asked for."""

    def __init__(self, tensor, device=None):
        self.tensor, self.device, self.asked = tensor, device, []

    def __dlpack_device__(self):
        return self.device or self.tensor.__dlpack_device__()

    def __dlpack__(self, **settings):
        self.asked.append(settings)
        return self.tensor.__dlpack__(**settings)


def numbers(*shape, dtype="float32"):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def test_where_memory_is():
    assert hd.zeros(3, device="cuda").__dlpack_device__() == (2, 0)
    assert hd.zeros(3, device="cpu").__dlpack_device__() == (1, 0)
    assert hd.zeros(3, device="simulated:1").__dlpack_device__() == (1, 0)


def test_a_capsule_is_the_same_memory():
    a = numbers(4, 64)
    x = hd.tensor(a, device="cuda").realize()
    y, z = hd.from_dlpack(Lender(x)), hd.from_dlpack(Lender(x))
    assert y.device == HERE and y.shape == (4, 64) and y.dtype == hd.float32
    assert y.__dlpack__() is not None and (y.numpy() == a).all() and (z.numpy() == a).all()
    copied = hd.tensor(Lender(x))
    assert copied.device == HERE and (copied.numpy() == a).all()


def test_the_lender_is_told_our_stream():
    lender = Lender(hd.tensor(numbers(8), device="cuda"))
    hd.from_dlpack(lender)
    [asked] = lender.asked
    assert asked["max_version"] == (1, 0) and asked["stream"] > 2
    lender = Lender(hd.tensor(numbers(8), device="cpu"))
    hd.from_dlpack(lender)
    assert lender.asked == [{"max_version": (1, 0)}]


def test_lenders_of_the_first_version():
    class Old(Lender):
        def __dlpack__(self, stream=None):
            self.asked.append(stream)
            return self.tensor.__dlpack__(stream=stream)

    old = Old(hd.tensor(numbers(8), device="cuda"))
    assert hd.from_dlpack(old).tolist() == numbers(8).tolist() and old.asked[0] > 2


@pytest.mark.parametrize("stream", [None, -1, 1, 2])
def test_streams(stream):
    x = hd.tensor(numbers(8), device="cuda")
    assert hd.from_dlpack(x.__dlpack__(stream=stream)).tolist() == numbers(8).tolist()


def test_wrong_questions():
    x = hd.tensor(numbers(8), device="cuda")
    for stream in (0, -2):
        with pytest.raises(ValueError, match="no stream of cuda:0"):
            x.__dlpack__(stream=stream)
    with pytest.raises(BufferError, match="cuda:0"):
        x.__dlpack__(dl_device=(2, 1))
    with pytest.raises(BufferError, match="no copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(hd.DeviceError):
        hd.from_dlpack(Lender(x, device=(2, 77)))
    with pytest.raises(Exception):  # NumPy's own
        np.from_dlpack(x)


def test_on_the_host_it_is_a_copy():
    x = hd.tensor(numbers(3, 5), device="cuda")
    a = np.from_dlpack(x, device="cpu")
    assert (a == numbers(3, 5)).all() and (x.numpy() == a).all()
    assert hd.from_dlpack(x.__dlpack__(dl_device=(1, 0))).device == "cpu"


def test_copies_are_apart():
    x = hd.tensor(numbers(100), device="cuda")
    y = hd.from_dlpack(x.__dlpack__(copy=True))
    assert y.device == HERE and y.tolist() == numbers(100).tolist()


def test_nothing_and_scalars():
    assert hd.from_dlpack(Lender(hd.zeros(0, 3, device="cuda"))).shape == (0, 3)
    assert hd.from_dlpack(Lender(hd.tensor(7, device="cuda"))).item() == 7


def test_lent_memory_outlives_its_tensor():
    x = hd.tensor(numbers(1000), device="cuda")
    capsule = x.__dlpack__()
    del x
    for _ in range(3):
        hd.tensor(np.zeros(1000, np.float32), device="cuda").realize()
    assert hd.from_dlpack(capsule).tolist() == numbers(1000).tolist()
    hd.tensor(numbers(1000), device="cuda").__dlpack__()  # a capsule that nobody takes


def test_memory_is_given_back():
    before = hd.device("cuda").memory()["used"]
    for _ in range(20):
        x = hd.from_dlpack(Lender(hd.tensor(numbers(1 << 16), device="cuda")))
        x.numpy()
    del x
    assert hd.device("cuda").memory()["used"] == before


@needs_gpu
class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        self.torch = pytest.importorskip("torch")

    @pytest.mark.parametrize(
        "dtype", ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"]
    )
    def test_both_ways_without_a_copy(self, dtype):
        torch = self.torch
        x = (hd.arange(4096, device="cuda").reshape(64, 64) % 2).to(getattr(hd, dtype)).realize()
        y = torch.from_dlpack(x)
        assert y.device == torch.device("cuda", 0) and y.dtype == getattr(torch, dtype)
        assert y.data_ptr() == torch.from_dlpack(x).data_ptr()
        assert y.double().tolist() == x.double().tolist()
        z = hd.from_dlpack(y.clone())
        assert z.device == HERE and z.dtype == x.dtype and z.double().tolist() == x.double().tolist()

    def test_a_later_write_is_seen_by_what_is_computed_later(self):
        torch = self.torch
        y = torch.zeros(64, 64, device="cuda")
        x = hd.from_dlpack(y)
        before = (x + 1).realize()
        y.fill_(5)
        torch.cuda.synchronize()
        assert (x + 1).sum().item() == 6 * 64 * 64 and before.sum().item() == 64 * 64

    @pytest.mark.parametrize(
        "view",
        [
            lambda y: y.T,
            lambda y: y[::2, 1::3],
            lambda y: y[5:, :7],
            lambda y: y[3],
            lambda y: y[:, 0],
            lambda y: y[:0],
            lambda y: y[1:],
            lambda y: y.reshape(-1)[3:200],
            lambda y: y[None].expand(3, 64, 64),
            lambda y: y[2, 2],
            lambda y: y.permute(1, 0)[3:9, ::5],
        ],
    )
    def test_views(self, view):
        y = view(self.torch.arange(4096.0, device="cuda").reshape(64, 64))
        assert hd.from_dlpack(y).tolist() == y.tolist()
        assert (hd.from_dlpack(y) + 1).tolist() == (y + 1).tolist()
        assert hd.tensor(y).tolist() == y.tolist()

    @pytest.mark.parametrize("ours_first", [False, True])
    def test_work_in_other_streams_is_waited_for(self, ours_first):
        torch = self.torch
        a = torch.randn(4096, 4096, device="cuda")
        expected = (a.double() @ a.double() @ a.double())[0].tolist()
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(5):
                    if ours_first:
                        x = hd.from_dlpack(a)
                        result = torch.from_dlpack(x @ x) @ a
                    else:
                        result = torch.from_dlpack(hd.from_dlpack(a @ a) @ hd.from_dlpack(a))
                    got = result[0].double().tolist()
                    assert np.allclose(got, expected, atol=2.0, rtol=1e-3)

    def test_memory_that_goes_back_is_not_written_too_early(self):
        torch = self.torch
        for i in range(30):
            theirs = torch.full((1 << 22,), float(i), device="cuda")
            ours = hd.from_dlpack(theirs) * 2
            ours.realize()
            del theirs
            torch.full((1 << 22,), -1.0, device="cuda")  # in the memory that was let go of
            assert ours[12345].item() == 2 * i and ours[-1].item() == 2 * i
            mine = (hd.zeros(1 << 22, device="cuda") + float(i)).realize()
            seen = torch.from_dlpack(mine)
            kept = seen.clone()
            del mine, seen
            (hd.zeros(1 << 22, device="cuda") - 7).realize()
            assert kept[54321].item() == i and kept[-1].item() == i

    def test_captured_functions_take_it(self):
        torch = self.torch
        step = hd.jit(lambda x, w: hd.tanh(x @ w))
        w = hd.randn(64, 64, device="cuda")
        for _ in range(4):
            y = torch.randn(32, 64, device="cuda")
            got = torch.from_dlpack(step(hd.from_dlpack(y), w))
            assert torch.allclose(got, torch.tanh(y @ torch.from_dlpack(w)), atol=1e-2)

    def test_operators_take_torchs_tensors(self):
        y = self.torch.ones(4, device="cuda")
        assert (hd.ones(4, device="cuda") + hd.tensor(y)).tolist() == [2, 2, 2, 2]


@needs_gpu
def test_cupy():
    cupy = pytest.importorskip("cupy")
    x = hd.arange(24, device="cuda").reshape(4, 6).realize()
    assert cupy.from_dlpack(x).tolist() == x.tolist()
    a = cupy.arange(24, dtype="float32").reshape(4, 6)
    for view in (a, a.T, a[::-1], a[:, ::-2], a[1:, 2:]):
        assert hd.from_dlpack(view).tolist() == view.tolist()


@needs_gpu
def test_jax():
    jax = pytest.importorskip("jax")
    x = hd.arange(24, device="cuda").reshape(4, 6).to(hd.float32).realize()
    a = jax.dlpack.from_dlpack(x)
    assert a.tolist() == x.tolist() and hd.from_dlpack(a * 2).tolist() == (x * 2).tolist()
