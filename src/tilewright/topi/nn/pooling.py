"""Pooling over spatial axes in any layout, plain or blocked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import local, program, unflatten
from tilewright.topi.nn.columns import computed_columns, first_columns, window_columns
from tilewright.topi.nn.kernel_offsets import offsets_on_data
from tilewright.topi.nn.pad import pad
from tilewright.topi.planner import planner
from tilewright.topi.reduction import reduce, scale_by_count
from tilewright.topi.transform import spatial_axes
from tilewright.topi.utils import (
    Dim,
    accumulator,
    as_int,
    get_const_int,
    get_pad_tuple,
    prod,
    shape_of,
    sum_type,
    to,
    window_extent,
)

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var
    from tilewright.tir.ir_builder import BufferVar, IRBuilder


POOL_TYPE_CODE = {"avg": 0, "max": 1}
"""The numbers by which kinds of pooling are known to native code."""


class Window(NamedTuple):
    """The windows along one axis of the data. beyond: the number of elements past the padding that the last window may read."""

    axis: int
    kernel: int
    stride: int
    dilation: int
    before: int
    after: int
    extent: Dim
    count: Dim
    beyond: int

    def alone(self, extent: Dim) -> Window:
        """Windows of one element along an axis of `extent`."""
        return self._replace(kernel=1, stride=1, before=0, after=0, extent=extent, count=extent, beyond=0)

    def on_data(self) -> Window:
        """The windows without the kernel offsets that read only padding, where that is known."""
        if self.beyond or not isinstance(self.extent, int):
            return self
        found = offsets_on_data(self.extent, self.kernel, self.before, self.after, self.stride, self.dilation)
        if found is None:
            return self
        first, last, before, after = found
        return self._replace(kernel=last - first, before=before, after=after)

    def reads(self, o: Any, kernel_offset: Any) -> Any:
        """The index into padded data that window `o` reads at a kernel offset."""
        return (o if self.stride == 1 else o * self.stride) + (
            kernel_offset if self.dilation == 1 else kernel_offset * self.dilation
        )

    def elements(self, o: Any, with_padding: bool) -> PrimExpr:
        """The number of elements of window `o` that are data (or padding), at least 1."""
        start = o * self.stride - self.before
        low, high = (-self.before, self.extent + self.after) if with_padding else (0, self.extent)
        if self.dilation == 1:
            return tir.max(tir.min(start + self.kernel, high) - tir.max(start, low), 1)
        first = tir.max(tir.floordiv(low - start + self.dilation - 1, self.dilation), 0)
        last = tir.min(tir.floordiv(high - start + self.dilation - 1, self.dilation), self.kernel)
        return tir.max(last - first, 1)


def _windows(
    shape: Sequence[Dim],
    axes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
    ceil_mode: bool,
) -> list[Window]:
    """The windows along each of the axes."""
    ks, ss, ds = ([get_const_int(v) for v in given] for given in (kernel, stride, dilation))
    before, after = get_pad_tuple(padding, ks, len(ks))
    found = []
    for a, k, s, d, b, e in zip(axes, ks, ss, ds, before, after, strict=True):
        extent = shape[a]
        count = window_extent(extent, k, b, e, s, d, ceil_mode)
        beyond = 0
        if ceil_mode:
            # For a dynamic extent it is at most stride - 1.
            known = isinstance(extent, int) and isinstance(count, int)
            beyond = max(0, (count - 1) * s + (k - 1) * d + 1 - (extent + b + e)) if known else s - 1
        found.append(Window(a, k, s, d, b, e, extent, count, beyond))
    return found


def pool(
    data: te.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
    pool_type: str,
    axes: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> te.Tensor:
    """The maximum ("max") or mean ("avg") of every window along `axes`. A mean counts padding only with `count_include_pad`.
    It never counts the elements that `ceil_mode` adds past the padding."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f'pool_type must be "max" or "avg", but is {pool_type!r}')
    windows = _windows(shape_of(data), axes, kernel, stride, dilation, padding, ceil_mode)
    read = [w.on_data() for w in windows]
    if pool_type == "max":
        return _reduced(data, read, largest=True)
    return _mean(_reduced(data, read, largest=False), windows, count_include_pad, data.dtype)


