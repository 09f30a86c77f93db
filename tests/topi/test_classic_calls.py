"""Computes as classic programs call them: by keyword, with numbers and expressions, with shapes of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.topi.values import results
from tilewright import te, tir, topi
from tilewright.codegen import interp

RNG = np.random.default_rng(11)


def r(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("float32")


def whole(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


A, B, C = r(4, 6), r(6, 3), r(2, 3, 4)
I = np.array([[5, -7], [1000, -123456]], np.int32)
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "add": (lambda x, y: topi.add(lhs=x, rhs=y), (A, A), A + A),
    "add a number": (lambda x: topi.add(2.5, x), (A,), A + np.float32(2.5)),
    "shifts": (lambda x: topi.right_shift(x=topi.left_shift(x=x, n=3), n=1), (I,), I << 3 >> 1),
    "bitwise_not": (lambda x: topi.bitwise_not(data=x), (I,), ~I),
    "logical_not": (lambda x: topi.logical_not(data=x), (I > 0,), I <= 0),
    "cast": (lambda x: topi.cast(x=x, dtype="int32", span=None), (3 * A,), (3 * A).astype("int32")),
    "reinterpret": (lambda x: topi.reinterpret(x, "int32"), (A,), A.view("int32")),
    "fixed_point": (lambda x: topi.fixed_point_multiply(x=x, multiplier=1 << 30, shift=1), (I,), I),
    "fixed_point_per_axis": (
        lambda x, y, l, s: topi.fixed_point_multiply_per_axis(x, y, l, s, 1, 1, [-1]),
        (I, whole(1 << 30, 1 << 30), whole(1, 2), whole(0, 1)), np.stack([I[:, 0], I[:, 1]], 1),
    ),
    "elemwise_sum": (lambda x, y, z: topi.elemwise_sum(xs=[x, y, z]), (A, A, A), A + A + A),
    "fast_tanh": (topi.fast_tanh, (A,), np.tanh(A)),
    "matmul": (lambda x, y: topi.matmul(a=x, b=y, transp_a=True, transp_b=True), (A.T.copy(), B.T.copy()), A @ B),
    "tensordot": (lambda x, y: topi.tensordot(x, y, axes=1), (C, r(4, 2)), None),
    "tensordot of pairs": (lambda x, y: topi.tensordot(a=x, b=y, axes=((2, 0), (1, 2))), (C, r(5, 4, 2)), None),
    "tensordot without axes": (lambda x, y: topi.tensordot(x, y, 0), (A[0], B[0]), None),
    "reshape": (lambda x: topi.reshape(a=x, newshape=(3, 8)), (A,), A.reshape(3, 8)),
    "transpose": (lambda x: topi.transpose(a=x, axes=(2, 0, 1)), (C,), C.transpose(2, 0, 1)),
    "expand_dims": (lambda x: topi.expand_dims(a=x, axis=1, num_newaxis=2), (A,), A[:, None, None]),
    "expand_like": (lambda x, y: topi.expand_like(a=x, shape_like=y, axis=[1]), (r(2, 4), C), None),
    "squeeze": (lambda x: topi.squeeze(a=x, axis=0), (A[None],), A),
    "concatenate": (lambda x, y: topi.concatenate(a_tuple=(x, y), axis=1), (A, A), np.concatenate([A, A], 1)),
    "stack": (lambda x, y: topi.stack(a=(x, y), axis=1), (A, A), np.stack([A, A], 1)),
    "split": (lambda x: topi.split(ary=x, indices_or_sections=[2], axis=1)[1], (A,), A[:, 2:]),
    "slice": (lambda x: topi.strided_slice(a=x, begin=[1, 4], end=[4, 0], strides=[2, -1], slice_mode="end"), (A,), A[1:4:2, 4:0:-1]),
    "slice of sizes": (lambda x: topi.strided_slice(x, [1, 2], [2, -1], strides=[7, 7], slice_mode="size"), (A,), A[1:3, 2:]),
    "slice to the end": (lambda x: topi.strided_slice(x, [1, 4], None, [1, -2]), (A,), A[1:, 4::-2]),
    "dynamic slice": (
        lambda x, b, e, s: topi.dynamic_strided_slice(x, b, e, s, (2, 2)),
        (A, whole(-3, 9), whole(4, 1), whole(2, -2)), A[-3:4:2, 9:1:-2],
    ),
    "tile": (lambda x: topi.tile(a=x, reps=(2, 1, 1)), (A,), np.tile(A, (2, 1, 1))),
    "repeat": (lambda x: topi.repeat(a=x, repeats=2, axis=1), (A,), np.repeat(A, 2, 1)),
    "flip": (lambda x: topi.flip(a=x, axis=1), (A,), A[:, ::-1]),
    "layout": (
        lambda x: topi.layout_transform(array=x, src_layout="NCHW", dst_layout="NCHW2c", schedule_rule="None"),
        (x4 := r(1, 4, 2, 3),), x4.reshape(1, 2, 2, 2, 3).transpose(0, 1, 3, 4, 2),
    ),
    "shape": (lambda x: topi.shape(array=x, dtype="int64"), (C,), np.array(C.shape)),
    "ndarray_size": (lambda x: topi.ndarray_size(array=x), (C,), np.array(24, np.int32)),
    "gather_nd": (lambda x, i: topi.gather_nd(a=x, indices=i), (A, whole([0, 3], [5, 1])), A[[0, 3], [5, 1]]),
    "unravel_index": (
        lambda i, s: topi.unravel_index(indices=i, shape=s), (whole(7, 11), whole(3, 4)),
        np.array(np.unravel_index([7, 11], (3, 4)), np.int32),
    ),
    "argwhere": (
        lambda x: topi.argwhere(output_shape=(3, 2), condition=x), (m := whole([0, 2, 0], [1, 0, 3]),), np.argwhere(m).astype("int32"),
    ),
    "argwhere with rows to spare": (
        lambda x: topi.hybrid_argwhere_2d((5, 2), x), (m,), np.concatenate([np.argwhere(m), np.zeros((2, 2))]).astype("int32"),
    ),
    "argwhere with fewer rows": (lambda x: topi.argwhere((2, 2), x), (m,), np.argwhere(m)[:2].astype("int32")),
    "scanop": (
        lambda x: topi.scanop(data=x, binop=lambda a, b: a * b, identity_value=1, op_name="prod", axis=1, dtype="float32", exclusive=False),
        (A,), np.cumprod(A, 1),
    ),
    "prod": (lambda x: topi.prod(data=x, axis=1, keepdims=True), (A,), A.prod(1, keepdims=True)),
    "const_matrix": (lambda: topi.utils.const_matrix(A[:2, :3]), (), A[:2, :3]),
    "const_vector": (lambda: topi.utils.const_vector(A[0]), (), A[0]),
}  # fmt: skip
NUMPY: dict[str, Callable[..., Any]] = {
    "tensordot": lambda x, y: np.tensordot(x, y, 1),
    "tensordot of pairs": lambda x, y: np.tensordot(x, y, ((2, 0), (1, 2))),
    "tensordot without axes": lambda x, y: np.tensordot(x, y, 0),
    "expand_like": lambda x, y: np.broadcast_to(x[:, None], y.shape),
}


@pytest.mark.parametrize("name", CASES)
def test_call(name: str) -> None:
    form, arrays, wanted = CASES[name]
    (found,) = results(form, *arrays)
    wanted = NUMPY[name](*arrays) if wanted is None else wanted
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_expressions() -> None:
    n = te.var("n")
    assert isinstance(topi.add(n, 2), tir.Add)
    assert isinstance(topi.maximum(2, n), tir.Max)
    assert topi.cast(n, "int64").dtype == "int64"


@pytest.mark.parametrize("value, wanted", [(1, 0), (2, 1), (3, 2), (1 << 30, 30), ((1 << 30) + 1, 31)])
def test_ceil_log2(value: int, wanted: int) -> None:
    x = te.placeholder((1,), "int32", "x")
    form = te.compute((1,), lambda i: topi.ceil_log2(x[i]))
    out = np.zeros(1, np.int32)
    interp.run(te.create_prim_func([x, form]), [np.array([value], np.int32), out])
    assert out[0] == wanted


def test_sparse_fill_empty_rows() -> None:
    indices, values = np.array([[3, 1], [0, 2], [3, 0]], np.int64), np.array([1, 2, 3], np.float32)
    found = results(
        lambda i, v, s, d: topi.sparse_fill_empty_rows(i, v, s, d, (5, 2), (5,), (4,)),
        indices, values, np.array([4, 3], np.int64), np.array([9], np.float32),
    )  # fmt: skip
    np.testing.assert_array_equal(found[0], [[0, 2], [1, 0], [2, 0], [3, 1], [3, 0]])
    np.testing.assert_array_equal(found[1], [2, 9, 9, 1, 3])
    np.testing.assert_array_equal(found[2], [False, True, True, False])


def test_binary_search() -> None:
    def generate(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        s, v, o = (ib.buffer_ptr(b) for b in (*ins, *outs))
        with ib.for_range(0, 3, "k") as k:
            o[k] = topi.binary_search(ib, 4, 4, s, v[k], True, "int32")
        return ib.get()

    s = np.array([9, 9, 9, 9, 1, 2, 2, 5], np.float32)
    (found,) = results(
        lambda a, b: te.extern((3,), [a, b], generate, dtype="int32"), s, np.array([0, 2, 7], np.float32)
    )
    np.testing.assert_array_equal(found, [0, 3, 4])


def test_tensordot_refuses_extents_that_differ() -> None:
    a, b = te.placeholder((2, 3)), te.placeholder((4, 2))
    with pytest.raises(ValueError, match=r"axes \[1\] of \[2, 3\] and \[0\] of \[4, 2\] must be as many, and as long"):
        topi.tensordot(a, b, 1)


def test_index_utils() -> None:
    U = topi.utils
    assert U.get_max_power2_factor(48) == 16 and U.get_max_power2_factor(48, 8) == 8
    assert U.get_shape((1, 16, 4, 5), "NCHW", "NHWC") == (1, 4, 5, 16)
    assert U.get_shape((1, 16, 4, 5), "NCHW", "NCHW4c") == (1, 4, 4, 5, 4)
    assert U.swap([0, 1, 2, 3], 1) == [0, 3, 2, 1]
    assert U.ravel_index((1, 2), (3, 4)) == 6 and U.unravel_index(6, (3, 4)) == [1, 2]
    assert U.nchw_xc_layout("NCHW16c") and not U.nchw_xc_layout("NCHW") and U.nchw_pack_layout("NCHW1n16c")
    assert U.ncw_xc_layout("NCW8c") and U.ncw_pack_layout("NCW1n8c") and not U.ncw_pack_layout("NCW8c")
    assert U.equal_const_int(tir.const(3, "int32"), 3) and not U.equal_const_int(te.var("n"), 3)
    assert U.get_float_tuple([0.5, tir.const(0.25, "float32")]) == (0.5, 0.25)
    assert U.is_empty_shape([2, 0]) and U.is_dynamic_shape([te.var("n"), 2])
    with pytest.raises(ValueError, match="a constant float is needed here"):
        U.get_const_float(te.var("x", "float32"))


@pytest.mark.parametrize("b, e, s", [(1, 7, 2), (6, 1, -2), (5, -1, -1), (0, 8, 3), (20, 2, -3)])
def test_index_in_a_slice(b: int, e: int, s: int) -> None:
    places = {i: k for k, i in enumerate(range(min(b, 7), e, s))}

    def of(f: Callable[..., Any], dtype: str) -> np.ndarray[Any, Any]:
        bounds = te.placeholder((3,), "int32", "bounds")
        made = te.compute((8,), lambda i: f(*[bounds[k] for k in range(3)], i).astype(dtype))
        out = np.zeros(8, dtype)
        interp.run(te.create_prim_func([bounds, made]), [np.array([min(b, 7), e, s], np.int32), out])
        return out

    within = of(topi.utils.within_index, "int32")
    assert within.tolist() == [int(i in places) for i in range(8)]
    at = of(lambda b, e, s, i: topi.utils.make_idx(b, e, s, 8, i), "int32")
    assert {i: at[i] for i in places} == places


def test_traverse_inline() -> None:
    x, w = te.placeholder((4, 8), name="x"), te.placeholder((3, 8), name="w")
    made = topi.nn.relu(topi.add(topi.nn.dense(x, w), 1.0))
    s, seen = te.create_schedule(made.op), []
    topi.utils.traverse_inline(s, made.op, lambda op: seen.append(op.tag))
    assert seen[0] == "matmul" and len(seen) == 3
