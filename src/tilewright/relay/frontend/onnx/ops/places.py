"""Converters of sampling grids and of images from columns. Sizes are numbers, expressions over sizes, or tensors of a run."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from tilewright.relay.cards.relations import MOST_AXES
from tilewright.relay.expr import Expr
from tilewright.relay.frontend.common.builder import Builder
from tilewright.relay.frontend.common.value import Value as CommonValue
from tilewright.relay.frontend.common.value import evaluate
from tilewright.relay.frontend.onnx.ops.layers import explicit
from tilewright.relay.frontend.onnx.value import OnnxNode, Value, onnx_op
from tilewright.support.errors import DiagnosticError

Size = Any
"""A number, an expression over sizes, or a tensor of int64 without axes."""
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
}


class Sizes:
    """Sizes in the computations of one node."""

    def __init__(self, node: OnnxNode) -> None:
        self.c: Builder = node.builder

    def read(self, vector: Value, what: str, count: Size) -> list[Size]:
        """The elements of a vector. count: the known number of elements, if the vector's type does not have it."""
        own = vector.shape[0] if vector.ndim == 1 else None
        taken = count if isinstance(count, int) and count <= MOST_AXES else None
        if isinstance(own, int) and (own > MOST_AXES if taken is None else own != taken):
            needed = taken or f"{MOST_AXES} at most"
            raise DiagnosticError(f"its {what} has {own} elements, where it takes {needed}, one an axis")
        count = own if isinstance(own, int) else count
        if not isinstance(count, int):
            raise DiagnosticError(
                f"the number of elements of its {what} must be known, since it says how many axes there are; declare it"
            )
        return [self.c.cast(e, "int64") if hasattr(e, "expr") else e for e in self.c.elements(vector, count)]

    def reckon(self, key: str, a: Size, b: Size) -> Size:
        """add, subtract, multiply or floor_divide of two sizes."""
        if hasattr(a, "expr") or hasattr(b, "expr"):
            return self.c.call(key, self.tensor(a), self.tensor(b))
        return OPERATIONS[key](a, b)

    def product(self, sizes: Sequence[Size]) -> Size:
        """The product of sizes."""
        return reduce(lambda a, b: self.reckon("multiply", a, b), sizes, 1)

    def tensor(self, size: Size) -> Any:
        """A size as a tensor without axes."""
        return size if hasattr(size, "expr") else self.c.size(size)

    def extents(self, sizes: Sequence[Size]) -> tuple[Any, ...]:
        """Sizes as an attribute: all as tensors, or all as numbers and expressions."""
        if any([hasattr(s, "expr") for s in sizes]):
            return tuple([s if isinstance(s, int) else self.tensor(s).expr for s in sizes])
        return tuple(sizes)

    def settled(self, value: Any, sizes: Sequence[Size]) -> Any:
        """A value that depends only on these sizes; its elements are known if the sizes are numbers."""
        return evaluate(value) if all([isinstance(s, int) for s in sizes]) else value

    def along(self, count: Size, axis: int, ndim: int) -> CommonValue:
        """0, 1, ... below a size, along one of `ndim` axes."""
        steps = self.c.iota(self.tensor(count))
        return self.c.call("reshape", steps, newshape=tuple([-1 if k == axis else 1 for k in range(ndim)]))


