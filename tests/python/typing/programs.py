"""What people write, as type checkers see it: `make typecheck`. Lines with a mistake say so, and a checker that finds
none there complains."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_type

import numpy as np

import heddle as hd
from heddle import nn

# Tensors

x = hd.randn(4, 5)
assert_type(x, hd.Tensor)
assert_type(x * 2 + 1, hd.Tensor)
assert_type(2 / x, hd.Tensor)
assert_type(x == x, hd.Tensor)
assert_type(x @ x.T, hd.Tensor)
assert_type(-x, hd.Tensor)
assert_type(x.shape, tuple[int, ...])
assert_type(x.sum(0), hd.Tensor)
assert_type(x.sum(axis=(0, 1), keepdims=True), hd.Tensor)
assert_type(hd.sum(x, dim=-1, keepdim=True), hd.Tensor)
assert_type(x.to(hd.float16), hd.Tensor)
assert_type(x.to("cuda").cpu().float().bool(), hd.Tensor)
assert_type(x.reshape(-1, 2).reshape([2, -1]).permute(1, 0), hd.Tensor)
assert_type(x[0, ..., None, 1:-1:2], hd.Tensor)
assert_type(x[x > 0], hd.Tensor)
assert_type(x.sort(dim=0).values, hd.Tensor)
assert_type(x.device, hd.device)
assert_type(x.device.index, int)
assert_type(x.grad, hd.Tensor | None)
assert_type(x.unsqueeze(axis=0), hd.Tensor)
assert_type(hd.where(x > 0, x, 0.0), hd.Tensor)
assert_type(hd.cat([x, x], dim=1), hd.Tensor)
assert_type(hd.zeros(2, 3, dtype=hd.int64, device="cpu"), hd.Tensor)
assert_type(hd.tensor([[1.0, 2.0], [3.0, 4.0]], dtype="float16"), hd.Tensor)
assert_type(hd.tensor(np.ones(3)) + np.ones(3), hd.Tensor)
assert_type(hd.einsum("ij,jk->ik", x, x.T), hd.Tensor)
assert_type(x.add_(1).relu_(), hd.Tensor)
assert_type([row.sum() for row in x], list[hd.Tensor])
assert_type(float(x.sum()), float)
assert_type(len(x), int)
assert_type(hd.unique(x), hd.Tensor)
assert_type(x.split(2), tuple[hd.Tensor, ...])
array: np.ndarray[Any, Any] = x.numpy()
number: float = x.sum().item()
x[0] = 1.0
x[:, [0, 2]] = hd.zeros(4, 2)
x += 1
y = x.clone()
y -= 0.5

hd.sum("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
x.reshape("4")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
x.sum(direction=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
x.softmaxx(0)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
hd.no_such_function(x)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
hd.randn(2, 2, dtype=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
x + "one"  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnusedExpression]
x["name"]  # type: ignore[index]  # pyright: ignore[reportArgumentType]
x.shape = (20,)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
hd.unsqueeze(x)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
wrong: int = x.sum()  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


# Modules and training


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(784, width), nn.Linear(width, 10)
        self.scale = nn.Parameter(hd.ones(10))
        self.blocks = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])

    def forward(self, x: hd.Tensor) -> hd.Tensor:
        x = self.a(x).relu()
        for block in self.blocks:
            x = block(x)
        return self.b(x) * self.scale


net = Net(64).train()
assert_type(net, Net)
assert_type(net.a.weight, nn.Parameter)
assert_type(net.a(x), hd.Tensor)
assert_type(net.parameters(), list[nn.Parameter])
assert_type(net.state_dict(), dict[str, hd.Tensor])
net.load_state_dict(net.state_dict())
opt = hd.optim.AdamW(net.parameters(), lr=hd.optim.warmup(10, hd.optim.cosine(1e-3, 100)))


@hd.jit
def step(images: hd.Tensor, labels: hd.Tensor) -> hd.Tensor:
    loss = hd.cross_entropy(net(images), labels, label_smoothing=0.1)
    opt.step(hd.grad(loss, net.parameters()))
    return loss


images, labels = hd.data.digits(100, seed=1)
for batch, target in hd.progress(hd.data.batches(images, labels, size=10)):
    assert_type(step(batch, target), hd.Tensor)
assert_type(step(images, labels).item(), bool | int | float)
assert_type([i for i in hd.progress(3)], list[int])
plans: list[dict[str, Any]] = step.plans()
step(images)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
hd.cross_entropy(images, labels, smoothing=0.1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
nn.Linear("784", 10)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
hd.optim.AdamW(net.parameters(), rate=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Conv2d(1, 2, 3, padding="same"))


class Counter:
    @hd.jit
    def double(self, x: hd.Tensor) -> hd.Tensor:
        return x * 2


assert_type(Counter().double(x), hd.Tensor)


class Squares(hd.utils.data.Dataset[tuple[int, int]]):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, index * index

    def __len__(self) -> int:
        return 4


train, held_out = hd.utils.data.random_split(Squares(), [3, 1], generator=hd.random.Generator(1))
assert_type(train[0], tuple[int, int])
for batch in hd.utils.data.DataLoader(train, batch_size=2, shuffle=True):
    pass
for (batch,) in hd.utils.data.DataLoader(hd.utils.data.TensorDataset(images), batch_size=None):
    pass
hd.utils.data.DataLoader(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
scheduler = hd.optim.lr_scheduler.StepLR(opt, step_size=2)
scheduler.step()
assert_type(scheduler.get_last_lr(), list[float])
for group in opt.param_groups:
    group["lr"] = 0.1
opt.zero_grad(set_to_none=False)
gpt = hd.models.GPT2(hd.models.GPT2Config(layers=2))
assert_type(gpt(x), hd.Tensor)
assert_type(gpt.config.width, int)
assert_type(hd.models.ResNet().eval(), hd.models.ResNet)
assert_type(nn.functional.relu(x, inplace=True), hd.Tensor)
nn.init.kaiming_normal_(net.a.weight, mode="fan_out", nonlinearity="relu")
hd.plot.write_loss_curve("loss.svg", {"train": [3, 2.5], "test": x}, log_scale=True)
hd.plot.write_loss_curve("loss.svg", [3.0, 2.0])
assert_type(hd.graph(x.sum()).nodes[0].op, str)
assert_type(hd.cuda.device_count(), int)
assert_type(hd.float, hd.dtype)


# Kernels


@hd.kernel
def softmax(k: hd.KernelBuilder, t: hd.KernelTensor) -> None:
    out = k.output(t.shape, t.dtype)
    row, j = k.block(t.shape[0]), k.range(t.shape[1])
    weights = k.exp(t[row, j] - k.max(t[row, j], j))
    assert_type(weights * 2 + 1, hd.Tile)
    assert_type(weights == 1, hd.Tile)
    out[row, j] = weights / k.sum(weights, j)


@hd.kernel(threads=128)
def doubled(k: hd.KernelBuilder, t: hd.KernelTensor, block: int = 4) -> None:
    i = k.block(-(-t.shape[0] // block)) * block + k.range(block)
    k.store(k.output(t.shape, t.dtype), i, t[i] * 2, mask=i < t.shape[0])
    t["0"]  # type: ignore[index]  # pyright: ignore[reportArgumentType]


normed: hd.Tensor = softmax(x)

# Transforms


def square(x: hd.Tensor, power: int = 2) -> hd.Tensor:
    return (x**power).sum()


def with_rest(x: hd.Tensor) -> tuple[hd.Tensor, str]:
    return x.sum(), "rest"


def nested(p: dict[str, hd.Tensor], x: hd.Tensor) -> hd.Tensor:
    return (p["w"] * x).sum()


w = {"w": hd.ones(3)}
assert_type(hd.grad(square)(x, 3), hd.Tensor)
assert_type(hd.grad(with_rest, has_aux=True)(x), tuple[hd.Tensor, str])
assert_type(hd.grad(nested)(w, x), dict[str, hd.Tensor])
assert_type(hd.value_and_grad(nested)(w, x), tuple[hd.Tensor, dict[str, hd.Tensor]])
assert_type(hd.grad(square(x), x), hd.Tensor)
assert_type(hd.grad(square(x), [x, x]), list[hd.Tensor])
assert_type(hd.grad(nested(w, x), w), dict[str, hd.Tensor])
assert_type(hd.vmap(square)(x), hd.Tensor)
assert_type(hd.checkpoint(square, x, 2), hd.Tensor)
assert_type(hd.jacobian(lambda t: t * 2, x), hd.Tensor)
value, pull = hd.vjp(square, x, 2)
assert_type(value, hd.Tensor)
assert_type(pull(value), tuple[hd.Tensor, int])
with hd.no_grad():
    pass
hd.grad(square)("x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
hd.vmap(square, in_axes="0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

# Control flow

assert_type(hd.while_loop(lambda v: v < 100, lambda v: v * 2, hd.tensor(3.0)), hd.Tensor)
assert_type(hd.cond(x.sum() > 0, lambda v: v, lambda v: -v, x), hd.Tensor)


def cell(state: hd.Tensor, x: hd.Tensor) -> tuple[hd.Tensor, hd.Tensor]:
    return state + x, state


assert_type(hd.scan(cell, hd.zeros(5), x), tuple[hd.Tensor, hd.Tensor])

# Files, errors, the array API


@dataclass
class Pair:
    a: hd.Tensor
    b: hd.Tensor


def rows(path: str) -> Iterator[hd.Tensor]:
    try:
        yield from hd.load_safetensors(path).values()
    except hd.ShapeError as error:
        raise ValueError(str(error)) from error


hd.save({"w": x}, "w.hd")
hd.optim.save_checkpoint("c.safetensors", net, opt, hd.io.safetensors_metadata("w.safetensors"))
assert_type(hd.tree_leaves(Pair(x, x)), list[Any])
xp = hd.array_api
assert_type(xp.sum(xp.asarray([1.0, 2.0]), axis=0, keepdims=True), hd.Tensor)
assert_type(xp.unique_counts(x).counts, hd.Tensor)
xp.sum(x, 0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
