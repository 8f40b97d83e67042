"""Cases of shapes, joining and making tensors. They move elements, so few dtypes will do."""

import numpy as np
from cases import NAMES, case
from numpy.lib.stride_tricks import as_strided, sliding_window_view

TYPES = [np.float32, np.int8, np.bool_]


def numbers(dtype, *shape):
    return np.arange(1, 1 + int(np.prod(shape))).reshape(shape).astype(dtype) if dtype != np.bool_ else \
        (np.arange(int(np.prod(shape))) % 3 == 0).reshape(shape)


def write_orders(x):
    for shape in ([24], [4, 6], [6, -1], [2, 1, 12], [-1]):
        case("reshape", [x], x.reshape(shape), shape=shape)
    case("view", [x], x.reshape(8, 3), shape=[8, 3])
    for axes in ([0, 1, 2], [2, 0, 1], [1, 0, 2], [-1, -2, -3]):
        case("permute", [x], x.transpose(axes), axes=axes)
    for a, b in ((0, 1), (-1, 0), (1, 1), (-2, -1)):
        case("transpose", [x], np.swapaxes(x, a, b), a=a, b=b)
        case("swapaxes", [x], np.swapaxes(x, a, b), a=a, b=b)
    case("t", [x[0]], x[0].T)
    for source, target in (([0], [-1]), ([0, 1], [2, 0]), ([-1], [0]), ([2, 0], [0, 1])):
        case("moveaxis", [x], np.moveaxis(x, source, target), **{"from": source, "to": target})
    case("unflatten", [x], x.reshape(2, 3, 2, 2), axis=2, sizes=[2, -1])
    case("flatten", [x], x.reshape(2, 12), begin=1, end=-1)
    case("flatten", [x], x.reshape(6, 4), begin=0, end=1)
    case("ravel", [x], x.ravel())
    case("clone", [x], x)
    case("contiguous", [x], x)
    y = x.reshape(1, 4, 1, 6)
    for axes in ([], [0], [2], [0, -2]):
        case("squeeze", [y], np.squeeze(y, tuple(axes) or None), axes=axes)
    for axes in ([0], [-1], [1, 2], [0, -1]):
        case("unsqueeze", [x], np.expand_dims(x, tuple(axes)), axes=axes)
    for axes in ([0], [-1], [0, 2], [0, 1, 2]):
        case("flip", [x], np.flip(x, axes), axes=axes)
    case("fliplr", [x], np.fliplr(x))
    case("flipud", [x], np.flipud(x))
    for times in (-1, 0, 1, 2, 3, 4, 7):
        case("rot90", [x], np.rot90(x, times, (0, 2)), times=times, plane=[0, 2])
    for shifts, axes in (([1], []), ([-5], []), ([30], []), ([1], [1]), ([-1, 2], [0, 2]), ([7], [-1]), ([0], [0])):
        case("roll", [x], np.roll(x, shifts if axes else shifts[0], tuple(axes) if axes else None), shifts=shifts,
             axes=axes)


def write_parts(x):
    for begin, end, step in ((None, None, -1), (None, None, 2), (1, 3, 1), (-1, None, -2), (-2, None, 1), (3, 0, -1),
                             (10, -10, -1), (-10, 10, 3), (2, 2, 1), (3, 1, 1), (None, -1, 1), (0, None, 5)):
        case("slice", [x], x[:, :, begin:end:step], axis=2, begin=begin, end=end, step=step)
        case("slice", [x], x[:, begin:end:step], axis=-2, begin=begin, end=end, step=step)
    for axis, index in ((0, 1), (1, -1), (-1, 0)):
        case("select", [x], np.take(x, index, axis), axis=axis, index=index)
    case("shrink", [x], x[0:1, 1:3, 2:2], ranges=[[0, 1], [1, 3], [2, 2]])
    case("shrink", [x], x[:, 1:2, 1:4], ranges=[[0, 2], [1, 2], [1, 4]])
    for widths in ([[0, 0], [1, 2], [0, 3]], [[2, 0], [0, 0], [1, 1]]):
        case("pad", [x], np.pad(x, widths, constant_values=x.dtype.type(1)), widths=widths, value=1) \
            if x.dtype == np.float32 else None
        for mode in ("reflect", "edge", "wrap", "symmetric"):
            case("pad_mode", [x], np.pad(x, widths, mode), widths=widths, mode=mode)
    for mode in ("reflect", "edge", "wrap", "symmetric"):  # wider than the axis
        case("pad_mode", [x[0, 0]], np.pad(x[0, 0], (9, 11), mode), widths=[[9, 11]], mode=mode)
    for counts in ([2], [1, 2], [2, 1, 3], [2, 1, 1, 2], [0, 1, 1]):
        case("tile", [x], np.tile(x, counts), counts=counts)
    case("repeat", [x], np.tile(x, (2, 1, 3)), counts=[2, 1, 3])
    for axis in (None, 0, 1, -1):
        case("repeat_interleave", [x], np.repeat(x, 3, axis), count=3, axis=axis)
    case("repeat_counts", [x, np.array([2, 0, 3])], np.repeat(x, [2, 0, 3], 1), axis=1)
    case("window", [x], sliding_window_view(x, 2, 2)[:, :, ::2], axis=2, size=2, stride=2, dilation=1)
    case("window", [x], sliding_window_view(x, 3, 2)[..., ::2], axis=2, size=2, stride=1, dilation=2)
    case("unfold", [x], sliding_window_view(x, 2, 1), axis=1, size=2, step=1)
    windows = numbers(np.float32, 3, 2)
    summed = np.zeros(5, np.float32)
    for i in range(3):
        summed[[i, i + 2]] += windows[i]
    case("unwindow", [windows], summed, axis=0, size=2, stride=1, dilation=2, n=5)
    for name in ("zeros_like", "ones_like"):
        case(name, [x], getattr(np, name)(x))
    s = x.itemsize
    case("as_strided", [x], as_strided(x.ravel()[2:], (3, 4), (5 * s, 2 * s)), shape=[3, 4], strides=[5, 2], offset=2)
    for k in (-5, -1, 0, 1, 2, 7):
        case("tril", [x], np.tril(x, k).astype(x.dtype), k=k)
        case("triu", [x], np.triu(x, k).astype(x.dtype), k=k)
    for k in (-2, 0, 1, 3):
        case("diag", [x[0]], np.diag(x[0], k), k=k)
        case("diag", [x[0, 0]], np.diag(x[0, 0], k), k=k)
        case("diag_embed", [x[0, 0]], np.diag(x[0, 0], k), k=k)
    for offset, a, b in ((0, 0, 1), (1, 0, 2), (-1, 1, 2), (2, -1, 0)):
        case("diagonal", [x], np.diagonal(x, offset, a, b), offset=offset, a=a, b=b)
        if x.dtype != np.bool_:
            case("trace", [x], np.trace(x, offset, a, b), offset=offset, a=a, b=b)