@onnx_op("AffineGrid", since=20)
def _affine_grid(node: OnnxNode, theta: Value, size: Value) -> Expr:
    # The position of each element on axes from -1 to 1, moved by a matrix and a vector: a sum over axes.
    sizes, align = Sizes(node), bool(node.get("align_corners", 0))
    axes = theta.shape[-1]
    c, (_, _, *extents) = sizes.c, sizes.read(size, "size", axes + 1 if isinstance(axes, int) else None)
    n = len(extents)
    if n not in (2, 3) or theta.ndim != 3 or list(theta.shape[1:]) != [n, n + 1]:
        raise DiagnosticError(f"its theta has the shape {tuple(theta.shape)}, but size has {n + 2} elements")

    def column(k: int) -> CommonValue:
        """The contribution of a column of the matrices to each coordinate."""
        part = c.cut(theta, 2, k, k + 1)
        return c.call("reshape", part, newshape=(-1, *[1] * n, n))

    made = column(n)
    for k, extent in enumerate(extents):
        places = c.cast(sizes.along(extent, k + 1, n + 2), theta.dtype)
        spans = sizes.reckon("subtract", extent, 1) if align else extent
        # A single element is at the start.
        spans = c.call("maximum", c.cast(sizes.tensor(spans), theta.dtype), 1)
        step = c.call("divide", c.number(2, theta.dtype), spans)
        start = c.call("subtract", c.number(0, theta.dtype) if align else c.call("multiply", step, 0.5), 1)
        places = sizes.settled(c.call("add", c.call("multiply", places, step), start), [extent])
        # The coordinates are in the order width, height, depth.
        made = c.call("add", made, c.call("multiply", places, column(n - 1 - k)))
    return made.expr


@onnx_op("Col2Im", since=18)
def _col2im(node: OnnxNode, x: Value, image: Value, block: Value) -> Expr:
    # Each row of a column is added to its element of the image.
    sizes = Sizes(node)
    c, extents = sizes.c, sizes.read(image, "image shape", block.shape[0])
    n = len(extents)
    kernel = sizes.read(block, "block shape", n)
    if len(kernel) != n or x.ndim != 3:
        raise DiagnosticError(f"its image has {n} axes, its block {len(kernel)}, and its input {x.ndim} of 3")
    strides, dilations = (explicit(node, name, n, 1) for name in ("strides", "dilations"))
    pads = explicit(node, "pads", 2 * n)
    total = sizes.product(extents)
    where: Any = None
    inside: Any = None
    for k, extent in enumerate(extents):
        reach = sizes.reckon("multiply", sizes.reckon("subtract", kernel[k], 1), dilations[k])
        room = sizes.reckon("subtract", sizes.reckon("add", extent, pads[k] + pads[k + n] - 1), reach)
        columns = sizes.reckon("add", sizes.reckon("floor_divide", room, strides[k]), 1)
        offset = c.call("multiply", sizes.along(kernel[k], k, 2 * n), dilations[k])
        start = c.call("subtract", c.call("multiply", sizes.along(columns, n + k, 2 * n), strides[k]), pads[k])
        place = c.call("add", offset, start)
        fits = c.call("logical_and", c.call("less", place, extent), c.call("greater_equal", place, 0))
        after = c.call("multiply", place, sizes.tensor(sizes.product(extents[k + 1 :])))
        where = after if where is None else c.call("add", where, after)
        inside = fits if inside is None else c.call("logical_and", inside, fits)
    # Elements of the padding are added to an additional element after the image.
    flat = c.call("reshape", c.call("where", inside, where, total), newshape=(1, -1))
    where = sizes.settled(flat, [*extents, *kernel])
    batch, rows, count = x.shape
    known = isinstance(rows, int) and all([isinstance(d, int) for d in kernel])
    channels = rows // math.prod(kernel) if known else -1
    wide = sizes.product([*kernel, count if isinstance(count, int) else c.extent(x, 2)])
    moved = c.call("transpose", c.call("reshape", x, newshape=sizes.extents([-1, wide])), axes=(1, 0))
    planes = moved.shape[1] if isinstance(moved.shape[1], int) else c.extent(moved, 1)
    start = c.call("zeros", shape=sizes.extents([sizes.reckon("add", total, 1), planes]), dtype=x.dtype)
    summed = c.call("scatter_nd", start, where, moved, mode="add")
    cells = c.call("strided_slice", summed, begin=(0,), end=(-1,), axes=(0,))
    whole = c.call("transpose", cells, axes=(1, 0))
    lead = batch if isinstance(batch, int) else c.extent(x, 0)
    return c.call("reshape", whole, newshape=sizes.extents([lead, channels, *extents])).expr
