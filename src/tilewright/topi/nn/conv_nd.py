"""Convolutions over any number of spatial axes, in any plain layout, and their adjoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.columns import computed_columns, first_columns, window_columns
from tilewright.topi.nn.packed_conv import conv2d_packed, is_packed, result_layout
from tilewright.topi.nn.pad import dilate, pad
from tilewright.topi.nn.plain_conv import plain_conv
from tilewright.topi.problems import Windows
from tilewright.topi.utils import (
    Dim,
    as_int,
    get_const_int,
    get_pad_tuple,
    in_own_layout,
    moved,
    numbers,
    shape_of,
    to,
    window_extent,
)

if TYPE_CHECKING:
    from tilewright.ir import PrimExpr
    from tilewright.tir.expr import Var


Numbers = int | Sequence[int]
Padding = int | str | Sequence[int]
Conv = Callable[..., te.Tensor]

_OFFSETS = {"D": "rz", "H": "ry", "W": "rx"}


def conv(
    inp: te.Tensor,
    filt: te.Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    auto_scheduler_rewritten_layout: str = "",
    meta_schedule_original_shape: Any = None,
    auto_scheduler_should_rewrite_layout: bool = False,
    out_layout: str = "",
) -> te.Tensor:
    """Cross-correlation with layouts named by letters: N, C and spatial ones for data, O, I and the same for weights. Output
    channel o reads only the input channels of group o // (O / groups). The weights are in `kernel_layout`, not rewritten by a tuner."""
    del auto_scheduler_should_rewrite_layout
    in_own_layout("conv", auto_scheduler_rewritten_layout, meta_schedule_original_shape)
    if is_packed(data_layout, kernel_layout):
        if tuple(numbers(dilation, 2)) != (1, 1):
            raise ValueError(f"conv: data in {data_layout} takes kernels without dilation, not with {dilation}")
        given = result_layout(data_layout, kernel_layout)
        if out_layout not in ("", given):
            raise ValueError(f"conv: data in {data_layout} gives results in {given}, not in {out_layout}")
        return conv2d_packed(inp, filt, stride, padding, groups, out_dtype or inp.dtype)
    letters = "".join([c for c in data_layout if c not in "NC"])
    kernel_layout = kernel_layout or (f"OI{letters}" if data_layout[1] == "C" else f"{letters}IO")
    out_layout = out_layout or data_layout
    plain = (data_layout, f"NC{letters}"), (kernel_layout, f"OI{letters}"), (out_layout, f"NC{letters}")
    if not letters.isalpha() or any([sorted(layout) != sorted(axes) for layout, axes in plain]):
        raise ValueError(
            f"conv has no compute for data in {data_layout} with weights in {kernel_layout}: it takes plain layouts, such as"
            " NCHW with OIHW, or NHWC with HWIO"
        )
    if all([layout == axes for layout, axes in plain]):
        return _channels_first(windows_of(inp, filt, stride, padding, dilation, groups, out_dtype), letters)
    dtype = out_dtype or inp.dtype
    data = dict(zip(data_layout, shape_of(inp), strict=True))
    weight = {c: get_const_int(d) for c, d in zip(kernel_layout, shape_of(filt), strict=True)}
    n, kernel = len(letters), [weight[c] for c in letters]
    strides, dilations, before, after = _steps(kernel, stride, padding, dilation)
    times = 1
    if weight["O"] == groups == data["C"]:
        # Depthwise weights: (channels, filters per channel, ...).
        times, weight["I"] = weight["I"], 1
    if isinstance(data["C"], int) and weight["I"] * groups != data["C"]:
        raise ValueError(
            f"conv: weights in {kernel_layout} for {weight['I']} channels of {groups} groups do not fit {data['C']} channels"
        )
    pads = {c: (before[i], after[i]) for i, c in enumerate(letters)}
    first, last = ([pads.get(c, (0, 0))[end] for c in data_layout] for end in (0, 1))
    padded = pad(inp, first, last, name="pad_temp")
    out = {"N": data["N"], "C": weight["O"] * times}
    for i, c in enumerate(letters):
        out[c] = window_extent(data[c], kernel[i], before[i], after[i], strides[i], dilations[i])
    reduced = {c: te.reduce_axis((0, weight[c]), name=_OFFSETS.get(c, "rc")) for c in kernel_layout if c != "O"}
    channels = reduced["I"].var
    per_group = out["C"] // groups

    def element(*i: Var) -> Any:
        at = dict(zip(out_layout, i, strict=True))
        place: dict[str, PrimExpr] = {"N": at["N"], "C": channels}
        if groups > 1:
            place["C"] = tir.floordiv(at["C"], per_group) * weight["I"] + channels
        for k, c in enumerate(letters):
            place[c] = moved(at[c], strides[k], reduced[c].var, dilations[k])
        kernel_offset: dict[str, PrimExpr] = {"O": at["C"], **{c: axis.var for c, axis in reduced.items()}}
        if times > 1:
            kernel_offset |= {"O": tir.floordiv(at["C"], times), "I": tir.floormod(at["C"], times)}
        value, w = padded(*[place[c] for c in data_layout]), filt(*[kernel_offset[c] for c in kernel_layout])
        return te.sum(to(value, dtype) * to(w, dtype), axis=list(reduced.values()))

    name = f"conv{n}d_{data_layout.lower()}"
    return compute([out[c] for c in out_layout], element, name=name, tag=name)


