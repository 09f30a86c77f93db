"""Operations of keras.ops on matrices: products, factorisations, solutions of equations."""

from __future__ import annotations

import numpy as np

from tilewright.relay.frontend.common.host_calls import linear_algebra
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.keras.value import ArrayLike, LayerCall, Nested, keras_op
from tilewright.runtime.host_functions import linalg


@keras_op("Outer", "Inner", "Vdot", "Kron")
def _products(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = c.promote(*[c.tensor(v) for v in (a, b)])
    kind = c.kind.rpartition(".")[2]
    if kind == "Outer":
        return c.call("multiply", c.reshape(x, [-1, 1]), c.reshape(y, [1, -1]))
    if kind == "Vdot":
        return c.reduce("sum", c.call("multiply", c.reshape(x, [-1]), c.reshape(y, [-1])), None)
    if kind == "Kron":
        rank = max(x.ndim, y.ndim)
        x, y = (c.reshape(v, [*[1] * (rank - v.ndim), *v.shape]) for v in (x, y))
        apart = [
            [d for pair in zip(v.shape, [1] * rank, strict=True) for d in (pair if v is x else pair[::-1])]
            for v in (x, y)
        ]
        made = c.call("multiply", c.reshape(x, apart[0]), c.reshape(y, apart[1]))
        return c.reshape(made, [p * q for p, q in zip(x.shape, y.shape, strict=True)])
    if not x.ndim or not y.ndim:
        return c.call("multiply", x, y)
    flat = c.call("nn.dense", c.reshape(x, [-1, x.shape[-1]]), c.reshape(y, [-1, y.shape[-1]]))
    return c.reshape(flat, [*x.shape[:-1], *y.shape[:-1]])


@keras_op("Cross")
def _cross(c: LayerCall, a: ArrayLike, b: ArrayLike) -> Value:
    x, y = c.promote(*[c.tensor(v) for v in (a, b)])
    axis = c.config.get("axis")
    axes = [
        -1 if axis is None and c.config.get(k) is None else int(c.config[k] if axis is None else axis)
        for k in ("axisa", "axisb", "axisc")
    ]
    if axes != [axes[0]] * 3:
        raise c.refuse("axisa, axisb, axisc", axes, "one axis")
    at = c.axis(axes[0], x.ndim)

    def turned(v: Value, by: int) -> Value:
        return c.call("take", v, Value(array=np.array([(k + by) % 3 for k in range(3)])), axis=at)

    return c.call(
        "subtract", c.call("multiply", turned(x, 1), turned(y, 2)), c.call("multiply", turned(x, 2), turned(y, 1))
    )


@keras_op("Cholesky", "CholeskyInverse", "Inv", "Det", "Slogdet", "Logdet", "Pinv")
def _matrices(c: LayerCall, x: Value) -> Nested:
    x, kind = c.floats(x), c.kind.rpartition(".")[2]
    shape = x.shape[-2:]
    if kind == "Cholesky":
        return linear_algebra(c, linalg.cholesky, [x], [shape], upper=bool(c.get("upper", False)))[0]
    if kind == "CholeskyInverse":
        (n,) = c.static(shape[-1:], "the size of its matrices")
        eye = c.broadcast(Value(array=np.eye(n, dtype=x.dtype)), x.shape)
        return linear_algebra(c, linalg.cholesky_solve, [eye, x], [shape], upper=bool(c.get("upper", False)))[0]
    if kind == "Inv":
        return linear_algebra(c, linalg.inverse, [x], [shape])[0]
    if kind == "Pinv":
        least = float(c.get("rcond", max(c.static(shape, "the size of its matrices")) * float(np.finfo(x.dtype).eps)))
        bounds = [Value(array=np.full((1, 1), v, x.dtype)) for v in (0, least)]
        return linear_algebra(c, linalg.pinv, [x, *bounds], [shape[::-1]])[0]
    found = linear_algebra(c, linalg.determinant, [x], [[], [], []])
    return {"Det": found[0], "Slogdet": found[1:], "Logdet": found[2]}[kind]


@keras_op("Solve", "SolveTriangular")
def _solve(c: LayerCall, a: Value, b: Value) -> Value:
    vector = b.ndim == a.ndim - 1
    given = [a, c.call("expand_dims", b, axis=b.ndim) if vector else b]
    shape = given[1].shape[-2:]
    if c.kind.endswith("Triangular"):
        upper = not c.get("lower", False)
        made = linear_algebra(c, linalg.solve_triangular, given, [shape], upper=upper, left=True, unit=0)[0]
    else:
        made = linear_algebra(c, linalg.solve, given, [shape], left=True)[0]
    return c.reshape(made, b.shape) if vector else made


@keras_op("Qr", "SVD", "Eigh")
def _factors(c: LayerCall, x: Value) -> Value | list[Value]:
    x, kind = c.floats(x), c.kind.rpartition(".")[2]
    m, n = c.static(x.shape[-2:], "the size of its matrices")
    k = min(m, n)
    if kind == "Eigh":
        return linear_algebra(c, linalg.eigh, [x], [[n], [n, n]], half="L")
    if kind == "Qr":
        mode = str(c.get("mode", "reduced"))
        rows = m if mode == "complete" else k
        return linear_algebra(c, linalg.qr, [x], [[m, rows], [rows, n]], mode=mode)
    full = bool(c.get("full_matrices", True))
    u, s, vh = linear_algebra(c, linalg.svd, [x], [[m, m if full else k], [k], [n if full else k, n]], full=full)
    return [u, s, vh] if c.get("compute_uv", True) else s


# ---- layers as functions
