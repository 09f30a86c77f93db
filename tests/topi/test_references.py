"""topi.testing's references against those of relay's operators, which were written apart from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.topi import testing as T

RNG = np.random.default_rng(4)


def r(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def of(call: Any, *arrays: np.ndarray[Any, Any]) -> Any:
    """What an operator's reference makes of arrays."""
    return getattr(call, "tuple_value", call).attrs.ref(*arrays)


def x(*shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var("x", shape=shape, dtype=dtype)


D, W = r(2, 4, 6, 5), r(6, 2, 3, 2)
V, G, B = r(2, 3, 4), r(3), r(3)
I = np.array([[1, 0], [2, 1]], np.int64)
G5 = r(2, 4, 3, 2)
BOXES = np.array([[1, 0.5, 1, 4, 3.5], [0, 0, 0, 8, 9]], np.float32)
CASES: list[tuple[str, Callable[[], tuple[Any, Any]]]] = [
    (
        "conv2d",
        lambda: (
            T.conv2d_nchw_python(D, W, (2, 1), (1, 0), 2),
            of(relay.nn.conv2d(x(), x(), (2, 1), (1, 0), groups=2), D, W),
        ),
    ),
    (
        "conv3d",
        lambda: (
            T.conv3d_ncdhw_python(r3 := r(1, 2, 4, 4, 3), w3 := r(3, 2, 2, 2, 2), 1, 1),
            of(relay.nn.conv3d(x(), x(), padding=(1, 1, 1)), r3, w3),
        ),
    ),
    (
        "conv2d_transpose",
        lambda: (
            T.conv2d_transpose_nchw_python(D, w2 := r(4, 3, 3, 3), 2, 1, (1, 1)),
            of(relay.nn.conv2d_transpose(x(), x(), (2, 2), (1, 1), output_padding=(1, 1)), D, w2),
        ),
    ),
    (
        "conv1d_transpose",
        lambda: (
            T.conv1d_transpose_ncw_python(V, w1 := r(3, 2, 2), 2, 0),
            of(relay.nn.conv1d_transpose(x(), x(), 2), V, w1),
        ),
    ),
    ("dilate", lambda: (T.dilate_python(V, (1, 2, 3)), of(relay.nn.dilate(x(), (1, 2, 3)), V))),
    (
        "max pool",
        lambda: (
            T.poolnd_python(D, (3, 2), (2, 2), (1, 1), (1, 0), (1, 0), "max", ceil_mode=False),
            of(relay.nn.max_pool2d(x(), (3, 2), (2, 2), padding=(1, 0)), D),
        ),
    ),
    (
        "mean pool",
        lambda: (
            T.poolnd_python(D, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1), "avg", count_include_pad=False),
            of(relay.nn.avg_pool2d(x(), (3, 3), (2, 2), padding=(1, 1)), D),
        ),
    ),
    ("softmax", lambda: (T.softmax_python(V, 1), of(relay.nn.softmax(x(), 1), V))),
    ("log_softmax", lambda: (T.log_softmax_python(V, 2), of(relay.nn.log_softmax(x(), 2), V))),
    ("lrn", lambda: (T.lrn_python(D, 3, 1, 2.0, 1e-2, 0.5), of(relay.nn.lrn(x(), 3, 1, 2.0, 1e-2, 0.5), D))),
    ("l2", lambda: (T.l2_normalize_python(V, 1e-5, (1,)), of(relay.nn.l2_normalize(x(), 1e-5, (1,)), V))),
    ("layer_norm", lambda: (T.layer_norm_python(V, G, B, 1), of(relay.nn.layer_norm(x(), x(), x(), axis=1), V, G, B))),
    (
        "instance_norm",
        lambda: (T.instance_norm_python(V, G, B, (2,)), of(relay.nn.instance_norm(x(), x(), x()), V, G, B)),
    ),
    (
        "group_norm",
        lambda: (
            T.group_norm_python(D, g4 := r(4), b4 := r(4), 2, 1, (2, 3)),
            of(relay.nn.group_norm(x(), x(), x(), 2), D, g4, b4),
        ),
    ),
    (
        "batch_norm",
        lambda: (
            T.batch_norm(V, G, B, B, np.abs(G), 1, 1e-5, True, True, False, 0.1)[0],
            of(relay.nn.batch_norm(x(), x(), x(), x(), x()), V, G, B, B, np.abs(G))[0],
        ),
    ),
    ("batch_matmul", lambda: (T.batch_matmul(V, V), of(relay.nn.batch_matmul(x(), x()), V, V))),
    ("dense", lambda: (T.dense(V[0], V[1]), of(relay.nn.dense(x(), x()), V[0], V[1]))),
    ("gather", lambda: (T.gather_python(V[0], 0, I), of(relay.gather(x(), 0, x()), V[0], I))),
    ("gather_nd", lambda: (T.gather_nd_python(V[0], I), of(relay.gather_nd(x(), x()), V[0], I))),
    (
        "strided_slice",
        lambda: (
            T.strided_slice_python(D, (0, 3), (2, -(2**31)), (1, -2)),
            of(relay.strided_slice(x(), (0, 3), (2, -(2**31)), (1, -2)), D),
        ),
    ),
    (
        "strided_set",
        lambda: (
            T.strided_set_python(V, v2 := r(1, 2, 4), (1, 0), (2, 3), (1, 2)),
            of(relay.strided_set(x(), x(), (1, 0), (2, 3), (1, 2)), V, v2),
        ),
    ),
    (
        "one_hot",
        lambda: (
            T.one_hot(I, 2, -1, 4, 0, "int32"),
            of(relay.one_hot(x(), x(), x(), 4, 0, "int32"), I, np.array(2), np.array(-1)),
        ),
    ),
    (
        "depth_to_space",
        lambda: (T.depth_to_space_python(D, 2, "CRD"), of(relay.nn.depth_to_space(x(), 2, mode="CRD"), D)),
    ),
    (
        "space_to_depth",
        lambda: (T.space_to_depth_python(D[:, :, :, :4], 2), of(relay.nn.space_to_depth(x(), 2), D[:, :, :, :4])),
    ),
    (
        "space_to_batch",
        lambda: (
            T.space_to_batch_nd_python(D, (2, 2), (0, 1), (0, 1)),
            of(relay.nn.space_to_batch_nd(x(), (2, 2), ((0, 0), (1, 1))), D),
        ),
    ),
    (
        "batch_to_space",
        lambda: (
            T.batch_to_space_nd_python(b8 := r(8, 2, 3, 1), (2, 2), (0, 1), (1, 0)),
            of(relay.nn.batch_to_space_nd(x(), (2, 2), ((0, 1), (1, 0))), b8),
        ),
    ),
    (
        "matrix_set_diag",
        lambda: (
            T.matrix_set_diag(V, d3 := r(2, 3, 3), (-1, 1)),
            of(relay.matrix_set_diag(x(), x(), (-1, 1)), V, d3),
        ),
    ),
    (
        "deformable conv",
        lambda: (
            T.deformable_conv2d_nchw_python(D, o4 := r(2, 24, 6, 5), w4 := r(6, 2, 3, 2), 1, (1, 0, 1, 1), 1, 2, 2),
            of(
                relay.nn.deformable_conv2d(x(), x(), x(), (1, 1), (1, 0, 1, 1), deformable_groups=2, groups=2),
                D,
                o4,
                w4,
            ),
        ),
    ),
    (
        "correlation",
        lambda: (
            T.correlation_nchw_python(D, d2 := r(2, 4, 6, 5), 1, 2, 1, 1, 2, False),
            of(relay.nn.correlation(x(), x(), 1, 2, 1, 1, (2, 2), False, "NCHW"), D, d2),
        ),
    ),
    (
        "adaptive pool",
        lambda: (T.adaptive_pool(D, (4, 3), "avg", "NCHW"), of(relay.nn.adaptive_avg_pool2d(x(), (4, 3)), D)),
    ),
    (
        "adjoint of max pool",
        lambda: (
            T.pool_grad_nchw(D, G5, (3, 2), (2, 2), (1, 0, 1, 0), "max", False),
            of(relay.nn.max_pool2d_grad(x(), x(), (3, 2), (2, 2), (1, 0, 1, 0)), G5, D),
        ),
    ),
    (
        "adjoint of mean pool",
        lambda: (
            T.pool_grad_nchw(D, G5, (3, 2), (2, 2), (1, 0, 1, 0), "avg", False, False),
            of(relay.nn.avg_pool2d_grad(x(), x(), (3, 2), (2, 2), (1, 0, 1, 0), count_include_pad=False), G5, D),
        ),
    ),
    (
        "adjoint of weights",
        lambda: (
            T.conv2d_backward_weight_python(g6 := r(2, 6, 3, 4), D, (3, 2), (2, 1), (1, 0), "NCHW", 2),
            of(relay.nn.conv2d_backward_weight(x(), x(), (2, 1), (1, 0), (1, 1), 2, 6, (3, 2)), g6, D),
        ),
    ),
    (
        "roi_align",
        lambda: (
            T.roi_align_nchw_python(D, BOXES, (2, 3), 0.5, 2),
            of(relay.vision.roi_align(x(), x(), (2, 3), 0.5, 2), D, BOXES),
        ),
    ),
    (
        "roi_align by size",
        lambda: (
            T.roi_align_nchw_python(D, BOXES, (2, 2), 1.0, -1, "max"),
            of(relay.vision.roi_align(x(), x(), (2, 2), 1.0, -1, mode="max"), D, BOXES),
        ),
    ),
    (
        "roi_pool",
        lambda: (
            T.roi_pool_nchw_python(D, BOXES, (2, 2), 0.5),
            of(relay.vision.roi_pool(x(), x(), (2, 2), 0.5), D, BOXES),
        ),
    ),
    (
        "crop_and_resize",
        lambda: (
            T.crop_and_resize_python(
                D,
                c4 := np.array([[0, 0.1, 0.9, 1.2], [0.2, 0, 1, 1]], np.float32),
                i2 := np.array([1, 0]),
                (3, 4),
                "NCHW",
                "bilinear",
                -1.0,
            ),
            of(relay.image.crop_and_resize(x(), x(), x(), (3, 4), "NCHW", "bilinear", -1.0), D, c4, i2),
        ),
    ),
    (
        "affine_grid",
        lambda: (
            T.affine_grid_python(a3 := r(2, 2, 3), (3, 4)),
            of(relay.image.affine_grid(x(), (3, 4)), a3),
        ),
    ),
    *[
        (
            f"grid_sample {method} {mode} {corners}",
            lambda method=method, mode=mode, corners=corners: (
                T.grid_sample_python(D, g2 := 1.4 * np.tanh(r(2, 2, 3, 3)), method, "NCHW", mode, corners),
                of(relay.image.grid_sample(x(), x(), method, "NCHW", mode, corners), D, g2),
            ),
        )
        for method in ("nearest", "bilinear", "bicubic")
        for mode in ("zeros", "border", "reflection")
        for corners in (True, False)
    ],
    *[
        (
            f"resize {method} {mode}",
            lambda method=method, mode=mode: (
                T.resize2d_python(D, (1.5, 2), "NCHW", method, mode),
                of(relay.image.resize2d(x(), (9, 10), method=method, coordinate_transformation_mode=mode), D),
            ),
        )
        for method in ("nearest_neighbor", "linear", "cubic")
        for mode in ("align_corners", "asymmetric", "half_pixel")
    ],
    ("reorg", lambda: (T.reorg_python(r8 := r(1, 8, 4, 4), 2), of(relay.vision.yolo_reorg(x(), 2), r8))),
    (
        "sequence_mask",
        lambda: (
            T.sequence_mask(V, n3 := np.array([1, 2, 0]), -1.0, 0),
            of(relay.sequence_mask(x(), x(), -1.0, 0), V, n3),
        ),
    ),
]


@pytest.mark.parametrize("case", [pytest.param(f, id=name) for name, f in CASES])
def test_references_agree(case: Callable[[], tuple[Any, Any]]) -> None:
    found, wanted = case()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
