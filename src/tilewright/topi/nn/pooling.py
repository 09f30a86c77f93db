"""Pooling over spatial axes in any layout, plain or blocked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.loops import local, program, unflatten
from tilewright.topi.nn.columns import computed_columns, first_columns, window_columns
from tilewright.topi.nn.pad import pad
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
    to,
    window_extent,
)

APART = 2
"""How many times fewer steps make it worth to write the largest elements (or sums) of columns, and read them again."""


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
    divide: bool = True,
) -> te.Tensor:
    """Largest ("max") or mean ("avg") element of every window along `axes`. A mean counts padding only with `count_include_pad`,
    and never what `ceil_mode` adds past the padding; without `divide` it is the sum, as wide as sums are. The largest of large windows
    is that of the largest of their columns, and so is their sum."""
    if pool_type not in ("max", "avg"):
        raise ValueError(f'pool_type must be "max" or "avg", but is {pool_type!r}')
    rank = len(kernel)
    ks, ss, ds = ([get_const_int(v) for v in given] for given in (kernel, stride, dilation))
    before, after = get_pad_tuple(padding, ks, rank)
    shape = shape_of(data)
    out = list(shape)
    extra = [0] * rank
    for j, a in enumerate(axes):
        count = window_extent(shape[a], ks[j], before[j], after[j], ss[j], ds[j], ceil_mode)
        out[a] = count
        if ceil_mode:
            # What the last window reads past data and padding; a symbolic extent can need up to stride - 1.
            extent = shape[a]
            if isinstance(extent, int) and isinstance(count, int):
                extra[j] = max(0, (count - 1) * ss[j] + (ks[j] - 1) * ds[j] + 1 - (extent + before[j] + after[j]))
            else:
                extra[j] = ss[j] - 1
    wide_axes = [j for j, k in enumerate(ks) if k > 1]
    if (pool_type == "max" or not divide) and len(wide_axes) > 1:
        j = wide_axes[0]
        known = [e for a in axes for e in (shape[a], out[a]) if isinstance(e, int)]
        rest = prod([e for i, e in enumerate(ks) if i != j])
        behind = prod([shape[a] / out[a] for i, a in enumerate(axes) if i != j]) if len(known) == 2 * rank else 0
        if behind and ks[j] * rest >= APART * (ks[j] * behind + rest):
            one, others = [[v if (i == j) == alone else 1 for i, v in enumerate(ks)] for alone in (True, False)]
            alike = [[v if (i == j) == alone else 1 for i, v in enumerate(ss)] for alone in (True, False)]
            pads = [
                [v if (i % rank == j) == alone else 0 for i, v in enumerate([*before, *after])]
                for alone in (True, False)
            ]
            columns = pool(data, one, alike[0], ds, pads[0], pool_type, axes, ceil_mode, divide=False)
            return pool(columns, others, alike[1], ds, pads[1], pool_type, axes, ceil_mode, divide=False)
    pads_before, pads_after = [0] * len(shape), [0] * len(shape)
    for j, a in enumerate(axes):
        pads_before[a], pads_after[a] = before[j], after[j] + extra[j]
    ways = [te.reduce_axis((0, k), name=f"rv{j}") for j, k in enumerate(ks)]

    def position(i: Sequence[Any], j: int) -> Any:
        base = i[axes[j]] if ss[j] == 1 else i[axes[j]] * ss[j]
        return base + (ways[j].var if ds[j] == 1 else ways[j].var * ds[j])

    def windows(value: Any) -> tuple[Any, Any]:
        """What an output element's taps read, and the shape to compute: with more columns when windows run along the last axis."""
        plain = axes[-1] == len(shape) - 1 and isinstance(shape[-1], int)
        if not plain:
            padded = pad(data, pads_before, pads_after, value, name="pad_temp")
            places = {a: j for j, a in enumerate(axes)}
            return lambda i: padded(*[position(i, places[a]) if a in places else v for a, v in enumerate(i)]), out
        columns = computed_columns(out[-1], data.dtype)
        read = window_columns(data, pads_before, pads_after, columns, ks[-1], ss[-1], ds[-1], value, near=True)
        places = {a: j for j, a in enumerate(axes[:-1])}

        def taps(i: Sequence[Any]) -> Any:
            lead = [position(i, places[a]) if a in places else v for a, v in enumerate(i[:-1])]
            return read(lead, i[-1], ways[-1].var)

        return taps, [*out[:-1], columns]

    # Floats of 16 bits are met in float32: sums keep their small terms, and vectors have instructions to compare.
    wide = accumulator(data.dtype)

    def stored(t: te.Tensor) -> te.Tensor:
        if wide == data.dtype:
            return t
        return compute(t.shape, lambda *i: to(t(*i), data.dtype), name="T_cast", tag="elemwise")

    if pool_type == "max":
        taps, computed = windows(tir.lowest(data.dtype))
        largest = compute(computed, lambda *i: te.max(to(taps(i), wide), axis=ways), name="pool_max", tag="pool_max")
        return stored(first_columns(largest, out[-1]))
    if not divide:
        taps, computed = windows(0)
        sums = compute(computed, lambda *i: te.sum(to(taps(i), wide), axis=ways), name="pool_sum", tag="pool_sum")
        return first_columns(sums, out[-1])
    total = pool(data, kernel, stride, dilation, padding, "avg", axes, ceil_mode, divide=False)
    whole = count_include_pad and not any(extra) or not (any(before) or any(after) or any(extra))

    def mean(*i: Any) -> Any:
        number: Any = prod(ks) if whole else 1
        if not whole:
            for j, a in enumerate(axes):
                number = number * _taps(i[a], shape[a], ks[j], ss[j], ds[j], before[j], after[j], count_include_pad)
        if isinstance(number, int):
            return (
                total(*i) / tir.const(number, total.dtype)
                if "float" in total.dtype
                else tir.floordiv(total(*i), number)
            )
        number = to(number, total.dtype)
        return total(*i) / number if "float" in total.dtype else tir.floordiv(total(*i), number)

    return stored(compute(out, mean, name="pool_avg", tag="pool_avg"))


