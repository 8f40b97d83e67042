"""What becomes of Python's objects: odd ones, copies, circles, threads, the end of a process."""

import copy
import dataclasses
import gc
import pickle
import subprocess
import sys
import threading
import typing
import weakref

import numpy as np
import pytest
from conftest import host_only

import heddle as hd


class Short(list):
    def __len__(self):
        return 1


class Raising(list):
    def __len__(self):
        raise ValueError("no length")


def test_lists_that_lie_about_their_length():
    assert hd.tensor(Short()).shape == (0,)
    with pytest.raises(ValueError, match="no length"):
        hd.tensor(Raising([1, 2]))
    with pytest.raises(ValueError, match="no length"):
        hd.ones(3)[Raising([1])]
    with pytest.raises((MemoryError, OverflowError)):
        hd.tensor(range(10**18))


def test_positions_beyond_all_axes():
    for position in (10**30, -(10**30), 3):
        with pytest.raises(IndexError):
            hd.ones(3)[position]


def test_lists_that_change_meanwhile():
    pairs = []

    class Index:
        def __index__(self):
            pairs.clear()
            return 1

    pairs.extend([(Index(), 1), (1, 1)])
    assert hd.pad(hd.ones(2, 2), pairs).shape == (4, 4)


def test_a_daemon_at_work_does_not_break_the_end():
    code = """
import heddle as hd, threading, time
def work():
    x = hd.randn(200, 200)
    while True: (x @ x).sum().item()
for _ in range(3): threading.Thread(target=work, daemon=True).start()
time.sleep(1)
"""
    for _ in range(2):
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr


class Array(np.ndarray):
    pass  # can be referred to weakly


def aligned(n):
    memory = np.zeros(n + 64, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start : start + n].view(Array)


def test_memory_is_let_go_of_while_the_first_thread_waits():
    alive = []

    def work():
        for _ in range(8):
            array = aligned(1000)
            kept = weakref.ref(array)
            y = hd.from_numpy(array)[:10] + 1
            del array
            y.realize()
            del y
            hd.from_numpy(aligned(16))  # a look at what is to be let go of
            alive.append(kept() is not None)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not any(alive)


def is_collected(make):
    reference = weakref.ref(make())
    gc.collect()
    return reference() is None


class Thing:
    pass


def test_circles_around_captured_functions_are_collected():
    def by_closure():
        thing = Thing()

        @hd.jit
        def f(x):
            return x + (0 if thing.f is None else 1)

        thing.f = f
        f(hd.ones(2))
        return thing

    def by_attribute():
        thing = Thing()
        f = hd.jit(lambda x: x + 1)
        f.thing, thing.f = thing, f
        return thing

    assert is_collected(by_closure)
    assert is_collected(by_attribute)


class Net(hd.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = hd.nn.Linear(2, 2)
        self.scale = 1.0
        self.step = hd.jit(self.forward)

    @hd.jit
    def captured(self, x):
        return self.a(x) * self.scale

    def forward(self, x):
        return self.a(x)


def test_captured_methods_keep_no_instance():
    def use():
        net = Net()
        for _ in range(3):
            net.captured(hd.ones(1, 2))
        return net

    assert is_collected(use)


def test_deep_copies_compute_with_their_own_weights():
    net = Net()
    x = hd.ones(1, 2)
    net.step(x)
    other = copy.deepcopy(net)
    for p in other.parameters():
        p.zero_()
    assert other.step(x).abs().sum().item() == 0
    assert net.step(x).abs().sum().item() > 0


def test_settings_and_hooks_of_modules_reach_captured_functions():
    net, x = Net(), hd.ones(1, 2)
    for _ in range(3):
        before = net.captured(x)
    net.scale = 3.0
    np.testing.assert_allclose(net.captured(x), before * 3, rtol=1e-6)
    f = hd.jit(lambda x: net(x))
    for _ in range(3):
        f(x)
    handle = net.register_forward_hook(lambda module, args, result: result * 0)
    assert f(x).abs().sum().item() == 0
    handle.remove()
    assert f(x).abs().sum().item() > 0


def test_settings_that_keep_changing():
    net = Net()
    net.pair = (hd.ones(2), 1)
    net.pair = (hd.ones(2), 1)
    for i in range(19):
        net.scale = float(i)
    with pytest.warns(UserWarning, match="Net.scale has changed 20 times"):
        net.scale = 20.0


class Registered:
    def __init__(self, x, rest):
        self.x, self.rest = x, rest


hd.register_pytree(Registered, lambda r: ((r.x,), r.rest), lambda rest, parts: Registered(parts[0], rest))


def test_what_registered_classes_keep_is_part_of_the_plan():
    f = hd.jit(lambda r: r.x * (r.rest if not isinstance(r.rest, dict) else r.rest["k"]))
    x = hd.tensor([1, 2])
    for _ in range(3):
        assert f(Registered(x, 2)).dtype == hd.int64
    assert f(Registered(x, 2.0)).dtype == hd.float32
    rest = {"k": 2}
    for _ in range(3):
        assert f(Registered(x, rest)).tolist() == [2, 4]
    rest["k"] = 10
    assert f(Registered(x, rest)).tolist() == [10, 20]


def test_fields_of_dataclasses_are_those_of_instances():
    @dataclasses.dataclass
    class Point:
        x: int
        size: typing.ClassVar[int] = 3
        first: dataclasses.InitVar[int] = 5

    point = hd.tree_map(lambda leaf: leaf + 1, Point(1))
    assert vars(point) == {"x": 2}


def test_numpys_scalars_and_bytes_are_no_data():
    f = hd.jit(lambda x, n, mode: x.reshape(n, -1) if mode == b"a" else x)
    for _ in range(3):
        assert f(hd.ones(4), np.int64(2), b"a").shape == (2, 2)
    assert hd.full((2,), np.float32(2.5)).tolist() == [2.5, 2.5]
    assert hd.full((2,), np.int8(3)).dtype == hd.int8
    with pytest.raises(TypeError):
        hd.tensor(np.datetime64("2020"))


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **settings):
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@host_only
def test_tensor_copies_and_from_dlpack_shares():
    array = aligned(16)
    copied, shared = hd.tensor(OnlyDlpack(array)), hd.from_dlpack(OnlyDlpack(array))
    array[:] = 7
    assert copied.sum().item() == 0
    assert shared.sum().item() == 7 * 16
    with pytest.raises(ValueError):
        hd.ones(2).__dlpack__(max_version=())


