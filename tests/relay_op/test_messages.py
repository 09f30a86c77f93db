"""What operators say of calls that are wrong: the rule, what was found, and the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright import relay
from tilewright.relay.typing.infer_type import infer_types
from tilewright.support.errors import DiagnosticError, OpNotImplemented


def v(*shape: int, dtype: str = "float32") -> relay.Var:
    return relay.var("x", shape=shape, dtype=dtype)


def ints(*values: Any) -> relay.Constant:
    return relay.const(np.array(values, np.int64))


CASES: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: relay.scatter_elements(v(3, 4), ints([0]), v(1, 2)),
        "scatter_elements, argument 2 (updates): indices and updates must have one shape, but they are [1, 1] and [1, 2]",
    ),
    (
        lambda: relay.scatter_nd(v(3, 4), ints([0, 1]), v(2, 3)),
        "scatter_nd, argument 2 (updates): updates must have the shape of indices without its first axis, then that of data without"
        " the indexed axes, but that is [2, 4], and they have [2, 3]",
    ),
    (
        lambda: relay.scatter_elements(v(3), ints(0), v(1), reduction="sub"),
        "scatter_elements: reduction must be one of update, add, mul, min, max, mean, but it is 'sub'",
    ),
    (
        lambda: relay.nn.mirror_pad(v(3, 4), ((0, 0), (0, 4)), "REFLECT"),
        "nn.mirror_pad, argument 0 (data): a mirror image must lie within what it mirrors, but axis 1 of 4 is padded by 0 and 4",
    ),
    (
        lambda: relay.nn.mirror_pad(v(3, 4), ((4, 0), (0, 4))),
        "nn.mirror_pad, argument 0 (data): a mirror image must lie within what it mirrors, but axis 0 of 3 is padded by 4 and 0",
    ),
    (
        lambda: relay.nn.pad(v(3, 4), ((0, 0), (-2, 2)), pad_mode="reflect"),
        "nn.pad, argument 0 (data): a mirror image must lie within what it mirrors, but axis 1 of 4 is padded by -2 and 2",
    ),
    (
        lambda: relay.searchsorted(v(2, 3), v(3, 3)),
        "searchsorted, argument 1 (values): all axes of both but the last must be the same, or the sequence have one axis, but"
        " they are [2, 3] and [3, 3]",
    ),
    (
        lambda: relay.einsum([v(2, 3), v(4, 5)], "ij,jk->ik"),
        "einsum, argument 0 (data): the equation must fit the operands, but einsum: the subscript 'j' stands for 3 and for 4",
    ),
    (
        lambda: relay.nn.lrn(v(1, 4, 2, 2), size=0),
        "nn.lrn: size must be positive, but it is 0",
    ),
    (
        lambda: relay.cast(v(2, 3), ""),
        "cast: dtype must be a type of numbers, but it is empty",
    ),
    (
        lambda: relay.cast(v(2, 3), "handle"),
        "cast: dtype must be a type of numbers, but it is handle",
    ),
    (
        lambda: relay.unique(v(2, 3)),
        "unique, argument 0 (data): data must have one axis, but it has 2 Reshape it to (-1,)",
    ),
    (
        lambda: relay.nn.conv3d(v(1, 4, 5, 5, 5), v(2, 3, 3, 3, 3)),
        "nn.conv3d, argument 1 (weight): the weights' input channels times groups must be the data's channels, but 3 times 1 is not 4",
    ),
    (
        lambda: relay.nn.conv1d_transpose(v(1, 4, 5), v(3, 2, 3)),
        "nn.conv1d_transpose, argument 1 (weight): the weights' input channels must be the data's channels, but they are 3 and 4",
    ),
    (
        lambda: relay.nn.conv2d(v(1, 4, 5, 5), v(2, 4, 3, 3), dilation=(-3, 1)),
        "nn.conv2d: strides and dilations must be positive, but a stride is 1, a dilation -3",
    ),
    (
        lambda: relay.nn.conv2d(v(1, 4, 5, 5), v(2, 4, 3, 3), data_layout="NCWD"),
        "nn.conv2d: data_layout must have the axes N, C, H, W, but it is NCWD",
    ),
    (
        lambda: relay.nn.conv2d_transpose(v(1, 4, 5, 5), v(4, 2, 3, 3), kernel_layout="OIHWO"),
        "nn.conv2d_transpose: kernel_layout must have the axes I, O, H, W, but it is OIHWO",
    ),
    (
        lambda: relay.nn.conv2d_transpose(v(1, 4, 5, 5), v(4, 2, 3, 3), strides=(2, 0)),
        "nn.conv2d_transpose: strides and dilations must be positive, but a stride is 0, a dilation 1",
    ),
    (
        lambda: relay.nn.conv1d_transpose(v(1, 4, 0), v(4, 2, 3)),
        "nn.conv1d_transpose, argument 0 (data): data must have places along every axis, but they are [1, 4, 0]",
    ),
    (
        lambda: relay.image.grid_sample(v(1, 2, 3, 3), v(1, 3, 2, 2)),
        "image.grid_sample, argument 1 (grid): the grid must have 2 channels, but it has 3",
    ),
    (
        lambda: relay.vision.roi_align(v(1, 2, 3, 3), v(4, 4), (2, 2), 1.0),
        "vision.roi_align, argument 1 (rois): a region has five numbers, but it has 4",
    ),
    (
        lambda: relay.random.uniform(v(10), (2,)),
        "random.uniform, argument 0 (key): a key is 10 numbers of uint64, but it is Tensor[(10,), float32] Use random.threefry_key",
    ),
    (
        lambda: relay.sparse_to_dense(ints([0, 1]), (3,), v(1)),
        "sparse_to_dense, argument 0 (sparse_indices): the indices must have a number for each axis of output_shape, but they are"
        " Tensor[(1, 2), int64] for (3,)",
    ),
    (
        lambda: relay.sliding_window(v(4), 0, (5,), (1,)),
        "sliding_window, argument 0 (data): the window must fit into the data, but it has 5 of 4",
    ),
    (
        lambda: relay.matrix_set_diag(v(3, 4), v(4)),
        "matrix_set_diag, argument 1 (diagonal): `diagonal` must have the batch's axes, one for several diagonals, and that of the"
        " longest, but that is [3], and it has [4]",
    ),
]


@pytest.mark.parametrize(("call", "text"), CASES)
def test_type_rules(call: Callable[[], Any], text: str) -> None:
    made = call()
    with pytest.raises(DiagnosticError) as found:
        infer_types(getattr(made, "tuple_value", made))
    assert " ".join(str(found.value).split()).startswith(" ".join(text.split()))


def test_operators_without_gradient_say_why() -> None:
    x, r = relay.var("x", shape=(1, 2, 4, 4)), relay.const(np.array([[0, 0, 0, 2, 2]], np.float32))
    body = relay.sum(relay.vision.roi_pool(x, r, (2, 2), 1.0))
    with pytest.raises(
        OpNotImplemented, match="vision.roi_pool has no gradient: use vision.roi_align with a sample_ratio"
    ):
        relay.transform.gradient(relay.Function([x], body))


@pytest.mark.parametrize("name", ["left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor"])
def test_floats_have_no_bits(name: str) -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,), dtype="int32")
    for operands in ((x, x), (y, x)):
        with pytest.raises(DiagnosticError, match="operands must be integers or bool"):
            relay.transform.InferType()(relay.IRModule.from_expr(getattr(relay, name)(*operands)))