def _taps(o: Any, extent: Dim, k: int, stride: int, dilation: int, before: int, after: int, with_padding: bool) -> Any:
    """How many taps of window o fall on data (and padding): at least 1."""
    start = o * stride - before
    low, high = (-before, extent + after) if with_padding else (0, extent)
    if dilation == 1:
        return tir.max(tir.min(start + k, high) - tir.max(start, low), 1)
    first = tir.max(tir.floordiv(low - start + dilation - 1, dilation), 0)
    last = tir.min(tir.floordiv(high - start + dilation - 1, dilation), k)
    return tir.max(last - first, 1)


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
    """Largest or mean element over the spatial axes, which keep extent 1."""
    axes = spatial_axes(layout, letters)
    shape = shape_of(data)
    if pool_type == "max":
        return reduce(data, axes, True, te.max, lambda v, _: v, "global_pool_max")
    total = reduce(data, axes, True, te.sum, lambda v, _: v, "global_pool_sum")
    return scale_by_count(total, prod(shape[a] for a in axes))


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

    def start(j: int, o: Any) -> Any:
        return tir.floordiv(o * extents[j], sizes[j])

    def end(j: int, o: Any) -> Any:
        return tir.floordiv((o + 1) * extents[j] + sizes[j] - 1, sizes[j])

    def value(i: Sequence[Any], outside: Any) -> Any:
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
    total = compute(
        out,
        lambda *i: te.sum(value(i, tir.const(0, data.dtype)), axis=ways),
        name="adaptive_pool_sum",
        tag="adaptive_pool_sum",
    )

    def mean(*i: Any) -> Any:
        number = as_int(1)
        for j, a in enumerate(axes):
            number = number * (end(j, i[a]) - start(j, i[a]))
        return total(*i) / to(number, total.dtype)

    return compute(out, mean, name="adaptive_pool_avg", tag="adaptive_pool_avg")


def adaptive_pool1d(data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCW") -> te.Tensor:
    """Pooling to a given W."""
    return adaptive_pool(data, output_size, pool_type, layout, "W")


def adaptive_pool3d(data: te.Tensor, output_size: Sequence[int], pool_type: str, layout: str = "NCDHW") -> te.Tensor:
    """Pooling to given D, H and W."""
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
    """The adjoint of data in pool2d, from that of its result: to the largest element of each window (the first of several), or to all
    elements in equal parts."""
    axes = spatial_axes(layout)
    ks, ss = [get_const_int(k) for k in kernel], [get_const_int(s) for s in stride]
    before, after = get_pad_tuple(padding, ks, 2)
    shape, out = shape_of(data), shape_of(grads)

    def body(ib: Any, dy: Any, x: Any, dx: Any) -> None:
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
