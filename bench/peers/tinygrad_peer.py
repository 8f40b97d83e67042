#!/usr/bin/env python3
"""tinygrad beside Heddle: its CPU device, every row captured by TinyJit."""

import os

import models
from peer import Skip, main


def load(arguments):
    os.environ["DEV"] = os.environ.get("DEV", "CPU")
    os.environ["CPU"] = "1"
    os.environ["CPU_COUNT"] = str(arguments.threads)
    from importlib.metadata import version

    from tinygrad import Context, Device, Tensor, TinyJit, dtypes
    from tinygrad.nn.optim import AdamW

    names = {"f32": dtypes.float32, "bf16": dtypes.bfloat16, "f16": dtypes.float16}

    def dtype_of(row):
        if row["dtype"] not in names:
            raise Skip(f"no {row['dtype']}")
        return names[row["dtype"]]

    def noise(shape, dtype=dtypes.float32, scale=1.0):
        return (Tensor.randn(*shape) * scale).cast(dtype).contiguous().realize()

    def timed(function, *values):
        compiled = TinyJit(lambda *inputs: function(*inputs).realize())

        def run():
            compiled(*values)
            Device[Device.DEFAULT].synchronize()

        for _ in range(3):  # it records at the second call
            run()
        return run

    class Ops:
        @staticmethod
        def relu(x):
            return x.relu()

    def matmul(row):
        dtype, batch = dtype_of(row), row["batch"]
        a_transposed, b_transposed = (letter == "t" for letter in row["transpose"])

        def factor(rows, columns, transposed):
            shape = (columns, rows) if transposed else (rows, columns)
            return noise((batch, *shape) if batch > 1 else shape, dtype)

        def multiply(x, y):
            x = x.transpose(-1, -2) if a_transposed else x
            y = y.transpose(-1, -2) if b_transposed else y
            return x @ y

        a, b = factor(row["m"], row["k"], a_transposed), factor(row["k"], row["n"], b_transposed)
        return timed(multiply, a, b)

    def conv(row):
        dtype, groups = dtype_of(row), row.get("groups", 1)
        x = noise((row["batch"], row["channels"], row["height"], row["width"]), dtype)
        w = noise((row["filters"], row["channels"] // groups, row["kernel"], row["kernel"]), dtype)
        return timed(lambda x, w: x.conv2d(w, None, groups, row["stride"], 1, row["padding"]), x, w)

    def attention(row):
        if row.get("backward"):
            raise Skip("forward only")
        shape = (row.get("batch", 1), row["heads"], row["time"], row["width"])
        q, k, v = (noise(shape, dtype_of(row)) for _ in range(3))
        return timed(lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=row["causal"]), q, k, v)

    def mlp_step(row):
        sizes = row["sizes"]
        p = {name: noise(shape, scale=0.02) for name, shape in models.mlp_shapes(sizes).items()}
        optimizer = AdamW(list(p.values()), lr=1e-4)
        t = Tensor.randint(row["batch"], low=0, high=sizes[-1]).realize()

        def step(x):
            with Context(TRAINING=1):
                optimizer.zero_grad()
                loss = models.mlp(Ops, p, x).sparse_categorical_crossentropy(t).backward()
                optimizer.step()
                return loss

        return timed(step, noise((row["batch"], sizes[0])))

    def memory(row):
        cases = {"x + y": lambda x, y: x + y, "exp(x)": lambda x, y: x.exp(), "softmax": lambda x, y: x.softmax(-1),
                 "layernorm": lambda x, y: x.layernorm(-1), "sum over rows": lambda x, y: x.sum(-1),
                 "sum over columns": lambda x, y: x.sum(0), "transpose, copied": lambda x, y: x.T.contiguous()}
        if row["name"] not in cases:
            raise Skip("not written for it")
        x, y = (noise((row["rows"], row["columns"]), dtype_of(row)) for _ in range(2))
        return timed(cases[row["name"]], x, y)

    works = [matmul, conv, attention, mlp_step, memory]
    return {"about": version("tinygrad"), "works": {work.__name__: work for work in works}}


if __name__ == "__main__":
    main("tinygrad", load)
