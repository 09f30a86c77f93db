"""Families of random cases of operators that move, order and look up elements: how each draws one."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Any

import numpy as np

from benchmarks.random_operators.cases import Case, Values
from benchmarks.random_operators.draws import (
    LEAST_ELEMENTS,
    MOST_ELEMENTS,
    Rng,
    extent,
    ints,
    joined,
    node,
    out_call,
    pick,
    plain_call,
    shape,
)


def gather(rng: Rng) -> Case:
    """Rows of a table, slices along any axis, single elements, and windows by coordinates."""
    import torch
    import torch.nn.functional as F

    kind = pick(rng, "embedding", "slices", "elements", "points")
    if kind == "embedding":
        while True:
            rows, width = extent(rng, 32768), extent(rng)
            places = tuple([extent(rng, 512) for _ in range(int(rng.integers(1, 3)))])
            if rows * width <= 4 * MOST_ELEMENTS and LEAST_ELEMENTS <= prod(places) * width <= MOST_ELEMENTS:
                break
        inputs = {"i": Values(places, "int64", 0, rows)}
        call = plain_call(F.embedding, "i", "x")
        name = f"{joined(places)} of {rows}x{width}"
        return Case("gather, embedding", name, [node("Gather", "x i")], inputs, call, {"x": Values((rows, width))})
    while True:
        data = shape(rng, 1 if kind != "points" else 2, 4)
        axis = int(rng.integers(len(data)))
        count = extent(rng, 512)
        result = prod(data) // data[axis] * count
        if kind == "points":
            deep = int(rng.integers(1, len(data)))
            result = count * prod(data[deep:])
        if LEAST_ELEMENTS <= result <= MOST_ELEMENTS:
            break
    if kind == "slices":
        inputs = {"x": Values(data), "i": Values((count,), "int64", 0, data[axis])}

        def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
            x, i = given["x"], given["i"]
            return lambda: torch.index_select(x, axis, i, out=out)

        return Case(
            "gather, slices", f"{count} of {joined(data)} axis {axis}", [node("Gather", "x i", axis=axis)], inputs, call
        )
    if kind == "elements":
        places = tuple([count if a == axis else e for a, e in enumerate(data)])
        inputs = {"x": Values(data), "i": Values(places, "int64", 0, data[axis])}

        def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
            x, i = given["x"], given["i"]
            return lambda: torch.gather(x, axis, i, out=out)

        name = f"{count} of {joined(data)} axis {axis}"
        return Case("gather, elements", name, [node("GatherElements", "x i", axis=axis)], inputs, call)
    low = min(data[:deep])
    inputs = {"x": Values(data), "i": Values((count, deep), "int64", 0, low)}
    call = plain_call(lambda x, i: x[tuple(i.unbind(1))], "x", "i")
    return Case("gather, points", f"{count} of {joined(data)} by {deep}", [node("GatherND", "x i")], inputs, call)


def transpose(rng: Rng) -> Case:
    """Any permutation that moves something."""
    while True:
        data = shape(rng, 2, 5)
        order = tuple(map(int, rng.permutation(len(data))))
        if order != tuple(range(len(data))):
            break

    def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
        x = given["x"].permute(order)
        return lambda: out.copy_(x)

    kind = "transpose, rows stay" if order[-1] == len(data) - 1 else "transpose, rows turn"
    return Case(kind, f"{joined(data)} by {joined(order)}", [node("Transpose", perm=order)], {"x": Values(data)}, call)


def concat(rng: Rng) -> Case:
    import torch

    while True:
        data, count = shape(rng, 1, 4), int(rng.integers(2, 6))
        axis = int(rng.integers(len(data)))
        sizes = [extent(rng, max(1, data[axis])) for _ in range(count)]
        parts = [(*data[:axis], e, *data[axis + 1 :]) for e in sizes]
        if LEAST_ELEMENTS <= sum([prod(p) for p in parts]) <= MOST_ELEMENTS:
            break
    names = ["x", *[f"x{k}" for k in range(1, count)]]

    def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
        held = [given[n] for n in names]
        return lambda: torch.cat(held, axis, out=out)

    inputs = {n: Values(p) for n, p in zip(names, parts, strict=True)}
    name = f"{joined(data)} axis {axis} of {'+'.join(map(str, sizes))}"
    return Case(
        "concat, last" if axis == len(data) - 1 else "concat, other axis",
        name,
        [node("Concat", " ".join(names), axis=axis)],
        inputs,
        call,
    )


def resize(rng: Rng) -> Case:
    """Images by any factor, both ways."""
    import torch.nn.functional as F

    mode = pick(rng, "nearest", "linear", "cubic")
    while True:
        data = (pick(rng, 1, 1, 2, 4), extent(rng, 256), extent(rng, 256), extent(rng, 256))
        factor = pick(rng, 0.5, 2.0, 2.0, 4.0, 3.0, float(rng.uniform(0.3, 3)))
        size = tuple([max(1, int(e * factor)) for e in data[2:]])
        if rng.random() < 0.2:
            size = (extent(rng, 256), extent(rng, 256))
        counts = prod(data), prod(data[:2] + size)
        # Between two elements of the data, the nearest is a matter of rounding.
        clear = mode != "nearest" or all([s % e == 0 or gcd(s, e) == 1 for s, e in zip(size, data[2:], strict=True)])
        if clear and min(counts) >= LEAST_ELEMENTS and max(counts) <= MOST_ELEMENTS:
            break
    corners = bool(rng.random() < 0.3) and mode != "nearest" and min(size) > 1
    coordinates = "asymmetric" if mode == "nearest" else "align_corners" if corners else "half_pixel"
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": coordinates,
        "cubic_coeff_a": -0.75,
        "nearest_mode": "floor",
    }
    theirs = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[mode]
    call = plain_call(
        lambda x: F.interpolate(x, size, mode=theirs, **({} if mode == "nearest" else {"align_corners": corners}))
    )
    nodes = [node("Resize", "x _ _ sizes", **attributes)]
    name = f"{joined(data)} to {joined(size)}{' corners' * corners}"
    # Coordinates are rounded otherwise.
    return Case(
        f"resize, {mode}", name, nodes, {"x": Values(data)}, call, {"sizes": ints(*data[:2], *size)}, tolerance=2e-3
    )


def cumsum(rng: Rng) -> Case:
    import torch

    data = shape(rng, 1, 4)
    axis = len(data) - 1 if rng.random() < 0.5 else int(rng.integers(len(data)))
    kind = "cumsum, last" if axis == len(data) - 1 else "cumsum, other axis"
    name = f"{joined(data)} axis {axis}"
    return Case(
        kind,
        name,
        [node("CumSum", "x axis")],
        {"x": Values(data)},
        out_call(torch.cumsum, axis),
        {"axis": np.array(axis)},
        tolerance=1e-3,
    )


def order(rng: Rng) -> Case:
    """The best k of lines, or all of them in order."""
    import torch

    while True:
        data = shape(rng, 1, 3)
        axis = len(data) - 1 if rng.random() < 0.7 else int(rng.integers(len(data)))
        if prod(data) <= 1 << 19:
            break
    whole = rng.random() < 0.3
    k = data[axis] if whole else min(data[axis], extent(rng, 256))
    largest = bool(rng.random() < 0.7)

    def call(given: dict[str, Any], _: Any) -> Callable[[], Any]:
        x = given["x"]
        if whole:
            return lambda: torch.sort(x, axis, largest)[0]
        return lambda: torch.topk(x, k, axis, largest)[0]

    nodes = [node("TopK", "x k", "y i", axis=axis, largest=int(largest))]
    kind = "order, sort" if whole else "order, topk"
    return Case(
        kind, f"{k} of {joined(data)} axis {axis}", nodes, {"x": Values(data)}, call, {"k": ints(k)}, ("y", "i")
    )


def scatter(rng: Rng) -> Case:
    """Elements, or windows at points, written or added."""

    added = rng.random() < 0.5
    points = rng.random() < 0.5
    while True:
        data = shape(rng, 2 if points else 1, 4)
        axis, deep = int(rng.integers(len(data))), int(rng.integers(1, len(data))) if points else 0
        count = extent(rng, 512) if points else extent(rng, data[axis])
        rest = prod(data[deep:]) if points else prod(data) // data[axis]
        if count * rest <= MOST_ELEMENTS and (not points or count <= prod(data[:deep])):
            break
    if points:
        # Distinct ones: of equal ones any may be the last to write.
        flat = rng.choice(prod(data[:deep]), count, replace=False)
        places = np.stack(np.unravel_index(flat, data[:deep]), 1).astype(np.int64)
        inputs = {"x": Values(data), "u": Values((count, *data[deep:]))}
        constants: dict[str, Any] = {}
        nodes = [node("ScatterND", "x i u", reduction="add" if added else "none")]

        def call(given: dict[str, Any], _: Any) -> Callable[[], Any]:
            x, i, u = given["x"], tuple(given["i"].unbind(1)), given["u"]
            return lambda: x.index_put(i, u, added)

        constants["i"] = places
        name = f"{count} in {joined(data)} by {deep}{' added' * added}"
        return Case("scatter, points", name, nodes, inputs, call, constants)
    shape_of_places = tuple([count if a == axis else e for a, e in enumerate(data)])
    inputs = {"x": Values(data), "u": Values(shape_of_places)}
    if added:
        inputs["i"] = Values(shape_of_places, "int64", 0, data[axis])
        constants = {}
    else:
        lines = np.broadcast_to(
            rng.permutation(data[axis])[:count].reshape([count if a == axis else 1 for a in range(len(data))]),
            shape_of_places,
        )
        constants = {"i": np.ascontiguousarray(lines).astype(np.int64)}
    nodes = [node("ScatterElements", "x i u", axis=axis, reduction="add" if added else "none")]

    def call(given: dict[str, Any], _: Any) -> Callable[[], Any]:
        x, i, u = given["x"], given["i"], given["u"]
        if added:
            return lambda: x.scatter_add(axis, i, u)
        return lambda: x.scatter(axis, i, u)

    name = f"{count} in {joined(data)} axis {axis}{' added' * added}"
    return Case("scatter, elements", name, nodes, inputs, call, constants)


def one_hot(rng: Rng) -> Case:
    while True:
        data = tuple([extent(rng) for _ in range(int(rng.integers(1, 4)))])
        depth = extent(rng)
        if LEAST_ELEMENTS <= prod(data) * depth <= MOST_ELEMENTS:
            break
    axis = -1 if rng.random() < 0.7 else int(rng.integers(len(data) + 1))

    def call(given: dict[str, Any], out: Any) -> Callable[[], Any]:
        x = given["x"].unsqueeze(axis)
        return lambda: out.zero_().scatter_(axis, x, 1.0)

    inputs = {"x": Values(data, "int64", 0, depth)}
    constants = {"depth": ints(depth), "values": np.array([0, 1], np.float32)}
    return Case(
        "one_hot",
        f"{joined(data)} of {depth} axis {axis}",
        [node("OneHot", "x depth values", axis=axis)],
        inputs,
        call,
        constants,
    )
