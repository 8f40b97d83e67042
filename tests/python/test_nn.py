import copy
import pickle

import numpy as np
import pytest

import heddle as hd
from heddle import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 3)
        self.scale = nn.Parameter(hd.ones(3))
        self.register_buffer("seen", hd.zeros(()))
        self.note = "plain"

    def forward(self, x):
        return self.b(self.a(x).relu()) * self.scale


def test_attributes_register_themselves():
    net = Net()
    names = ["scale", "a.weight", "a.bias", "b.weight", "b.bias"]
    assert sorted(name for name, _ in net.named_parameters()) == sorted(names)
    assert [name for name, _ in net.named_buffers()] == ["seen"] and [name for name, _ in net.named_children()] == ["a", "b"]
    assert [name for name, _ in net.named_modules()] == ["", "a", "b"] and len(net.parameters()) == 5
    assert net.a.weight.shape == (16, 8) and net.a.weight.requires_grad and net.a.weight.is_leaf
    assert net.get_submodule("a") is net.a and net.get_parameter("b.bias") is net.b.bias
    net.a = nn.Linear(8, 16, bias=False)
    assert net.a.bias is None and len(net.parameters()) == 4
    del net.b
    assert len(net.parameters()) == 2
    with pytest.raises(TypeError):
        net.scale = hd.ones(3)
    with pytest.raises(AttributeError, match="super"):
        type("Bad", (nn.Module,), {"__init__": lambda self: setattr(self, "a", 1)})()
    assert "Linear(in_features=8" in repr(net)


def test_shared_parameters_count_once():
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    assert len(net.parameters()) == 3 and len(net.state_dict()) == 4


def test_state(tmp_path):
    net, other = Net(), Net()
    state = net.state_dict()
    assert not hd.equal(net.a.weight, other.a.weight)
    result = other.load_state_dict(state)
    assert result.missing_keys == [] and hd.equal(net.a.weight, other.a.weight) and other.a.weight.requires_grad
    net.a.weight += 1
    assert hd.equal(state["a.weight"], other.a.weight)
    path = tmp_path / "net.safetensors"
    net.save(path)
    other.load(path)
    assert hd.equal(net.a.weight, other.a.weight)
    with pytest.raises(ValueError, match="missing: a.weight"):
        other.load_state_dict({name: value for name, value in state.items() if name != "a.weight"})
    with pytest.raises(ValueError, match="shape"):
        other.load_state_dict({**state, "a.bias": hd.ones(3)})
    assert other.load_state_dict({"scale": np.zeros(3)}, strict=False).missing_keys
    assert other.scale.tolist() == [0, 0, 0]
    with pytest.raises(ValueError):
        hd.load_safetensors(tmp_path / "nothing")
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert hd.equal(again.a.weight, net.a.weight) and isinstance(again.a.weight, nn.Parameter)
        again.a.weight += 1
        assert not hd.equal(again.a.weight, net.a.weight)


def test_modes_and_dtypes():
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    x = hd.ones(8, 4)
    net.eval()
    assert not net[1].training and hd.equal(net(x), net(x))
    net.train()
    f = hd.jit(lambda v: net[1](v))
    assert (f(hd.ones(100)) == 0).any() and (f(hd.ones(100)) == 0).any()
    net.eval()
    assert f(hd.ones(100)).tolist() == [1] * 100
    net.to(hd.bfloat16)
    assert all(p.dtype == hd.bfloat16 for p in net.parameters()) and net[2].num_batches_tracked.dtype == hd.int64
    net.float().requires_grad_(False)
    assert net.parameters() == []
    seen = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen[-1] == "Sequential" and len(seen) == 4


def test_hooks():
    layer, seen = nn.Linear(2, 2), []
    handle = layer.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    layer.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    assert hd.equal(layer(hd.ones(1, 2)), layer.bias.reshape(1, 2)) and seen == [(1, 2)]
    handle.remove()
    layer(hd.ones(1, 2))
    assert len(seen) == 1