def _reduced(data: te.Tensor, windows: Sequence[Window], largest: bool) -> te.Tensor:
    """The largest element of every window, or its sum in the accumulator's type. Large windows are reduced along one axis first, then along
    the others."""
    if (parts := _in_two(data, windows)) is not None:
        return _reduced(_reduced(data, parts[0], largest), parts[1], largest)
    ways = [te.reduce_axis((0, w.kernel), name=f"rv{j}") for j, w in enumerate(windows)]
    read, computed, columns = _reader(data, windows, ways, tir.lowest(data.dtype) if largest else 0)
    # Floats of 16 bits are reduced in float32: sums keep small terms, and comparisons have vector instructions.
    wide = accumulator(data.dtype) if largest else _sum_type(data.dtype, prod([w.kernel for w in windows]))
    combine, name = (te.max, "pool_max") if largest else (te.sum, "pool_sum")
    made = compute(computed, lambda *i: combine(to(read(i), wide), axis=ways), name=name, tag=name)
    made = first_columns(made, columns)
    return _stored(made, data.dtype) if largest else made


def _sum_type(dtype: str, number: Any) -> str:
    """The type in which the elements of windows are added."""
    return sum_type(accumulator(dtype), number)


def _in_two(data: te.Tensor, windows: Sequence[Window]) -> tuple[list[Window], list[Window]] | None:
    """(windows along the first axis with several elements, windows along the other axes), to be reduced one after the other; None if that
    does not save steps."""
    wide = [j for j, w in enumerate(windows) if w.kernel > 1]
    if len(wide) < 2 or not all(isinstance(e, int) for w in windows for e in (w.extent, w.count)):
        return None
    j = wide[0]
    first = windows[j]
    rest = prod([w.kernel for w in windows if w is not first])
    behind = prod([w.extent / w.count for w in windows if w is not first])
    *others, last = shape_of(data)
    stride = windows[-1].stride if windows[-1].axis == len(others) else 1
    between = prod([d for d in (*others, last) if isinstance(d, int)]) * first.count // first.extent
    if not behind or not planner().pooled_apart(first.kernel, rest, behind, stride, between * (data.dtype.bits // 8)):
        return None
    alone = [w.alone(w.extent) for w in windows]
    columns = [*alone[:j], first, *alone[j + 1 :]]
    return columns, [*windows[:j], first.alone(first.count), *windows[j + 1 :]]


KernelOffsets = Callable[[Sequence[Any]], Any]
"""A function of the index of an output element that gives the element that its window reads."""


def _reader(
    data: te.Tensor, windows: Sequence[Window], ways: Sequence[tir.IterVar], outside: PrimExpr | int
) -> tuple[KernelOffsets, list[Dim], Dim]:
    """(function that reads the elements of windows, shape to compute, columns of the result). For windows along the last axis more columns
    may be computed."""
    shape = shape_of(data)
    before, after, out = [0] * len(shape), [0] * len(shape), list(shape)
    for w in windows:
        before[w.axis], after[w.axis], out[w.axis] = w.before, w.after + w.beyond, w.count
    places = {w.axis: (w, way.var) for w, way in zip(windows, ways, strict=True)}

    def at(a: int, o: PrimExpr) -> Any:
        if a not in places:
            return o
        w, kernel_offset = places[a]
        return w.reads(o, kernel_offset)

    last = windows[-1]
    if last.axis != len(shape) - 1 or not isinstance(shape[-1], int):
        padded = pad(data, before, after, outside, name="pad_temp")
        return lambda i: padded(*[at(a, o) for a, o in enumerate(i)]), out, out[-1]
    columns = computed_columns(out[-1], data.dtype)
    read = window_columns(data, before, after, columns, last.kernel, last.stride, last.dilation, outside, near=True)
    kernel_offset = ways[-1].var
    return lambda i: read([at(a, o) for a, o in enumerate(i[:-1])], i[-1], kernel_offset), [*out[:-1], columns], out[-1]


def _mean(total: te.Tensor, windows: Sequence[Window], count_include_pad: bool, dtype: str) -> te.Tensor:
    """The sums of windows divided by the number of their elements, in `dtype`."""
    beyond = any(w.beyond for w in windows)
    whole = count_include_pad and not beyond or not (beyond or any(w.before or w.after for w in windows))

    def mean(*i: Var) -> PrimExpr:
        number: Any
        if whole:
            number = tir.const(prod([w.kernel for w in windows]), total.dtype)
        else:
            number = 1
            for w in windows:
                number = number * w.elements(i[w.axis], count_include_pad)
            number = to(number, total.dtype)
        return total(*i) / number if "float" in total.dtype else tir.floordiv(total(*i), number)

    return _stored(compute(total.shape, mean, name="pool_avg", tag="pool_avg"), dtype)


def _stored(t: te.Tensor, dtype: str) -> te.Tensor:
    """A tensor converted to `dtype`."""
    if t.dtype == dtype:
        return t
    return compute(t.shape, lambda *i: to(t(*i), dtype), name="T_cast", tag="elemwise")


def pool2d(
    data: te.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """Pooling over H and W. Padding is (top, left, bottom, right), (vertical, horizontal) or one number."""
    return pool(data, kernel, stride, dilation, padding, pool_type, spatial_axes(layout), ceil_mode, count_include_pad)


def pool1d(
    data: te.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """Pooling over W."""
    return pool(
        data, kernel, stride, dilation, padding, pool_type, spatial_axes(layout, "W"), ceil_mode, count_include_pad
    )


def pool3d(
    data: te.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> te.Tensor:
    """Pooling over D, H and W."""
    return pool(
        data, kernel, stride, dilation, padding, pool_type, spatial_axes(layout, "DHW"), ceil_mode, count_include_pad
    )


def global_pool(data: te.Tensor, pool_type: str, layout: str = "NCHW", letters: str = "HW") -> te.Tensor:
    """The maximum or mean over the spatial axes, whose extents become 1."""
    axes = spatial_axes(layout, letters)
    shape = shape_of(data)
    if pool_type == "max":
        return reduce(data, axes, True, te.max, lambda v, _: v, "global_pool_max")
    number = prod(shape[a] for a in axes)
    wide = sum_type(data.dtype, number)
    total = reduce(data, axes, True, te.sum, lambda v, _: to(v, wide), "global_pool_sum")
    return _stored(scale_by_count(total, number), data.dtype)


def adaptive_pool(
    data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCHW", letters: str = "HW"
) -> te.Tensor:
    """Pooling to given extents of the spatial axes: window i covers floor(i * n / m) up to ceil((i + 1) * n / m)."""
    axes = spatial_axes(layout, letters)
    shape = shape_of(data)
    sizes = [get_const_int(s) for s in output_size]
    if all(isinstance(shape[a], int) and shape[a] % m == 0 for a, m in zip(axes, sizes, strict=True)):
        kernel = [shape[a] // m for a, m in zip(axes, sizes, strict=True)]
        if all(m == 1 for m in sizes):
            return global_pool(data, pool_type, layout, letters)
        return pool(data, kernel, kernel, [1] * len(kernel), 0, pool_type, axes)
    extents = [get_const_int(shape[a]) for a in axes]
    widest = [max(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in zip(extents, sizes, strict=True)]
    ways = [te.reduce_axis((0, k), name=f"rv{j}") for j, k in enumerate(widest)]
    out = list(shape)
    for a, m in zip(axes, sizes, strict=True):
        out[a] = m

    def start(j: int, o: PrimExpr) -> Any:
        return tir.floordiv(o * extents[j], sizes[j])

    def end(j: int, o: PrimExpr) -> PrimExpr:
        return tir.floordiv((o + 1) * extents[j] + sizes[j] - 1, sizes[j])

    def value(i: Sequence[PrimExpr], outside: PrimExpr) -> Any:
        index, inside = list(i), []
        for j, a in enumerate(axes):
            at = start(j, i[a]) + ways[j].var
            inside.append(at < end(j, i[a]))
            index[a] = tir.min(at, extents[j] - 1)
        return tir.Select(tir.all(*inside), data(*index), outside)

    if pool_type == "max":
        return compute(
            out,
            lambda *i: te.max(value(i, tir.lowest(data.dtype)), axis=ways),
            name="adaptive_pool_max",
            tag="adaptive_pool_max",
        )
    wide = sum_type(data.dtype, prod(widest))
    total = compute(
        out,
        lambda *i: te.sum(to(value(i, tir.const(0, data.dtype)), wide), axis=ways),
        name="adaptive_pool_sum",
        tag="adaptive_pool_sum",
    )

    def mean(*i: Var) -> Any:
        number = as_int(1)
        for j, a in enumerate(axes):
            number = number * (end(j, i[a]) - start(j, i[a]))
        divided = total(*i) / to(number, wide) if data.dtype.is_float else tir.truncdiv(total(*i), to(number, wide))
        return to(divided, data.dtype)

    return compute(out, mean, name="adaptive_pool_avg", tag="adaptive_pool_avg")


def adaptive_pool1d(data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCW") -> te.Tensor:
    """Pooling to the given W."""
    return adaptive_pool(data, output_size, pool_type, layout, "W")


def adaptive_pool3d(data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCDHW") -> te.Tensor:
    """Pooling to the given D, H and W."""
    return adaptive_pool(data, output_size, pool_type, layout, "DHW")


def pool_grad(
    grads: te.Tensor,
    data: te.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> te.Tensor:
    """The adjoint of data in pool2d, from the adjoint of its result. For "max", the first largest element of each window gets it; for
    "avg", all elements of the window get equal parts."""
    axes = spatial_axes(layout)
    ks, ss = [get_const_int(k) for k in kernel], [get_const_int(s) for s in stride]
    before, after = get_pad_tuple(padding, ks, 2)
    shape, out = shape_of(data), shape_of(grads)

    def body(ib: IRBuilder, dy: BufferVar, x: BufferVar, dx: BufferVar) -> None:
        with ib.for_range(0, prod(shape), "i") as i:
            dx[tuple(unflatten(i, shape))] = tir.const(0, data.dtype)
        with ib.for_range(0, prod(out), "o") as o:
            at = [ib.let(f"i{k}", v) for k, v in enumerate(unflatten(o, out))]
            begin = [ib.let(f"begin{j}", at[a] * ss[j] - before[j]) for j, a in enumerate(axes)]
            low = [tir.max(b, 0) for b in begin]
            high = [tir.min(b + k, shape[a]) for b, k, a in zip(begin, ks, axes, strict=True)]

            def place(y: Any, z: Any) -> tuple[Any, ...]:
                found = list(at)
                found[axes[0]], found[axes[1]] = y, z
                return tuple(found)

            if pool_type == "max":
                best_y, best_x = local(ib, low[0].dtype, low[0], "best_y"), local(ib, low[1].dtype, low[1], "best_x")
                with ib.for_range(low[0], high[0], "y") as y, ib.for_range(low[1], high[1], "x") as z:
                    larger = x[place(y, z)] > x[place(best_y[0], best_x[0])]
                    with ib.if_scope(larger):
                        best_y[0], best_x[0] = y, z
                target = place(best_y[0], best_x[0])
                dx[target] = dx[target] + dy[tuple(at)]
                return
            if count_include_pad:
                reach = [
                    tir.min(b + k, d + a) - b
                    for b, k, d, a in zip(begin, ks, [shape[a] for a in axes], after, strict=True)
                ]
            else:
                reach = [h - b for b, h in zip(low, high, strict=True)]
            share = ib.let("share", dy[tuple(at)] / to(tir.max(reach[0] * reach[1], 1), data.dtype))
            with ib.for_range(low[0], high[0], "y") as y, ib.for_range(low[1], high[1], "x") as z:
                dx[place(y, z)] = dx[place(y, z)] + share

    return program([shape], [data.dtype], [grads, data], body, "pool_grad")[0]
