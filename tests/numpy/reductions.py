"""Cases of reductions, scans and normalisation: sets of axes, empty ones, NaN."""

import numpy as np
from cases import case
from elementwise import ALL, FLOATS, is_float, result_type

AXES = [([], False), ([1], False), ([0, 2], True), ([-1], True)]


def values(dtype, shape=(3, 4, 5)):
    generator = np.random.default_rng(7)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(bool)
    if is_float(dtype):
        return (generator.integers(-40, 40, shape) / 16).astype(dtype)
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -100
    return generator.integers(low, 100, shape).astype(dtype)


def sum_type(dtype):
    """Sums of bool and signed integers are i64, of unsigned ones u64, as NumPy has it; floats keep their dtype."""
    return dtype if is_float(dtype) else np.uint64 if np.issubdtype(dtype, np.unsignedinteger) else np.int64


def wide(x):
    """As floats, with integers turned into f32 first."""
    dtype = result_type(x.dtype.type)
    return x.astype(dtype).astype(np.longdouble if dtype == np.float64 else np.float64), dtype


def logsumexp(x, axis, keepdims):
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def norm(p):
    def f(x, axis, keepdims):
        size = np.abs(x)
        if p == 0:
            return np.sum(size != 0, axis=axis, keepdims=keepdims)
        if p in (np.inf, -np.inf):
            return (np.max if p > 0 else np.min)(size, axis=axis, keepdims=keepdims)
        return np.sum(size ** p, axis=axis, keepdims=keepdims) ** (x.dtype.type(1) / p)
    return f


