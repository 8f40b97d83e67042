"""First values of parameters, as in torch.nn.init. Those that end in _ change a tensor and give it back."""

from .. import _core


def xavier_uniform_(tensor, gain=1.0, generator=None):
    return tensor.assign(_core._xavier_uniform(tensor.shape, gain, tensor.dtype, generator))


def xavier_normal_(tensor, gain=1.0, generator=None):
    return tensor.assign(_core._xavier_normal(tensor.shape, gain, tensor.dtype, generator))


def kaiming_uniform_(tensor, a=0.0, generator=None):
    return tensor.assign(_core._kaiming_uniform(tensor.shape, a, tensor.dtype, generator))


def kaiming_normal_(tensor, a=0.0, generator=None):
    return tensor.assign(_core._kaiming_normal(tensor.shape, a, tensor.dtype, generator))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    return tensor.assign(_core.uniform(tensor.shape, a, b, tensor.dtype, generator))


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    return tensor.assign(_core.normal(tensor.shape, mean, std, tensor.dtype, generator))


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    return tensor.assign(_core.truncated_normal(tensor.shape, mean, std, a, b, tensor.dtype, generator))


def constant_(tensor, value):
    return tensor.fill_(value)


def zeros_(tensor):
    return tensor.fill_(0)


def ones_(tensor):
    return tensor.fill_(1)
