"""Cases of elementwise operators: edge values of every dtype; pairs of them for operators of two."""

import math
from statistics import NormalDist

import numpy as np
from cases import NAMES, case

FLOATS = [np.float16, np.float32, np.float64]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS
ALL = [np.bool_] + NUMBERS


def is_float(dtype):
    return np.issubdtype(dtype, np.floating)


def edges(dtype):
    if dtype == np.bool_:
        return np.array([False, True])
    if is_float(dtype):
        info = np.finfo(dtype)
        sizes = [0, 1, 0.5, 1.5, 2.5, 3, 0.1, 0.7, 7, 10, 1e-3, info.max, info.tiny, info.smallest_subnormal, np.inf]
        return np.array([s * v for v in sizes for s in (1, -1)] + [np.nan], dtype)
    info = np.iinfo(dtype)
    values = {0, 1, 2, 3, 5, 7, 9, 31, 100, info.max, info.max - 1, info.min, info.min + 1}
    if info.min < 0:
        values |= {-1, -2, -3, -7, -100}
    return np.array(sorted(values), dtype)


def moderate(dtype):
    """Finite numbers where no operator is badly conditioned."""
    if is_float(dtype):
        return np.array([0, -0.0, 0.1, -0.1, 0.25, 0.5, -0.5, 0.75, -0.9, 1, -1, 1.5, -1.5, 2, 3, -3.3, 5, -6, 8], dtype)
    return edges(dtype) if dtype == np.bool_ else np.array([0, 1, 2, 3, 7, 100], dtype)


def result_type(dtype):
    """Functions of floats turn integers and bool into f32."""
    return dtype if is_float(dtype) else np.float32


def wide(f, *args):
    """f in a wider type, rounded to the dtype that Heddle gives."""
    dtype = result_type(args[0].dtype.type)
    wider = np.longdouble if dtype == np.float64 else np.float64
    return np.asarray(f(*[a.astype(dtype).astype(wider) for a in args])).astype(dtype)


def pi_of(x):
    return np.arccos(np.array(-1, x.dtype))


def sinc(x):
    y = pi_of(x) * np.where(x == 0, 1, x)
    return np.where(x == 0, 1, np.sin(y) / y)


def erf(x):
    return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)


# Of edge values, within this many ulp.
FUNCTIONS = {
    "exp": (np.exp, 2), "exp2": (np.exp2, 2), "expm1": (np.expm1, 3), "log": (np.log, 2), "log2": (np.log2, 2),
    "log10": (np.log10, 3), "log1p": (np.log1p, 3), "sqrt": (np.sqrt, 0), "rsqrt": (lambda x: 1 / np.sqrt(x), 2),
    "reciprocal": (np.reciprocal, 0), "asin": (np.arcsin, 3), "acos": (np.arccos, 3), "atan": (np.arctan, 3),
    "sinh": (np.sinh, 4), "cosh": (np.cosh, 4), "tanh": (np.tanh, 4), "asinh": (np.arcsinh, 4),
    "acosh": (np.arccosh, 4), "atanh": (np.arctanh, 4), "erf": (erf, 4), "cbrt": (np.cbrt, 2),
    "rad2deg": (lambda x: x * (180 / pi_of(x)), 2), "deg2rad": (lambda x: x * (pi_of(x) / 180), 2),
}
# Angles that are not huge: the remainder by pi of those is a matter of its own.
PERIODIC = {"sin": (np.sin, 3), "cos": (np.cos, 3), "tan": (np.tan, 4), "sinc": (sinc, 4)}

LAMBDA, ALPHA = 1.0507009873554805, 1.6732632423543772


def softplus(x):
    return np.logaddexp(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / pi_of(x)) * (x + 0.044715 * x ** 3)))


ACTIVATIONS = {
    "sigmoid": (sigmoid, {}), "logsigmoid": (lambda x: -softplus(-x), {}),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.25 * x), {"slope": 0.25}),
    "elu": (lambda x: np.where(x > 0, x, 0.5 * np.expm1(x)), {"alpha": 0.5}),
    "selu": (lambda x: LAMBDA * np.where(x > 0, x, ALPHA * np.expm1(x)), {}),
    "celu": (lambda x: np.where(x > 0, x, 0.5 * np.expm1(x / 0.5)), {"alpha": 0.5}),
    "gelu": (lambda x: 0.5 * x * (1 + erf(x / np.sqrt(x.dtype.type(2)))), {}), "gelu_tanh": (gelu_tanh, {}),
    "silu": (lambda x: x * sigmoid(x), {}), "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, {}),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, {}), "softplus": (lambda x: softplus(2 * x) / 2, {"beta": 2}),
    "softsign": (lambda x: x / (1 + np.abs(x)), {}), "mish": (lambda x: x * np.tanh(softplus(x)), {}),
}


