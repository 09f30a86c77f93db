"""Neural-network computes under their classic names and keywords, beside the references of topi.testing and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.topi.values import results
from tilewright import te, topi
from tilewright.topi import testing as T

RNG = np.random.default_rng(12)
N = topi.nn


def r(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def nchw(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.transpose(0, 3, 1, 2)


def nhwc(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.transpose(0, 2, 3, 1)


D, W, H = r(2, 4, 6, 5), r(6, 4, 3, 2), r(2, 6, 5, 4)
"""Data in NCHW, weights in OIHW, data in NHWC."""
V = r(2, 4, 7)
STEPS = {"stride": (2, 1), "padding": (1, 0), "dilation": 1, "out_dtype": "float32"}
Case = tuple[Callable[..., Any], tuple[np.ndarray[Any, Any], ...], Callable[..., Any]]
CONVOLUTIONS: dict[str, Case] = {
    "conv1d": (
        lambda x, w: N.conv1d(x, w, strides=2, padding=1, dilation=1, groups=2, data_layout="NCW", kernel_layout=""),
        (V, r(6, 2, 3)),
        lambda x, w: T.conv1d_ncw_python(x, w, 2, 1, 1, 2),
    ),
    "conv1d_nwc": (
        lambda x, w: N.conv1d_nwc(data=x, kernel=w, strides=2, padding="VALID"),
        (r(2, 7, 4), r(3, 4, 6)),
        lambda x, w: T.conv1d_ncw_python(x.transpose(0, 2, 1), w.transpose(2, 1, 0), 2, 0).transpose(0, 2, 1),
    ),
    "group_conv1d_ncw": (
        lambda x, w: N.group_conv1d_ncw(x, w, 1, 1, 2, groups=2),
        (V, r(6, 2, 3)),
        lambda x, w: T.group_conv1d_ncw_python(x, w, 1, 1, 2, 2),
    ),
    "group_conv1d_nwc": (
        lambda x, w: N.group_conv1d_nwc(x, w, 1, 1, 1, 2),
        (r(2, 7, 4), r(3, 2, 6)),
        lambda x, w: T.conv1d_ncw_python(x.transpose(0, 2, 1), w.transpose(2, 1, 0), 1, 1, 1, 2).transpose(0, 2, 1),
    ),
    "conv2d": (
        lambda x, w: N.conv2d(input=x, filter=w, strides=(2, 1), padding=(1, 0), dilation=1, data_layout="NCHW"),
        (D, W),
        lambda x, w: T.conv2d_nchw_python(x, w, (2, 1), (1, 0)),
    ),
    "conv2d_nchw": (
        lambda x, w: N.conv2d_nchw(Input=x, Filter=w, **STEPS),
        (D, W),
        lambda x, w: T.conv2d_nchw_python(x, w, (2, 1), (1, 0)),
    ),
    "conv2d_nhwc": (
        lambda x, w: N.conv2d_nhwc(Input=x, Filter=w, **STEPS),
        (H, r(3, 2, 4, 6)),
        lambda x, w: T.conv2d_nhwc_python(x, w, (2, 1), (1, 0)),
    ),
    "conv2d_hwcn": (
        lambda x, w: N.conv2d_hwcn(Input=x, Filter=w, **STEPS),
        (r(6, 5, 4, 2), r(3, 2, 4, 6)),
        lambda x, w: T.conv2d_hwcn_python(x, w, (2, 1), (1, 0)),
    ),
    "group_conv2d_nchw": (
        lambda x, w: N.group_conv2d_nchw(x, w, 1, 0, 1, groups=2, out_dtype="float32"),
        (D, r(6, 2, 3, 2)),
        lambda x, w: T.conv2d_nchw_python(x, w, 1, 0, 2),
    ),
    "group_conv2d_nhwc": (
        lambda x, w: N.group_conv2d_nhwc(x, w, 1, 0, 1, groups=2),
        (H, r(3, 2, 2, 6)),
        lambda x, w: T.conv2d_nhwc_python(x, w, 1, 0, 2),
    ),
    "conv2d_NCHWc": (
        lambda x, w: N.conv2d_NCHWc(
            data=x, kernel=w, stride=1, padding=1, dilation=1, layout="NCHW2c", out_layout="NCHW3c"
        ),
        (r(1, 2, 5, 4, 2), r(2, 2, 3, 3, 2, 3)),
        lambda x, w: blocks(T.conv2d_nchw_python(unblocked(x), plain_weights(w), 1, 1), 3),
    ),
    "conv2d_NCHWc_int8": (
        lambda x, w: N.conv2d_NCHWc_int8(x, w, 1, 1, 1, "NCHW8c", "NCHW4c", n_elems=4),
        (
            RNG.integers(0, 9, (1, 2, 4, 4, 8)).astype("uint8"),
            RNG.integers(-9, 9, (1, 2, 3, 3, 2, 4, 4)).astype("int8"),
        ),
        lambda x, w: blocks(
            T.conv2d_nchw_python(
                unblocked(x).astype("int32"),
                plain_weights(w.transpose(0, 1, 2, 3, 4, 6, 5).reshape(1, 2, 3, 3, 8, 4)).astype("int32"),
                1,
                1,
            ),
            4,
        ),
    ),
    "conv3d_ncdhw": (
        lambda x, w: N.conv3d_ncdhw(Input=x, Filter=w, stride=1, padding=1, dilation=1, groups=1),
        (r(1, 2, 4, 4, 3), r(3, 2, 2, 2, 2)),
        lambda x, w: T.conv3d_ncdhw_python(x, w, 1, 1),
    ),
    "conv3d_ndhwc": (
        lambda x, w: N.conv3d_ndhwc(x, w, 1, 1, 1, 1, "float32"),
        (r(1, 4, 4, 3, 2), r(2, 2, 2, 2, 3)),
        lambda x, w: T.conv3d_ndhwc_python(x, w, 1, 1),
    ),
    "conv2d_transpose_nchw": (
        lambda x, w: N.conv2d_transpose_nchw(
            Input=x, Filter=w, strides=2, padding=1, out_dtype="float32", output_padding=(1, 1)
        ),
        (D, r(4, 3, 3, 3)),
        lambda x, w: T.conv2d_transpose_nchw_python(x, w, 2, 1, (1, 1)),
    ),
    "conv2d_transpose of groups": (
        lambda x, w: N.group_conv2d_transpose_nchw(
            x, w, stride=2, padding=1, out_dtype="float32", output_padding=(0, 0), groups=2
        ),
        (D, r(4, 3, 3, 3)),
        lambda x, w: T.conv2d_transpose_nchw_python(x, w, 2, 1, (0, 0), 2),
    ),
    "conv1d_transpose of groups": (
        lambda x, w: N.group_conv1d_transpose_ncw(x, w, 2, 0, "float32", 0, groups=2),
        (V, r(4, 3, 3)),
        lambda x, w: T.group_conv1d_transpose_ncw_python(x, w, 2, 0, 0, 2),
    ),
    "conv3d_transpose": (
        lambda x, w: N.conv3d_transpose_ncdhw(
            Input=x, Filter=w, strides=2, padding=1, out_dtype="float32", output_padding=(1, 0, 1)
        ),
        (x3 := r(1, 2, 3, 2, 3), r(2, 3, 3, 3, 3)),
        lambda x, w: T.conv3d_transpose_ncdhw_python(x, w, 2, 1, (1, 0, 1)),
    ),
    "conv3d_transpose of groups": (
        lambda x, w: N.group_conv3d_transpose_ncdhw(x, w, 2, 1, "float32", 0, groups=2),
        (x3, r(2, 2, 3, 3, 3)),
        lambda x, w: T.conv3d_transpose_ncdhw_python(x, w, 2, 1, 0, 2),
    ),
    "conv2d_transpose as a convolution": (
        lambda x, w: N.conv2d_nchw(*N.conv2d_transpose_nchw_preprocess(x, w, 2, 1, "float32", 1), 1, 0, 1),
        (D, r(4, 3, 3, 3)),
        lambda x, w: T.conv2d_transpose_nchw_python(x, w, 2, 1, 1),
    ),
    "depthwise_conv2d_nchw": (
        lambda x, w: N.depthwise_conv2d_nchw(Input=x, Filter=w, stride=1, padding=1, dilation=1),
        (D, r(4, 2, 3, 3)),
        lambda x, w: T.depthwise_conv2d_python_nchw(x, w, 1, 1),
    ),
    "depthwise_conv2d_nhwc": (
        lambda x, w: N.depthwise_conv2d_nhwc(Input=x, Filter=w, stride=(2, 1), padding=1, dilation=1),
        (H, w4 := r(3, 3, 4, 2)),
        lambda x, w: T.depthwise_conv2d_python_nhwc(x, w, (2, 1), 1),
    ),
    "depthwise_conv2d_nhwc of HWIO": (
        lambda x, w: N.depthwise_conv2d_nhwc(x, w, 1, 0, 1, "HWIO"),
        (H, w4.transpose(0, 1, 3, 2).copy()),
        lambda x, w: T.depthwise_conv2d_python_nhwc(x, w.transpose(0, 1, 3, 2), 1, 0),
    ),
    "depthwise_conv2d_NCHWc": (
        lambda x, w: N.depthwise_conv2d_NCHWc(
            Input=x, Filter=w, stride=1, padding=1, dilation=1, layout="NCHW2c", out_layout="NCHW2c"
        ),
        (r(1, 2, 5, 4, 2), r(2, 1, 3, 3, 1, 2)),
        lambda x, w: T.depthwise_conv2d_python_nchwc(x, w, 1, 1),
    ),
    "winograd": (
        lambda x, w: N.conv2d_winograd_nchw(x, w, 1, 1, 1, "float32", pre_computed=False),
        (r(1, 3, 8, 6), r(4, 3, 3, 3)),
        lambda x, w: T.conv2d_nchw_python(x, w, 1, 1),
    ),
    "winograd with transformed weights": (
        lambda x, w: N.conv2d_winograd_nchw(
            x, N.conv2d_winograd_weight_transform(w, 2), (1, 1), 0, 1, pre_computed=True
        ),
        (r(1, 3, 7, 6), r(4, 3, 3, 3)),
        lambda x, w: T.conv2d_nchw_python(x, w, 1, 0),
    ),
    "winograd in NHWC": (
        lambda x, w: N.conv2d_winograd_nhwc(x, w, 1, 1, 1),
        (r(1, 6, 5, 3), r(3, 3, 3, 4)),
        lambda x, w: T.conv2d_nhwc_python(x, w, 1, 1),
    ),
    "deformable in NHWC": (
        lambda x, o, w: N.deformable_conv2d_nhwc(x, o, w, 1, 1, 1, 2, 1, "float32"),
        (H, r(2, 6, 5, 36), r(3, 3, 4, 3)),
        lambda x, o, w: T.deformable_conv2d_nhwc_python(x, o, w, 1, 1, 1, 2, 1),
    ),
    "sparse_conv2d": (
        lambda x, d, i, p: N.sparse_conv2d(x, d, i, p, layout="NCHW"),
        (r(1, 3, 2, 2), d3 := r(3), np.array([0, 2, 1], np.int32), np.array([0, 2, 3], np.int32)),
        lambda x, d, i, p: np.einsum("oc,nchw->nohw", np.array([[d[0], 0, d[1]], [0, d[2], 0]]), x),
    ),
    "sparse data": (
        lambda d, i, p, w: N.sparse_dense_sp_lhs(d, i, p, w),
        (d3, np.array([0, 2, 1], np.int32), np.array([0, 2, 3], np.int32), r(4, 3)),
        lambda d, i, p, w: np.array([[d[0], 0, d[1]], [0, d[2], 0]]) @ w.T,
    ),
}


def unblocked(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    n, c, h, w, b = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, c * b, h, w)


def blocks(x: np.ndarray[Any, Any], block: int) -> np.ndarray[Any, Any]:
    n, c, h, w = x.shape
    return x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2)


def plain_weights(w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    o, i, kh, kw, bi, bo = w.shape
    return w.transpose(0, 5, 1, 4, 2, 3).reshape(o * bo, i * bi, kh, kw)


G = r(4)
LAYERS: dict[str, Case] = {
    "group_norm": (
        lambda x, g, b: N.group_norm(x, g, b, num_groups=2, channel_axis=1, axes=[2, 3], epsilon=1e-5),
        (D, G, r(4)),
        lambda x, g, b: T.group_norm_python(x, g, b, 2, 1, [2, 3]),
    ),
    "instance_norm": (
        lambda x, g, b: N.instance_norm(x, g, b, axis=[2, 3], epsilon=1e-5),
        (D, G, r(4)),
        lambda x, g, b: T.instance_norm_python(x, g, b, (2, 3)),
    ),
    "rms_norm": (
        lambda x, w: N.rms_norm(x, w, axis=1, epsilon=1e-5),
        (r(3, 8), r(8)),
        lambda x, w: T.rms_norm_python(x, w, (1,)),
    ),
    "fast_softmax": (lambda x: N.softmax_common(x, axis=1, use_fast_exp=True), (D,), lambda x: T.softmax_python(x, 1)),
    "depth_to_space": (
        lambda x: N.depth_to_space(x, block_size=2, layout="NHWC", mode="CRD"),
        (H,),
        lambda x: nhwc(T.depth_to_space_python(nchw(x), 2, "CRD")),
    ),
    "space_to_depth": (
        lambda x: N.space_to_depth(x, 2, layout="NHWC"),
        (H[:, :, :4].copy(),),
        lambda x: nhwc(T.space_to_depth_python(nchw(x), 2)),
    ),
    "flatten": (lambda x: N.flatten(data=x), (D,), lambda x: x.reshape(2, -1)),
    "fifo_buffer": (
        lambda x, b: N.fifo_buffer(data=x, buffer=b, axis=1),
        (r(2, 1), r(2, 4)),
        lambda x, b: np.concatenate([b[:, 1:], x], 1),
    ),
    "scale_shift_nchw": (
        lambda x, s, b: N.scale_shift_nchw(Input=x, Scale=s, Shift=b),
        (D, G, G),
        lambda x, s, b: nchw(nhwc(x) * s + b),
    ),
    "scale_shift_nhwc": (lambda x, s, b: N.scale_shift_nhwc(x, s, b), (H, G, G), lambda x, s, b: x * s + b),
    "scale_shift_nchwc": (
        lambda x, s, b: N.scale_shift_nchwc(x, s, b),
        (r(1, 2, 3, 3, 2), g2 := r(2, 2), g2),
        lambda x, s, b: x * s[None, :, None, None] + b[None, :, None, None],
    ),
    "nll_loss": (
        lambda p, t, w: N.nll_loss(p, t, w, reduction="mean", ignore_index=0),
        (r(3, 4), np.array([1, 0, 3], np.int32), np.abs(r(4))),
        lambda p, t, w: T.nll_loss(p, t, w, "mean", 0),
    ),
    "upsampling": (
        lambda x: N.upsampling(x, 2, 1.5, layout="NCHW", method="bilinear", align_corners=True),
        (D,),
        lambda x: T.resize2d_python(x, (2, 1.5), "NCHW", "bilinear", "align_corners"),
    ),
    "upsampling3d": (
        lambda x: N.upsampling3d(x, 2, 1, 2, method="trilinear", coordinate_transformation_mode="asymmetric"),
        (r(1, 2, 2, 3, 2),),
        lambda x: T.resize3d_python(x, (2, 1, 2), "NCDHW", "trilinear", "asymmetric"),
    ),
    "binary_dense": (
        lambda x, w: N.binary_dense(N.binarize_pack(x), N.binarize_pack(w, axis=1)),
        (r(3, 64), r(5, 64)),
        lambda x, w: np.where(x >= 0, 1, -1) @ np.where(w >= 0, 1, -1).T.astype("float32"),
    ),
    "simulated_quantize": (
        lambda x, k, s, z: N.simulated_quantize(x, k, s, z, axis=1),
        (10 * D, np.array(N.SQNN_INT8, np.int32), np.abs(G), np.array([1, 2, 3, 4], np.int32)),
        lambda x, k, s, z: np.clip(np.round(x / s[:, None, None]) + z[:, None, None], -128, 127),
    ),
    "simulated_quantize that is disabled": (
        lambda x, k, s, z: N.simulated_quantize(x, k, s, z),
        (D, np.array(N.SQNN_DISABLE, np.int32), np.array(0.5, np.float32), np.array(1, np.int32)),
        lambda x, k, s, z: x,
    ),
    "simulated_dequantize": (
        lambda x, k, s, z: N.simulated_dequantize(x, k, s, z),
        (np.round(9 * D), np.array(N.SQNN_UINT8, np.int32), np.array(0.5, np.float32), np.array(3, np.int32)),
        lambda x, k, s, z: (x - 3) * np.float32(0.5),
    ),
    "padding with attributes": (
        lambda x: N.pad(x, [0, 0, 1, 0], [0, 0, 0, 2], 1.0, "p", attrs={"schedule_rule": "mine"}),
        (D,),
        lambda x: np.pad(x, [(0, 0), (0, 0), (1, 0), (0, 2)], constant_values=1),
    ),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *LAYERS])
def test_call(name: str) -> None:
    form, arrays, reference = {**CONVOLUTIONS, **LAYERS}[name]
    (found,) = results(form, *arrays)
    wanted = reference(*arrays)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_batch_norm_in_training() -> None:
    given = D, np.abs(G), G, r(4), np.abs(r(4))
    found = results(lambda *t: N.batch_norm(*t, axis=1, epsilon=1e-5, training=True, momentum=0.1), *given)
    wanted = T.batch_norm(*given, 1, 1e-5, True, True, True, 0.1)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stride, padding", [(1, (1, 1)), (2, (1, 1)), ((2, 1), (0, 0))])
def test_adjoints_of_depthwise_convolutions(stride: Any, padding: Any) -> None:
    x, w = r(2, 7, 6, 3), r(3, 3, 3, 2)
    y = T.depthwise_conv2d_python_nhwc(x, w, stride, padding)
    dy = r(*y.shape)
    (dx,) = results(lambda f, g: N.depthwise_conv2d_backward_input_nhwc(f, g, y.shape, x.shape, stride, padding), w, dy)
    (dw,) = results(
        lambda f, g: N.depthwise_conv2d_backward_weight_nhwc(f, g, y.shape, w.shape, stride, padding), x, dy
    )
    # A convolution is linear in its data and in its weights, so <dy, conv(x, w)> = <dx, x> = <dw, w>.
    for given, adjoint in ((x, dx), (w, dw)):
        np.testing.assert_allclose(np.vdot(dy, y), np.vdot(adjoint, given), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "options", [{}, {"reverse": True, "weight_layout": "GOFI"}, {"proj": True, "peepholes": True}], ids=str
)
def test_lstm(options: dict[str, Any]) -> None:
    options = dict(options)
    steps, batch, inner, hidden, out = 3, 2, 4, 3, 2 if options.get("proj") else 3
    named = {
        "Xs": r(steps, batch, inner),
        "Wi": r(4 * hidden, inner),
        "Wh": r(4 * hidden, out),
        "Bi": r(4 * hidden),
        "Bh": r(4 * hidden),
    }
    named |= {"h_init": r(batch, out), "c_init": r(batch, hidden)}
    if options.pop("proj", False):
        named["proj"] = r(out, hidden)
    if options.pop("peepholes", False):
        named |= {name: r(batch, hidden) for name in ("p_i", "p_f", "p_o")}
    found = results(lambda *t: N.lstm(**dict(zip(named, t, strict=True)), **options), *named.values())
    wanted = T.lstm_python(**named, **options)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_weights_that_a_tuner_rewrote_are_refused() -> None:
    x, w = te.placeholder((1, 4, 6, 6)), te.placeholder((4, 4, 3, 3))
    with pytest.raises(ValueError, match="takes weights in their own layout, but they are in OIHW4i"):
        N.conv2d_nchw(x, w, 1, 1, 1, "float32", auto_scheduler_rewritten_layout="OIHW4i")


def test_winograd_refuses_kernels_that_are_not_square() -> None:
    x, w = te.placeholder((1, 4, 6, 6)), te.placeholder((4, 4, 3, 1))
    with pytest.raises(topi.InvalidShapeError, match="kernels must be square, but are 3 by 1"):
        N.conv2d_winograd_nchw(x, w, 1, 1, 1)


def test_padding_and_strides_by_tensors() -> None:
    from tilewright.topi.nn import utils

    assert utils.get_pad_tuple(1, (3, 3)) == (1, 1, 1, 1)
    assert utils.get_pad_tuple("SAME", (4, 3)) == (2, 1, 1, 1)
    assert utils.get_pad_tuple1d((1, 2), 3) == (1, 2)
    assert utils.get_pad_tuple3d((1, 2, 3), (3, 3, 3)) == (1, 2, 3, 1, 2, 3)
    x, w = te.placeholder((1, 4, 8, 9)), te.placeholder((4, 4, 3, 3))
    padded, out = N.pad(x, (0, 0, 1, 2)), N.conv2d_nchw(x, w, 2, (1, 2), 1)
    assert utils.infer_pad(x, padded) == (1, 2) and utils.infer_pad(x, None) == (0, 0)
    assert utils.infer_stride(padded, w, out) == (2, 2)
    volume = te.placeholder((1, 4, 5, 6, 2))
    assert utils.infer_pad3d(volume, N.pad(volume, (0, 1, 0, 2, 0)), "NDHWC") == (2, 0, 4)
