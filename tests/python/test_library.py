"""What the C++ library has on top of tensors: models, files, rules and schedules of one's own, random numbers."""

import numpy as np
import pytest

import heddle as hd


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x, weight, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def gpt2_logits(s, ids, layers, heads):
    """GPT-2 in NumPy, from tensors under their published names."""
    x = s["wte.weight"][ids] + s["wpe.weight"][: ids.shape[-1]]
    time, width = x.shape[-2:]
    for i in range(layers):
        p = {name.removeprefix(f"h.{i}."): value for name, value in s.items()}
        y = norm(x, p["ln_1.weight"], p["ln_1.bias"]) @ p["attn.c_attn.weight"] + p["attn.c_attn.bias"]
        q, k, v = (part.reshape(*x.shape[:-1], heads, -1).swapaxes(-3, -2) for part in np.split(y, 3, -1))
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(width // heads)
        scores[..., np.triu_indices(time, 1)[0], np.triu_indices(time, 1)[1]] = -np.inf
        mixed = (softmax(scores) @ v).swapaxes(-3, -2).reshape(x.shape)
        x = x + mixed @ p["attn.c_proj.weight"] + p["attn.c_proj.bias"]
        y = norm(x, p["ln_2.weight"], p["ln_2.bias"]) @ p["mlp.c_fc.weight"] + p["mlp.c_fc.bias"]
        y = 0.5 * y * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
        x = x + y @ p["mlp.c_proj.weight"] + p["mlp.c_proj.bias"]
    return norm(x, s["ln_f.weight"], s["ln_f.bias"]) @ s["wte.weight"].T


def test_gpt2_computes_what_the_paper_says(rng):
    net = hd.models.GPT2(hd.models.gpt2_tiny())
    state = {name: value.numpy().astype(np.float64) for name, value in net.state_dict().items()}
    ids = rng.integers(0, 256, (2, 12))
    wanted = gpt2_logits(state, ids, layers=2, heads=4)
    np.testing.assert_allclose(net(hd.tensor(ids)).numpy(), wanted, atol=2e-4)
    chances = softmax(wanted)[np.arange(2)[:, None], np.arange(12), ids]
    np.testing.assert_allclose(net.loss(hd.tensor(ids), hd.tensor(ids)).item(), -np.log(chances).mean(), rtol=1e-4)
    with pytest.raises(hd.ShapeError, match="64 places"):
        net(hd.zeros(1, 65, dtype=hd.int64))


def test_gpt2_has_published_names_and_trains():
    net = hd.models.GPT2(hd.models.GPT2Config(vocabulary=16, context=8, width=8, layers=1, heads=2))
    assert list(net.state_dict())[:4] == ["wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.ln_1.bias"]
    assert net.state_dict()["h.0.attn.c_attn.weight"].shape == (8, 24)
    ids = hd.tensor([[1, 2, 3, 4, 5, 6, 7, 8]])
    opt = hd.optim.AdamW(hd.optim.decay_matrices(net.named_parameters(), 0.1), lr=1e-2)
    step = hd.jit(lambda: [loss := net.loss(ids[:, :-1], ids[:, 1:]), opt.step(hd.grad(loss, net.parameters()))][0])
    losses = [step().item() for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0]


def conv(x, weight, stride, padding):
    size = weight.shape[-1]
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride]
    return np.einsum("nchwij,ocij->nohw", windows, weight)