def write_reductions(dtype, x, axes, keepdim, ulp=4):
    at = {"axis": tuple(axes) or None, "keepdims": keepdim}
    params = {"axes": axes, "keepdim": keepdim}
    w, floating = wide(x)
    absolute = float(np.finfo(floating).eps) * 16
    empty = x.size == 0
    exact = sum_type(dtype)
    total = w if is_float(dtype) else x.astype(exact)
    for name in ("sum", "prod", "nansum", "nanprod"):
        case(name, [x], np.asarray(getattr(np, name)(total, **at)).astype(exact), 8, absolute, **params)
    for name in ("any", "all"):
        case(name, [x], getattr(np, name)(x, **at), **params)
    case("count_nonzero", [x], np.asarray(np.count_nonzero(x, **at)).astype(np.int64), **params)
    for name in ("mean", "nanmean"):
        case(name, [x], np.asarray(getattr(np, name)(w, **at)).astype(floating), ulp, absolute, **params)
    if empty:
        return
    for name, f in (("max", np.max), ("min", np.min), ("amax", np.max), ("amin", np.min), ("nanmax", np.nanmax),
                    ("nanmin", np.nanmin)):
        case(name, [x], f(x, **at), **params)
    if dtype != np.bool_:
        case("ptp", [x], np.max(x, **at) - np.min(x, **at), **params)
    for name in ("var", "std", "nanvar", "nanstd"):
        for correction in (0, 1):  # Heddle's default is 1, NumPy's 0
            case(name, [x], np.asarray(getattr(np, name)(w, ddof=correction, **at)).astype(floating), 16, absolute,
                 correction=correction, **params)
    small = x if is_float(dtype) or dtype == np.bool_ else (x // 16).astype(dtype)
    case("logsumexp", [small], np.asarray(logsumexp(wide(small)[0], **at)).astype(floating), 8, absolute, **params)
    for p in (0, 1, 2, 3, np.inf, -np.inf):
        case("norm", [x], np.asarray(norm(p)(w, **at)).astype(floating), 8, absolute,
             p=str(p) if np.isinf(p) else p, **params)


def write_along(dtype, x):
    for axis in (None, 0, 1, -1):
        for name in ("argmax", "argmin"):
            case(name, [x], np.asarray(getattr(np, name)(x, axis=axis)).astype(np.int64), axis=axis, keepdim=False)
        case("argmax", [x], np.asarray(np.argmax(x, axis=axis, keepdims=True)), axis=axis, keepdim=True)
        total = wide(x)[0] if is_float(dtype) else x.astype(sum_type(dtype))
        eps = float(np.finfo(result_type(dtype)).eps)
        for name in ("cumsum", "cumprod"):
            case(name, [x], getattr(np, name)(total, axis=axis).astype(sum_type(dtype)), 32, eps * 32, axis=axis)
        flat = x.ravel() if axis is None else x
        case("cummax", [x], np.maximum.accumulate(flat, axis=axis or 0), axis=axis)
        for name, f, better in (("cummax_with_indices", np.maximum, np.greater_equal),
                                ("cummin_with_indices", np.minimum, np.less_equal)):
            best = f.accumulate(flat, axis=axis or 0)
            places = np.arange(flat.shape[axis or 0])
            places = places if flat.ndim == 1 or axis in (1, -1) else places[:, None]
            # The last one among equals, and the last NaN among those.
            last = better(flat, best) | (flat != flat)
            case(name, [x], [best, np.maximum.accumulate(np.where(last, places, 0), axis=axis or 0)], axis=axis)
        case("cummin", [x], np.minimum.accumulate(flat, axis=axis or 0), axis=axis)


def write_normalisation(dtype, x):
    w, floating = wide(x)
    eps = float(np.finfo(floating).eps)
    for axis in (0, -1):
        soft = np.exp(w) / np.sum(np.exp(w), axis=axis, keepdims=True)
        case("softmax", [x], soft.astype(floating), 8, eps, axis=axis)
        case("log_softmax", [x], np.log(soft).astype(floating), 8, eps * 4, axis=axis)
        soft = np.exp(-w) / np.sum(np.exp(-w), axis=axis, keepdims=True)
        case("softmin", [x], soft.astype(floating), 8, eps, axis=axis)
    weight, bias = wide(x)[0][0, 0] + 1, wide(x)[0][1, 2]
    centred = w - np.mean(w, axis=-1, keepdims=True)
    scaled = centred / np.sqrt(np.mean(centred ** 2, axis=-1, keepdims=True) + 1e-5)
    case("layer_norm_weights", [x, weight.astype(floating), bias.astype(floating)],
         (scaled * weight + bias).astype(floating), 16, eps * 16)
    case("rms_norm_weights", [x, weight.astype(floating)],
         (w / np.sqrt(np.mean(w ** 2, axis=-1, keepdims=True) + 1e-6) * weight).astype(floating), 16, eps * 16)
    for count in (1, 2):
        axes = tuple(range(-count, 0))
        centred = w - np.mean(w, axis=axes, keepdims=True)
        case("layer_norm", [x], (centred / np.sqrt(np.mean(centred ** 2, axis=axes, keepdims=True) + 1e-5))
             .astype(floating), 16, eps * 8, axes=count)
        case("rms_norm", [x], (w / np.sqrt(np.mean(w ** 2, axis=axes, keepdims=True) + 1e-6)).astype(floating), 16,
             eps * 8, axes=count)


def write():
    for dtype in ALL:
        for axes, keepdim in AXES if dtype in (np.float32, np.int32, np.uint8) else AXES[1:2]:
            write_reductions(dtype, values(dtype), axes, keepdim)
        write_along(dtype, values(dtype, (4, 6)))
    for dtype in FLOATS:
        x = values(dtype)
        x[0, 1, 2] = x[2, 3, :] = np.nan
        x[1, 2, 1] = np.inf
        x[1, 0, 3] = -np.inf
        write_reductions(dtype, x, [2], False)
        write_along(dtype, x[0])
        write_reductions(dtype, values(dtype, (3, 1, 2)), [1], False)
        write_normalisation(dtype, values(dtype))
        weights = np.abs(values(dtype)) + dtype(1)
        expected = np.average(wide(values(dtype))[0], weights=wide(weights)[0], axis=1).astype(dtype)
        case("average", [values(dtype), weights], expected, 8, float(np.finfo(dtype).eps) * 4, axes=[1], keepdim=False)
    for dtype in (np.bool_, np.int32, np.uint16, np.float32):
        for shape, axes in [((0, 3), [0]), ((0, 3), [1]), ((2, 0), [1]), ((0,), [])]:
            write_reductions(dtype, values(dtype, shape), axes, False)
    case("max", [np.zeros((0, 3), np.float32)], np.zeros(0, np.float32), axes=[1], keepdim=False)
    case("cumsum", [np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32), axis=0)