def write_unary(dtype):
    x = edges(dtype)
    floating = is_float(dtype)
    if dtype != np.bool_:
        case("neg", [x], -x, zeros=True)
        case("square", [x], x * x)
    # NumPy has no sign, floor, ... of bool, and makes floats of integers: Heddle leaves these as they are.
    case("abs", [x], np.abs(x), zeros=True)
    case("sign", [x], np.sign(x) if dtype != np.bool_ else x)
    for name in ("floor", "ceil", "trunc"):
        case(name, [x], getattr(np, name)(x) if floating else x, zeros=True)
    case("round", [x], np.rint(x) if floating else x, zeros=True)
    case("frac", [x], x - np.trunc(x) if floating else np.zeros_like(x))
    for name in ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not"):
        if floating or name == "logical_not":
            expected = getattr(np, name)(x)
        else:
            expected = {"isfinite": np.ones(x.shape, bool), "signbit": x < 0}.get(name, np.zeros(x.shape, bool))
        case(name, [x], expected)
    if not floating:
        case("bitwise_not", [x], ~x)
    for name, (f, ulp) in FUNCTIONS.items():
        case(name, [x], wide(f, x), ulp)
    for name, (f, ulp) in PERIODIC.items():
        y = moderate(dtype)
        case(name, [y], wide(f, y), ulp, near=float(np.finfo(result_type(dtype)).eps))
    case("nan_to_num", [x], np.nan_to_num(x))
    y = moderate(dtype)
    for name, (f, params) in ACTIVATIONS.items():
        case(name, [y], wide(f, y), 8, near=float(np.finfo(result_type(dtype)).eps), **params)
    case("relu", [x], np.maximum(x, dtype(0)))
    if floating:
        case("relu6", [x], np.clip(x, dtype(0), dtype(6)))
        case("hardtanh", [x], np.clip(x, dtype(-2), dtype(1)), low=-2, high=1)
        case("threshold", [y], np.where(y > dtype(0.5), y, dtype(-3)), limit=0.5, value=-3)
        z = np.resize(y, (3, 4))
        case("glu", [z], wide(lambda v: v[:, :2] * sigmoid(v[:, 2:]), z), 4, axis=1)


def write_casts():
    for source in ALL:
        x = edges(source)
        for target in ALL:
            if is_float(source) and not is_float(target) and target != np.bool_:
                # Truncates and saturates; NaN gives 0.
                info = np.iinfo(target)
                y = np.array([0 if math.isnan(v) else info.max if v >= info.max else info.min if v <= info.min
                              else int(v) for v in x.astype(float).tolist()], target)
            elif target == np.float16:
                y = x.astype(np.float32).astype(target)  # rounded from f32 whatever the source
            else:
                y = x.astype(target)
            case("cast", [x], y, zeros=True, to=NAMES[np.dtype(target).name])
    for a, b in [(np.float32, np.int32), (np.int64, np.float64), (np.uint16, np.float16), (np.int8, np.uint8)]:
        x = edges(a)
        case("bitcast", [x], x.view(b), zeros=True, to=NAMES[np.dtype(b).name])
        case("bitcast", [x.view(b)], x, zeros=True, to=NAMES[np.dtype(a).name])


def no_zero(f):
    """NumPy's division of integers, which gives 0 by zero, without its undefined cases."""
    return lambda a, b: np.where(b == 0, a.dtype.type(0), f(a, np.where(b == 0, b.dtype.type(1), b))).astype(a.dtype)


def xlogy(a, b):
    return np.where((a == 0) & ~np.isnan(b), 0, a * np.log(b))


# Bounds in ulp are for edge values against each other.
BINARY_FUNCTIONS = {"div": (np.divide, 0), "atan2": (np.arctan2, 4), "hypot": (np.hypot, 2),
                    "logaddexp": (np.logaddexp, 4), "logaddexp2": (np.logaddexp2, 4), "xlogy": (xlogy, 4)}