def test_layers(rng):
    x = hd.tensor(rng.standard_normal((2, 3, 8, 8)).astype("f4"))
    for layer, shape in [
        (nn.Conv2d(3, 6, 3, padding=1), (2, 6, 8, 8)), (nn.Conv2d(3, 6, 3, stride=2, groups=3, bias=False), (2, 6, 3, 3)),
        (nn.ConvTranspose2d(3, 4, 2, stride=2), (2, 4, 16, 16)), (nn.BatchNorm2d(3), (2, 3, 8, 8)), (nn.GroupNorm(3, 3), (2, 3, 8, 8)),
        (nn.MaxPool2d(2), (2, 3, 4, 4)), (nn.AvgPool2d(2, ceil_mode=True), (2, 3, 4, 4)), (nn.AdaptiveAvgPool2d(1), (2, 3, 1, 1)),
        (nn.Flatten(), (2, 192)), (nn.LayerNorm((8, 8)), (2, 3, 8, 8)), (nn.LayerNorm(8), (2, 3, 8, 8)), (nn.RMSNorm(8), (2, 3, 8, 8)),
        (nn.Linear(8, 5), (2, 3, 8, 5)), (nn.MultiheadAttention(8, 2), (2, 3, 8, 8)), (nn.GELU("tanh"), (2, 3, 8, 8)), (nn.Softmax(dim=1), (2, 3, 8, 8)),
        (nn.Identity(), (2, 3, 8, 8)), (nn.LeakyReLU(0.2), (2, 3, 8, 8)), (nn.Unflatten(3, (2, 4)), (2, 3, 8, 2, 4)), (nn.GLU(), (2, 3, 8, 4)),
    ]:  # fmt: skip
        y = layer(x)
        assert y.shape == shape, layer
        if layer.parameters():
            assert all(hd.isfinite(g).all() for g in hd.grad(y.square().sum(), layer.parameters()))
        repr(layer)
    assert nn.Embedding(10, 4)(hd.tensor([[1, 2]])).shape == (1, 2, 4)
    assert nn.Conv1d(3, 2, 3)(hd.ones(1, 3, 5)).shape == (1, 2, 3) and nn.Conv3d(1, 2, 2)(hd.ones(1, 1, 3, 3, 3)).shape == (1, 2, 2, 2, 2)
    with pytest.raises(hd.ShapeError, match=r"BatchNorm2d\(4\)"):
        nn.BatchNorm2d(4)(x)
    with pytest.raises(hd.ShapeError, match="linear"):
        nn.Linear(5, 5)(x)


def test_batch_norm_follows_the_batches(rng):
    a = rng.standard_normal((16, 3)).astype("f4") * 2 + 1
    layer = nn.BatchNorm1d(3)
    y = layer(hd.tensor(a)).numpy()
    np.testing.assert_allclose(y, (a - a.mean(0)) / np.sqrt(a.var(0) + 1e-5), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(layer.running_mean.numpy(), a.mean(0) * 0.1, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * a.var(0, ddof=1), rtol=1e-5)
    assert layer.num_batches_tracked.item() == 1 and "running_mean" in layer.state_dict()
    step = hd.jit(lambda x: layer(x))
    step(hd.tensor(a))
    step(hd.tensor(a))
    assert layer.num_batches_tracked.item() == 3


def test_containers():
    net = nn.Sequential(nn.Linear(2, 3), hd.relu, nn.Linear(3, 1))
    assert net(hd.ones(4, 2)).shape == (4, 1) and len(net) == 3 and list(net.state_dict())[2] == "2.weight"
    assert len(net[:2]) == 2
    layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    layers.append(nn.ReLU())
    assert len(layers) == 4 and len(layers.parameters()) == 6 and layers[-1] is list(layers)[3]
    named = nn.ModuleDict({"a": nn.Linear(1, 1)})
    assert "a" in named and named["a"].weight.shape == (1, 1) and list(named.state_dict()) == ["a.weight", "a.bias"]
    assert len(nn.ParameterList([hd.ones(2), hd.ones(3)]).parameters()) == 2
    with pytest.raises(TypeError):
        nn.Sequential(3)


def test_losses(rng):
    x, t = hd.tensor(rng.standard_normal((4, 3))), hd.tensor([0, 1, 2, 1])
    assert nn.CrossEntropyLoss()(x, t).item() == hd.cross_entropy(x, t).item()
    assert nn.CrossEntropyLoss(weight=[1.0, 2.0, 3.0], reduction="sum")(x, t).shape == ()
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss(), nn.HuberLoss(delta=2.0), nn.BCEWithLogitsLoss()):
        assert hd.isfinite(loss(x, hd.rand(4, 3, dtype="f64")))
    assert nn.NLLLoss()(x.log_softmax(1), t).item() == pytest.approx(hd.cross_entropy(x, t).item())
    assert nn.functional.sigmoid is hd.sigmoid