def write_joins(x):
    for axis in (0, 1, -1):
        case("cat", [x, x[:, ::-1]], np.concatenate([x, x[:, ::-1]], axis), axis=axis)
        case("stack", [x, x[:, ::-1], x], np.stack([x, x[:, ::-1], x], axis), axis=axis)
        for count in (1, 2, 3):
            case("array_split", [x], np.array_split(x, count, axis), count=count, axis=axis)
        case("unbind", [x], [np.take(x, i, axis) for i in range(x.shape[axis])], axis=axis)
    for parts in ([x, x], [x[0], x[0]], [x[0, 0], x[0, 0]]):
        for name in ("vstack", "hstack", "dstack"):
            case(name, parts, getattr(np, name)(parts))
    case("cat", [x, x[:0], x[:1]], np.concatenate([x, x[:0], x[:1]]), axis=0)
    case("split", [x], np.split(x, [1, 3], 2), sizes=[1, 2, 1], axis=2)
    case("chunk", [x], np.split(x, [2], 1), count=2, axis=1)
    for indexing in ("xy", "ij"):
        parts = [x[0, 0], x[0, :, 0], x[:, 0, 0]]
        case("meshgrid", parts, np.meshgrid(*parts, indexing=indexing), indexing=indexing)
    for shape in ([2, 3, 4], [5, 2, 3, 4]):
        case("broadcast_to", [x[:, :1]], np.broadcast_to(x[:, :1], shape), shape=shape)
        case("expand", [x[:1, :, :1]], np.broadcast_to(x[:1, :, :1], shape), shape=shape)
    case("broadcast_tensors", [x[:, :1], x[0]], np.broadcast_arrays(x[:, :1], x[0]))


def write_makers():
    for dtype in (np.int8, np.int64, np.uint16, np.float32, np.float64):
        name = NAMES[np.dtype(dtype).name]
        for begin, end, step in ((0, 7, 1), (3, 20, 4), (9, 0, -2), (5, 5, 1), (5, 1, 1)):
            case("arange", [], np.arange(begin, end, step).astype(dtype), begin=begin, end=end, step=step, dtype=name)
        for n, m, k in ((3, 3, 0), (2, 5, 1), (5, 2, -1), (3, 3, 9)):
            case("eye", [], np.eye(n, m, k, dtype), n=n, m=m, k=k, dtype=name)
            case("tri", [], np.tri(n, m, k, dtype), n=n, m=m, k=k, dtype=name)
        case("full", [], np.full((2, 3), 7, dtype), shape=[2, 3], value=7, dtype=name)
    for dtype in (np.float32, np.float64):
        name, eps = NAMES[np.dtype(dtype).name], float(np.finfo(dtype).eps)
        for begin, end, count in ((0, 1, 5), (-2, 3, 7), (4, 4, 3), (5, -1, 1)):
            for endpoint in (True, False):
                params = dict(begin=begin, end=end, count=count, endpoint=endpoint, dtype=name)
                case("linspace", [], np.linspace(begin, end, count, endpoint).astype(dtype), 2, eps * 4, **params)
                case("logspace", [], np.logspace(begin, end, count, endpoint).astype(dtype), 32, base=10, **params)


def write():
    for dtype in TYPES:
        x = numbers(dtype, 2, 3, 4)
        write_orders(x)
        write_parts(x)
        write_joins(x)
    write_makers()
