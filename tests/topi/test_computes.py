"""The form of computes: which stages they have, which indices they read, and that symbolic extents work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te, tir, topi
from tilewright.codegen import interp
from tilewright.relay.op.images.resize import resize2d


def run(
    result: te.Tensor | list[te.Tensor], tensors: list[te.Tensor], arrays: list[np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    out = np.zeros(shape, str(result.dtype))  # type: ignore[union-attr]
    interp.run(te.create_prim_func([*tensors, result]), [*arrays, out])
    return out


def text(t: te.Tensor) -> str:
    return str(t.op.body[0])


def stages(t: te.Tensor) -> list[str]:
    """Names of the stages behind a tensor."""
    names: list[str] = []

    def visit(x: te.Tensor) -> None:
        for i in x.op.input_tensors:
            visit(i)
        if x.op.name not in names and not isinstance(x.op, te.PlaceholderOp):
            names.append(x.op.name)

    visit(t)
    return names


@pytest.mark.parametrize(
    "old, new, divides",
    [
        ((1, 128, 768), (1, 128, 12, 64), False),
        ((1, 128, 12, 64), (1, 128, 768), True),
        ((2, 3), (2, 1, 3, 1), False),
        ((4, 1, 6), (24,), True),
        ((24,), (4, 6), False),
        ((1500, 0), (0, 30), False),
    ],
)
def test_reshape_divides_only_where_axes_merge(old: tuple[int, ...], new: tuple[int, ...], divides: bool) -> None:
    x = te.placeholder(old, name="x")
    y = topi.reshape(x, new)
    assert ("//" in text(y)) == divides
    a = np.random.default_rng(0).standard_normal(old).astype(np.float32)
    np.testing.assert_array_equal(run(y, [x], [a], new), a.reshape(new))


def test_reshape_keeps_a_symbol_apart() -> None:
    n = te.size_var("n")
    x = te.placeholder((n, 4, 6), name="x")
    y = topi.reshape(x, (n, 24))
    a = np.random.default_rng(0).standard_normal((3, 4, 6)).astype(np.float32)
    np.testing.assert_array_equal(run(y, [x], [a], (3, 24)), a.reshape(3, 24))
    assert "n" not in text(y)


def test_padding_is_a_stage_of_its_own() -> None:
    x, w = te.placeholder((1, 4, 8, 8), name="x"), te.placeholder((8, 4, 3, 3), name="w")
    assert stages(topi.nn.conv2d(x, w, 1, 1)) == ["pad_temp", "conv2d_nchw"]
    assert stages(topi.nn.conv2d(x, w, 1, 0)) == ["conv2d_nchw"]
    assert stages(topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), 0, "max")) == ["pool_max"]


def test_softmax_and_layer_norm_have_few_stages() -> None:
    x, g = te.placeholder((4, 16), name="x"), te.placeholder((16,), name="g")
    assert len(stages(topi.nn.softmax(x))) == 4
    assert len(stages(topi.nn.layer_norm(x, g, g, -1))) == 3


def test_symbolic_extents() -> None:
    n = te.size_var("n")
    rng = np.random.default_rng(1)
    x, w = te.placeholder((n, 6), name="x"), te.placeholder((4, 6), name="w")
    a, b = rng.standard_normal((5, 6)).astype(np.float32), rng.standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_allclose(run(topi.nn.dense(x, w), [x, w], [a, b], (5, 4)), a @ b.T, rtol=1e-5)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(run(topi.nn.softmax(x), [x], [a], (5, 6)), e / e.sum(1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(run(topi.mean(x, 0), [x], [a], (6,)), a.mean(0), rtol=1e-5)
    both = topi.concatenate([x, w], 0)
    np.testing.assert_array_equal(run(both, [x, w], [a, b], (9, 6)), np.concatenate([a, b]))


def test_symbolic_extent_that_is_one_broadcasts() -> None:
    n = te.size_var("n")
    x, y = te.placeholder((n, 3), name="x"), te.placeholder((4, 3), name="y")
    rng = np.random.default_rng(2)
    b = rng.standard_normal((4, 3)).astype(np.float32)
    for rows in (1, 4):
        a = rng.standard_normal((rows, 3)).astype(np.float32)
        np.testing.assert_allclose(run(topi.add(x, y), [x, y], [a, b], (4, 3)), a + b, rtol=1e-6)


def test_nearest_by_whole_factors_is_integer_arithmetic() -> None:
    x = te.placeholder((1, 1, 3, 4), name="x")
    y = topi.image.resize2d(x, None, (6, 8), method="nearest_neighbor", coordinate_transformation_mode="asymmetric")
    assert "float" not in text(y)


@pytest.mark.parametrize(
    "size, target, mode",
    [((8, 12), (4, 6), "half_pixel"), ((9, 6), (3, 2), "half_pixel"), ((4, 15), (2, 5), "asymmetric"), ((9, 13), (5, 4), "align_corners")],
)  # fmt: skip
@pytest.mark.parametrize("method", ["linear", "cubic"])
def test_blends_by_whole_steps_have_integer_places(method: str, size: Any, target: Any, mode: str) -> None:
    x = te.placeholder((2, 3, *size), name="x")
    y = topi.image.resize2d(x, None, target, method=method, coordinate_transformation_mode=mode, bicubic_alpha=-0.75)
    assert "floor(" not in text(y)
    a = np.random.default_rng(0).standard_normal((2, 3, *size), np.float32)
    card = resize2d.from_fields(target, None, "NCHW", method, mode, "", -0.75, 0, 0.0, None)
    np.testing.assert_allclose(run(y, [x], [a], (2, 3, *target)), card.ref(a), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda x: topi.layout_transform(x, "NCHW", "NCHWc"),
            "'NCHWc' is not a layout: a block axis is a lower-case letter after its size, as in 16c; found c",
        ),
        (lambda x: topi.nn.pool2d(x, (2, 2), (1, 1), (1, 1), 0, "sum"), 'pool_type must be "max" or "avg", but is \'sum\''),
        (lambda x: topi.nn.softmax(x, 7), "axis must lie in [-4, 4), but is 7"),
        (lambda x: topi.nn.global_pool(x, "max", "NCHW4h"), "pooling needs H, W as whole axes of the layout, but it is NCHW4h"),
        (lambda x: topi.utils.get_const_int(tir.Var("n", "int32")), "a constant integer is needed here, but the expression n is symbolic"),
    ],
)  # fmt: skip
def test_errors(call: Any, message: str) -> None:
    with pytest.raises(ValueError) as info:
        call(te.placeholder((1, 4, 8, 8), name="x"))
    assert str(info.value) == message


def test_broadcast_error() -> None:
    with pytest.raises(ValueError, match=r"shapes \[\[2, 3\], \[2, 4\]\] do not broadcast: 3 against 4 at axis 1"):
        topi.add(te.placeholder((2, 3)), te.placeholder((2, 4)))


def test_gathered_indices_beyond_the_ends() -> None:
    """Nothing beside the tensor is read."""
    data, at = te.placeholder((3, 4), "float32", "data"), te.placeholder((3, 5), "int64", "at")
    values, where = np.arange(12, dtype="float32").reshape(3, 4), np.array([[-4, -5, 3, 4, 10**12]] * 3)
    wanted = {0: [0, 0, 3, 3, 3], 1: [4, 4, 7, 7, 7], 2: [8, 8, 11, 11, 11]}
    made = tvm.nd.array(np.zeros((3, 5), "float32"))
    tvm.build(te.create_prim_func([data, at, topi.gather(data, 1, at)]), target="llvm")(
        tvm.nd.array(values), tvm.nd.array(where), made
    )
    np.testing.assert_array_equal(made.numpy(), [wanted[i] for i in range(3)])
    pairs = te.placeholder((2, 4), "int32", "pairs")
    found = tvm.nd.array(np.zeros(4, "float32"))
    tvm.build(te.create_prim_func([data, pairs, topi.gather_nd(data, pairs)]), target="llvm")(
        tvm.nd.array(values), tvm.nd.array(np.array([[0, -9, 7, 2**30], [-1, 9, -7, -(2**30)]], "int32")), found
    )
    np.testing.assert_array_equal(found.numpy(), [3, 3, 8, 8])


@pytest.mark.parametrize(
    ("data_layout", "kernel_layout", "out_layout"),
    [
        ("NCHW", "OIHW", ""),
        ("NHWC", "HWIO", ""),
        ("NHWC", "OHWI", ""),
        ("CHWN", "IHWO", "NCHW"),
        ("NCHW", "OIHW", "NHWC"),
    ],
)
def test_convolutions_in_any_layouts_are_one(data_layout: str, kernel_layout: str, out_layout: str) -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.standard_normal((1, 4, 5, 6), np.float32), rng.standard_normal((6, 2, 3, 2), np.float32)
    arrays = [
        np.ascontiguousarray(a.transpose([plain.index(c) for c in layout]))
        for a, plain, layout in ((data, "NCHW", data_layout), (weight, "OIHW", kernel_layout))
    ]
    x, w = (te.placeholder(a.shape, "float32") for a in arrays)
    made = topi.nn.conv(x, w, (2, 1), (1, 0), 1, 2, data_layout, kernel_layout, out_layout=out_layout)
    expected = topi.testing.conv2d_nchw_python(data, weight, (2, 1), (1, 0), 2)
    expected = expected.transpose(["NCHW".index(c) for c in out_layout or data_layout])
    np.testing.assert_allclose(run(made, [x, w], arrays, expected.shape), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "arguments", "text"),
    [
        (((1, 4, 5, 5), (6, 4, 3, 3)), ((1, 1, 1), 0, 1),
         "there must be one number, or one for each of 2 axes, but there are 3: [1, 1, 1]"),
        (((1, 4, 5, 5), (6, 4, 3, 3)), (1, (1, 1, 1), 1), "padding must have 1, 2 or 4 numbers, but has 3"),
        (((1, 2, 5, 5, 4), (6, 8, 3, 3)), (1, 0, 1, 1, "NCHW4c", "OIHW"),
         "conv has no compute for data in NCHW4c with weights in OIHW: it takes plain layouts, such as NCHW with OIHW, or NHWC with HWIO"),
        (((1, 5, 5, 6), (3, 3, 2, 4)), (1, 0, 1, 4, "NHWC", "HWIO"),
         "conv: weights in HWIO for 2 channels of 4 groups do not fit 6 channels"),
        (((1, 1, 8, 8, 1, 16), (1, 1, 3, 3, 16, 16)), (1, 1, (2, 2), 1, "NCHW1n16c", "OIHW16o16i"),
         "conv: data in NCHW1n16c takes kernels without dilation, not with (2, 2)"),
    ],
)  # fmt: skip
def test_convolutions_that_do_not_fit_are_refused(shapes: Any, arguments: Any, text: str) -> None:
    x, w = (te.placeholder(s, "float32") for s in shapes)
    with pytest.raises(ValueError) as info:
        topi.nn.conv(x, w, *arguments)
    assert str(info.value) == text


@pytest.mark.parametrize("keepdims", [False, True])
def test_the_place_among_one_is_not_searched(keepdims: bool) -> None:
    x = te.placeholder((3, 1, 5), name="x")
    y = topi.argmax(x, axis=1, keepdims=keepdims)
    assert stages(y) == ["T_arg"] and not y.op.reduce_axis  # type: ignore[attr-defined]
    shape = (3, 1, 5) if keepdims else (3, 5)
    np.testing.assert_array_equal(run(y, [x], [np.ones((3, 1, 5), "float32")], shape), np.zeros(shape))