def test_first_values():
    w = nn.Parameter(hd.zeros(100, 50))
    nn.init.xavier_uniform_(w)
    assert abs(w.numpy()).max() <= (6 / 150) ** 0.5 and w.requires_grad
    nn.init.normal_(w, std=0.02)
    assert 0.01 < w.std().item() < 0.03
    nn.init.constant_(w, 3)
    assert w.min().item() == 3
    hd.manual_seed(1)
    a = nn.Linear(3, 3).weight.numpy()
    hd.manual_seed(1)
    assert (nn.Linear(3, 3).weight.numpy() == a).all()


def numpy_adam(w, gradient, steps, lr, decay):
    m = v = 0
    for t in range(1, steps + 1):
        g = gradient(w)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w * (1 - lr * decay) - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def test_optimisers_against_numpy(rng):
    a = rng.standard_normal(5)
    for captured in (False, True):
        w = hd.tensor(a, requires_grad=True)
        opt = hd.optim.AdamW([w], lr=0.1, weight_decay=0.01)
        step = lambda: opt.step(hd.grad((w**4).sum(), [w]))  # noqa: E731
        step = hd.jit(step) if captured else step
        for _ in range(5):
            step()
        np.testing.assert_allclose(w.numpy(), numpy_adam(a, lambda v: 4 * v**3, 5, 0.1, 0.01), rtol=1e-6)
    w = hd.tensor(a, requires_grad=True)
    opt = hd.optim.SGD([("w", w)], lr=0.1, momentum=0.9)
    v, b = a.copy(), 0
    for _ in range(4):
        opt.zero_grad()
        (w * w).sum().backward()
        opt.step()
        b = 0.9 * b + 2 * v
        v = v - 0.1 * b
    np.testing.assert_allclose(w.numpy(), v, rtol=1e-6)
    assert opt.steps_done == 4 and any(name.startswith("w.") for name in opt.state_dict())


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Lion", "Adagrad"])
def test_every_optimiser_goes_down(name):
    w = hd.tensor([3.0, -2.0], requires_grad=True)
    opt = getattr(hd.optim, name)([w], lr=0.05)
    first = (w * w).sum().item()
    for _ in range(30):
        opt.step(hd.grad((w * w).sum(), [w]))
    assert (w * w).sum().item() < first
    state = opt.state_dict()
    opt.load_state_dict(state)
    opt.lr = 0.5
    assert opt.lr == 0.5 and opt.parameters()[0].tolist() == w.tolist()


def test_checkpoints_go_on_with_the_same_bits(tmp_path):
    def made():
        hd.manual_seed(3)
        net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        return net, hd.optim.Adam(net.parameters(), lr=0.1)

    def train(net, opt, steps):
        for _ in range(steps):
            opt.step(hd.grad(net(hd.ones(3, 4)).square().sum(), net.parameters()))

    net, opt = made()
    train(net, opt, 3)
    hd.optim.save_checkpoint(tmp_path / "c", net, opt, {"note": "three"})
    train(net, opt, 3)
    other, other_opt = made()
    assert hd.optim.load_checkpoint(tmp_path / "c", other, other_opt) == {"note": "three"}
    train(other, other_opt, 3)
    assert hd.equal(net[0].weight, other[0].weight) and other_opt.steps_done == 6


