"""Models, written once for libraries whose arrays look like NumPy's. `ops` gives what they spell differently.

Parameters are a dictionary of arrays; shapes_*() says which.
"""


def mlp_shapes(sizes):
    shapes = {}
    for i, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        shapes |= {f"{i}.weight": (inputs, outputs), f"{i}.bias": (outputs,)}
    return shapes


def mlp(ops, p, x):
    layers = len(p) // 2
    for i in range(layers):
        x = x @ p[f"{i}.weight"] + p[f"{i}.bias"]
        if i + 1 < layers:
            x = ops.relu(x)
    return x


VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS = 50257, 1024, 768, 12, 12  # GPT-2 124M


def gpt2_shapes():
    shapes = {"tokens": (VOCABULARY, WIDTH), "places": (CONTEXT, WIDTH)}
    for i in range(LAYERS):
        for norm in ["norm1", "norm2"]:
            shapes |= {f"{i}.{norm}.gain": (WIDTH,), f"{i}.{norm}.bias": (WIDTH,)}
        for name, inputs, outputs in [("qkv", 1, 3), ("out", 1, 1), ("up", 1, 4), ("down", 4, 1)]:
            shapes |= {f"{i}.{name}.weight": (inputs * WIDTH, outputs * WIDTH), f"{i}.{name}.bias": (outputs * WIDTH,)}
    return shapes | {"norm.gain": (WIDTH,), "norm.bias": (WIDTH,)}


def gpt2(ops, p, ids):
    batch, time = ids.shape

    def linear(name, x):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    def norm(name, x):
        return ops.layer_norm(x, p[name + ".gain"], p[name + ".bias"])

    x = p["tokens"][ids] + p["places"][:time]
    for i in range(LAYERS):
        qkv = linear(f"{i}.qkv", norm(f"{i}.norm1", x)).reshape(batch, time, 3, HEADS, WIDTH // HEADS)
        q, k, v = (qkv[:, :, j].swapaxes(1, 2) for j in range(3))
        heads = ops.attention(q, k, v, True)
        x = x + linear(f"{i}.out", heads.swapaxes(1, 2).reshape(batch, time, WIDTH))
        x = x + linear(f"{i}.down", ops.gelu(linear(f"{i}.up", norm(f"{i}.norm2", x))))
    return norm("norm", x) @ p["tokens"].T


RESNET_STAGES = [(64, 1), (128, 2), (256, 2), (512, 2)]


def resnet18_shapes():
    """Convolutions with the scale and shift that a batch norm is at inference."""
    shapes = {}

    def conv(name, inputs, outputs, size):
        shapes[f"{name}.weight"] = (outputs, inputs, size, size)
        shapes[f"{name}.scale"] = shapes[f"{name}.shift"] = (1, outputs, 1, 1)

    conv("first", 3, 64, 7)
    inputs = 64
    for s, (outputs, stride) in enumerate(RESNET_STAGES):
        for block in range(2):
            conv(f"{s}.{block}.1", inputs, outputs, 3)
            conv(f"{s}.{block}.2", outputs, outputs, 3)
            if inputs != outputs:
                conv(f"{s}.{block}.short", inputs, outputs, 1)
            inputs = outputs
    return shapes | {"last.weight": (512, 1000), "last.bias": (1000,)}


def resnet18(ops, p, x):
    def conv(name, x, stride, padding):
        return ops.conv2d(x, p[f"{name}.weight"], stride, padding) * p[f"{name}.scale"] + p[f"{name}.shift"]

    x = ops.max_pool_3_2_1(ops.relu(conv("first", x, 2, 3)))
    for s, (_, first_stride) in enumerate(RESNET_STAGES):
        for block in range(2):
            stride = first_stride if block == 0 else 1
            y = ops.relu(conv(f"{s}.{block}.1", x, stride, 1))
            y = conv(f"{s}.{block}.2", y, 1, 1)
            if f"{s}.{block}.short.weight" in p:
                x = conv(f"{s}.{block}.short", x, stride, 0)
            x = ops.relu(x + y)
    return ops.mean_over(x, (2, 3)) @ p["last.weight"] + p["last.bias"]
