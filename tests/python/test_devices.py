"""Devices by name, and tensors on several of them."""

import threading

import heddle as hd
import numpy as np
import pytest


OTHER = "simulated:1"


def test_names():
    assert {"cpu", "simulated", OTHER} <= set(hd.devices())
    cpu = hd.device("cpu")
    assert cpu == "cpu" and cpu.type == "cpu" and cpu.index == 0 and repr(cpu) == "device('cpu')"
    assert hd.device(OTHER).index == 1 and hd.device("simulated:0") == "simulated"
    assert hd.device(OTHER).memory()["limit"] > 0 and hd.device(OTHER).capabilities()["warp"] == 32
    for name in ("nowhere", "simulated:99"):
        with pytest.raises((hd.ValueError, hd.DeviceError), match="simulated:1"):
            hd.device(name)
    with pytest.raises(TypeError):
        hd.device(3)


def test_every_function_takes_one():
    made = [
        hd.zeros(2, device=OTHER),
        hd.ones(2, device=hd.device(OTHER)),
        hd.full((2,), 3, device=OTHER),
        hd.arange(3, device=OTHER),
        hd.linspace(0, 1, 3, device=OTHER),
        hd.eye(2, device=OTHER),
        hd.tensor([1, 2], device=OTHER),
        hd.asarray(np.ones(3), device=OTHER),
        hd.asarray(hd.ones(3), device=OTHER),
        hd.randn(3, device=OTHER),
        hd.randint(0, 9, (3,), device=OTHER),
        hd.zeros_like(hd.ones(3), device=OTHER),
    ]
    for x in made:
        assert x.device == OTHER and x.realize().device == OTHER
    assert made[0].new_zeros(3).device == OTHER
    assert hd.zeros(2).device == hd.default_device()


def test_to_and_back():
    x = hd.tensor([[1.0, 2.0], [3.0, 4.0]], device="cpu")
    y = x.to(OTHER)
    assert y.device == OTHER and y.tolist() == x.tolist()
    assert x.to("cpu") is x and x.to(device="cpu") is x
    assert (y @ y).to("cpu").tolist() == (x @ x).tolist()
    assert x.to(OTHER, hd.float16).dtype == hd.float16
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    with pytest.raises(hd.ValueError, match="add: .*cpu.*simulated:1"):
        x + y


def test_scopes():
    before = hd.default_device()
    with hd.device(OTHER) as there:
        assert there == OTHER and hd.default_device() == OTHER
        x = hd.zeros(3)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(hd.default_device()))
        thread.start()
        thread.join()
        assert seen == [before]
    assert hd.default_device() == before and x.device == OTHER and x.realize().device == OTHER
    with pytest.raises(ZeroDivisionError):
        with hd.device(OTHER):
            1 / 0
    assert hd.default_device() == before
    hd.set_default_device(OTHER)
    try:
        assert hd.ones(2).realize().device == OTHER
    finally:
        hd.set_default_device(before)


def test_gradients_and_jit():
    w = hd.randn(4, 3, device=OTHER).realize().requires_grad_()
    x = hd.randn(2, 4, device="cpu").realize().requires_grad_()

    def loss(x):
        return hd.tanh(x.to(OTHER) @ w).to("cpu").sum()

    loss(x).backward()
    assert x.grad.device == "cpu" and w.grad.device == OTHER
    captured = hd.jit(lambda x: hd.tanh(x.to(OTHER) @ w).to("cpu"))
    for _ in range(3):
        np.testing.assert_allclose(captured(x).numpy(), np.tanh(x.numpy() @ w.numpy()), rtol=1e-5, atol=1e-6)


def test_modules_move():
    net = hd.nn.Sequential(hd.nn.Linear(4, 8), hd.nn.ReLU(), hd.nn.Linear(8, 1))
    parameters = list(net.parameters())
    assert net.to(OTHER) is net
    assert all(p.device == OTHER for p in net.parameters())
    assert all(a is b for a, b in zip(parameters, net.parameters()))
    assert net(hd.ones(2, 4, device=OTHER)).device == OTHER


def test_files(tmp_path):
    path = tmp_path / "model.safetensors"
    w = hd.randn(4, 3).realize()
    hd.save_safetensors(path, {"w": w})
    lazy = hd.load_safetensors(path, lazy=True)["w"]
    x = hd.ones(4, 3, device=OTHER).realize()
    np.testing.assert_array_equal((x * lazy).numpy(), w.numpy())
    np.testing.assert_array_equal(lazy[1].numpy(), w.numpy()[1])
    assert hd.load_safetensors(path, device=OTHER)["w"].device == OTHER
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 8)
    with pytest.raises(hd.ParseError, match='model.safetensors: tensor "w"'):
        (x * lazy).realize()


def test_lists_and_arrays_go_where_the_tensor_beside_them_is():
    x = hd.tensor([1.0, 2.0, 3.0], device=OTHER)
    for key in ([0, 2], np.array([0, 2]), [True, False, True], range(0, 3, 2)):
        assert x[key].tolist() == [1, 3] and x[key].device == OTHER
    for y in (x + [1, 2, 3], [1, 2, 3] + x, x + np.arange(1, 4, dtype="float32")):
        assert y.tolist() == [2, 4, 6] and y.device == OTHER
    x[0:2] = [7.0, 8.0]
    x[[2]] = np.ones(1, "float32")
    x += [0, 0, 1]
    assert x.tolist() == [7, 8, 2] and x.device == OTHER
