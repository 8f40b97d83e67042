#!/usr/bin/env python3
"""PyTorch beside Heddle: eager, or with --compile through torch.compile."""

import itertools
import os
import sys
from functools import lru_cache

import models
import patterns
from peer import Missing, Skip, main


def load(arguments):
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    if arguments.compile and not hasattr(torch, "compile"):
        raise Missing(f"torch.compile: PyTorch {torch.__version__} has none")

    if arguments.device == "cuda":
        if not torch.cuda.is_available():
            raise Missing("PyTorch finds no GPU")
        torch.set_default_device("cuda")
        torch.backends.cuda.matmul.allow_tf32 = os.environ.get("HEDDLE_FLOAT32_MATMUL") == "tf32"

    def made(function):
        return torch.compile(function) if arguments.compile else function

    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}

    def dtype_of(row):
        if row["dtype"] not in dtypes:
            raise Skip(f"no {row['dtype']}")
        return dtypes[row["dtype"]]

    class Ops:
        relu = staticmethod(F.relu)

        @staticmethod
        def gelu(x):
            return F.gelu(x, approximate="tanh")

        @staticmethod
        def layer_norm(x, gain, bias):
            return F.layer_norm(x, x.shape[-1:], gain, bias)

        @staticmethod
        def attention(q, k, v, causal):
            if hasattr(F, "scaled_dot_product_attention"):
                return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
            if causal:
                mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
                scores = scores.masked_fill(mask, float("-inf"))
            return torch.softmax(scores, -1) @ v

        @staticmethod
        def conv2d(x, w, stride, padding):
            return F.conv2d(x, w, stride=stride, padding=padding)

        @staticmethod
        def max_pool_3_2_1(x):
            return F.max_pool2d(x, 3, 2, 1)

        @staticmethod
        def mean_over(x, axes):
            return x.mean(axes)

    def parameters(shapes, dtype=torch.float32):
        return {name: torch.randn(shape, dtype=dtype) * 0.02 for name, shape in shapes.items()}

    def inference(function):
        @torch.no_grad()
        def run():
            return function()

        return run

    def narrow_matmul(row):
        """Bytes with wide sums, on a GPU: both factors along the sum."""
        n, k, m = row["n"], row["k"], row["m"]
        if row["device"] != "cuda" or row["transpose"] != "nt":
            raise Skip(f"no {row['dtype']}")
        a, b = (torch.randn(rows, k) * 20 for rows in (m, n))
        if row["dtype"] == "i8":
            a, b = a.to(torch.int8), b.to(torch.int8).t()
            return inference(lambda: torch._int_mm(a, b))
        a, b, one = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t(), torch.ones(())
        return inference(lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16))

    def matmul(row):
        if row["dtype"] in ("i8", "f8e4m3") and row.get("device") == "cuda":
            return narrow_matmul(row)
        dtype, batch = dtype_of(row), row["batch"]

        def factor(rows, columns, transposed):
            shape = (columns, rows) if transposed else (rows, columns)
            x = torch.randn(*([batch] if batch > 1 else []), *shape).to(dtype)
            return x.swapaxes(-1, -2) if transposed else x

        def factors():
            return (
                factor(row["m"], row["k"], row["transpose"][0] == "t"),
                factor(row["k"], row["n"], row["transpose"][1] == "t"),
            )

        if row.get("sets", 1) > 1:
            sets = itertools.cycle([factors() for _ in range(row["sets"])])
            multiply = made(lambda x, y: x @ y)
            return inference(lambda: multiply(*next(sets)))
        a, b = factors()
        if arguments.compile:
            multiply = made(lambda x, y: x @ y)
            return inference(lambda: multiply(a, b))
        out = a @ b
        return inference(lambda: torch.matmul(a, b, out=out))

    def conv(row):
        dtype = dtype_of(row)
        x = torch.randn(row["batch"], row["channels"], row["height"], row["width"]).to(dtype)
        w = torch.randn(row["filters"], row["channels"] // row.get("groups", 1), row["kernel"], row["kernel"]).to(dtype)
        if row.get("layout") == "nhwc":
            x, w = (t.contiguous(memory_format=torch.channels_last) for t in (x, w))
        convolve = made(lambda x, w: F.conv2d(x, w, None, row["stride"], row["padding"], 1, row.get("groups", 1)))
        return inference(lambda: convolve(x, w))

    def attention(row):
        shape = (row.get("batch", 1), row["heads"], row["time"], row["width"])
        q, k, v, g = (torch.randn(shape).to(dtype_of(row)) for _ in range(4))
        backend = row.get("backend")  # "flash": only that; else what PyTorch prefers

        def attend(q, k, v):
            if backend != "flash":
                return Ops.attention(q, k, v, row["causal"])
            from torch.nn.attention import SDPBackend, sdpa_kernel

            with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
                return Ops.attention(q, k, v, row["causal"])

        forward = made(attend)
        if not row.get("backward"):
            return inference(lambda: forward(q, k, v))
        for x in (q, k, v):
            x.requires_grad_()
        return lambda: torch.autograd.grad(forward(q, k, v), (q, k, v), g)

    def optimizer(parameters):
        try:
            if arguments.device == "cuda":  # its count of steps lives there too, so that a graph can hold it
                return torch.optim.AdamW(parameters, lr=1e-4, fused=True, capturable=True)
            return torch.optim.AdamW(parameters, lr=1e-4, fused=True)
        except (TypeError, RuntimeError):  # older versions fuse on GPUs only
            return torch.optim.AdamW(parameters, lr=1e-4, foreach=True)

    def training_step(p, loss_of):
        leaves = [x.requires_grad_() for x in p.values()]
        optimize, loss = optimizer(leaves), made(loss_of)

        def step():
            optimize.zero_grad(set_to_none=True)
            loss().backward()
            optimize.step()

        return step

    def mlp_step(row):
        sizes = row["sizes"]
        p = parameters(models.mlp_shapes(sizes), dtype_of(row))
        x, t = torch.randn(row["batch"], sizes[0]).to(dtype_of(row)), torch.randint(0, sizes[-1], (row["batch"],))
        return training_step(p, lambda: F.cross_entropy(models.mlp(Ops, p, x), t))

    def ids(row):
        return torch.randint(0, models.VOCABULARY, (row["batch"], row["tokens"]))

    def gpt2_forward(row):
        p, tokens = parameters(models.gpt2_shapes(), dtype_of(row)), ids(row)
        forward = made(lambda tokens: models.gpt2(Ops, p, tokens))
        return inference(lambda: forward(tokens))

    def gpt2_step(row):
        p, tokens, targets = parameters(models.gpt2_shapes(), dtype_of(row)), ids(row), ids(row)
        return training_step(p, lambda: F.cross_entropy(models.gpt2(Ops, p, tokens).flatten(0, 1), targets.flatten()))

    def resnet18(row):
        p, x = parameters(models.resnet18_shapes()), torch.randn(row["batch"], 3, 224, 224)
        forward = made(lambda x: models.resnet18(Ops, p, x))
        return inference(lambda: forward(x))

    def zoo(row):
        """A model of zoo.py: inference, or a step of training."""
        import zoo as models_of_zoo

        dtype = dtype_of(row)
        state = models_of_zoo.read(row["file"]) if "file" in row else None
        net = models_of_zoo.make(row["model"], True, state, dtype)
        batch = models_of_zoo.batch_of(row["data"], dtype)
        if row["what"] == "forward":
            forward = made(net.eval())
            return inference(lambda: forward(batch))
        if arguments.compile:
            if not hasattr(net, "loss"):
                raise Skip("not compiled")
            net.loss = torch.compile(net.loss)
        first = {name: tensor.clone() for name, tensor in net.state_dict().items()}

        def step():
            return net.step(batch)

        step.restore = lambda: net.load_state_dict(first)
        return step

    def rms_norm(x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)

    def add(row):
        x, y = torch.randn(row["count"]), torch.randn(row["count"])
        function = made(lambda x, y: x + y)
        return inference(lambda: function(x, y))

    over = {"rows": -1, "columns": 0, "everything": None}
    memory_cases = {
        "copy": lambda x, y: x.clone(),
        "x + y": lambda x, y: x + y,
        "exp(x)": lambda x, y: torch.exp(x),
        "gelu(2x + 1) * sigmoid(x)": lambda x, y: F.gelu(x * 2 + 1) * torch.sigmoid(x),
        "tanh(x)": lambda x, y: torch.tanh(x),
        "erf(x)": lambda x, y: torch.erf(x),
        "dropout(x)": lambda x, y: F.dropout(x, 0.1),
        "where(x > 0, x, y)": lambda x, y: torch.where(x > 0, x, y),
        "cast to bf16": lambda x, y: x.to(torch.bfloat16),
        "softmax": lambda x, y: torch.softmax(x, -1),
        "log_softmax": lambda x, y: torch.log_softmax(x, -1),
        "layernorm": lambda x, y: F.layer_norm(x, x.shape[-1:]),
        "rmsnorm": lambda x, y: rms_norm(x),
        "cumsum along rows": lambda x, y: torch.cumsum(x, -1),
        "cumsum along columns": lambda x, y: torch.cumsum(x, 0),
        "cumsum of everything": lambda x, y: torch.cumsum(x.flatten(), 0),
        "transpose, copied": lambda x, y: x.t().contiguous(),
    }
    for where, axis in over.items():
        axes = (0, 1) if axis is None else (axis,)
        memory_cases |= {
            f"sum over {where}": lambda x, y, a=axes: torch.sum(x, a),
            f"max over {where}": lambda x, y, a=axes: torch.amax(x, a),
            f"mean over {where}": lambda x, y, a=axes: torch.mean(x, a),
            f"var over {where}": lambda x, y, a=axes: torch.var(x, a, unbiased=False),
            f"argmax over {where}": lambda x, y, a=axis: torch.argmax(x, a) if a is not None else torch.argmax(x),
            f"logsumexp over {where}": lambda x, y, a=axes: torch.logsumexp(x, a),
        }

    @lru_cache(maxsize=1)  # many rows in turn have the same
    def large(rows, columns, dtype):
        return torch.randn(rows, columns).to(dtype), torch.randn(rows, columns).to(dtype)

    def memory(row):
        if row["name"] not in memory_cases:
            raise Skip("not written for it")
        x, y = large(row["rows"], row["columns"], dtype_of(row))
        function = made(memory_cases[row["name"]])
        return inference(lambda: function(x, y))

    def pattern(row):
        action = patterns.make(torch, F, row)
        if action is None:
            raise Skip("not written for it")
        return action if "backward" in row["name"] or "gradients" in row["name"] else inference(action)

    def captured(action, count):
        """`count` calls as one CUDA graph."""
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(3):
                action()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                action()
        return graph.replay

    def on_device(work):
        """On a GPU an action is `repeat` calls and one wait."""

        def make(row):
            action = work(row)
            if row.get("device", "cpu") == "cpu":
                return action
            repeat = row["repeat"]
            if row["captured"]:
                several, repeat = captured(action, row["repeat"]), 1
            else:
                several = action

            def run():
                for _ in range(repeat):
                    several()
                torch.cuda.synchronize()

            return run

        return make

    works = [matmul, conv, attention, mlp_step, gpt2_forward, gpt2_step, resnet18, zoo, memory, pattern, add]
    return {"about": torch.__version__, "works": {work.__name__: on_device(work) for work in works}}


if __name__ == "__main__":
    main("torch.compile" if "--compile" in sys.argv else "PyTorch", load, ["--compile"])