def _steps(
    kernel: Sequence[int], stride: Numbers, padding: Padding, dilation: Numbers
) -> tuple[list[int], list[int], list[int], list[int]]:
    """(strides, dilation, padding before, padding after), each with a number for each spatial axis."""
    n = len(kernel)
    strides, dilations = numbers(stride, n), numbers(dilation, n)
    pads = get_pad_tuple(padding, [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)], n)
    return strides, dilations, *pads


def windows_of(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    groups: int,
    out_dtype: str | None,
) -> Windows:
    """A convolution of (N, C, places...) with weights (O, I, window...)."""
    window = [get_const_int(d) for d in kernel.shape[2:]]
    strides, dilations, before, after = _steps(window, stride, padding, dilation)
    return Windows(data, kernel, strides, before, after, dilations, groups, out_dtype or data.dtype)


def _channels_first(w: Windows, letters: str) -> te.Tensor:
    """A convolution of (N, C, places...), in the form that the planner chooses. Without a form, vectors run along the last axis."""
    layout = f"conv{len(letters)}d_nc{letters.lower()}"
    batch, channels, *_ = shape_of(w.data)
    if w.groups == channels and (w.groups > 1 or w.per_group == 1):
        return depthwise(w, layout)
    name = layout if w.groups == 1 else f"group_{layout}"
    if (found := plain_conv(w, name, name)) is not None:
        return found
    read, places, offsets = _columns(w)
    rc = te.reduce_axis((0, w.per_group), name="rc")
    axes = [rc, *offsets]
    # The group is an axis of its own, so that its filters share the data that they read.
    filters, groups = w.filters, [w.groups] if w.groups > 1 else []

    def element(nn: PrimExpr, *i: PrimExpr) -> Any:
        (group, row), at = (i[:2], i[2:]) if groups else ((0, i[0]), i[1:])
        channel, row = (group * w.per_group + rc.var, group * filters + row) if groups else (rc.var, row)
        value, weight = read(nn, channel, at), w.kernel(row, *[a.var for a in axes])
        return te.sum(to(value, w.dtype) * to(weight, w.dtype), axis=axes)

    made = compute([batch, *groups, filters, *places], element, name=name, tag=name)
    if not groups:
        return first_columns(made, w.out[-1])
    return compute(
        [batch, filters * w.groups, *w.out],
        lambda nn, ff, *at: made(nn, tir.floordiv(ff, filters), tir.floormod(ff, filters), *at),
        name="T_groups",
        tag="injective",
    )


def depthwise(w: Windows, layout: str) -> te.Tensor:
    """A depthwise convolution: weights (C * M, 1, window...) or (C, M, window...), result (N, C * M, places...)."""
    name, tag = f"DepthwiseConv{len(w.out)}d", f"depthwise_{layout}"
    first, second = w.filters * w.groups, w.per_group
    if second == 1 and (found := plain_conv(w, name, tag)) is not None:
        return found
    read, places, offsets = _columns(w)
    times = first * second // w.groups

    def element(nn: Var, ff: Var, *at: Var) -> Any:
        channel = ff if times == 1 else tir.floordiv(ff, times)
        filter_ = (ff, 0) if second == 1 else (channel, tir.floormod(ff, times))
        value, weight = read(nn, channel, at), w.kernel(*filter_, *[a.var for a in offsets])
        return te.sum(to(value, w.dtype) * to(weight, w.dtype), axis=offsets)

    made = compute([shape_of(w.data)[0], first * second, *places], element, name=name, tag=tag)
    return first_columns(made, w.out[-1])