def test_schedules_groups_and_clipping():
    schedule = hd.optim.warmup(10, hd.optim.cosine(1.0, 100))
    assert schedule(4) == pytest.approx(0.5) and schedule(110) == pytest.approx(0, abs=1e-9)
    assert hd.optim.chain([(hd.optim.constant(1), 5)], 2.0)(7) == 2
    w, b = hd.tensor([1.0], requires_grad=True), hd.tensor([1.0], requires_grad=True)
    opt = hd.optim.SGD([{"params": [w], "lr_factor": 10.0}, {"params": [b]}], lr=hd.optim.step_decay(0.01, 1, 0.5))
    opt.step([hd.ones(1), hd.ones(1)])
    opt.step([hd.ones(1), hd.ones(1)])
    assert w.item() == pytest.approx(0.85) and b.item() == pytest.approx(0.985)
    clipped, norm = hd.optim.clip_grad_norm([hd.tensor([3.0]), hd.tensor([4.0])], 1.0)
    assert norm.item() == 5 and clipped[0].item() == pytest.approx(0.6)
    assert hd.optim.clip_grad_value([hd.tensor([3.0, -0.5])], 1.0)[0].tolist() == [1, -0.5]
    with pytest.raises(TypeError):
        hd.optim.SGD(w)
    with pytest.raises(ValueError):
        hd.optim.SGD([{"params": [w], "speed": 3}])
    with pytest.raises((ValueError, hd.Error)):
        opt.step([hd.ones(1)])


def test_a_network_learns_digits(capfd):
    images, labels = hd.data.digits(1500, seed=1)
    loader = hd.data.batches(images.reshape(-1, 784), labels, size=100, shuffle_seed=1)
    hd.manual_seed(0)

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(784, 64), nn.Linear(64, 10)

        def forward(self, x):
            return self.b(self.a(x).relu())

    net = Perceptron()
    opt = hd.optim.AdamW(net.parameters(), lr=3e-3)

    @hd.jit
    def step(x, t):
        loss = hd.cross_entropy(net(x), t)
        opt.step(hd.grad(loss, net.parameters()))
        return loss

    losses = []
    for _ in range(6):
        bar = hd.progress(loader, label="epoch")
        for x, t in bar:
            losses.append(step(x, t))
            bar.set("loss", losses[-1])
    assert len(loader) == 15 and losses[-1].item() < 0.4 * losses[0].item()
    correct = (net(images.reshape(-1, 784)).argmax(1) == labels).float().mean().item()
    assert correct > 0.9 and "epoch" in capfd.readouterr().err
    assert step.plans()[0]["copied"] == 0 and step.plans()[0]["recordings"] == 2


def test_a_small_transformer_trains():
    hd.manual_seed(0)

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(width), nn.MultiheadAttention(width, 2, is_causal=True)
            self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

        def forward(self, x):
            x = x + self.attention(self.norm(x))
            return x + self.mlp(x)

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(11, 16), nn.Embedding(8, 16)
            self.blocks = nn.ModuleList([Block(16) for _ in range(2)])
            self.head = nn.Linear(16, 11)

        def forward(self, ids):
            x = self.tokens(ids) + self.positions(hd.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    net = GPT()
    opt = hd.optim.Adam(net.parameters(), lr=1e-2)
    ids = hd.tensor([[(i * 3 + j) % 11 for j in range(9)] for i in range(8)])

    @hd.jit
    def step(x):
        loss = hd.cross_entropy(net(x[:, :-1]).reshape(-1, 11), x[:, 1:].reshape(-1))
        gradients, norm = hd.optim.clip_grad_norm(hd.grad(loss, net.parameters()), 1.0)
        opt.step(gradients)
        return loss, norm

    losses = [step(ids)[0].item() for _ in range(60)]
    assert losses[-1] < 0.3 * losses[0]
