"""Convolutions of images, rows and volumes under their classic names, each with the layouts that its name states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import te
from tilewright.topi.lang import compute, tir
from tilewright.topi.nn.conv_nd import Numbers, Padding, conv, conv_transpose, depthwise, spread_data, windows_of
from tilewright.topi.nn.pad import dilate, pad
from tilewright.topi.signatures import named
from tilewright.topi.utils import (
    as_int,
    get_const_int,
    get_pad_tuple,
    in_own_layout,
    moved,
    numbers,
    pair,
    shape_of,
    to,
    window_extent,
)

if TYPE_CHECKING:
    from tilewright.tir.expr import Var

Conv = Callable[..., te.Tensor]


class Workload(NamedTuple):
    """The numbers that describe a convolution of images."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


def conv1d(
    data: te.Tensor,
    kernel: te.Tensor,
    strides: Numbers = 1,
    padding: Padding = "VALID",
    dilation: Numbers = 1,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Convolution over one axis, of data (N, I, W) with weights (O, I / groups, K), or in other layouts: (N, O, OW)."""
    return conv(data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype)


def conv2d(
    input: te.Tensor,
    filter: te.Tensor,
    strides: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: str | None = None,
    groups: int = 1,
) -> te.Tensor:
    """Convolution (cross-correlation) in NCHW with OIHW weights, NHWC with HWIO, or other layouts."""
    return conv(input, filter, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype)


def _form(name: str, parameters: str, data_layout: str, kernel_layout: str) -> Conv:
    """A convolution in fixed layouts, with one group, or with `groups` before the type of the result."""
    grouped = " groups=" in parameters

    def form(data: te.Tensor, kernel: te.Tensor, stride: Any, padding: Any, dilation: Any, *rest: Any) -> te.Tensor:
        groups, (out_dtype, *rewritten) = rest[0] if grouped else 1, rest[grouped:]
        if rewritten:
            in_own_layout(name, *rewritten)
        return conv(data, kernel, stride, padding, dilation, groups, data_layout, kernel_layout, out_dtype)

    kinds = f"data in {data_layout} with weights in {kernel_layout}{', in groups' if grouped else ''}"
    return named(form, name, parameters, f"Convolution of {kinds}.")


_WINDOWS = "Input Filter stride padding dilation"
_REWRITTEN = "out_dtype=None auto_scheduler_rewritten_layout=''"
_PLAIN = f"{_WINDOWS} {_REWRITTEN} meta_schedule_original_shape=None"
_GROUPS = f"{_WINDOWS} groups=1 {_REWRITTEN} meta_schedule_origin_shape=None"
conv2d_nchw = _form("conv2d_nchw", _PLAIN, "NCHW", "OIHW")
conv2d_nhwc = _form("conv2d_nhwc", _PLAIN, "NHWC", "HWIO")
conv2d_hwcn = _form("conv2d_hwcn", _PLAIN, "HWCN", "HWIO")
group_conv2d_nchw = _form("group_conv2d_nchw", _GROUPS, "NCHW", "OIHW")
group_conv2d_nhwc = _form("group_conv2d_nhwc", _GROUPS, "NHWC", "HWIO")
conv3d_ncdhw = _form("conv3d_ncdhw", _GROUPS, "NCDHW", "OIDHW")
conv3d_ndhwc = _form("conv3d_ndhwc", _GROUPS, "NDHWC", "DHWIO")

_ROWS = "data kernel strides=1 padding='VALID' dilation=1"
conv1d_ncw = _form("conv1d_ncw", f"{_ROWS} out_dtype=None", "NCW", "OIW")
conv1d_nwc = _form("conv1d_nwc", f"{_ROWS} out_dtype=None", "NWC", "WIO")
group_conv1d_ncw = _form("group_conv1d_ncw", f"{_ROWS} groups=1 out_dtype=None", "NCW", "OIW")
group_conv1d_nwc = _form("group_conv1d_nwc", f"{_ROWS} groups=1 out_dtype=None", "NWC", "WIO")


def _adjoint(name: str, parameters: str) -> Conv:
    doc = "The adjoint of a convolution: data (N, I, spatial...), weights (I, O / groups, spatial...)."
    return named(conv_transpose, name, parameters, doc)


_BACK = "strides padding out_dtype=None output_padding=0"
_BACK_ROWS = _BACK.replace("strides", "stride")
conv1d_transpose_ncw = _adjoint("conv1d_transpose_ncw", f"data kernel {_BACK_ROWS}")
conv2d_transpose_nchw, conv3d_transpose_ncdhw = [
    _adjoint(name, f"Input Filter {_BACK} groups=1 dilation=1")
    for name in ("conv2d_transpose_nchw", "conv3d_transpose_ncdhw")
]
declaration_conv2d_transpose_impl, declaration_conv3d_transpose_impl, group_conv3d_transpose_ncdhw = [
    _adjoint(name, f"data kernel {_BACK} groups=1")
    for name in (
        "declaration_conv2d_transpose_impl",
        "declaration_conv3d_transpose_impl",
        "group_conv3d_transpose_ncdhw",
    )
]
group_conv1d_transpose_ncw, group_conv2d_transpose_nchw = [
    _adjoint(name, f"data kernel {_BACK_ROWS} groups=1")
    for name in ("group_conv1d_transpose_ncw", "group_conv2d_transpose_nchw")
]


def _as_convolution(
    data: te.Tensor, kernel: te.Tensor, strides: Numbers, padding: Padding, out_dtype: str, output_padding: Numbers
) -> tuple[te.Tensor, te.Tensor]:
    """(data, weights) whose convolution with strides of 1 is the adjoint of the convolution with `kernel` (I, O, spatial...): data with
    zeros between and around its elements, and mirrored weights (O, I, spatial...)."""
    inputs, outputs, *window = [get_const_int(d) for d in kernel.shape]
    n = len(window)
    before, after = get_pad_tuple(padding, window, n)
    spread = spread_data(data, numbers(strides, n), window, before, after, numbers(output_padding, n))

    def mirrored(o: Var, i: Var, *at: Var) -> Any:
        return to(kernel(i, o, *[k - 1 - t for k, t in zip(window, at, strict=True)]), out_dtype)

    return spread, compute([outputs, inputs, *window], mirrored, name="kernel_transform", tag="injective")


conv2d_transpose_nchw_preprocess = conv3d_transpose_ncdhw_preprocess = _as_convolution


def depthwise_conv2d_nchw(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution of data (N, C, H, W): weights (C * M, 1, KH, KW) or (C, M, KH, KW), result (N, C * M, OH, OW)."""
    groups = get_const_int(Input.shape[1])
    return depthwise(windows_of(Input, Filter, stride, padding, dilation, groups, out_dtype), "conv2d_nchw")


def depthwise_conv2d_nhwc(
    Input: te.Tensor,
    Filter: te.Tensor,
    stride: Numbers,
    padding: Padding,
    dilation: Numbers,
    kernel_layout: str = "HWOI",
    out_dtype: str | None = None,
) -> te.Tensor:
    """Depthwise convolution of data (N, H, W, C) with weights (KH, KW, C, M), or (KH, KW, M, C) in the layout HWIO: (N, OH, OW, C * M)."""
    if kernel_layout not in ("HWOI", "HWIO"):
        raise ValueError(f"depthwise_conv2d_nhwc: kernel_layout must be HWOI or HWIO, but is {kernel_layout!r}")
    dtype = out_dtype or Input.dtype
    n, h, w, channels = shape_of(Input)
    kh, kw, *rest = [get_const_int(d) for d in Filter.shape]
    times = rest[1 if kernel_layout == "HWOI" else 0]
    (sh, sw), (dh, dw) = pair(stride), pair(dilation)
    before, after = get_pad_tuple(padding, [(kh - 1) * dh + 1, (kw - 1) * dw + 1])
    padded = pad(Input, [0, *before, 0], [0, *after, 0], name="PaddedInput")
    ry, rx = te.reduce_axis((0, kh), name="di"), te.reduce_axis((0, kw), name="dj")

    def element(b: Var, y: Var, x: Var, c: Var) -> Any:
        channel, of = (c, 0) if times == 1 else (tir.floordiv(c, times), tir.floormod(c, times))
        value = padded(b, moved(y, sh, ry.var, dh), moved(x, sw, rx.var, dw), channel)
        weight = Filter(ry.var, rx.var, *((channel, of) if kernel_layout == "HWOI" else (of, channel)))
        return te.sum(to(value, dtype) * to(weight, dtype), axis=[ry, rx])

    out = [
        n,
        window_extent(h, kh, before[0], after[0], sh, dh),
        window_extent(w, kw, before[1], after[1], sw, dw),
        as_int(channels * times),
    ]
    return compute(out, element, name="DepthwiseConv2d", tag="depthwise_conv2d_nhwc")


def depthwise_conv2d_backward_input_nhwc(
    Filter: te.Tensor, Out_grad: te.Tensor, oshape: Sequence[int], ishape: Sequence[int], stride: Numbers, padding: Any
) -> te.Tensor:
    """The adjoint of the data (N, H, W, C) of a depthwise convolution with weights (KH, KW, C, M), from that of its result (N, OH, OW,
    C * M). oshape, ishape: the shapes of the result and of the data."""
    del oshape
    kh, kw, channels, times = [get_const_int(d) for d in Filter.shape]
    batch, height, width, _ = [as_int(d) for d in ishape]
    (sh, sw), (before, _) = pair(stride), get_pad_tuple(padding, [kh, kw])
    spread = dilate(Out_grad, [1, sh, sw, 1], name="dilated_out_grad")
    _, oh, ow, _ = shape_of(spread)
    lead = [kh - 1 - before[0], kw - 1 - before[1]]
    tail = [as_int(height + before[0] - oh), as_int(width + before[1] - ow)]
    padded = pad(spread, [0, *lead, 0], [0, *tail, 0], name="padded_out_grad")
    ry, rx, rm = (te.reduce_axis((0, d), name=name) for d, name in ((kh, "dh"), (kw, "dw"), (times, "dc")))

    def element(b: Var, y: Var, x: Var, c: Var) -> Any:
        grad = padded(b, y + ry.var, x + rx.var, c * times + rm.var)
        return te.sum(grad * Filter(kh - 1 - ry.var, kw - 1 - rx.var, c, rm.var), axis=[ry, rx, rm])

    tag = "depthwise_conv2d_backward_input_nhwc"
    return compute([batch, height, width, channels], element, name="depthwise_input_grad", tag=tag)


def depthwise_conv2d_backward_weight_nhwc(
    Input: te.Tensor, Out_grad: te.Tensor, oshape: Sequence[int], fshape: Sequence[int], stride: Numbers, padding: Any
) -> te.Tensor:
    """The adjoint of the weights (KH, KW, C, M) of a depthwise convolution, from its data (N, H, W, C) and the adjoint of its result (N,
    OH, OW, C * M). oshape, fshape: the shapes of the result and of the weights."""
    batch, oh, ow, _ = [as_int(d) for d in oshape]
    kh, kw, channels, times = [get_const_int(d) for d in fshape]
    (sh, sw), (before, after) = pair(stride), get_pad_tuple(padding, [kh, kw])
    padded = pad(Input, [0, *before, 0], [0, *after, 0], name="padded_in")
    rb, ry, rx = (te.reduce_axis((0, d), name=name) for d, name in ((batch, "db"), (oh, "dh"), (ow, "dw")))

    def element(y: Var, x: Var, c: Var, m: Var) -> Any:
        value = padded(rb.var, moved(ry.var, sh, y, 1), moved(rx.var, sw, x, 1), c)
        return te.sum(Out_grad(rb.var, ry.var, rx.var, c * times + m) * value, axis=[rb, ry, rx])

    tag = "depthwise_conv2d_backward_weight_nhwc"
    return compute([kh, kw, channels, times], element, name="depthwise_weight_grad", tag=tag)


def unpack_NCHWc_to_nchw(packed_out: te.Tensor, out_dtype: str) -> te.Tensor:
    """The result of a convolution on channel blocks, (N, C / b, H, W, b), as (N, C, H, W)."""
    n, chunks, h, w, block = shape_of(packed_out)

    def element(b: Var, c: Var, y: Var, x: Var) -> Any:
        return to(packed_out(b, tir.indexdiv(c, block), y, x, tir.indexmod(c, block)), out_dtype)

    return compute([n, as_int(chunks * block), h, w], element, name="output_unpack", tag="injective,unpack_nchwc")


def conv2d_infer_layout(workload: Sequence[Any], cfg: Any) -> tuple[Any, Any]:
    """(((shape, layout) of the data,), ((shape, layout) of the result,)) of a convolution in blocks of channels, from the workload of a
    template (task, data, weights, strides, padding, dilation, ...) in NCHW and its configuration, whose tile_ic and tile_oc are the
    blocks."""
    _, data, kernel, strides, padding, dilation, *_ = workload
    batch, channels, height, width = data[1]
    filters, _, *window = kernel[1]
    steps, spread = pair(strides), pair(dilation)
    before, after = get_pad_tuple(padding, [(k - 1) * d + 1 for k, d in zip(window, spread, strict=True)])
    out = [window_extent(*one) for one in zip((height, width), window, before, after, steps, spread, strict=True)]
    block_in, block_out = cfg["tile_ic"].size[-1], cfg["tile_oc"].size[-1]
    given = (batch, channels // block_in, height, width, block_in), f"NCHW{block_in}c"
    made = (batch, filters // block_out, *out, block_out), f"NCHW{block_out}c"
    return (given,), (made,)


depthwise_conv2d_infer_layout = conv2d_infer_layout
