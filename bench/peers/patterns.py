"""The patterns of `heddle bench patterns`, as PyTorch has them."""


def make(torch, F, row):
    """The action of a row, or None if it is not written down here."""
    x = [(torch.randn(shape) * 0.2).to(torch.bfloat16) for shape in row["inputs"]]

    def conv(stride=1, padding=0, groups=1):
        function = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x[0].dim()]
        return lambda: function(x[0], x[1], None, stride, padding, 1, groups)

    def conv_backward(mask):
        return lambda: torch.ops.aten.convolution_backward(
            x[2], x[0], x[1], None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
        )

    def attention(causal=True):
        grouped = x[0].shape[1] != x[1].shape[1]
        return lambda: F.scaled_dot_product_attention(*x[:3], is_causal=causal, enable_gqa=grouped)

    def gradients(count, forward):
        def step():
            return torch.autograd.grad(forward(), x[:count], x[-1])

        for leaf in x[:count]:
            leaf.requires_grad_()
        return step

    cases = {
        "conv 3x3 forward": lambda: conv(padding=1),
        "conv 3x3 by input": lambda: conv_backward([True, False, False]),
        "conv 3x3 by weight": lambda: conv_backward([False, True, False]),
        "conv 3x3 strided": lambda: conv(stride=2, padding=1),
        "conv 7x7 stem": lambda: conv(stride=2, padding=3),
        "conv 1-d": lambda: conv(padding=2),
        "conv 3-d": lambda: conv(padding=1),
        "conv grouped": lambda: conv(padding=1, groups=8),
        "conv transposed 4x4": lambda: lambda: F.conv_transpose2d(x[0], x[1], None, 2, 1),
        "conv 1x1 of 7x7": lambda: conv(),
        "depthwise 7x7": lambda: conv(padding=3, groups=256),
        "einsum bit,btj->ij": lambda: lambda: torch.einsum("bit,btj->ij", x[0], x[1]),
        "gradients of silu(x w1) * (x w3)": lambda: gradients(3, lambda: F.silu(x[0] @ x[1]) * (x[0] @ x[2])),
        "weight gradient with AdamW": lambda: lambda: x[0].t() @ x[1],  # the product alone
        "attention of grouped heads forward": attention,
        "attention of grouped heads backward": lambda: gradients(3, attention()),
        "attention of heads of 32": attention,
        "attention of heads of 40": attention,
        "attention 4 x 16 x 4096 x 128 backward": lambda: gradients(3, attention()),
        "attention of one query": lambda: attention(False),
        "max_pool backward": lambda: gradients(1, lambda: F.max_pool2d(x[0], 3, 2, 1)),
        "top-k of 128k": lambda: lambda: torch.topk(x[0], 50),
    }
    case = cases.get(row["name"])
    return case() if case else None
