"""Convolutions over any number of spatial axes, in any plain layout, and their adjoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.columns import computed_columns, first_columns, window_columns
from tilewright.topi.nn.pad import dilate, pad
from tilewright.topi.nn.plain_conv import plain_conv
from tilewright.topi.problems import Windows
from tilewright.topi.utils import as_int, get_const_int, get_pad_tuple, numbers, shape_of, to, window_extent


def conv(
    inp: te.Tensor,
    filt: te.Tensor,
    stride: int | Sequence[int],
    padding: Any,
    dilation: int | Sequence[int],
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    out_layout: str = "",
) -> te.Tensor:
    """Cross-correlation with layouts named by letters: N, C and spatial axes for data; O, I and spatial axes for weights. Output
    channel o reads the input channels of group o // (O / groups)."""
    letters = [c for c in data_layout if c not in "NC"]
    kernel_layout = kernel_layout or ("OI" + "".join(letters) if data_layout[1] == "C" else "".join(letters) + "IO")
    out_layout = out_layout or data_layout
    dtype = out_dtype or inp.dtype
    data = dict(zip(data_layout, shape_of(inp), strict=True))
    weight = {c: get_const_int(d) for c, d in zip(kernel_layout, shape_of(filt), strict=True)}
    n = len(letters)
    strides, dilations = numbers(stride, n), numbers(dilation, n)
    kernel = [weight[c] for c in letters]
    before, after = get_pad_tuple(padding, [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)], n)
    plain = "NC" + "".join(letters), "OI" + "".join(letters)
    if (data_layout, kernel_layout) == plain and out_layout == data_layout:
        name = f"conv{n}d_nc"
        made = plain_conv(Windows(inp, filt, strides, before, after, dilations, groups, dtype), name, name)
        if made is not None:
            return made
    if groups == 1 and n > 1 and (data_layout, kernel_layout) == plain and out_layout == data_layout:
        return _conv_columns(inp, filt, strides, before, after, dilations, dtype)
    widths = {c: (before[i], after[i]) for i, c in enumerate(letters)}
    padded = pad(
        inp,
        [widths.get(c, (0, 0))[0] for c in data_layout],
        [widths.get(c, (0, 0))[1] for c in data_layout],
        name="pad_temp",
    )
    out = {"N": data["N"], "C": weight["O"]}
    for i, c in enumerate(letters):
        out[c] = window_extent(data[c], kernel[i], before[i], after[i], strides[i], dilations[i])
    channels = te.reduce_axis((0, weight["I"]), name="rc")
    kernel_offsets = {c: te.reduce_axis((0, weight[c]), name=f"r{c.lower()}") for c in letters}
    per_group = weight["O"] // groups

    def element(*i: Any) -> Any:
        at = dict(zip(out_layout, i, strict=True))
        o = at["C"]
        channel = channels.var if groups == 1 else tir.floordiv(o, per_group) * weight["I"] + channels.var
        place = {"N": at["N"], "C": channel}
        for k, c in enumerate(letters):
            base = at[c] if strides[k] == 1 else at[c] * strides[k]
            place[c] = base + (kernel_offsets[c].var if dilations[k] == 1 else kernel_offsets[c].var * dilations[k])
        kernel_offset = {"O": o, "I": channels.var, **{c: t.var for c, t in kernel_offsets.items()}}
        value, w = padded(*[place[c] for c in data_layout]), filt(*[kernel_offset[c] for c in kernel_layout])
        return te.sum(to(value, dtype) * to(w, dtype), axis=[channels, *kernel_offsets.values()])

    name = f"conv{n}d_{data_layout.lower()}"
    return compute([out[c] for c in out_layout], element, name=name, tag=name)


