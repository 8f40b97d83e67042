"""Cases of indexing, scattering, sorting, and products of tensors."""

import numpy as np
from cases import case
from elementwise import ALL, FLOATS, edges, is_float
from reductions import sum_type, values


def write_indexing(dtype):
    x = values(dtype, (3, 4, 5))
    flat, index = np.array([[0, 59, -1], [7, -60, 7]]), np.array([[2, 0], [-1, 1]], np.int32)
    case("take", [x, flat], np.take(x, flat), axis=None)
    for axis in (0, 1, -1):
        case("take", [x, index], np.take(x, index, axis), axis=axis)
        case("gather", [x, index], np.take(x, index, axis), axis=axis)
        case("index_select", [x, index[0]], np.take(x, index[0], axis), axis=axis)
        where = np.argsort(x, axis=axis, kind="stable")
        case("take_along_axis", [x, where], np.take_along_axis(x, where, axis), axis=axis)
    case("embedding", [x[0], index], x[0][index])
    case("index", [x, index, index[0]], x[index, index[0]], axis=0)
    case("index", [x, index, index[0]], x[:, index, index[0]], axis=1)
    case("dynamic_slice", [x, np.array([1, 0, 2])], x[1:3, 0:2, 2:5], sizes=[2, 2, 3])
    mask = values(np.bool_, (3, 4, 5))
    case("masked_select", [x, mask], x[mask])
    case("masked_fill", [x, mask, dtype(1)], np.where(mask, dtype(1), x))
    case("nonzero", [x], np.argwhere(x).astype(np.int64))
    # x[items]; {"tensor": n} is argument n.
    whole, t1 = [None, None, 1], {"tensor": 1}
    for items, expected in [
            ([0], x[0]), ([-1, 2], x[-1, 2]), (["...", 1], x[..., 1]), (["new", "...", [None, None, -1]], x[None, ..., ::-1]),
            ([whole, [1, None, 2], "new", -1], x[:, 1::2, None, -1]), ([t1], x[index]), ([whole, t1], x[:, index]),
            ([0, whole, t1], x[0, :, index]), ([t1, whole, t1], x[index, :, index]), ([whole, t1, t1], x[:, index, index]),
            ([[0, 2, 1], t1, [None, None, -2]], x[0:2, index, ::-2])]:
        case("at", [x, index], expected, items=items)


def write_scatter(dtype):
    x, i = values(dtype, (4, 5)), np.array([[0, 3, 1, 0, 2], [2, 0, -1, 1, 1]])
    u = values(dtype, (2, 5))[::-1]
    put = x.copy()
    np.put_along_axis(put, i, u, 0)
    case("put_along_axis", [x, i, u], put, axis=0)
    case("scatter", [x, i, u], put, axis=0)
    rows, columns = i, np.broadcast_to(np.arange(5), i.shape)
    if dtype != np.bool_:
        for name, f in (("sum", np.add), ("prod", np.multiply), ("amax", np.maximum), ("amin", np.minimum)):
            y = x.copy()
            f.at(y, (rows, columns), u)
            case("scatter_reduce", [x, i, u], y, axis=0, reduce=name)
            if name == "sum":
                case("scatter_add", [x, i, u], y, axis=0)
                case("index_put", [x, i, columns.copy(), u], y, accumulate=True)
        y = x.copy()
        np.add.at(y, np.array([1, 1]), u)
        case("index_add", [x, np.array([1, 1]), u], y, axis=0)
    y = x.copy()
    y[[3, 0]] = u
    case("index_copy", [x, np.array([3, 0]), u], y, axis=0)
    case("index_put", [x, i, columns.copy(), u], put, accumulate=False)
    y = x.copy()
    y[0:4:2, 0:5] = u
    case("update_slice", [x, u], y, begins=[0, 0], steps=[2, 1])


def descending(x, axis):
    """Stable: equal elements keep their order. NaN, which NumPy puts last in ascending order, comes first."""
    n = x.shape[axis] - 1
    return np.flip(n - np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)


def write_order(dtype):
    e = edges(dtype)
    x = np.concatenate([values(dtype, (40,)), e, e[::-1]])
    square = values(dtype, (6, 7))
    for y, axis in ((x, -1), (square, 0), (square, 1)):
        for down in (False, True):
            order = descending(y, axis) if down else np.argsort(y, axis=axis, kind="stable")
            result = np.take_along_axis(y, order, axis)
            case("sort", [y], [result, order], zeros=True, axis=axis, descending=down)
            case("argsort", [y], order, axis=axis, descending=down)
            first = np.take(order, range(3), axis)
            case("topk", [y], [np.take(result, range(3), axis), first], k=3, axis=axis, largest=down)
            if not down:
                case("kthvalue", [y], [np.take(result, 2, axis), np.take(order, 2, axis)], k=3, axis=axis)
    for right in (False, True):
        case("searchsorted", [np.sort(x), e], np.searchsorted(np.sort(x), e, "right" if right else "left"), right=right)
    v, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    case("unique", [x], [v, inverse, counts])
    floating = np.float32 if not is_float(dtype) else dtype
    wider = square.astype(floating).astype(float)
    eps = float(np.finfo(floating).eps) * 8
    for axis in (None, 0, 1):
        case("median", [square], np.asarray(np.median(wider, axis)).astype(floating), 4, eps, axis=axis, keepdim=False)
        for q in (0, 0.25, 0.7, 1):
            case("quantile", [square], np.asarray(np.quantile(wider, q, axis, keepdims=True)).astype(floating), 4, eps * 4,
                 q=q, axis=axis, keepdim=True)


