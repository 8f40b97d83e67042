"""GPT-2. Names and shapes of tensors are those of the published files: weights inside a block are [inputs, outputs]."""

from collections import namedtuple

from .. import _core, nn


class GPT2Config(
    namedtuple(
        "GPT2Config",
        "vocabulary context width layers heads dropout dtype",
        defaults=(50257, 1024, 768, 12, 12, 0.0, "float32"),
    )
):
    """Sizes of a GPT-2; those that are not given are the small one's.

    >>> hd.models.GPT2Config(layers=2, width=64, heads=4).context
    1024
    """

    __slots__ = ()


def gpt2_tiny():
    """2 layers of 64, 256 tokens: for tests.

    >>> hd.models.gpt2_tiny().width
    64
    """
    return GPT2Config(vocabulary=256, context=64, width=64, layers=2, heads=4)


def gpt2_small():
    """124 million parameters.

    >>> hd.models.gpt2_small().layers
    12
    """
    return GPT2Config()


def gpt2_medium():
    """355 million parameters.

    >>> hd.models.gpt2_medium().layers
    24
    """
    return GPT2Config(width=1024, layers=24, heads=16)


def gpt2_large():
    """774 million parameters.

    >>> hd.models.gpt2_large().layers
    36
    """
    return GPT2Config(width=1280, layers=36, heads=20)


def gpt2_xl():
    """1558 million parameters.

    >>> hd.models.gpt2_xl().layers
    48
    """
    return GPT2Config(width=1600, layers=48, heads=25)


class _Linear(nn.Module):
    """x W + b over the last axis."""

    def __init__(self, state, name):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(state[f"{name}.{part}"]) for part in ("weight", "bias"))

    def forward(self, x):
        return x @ self.weight + self.bias


class _Attention(nn.Module):
    def __init__(self, config, state, name):
        super().__init__()
        self.c_attn, self.c_proj = _Linear(state, f"{name}.c_attn"), _Linear(state, f"{name}.c_proj")
        self.dropout, self.heads = nn.Dropout(config.dropout), config.heads

    def forward(self, x):
        time, width = x.shape[-2:]
        parts = self.c_attn(x).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, width // self.heads)).swapaxes(-3, -2) for part in parts)
        scores = q @ k.mT * (width // self.heads) ** -0.5
        scores = _core.where(_core.tri(time, time, dtype=_core.bool), scores, -float("inf"))
        mixed = self.dropout(_core.softmax(scores, -1)) @ v
        return self.c_proj(mixed.swapaxes(-3, -2).flatten(-2))


class _Perceptron(nn.Module):
    def __init__(self, state, name):
        super().__init__()
        self.c_fc, self.c_proj = _Linear(state, f"{name}.c_fc"), _Linear(state, f"{name}.c_proj")

    def forward(self, x):
        return self.c_proj(_core.gelu(self.c_fc(x), "tanh"))


class _Block(nn.Module):
    def __init__(self, config, state, name):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.width, dtype=config.dtype)
        self.attn = _Attention(config, state, f"{name}.attn")
        self.ln_2 = nn.LayerNorm(config.width, dtype=config.dtype)
        self.mlp = _Perceptron(state, f"{name}.mlp")
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        x = x + self.dropout(self.attn(self.ln_1(x)))
        return x + self.dropout(self.mlp(self.ln_2(x)))


def _table(weight):
    embedding = nn.Embedding(1, 1, dtype=weight.dtype, generator=_core.Generator())
    embedding.weight = nn.Parameter(weight)
    embedding.num_embeddings, embedding.embedding_dim = weight.shape
    return embedding


class GPT2(nn.Module):
    """Tokens [batch, time] to logits [batch, time, vocabulary].

    >>> net = hd.models.GPT2(hd.models.gpt2_tiny())
    >>> net(hd.zeros(1, 8, dtype=hd.int64)).shape
    (1, 8, 256)
    """

    def __init__(self, config=None, generator=None):
        super().__init__()
        config = config or gpt2_small()
        self.config = config
        sizes = (config.vocabulary, config.context, config.width, config.layers, config.heads)
        state = _core._gpt2_state(*sizes, config.dtype, generator)
        self.wte, self.wpe = _table(state["wte.weight"]), _table(state["wpe.weight"])
        self.dropout = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(_Block(config, state, f"h.{i}") for i in range(config.layers))
        self.ln_f = nn.LayerNorm(config.width, dtype=config.dtype)

    def forward(self, ids):
        time = ids.shape[-1]
        if time > self.config.context:
            raise _core.ShapeError(f"GPT2: {time} tokens; the context has {self.config.context} places")
        x = self.dropout(self.wte(ids) + self.wpe.weight[:time])
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T

    def loss(self, ids, targets):
        """The mean cross-entropy of targets [batch, time].

        >>> net = hd.models.GPT2(hd.models.gpt2_tiny())
        >>> ids = hd.zeros(1, 8, dtype=hd.int64)
        >>> net.loss(ids, ids).shape
        ()
        """
        return _core.cross_entropy(self(ids).flatten(0, -2), targets.flatten())