def _conv_columns(
    inp: te.Tensor,
    filt: te.Tensor,
    strides: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    dilations: Sequence[int],
    dtype: str,
) -> te.Tensor:
    """conv with the channels first, one group: vectors run along the last axis."""
    batch, _, *extents = shape_of(inp)
    o, per_in, *kernel = [get_const_int(d) for d in filt.shape]
    n = len(kernel)
    out = [window_extent(extents[i], kernel[i], before[i], after[i], strides[i], dilations[i]) for i in range(n)]
    columns = computed_columns(out[-1], dtype)
    read = window_columns(inp, [0, 0, *before], [0, 0, *after], columns, kernel[-1], strides[-1], dilations[-1])
    rc = te.reduce_axis((0, per_in), name="rc")
    kernel_offsets = [te.reduce_axis((0, k), name=f"r{i}") for i, k in enumerate(kernel)]

    def element(nn: Any, ff: Any, *at: Any) -> Any:
        place = []
        for i in range(n - 1):
            base = at[i] if strides[i] == 1 else at[i] * strides[i]
            place.append(base + (kernel_offsets[i].var if dilations[i] == 1 else kernel_offsets[i].var * dilations[i]))
        value = read((nn, rc.var, *place), at[-1], kernel_offsets[-1].var)
        weight = filt(ff, rc.var, *[t.var for t in kernel_offsets])
        return te.sum(to(value, dtype) * to(weight, dtype), axis=[rc, *kernel_offsets])

    name = f"conv{n}d_nc"
    made = compute([batch, o, *out[:-1], columns], element, name=name, tag=name)
    return first_columns(made, out[-1])


def conv_transpose(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: int | Sequence[int],
    padding: Any,
    out_dtype: str | None = None,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> te.Tensor:
    """The adjoint of a convolution: data (N, I, spatial...), weights (I, O / groups, spatial...). Each spatial axis of the result
    has (extent - 1) * stride - pads + reach + output_padding elements."""
    dtype = out_dtype or data.dtype
    batch, channels, *extents = shape_of(data)
    _, per_out, *window = [get_const_int(d) for d in kernel.shape]
    n = len(window)
    steps, dilations, extra = numbers(strides, n), numbers(dilation, n), numbers(output_padding, n)
    reach = [(k - 1) * d + 1 for k, d in zip(window, dilations, strict=True)]
    before, after = get_pad_tuple(padding, reach, n)
    per_in = get_const_int(channels) // groups
    spread = dilate(data, [1, 1, *steps], name="data_dilate")
    lead = [r - 1 - b for r, b in zip(reach, before, strict=True)]
    tail = [r - 1 - a + p for r, a, p in zip(reach, after, extra, strict=True)]
    padded = pad(spread, [0, 0, *lead], [0, 0, *tail], name="data_pad")
    out = [
        as_int((e - 1) * s + (r - b - a + p))
        for e, s, r, b, a, p in zip(extents, steps, reach, before, after, extra, strict=True)
    ]
    rc = te.reduce_axis((0, per_in), name="dc")
    kernel_offsets = [te.reduce_axis((0, k), name=f"d{i}") for i, k in enumerate(window)]

    def element(nn: Any, ff: Any, *at: Any) -> Any:
        channel = rc.var if groups == 1 else tir.floordiv(ff, per_out) * per_in + rc.var
        filter_ = ff if groups == 1 else tir.floormod(ff, per_out)
        place = [a + (t.var if d == 1 else t.var * d) for a, t, d in zip(at, kernel_offsets, dilations, strict=True)]
        mirrored = [k - 1 - t.var for k, t in zip(window, kernel_offsets, strict=True)]
        return te.sum(
            to(padded(nn, channel, *place), dtype) * to(kernel(channel, filter_, *mirrored), dtype),
            axis=[rc, *kernel_offsets],
        )

    name = f"conv{n}d_transpose"
    return compute([batch, per_out * groups, *out], element, name=name, tag=name)


def conv1d_ncw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, I, W), weights (O, I, KW): (N, O, OW)."""
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


def conv1d_nwc(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, W, I), weights (KW, I, O): (N, OW, O)."""
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


def conv3d_ncdhw(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, I, D, H, W), weights (O, I / groups, KD, KH, KW)."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype)


def conv3d_ndhwc(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: str | None = None,
) -> te.Tensor:
    """data (N, D, H, W, I), weights (KD, KH, KW, I / groups, O)."""
    return conv(Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)


def conv1d_transpose_ncw(
    data: te.Tensor,
    kernel: te.Tensor,
    stride: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = 0,
) -> te.Tensor:
    """data (N, I, W), weights (I, O, KW)."""
    return conv_transpose(data, kernel, stride, padding, out_dtype, output_padding)


def conv3d_transpose_ncdhw(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Any,
    padding: Any,
    out_dtype: str | None = None,
    output_padding: Any = 0,
) -> te.Tensor:
    """data (N, I, D, H, W), weights (I, O, KD, KH, KW)."""
    return conv_transpose(data, kernel, strides, padding, out_dtype, output_padding)