def resnet_logits(s, x, blocks, bottleneck):
    def bn(x, name):
        scale = s[f"{name}.weight"] / np.sqrt(s[f"{name}.running_var"] + 1e-5)
        return (x - s[f"{name}.running_mean"][:, None, None]) * scale[:, None, None] + s[f"{name}.bias"][:, None, None]

    x = np.maximum(bn(conv(x, s["conv1.weight"], 2, 3), "bn1"), 0)
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    x = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))[:, :, ::2, ::2].max((-1, -2))
    for stage, count in enumerate(blocks):
        for j in range(count):
            name, stride = f"layer{stage + 1}.{j}", 2 if stage > 0 and j == 0 else 1
            strides = [1, stride, 1] if bottleneck else [stride, 1]
            y = x
            for number, step in enumerate(strides, 1):
                weight = s[f"{name}.conv{number}.weight"]
                y = bn(conv(np.maximum(y, 0), weight, step, weight.shape[-1] // 2), f"{name}.bn{number}")
            if f"{name}.downsample.0.weight" in s:
                x = bn(conv(x, s[f"{name}.downsample.0.weight"], stride, 0), f"{name}.downsample.1")
            x = np.maximum(x + y, 0)
    return x.mean((2, 3)) @ s["fc.weight"].T + s["fc.bias"]


@pytest.mark.parametrize("bottleneck", [False, True])
def test_resnet_computes_what_the_paper_says(rng, bottleneck):
    config = hd.models.ResNetConfig(blocks=(1, 1, 1, 1) if bottleneck else (2, 1, 1, 1), bottleneck=bottleneck, classes=5, width=4)
    net = hd.models.ResNet(config).eval()
    for name, tensor in net.named_buffers():
        if name.endswith("running_var"):
            tensor.assign(hd.rand(tensor.shape) + 0.5)
    state = {name: value.numpy().astype(np.float64) for name, value in net.state_dict().items()}
    images = rng.standard_normal((2, 3, 32, 32))
    wanted = resnet_logits(state, images, config.blocks, bottleneck)
    np.testing.assert_allclose(net(hd.tensor(images.astype(np.float32))).numpy(), wanted, rtol=2e-3, atol=2e-3)
    with pytest.raises(hd.ValueError, match="four stages"):
        hd.models.ResNet(hd.models.ResNetConfig(blocks=(1, 1)))


def test_models_draw_from_their_generator():
    config = hd.models.gpt2_tiny()
    a, b = (hd.models.GPT2(config, generator=hd.Generator(3)).state_dict() for _ in range(2))
    assert all(hd.equal(a[name], b[name]) for name in a)
    before = hd.default_generator().get_state()
    hd.models.ResNet(hd.models.ResNetConfig(blocks=(1, 1, 1, 1), width=4), generator=hd.Generator(3))
    assert hd.default_generator().get_state() == before


def test_files_keep_texts(tmp_path):
    path = tmp_path / "a.safetensors"
    hd.io.save_safetensors(path, {"w": hd.arange(3)}, metadata={"step": "7"})
    assert hd.io.safetensors_metadata(path) == {"step": "7"}
    hd.io.save_safetensors(path, {"w": hd.arange(3)})
    assert hd.io.safetensors_metadata(path) == {}
    path.write_bytes(b"nothing")
    with pytest.raises(hd.ParseError):
        hd.io.safetensors_metadata(path)


def test_snapshots_stay():
    x, y = hd.zeros(2).realize(), hd.ones(2).realize()
    before = hd.snapshot(x, y)
    x += 1
    assert [value.tolist() for value in before] == [[0.0, 0.0], [1.0, 1.0]] and x.tolist() == [1.0, 1.0]


def momentum(p, g, state, now):
    speed = 0.9 * state[0] + g
    return p - now["lr"] * speed, [speed]


@pytest.mark.parametrize("captured", [False, True])
def test_rules_of_ones_own(captured):
    a, b = (hd.tensor([1.0, -2.0], requires_grad=True) for _ in range(2))
    own = hd.optim.Optimizer([a], 0.1, momentum, state=["speed"], name="own")
    known = hd.optim.SGD([b], lr=0.1, momentum=0.9)

    def step(w, opt):
        opt.step([hd.grad((w**4).sum(), w)])

    steps = [lambda: step(a, own), lambda: step(b, known)]
    for f in [hd.jit(f) if captured else f for f in steps]:
        for _ in range(4):
            f()
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert own.steps_done == 4 and set(own.state_dict()) == {"step", "lr", "0.speed"}


def test_rules_that_are_wrong_say_so():
    w = hd.ones(1, requires_grad=True)
    for update, message in (
        (lambda p, g, s, now: (p, []), "0 tensors of state, not 1"),
        (lambda p, g, s, now: p, "a list of new state"),
        (lambda p, g, s, now: 1 / 0, "division"),
    ):
        opt = hd.optim.Optimizer([w], 0.1, update, state=["a"])
        with pytest.raises(Exception, match=message):
            opt.step([hd.ones(1)])
    with pytest.raises(TypeError, match="update is a function"):
        hd.optim.Optimizer([w], 0.1, 3)


def test_schedules_of_ones_own():
    halved = hd.optim.Schedule(1.0, lambda step: 0.5**step)
    assert [halved(i) for i in range(3)] == [1.0, 0.5, 0.25]
    w = hd.zeros(1, requires_grad=True)
    opt = hd.optim.SGD([w], lr=hd.optim.warmup(2, halved))
    step = hd.jit(lambda: opt.step([hd.ones(1)]))
    seen = []
    for _ in range(4):
        seen.append(opt.lr)
        step()
    assert seen == [0.5, 1.0, 1.0, 0.5] and w.item() == -sum(seen)
    with pytest.raises(TypeError, match="the factor is a function"):
        hd.optim.Schedule(1.0, 2)


def test_groups_of_matrices():
    net = hd.nn.Sequential(hd.nn.Linear(3, 2), hd.nn.Linear(2, 2))
    groups = hd.optim.decay_matrices(net.named_parameters(), 0.5)
    assert [group["weight_decay"] for group in groups] == [0.5, 0.0, 0.5, 0.0]
    assert [name for group in groups for name, _ in group["params"]] == list(net.state_dict())
    opt = hd.optim.SGD(groups, lr=0.1)
    before = [p.numpy().copy() for p in net.parameters()]
    opt.step([hd.zeros_like(p) for p in net.parameters()])
    for old, new, factor in zip(before, net.parameters(), [0.95, 1, 0.95, 1]):
        np.testing.assert_allclose(new.numpy(), old * factor, rtol=1e-6)


def test_random_has_the_functions_and_generators():
    hd.random.manual_seed(3)
    x = hd.random.randn(4)
    hd.manual_seed(3)
    assert hd.equal(x, hd.randn(4)) and hd.random.Generator is hd.Generator


def test_digits_as_text():
    images, _ = hd.data.digits(2, seed=1)
    assert len(hd.data.draw_text(images[0]).splitlines()) == 14
    with pytest.raises(hd.ShapeError):
        hd.data.draw_text(images)


def test_modes():
    for change, now in ((hd.allow_tf32, hd.tf32_allowed), (hd.set_relaxed, hd.is_relaxed), (hd.set_deterministic, hd.is_deterministic)):
        before = now()
        change(not before)
        assert now() is not before
        change(before)