def write_products(dtype):
    def v(*shape):
        # Small whole numbers: every order of adding gives the same floats. Narrow integers wrap.
        return (values(dtype, shape) % 5).astype(dtype) if not is_float(dtype) else np.rint(values(dtype, shape))

    for a, b in (((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((0, 4), (4, 5)),
                 ((2, 1, 3, 4), (5, 4, 2)), ((17, 33), (33, 19)), ((1, 1), (1, 1)), ((3, 0), (0, 2))):
        case("matmul", [v(*a), v(*b)], np.matmul(v(*a), v(*b)))
    case("bmm", [v(2, 3, 4), v(2, 4, 5)], np.matmul(v(2, 3, 4), v(2, 4, 5)))
    for a, b in (((3, 4), (4, 5)), ((4,), (4,)), ((2, 3, 4), (5, 4, 2)), ((2, 3), ())):
        case("dot", [v(*a), v(*b)], np.dot(v(*a), v(*b)))
    case("vdot", [v(2, 3), v(2, 3)], np.vdot(v(2, 3), v(2, 3)))
    case("inner", [v(2, 3), v(4, 3)], np.inner(v(2, 3), v(4, 3)))
    case("outer", [v(2, 3), v(4)], np.outer(v(2, 3), v(4)))
    case("kron", [v(2, 3), v(3, 2)], np.kron(v(2, 3), v(3, 2)))
    case("kron", [v(2), v(3, 2)], np.kron(v(2), v(3, 2)))
    case("tensordot", [v(2, 3, 4), v(4, 3, 5)], np.tensordot(v(2, 3, 4), v(4, 3, 5), ([1, 2], [1, 0])), a=[1, 2], b=[1, 0])
    for count in (0, 1, 2):
        a, b = v(2, 3, 4), v(*((2, 3, 4)[3 - count:] + (2,)))
        case("tensordot_count", [a, b], np.tensordot(a, b, count), count=count)
    for equation, shapes in (("ij,jk->ik", [(3, 4), (4, 5)]), ("ij,jk", [(3, 4), (4, 5)]), ("ii", [(4, 4)]),
                             ("ii->i", [(4, 4)]), ("ij->ji", [(3, 4)]), ("...ij->...ji", [(2, 3, 4)]), ("ij->", [(3, 4)]),
                             ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("i,j,k->kij", [(2,), (3,), (4,)]),
                             ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("...i,...i->...", [(2, 3), (3,)]),
                             ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("iij,j->i", [(3, 3, 4), (4,)])):
        args = [v(*s) for s in shapes]
        case("einsum", args, np.einsum(equation, *args), equation=equation)
    case("cross", [v(4, 3), v(4, 3)[::-1]], np.cross(v(4, 3), v(4, 3)[::-1]), axis=-1)
    for n, axis in ((1, -1), (2, 0), (3, 1), (0, 0)):
        case("diff", [v(5, 4)], np.diff(v(5, 4), n, axis), n=n, axis=axis)


def write():
    for dtype in ALL:
        write_order(dtype)
    for dtype in (np.bool_, np.int8, np.uint32, np.int64, np.float16, np.float32, np.float64):
        write_scatter(dtype)
    for dtype in (np.bool_, np.int16, np.float32):
        write_indexing(dtype)
    for dtype in (np.int8, np.int32, np.uint64, *FLOATS):
        write_products(dtype)
    ids = np.array([[2, 0], [3, 1]])
    case("one_hot", [ids], np.eye(4, dtype=np.int64)[ids], classes=4)
    for dtype in (np.uint8, np.int64):
        x = np.array([0, 5, 2, 2, 9, 0], dtype)
        for minlength in (0, 20):
            case("bincount", [x], np.bincount(x, minlength=minlength), minlength=minlength)
    x = np.array([-1, 0, 0.5, 1, 1.25, 2, 3, 4, 9], np.float32)
    counts, limits = np.histogram(x, 4, (0, 4))
    case("histogram", [x], [counts, limits.astype(np.float32)], bins=4, low=0, high=4)