class Mine(hd.Tensor):
    pass


def test_copies_and_pickles_of_subclasses():
    x = Mine([1.0, 2.0])
    x.label = ["a"]
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(other) is Mine and other.tolist() == [1, 2] and other.label == ["a"]
    assert copy.deepcopy(x).label is not x.label
    parameter = pickle.loads(pickle.dumps(hd.nn.Parameter(hd.ones(2))))
    assert isinstance(parameter, hd.nn.Parameter) and parameter.requires_grad


def test_every_operator_gives_a_tensor_of_its_own():
    x = hd.ones(2)
    y = +x
    y += 1
    assert x.tolist() == [1, 1]
    assert None not in x and "a" not in x and 1 in x


def test_modules_under_two_names_are_saved_under_both():
    class Tied(hd.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = hd.nn.Linear(2, 2)
            self.b = self.a

    assert list(Tied().state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias"]
    assert len(Tied().parameters()) == 2
    net = hd.nn.Module()
    net.register_buffer("q", hd.ones(1), persistent=False)
    net.register_buffer("q", hd.ones(1))
    assert list(net.state_dict()) == ["q"]


def test_gradients_change_in_place():
    w = hd.zeros(1, requires_grad=True)
    for _ in range(50):
        ((w - 3) ** 2).sum().backward()
        with hd.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
    assert abs(w.item() - 3) < 1e-3
    ((w - 5) ** 2).sum().backward()
    before = w.grad.item()
    w.grad *= 2
    assert w.grad.item() == pytest.approx(2 * before)
    norm = hd.nn.utils.clip_grad_norm_([w], 1.0)
    assert norm.item() == pytest.approx(abs(2 * before))
    assert abs(w.grad.item()) == pytest.approx(1, rel=1e-4)
    hd.optim.clip_grad_value_(w, 0.25)
    assert abs(w.grad.item()) == 0.25
    w.grad = None
    assert w.grad is None


def test_devices_by_name():
    x, net = hd.ones(2), hd.nn.Linear(2, 2)
    assert x.to(x.device) is x and net.to(x.device) is net
    assert x.to(x.device, hd.float64).dtype == hd.float64
    assert x.to(device=x.device) is x
    if x.device == "cpu":
        assert x.cpu() is x
        for call in (x.cuda, net.cuda, lambda: x.to("cuda:1")):
            with pytest.raises(hd.DeviceError, match="there are: cpu"):
                call()


def test_functions_of_numpy():
    x = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    t = hd.tensor(x)
    for f in (np.mean, np.sum, np.std, np.median, np.argmax, np.ptp):
        np.testing.assert_allclose(np.asarray(f(t)), f(x), rtol=1e-6)
        np.testing.assert_allclose(np.asarray(f(t, axis=1)), f(x, axis=1), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(np.percentile(t, 30)), np.percentile(x, 30))
    assert np.shape(np.concatenate([t, t])) == (6, 4)


def test_derivatives_as_functions():
    def f(x):
        return (x**3).sum()

    x = hd.tensor([1.0, 2.0])
    np.testing.assert_allclose(hd.hessian(f)(x), np.diag([6.0, 12.0]))
    np.testing.assert_allclose(hd.jacobian(lambda x: x**2)(x), np.diag([2.0, 4.0]))
    assert hd.vmap(hd.hessian(f))(hd.ones(3, 2)).shape == (3, 2, 2)
    with pytest.raises(TypeError, match="in_axes"):
        hd.vmap(lambda d: d["a"], in_axes=({"a": 0},))({"a": hd.ones(2)})


def test_the_line_is_the_users():
    def body(x):
        print(x)
        return x

    with pytest.raises(hd.CaptureError, match=r"test_objects\.py:\d+: "):
        hd.jit(body)(hd.ones(2))
    with pytest.raises(hd.CaptureError, match=r"test_objects\.py:\d+: "):
        hd.jit(lambda x: 1 in x)(hd.ones(2))


def test_spellings_of_pytorch():
    x = hd.zeros(2, 3, device=hd.default_device())
    assert (x.size, x.size(1), x.size(-2), x.size()) == (6, 3, 2, (2, 3))
    assert x.add_(2).mul_(3).tolist() == [[6, 6, 6], [6, 6, 6]]
    assert x.clamp_(max=1).sum().item() == 6
    assert 0 <= x.uniform_().min().item() <= x.max().item() < 1
    assert x.view_as(hd.ones(3, 2)).shape == (3, 2) and hd.ones(3).expand_as(x).shape == (2, 3)
    assert x.new_zeros(2, dtype=hd.int8).dtype == hd.int8 and x.is_floating_point()
    assert hd.linspace(0, 1, steps=3).tolist() == [0, 0.5, 1] and hd.arange(0, end=3).tolist() == [0, 1, 2]
    assert hd.roll(hd.arange(3), 1, dims=0).tolist() == [2, 0, 1]
    with pytest.raises(hd.ValueError, match="there are: cpu"):
        hd.ones(2, device="nowhere")
    with pytest.raises(TypeError):
        hd.ones(2, device=3)
