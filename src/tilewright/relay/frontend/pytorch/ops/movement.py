"""Converters of operators that move, join and repeat elements, or change only the shape."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewright.relay.cards.relations import Dim, known_equal
from tilewright.relay.frontend.common.builder import Operand
from tilewright.relay.frontend.common.value import Value
from tilewright.relay.frontend.pytorch.dtypes import DType, dtype_name, promote_types, result_dtype
from tilewright.relay.frontend.pytorch.value import Axes, Result, Results, TorchCall, aten
from tilewright.support.errors import OpNotImplemented

FAR = 2**31 - 1


@aten("view", "reshape", "_unsafe_view", "_reshape_alias", "view_copy")
def view(c: TorchCall, x: Value, shape: Sequence[Dim], *rest: object) -> Value:
    return c.reshape(x, shape)


@aten("view.dtype", "view_copy.dtype")
def _view_dtype(c: TorchCall, x: Value, dtype: DType) -> Value:
    return c.call("reinterpret", x, dtype=dtype_name(dtype))


@aten("view_as", "reshape_as", "expand_as")
def _view_as(c: TorchCall, x: Value, other: Value) -> Value:
    return expand(c, x, other.shape) if "expand" in c.target else c.reshape(x, other.shape)


@aten("flatten")
def _flatten(c: TorchCall, x: Value, start: int = 0, end: int = -1) -> Value:
    if not x.ndim:
        return c.reshape(x, [1])
    first, last = c.axis(start, x.ndim), c.axis(end, x.ndim)
    return c.reshape(x, [*x.shape[:first], _product(x.shape[first : last + 1]), *x.shape[last + 1 :]])


def _product(sizes: Sequence[Dim]) -> Any:
    result: Any = 1
    for d in sizes:
        result = result * d
    return result


@aten("ravel")
def _ravel(c: TorchCall, x: Value) -> Value:
    return c.reshape(x, [-1])


@aten("unflatten")
def _unflatten(c: TorchCall, x: Value, dim: int, sizes: Sequence[Dim]) -> Value:
    axis = c.axis(dim, x.ndim)
    return c.reshape(x, [*x.shape[:axis], *sizes, *x.shape[axis + 1 :]])


@aten("squeeze", "squeeze_copy")
def _squeeze(c: TorchCall, x: Value, dim: Axes = None) -> Value:
    if isinstance(dim, (list, tuple)) and not len(dim):
        return x
    # PyTorch treats a dynamic extent as larger than 1.
    axes = tuple([a for a in c.axes(dim, x.ndim) if isinstance(x.shape[a], int) and x.shape[a] == 1]) if x.ndim else ()
    return c.call("squeeze", x, axis=axes) if axes else x


@aten("unsqueeze", "unsqueeze_copy")
def unsqueeze(c: TorchCall, x: Value, dim: int) -> Value:
    if x.array is not None and x.is_number:
        return Value(array=np.expand_dims(x.array, c.axis(dim, x.ndim + 1)))
    return c.call("expand_dims", x, axis=c.axis(dim, x.ndim + 1))


@aten("transpose", "transpose_copy", "swapaxes", "swapdims")
def _transpose(c: TorchCall, x: Value, a: int, b: int) -> Value:
    order = list(range(x.ndim))
    if x.ndim:
        i, j = c.axis(a, x.ndim), c.axis(b, x.ndim)
        order[i], order[j] = order[j], order[i]
    return c.transpose(x, order)


@aten("t", "numpy_T", "t_copy", "matrix_H", "mT", "adjoint", "mH")
def _turned(c: TorchCall, x: Value) -> Value:
    if x.ndim < 2:
        return x
    order = list(range(x.ndim))
    return c.transpose(x, order[::-1] if "numpy" in c.target else [*order[:-2], order[-1], order[-2]])


@aten("permute", "permute_copy")
def permute(c: TorchCall, x: Value, dims: Sequence[int]) -> Value:
    return c.transpose(x, [c.axis(d, x.ndim) for d in dims])


@aten("movedim", "moveaxis")
def _movedim(c: TorchCall, x: Value, source: Any, target: Any) -> Value:
    sources = [c.axis(d, x.ndim) for d in (source if isinstance(source, (list, tuple)) else [source])]
    targets = [c.axis(d, x.ndim) for d in (target if isinstance(target, (list, tuple)) else [target])]
    rest = iter([d for d in range(x.ndim) if d not in sources])
    return c.transpose(x, [sources[targets.index(k)] if k in targets else next(rest) for k in range(x.ndim)])


@aten("expand", "broadcast_to", "expand_copy")
def expand(c: TorchCall, x: Value, sizes: Sequence[Dim], implicit: bool = False) -> Value:
    sizes = list(sizes)
    old = [1] * (len(sizes) - x.ndim) + x.shape
    new = [o if isinstance(n, int) and n == -1 else n for o, n in zip(old, sizes, strict=True)]
    return c.broadcast(x, new)


@aten("broadcast_tensors")
def _broadcast_tensors(c: TorchCall, xs: Sequence[Value]) -> list[Value]:
    return broadcast_all(c, xs)


def broadcast_all(c: TorchCall, xs: Sequence[Value]) -> list[Value]:
    """Tensors broadcast to their common shape."""
    from tilewright.relay.cards.relations import broadcast_shapes

    shape: list[Dim] = []
    for x in xs:
        shape = list(broadcast_shapes(shape, x.shape))
    return [c.broadcast(x, shape) for x in xs]


@aten("cat", "concat", "concatenate")
def cat(c: TorchCall, xs: Sequence[Value], dim: int = 0) -> Value:
    dtype = xs[0].dtype
    for x in xs[1:]:
        dtype = promote_types(dtype, x.dtype)
    # An empty vector may be joined with tensors of any shape.
    full = [x for x in xs if not (x.ndim == 1 and x.shape == [0])] or list(xs[:1])
    rank = full[0].ndim
    full = [x for x in full if not (isinstance(x.shape[dim], int) and x.shape[dim] == 0)] or full[:1]
    parts = [c.cast(x, dtype) for x in full]
    if len(parts) == 1:
        return parts[0]
    return c.call("concatenate", parts, axis=c.axis(dim, rank))


@aten("stack")
def stack(c: TorchCall, xs: Sequence[Value], dim: int = 0) -> Value:
    return c.call("stack", c.promote(*xs), axis=c.axis(dim, xs[0].ndim + 1))


@aten("hstack", "vstack", "dstack", "column_stack", "row_stack")
def _joined(c: TorchCall, xs: Sequence[Value]) -> Value:
    least = {"hstack": 1, "dstack": 3}.get(_short(c), 2)
    parts = [_at_least(c, x, least, column="column" in c.target) for x in xs]
    return cat(c, parts, {"hstack": 0 if parts[0].ndim == 1 else 1, "dstack": 2, "column_stack": 1}.get(_short(c), 0))


def _short(c: TorchCall) -> str:
    return c.target.split("::")[-1].split(".")[0]


def _at_least(c: TorchCall, x: Value, rank: int, column: bool = False) -> Value:
    shape = x.shape
    if len(shape) >= rank:
        return x
    if rank == 1:
        return c.reshape(x, [1])
    if rank == 2:
        return c.reshape(x, [*shape, 1] if column and shape else [1, *(shape or [1])])
    return c.reshape(x, ([1, 1, 1], [1, *shape, 1], [*shape, 1])[len(shape)])


@aten("atleast_1d", "atleast_2d", "atleast_3d")
def _atleast(c: TorchCall, x: Any) -> Value | Results:
    rank = int(_short(c).split("_")[1][0])
    return _at_least(c, x, rank) if isinstance(x, Value) else [_at_least(c, v, rank) for v in x]


def cut(c: TorchCall, x: Value, axis: int, begin: Any, end: Any, step: int = 1) -> Value:
    """x[begin:end:step] along an axis."""
    extent = x.shape[axis]
    if isinstance(begin, int) and begin == 0 and step == 1 and (known_equal(end, extent) or _beyond(end, extent)):
        return x
    bounds = [min(max(b, -FAR), FAR) if isinstance(b, int) else b for b in (begin, end)]
    return c.call("strided_slice", x, begin=(bounds[0],), end=(bounds[1],), strides=(step,), axes=(axis,))


def _beyond(end: Operand, extent: Dim) -> bool:
    return isinstance(end, int) and (end >= extent if isinstance(extent, int) else end >= FAR)


@aten("slice", "slice_copy")
def slice_(
    c: TorchCall, x: Value, dim: int = 0, start: Operand | None = None, end: Operand | None = None, step: Operand = 1
) -> Value:
    if not isinstance(step, int):
        raise OpNotImplemented("its step depends on a dimension that is dynamic; a number is supported")
    return cut(c, x, c.axis(dim, x.ndim), 0 if start is None else start, FAR if end is None else end, step)


@aten("select", "select_copy")
def select(c: TorchCall, x: Value, dim: int, index: Any) -> Value:
    axis = c.axis(dim, x.ndim)
    if isinstance(index, Value):
        return c.call("take", x, index, axis=axis, mode="signed")
    if isinstance(index, int) and index < 0:
        index = index + x.shape[axis]
    return c.call("squeeze", cut(c, x, axis, index, index + 1), axis=(axis,))


@aten("narrow", "narrow_copy")
def _narrow(c: TorchCall, x: Value, dim: int, start: Operand, length: Any) -> Value:
    if isinstance(start, Value):
        start = int(c.known(start, "start"))
    axis = c.axis(dim, x.ndim)
    start = start + x.shape[axis] if isinstance(start, int) and start < 0 else start
    return cut(c, x, axis, start, start + length)


@aten("split", "split_copy", "unsafe_split")
def _split(c: TorchCall, x: Value, size: Any, dim: int = 0) -> list[Value]:
    axis = c.axis(dim, x.ndim)
    if isinstance(size, (list, tuple)):
        return split_sizes(c, x, size, axis)
    (extent, size) = c.static([x.shape[axis], size], "the extent that it splits")
    return split_sizes(c, x, [min(size, extent - k) for k in range(0, extent, size)] or [0], axis)


@aten("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def _split_with_sizes(c: TorchCall, x: Value, sizes: Sequence[Dim], dim: int = 0) -> list[Value]:
    return split_sizes(c, x, sizes, c.axis(dim, x.ndim))


def split_sizes(c: TorchCall, x: Value, sizes: Sequence[Any], axis: int) -> list[Value]:
    """Parts of these extents, split along an axis."""
    if len(sizes) == 1:
        return [x]
    if all([isinstance(s, int) for s in sizes]) and 0 not in sizes and isinstance(x.shape[axis], int):
        if len(set(sizes)) == 1:
            return c.calls("split", x, indices_or_sections=len(sizes), axis=axis)
        ends = [int(e) for e in np.cumsum(sizes)[:-1]]
        return c.calls("split", x, indices_or_sections=tuple(ends), axis=axis)
    parts, begin = [], 0
    for s in sizes:
        parts.append(cut(c, x, axis, begin, begin + s))
        begin = begin + s
    return parts


@aten("tensor_split")
def _tensor_split(c: TorchCall, x: Value, places: Any, dim: int = 0) -> list[Value]:
    axis = c.axis(dim, x.ndim)
    (extent,) = c.static([x.shape[axis]], "the extent that it splits")
    if isinstance(places, Value) and places.ndim and places.array is None:
        return _split_by_data(c, x, places, axis)
    if isinstance(places, Value):
        known = c.known(places, "places")
        places = [int(p) for p in known] if known.ndim else int(known)
    sizes = [len(p) for p in np.array_split(np.arange(extent), places)]
    return split_sizes(c, x, sizes, axis)


def _split_by_data(c: TorchCall, x: Value, places: Value, axis: int) -> list[Value]:
    """Parts split at indices that the model computes."""
    (number,) = c.static(places.shape, "the number of its places")
    whole = c.cast(places, "int64")
    bounds: list[Any] = [0]
    for k in range(number):
        place = c.call("squeeze", cut(c, whole, 0, k, k + 1), axis=(0,))
        bounds.append(c.home.sizes.fresh(place))
    bounds.append(FAR)
    return [cut(c, x, axis, a, b) for a, b in itertools.pairwise(bounds)]


@aten("hsplit", "vsplit")
def _hsplit(c: TorchCall, x: Value, places: Any) -> list[Value]:
    return _tensor_split(c, x, places, 0 if "vsplit" in c.target or x.ndim == 1 else 1)


@aten("chunk", "unsafe_chunk")
def _chunk(c: TorchCall, x: Value, number: int, dim: int = 0) -> list[Value]:
    axis = c.axis(dim, x.ndim)
    extent = x.shape[axis]
    if not isinstance(extent, int):
        return c.calls("split", x, indices_or_sections=number, axis=axis) if number > 1 else [x]
    size = max(-(-extent // number), 1)
    return split_sizes(c, x, [min(size, extent - k) for k in range(0, extent, size)] or [0], axis)


@aten("unbind", "unbind_copy")
def _unbind(c: TorchCall, x: Value, dim: int = 0) -> list[Value]:
    axis = c.axis(dim, x.ndim)
    (extent,) = c.static([x.shape[axis]], "the extent that it takes apart")
    parts = split_sizes(c, x, [1] * extent, axis) if extent else []
    return [c.call("squeeze", p, axis=(axis,)) for p in parts]


@aten("repeat")
def repeat(c: TorchCall, x: Value, times: Sequence[Any]) -> Value:
    shape = x.shape
    if len(times) > len(shape):
        x = c.reshape(x, [1] * (len(times) - len(shape)) + shape)
    if all([isinstance(t, int) and t == 1 for t in times]):
        return x
    if all(
        [isinstance(d, int) and d == 1 or isinstance(t, int) and t == 1 for d, t in zip(x.shape, times, strict=True)]
    ):
        return c.broadcast(x, [t if isinstance(d, int) and d == 1 else d for d, t in zip(x.shape, times, strict=True)])
    if any([isinstance(t, int) and t == 0 for t in times]):
        return c.full([d * t for d, t in zip(x.shape, times, strict=True)], 0, x.dtype)
    return c.call("tile", x, reps=tuple(times))


@aten("tile")
def _tile(c: TorchCall, x: Value, times: Sequence[Any]) -> Value:
    return repeat(c, x, [1] * (x.ndim - len(times)) + list(times))


@aten("repeat_interleave.self_int")
def _repeat_interleave(c: TorchCall, x: Value, repeats: Any, dim: int | None = None, output_size: Any = None) -> Value:
    flat, axis = (c.reshape(x, [-1]), 0) if dim is None else (x, c.axis(dim, x.ndim))
    shape = flat.shape
    wide = c.broadcast(unsqueeze(c, flat, axis + 1), [*shape[: axis + 1], repeats, *shape[axis + 1 :]])
    return c.reshape(wide, [*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]])


@aten("flip", "fliplr", "flipud")
def _flip(c: TorchCall, x: Value, dims: Sequence[int] | None = None) -> Value:
    dims = dims if dims is not None else [1 if "lr" in c.target else 0]
    for d in dims:
        x = c.call("reverse", x, axis=c.axis(d, x.ndim))
    return x


@aten("rot90")
def _rot90(c: TorchCall, x: Value, k: int = 1, dims: Sequence[int] = (0, 1)) -> Value:
    a, b = (c.axis(d, x.ndim) for d in dims)
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    if k % 4 == 2:
        return c.call("reverse", c.call("reverse", x, axis=a), axis=b)
    if k % 4 == 1:
        return c.call("reverse", c.transpose(x, order), axis=a)
    return c.transpose(c.call("reverse", x, axis=a), order) if k % 4 == 3 else x


@aten("roll")
def _roll(c: TorchCall, x: Value, shifts: Any, dims: Any = ()) -> Value:
    shifts = shifts if isinstance(shifts, (list, tuple)) else [shifts]
    if not dims:
        return c.reshape(_rolled(c, c.reshape(x, [-1]), shifts[0], 0), x.shape)
    for s, d in zip(shifts, dims if isinstance(dims, (list, tuple)) else [dims], strict=True):
        x = _rolled(c, x, s, c.axis(d, x.ndim))
    return x


def _rolled(c: TorchCall, x: Value, shift: Any, axis: int) -> Value:
    extent = x.shape[axis]
    if isinstance(extent, int) and isinstance(shift, int):
        shift = shift % extent if extent else 0
        if not shift:
            return x
        first, second = cut(c, x, axis, extent - shift, extent), cut(c, x, axis, 0, extent - shift)
        return c.call("concatenate", [first, second], axis=axis)
    if isinstance(shift, int) and shift <= 0 or isinstance(extent, int):
        shift = shift + extent if isinstance(shift, int) else shift
    first, second = cut(c, x, axis, extent - shift, extent), cut(c, x, axis, 0, extent - shift)
    return c.call("concatenate", [first, second], axis=axis)


@aten("tril", "triu")
def _triangle(c: TorchCall, x: Value, k: int = 0) -> Value:
    upper = "triu" in c.target
    rows, columns = x.shape[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        whole = np.ones((rows, columns), bool)
        kept = Value(array=np.triu(whole, k) if upper else np.tril(whole, k))
    else:
        places = [c.call("arange", start=0, stop=d, step=1, dtype="int64") for d in (rows, columns)]
        away = c.call("subtract", unsqueeze(c, places[1], 0), unsqueeze(c, places[0], 1))
        kept = c.call("greater_equal" if upper else "less_equal", away, k)
    return c.call("where", kept, x, c.number(0, x.dtype))


@aten("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(c: TorchCall, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    a, b = c.axis(dim1, x.ndim), c.axis(dim2, x.ndim)
    rows, columns = c.static([x.shape[a], x.shape[b]], "the extents of its matrix")
    order = [k for k in range(x.ndim) if k not in (a, b)] + [a, b]
    flat = c.reshape(c.transpose(x, order), [*[x.shape[k] for k in order[:-2]], rows * columns])
    grid = np.arange(rows * columns).reshape(rows, columns)
    return c.call("take", flat, Value(array=np.diagonal(grid, offset).copy()), axis=x.ndim - 2)


@aten("diag")
def _diag(c: TorchCall, x: Value, k: int = 0) -> Value:
    return diagonal(c, x, k) if x.ndim == 2 else diag_embed(c, x, k)


@aten("diag_embed", "diagflat")
def diag_embed(c: TorchCall, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    x = c.reshape(x, [-1]) if "diagflat" in c.target else x
    (n,) = c.static(x.shape[-1:], "the length of its diagonal")
    size = n + abs(offset)
    source = np.zeros((size, size), np.int64)
    hit = np.eye(size, size, offset, dtype=bool)
    source[hit] = np.arange(n)
    wide = c.call("take", x, Value(array=source), axis=x.ndim - 1)
    made = c.call("where", Value(array=hit), wide, c.number(0, x.dtype))
    rank = x.ndim + 1
    a, b = c.axis(dim1, rank), c.axis(dim2, rank)
    if (a, b) == (rank - 2, rank - 1):
        return made
    rest = iter(range(rank - 2))
    return c.transpose(made, [rank - 2 if k == a else rank - 1 if k == b else next(rest) for k in range(rank)])


@aten("trace")
def _trace(c: TorchCall, x: Value) -> Value:
    return c.call("sum", diagonal(c, x if x.dtype != "int32" else c.cast(x, "int64")), axis=(0,))


@aten("meshgrid")
def _meshgrid(c: TorchCall, xs: Sequence[Value], indexing: str | None = None) -> Any:
    xs = [c.reshape(x, [1]) if not x.ndim else x for x in xs]
    if indexing == "xy" and len(xs) > 1:
        turned = [1, 0, *range(2, len(xs))]
        grids = _meshgrid(c, [xs[k] for k in turned])
        return [grids[k] for k in turned]
    shape = [x.shape[0] for x in xs]
    return [
        c.broadcast(c.reshape(x, [x.shape[0] if j == k else 1 for j in range(len(xs))]), shape)
        for k, x in enumerate(xs)
    ]


@aten("cartesian_prod")
def _cartesian_prod(c: TorchCall, xs: Sequence[Value]) -> Value:
    return xs[0] if len(xs) == 1 else stack(c, [c.reshape(g, [-1]) for g in _meshgrid(c, xs)], 1)


@aten("unfold", "unfold_copy")
def _unfold(c: TorchCall, x: Value, dim: int, size: int, step: int) -> Value:
    whole = not x.ndim
    x = c.reshape(x, [1]) if whole else x
    axis = c.axis(dim, x.ndim)
    (extent,) = c.static([x.shape[axis]], "the extent of its axis")
    starts = np.arange(0, extent - size + 1, step)
    windows = c.call("take", x, Value(array=starts[:, None] + np.arange(size)), axis=axis)
    windows = c.transpose(windows, [k for k in range(x.ndim + 1) if k != axis + 1] + [axis + 1])
    return c.reshape(windows, windows.shape[1:]) if whole else windows


@aten("as_strided", "as_strided_copy")
def _as_strided(c: TorchCall, x: Value, size: Sequence[Dim], stride: Sequence[Any], offset: Any = None) -> Value:
    return c.call("take", c.reshape(x, [-1]), Value(array=strided(c, x, size, stride, offset)), axis=0)


def strided(c: TorchCall, x: Value, size: Sequence[Any], stride: Sequence[Any], offset: Any) -> np.ndarray:
    """The indices of a view's elements among those of x."""
    c.static([*x.shape, *size, *stride], "the sizes and strides of its view")
    places = np.full((), int(offset or 0), np.int64)
    for n, s in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(n) * s
    return places