def write_binary(dtype):
    e = edges(dtype)
    a, b = e[:, None], e[None, :]
    floating = is_float(dtype)
    if dtype != np.bool_:
        for name, f in (("add", np.add), ("sub", np.subtract), ("mul", np.multiply)):
            case(name, [a, b], f(a, b), zeros=True)
        m = moderate(dtype)[None, :]
        if floating:
            case("fmod", [a, b], np.fmod(a, b))
            for name in ("mod", "remainder"):
                case(name, [m.T, m], np.remainder(m.T, m))
            case("floordiv", [m.T, m], np.floor_divide(m.T, m))
            case("divmod", [m.T, m], list(np.divmod(m.T, m)))
            case("pow", [m.T, m], wide(np.power, m.T, m), 4)
        else:
            case("fmod", [a, b], no_zero(np.fmod)(a, b))
            for name in ("mod", "remainder"):
                case(name, [a, b], no_zero(np.remainder)(a, b))
            case("floordiv", [a, b], no_zero(np.floor_divide)(a, b))
            case("divmod", [a, b], [no_zero(np.floor_divide)(a, b), no_zero(np.remainder)(a, b)])
            for n in (0, 1, 2, 3, 5):  # a whole number written in the program keeps integers
                case("pow_whole", [e], np.power(e, dtype(n)), n=n)
            counts = np.array([0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100], dtype)
            case("shift_left", [a, counts], np.left_shift(a, counts))
            case("shift_right", [a, counts], np.right_shift(a, counts))
    if not floating:
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
            case(name, [a, b], getattr(np, name)(a, b))
    for name, (f, ulp) in BINARY_FUNCTIONS.items():
        # The sum of two logarithms may cancel.
        near = float(np.finfo(result_type(dtype)).eps) / 2 if name.startswith("logaddexp") else 0
        case(name, [a, b], wide(f, a, b), ulp, near)
    fa, fb = a.astype(result_type(dtype)), b.astype(result_type(dtype))
    case("copysign", [a, b], np.copysign(fa, fb), zeros=True)
    case("nextafter", [a, b], np.nextafter(fa, fb))
    case("heaviside", [a, b], np.heaviside(fa, fb))
    for name in ("minimum", "maximum", "fmin", "fmax", "logical_and", "logical_or", "logical_xor"):
        case(name, [a, b], getattr(np, name)(a, b))
    for name, f in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
                    ("gt", np.greater), ("ge", np.greater_equal)):
        case(name, [a, b], f(a, b))
    condition = (np.arange(len(e) * len(e)) % 3 == 0).reshape(len(e), len(e))
    case("where", [condition, a, b], np.where(condition, a, b), zeros=True)
    if dtype != np.bool_:
        case("clamp", [e, dtype(1), dtype(5)], np.clip(e, dtype(1), dtype(5)))
        x = moderate(dtype)
        case("allclose", [x, x], np.bool_(True))
        case("allclose", [x, x[::-1]], np.bool_(False))
    case("equal", [e, e], np.bool_(not floating))  # there is a NaN among the floats
    if floating:
        m = moderate(dtype)
        for nan in (False, True) if dtype == np.float64 else ():
            case("isclose", [a, b], np.isclose(a, b, 0.25, 0.125, nan), relative=0.25, absolute=0.125, equal_nan=nan)
        case("fma", [m[:, None], m[None, :], dtype(0.3)],
             wide(lambda x, y, z: x * y + z, m[:, None], m[None, :], np.array(0.3, dtype)), 1)
        case("lerp", [m[:, None], m[None, :], dtype(0.25)],
             wide(lambda x, y, w: x + w * (y - x), m[:, None], m[None, :], np.array(0.25, dtype)), 4,
             near=float(np.finfo(dtype).eps) * 4)


def promoted(a, b):
    """Heddle's rule where it is not NumPy's: an integer with a float has the dtype of the float."""
    if is_float(a) != is_float(b):
        return a if is_float(a) else b
    return np.promote_types(a, b).type


def write_promotion():
    for a in ALL:
        for b in ALL:
            if a != b:
                x, y, t = np.array([0, 1, 3], a), np.array([1, 1, 5], b), promoted(a, b)
                case("add", [x, y], x.astype(t) + y.astype(t))
                case("lt", [x, y], x.astype(t) < y.astype(t))


def write_erfinv():
    """NumPy has none; Python's normal distribution does."""
    def inverse(x):
        return np.array([NormalDist().inv_cdf((v + 1) / 2) / math.sqrt(2) for v in x.tolist()])

    for dtype in (np.float16, np.float32):
        x = np.array([0, 0.125, -0.125, 0.5, -0.5, 0.75, 0.875, -0.96875, 0.998046875], dtype)
        case("erfinv", [x], inverse(x).astype(dtype), 8, 1e-7)
    x = np.array([1, -1, 1.5, -2, np.nan])
    case("erfinv", [x], np.array([np.inf, -np.inf, np.nan, np.nan, np.nan]))


def write():
    write_erfinv()
    for dtype in ALL:
        write_unary(dtype)
        write_binary(dtype)
    write_casts()
    write_promotion()