def _columns(w: Windows) -> tuple[Callable[[Any, Any, Sequence[Any]], Any], list[Dim], list[Any]]:
    """(f(image, channel, place) -> the element that the kernel offsets read, places to compute, axes of the kernel offsets)."""
    *lead, last = w.out
    columns, kernel = computed_columns(last, w.dtype), w.window
    offsets = [
        te.reduce_axis((0, k), name=name) for k, name in zip(kernel, ("rz", "ry", "rx")[-len(kernel) :], strict=True)
    ]
    pads = [0, 0, *w.before], [0, 0, *w.after]
    in_row = window_columns(w.data, *pads, columns, kernel[-1], w.strides[-1], w.dilations[-1])

    def read(image: Var, channel: PrimExpr, place: Sequence[Var]) -> Any:
        *rows, column = place
        steps = zip(rows, w.strides, offsets, w.dilations, strict=False)
        return in_row((image, channel, *[moved(p, s, t.var, d) for p, s, t, d in steps]), column, offsets[-1].var)

    return read, [*lead, columns], offsets


def spread_data(
    data: te.Tensor,
    strides: Sequence[int],
    reach: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    extra: Sequence[int],
) -> te.Tensor:
    """Data whose convolution with a mirrored kernel of this reach is the adjoint: zeros between its elements, and around them."""
    spread = dilate(data, [1, 1, *strides], name="data_dilate")
    lead = [r - 1 - b for r, b in zip(reach, before, strict=True)]
    tail = [r - 1 - a + p for r, a, p in zip(reach, after, extra, strict=True)]
    return pad(spread, [0, 0, *lead], [0, 0, *tail], name="data_pad")


def conv_transpose(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Numbers,
    padding: Padding,
    out_dtype: str | None = None,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> te.Tensor:
    """Adjoint of a convolution: data (N, I, spatial...), weights (I, O / groups, spatial...): each spatial axis of the result has
    (extent - 1) * stride - pads + reach + output_padding places.

    If strides equal the extents of the kernel, windows do not overlap, so each element of the result has one term per input channel, and
    is computed directly. Otherwise the data is dilated and padded, and convolved with the mirrored kernel.
    """
    dtype = out_dtype or data.dtype
    batch, _, *extents = shape_of(data)
    channels, per_out, *window = [get_const_int(d) for d in kernel.shape]
    n = len(window)
    steps, dilations, extra = numbers(strides, n), numbers(dilation, n), numbers(output_padding, n)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    before, after = get_pad_tuple(padding, reach, n)
    name = f"conv{n}d_transpose_nc{'dhw'[-n:]}"
    per_in = channels // groups
    rc = te.reduce_axis((0, per_in), name="dc")
    out = [batch, per_out * groups] + [
        as_int((e - 1) * s + (r - b - a + p))
        for e, s, r, b, a, p in zip(extents, steps, reach, before, after, extra, strict=True)
    ]

    def term(ff: Var, read: Callable[[Any], Any], offsets: Sequence[PrimExpr]) -> Any:
        """The product of an element of the data with its weight for channel ff of the result."""
        channel = rc.var if groups == 1 else tir.floordiv(ff, per_out) * per_in + rc.var
        filter_ = ff if groups == 1 else tir.floormod(ff, per_out)
        return to(read(channel), dtype) * to(kernel(channel, filter_, *offsets), dtype)

    if window == steps and not any([*before, *after, *extra]) and {*dilations} == {1}:
        # The products of the kernel offsets are computed on the grid of the input, then interleaved.
        columns = computed_columns(extents[-1], dtype)
        in_row = window_columns(data, [0] * (n + 2), [0] * (n + 2), columns, 1, 1, 1)

        def product(nn: Var, ff: Var, *i: Var) -> Any:
            offsets, (*rows, column) = i[:n], i[n:]
            return te.sum(term(ff, lambda channel: in_row((nn, channel, *rows), column, 0), offsets), axis=[rc])

        products = compute([*out[:2], *window, *extents[:-1], columns], product, name=name, tag=name)

        def interleaved(nn: Var, ff: Var, *at: Var) -> PrimExpr:
            parts = [f(a, s) for f in (tir.floormod, tir.floordiv) for a, s in zip(at, steps, strict=True)]
            return products(nn, ff, *parts)

        return compute(out, interleaved, name="T_interleave", tag="injective")

    padded = spread_data(data, steps, reach, before, after, extra)
    kernel_offsets = [te.reduce_axis((0, k), name=f"d{c}") for k, c in zip(window, "dhw"[-n:], strict=True)]

    def element(nn: Var, ff: Var, *at: Var) -> Any:
        place = [moved(a, 1, t.var, d) for a, t, d in zip(at, kernel_offsets, dilations, strict=True)]
        mirrored = [k - 1 - t.var for k, t in zip(window, kernel_offsets, strict=True)]
        return te.sum(term(ff, lambda channel: padded(nn, channel, *place), mirrored), axis=[rc, *kernel_offsets])

    return compute(out, element, name=name, tag=name)