@aten("resize", "resize_as")
def _resize(c: TorchCall, x: Value, size: Any, *rest: object) -> Value:
    """The first elements in a new shape; additional elements are zeros."""
    shape = c.static(size.shape if isinstance(size, Value) else size, "its new size")
    flat, count = c.reshape(x, [-1]), int(np.prod(shape))
    (have,) = c.static(flat.shape, "the number of its elements")
    if count > have:
        flat = c.call("concatenate", [flat, c.full([count - have], 0, x.dtype)], axis=0)
    return c.reshape(cut(c, flat, 0, 0, count), shape)


@aten("pixel_shuffle")
def _pixel_shuffle(c: TorchCall, x: Value, factor: int) -> Value:
    if x.ndim == 4:
        return c.call("nn.depth_to_space", x, block_size=factor, mode="CRD")
    *lead, channels, h, w = x.shape
    rank = len(lead)
    apart = c.reshape(x, [*lead, channels // factor**2, factor, factor, h, w])
    order = [*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2]
    return c.reshape(c.transpose(apart, order), [*lead, channels // factor**2, h * factor, w * factor])


@aten("pixel_unshuffle")
def _pixel_unshuffle(c: TorchCall, x: Value, factor: int) -> Value:
    *lead, channels, h, w = x.shape
    rank = len(lead)
    apart = c.reshape(x, [*lead, channels, h // factor, factor, w // factor, factor])
    order = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    return c.reshape(c.transpose(apart, order), [*lead, channels * factor**2, h // factor, w // factor])


@aten("channel_shuffle", "native_channel_shuffle")
def _channel_shuffle(c: TorchCall, x: Value, groups: int) -> Value:
    n, channels, *rest = x.shape
    apart = c.reshape(x, [n, groups, channels // groups, *rest])
    return c.reshape(c.transpose(apart, [0, 2, 1, *range(3, x.ndim + 1)]), x.shape)


# Properties of a tensor


@aten("sym_size", "size.int")
def _size(c: TorchCall, x: Value, dim: int | None = None) -> list[Dim] | Dim:
    return list(x.shape) if dim is None else x.shape[dim]


@aten("size", "sym_size.default")
def _sizes(c: TorchCall, x: Value) -> list[Dim]:
    return list(x.shape)


@aten("sym_numel", "numel")
def _numel(c: TorchCall, x: Value) -> Any:
    return _product(x.shape)


@aten("sym_stride", "sym_stride.int", "stride", "stride.int")
def _stride(c: TorchCall, x: Value, dim: int | None = None) -> Result:
    steps = [_product(x.shape[k + 1 :]) for k in range(x.ndim)]
    return steps if dim is None else steps[dim]


@aten("sym_storage_offset", "storage_offset")
def _storage_offset(c: TorchCall, x: Value) -> int:
    return 0


@aten("dim")
def _dim(c: TorchCall, x: Value) -> int:
    return x.ndim


@aten("_shape_as_tensor")
def _shape_as_tensor(c: TorchCall, x: Value) -> np.ndarray | Value:
    if all([isinstance(d, int) for d in x.shape]):
        return np.array(x.shape, np.int64)
    return c.call("shape_of", x, dtype="int64")


@aten("is_floating_point", "is_complex")
def _is_floating_point(c: TorchCall, x: Value) -> bool:
    return x.dtype.startswith("complex" if "complex" in c.target else ("float", "bfloat"))


@aten("_local_scalar_dense", "item")
def item(c: TorchCall, x: Value) -> Any:
    try:
        return c.known(x, "value").reshape(-1)[0].item()
    except OpNotImplemented:
        raise OpNotImplemented(
            "it reads a number out of a tensor that the model computes, and sizes that depend on data are not supported."
            " Keep it a tensor, or give it as an example input of a fixed value"
        ) from None


@aten("result_type")
def _result_type(c: TorchCall, a: Operand, b: Operand) -> str:
    return result_dtype([a, b])
